//! [`Subscribe`], the settings and callbacks of a handler or stream that is about to be registered.
//!
//! - **In:** settings; closures, an [`EventHandler`], or the request for a stream.
//! - **Out:** a registration with an informer, or with all members of a view.
//! - **Knows nothing of:** how handlers are called.

use std::{marker::PhantomData, panic::Location, sync::Arc, time::Duration};

use futures_util::FutureExt;

use super::{
    AnyInformer,
    register::{Members, SubscribeOptions},
};
use crate::{
    Cached, Deleted, Event, Key, Origin,
    error::RequestError,
    object::Erased,
    subscribers::{
        AnyHandler, BatchCallback, BufferPolicy, Closures, EventHandler, EventStream, Filter, Registration, WorkerKind,
        erase_handler,
    },
};

/// A handler or stream that is about to be registered with an informer, or with all members of a view; from
/// [`SharedInformer::subscribe`](super::SharedInformer::subscribe) and [`View::subscribe`](crate::View::subscribe). Programs need
/// not name its last two parameters: `A` is the address of an object in the view, and `C` makes the compiler refuse [`stream`](Self::stream) and
/// [`handler`](Self::handler) after a callback.
///
/// There are three ways to finish it:
///
/// - closures ([`on_add`](Self::on_add), [`on_update`](Self::on_update) and others, or [`on_event`](Self::on_event) for all events), then [`register`](Self::register);
/// - a type of your own that implements [`EventHandler`]: [`handler`](Self::handler);
/// - a [`stream`](Self::stream) of the events.
///
/// ```
/// use std::time::Duration;
/// use informant::{Event, SharedInformerFactory};
/// use informant_apiserver::ApiServer;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ApiServer::new();
/// server.put("configmaps", json!({"metadata": {"namespace": "shop", "name": "opening-hours"}}))?;
/// server.put("configmaps", json!({"metadata": {"namespace": "home", "name": "alarm-clock"}}))?;
/// # let client = server.client();
/// let factory = SharedInformerFactory::new(client);
/// let configs = factory.informer::<ConfigMap>();
/// let mut events = configs
///     .subscribe()
///     .named("shop watcher")
///     .filter(|config| config.key().namespace() == Some("shop"))
///     .coalesce_above(1000)
///     .stream()?;
/// configs.start();
///
/// let Some(Event::Added { object, .. }) = events.next().await else { panic!("there is one") };
/// assert_eq!(object.key().as_str(), "shop/opening-hours");
/// assert!(matches!(events.next().await, Some(Event::Synced)));
/// # configs.stop().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Callbacks
///
/// The informer calls the closures for one event at a time, in order, as it calls an [`EventHandler`]. So a callback may
/// change what it captures, without a lock. Events that have no callback are ignored. A callback that is set a second time, in
/// either form, replaces the first one.
///
/// ```
/// use informant::SharedInformerFactory;
/// use informant_apiserver::ApiServer;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ApiServer::new();
/// server.put("configmaps", json!({"metadata": {"namespace": "shop", "name": "opening-hours"}}))?;
/// # let client = server.client();
/// let factory = SharedInformerFactory::new(client);
/// let configs = factory.informer::<ConfigMap>();
/// let mut adds = 0;
/// let registration = configs
///     .subscribe()
///     .named("printer")
///     .on_add(move |config, origin| {
///         adds += 1;
///         println!("+ {} ({origin:?}), number {adds}", config.key());
///     })
///     .on_update(|old, new| println!("~ {} {} → {}", new.key(), old.version(), new.version()))
///     .on_delete(|config| println!("- {}", config.key()))
///     .register()?;
/// configs.start();
/// registration.synced().await?;
/// # configs.stop().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Async callbacks
///
/// The methods that end in `_async` take a function from owned objects to a future. The next event is delivered when the future has
/// completed, whether the next event's callback is async or not. A slow future delays only this handler: the cache and other handlers go on, and
/// the handler's events wait, as they do for a slow handler ([`coalesce_above`](Self::coalesce_above) bounds them). If a future
/// panics, the panic is logged and counted, and the handler receives its next event a second later.
///
/// [`stop`](super::SharedInformer::stop) of the informer and of the [`Registration`] wait until the running future has completed, and start no
/// other one. They do not cancel it: a future that may wait for long should have a timeout. If the runtime shuts down, a
/// running future is dropped at its current await point; with [`register_blocking`](Self::register_blocking) it goes on, on its own thread.
///
/// ```
/// use informant::SharedInformerFactory;
/// use informant_apiserver::ApiServer;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ApiServer::new();
/// server.put("configmaps", json!({"metadata": {"namespace": "shop", "name": "opening-hours"}}))?;
/// # let client = server.client();
/// let factory = SharedInformerFactory::new(client);
/// let configs = factory.informer::<ConfigMap>();
/// let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
/// let registration = configs
///     .subscribe()
///     .on_add_async(move |config, _origin| {
///         // Called for each event; the future owns what it needs.
///         let sender = sender.clone();
///         async move {
///             // Waits while the channel is full. An error means that the receiver is gone.
///             let _ = sender.send(config).await;
///         }
///     })
///     .on_delete(|config| println!("- {}", config.key()))
///     .register()?;
/// configs.start();
///
/// let config = receiver.recv().await.ok_or("no object")?;
/// assert_eq!(config.key().name(), "opening-hours");
/// # drop(registration);
/// # configs.stop().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Callbacks that read and write other objects
///
/// - **Other caches.** The callbacks of one informer can run before another informer has its initial list. A callback that reads another
///   informer's cache first awaits that informer's [`synced`](super::SharedInformer::synced).
/// - **Failed writes.** A callback is not called again for the same event. To try again later, set
///   [`resync_every`](super::InformerBuilder::resync_every) of the informer: the callback for updates then receives every object once per period (`on_event` receives [`Event::Resynced`]).
/// - **Own writes.** [`wait_for_write`](super::SharedInformer::wait_for_write) waits until a cache shows what a callback has written.
/// - **Stopping.** If a callback waits for another informer, stop its [`Registration`] before the factory, with a time limit: once the other informer
///   has stopped, the wait fails. Stop the factory even if the time limit has passed.
///
/// # Views
///
/// One member at a time calls the handler. [`on_synced`](Self::on_synced) is called once, when all members are synced; if a member stops before that, it
/// is never called. There is no order between the events of different members. If one member refuses the handler, it is registered with
/// no member.
#[must_use = "nothing is registered yet: call `register`, `handler`, `blocking_handler` or `stream`"]
pub struct Subscribe<'a, O, A = Key, C = ()> {
    subscribe: AnySubscribe<'a>,
    types: PhantomData<fn(A, O, C) -> O>,
}

/// Marks a [`Subscribe`] that has callbacks. Only [`register`](Subscribe::register) and
/// [`register_blocking`](Subscribe::register_blocking) finish it: a stream or another handler would not call them.
///
/// ```compile_fail,E0599
/// # fn of_informer(pods: informant::SharedInformer<k8s_openapi::api::core::v1::Pod>) {
/// let _ = pods.subscribe().on_delete(|_| ()).stream();
/// # }
/// ```
pub enum HasCallbacks {}

/// A `Subscribe` without its types.
struct AnySubscribe<'a> {
    members: Members<'a>,
    name: Option<Arc<str>>,
    filter: Option<Filter>,
    resync: Option<Duration>,
    policy: BufferPolicy,
    closures: Closures,
    /// Receives all events, in place of the closures.
    batches: Option<BatchCallback>,
    /// The call of `subscribe`.
    made_at: &'static Location<'static>,
}

impl<'a, O: 'static, A> Subscribe<'a, O, A> {
    #[track_caller]
    pub(crate) fn new(name: &'a Arc<str>, informers: Vec<&'a AnyInformer>) -> Self {
        let subscribe = AnySubscribe {
            members: Members { name, informers },
            name: None,
            filter: None,
            resync: None,
            policy: BufferPolicy::Unbounded,
            closures: Closures::default(),
            batches: None,
            made_at: Location::caller(),
        };
        Self { subscribe, types: PhantomData }
    }

    /// Registers a handler in place of callbacks. A task (for a view, one for each member) calls it, so it must not block.
    ///
    /// # Errors
    ///
    /// As for [`register`](Subscribe::register).
    pub fn handler(self, handler: impl EventHandler<O>) -> Result<Registration, RequestError> {
        let name = handler.name();
        self.subscribe.add_handler(erase_handler(handler), name, WorkerKind::Task)
    }

    /// Registers a handler in place of callbacks. A thread of its own calls it, so it may block. In a view, each member has a thread for
    /// it, and the threads take turns.
    ///
    /// # Errors
    ///
    /// As for [`register`](Self::register).
    pub fn blocking_handler(self, handler: impl EventHandler<O>) -> Result<Registration, RequestError> {
        let name = handler.name();
        self.subscribe.add_handler(erase_handler(handler), name, WorkerKind::Thread)
    }

    /// Registers a stream in place of callbacks; it returns the events one by one.
    ///
    /// # Errors
    ///
    /// As for [`register`](Self::register).
    pub fn stream(self) -> Result<EventStream<O>, RequestError> {
        let (members, options) = self.subscribe.into_parts("stream".into());
        members.add_stream(options).map(|(members, registration)| EventStream::new(members, registration))
    }
}

impl<'a, O: 'static, A, C> Subscribe<'a, O, A, C> {
    /// Sets the name in logs, errors and metrics. Default: the handler's [own name](EventHandler::name); for callbacks the place in the
    /// code that called `subscribe`; for streams "stream".
    pub fn named(mut self, name: impl Into<Arc<str>>) -> Self {
        self.subscribe.name = Some(name.into());
        self
    }

    /// Delivers only events of objects for which `passes` returns true. An object that begins to pass is delivered as an add, and one
    /// that no longer passes as a delete ([`Observed`](crate::Deleted::Observed), with the state that was delivered last). An object at
    /// which `passes` panics does not pass. Default: all objects pass.
    ///
    /// `passes` may read other caches. It is called for each new state of an object, and again when the object is resynced, but not when
    /// something else that it reads changes; set a [resync period](Self::resync_every) if it must notice such changes. The delete of an object
    /// that was delivered is always delivered, too.
    ///
    /// For this, the keys of the objects that passed are kept, which takes 29 to 57 bytes for each of them.
    pub fn filter(mut self, passes: impl Fn(&Cached<O>) -> bool + Send + Sync + 'static) -> Self {
        self.subscribe.filter = Some(Arc::new(move |object: &Cached<Erased>| passes(object.typed_ref())));
        self
    }

    /// Replays the whole cache to the handler this often, as [`Resynced`](crate::Event::Resynced) events. This has no effect, and logs a
    /// warning, if the informer itself does not resync, which is the default: set its period with
    /// [`InformerBuilder::resync_every`](super::InformerBuilder::resync_every) or
    /// [`FactoryBuilder::resync_every`](crate::factory::FactoryBuilder::resync_every).
    ///
    /// The period is at least a second, and is rounded up to a multiple of the period at which the informer checks for due resyncs.
    /// If the informer has not started, and this period is shorter than the periods of all other handlers, the informer checks as often as this
    /// period requires. A handler with a period also receives the unchanged objects of a relist. Zero means never. Default: the informer's period.
    ///
    /// While `Resynced` events of one resync still wait for the handler, further resyncs are skipped, and counted in
    /// [`resyncs_skipped`](crate::subscribers::HandlerStatus::resyncs_skipped). So at most one resync waits for a handler that is slower than
    /// its period, and changes never wait behind several resyncs. A `Resynced` event that [`coalesce_above`](Self::coalesce_above) has merged
    /// into a change of the same object no longer counts as waiting.
    pub fn resync_every(mut self, period: Duration) -> Self {
        self.subscribe.resync = Some(period);
        self
    }

    /// Coalesces the waiting events of each object when more than this many events wait: the handler receives the newest state without
    /// the states in between; at most two events of each object wait, and up to 64 more that the handler is about to receive. Default: no
    /// limit, every event is delivered.
    pub fn coalesce_above(mut self, events: usize) -> Self {
        self.subscribe.policy = BufferPolicy::Coalesce { above: events };
        self
    }

    /// Calls `callback` with each object that is added, and whether the object is part of the initial list.
    pub fn on_add(
        mut self,
        mut callback: impl FnMut(&Cached<O>, Origin) + Send + 'static,
    ) -> Subscribe<'a, O, A, HasCallbacks> {
        self.subscribe.closures.on_add = Some(Box::new(move |object, origin| {
            callback(object.typed_ref(), origin);
            None
        }));
        self.with_callbacks()
    }

    /// As [`on_add`](Self::on_add), and awaits the future that `callback` returns; see [async callbacks](#async-callbacks).
    pub fn on_add_async<F>(
        mut self,
        mut callback: impl FnMut(Cached<O>, Origin) -> F + Send + 'static,
    ) -> Subscribe<'a, O, A, HasCallbacks>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.subscribe.closures.on_add =
            Some(Box::new(move |object, origin| Some(callback(object.clone().typed(), origin).boxed())));
        self.with_callbacks()
    }

    /// Calls `callback` with the old and the new state of each object that changes.
    pub fn on_update(
        mut self,
        mut callback: impl FnMut(&Cached<O>, &Cached<O>) + Send + 'static,
    ) -> Subscribe<'a, O, A, HasCallbacks> {
        self.subscribe.closures.on_update = Some(Box::new(move |old, new| {
            callback(old.typed_ref(), new.typed_ref());
            None
        }));
        self.with_callbacks()
    }

    /// As [`on_update`](Self::on_update), and awaits the future that `callback` returns; see [async callbacks](#async-callbacks).
    pub fn on_update_async<F>(
        mut self,
        mut callback: impl FnMut(Cached<O>, Cached<O>) -> F + Send + 'static,
    ) -> Subscribe<'a, O, A, HasCallbacks>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.subscribe.closures.on_update =
            Some(Box::new(move |old, new| Some(callback(old.clone().typed(), new.clone().typed()).boxed())));
        self.with_callbacks()
    }

    /// Calls `callback` with each object that is deleted.
    pub fn on_delete(
        mut self,
        mut callback: impl FnMut(&Deleted<O>) + Send + 'static,
    ) -> Subscribe<'a, O, A, HasCallbacks> {
        self.subscribe.closures.on_delete = Some(Box::new(move |deleted| {
            callback(&deleted.clone().typed());
            None
        }));
        self.with_callbacks()
    }

    /// As [`on_delete`](Self::on_delete), and awaits the future that `callback` returns; see [async callbacks](#async-callbacks).
    pub fn on_delete_async<F>(
        mut self,
        mut callback: impl FnMut(Deleted<O>) -> F + Send + 'static,
    ) -> Subscribe<'a, O, A, HasCallbacks>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.subscribe.closures.on_delete =
            Some(Box::new(move |deleted| Some(callback(deleted.clone().typed()).boxed())));
        self.with_callbacks()
    }

    /// Calls `callback` once, after the last object of the initial list.
    pub fn on_synced(mut self, mut callback: impl FnMut() + Send + 'static) -> Subscribe<'a, O, A, HasCallbacks> {
        self.subscribe.closures.on_synced = Some(Box::new(move || {
            callback();
            None
        }));
        self.with_callbacks()
    }

    /// As [`on_synced`](Self::on_synced), and awaits the future that `callback` returns; see [async callbacks](#async-callbacks).
    pub fn on_synced_async<F>(
        mut self,
        mut callback: impl FnMut() -> F + Send + 'static,
    ) -> Subscribe<'a, O, A, HasCallbacks>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.subscribe.closures.on_synced = Some(Box::new(move || Some(callback().boxed())));
        self.with_callbacks()
    }

    /// Calls `callback` with each event, except those for which another callback is set. The closure owns the event.
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use informant::{Event, SharedInformer, testing::ScriptedSource};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use serde_json::json;
    /// use tokio::sync::watch;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> informant::Result<()> {
    /// let (source, handle) = ScriptedSource::live();
    /// handle.added(json!({"metadata": {"namespace": "shop", "name": "hours"}}));
    /// let configs = SharedInformer::<ConfigMap>::new(source);
    ///
    /// let mut objects = HashMap::new(); // the closure's own state, which needs no lock
    /// let (count, counted) = watch::channel(0);
    /// let registration = configs
    ///     .subscribe()
    ///     .on_event(move |event| {
    ///         match event {
    ///             Event::Added { object, .. } | Event::Updated { new: object, .. } | Event::Resynced(object) => {
    ///                 objects.insert(object.key().clone(), object);
    ///             }
    ///             Event::Deleted(config) => drop(objects.remove(config.key())),
    ///             Event::Synced => println!("the initial list is complete"),
    ///         }
    ///         count.send_replace(objects.len());
    ///     })
    ///     .register()?;
    /// configs.start();
    /// registration.synced().await?;
    /// assert_eq!(*counted.borrow(), 1);
    /// # configs.stop().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_event(
        mut self,
        mut callback: impl FnMut(Event<O>) + Send + 'static,
    ) -> Subscribe<'a, O, A, HasCallbacks> {
        self.subscribe.closures.on_event = Some(Box::new(move |event: &Event<Erased>| {
            callback(event.clone().typed());
            None
        }));
        self.with_callbacks()
    }

    /// As [`on_event`](Self::on_event), and awaits the future that `callback` returns.
    ///
    /// ```
    /// use informant::{SharedInformer, testing::ScriptedSource};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use serde_json::json;
    /// use tokio::sync::mpsc;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> informant::Result<()> {
    /// let (source, handle) = ScriptedSource::live();
    /// handle.added(json!({"metadata": {"namespace": "shop", "name": "hours"}}));
    /// let configs = SharedInformer::<ConfigMap>::new(source);
    /// let (sender, mut keys) = mpsc::channel(1);
    /// configs
    ///     .subscribe()
    ///     .on_event_async(move |event| {
    ///         let sender = sender.clone();
    ///         async move {
    ///             if let Some(key) = event.key() {
    ///                 // Waits while the channel is full. An error means that the receiver is gone.
    ///                 let _ = sender.send(key.clone()).await;
    ///             }
    ///         }
    ///     })
    ///     .register()?;
    /// configs.start();
    /// assert_eq!(keys.recv().await.unwrap().as_str(), "shop/hours");
    /// # configs.stop().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_event_async<F>(
        mut self,
        mut callback: impl FnMut(Event<O>) -> F + Send + 'static,
    ) -> Subscribe<'a, O, A, HasCallbacks>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.subscribe.closures.on_event =
            Some(Box::new(move |event: &Event<Erased>| Some(callback(event.clone().typed()).boxed())));
        self.with_callbacks()
    }

    /// Calls `callback` with all events that were applied to the cache together, in place of callbacks for single events: the changes of a
    /// relist, for example, or of the watch events that arrived while the previous ones were applied. For a program that builds something from
    /// all objects, such as an index of its own, and would otherwise build it once for each of them.
    ///
    /// The slice is not empty. The objects of the initial list are one slice, and [`Event::Synced`] is one of its own. In a view, each slice has
    /// the events of one member.
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use informant::{Event, SharedInformer, testing::ScriptedSource};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use serde_json::json;
    /// use tokio::sync::watch;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> informant::Result<()> {
    /// let (source, handle) = ScriptedSource::live();
    /// for name in ["hours", "prices"] {
    ///     handle.added(json!({"metadata": {"namespace": "shop", "name": name}}));
    /// }
    /// let configs = SharedInformer::<ConfigMap>::new(source);
    ///
    /// let mut names = Vec::new();
    /// let (published, current) = watch::channel(Vec::new());
    /// let registration = configs
    ///     .subscribe()
    ///     .on_batch(move |events| {
    ///         for event in events {
    ///             match event {
    ///                 Event::Added { object, .. } => names.push(object.key().to_string()),
    ///                 Event::Deleted(config) => names.retain(|name| name != config.key().as_str()),
    ///                 Event::Updated { .. } | Event::Resynced(_) | Event::Synced => {}
    ///             }
    ///         }
    ///         names.sort();
    ///         published.send_replace(names.clone()); // once for all events
    ///     })
    ///     .register()?;
    /// configs.start();
    /// registration.synced().await?;
    /// assert_eq!(*current.borrow(), ["shop/hours", "shop/prices"]);
    /// # configs.stop().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Registering it fails together with [`coalesce_above`](Self::coalesce_above), which takes batches apart, and with other callbacks.
    pub fn on_batch(
        mut self,
        mut callback: impl FnMut(&[Event<O>]) + Send + 'static,
    ) -> Subscribe<'a, O, A, HasCallbacks> {
        self.subscribe.batches = Some(Box::new(move |events| {
            callback(&events.iter().cloned().map(Event::typed).collect::<Vec<_>>());
        }));
        self.with_callbacks()
    }

    /// Registers the callbacks. A task (for a view, one for each member) calls them and runs their futures, so they must not block.
    ///
    /// # Errors
    ///
    /// If the informer or a member of the view has stopped, or if called in one of its index functions.
    pub fn register(self) -> Result<Registration, RequestError> {
        self.subscribe.register(WorkerKind::Task)
    }

    /// Registers the callbacks. A thread of their own (for a view, one for each member) calls them and runs their futures, so both may
    /// block.
    ///
    /// # Errors
    ///
    /// As for [`register`](Self::register).
    pub fn register_blocking(self) -> Result<Registration, RequestError> {
        self.subscribe.register(WorkerKind::Thread)
    }

    fn with_callbacks(self) -> Subscribe<'a, O, A, HasCallbacks> {
        Subscribe { subscribe: self.subscribe, types: PhantomData }
    }
}

impl<'a> AnySubscribe<'a> {
    /// Registers the closures.
    fn register(mut self, kind: WorkerKind) -> Result<Registration, RequestError> {
        let closures = std::mem::take(&mut self.closures);
        let handler = match self.batches.take() {
            Some(callback) => {
                let other = match self.policy {
                    BufferPolicy::Coalesce { .. } => Some("`coalesce_above`"),
                    BufferPolicy::Unbounded => (!closures.is_empty()).then_some("the other callbacks"),
                };
                if let Some(other) = other {
                    return Err(RequestError::OnlyBatches { informer: Arc::clone(self.members.name), other });
                }
                AnyHandler::OfBatches { callback, after: None }
            }
            None => closures.into_handler(),
        };
        let place_in_code = format!("handler at {}", self.made_at);
        self.add_handler(handler, place_in_code, kind)
    }

    fn add_handler(
        self,
        handler: AnyHandler,
        default_name: String,
        kind: WorkerKind,
    ) -> Result<Registration, RequestError> {
        let (members, options) = self.into_parts(default_name);
        members.add_handler(handler, options, kind)
    }

    fn into_parts(self, default_name: String) -> (Members<'a>, SubscribeOptions) {
        let Self { members, name, filter, resync, policy, .. } = self;
        let name = name.unwrap_or_else(|| default_name.into());
        (members, SubscribeOptions { name, filter, resync, policy })
    }
}

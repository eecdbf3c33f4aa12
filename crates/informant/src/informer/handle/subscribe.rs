//! Registers handlers and streams with an informer, and holds their settings.

use std::{
    fmt,
    marker::PhantomData,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time::Instant;
use tracing::warn;

use super::{AddHandlerError, AnyInformer, SharedInformer};
use crate::{
    Cached,
    informer::pipeline::{Core, InsideApplyLock},
    object::Erased,
    subscribers::{
        AnyEventStream, AnyHandler, BufferPolicy, CallLock, EventHandler, EventStream, Filter, Listener, Registration,
        ResyncRequest, Worker, WorkerKind, erase_handler,
    },
};

/// The settings of a handler or stream that is about to be registered; from [`SharedInformer::subscribe`].
///
/// Finish it with callbacks ([`on_add`](Self::on_add), [`on_add_async`](Self::on_add_async) and others, then [`register`](super::Callbacks::register)), one closure for all
/// events ([`on_event`](Self::on_event), [`on_event_async`](Self::on_event_async)),
/// an [`EventHandler`] ([`handler`](Self::handler), [`blocking_handler`](Self::blocking_handler)) or a [`stream`](Self::stream).
///
/// ```
/// use std::time::Duration;
/// use informant::{Event, SharedInformer};
/// use informant::listwatch::KubeSource;
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
/// let configs = SharedInformer::<ConfigMap>::new(KubeSource::of_kind::<ConfigMap>(client));
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
#[must_use = "nothing is registered yet: call `handler`, `blocking_handler` or `stream`; or set callbacks and call `register`"]
pub struct Subscribe<'a, O, T = SharedInformer<O>> {
    /// An informer or a view.
    pub(crate) target: &'a T,
    pub(crate) options: SubscribeOptions,
    object_type: PhantomData<fn(O) -> O>,
}

/// Settings of a handler or stream whose object type is erased.
#[derive(Clone)]
pub(crate) struct SubscribeOptions {
    name: Option<Arc<str>>,
    filter: Option<Filter>,
    resync: ResyncRequest,
    policy: BufferPolicy,
}

impl SubscribeOptions {
    /// Sets the name that the handler has unless the user has named it.
    pub(crate) fn set_default_name(&mut self, name: String) {
        self.name.get_or_insert_with(|| name.into());
    }
}

impl<'a, O: 'static, T> Subscribe<'a, O, T> {
    pub(crate) fn new(target: &'a T) -> Self {
        let (resync, policy) = (ResyncRequest::default(), BufferPolicy::Unbounded);
        Self {
            target,
            options: SubscribeOptions { name: None, filter: None, resync, policy },
            object_type: PhantomData,
        }
    }

    /// Sets the name in logs, errors and metrics. Default: the handler's [own name](EventHandler::name); for callbacks their place in the
    /// code; for streams "stream".
    pub fn named(mut self, name: impl Into<Arc<str>>) -> Self {
        self.options.name = Some(name.into());
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
        self.options.filter = Some(Arc::new(move |object: &Cached<Erased>| passes(object.typed_ref())));
        self
    }

    /// Replays the whole cache to the handler this often, as [`Resynced`](crate::Event::Resynced) events. This has no effect, and logs a
    /// warning, if the informer itself does not resync, which is the default: set its period with
    /// [`InformerBuilder::resync_every`](super::InformerBuilder::resync_every) or
    /// [`FactoryBuilder::resync_every`](crate::factory::FactoryBuilder::resync_every).
    ///
    /// The period is at least a second, and is rounded up to a multiple of the period at which the informer checks for due resyncs.
    /// If the informer has not started, and this period is shorter than the periods of all other handlers, the informer checks as often as this
    /// period requires. A handler with a period also receives the unchanged objects of a relist. Default: the informer's period.
    ///
    /// While `Resynced` events of one resync still wait for the handler, further resyncs are skipped, and counted in
    /// [`resyncs_skipped`](crate::subscribers::HandlerStatus::resyncs_skipped). So at most one resync waits for a handler that is slower than
    /// its period, and changes never wait behind several resyncs. A `Resynced` event that [`coalesce_above`](Self::coalesce_above) has merged
    /// into a change of the same object no longer counts as waiting.
    pub fn resync_every(mut self, period: Duration) -> Self {
        self.options.resync = ResyncRequest::Every(period);
        self
    }

    /// Never replays unchanged objects to the handler. Default: the informer's resync period.
    pub fn never_resync(mut self) -> Self {
        self.options.resync = ResyncRequest::Never;
        self
    }

    /// Coalesces the waiting events of each object when more than this many events wait: the handler receives the newest state without
    /// the states in between, and at most two events of each object wait. Default: no limit, every event is delivered.
    pub fn coalesce_above(mut self, events: usize) -> Self {
        self.options.policy = BufferPolicy::Coalesce { above: events };
        self
    }
}

impl<O: 'static> Subscribe<'_, O> {
    /// Registers a handler. A task calls it, so it must not block.
    ///
    /// # Errors
    ///
    /// If the informer has stopped, or if called in one of its index functions.
    pub fn handler(mut self, handler: impl EventHandler<O>) -> Result<Registration, AddHandlerError> {
        self.options.set_default_name(handler.name());
        self.register(erase_handler(handler), WorkerKind::Task)
    }

    /// Registers a handler. A thread of its own calls it, so it may block.
    ///
    /// # Errors
    ///
    /// If the informer has stopped, or if called in one of its index functions.
    pub fn blocking_handler(mut self, handler: impl EventHandler<O>) -> Result<Registration, AddHandlerError> {
        self.options.set_default_name(handler.name());
        self.register(erase_handler(handler), WorkerKind::Thread)
    }

    pub(super) fn register(self, handler: AnyHandler, kind: WorkerKind) -> Result<Registration, AddHandlerError> {
        self.target.informer.add_handler(handler, self.options, kind, None)
    }

    /// Registers a stream, which returns the events one by one.
    ///
    /// # Errors
    ///
    /// If the informer has stopped, or if called in one of its index functions.
    pub fn stream(self) -> Result<EventStream<O>, AddHandlerError> {
        self.target.informer.add_stream(self.options).map(EventStream::new)
    }
}

impl AnyInformer {
    /// Registers a handler. `call_lock` is `Some` if the handler is registered with other informers too.
    pub(crate) fn add_handler(
        &self,
        handler: AnyHandler,
        mut options: SubscribeOptions,
        kind: WorkerKind,
        call_lock: Option<CallLock>,
    ) -> Result<Registration, AddHandlerError> {
        let filter = options.filter.take();
        let make_worker = |listener| Some(Worker::new(listener, handler, filter, kind, call_lock));
        self.register_listener(options, make_worker).map(|(_, registration)| registration)
    }

    /// Registers a stream.
    pub(crate) fn add_stream(&self, mut options: SubscribeOptions) -> Result<AnyEventStream, AddHandlerError> {
        options.set_default_name("stream".into());
        let filter = options.filter.take();
        let (listener, registration) = self.register_listener(options, |_| None)?;
        Ok(AnyEventStream::new(listener, registration, filter))
    }

    /// Registers the listener of a handler or stream. The worker or the stream has the filter, not the listener. `make_worker` returns `None` for
    /// a stream, which has no worker.
    fn register_listener(
        &self,
        options: SubscribeOptions,
        make_worker: impl FnOnce(Arc<Listener>) -> Option<Worker>,
    ) -> Result<(Arc<Listener>, Registration), AddHandlerError> {
        let SubscribeOptions { name, resync, policy, .. } = options;
        let (core, name) = (self.core(), name.unwrap_or_default());
        // Owned by this function: if the informer refuses the handler, it is dropped after the lock is released.
        let mut not_yet_registered = Some(make_worker);
        let registered = core.with_apply_lock(|processor| {
            if processor.is_closed() || core.phase.lock().is_stopping() {
                return None;
            }
            let make_worker = not_yet_registered.take()?;
            let make = |owner| Listener::new(owner, core.unique_name(name), Arc::clone(&core.name), policy);
            let (listener, resync_period) = processor.add_listener(make, resync, core.lister.list(), Instant::now());
            core.add_listener(Arc::clone(&listener), processor);
            // Still under the apply lock: otherwise the informer's start could miss this worker, or the worker could start after the stop.
            if let Some(worker) = make_worker(Arc::clone(&listener)) {
                listener.set_worker(worker);
            }
            if core.workers.has_started()
                && let Some(worker) = listener.take_worker()
            {
                core.workers.run(worker);
            }
            Some((listener, resync_period))
        });
        drop(not_yet_registered);
        // `listeners` also removes ended listeners from its list. That is the purpose of this call; its result is not needed.
        drop(core.listeners());
        let informer = || Arc::clone(&core.name);
        let (listener, resync_period) = match registered {
            Ok(Some(registered)) => registered,
            Ok(None) => return Err(AddHandlerError::Stopped { informer: informer() }),
            Err(InsideApplyLock) => return Err(AddHandlerError::InsideIndexFunction { informer: informer() }),
        };
        if let ResyncRequest::Every(requested) = resync
            && !requested.is_zero()
        {
            let (informer, handler) = (&*core.name, &**listener.name());
            match resync_period {
                None => warn!(
                    informer,
                    handler,
                    "the informer does not resync, so the handler's resync period has no effect; set a period with \
                     `InformerBuilder::resync_every` or `FactoryBuilder::resync_every`"
                ),
                Some(granted) if granted > requested => warn!(
                    informer,
                    handler,
                    ?requested,
                    ?granted,
                    "the handler's resync period is raised: it is at least a second, and not shorter than the period at which a \
                     running informer checks for resyncs"
                ),
                Some(_) => {}
            }
        }
        let informer: Weak<Core> = Arc::downgrade(core);
        let registration = Registration::new(Arc::clone(&listener), informer, resync_period);
        Ok((listener, registration))
    }
}

impl<O, T: fmt::Debug> fmt::Debug for Subscribe<'_, O, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, options, object_type: _ } = self;
        f.debug_struct("Subscribe").field("target", target).field("name", &options.name).finish_non_exhaustive()
    }
}

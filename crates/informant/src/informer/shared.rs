//! One informer for everybody who is interested in one kind.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::future::Shared;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::AddHandlerError;
use super::AlreadyStarted;
use super::InformerBuilder;
use super::StopError;
use super::Subscribe;
use super::core::Core;
use super::life::Startable;
use crate::Cached;
use crate::Object;
use crate::ResourceVersion;
use crate::listwatch::ListWatch;
use crate::listwatch::ListWatchError;
use crate::listwatch::Quarantined;
use crate::panics;
use crate::store::DuplicateIndex;
use crate::store::Index;
use crate::store::IndexFunction;
use crate::store::IndexPanic;
use crate::store::IndexValue;
use crate::store::Indexer;
use crate::store::Lister;
use crate::subscribers::EventHandler;
use crate::subscribers::EventStream;
use crate::subscribers::Registration;
use crate::subscribers::is_inside_informer;

/// One indexed, always-current local copy of a kind, that any number of handlers can follow.
///
/// - **Read it** with its [`lister`](Self::lister) and [indexes](Self::add_index): every answer is consistent, shared, not copied.
/// - **Follow it** with [handlers](Self::add_handler) and [streams](Self::stream), added before or after the start. Each has its
///   own buffer and hears of everything exactly once: first of what is there, then of every change.
/// - **Rely on it**: [`synced`](Self::synced) waits for the first list, [`wait_for`](Self::wait_for) for what you have
///   written yourself, and [`status`](Self::status) says what is wrong if something is.
///
/// Cheap to clone; all clones are handles of the same informer. An informer runs until it is [stopped](Self::stop) or its last handle
/// is dropped; in the latter case it logs that it stops. A [factory](crate::SharedInformerFactory) and a [`View`](crate::View) have
/// handles of their informers. Listers, registrations and streams are not handles: they do not keep the informer running. A handler that
/// owns a handle of its own informer keeps it running until it is stopped; give it a lister instead.
///
/// ```
/// use informant::{Handler, SharedInformer};
/// use informant::listwatch::KubeSource;
/// use informant_apiserver::ApiServer;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // An API server for examples and tests; with a cluster, this is `kube::Client::try_default().await?`.
/// let server = ApiServer::new();
/// server.put("configmaps", json!({"metadata": {"namespace": "shop", "name": "opening-hours"}, "data": {"open": "9-17"}}))?;
/// let client = server.client();
///
/// let configs = SharedInformer::<ConfigMap>::new(KubeSource::of_kind::<ConfigMap>(client));
/// let printer = configs.add_handler(
///     Handler::<ConfigMap>::new()
///         .on_add(|config, origin| println!("+ {} ({origin:?})", config.key()))
///         .on_update(|old, new| println!("~ {} {} → {}", new.key(), old.version(), new.version()))
///         .on_delete(|config| println!("- {}", config.key())),
/// )?;
/// configs.start();
/// configs.synced().await?;
/// printer.synced().await?;
///
/// let hours = configs.lister().require(&"shop/opening-hours".parse()?)?;
/// assert_eq!(hours.data.as_ref().unwrap()["open"], "9-17");
///
/// // Waits for running callbacks; nothing is left.
/// configs.stop().await?;
/// # Ok(())
/// # }
/// ```
pub struct SharedInformer<O: Send + Sync + 'static> {
    owner: Arc<Owner<O>>,
}

/// What all handles of an informer share; dropped with the last one, which stops the informer.
struct Owner<O: Send + Sync + 'static> {
    core: Arc<Core<O>>,
    /// Until it starts.
    startable: Mutex<Option<Box<dyn Startable<O>>>>,
    /// The end of its task, once it has started.
    task: Mutex<Option<Shared<BoxFuture<'static, ()>>>>,
}

/// What an informer is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum InformerState {
    /// It has not started.
    New,
    /// It runs.
    Running,
    /// It was asked to stop, or cannot go on, and callbacks may still be running.
    Stopping,
    /// It has stopped; nothing of it is left.
    Stopped,
}

impl<O: Send + Sync + 'static> SharedInformer<O> {
    /// An informer of objects that come as JSON.
    pub fn new(source: impl ListWatch<O>) -> Self
    where
        O: Object,
    {
        Self::builder(source).build()
    }

    /// Settings of an informer of objects that come as JSON.
    pub fn builder<L: ListWatch<O>>(source: L) -> InformerBuilder<O, L>
    where
        O: Object,
    {
        InformerBuilder::of_json(source)
    }

    /// Settings of an informer of a source whose objects come [ready](crate::listwatch::Item::Ready): they can be of any type.
    pub fn of_ready_objects<L: ListWatch<O>>(source: L) -> InformerBuilder<O, L> {
        InformerBuilder::of_ready(source)
    }

    pub(super) fn unstarted(core: Core<O>, startable: Box<dyn Startable<O>>) -> Self {
        Self {
            owner: Arc::new(Owner {
                core: Arc::new(core),
                startable: Mutex::new(Some(startable)),
                task: Mutex::default(),
            }),
        }
    }

    pub(super) fn core(&self) -> &Arc<Core<O>> {
        &self.owner.core
    }

    /// What it is called in logs, errors and metrics.
    pub fn name(&self) -> &Arc<str> {
        &self.core().name
    }

    /// The namespace that its objects are of, if its source has [only one](crate::listwatch::KubeSource::in_namespace).
    pub fn namespace(&self) -> Option<&Arc<str>> {
        self.core().namespace.as_ref()
    }

    /// The cluster that its objects are of, if its source [names one](crate::listwatch::KubeSource::of_cluster).
    pub fn cluster(&self) -> Option<&Arc<str>> {
        self.core().cluster.as_ref()
    }

    /// Starts it, in tasks of the runtime that this is called in. Says whether it did: it starts only once, and not after it
    /// was stopped.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime with a clock.
    pub fn start(&self) -> bool {
        let has_started = self.start_if_new();
        if !has_started {
            tracing::warn!(kind = &**self.name(), "started already, or stopped; a second start does nothing");
        }
        has_started
    }

    /// As [`start`](Self::start), for those who do not mind if somebody else was faster.
    pub(crate) fn start_if_new(&self) -> bool {
        let runtime = Handle::current();
        let mut startable = self.owner.startable.lock();
        let core = self.core();
        let Some(unstarted) = startable.take() else { return false };
        let task = runtime.spawn(unstarted.start(Arc::clone(core), &runtime));
        // Waited for by whoever stops it; it ends by itself when the last handle is dropped.
        let name = Arc::clone(&core.name);
        let ended = async move {
            if let Err(error) = task.await
                && let Ok(panic) = error.try_into_panic()
            {
                tracing::error!(kind = &*name, error = panics::said(panic), "the informer's task panicked");
            }
        };
        *self.owner.task.lock() = Some(ended.boxed().shared());
        true
    }

    /// What it is doing.
    pub fn state(&self) -> InformerState {
        let core = self.core();
        let is_over = core.stop.initialized() || core.crash.get().is_some() || core.is_closed();
        match (is_over, core.source.get().is_some()) {
            (true, _) if core.stopped.initialized() && core.is_deserted() => InformerState::Stopped,
            (true, _) => InformerState::Stopping,
            (false, true) => InformerState::Running,
            (false, false) => InformerState::New,
        }
    }

    /// Stops it, and waits until no callback runs and no task is left. Events that wait for handlers are dropped.
    ///
    /// Cancel safe: it stops all the same.
    ///
    /// # Errors
    ///
    /// From inside one of its own callbacks, index functions among them, which would wait for itself. It stops all the same.
    pub async fn stop(&self) -> Result<(), StopError> {
        self.owner.ask_to_stop();
        if let Some(error) = self.inside_callback() {
            return Err(error);
        }
        let core = self.core();
        core.stopped.wait().await;
        // If its runtime is gone, threads may still be at work.
        for listener in core.roster() {
            listener.ended().await;
        }
        let task = self.owner.task.lock().clone();
        if let Some(task) = task {
            task.await;
        }
        Ok(())
    }

    /// The error of whoever waits for the informer from inside one of its callbacks.
    pub(crate) fn inside_callback(&self) -> Option<StopError> {
        let core = self.core();
        is_inside_informer(core.id).then(|| StopError::InsideCallback { informer: Arc::clone(&core.name) })
    }

    /// Whether it stopped although nobody asked it to.
    pub(crate) fn has_crashed(&self) -> bool {
        self.core().crash.get().is_some()
    }

    /// Stops it without waiting.
    pub(crate) fn ask_to_stop(&self) {
        self.owner.ask_to_stop();
    }

    /// As [`stop`](Self::stop), but waits no longer than this.
    ///
    /// # Errors
    ///
    /// As for `stop`; and if callbacks have not returned by then, with the names of their handlers. They can be waited for
    /// again.
    pub async fn stop_within(&self, within: Duration) -> Result<(), StopError> {
        let Ok(stopped) = timeout(within, self.stop()).await else {
            let awaited = self.core().roster().into_iter().filter(|listener| listener.is_awaited());
            let handlers = awaited.map(|listener| Arc::clone(listener.name())).collect();
            return Err(StopError::StillRunning { informer: Arc::clone(self.name()), within, handlers });
        };
        stopped
    }

    /// Reads the cache. A lister can be kept; when the informer has stopped, it shows the last state.
    pub fn lister(&self) -> Lister<O> {
        self.core().lister.clone()
    }

    /// Adds an index, at any time; see [`Indexer::add_index`](crate::store::Indexer::add_index).
    ///
    /// # Errors
    ///
    /// When an index of that name exists.
    ///
    /// # Panics
    ///
    /// Inside an index function of the same informer.
    pub fn add_index<V, I>(
        &self,
        name: &str,
        values: impl Fn(&Cached<O>) -> I + Send + Sync + 'static,
    ) -> Result<Index<O, V>, DuplicateIndex>
    where
        I: IntoIterator<Item = V>,
        V: IndexValue,
    {
        self.while_writing(|indexer| indexer.add_index(name, values))
    }

    /// Adds several indexes, all or none; see [`Indexer::add_indexes`](crate::store::Indexer::add_indexes).
    ///
    /// # Errors
    ///
    /// When an index of one of the names exists; then none is added.
    ///
    /// # Panics
    ///
    /// Inside an index function of the same informer.
    pub fn add_indexes(
        &self,
        functions: impl IntoIterator<Item = IndexFunction<O>>,
    ) -> Result<Vec<IndexPanic>, DuplicateIndex> {
        self.while_writing(|indexer| indexer.add_indexes(functions))
    }

    /// In a turn: index functions run, and nobody else may wait for the cache's writer while it waits for a turn.
    fn while_writing<R>(&self, write: impl FnOnce(&Indexer<O>) -> R) -> R {
        let core = self.core();
        // INV-A2: there until the turn has come.
        let mut write = Some(write);
        let written = core.in_turn(|_| write.take().map(|write| write(&core.indexer)));
        match (written, write) {
            (Ok(Some(result)), _) => result,
            // Inside an index function; the indexer says what is wrong with that.
            (_, Some(write)) => write(&core.indexer),
            (Ok(None) | Err(_), None) => unreachable!("INV-A2"),
        }
    }

    /// Has a handler follow it, with the settings that are usual; [`subscribe`](Self::subscribe) has others.
    ///
    /// # Errors
    ///
    /// When the informer has stopped, or inside one of its index functions.
    pub fn add_handler(&self, handler: impl EventHandler<O>) -> Result<Registration, AddHandlerError> {
        self.subscribe().handler(handler)
    }

    /// Events as a stream, with the settings that are usual; [`subscribe`](Self::subscribe) has others.
    ///
    /// # Errors
    ///
    /// When the informer has stopped, or inside one of its index functions.
    pub fn stream(&self) -> Result<EventStream<O>, AddHandlerError> {
        self.subscribe().stream()
    }

    /// A handler or stream with settings: a filter, resyncs, what happens when it is slow, a name.
    pub fn subscribe(&self) -> Subscribe<'_, O> {
        Subscribe::new(self)
    }

    /// Changes each object before anybody sees it, once; see
    /// [`ReflectorBuilder::transform`](crate::listwatch::ReflectorBuilder::transform). The last one that is set counts.
    ///
    /// # Errors
    ///
    /// After the start.
    pub fn set_transform<E>(
        &self,
        transform: impl Fn(&mut O) -> Result<(), E> + Send + Sync + 'static,
    ) -> Result<(), AlreadyStarted>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let transform = Box::new(move |object: &mut O| transform(object).map_err(Into::into));
        self.before_start("transform", |unstarted| unstarted.set_transform(transform))
    }

    /// Calls `callback` once for each outage that lasts three seconds, and each time the server answers a list with an error;
    /// [`ReflectorBuilder::on_error`](crate::listwatch::ReflectorBuilder::on_error) has the exact rules. The last one that is set
    /// counts.
    ///
    /// # Errors
    ///
    /// After the start.
    pub fn set_on_error(
        &self,
        callback: impl Fn(&ListWatchError) + Send + Sync + 'static,
    ) -> Result<(), AlreadyStarted> {
        self.before_start("error callback", |unstarted| unstarted.set_on_error(Box::new(callback)))
    }

    fn before_start<S>(
        &self,
        setting: &'static str,
        set: impl FnOnce(&mut dyn Startable<O>) -> Option<S>,
    ) -> Result<(), AlreadyStarted> {
        let before = self.owner.startable.lock().as_mut().map(|unstarted| set(&mut **unstarted));
        // What was set before is dropped here, without the lock: that is users' code.
        match before {
            Some(_) => Ok(()),
            None => Err(AlreadyStarted { informer: Arc::clone(self.name()), setting }),
        }
    }

    /// The newest version that came from the source; the cache may not have come so far. `None` before the first list.
    pub fn last_version(&self) -> Option<ResourceVersion> {
        self.core().source_status().version
    }

    /// How often it looks which handlers are due for a resync; `None` is never.
    pub fn resync_check_period(&self) -> Option<Duration> {
        self.core().check_period()
    }

    /// The objects that exist but cannot be read. What the cache has of them, if anything, is an older state.
    pub fn quarantined(&self) -> Vec<Quarantined> {
        self.core().source.get().map(|source| source.reflector.quarantined()).unwrap_or_default()
    }
}

impl<O: Send + Sync + 'static> Owner<O> {
    fn ask_to_stop(&self) {
        let mut startable = self.startable.lock();
        let _ = self.core.stop.set(());
        // If it never started, nobody else ends it.
        let unstarted = startable.take();
        drop(startable);
        if unstarted.is_some() {
            self.core.end();
        }
    }
}

impl<O: Send + Sync + 'static> Drop for Owner<O> {
    fn drop(&mut self) {
        let is_running = self.startable.get_mut().is_none() && !self.core.stop.initialized() && !self.core.is_closed();
        if is_running {
            tracing::info!(
                kind = &*self.core.name,
                "the last handle of the informer was dropped, so it stops; its listers keep the last state"
            );
        }
        self.ask_to_stop();
    }
}

impl<O: Send + Sync + 'static> Clone for SharedInformer<O> {
    fn clone(&self) -> Self {
        Self { owner: Arc::clone(&self.owner) }
    }
}

impl<O: Send + Sync + 'static> fmt::Debug for SharedInformer<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedInformer")
            .field("name", self.name())
            .field("state", &self.state())
            .field("is_synced", &self.is_synced())
            .finish_non_exhaustive()
    }
}

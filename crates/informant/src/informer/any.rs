//! The untyped informer behind every [`SharedInformer`](super::SharedInformer), compiled once.
//!
//! - **In:** settings; handlers and functions whose object type is erased.
//! - **Out:** the informer's task, its start and its end.
//! - **Knows nothing of:** the type of the objects.

use std::{sync::Arc, time::Duration};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use parking_lot::Mutex;
use tokio::{runtime::Handle, time::timeout};

use super::{AlreadyStarted, InformerState, StopError, core::Core, run::Unstarted};
use crate::{
    listwatch::{Callback, ListWatchError, Quarantined, Transform},
    object::Erased,
    panics,
    store::{AnyIndexFunction, DuplicateIndex, Index, IndexPanic, Indexer, Lister},
    subscribers::is_inside_informer,
};

/// An informer whose object type is erased. Cheap to clone; all clones are handles of the same informer.
#[derive(Clone)]
pub(crate) struct AnyInformer {
    owner: Arc<Owner>,
}

/// The state that all handles of an informer share. Dropping the last handle drops it and stops the informer.
struct Owner {
    core: Arc<Core>,
    /// `None` once the informer was started or stopped.
    unstarted: Mutex<Option<Unstarted>>,
    /// Completes when the informer's task has ended; `None` before the start.
    task: Mutex<Option<Shared<BoxFuture<'static, ()>>>>,
}

impl AnyInformer {
    pub(super) fn new(core: Core, unstarted: Unstarted) -> Self {
        let owner = Owner { core: Arc::new(core), unstarted: Mutex::new(Some(unstarted)), task: Mutex::default() };
        Self { owner: Arc::new(owner) }
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.owner.core
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.core().name
    }

    pub(crate) fn namespace(&self) -> Option<&Arc<str>> {
        self.core().namespace.as_ref()
    }

    pub(crate) fn cluster(&self) -> Option<&Arc<str>> {
        self.core().cluster.as_ref()
    }

    /// Starts the informer unless it was started or stopped before; returns true if this call started it.
    pub(crate) fn start_if_new(&self) -> bool {
        let runtime = Handle::current();
        let unstarted = self.owner.unstarted.lock().take();
        let Some(unstarted) = unstarted else { return false };
        let core = self.core();
        // Locked until the task is there, so that `stop` awaits it. The settings are not locked: starting drops users' closures.
        let mut ended = self.owner.task.lock();
        let task = runtime.spawn(unstarted.start(core, &runtime));
        // `stop` awaits this; the task also ends when the last handle is dropped.
        let name = Arc::clone(&core.name);
        let ending = async move {
            if let Err(error) = task.await
                && let Ok(panic) = error.try_into_panic()
            {
                tracing::error!(informer = &*name, error = panics::message(panic), "the informer's task panicked");
            }
        };
        *ended = Some(ending.boxed().shared());
        true
    }

    pub(crate) fn state(&self) -> InformerState {
        let core = self.core();
        let is_over = core.stop.initialized() || core.crash.get().is_some() || core.is_closed();
        match (is_over, core.source.get().is_some()) {
            (true, _) if core.stopped.initialized() && core.all_listeners_finished() => InformerState::Stopped,
            (true, _) => InformerState::Stopping,
            (false, true) => InformerState::Running,
            (false, false) => InformerState::New,
        }
    }

    /// Stops the informer, and waits until no callback or task of it is running.
    pub(crate) async fn stop(&self) -> Result<(), StopError> {
        self.owner.ask_to_stop();
        if let Some(error) = self.inside_callback() {
            return Err(error);
        }
        let core = self.core();
        core.stopped.wait().await;
        // If the runtime has ended, the threads of blocking handlers may still be running.
        for listener in core.listeners() {
            listener.ended().await;
        }
        let task = self.owner.task.lock().clone();
        if let Some(task) = task {
            task.await;
        }
        Ok(())
    }

    /// Returns an error if the calling thread runs a callback of this informer, which would wait for itself.
    pub(crate) fn inside_callback(&self) -> Option<StopError> {
        let core = self.core();
        is_inside_informer(core.id).then(|| StopError::InsideCallback { informer: Arc::clone(&core.name) })
    }

    /// Returns true if the informer stopped without a request.
    pub(crate) fn has_crashed(&self) -> bool {
        self.core().crash.get().is_some()
    }

    /// Stops the informer without waiting.
    pub(crate) fn ask_to_stop(&self) {
        self.owner.ask_to_stop();
    }

    /// As [`stop`](Self::stop), with a time limit.
    pub(crate) async fn stop_within(&self, within: Duration) -> Result<(), StopError> {
        let Ok(stopped) = timeout(within, self.stop()).await else {
            let awaited = self.core().listeners().into_iter().filter(|listener| listener.is_awaited());
            let handlers = awaited.map(|listener| Arc::clone(listener.name())).collect();
            return Err(StopError::StillRunning { informer: Arc::clone(self.name()), within, handlers });
        };
        stopped
    }

    pub(crate) fn lister(&self) -> &Lister<Erased> {
        &self.core().lister
    }

    pub(crate) fn add_index(&self, function: AnyIndexFunction) -> Result<Index<Erased>, DuplicateIndex> {
        self.while_writing(|indexer| indexer.add_function(function))
    }

    pub(super) fn add_indexes(&self, functions: Vec<AnyIndexFunction>) -> Result<Vec<IndexPanic>, DuplicateIndex> {
        self.while_writing(|indexer| indexer.add_any_functions(functions))
    }

    /// Runs `write` while `apply_lock` is held: index functions run, and a thread that waits for the cache's writer must hold this lock already, so that two threads cannot wait for each other.
    fn while_writing<R>(&self, write: impl FnOnce(&Indexer<Erased>) -> R) -> R {
        let core = self.core();
        // INV-A2: `Some` until the closure has run.
        let mut write = Some(write);
        let written = core.with_apply_lock(|_| write.take().map(|write| write(&core.indexer)));
        match (written, write) {
            (Ok(Some(result)), _) => result,
            // Called inside an index function: the indexer panics with a message that explains it.
            (_, Some(write)) => write(&core.indexer),
            (Ok(None) | Err(_), None) => unreachable!("INV-A2"),
        }
    }

    pub(super) fn set_transform(&self, transform: Transform) -> Result<(), AlreadyStarted> {
        self.before_start("transform", |unstarted| unstarted.reflector.swap_transform(transform))
    }

    pub(super) fn set_on_error(&self, callback: Callback<ListWatchError>) -> Result<(), AlreadyStarted> {
        self.before_start("error callback", |unstarted| unstarted.reflector.swap_on_error(callback))
    }

    /// Changes a setting of an informer that has not started; `set` returns the previous value.
    fn before_start<S>(
        &self,
        setting: &'static str,
        set: impl FnOnce(&mut Unstarted) -> Option<S>,
    ) -> Result<(), AlreadyStarted> {
        // `set` (if the informer has started) and the previous value are users' code, so they are dropped after the lock is released.
        let mut set = Some(set);
        let mut slot = self.owner.unstarted.lock();
        let before = slot.as_mut().and_then(|unstarted| Some(set.take()?(unstarted)));
        drop(slot);
        match before {
            Some(_) => Ok(()),
            None => Err(AlreadyStarted { informer: Arc::clone(self.name()), setting }),
        }
    }

    /// The objects that exist on the server but cannot be decoded or transformed.
    pub(crate) fn quarantined(&self) -> Vec<Quarantined> {
        self.core().source.get().map(|source| source.reflector.quarantined()).unwrap_or_default()
    }
}

impl Owner {
    fn ask_to_stop(&self) {
        let mut slot = self.unstarted.lock();
        let _ = self.core.stop.set(());
        // An informer that never started has no task that would end it.
        let unstarted = slot.take();
        drop(slot);
        if unstarted.is_some() {
            self.core.end();
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let is_running = self.unstarted.get_mut().is_none() && !self.core.stop.initialized() && !self.core.is_closed();
        if is_running {
            tracing::info!(
                informer = &*self.core.name,
                "the last handle of the informer was dropped, so it stops; its listers keep the last state"
            );
        }
        self.ask_to_stop();
    }
}

//! The untyped informer behind every [`SharedInformer`](super::SharedInformer), compiled once.
//!
//! - **In:** settings; handlers and functions whose object type is erased.
//! - **Out:** the informer's task; the methods that start and stop it.
//! - **Knows nothing of:** the type of the objects.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::{runtime::Handle, sync::oneshot, time::timeout};

use super::InformerState;
use crate::{
    error::{IndexError, RequestError, StopError},
    informer::pipeline::{Core, Phase, Unstarted},
    listwatch::{Callback, ListWatchError, Quarantined, Transform},
    object::Erased,
    panics,
    store::{AnyIndexFunction, Index, Lister},
    subscribers::{WaitConflict, wait_conflict, wait_for_end},
};

/// An informer whose object type is erased. Cheap to clone; all clones are handles of the same informer.
#[derive(Clone)]
pub(crate) struct AnyInformer {
    core: Arc<StopOnDrop>,
}

/// The state that all handles of an informer share. Dropping the last handle drops it and stops the informer.
struct StopOnDrop(Arc<Core>);

impl AnyInformer {
    pub(super) fn new(core: Core) -> Self {
        Self { core: Arc::new(StopOnDrop(Arc::new(core))) }
    }

    /// Returns true if both are handles of one informer.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.core, &other.core)
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.core.0
    }

    #[cfg(feature = "packing")]
    pub(crate) fn memory(&self) -> &crate::object::ObjectMemory {
        &self.core().memory
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
        let (runtime, core) = (Handle::current(), self.core());
        let (work_sender, work_receiver) = oneshot::channel::<BoxFuture<'static, ()>>();
        let mut phase = core.phase.lock();
        let Some(settings) = phase.start() else { return false };
        // The task is spawned while the phase is locked, so that `stop` awaits the task. The work of the task begins after the lock is
        // released: starting runs and drops users' code.
        let task = runtime.spawn(async {
            if let Ok(work) = work_receiver.await {
                work.await;
            }
        });
        let name = Arc::clone(&core.name);
        let ended = task.map(move |ended| {
            if let Err(error) = ended
                && let Ok(payload) = error.try_into_panic()
            {
                tracing::error!(informer = &*name, error = panics::message(&*payload), "the informer's task panicked");
            }
        });
        let _ = core.task.set(ended.boxed().shared());
        drop(phase);
        // The work is refused if the runtime has ended. Dropping it ends the informer.
        let _ = work_sender.send(settings.start(core, &runtime));
        true
    }

    pub(crate) fn state(&self) -> InformerState {
        let core = self.core();
        let state = core.phase.lock().state();
        // If the runtime has ended, the threads of blocking handlers may still be running.
        let has_running_threads = state == InformerState::Stopped && !core.all_listeners_finished();
        if has_running_threads { InformerState::Stopping } else { state }
    }

    /// Stops the informer, and waits until no callback or task of it is running.
    pub(crate) async fn stop(&self) -> Result<(), StopError> {
        self.ask_to_stop();
        let core = self.core();
        let stopped = async {
            core.wait_for_phase(|phase| matches!(phase, Phase::Stopped(_))).await;
            // If the runtime has ended, the threads of blocking handlers may still be running.
            for listener in core.listeners() {
                listener.ended().await;
            }
            if let Some(task) = core.task.get() {
                task.clone().await;
            }
        };
        wait_for_end(&[core.work_owner()], stopped).await.map_err(|conflict| self.stop_error(conflict))
    }

    /// Returns an error if the calling thread runs a callback that must not wait for this informer: one of its own, which would wait for
    /// itself, or one for which a callback of this informer waits.
    pub(super) fn check_wait_for_stop(&self) -> Option<StopError> {
        wait_conflict(self.core().work_owner()).map(|conflict| self.stop_error(conflict))
    }

    fn stop_error(&self, conflict: WaitConflict) -> StopError {
        let informer = Arc::clone(self.name());
        match conflict {
            WaitConflict::OwnCallback => StopError::InsideCallback { informer, handler: None },
            WaitConflict::Circle => StopError::WaitsForCaller { informer, handler: None },
        }
    }

    /// Returns true if the informer stopped although no handle asked it to.
    pub(crate) fn has_crashed(&self) -> bool {
        self.core().phase.lock().crash_cause().is_some()
    }

    /// Stops the informer without waiting.
    pub(crate) fn ask_to_stop(&self) {
        self.core().ask_to_stop();
    }

    /// As [`stop`](Self::stop), with a time limit.
    pub(crate) async fn stop_within(&self, within: Duration) -> Result<(), StopError> {
        let Ok(stopped) = timeout(within, self.stop()).await else {
            let awaited = self.core().listeners().into_iter().filter(|listener| listener.is_awaited());
            let callbacks = awaited.map(|listener| Arc::clone(listener.name())).collect();
            let informer = Arc::clone(self.name());
            return Err(StopError::StillRunning { informer, handler: None, within, callbacks });
        };
        stopped
    }

    pub(crate) fn lister(&self) -> &Lister<Erased> {
        &self.core().lister
    }

    pub(crate) fn add_index(&self, function: AnyIndexFunction) -> Result<Index<Erased>, IndexError> {
        self.core().with_writer(|writer| writer.add_index(function))
    }

    pub(super) fn add_indexes(&self, functions: Vec<AnyIndexFunction>) -> Result<Vec<IndexError>, IndexError> {
        self.core().with_writer(|writer| writer.add_indexes(functions))
    }

    pub(super) fn set_transform(&self, transform: Transform) -> Result<(), RequestError> {
        self.before_start("transform", |settings| settings.reflector.transform.replace(transform))
    }

    pub(super) fn set_on_error(&self, callback: Callback<ListWatchError>) -> Result<(), RequestError> {
        self.before_start("error callback", |settings| settings.reflector.on_error.replace(callback))
    }

    /// Changes a setting of an informer that has not started; `set` returns the previous value.
    fn before_start<S>(
        &self,
        setting: &'static str,
        set: impl FnOnce(&mut Unstarted) -> S,
    ) -> Result<(), RequestError> {
        let mut phase = self.core().phase.lock();
        // `set` and the previous value are users' code. They are dropped after the lock is released: parameters are dropped after variables.
        let Some(settings) = phase.settings() else {
            return Err(RequestError::AlreadyStarted { informer: Arc::clone(self.name()), setting });
        };
        let before = set(settings);
        drop(phase);
        drop(before);
        Ok(())
    }

    /// The objects that exist on the server but cannot be decoded or transformed.
    pub(crate) fn quarantined(&self) -> Vec<Quarantined> {
        self.core().started.get().map(|started| started.reflector.quarantined()).unwrap_or_default()
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        let core = &self.0;
        let is_running = matches!(*core.phase.lock(), Phase::Running);
        if is_running {
            tracing::info!(
                informer = &*core.name,
                "the last handle of the informer was dropped, so it stops; its listers keep the last state"
            );
        }
        core.ask_to_stop();
    }
}

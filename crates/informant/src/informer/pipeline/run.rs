//! The informer's task, from the start to the stop.
//!
//! - **In:** the settings, and the state that all handles share.
//! - **Out:** one future that does all work of the informer. When it ends or is dropped, even before its first poll, the informer has stopped.
//! - **Knows nothing of:** the handles.

use std::{panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Duration};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Either, select},
};
use tokio::{runtime::Handle, sync::mpsc};
use tracing::{Instrument, error, info};

#[cfg(feature = "packing")]
use super::sweep::Sweep;
use super::{
    apply_loop,
    batch_applier::{BatchApplier, Ticks},
    core::{Core, Started},
    phase::Phase,
};
use crate::{
    informer::audit::Auditor,
    listwatch::{Activity, Delays, Reflector, ReflectorHandle, ReflectorSettings, ReflectorStatus},
    panics,
    queue::DeltaFifo,
    subscribers::{as_work_of, run_as_work_of},
};

/// The settings of an informer that has not started.
pub(crate) struct Unstarted {
    pub(crate) reflector: ReflectorSettings,
    /// The period of audits; `None` for audits after history changes only.
    pub(crate) audit: Option<Duration>,
}

impl Unstarted {
    /// Builds the reflector, starts the handlers, and returns the future that does all other work until the informer stops.
    pub(crate) fn start(self, core: &Arc<Core>, runtime: &Handle) -> BoxFuture<'static, ()> {
        // Created first: the source, which is users' code, may panic below; dropping this guard then ends the informer.
        let mut guard = TaskGuard { core: Arc::clone(core), crash: "its source panicked" };
        let Self { mut reflector, audit } = self;
        let known = Arc::new(core.lister.clone());
        let queue = DeltaFifo::builder().known_objects(known.clone()).name(Arc::clone(&core.name)).build();
        let (inventory, delays, health) =
            (reflector.inventory(), Delays::new(reflector.backoff), reflector.health.clone());
        let (findings, found) = mpsc::channel(1);
        // The informer replays its cache itself, so the reflector requests no resyncs.
        (reflector.findings, reflector.resync_every) = (Some(found), None);
        reflector.known = Some(known);
        let reflector = reflector.build(Box::new(queue.clone()));
        let auditor = Auditor {
            core: Arc::clone(core),
            reflector: reflector.handle(),
            inventory,
            health,
            delays,
            period: audit,
            findings,
        };
        // An informer starts only once, so this is the first value.
        let _ = core.started.set(Started { reflector: reflector.handle(), queue: queue.clone() });
        guard.crash = "its runtime has ended";
        // The workers are started while `apply_lock` is held, so that a listener that is added at the same time gets a worker too.
        let _ = core.with_apply_lock(|state| {
            core.workers.start(runtime);
            let works = state.processor.start().into_iter().filter_map(|listener| listener.take_worker());
            works.for_each(|work| core.workers.run(work));
        });
        let ticks = core.check_period().and_then(Ticks::every);
        let applier = BatchApplier {
            core: Arc::clone(core),
            queue,
            ticks,
            #[cfg(feature = "packing")]
            sweep: Sweep::new(reflector.packing_reporter()),
        };
        // The level of errors: a filter for warnings must not hide the name of the informer.
        let span = tracing::error_span!("informer", informer = &*core.name);
        Box::pin(run(reflector, applier, auditor, guard).instrument(span))
    }
}

async fn run(reflector: Reflector, applier: BatchApplier, auditor: Auditor, guard: TaskGuard) {
    let (core, handle) = (Arc::clone(&guard.core), reflector.handle());
    let (owner, observed) = (core.work_owner(), Arc::clone(&core));
    info!("started");
    // The future owns the reflector and the queue, so that dropping it ends both.
    let working = async move {
        let working = apply_loop::run(reflector, applier);
        let observing = pin!(observe_source(handle, &observed));
        select(pin!(working), select(observing, pin!(auditor.run()))).await;
    };
    let mut working = Box::pin(as_work_of(owner, working));
    let running = AssertUnwindSafe(&mut working).catch_unwind();
    match select(pin!(core.wait_for_phase(Phase::is_stopping)), pin!(running)).await {
        Either::Left(_) => {}
        Either::Right((ended, _)) => {
            let crash = match ended {
                Ok(()) => "its queue was closed".to_owned(),
                Err(payload) => format!("panicked: {}", panics::message(&*payload)),
            };
            error!(error = crash, "the informer stops because of an internal error");
            core.crash(&crash);
        }
    }
    // Caught, so that the stop still waits for callbacks.
    if let Err(panic) = panics::catch(|| run_as_work_of(owner, || drop(working))) {
        error!(error = panic, "the source panicked when it was dropped");
    }
    core.close();
    core.workers.ended().await;
    info!("stopped");
    drop(guard);
}

/// Records the metrics of the source, and wakes the tasks that wait for sync when a list fails with an error that retrying cannot fix.
async fn observe_source(mut handle: ReflectorHandle, core: &Core) {
    let mut before = ReflectorStatus::default();
    loop {
        let status = handle.changed().await;
        let metrics = &core.metrics;
        metrics.lists.increment(status.lists - before.lists);
        metrics.watches.increment(status.watches - before.watches);
        metrics.history_changes.increment(status.history_changes - before.history_changes);
        metrics.failing.set(if status.failing_since.is_some() { 1.0 } else { 0.0 });
        metrics.quarantined.set(handle.quarantine.len() as f64);
        metrics.record_confirmed(status.confirmed.map(|confirmed| confirmed.elapsed()));
        if core.permanent_failure().is_some() {
            core.cache_changed.notify_waiters();
        }
        if let Activity::Stopped = status.activity {
            return std::future::pending().await;
        }
        before = status;
    }
}

/// Ends the informer when it is dropped, for example with its runtime.
struct TaskGuard {
    core: Arc<Core>,
    /// The cause of the crash, if the guard is dropped while the informer is running.
    crash: &'static str,
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        self.core.crash(self.crash);
        self.core.end();
    }
}

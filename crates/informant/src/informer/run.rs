//! The informer's task, from the start to the stop.
//!
//! - **In:** the settings, and the state that all handles share.
//! - **Out:** one future that does all work of the informer. When it ends or is dropped, even before its first poll, the informer has stopped.
//! - **Knows nothing of:** the handles.

use std::{panic::AssertUnwindSafe, pin::pin, sync::Arc};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Either, select},
};
use tokio::runtime::Handle;
use tracing::{Instrument, error, info};

use super::{
    apply::ApplyOptions,
    batch_applier::{BatchApplier, Ticks},
    builder::QueueKind,
    controller,
    core::{Core, Source},
    queues::SharedQueue,
};
use crate::{
    known::KnownObjects,
    listwatch::{Activity, Reflector, ReflectorHandle, ReflectorSettings},
    metrics::SourceFigures,
    panics,
    queue::{DeltaFifo, InOrderFifo},
    subscribers::{as_work_of, do_as},
};

/// The settings of an informer that has not started.
pub(super) struct Unstarted {
    pub(super) reflector: ReflectorSettings,
    pub(super) queue: QueueKind,
    pub(super) options: ApplyOptions,
}

impl Unstarted {
    /// Starts the handlers and returns the future that does all other work until the informer stops.
    pub(super) fn start(self, core: &Arc<Core>, runtime: &Handle) -> BoxFuture<'static, ()> {
        let Self { reflector, queue, options } = self;
        let (known, name) = (Arc::new(core.lister.clone()), Arc::clone(&core.name));
        let reflector =
            reflector.for_informer(options.trusts_versions.then(|| known.clone() as Arc<dyn KnownObjects<_>>));
        match queue {
            QueueKind::Grouped => {
                let queue = DeltaFifo::builder().known_objects(known).name(name).build();
                Box::pin(start(reflector, queue, options, core, runtime))
            }
            QueueKind::InOrder => {
                let queue = InOrderFifo::builder().name(name).build();
                Box::pin(start(reflector, queue, options, core, runtime))
            }
        }
    }
}

/// Builds the reflector, starts the handlers, and returns the future of the informer's task.
fn start<Q>(
    reflector: ReflectorSettings,
    queue: Q,
    options: ApplyOptions,
    core: &Arc<Core>,
    runtime: &Handle,
) -> impl Future<Output = ()> + Send + 'static + use<Q>
where
    Q: SharedQueue,
    Q::Taken: Send + Sync,
    Q::PendingVersions: Send + Sync,
{
    // Created first: the source, which is users' code, may panic below; dropping this guard then ends the informer.
    let ending = Ending(Arc::clone(core));
    let reflector = reflector.build(Box::new(queue.clone()));
    let handle = reflector.handle();
    let looked_at = queue.clone();
    let source = Source { reflector: handle.clone(), queued: Box::new(move || looked_at.waiting()) };
    // An informer starts only once, so this is the first value.
    let _ = core.source.set(source);
    // While `apply_lock` is held, so that a listener that is added at the same time gets a worker too.
    let _ = core.with_apply_lock(|processor| {
        core.workers.start(runtime);
        let works = processor.start().into_iter().filter_map(|listener| listener.take_worker());
        works.for_each(|work| core.workers.run(work));
    });
    let ticks = core.check_period().and_then(Ticks::every);
    let applier = BatchApplier { core: Arc::clone(core), queue: queue.clone(), options, ticks };
    let span = tracing::info_span!("informer", informer = &*core.name);
    run(reflector, queue, applier, handle, ending).instrument(span)
}

async fn run<Q>(reflector: Reflector, queue: Q, mut applier: BatchApplier<Q>, handle: ReflectorHandle, ending: Ending)
where
    Q: SharedQueue,
    Q::Taken: Send + Sync,
    Q::PendingVersions: Send + Sync,
{
    let core = Arc::clone(&ending.0);
    let (informer, caller, shown) = (&*core.name, core.caller(), Arc::clone(&core));
    info!(informer, "started");
    // The future owns the reflector and the queue, so that dropping it ends both.
    let working = async move {
        let working = controller::run(reflector, &queue, &mut applier);
        select(pin!(working), pin!(show(handle, &shown))).await;
    };
    let mut working = Box::pin(as_work_of(caller, working));
    let running = AssertUnwindSafe(&mut working).catch_unwind();
    match select(pin!(core.stop.wait()), pin!(running)).await {
        Either::Left(_) => {}
        Either::Right((ended, _)) => {
            let crash = match ended {
                Ok(()) => "its queue was closed".to_owned(),
                Err(panic) => format!("panicked: {}", panics::message(panic)),
            };
            error!(informer, error = crash, "the informer stops because of an internal error");
            let _ = core.crash.set(crash.into());
        }
    }
    do_as(caller, || {
        panics::drop_catching(working, |panic| {
            error!(informer, error = panic, "the source panicked when it was dropped");
        });
    });
    core.close();
    core.workers.ended().await;
    info!(informer, "stopped");
    drop(ending);
}

/// Records the metrics of the source, and publishes list errors that retrying cannot fix.
async fn show(mut handle: ReflectorHandle, core: &Core) {
    loop {
        let status = handle.changed().await;
        core.metrics.source(&SourceFigures {
            lists: status.lists,
            watches: status.watches,
            history_changes: status.history_changes,
            is_failing: status.failing_since.is_some(),
            confirmed_age: status.confirmed.map(|confirmed| confirmed.elapsed()),
            quarantined: handle.quarantined_count(),
        });
        let verdict = match &status.activity {
            Activity::BackingOff { because, .. } if !because.is_transient() => Some(Arc::clone(because)),
            // A new attempt is in progress, so the last error may not apply any more.
            Activity::Idle
            | Activity::Listing { .. }
            | Activity::Streaming { .. }
            | Activity::CheckingHistory
            | Activity::Opening
            | Activity::Watching
            | Activity::BackingOff { .. }
            | Activity::Stopped => None,
        };
        core.permanent_failure.send_replace(verdict);
        if let Activity::Stopped = status.activity {
            return std::future::pending().await;
        }
    }
}

/// Ends the informer when it is dropped, for example with its runtime.
struct Ending(Arc<Core>);

impl Drop for Ending {
    fn drop(&mut self) {
        // The informer was not asked to stop. If no other reason is recorded, its task was dropped.
        if !self.0.stop.initialized() {
            // Set after all calls of the source that `start` makes.
            let has_begun = self.0.source.get().is_some();
            let crash = if has_begun { "its runtime has ended" } else { "its source panicked" };
            let _ = self.0.crash.set(crash.into());
        }
        self.0.end();
    }
}

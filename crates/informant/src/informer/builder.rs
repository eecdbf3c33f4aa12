//! Settings of a shared informer, and what it is until it starts.

use std::error::Error;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::future::Either;
use futures_util::future::select;
use tokio::runtime::Handle;
use tracing::Instrument;
use tracing::error;
use tracing::info;

use super::SharedInformer;
use super::apply::Rules;
use super::apply::apply_changes;
use super::apply::apply_taken;
use super::controller;
use super::controller::ControllerQueue;
use super::core::Core;
use super::core::Source;
use super::turn::Apply;
use super::turn::Ticks;
use super::turn::Turns;
use crate::Object;
use crate::listwatch::Activity;
use crate::listwatch::Hear;
use crate::listwatch::ListWatch;
use crate::listwatch::ListWatchError;
use crate::listwatch::Quarantined;
use crate::listwatch::Reflector;
use crate::listwatch::ReflectorBuilder;
use crate::listwatch::ReflectorHandle;
use crate::listwatch::Transform;
use crate::panics;
use crate::queue::DeltaFifo;
use crate::queue::InOrderFifo;
use crate::store::Indexer;
use crate::subscribers::SharedProcessor;
use crate::subscribers::as_work_of;
use crate::subscribers::do_as;

/// Settings of a [`SharedInformer`].
pub struct InformerBuilder<O, L> {
    reflector: ReflectorBuilder<O, L, ()>,
    name: Option<Arc<str>>,
    resync: Option<Duration>,
    plan: Plan,
}

#[derive(Clone, Copy)]
struct Plan {
    is_in_order: bool,
    rules: Rules,
}

impl<O, L> InformerBuilder<O, L>
where
    O: Send + Sync + 'static,
    L: ListWatch<O>,
{
    fn new(reflector: ReflectorBuilder<O, L, ()>) -> Self {
        let rules = Rules { recreated_as_update: false, trusts_versions: true };
        Self { reflector, name: None, resync: None, plan: Plan { is_in_order: false, rules } }
    }

    pub(super) fn of_json(source: L) -> Self
    where
        O: Object,
    {
        Self::new(ReflectorBuilder::unplaced(source))
    }

    pub(super) fn of_ready(source: L) -> Self {
        Self::new(ReflectorBuilder::unplaced_ready(source))
    }

    /// What it is called in logs, errors and metrics. Default: what the source is called, such as `pods`.
    #[must_use]
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Tells handlers that do not say otherwise of everything in the cache again, this often; at least a second. No server is
    /// asked. Default: never, and then no handler can ask for it either.
    #[must_use]
    pub fn resync_every(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Queues every change in the server's order, instead of grouping what waits by object. Both give the same cache and the
    /// same order for each object; this one also keeps the order between objects. Default: grouped.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        self.plan.is_in_order = true;
        self
    }

    /// Tells handlers of an object that was deleted and created again while the watch was down as one update, as client-go
    /// does. Default: a delete of the old one, then an add of the new one.
    #[must_use]
    pub fn recreated_as_update(mut self) -> Self {
        self.plan.rules.recreated_as_update = true;
        self
    }

    /// Decodes everything again that a list repeats, and tells handlers of it as an update: for servers that change an object
    /// without changing its version. Default: what has the uid and version of the cached one is the cached one.
    #[must_use]
    pub fn distrust_versions(mut self) -> Self {
        self.plan.rules.trusts_versions = false;
        self
    }

    /// Changes each object before anybody sees it, once; see [`ReflectorBuilder::transform`].
    #[must_use]
    pub fn transform<E>(self, transform: impl Fn(&mut O) -> Result<(), E> + Send + Sync + 'static) -> Self
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.reflector(|reflector| reflector.transform(transform))
    }

    /// Hears of lists and watches that fail; see [`ReflectorBuilder::on_error`].
    #[must_use]
    pub fn on_error(self, hear: impl Fn(&ListWatchError) + Send + Sync + 'static) -> Self {
        self.reflector(|reflector| reflector.on_error(hear))
    }

    /// Hears of objects that cannot be read; see [`ReflectorBuilder::on_quarantine`].
    #[must_use]
    pub fn on_quarantine(self, hear: impl Fn(&Quarantined) + Send + Sync + 'static) -> Self {
        self.reflector(|reflector| reflector.on_quarantine(hear))
    }

    /// Changes settings of the reflector, such as page size, delays or time limits. Known objects and resyncs are the
    /// informer's own.
    #[must_use]
    pub fn reflector(mut self, change: impl FnOnce(ReflectorBuilder<O, L, ()>) -> ReflectorBuilder<O, L, ()>) -> Self {
        self.reflector = change(self.reflector);
        self
    }

    /// Makes the informer. It does nothing until it is [started](SharedInformer::start).
    pub fn build(self) -> SharedInformer<O> {
        let Self { reflector, name, resync, plan } = self;
        let name = name.unwrap_or_else(|| reflector.resource().into());
        let indexer = Indexer::builder().resource(Arc::clone(&name)).build();
        let core = Core::new(name, indexer, SharedProcessor::new(resync));
        SharedInformer::unstarted(core, Box::new(Unstarted { reflector, plan }))
    }
}

/// What can still be changed of an informer that has not started.
pub(super) trait Startable<O>: Send {
    /// Gives the one before.
    fn set_transform(&mut self, transform: Transform<O>) -> Option<Transform<O>>;
    /// Gives the one before.
    fn set_on_error(&mut self, hear: Hear<ListWatchError>) -> Option<Hear<ListWatchError>>;
    /// All of its work, until it is stopped. However that ends, also if it never begins, the informer ends with it.
    fn run(self: Box<Self>, core: Arc<Core<O>>, runtime: &Handle) -> BoxFuture<'static, ()>;
}

struct Unstarted<O, L> {
    reflector: ReflectorBuilder<O, L, ()>,
    plan: Plan,
}

impl<O, L> Startable<O> for Unstarted<O, L>
where
    O: Send + Sync + 'static,
    L: ListWatch<O>,
{
    fn set_transform(&mut self, transform: Transform<O>) -> Option<Transform<O>> {
        self.reflector.swap_transform(transform)
    }

    fn set_on_error(&mut self, hear: Hear<ListWatchError>) -> Option<Hear<ListWatchError>> {
        self.reflector.swap_on_error(hear)
    }

    fn run(self: Box<Self>, core: Arc<Core<O>>, runtime: &Handle) -> BoxFuture<'static, ()> {
        let Self { mut reflector, plan } = *self;
        let known = Arc::new(core.lister.clone());
        if plan.rules.trusts_versions {
            reflector = reflector.known_objects(known.clone());
        }
        let reflector = reflector.resync_every(Duration::ZERO);
        let name = Arc::clone(&core.name);
        match plan.is_in_order {
            false => {
                let queue = DeltaFifo::builder().known_objects(known).name(name).build();
                let parts =
                    Parts { queue, length: DeltaFifo::len, is_synced: DeltaFifo::is_synced, apply: apply_taken };
                Box::pin(parts.run(reflector, core, plan.rules, runtime))
            }
            true => {
                let queue = InOrderFifo::builder().name(name).build();
                let parts =
                    Parts { queue, length: InOrderFifo::len, is_synced: InOrderFifo::is_synced, apply: apply_changes };
                Box::pin(parts.run(reflector, core, plan.rules, runtime))
            }
        }
    }
}

/// A queue, and how it is used.
struct Parts<O, Q: ControllerQueue<O>> {
    queue: Q,
    length: fn(&Q) -> usize,
    is_synced: fn(&Q) -> bool,
    apply: Apply<O, Q::Taken>,
}

impl<O: Send + Sync + 'static, Q: ControllerQueue<O>> Parts<O, Q>
where
    Q::Taken: Send + Sync,
    Q::Ticket: Send + Sync,
{
    /// Makes what has to be there at once; the rest is done by what it gives.
    fn run<L: ListWatch<O>>(
        self,
        reflector: ReflectorBuilder<O, L, ()>,
        core: Arc<Core<O>>,
        rules: Rules,
        runtime: &Handle,
    ) -> impl Future<Output = ()> + Send + 'static + use<O, Q, L> {
        let Self { queue, length, is_synced, apply } = self;
        let reflector = reflector.with_destination(queue.clone()).build();
        let handle = reflector.handle();
        let looked_at = queue.clone();
        let source = Source { reflector: handle.clone(), queued: Box::new(move || length(&looked_at)) };
        // It is started once, so it is set once.
        let _ = core.source.set(source);
        // In a turn, so that nobody who joins meanwhile is left without a worker.
        let _ = core.in_turn(|processor| {
            core.workers.start(runtime);
            let works = processor.start().into_iter().filter_map(|listener| listener.begin_work());
            works.for_each(|work| core.workers.run(work));
        });
        let ticks = core.check_period().and_then(Ticks::every);
        let turns = Turns {
            core: Arc::clone(&core),
            reflector: handle.clone(),
            queue: queue.clone(),
            is_queue_synced: is_synced,
            apply,
            rules,
            ticks,
            rewinds: 0,
        };
        let span = tracing::info_span!("informer", kind = &*core.name);
        run_all(reflector, queue, turns, handle, Ending(core)).instrument(span)
    }
}

/// The whole life of an informer.
async fn run_all<O, L, Q>(
    reflector: Reflector<O, L, Q>,
    queue: Q,
    mut turns: Turns<O, Q>,
    handle: ReflectorHandle,
    ending: Ending<O>,
) where
    O: Send + Sync + 'static,
    L: ListWatch<O>,
    Q: ControllerQueue<O>,
    Q::Taken: Send + Sync,
    Q::Ticket: Send + Sync,
{
    let core = Arc::clone(&ending.0);
    let (kind, caller) = (&*core.name, core.caller());
    info!(kind, "started");
    // It owns all that works, so that nothing of it is left when it is dropped.
    let shown = Arc::clone(&core);
    let mut working = Box::pin(as_work_of(
        caller,
        Box::pin(async move {
            let working = controller::run(reflector, &queue, &mut turns);
            select(pin!(working), pin!(show(handle, &shown))).await;
        }),
    ));
    let running = AssertUnwindSafe(&mut working).catch_unwind();
    match select(pin!(core.stop.wait()), pin!(running)).await {
        Either::Left(_) => {}
        Either::Right((ended, _)) => {
            let crash = match ended {
                Ok(()) => "its queue was closed".to_owned(),
                Err(panic) => format!("panicked: {}", panics::said(panic)),
            };
            error!(kind, error = crash, "the informer cannot go on");
            let _ = core.crash.set(crash.into());
        }
    }
    // A source is users' code, also when it is dropped.
    if let Err(panic) = panics::catch(|| do_as(caller, || drop(working))) {
        error!(kind, error = panic, "the source panicked when it was dropped");
    }
    core.close();
    core.workers.ended().await;
    info!(kind, "stopped");
    drop(ending);
}

/// Keeps the figures of the source up to date.
async fn show<O: Send + Sync + 'static>(mut handle: ReflectorHandle, core: &Core<O>) {
    loop {
        let status = handle.changed().await;
        let quarantined = handle.quarantined_count();
        let (lists, watches, rewinds) = (status.lists, status.watches, status.rewinds);
        core.metrics.source(lists, watches, rewinds, status.failing_since.is_some(), quarantined);
        if let Activity::Stopped = status.activity {
            return std::future::pending().await;
        }
    }
}

struct Ending<O: Send + Sync + 'static>(Arc<Core<O>>);

impl<O: Send + Sync + 'static> Drop for Ending<O> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl<O, L> fmt::Debug for InformerBuilder<O, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerBuilder")
            .field("name", &self.name)
            .field("resync", &self.resync)
            .finish_non_exhaustive()
    }
}

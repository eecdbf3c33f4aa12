//! The process loop: runs a reflector, takes changes from its queue, and calls the code that processes them. Read this file first.
//!
//! - **In:** a reflector that fills a queue, and an implementation of `Process`.
//! - **Out:** every change, taken with a receipt and processed; no task is left when the loop ends.
//! - **Knows nothing of:** what processing means. In a shared informer it is [`batch_applier`](super::batch_applier), which writes the cache and distributes
//!   events; in a [`Controller`] it is a function of the user, with [retries](super::retry).

use std::{convert::Infallible, fmt, pin::pin};

use futures_util::future::{Either, select};
use tokio::{
    task::coop::consume_budget,
    time::{Instant, sleep_until},
};

use super::retry::{ProcessError, ProcessFailure, Retrying};
use crate::{
    Key,
    listwatch::{Backoff, Destination, Reflector, ReflectorBuilder, ReflectorHandle},
    queue::{Closed, Receipt, ReceiptQueue},
};

/// A low-level informer: lists and watches a source, and calls a function of yours with each queued change.
///
/// Use it if you keep a store of your own; for a cache with handlers use a [`SharedInformer`](super::SharedInformer). The function
/// receives one item at a time: all pending changes of one object ([`DeltaFifo`]) or a single change ([`InOrderFifo`]). If the function
/// fails or panics, the error is reported and the item is retried after a growing delay. Meanwhile the grouping queue continues with
/// other objects; the in-order queue waits.
///
/// The grouping queue needs read access to your store ([`known_objects`](crate::queue::DeltaFifoBuilder::known_objects)): it skips deletes
/// of objects that the store does not have, and it finds the objects that are absent from a relist. The in-order queue delivers
/// every change and every relist, and the function must compare a relist with the store itself.
///
/// [`DeltaFifo`]: crate::queue::DeltaFifo
/// [`InOrderFifo`]: crate::queue::InOrderFifo
///
/// ```
/// use std::sync::Arc;
/// use informant::{Lazy, delta::Delta};
/// use informant::informer::Controller;
/// use informant::listwatch::{KubeSource, Reflector};
/// use informant::queue::{DeltaFifo, ObjectChanges};
/// use informant::store::Indexer;
/// use informant_apiserver::ApiServer;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ApiServer::new();
/// server.put("configmaps", json!({"metadata": {"namespace": "shop", "name": "opening-hours"}}))?;
/// # let client = server.client();
/// // The store can be any type that implements `KnownObjects`; this example uses the library's own.
/// let store = Arc::new(Indexer::<Lazy<ConfigMap>>::new());
/// let queue = DeltaFifo::builder().known_objects(Arc::new(store.lister())).build();
/// let reflector = Reflector::builder(KubeSource::of_kind::<ConfigMap>(client));
///
/// let written = Arc::clone(&store);
/// let controller = Controller::new(reflector, queue.clone(), move |taken: &ObjectChanges<Lazy<ConfigMap>>| {
///     match taken.deltas().newest() {
///         Delta::Deleted(deleted) => drop(written.remove(deleted.key())),
///         // Any error makes the controller retry; here, an error of decoding.
///         delta => {
///             delta.object().get()?;
///             written.upsert(delta.object().clone());
///         }
///     }
///     Ok(())
/// });
///
/// // The controller runs until this future completes.
/// controller.run(async { queue.synced().await.unwrap() }).await;
/// assert!(store.lister().get(&"shop/opening-hours".parse()?).is_some());
/// # Ok(())
/// # }
/// ```
#[must_use = "a controller does nothing until it runs"]
pub struct Controller<Q: ReceiptQueue, F> {
    reflector: Reflector,
    queue: Q,
    process: Retrying<Q, F>,
}

/// The queues that a [`Controller`] can use: [`DeltaFifo`](crate::queue::DeltaFifo) and
/// [`InOrderFifo`](crate::queue::InOrderFifo). Other crates cannot implement it.
pub trait ControllerQueue: ReceiptQueue + Clone + Send + Sync + 'static {
    /// Takes one item.
    #[doc(hidden)]
    fn take_one(&self) -> impl Future<Output = Result<Receipt<Self>, Closed>> + Send;

    /// Takes all items that can be processed at once.
    #[doc(hidden)]
    fn take_all(&self) -> impl Future<Output = Result<Receipt<Self>, Closed>> + Send;

    /// Closes the queue.
    #[doc(hidden)]
    fn end(&self);

    /// The object that an item belongs to; `None` if it concerns all objects.
    #[doc(hidden)]
    fn key_of(item: &Self::Taken) -> Option<&Key>;

    /// The number of changes in an item.
    #[doc(hidden)]
    fn changes_of(item: &Self::Taken) -> usize;
}

/// The code that processes what the loop takes from the queue.
pub(super) trait Process<Q: ReceiptQueue> {
    /// The number of items that the loop takes at once.
    const TAKES: Takes;

    /// Processes the items of a receipt, and acknowledges it now or later.
    fn process(&mut self, receipt: Receipt<Q>);

    /// The time of the next call of `wake`, if any.
    fn wakes_at(&self) -> Option<Instant>;

    /// Called when the time that `wakes_at` returned has passed.
    fn wake(&mut self, now: Instant);
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    One,
    All,
}

impl<Q, F> Controller<Q, F>
where
    Q: ControllerQueue,
    F: FnMut(&Q::Taken) -> Result<(), ProcessFailure> + Send,
{
    /// Creates a controller: a reflector that fills `queue`, and a loop that calls `process` for each queued item.
    pub fn new<O>(reflector: ReflectorBuilder<O>, queue: Q, process: F) -> Self
    where
        O: Send + Sync + 'static,
        Q: Destination<O>,
    {
        let reflector = reflector.build(queue.clone());
        Self { reflector, queue, process: Retrying::new(process, Q::key_of, Q::changes_of) }
    }

    /// Returns a handle that shows what the reflector is doing. Get it before `run`, which consumes the controller.
    pub fn handle(&self) -> ReflectorHandle {
        self.reflector.handle()
    }

    /// Sets the delays between retries of an item. Default: 5 ms, doubling up to 30 s.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.process.backoff(backoff);
        self
    }

    /// Calls `callback` for each item that could not be processed. Default: the error is logged as a warning.
    pub fn on_error(mut self, callback: impl Fn(&ProcessError) + Send + Sync + 'static) -> Self {
        self.process.on_error(Box::new(callback));
        self
    }

    /// Runs until `stop` completes, or until the queue is closed elsewhere and empty. A running call of the function finishes first; no
    /// further item is taken.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) {
        let Self { reflector, queue, mut process } = self;
        let running = run(reflector, &queue, &mut process);
        select(pin!(stop), pin!(running)).await;
        queue.end();
    }
}

/// Runs a reflector beside the process loop. Both end when the future is dropped, between two steps.
pub(super) async fn run<Q, P>(reflector: Reflector, queue: &Q, process: &mut P)
where
    Q: ControllerQueue,
    P: Process<Q>,
{
    let reflecting = pin!(reflector.run(std::future::pending()));
    let processing = pin!(process_all(queue, process));
    // The reflector is polled first: received changes are queued before the loop takes a batch, so batches are as large as possible.
    select(reflecting, processing).await;
}

async fn process_all<Q, P>(queue: &Q, process: &mut P) -> Result<Infallible, Closed>
where
    Q: ControllerQueue,
    P: Process<Q>,
{
    loop {
        let taken = async {
            match P::TAKES {
                Takes::One => queue.take_one().await,
                Takes::All => queue.take_all().await,
            }
        };
        let wakes_at = process.wakes_at();
        let woken = async {
            match wakes_at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        match select(pin!(taken), pin!(woken)).await {
            Either::Left((receipt, _)) => process.process(receipt?),
            Either::Right(((), _)) => {}
        }
        // Checked after each batch, so that `wake` is also called while the queue is never empty.
        let now = Instant::now();
        if process.wakes_at().is_some_and(|at| at <= now) {
            process.wake(now);
        }
        consume_budget().await;
    }
}

impl<Q: ReceiptQueue, F> fmt::Debug for Controller<Q, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller").field("reflector", &self.reflector).finish_non_exhaustive()
    }
}

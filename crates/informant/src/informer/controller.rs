//! The process loop: runs a reflector, takes what it queues, and has it processed. Read this first.
//!
//! - **In:** a reflector that fills a queue, and somebody who processes what is taken from it.
//! - **Out:** every change, taken with a receipt and processed; nothing is left running at the end.
//! - **Knows nothing of:** what processing means. For a shared informer that is [`turn`](super::turn): write the cache, tell the
//!   handlers. On its own, it is a function of the user's, with [retries](super::retry).

use std::convert::Infallible;
use std::fmt;
use std::pin::pin;

use futures_util::future::Either;
use futures_util::future::select;
use tokio::task::coop::consume_budget;
use tokio::time::Instant;
use tokio::time::sleep_until;

use super::retry::Failed;
use super::retry::ProcessError;
use super::retry::Retrying;
use crate::Key;
use crate::listwatch::Backoff;
use crate::listwatch::Destination;
use crate::listwatch::Reflector;
use crate::listwatch::ReflectorBuilder;
use crate::listwatch::ReflectorHandle;
use crate::queue::Closed;
use crate::queue::Receipt;
use crate::queue::ReceiptQueue;

/// The low-level informer: keeps a queue in step with a source, and has a function of yours process what is taken from it.
///
/// Whoever wants a cache and handlers takes a [`SharedInformer`](super::SharedInformer). This one is for those who keep a
/// store of their own: the function gets one item at a time, all that happened to one object ([`DeltaFifo`]) or one change
/// ([`InOrderFifo`]). If it fails or panics, that is reported, and the item comes again after a delay that grows; in the
/// grouping queue others go on meanwhile, in the in-order queue all wait.
///
/// The grouping queue must know what your store has
/// ([`known_objects`](crate::queue::DeltaFifoBuilder::known_objects)): it does not tell of the delete of an object that nobody
/// has, and finds with it what a new list lacks. The in-order queue tells everything as it comes, and its consumer finds out.
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
/// // The store can be anything that says what it has; here it is the library's own.
/// let store = Arc::new(Indexer::<Lazy<ConfigMap>>::new());
/// let queue = DeltaFifo::builder().known_objects(Arc::new(store.lister())).build();
/// let reflector = Reflector::builder(KubeSource::of_kind::<ConfigMap>(client));
///
/// let written = Arc::clone(&store);
/// let controller = Controller::new(reflector, queue.clone(), move |taken: &ObjectChanges<Lazy<ConfigMap>>| {
///     match taken.deltas().newest() {
///         Delta::Deleted(deleted) => drop(written.remove(deleted.key())),
///         // Any error becomes a reason to try again: here, one of decoding.
///         delta => {
///             delta.object().get()?;
///             written.upsert(delta.object().clone());
///         }
///     }
///     Ok(())
/// });
///
/// // It runs until the future that it gets is done.
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

/// A queue that a controller can run on: [`DeltaFifo`](crate::queue::DeltaFifo) or [`InOrderFifo`](crate::queue::InOrderFifo).
/// There are no others, since there are no other [`ReceiptQueue`]s.
pub trait ControllerQueue: ReceiptQueue + Clone + Send + Sync + 'static {
    /// Takes one item.
    #[doc(hidden)]
    fn take_one(&self) -> impl Future<Output = Result<Receipt<Self>, Closed>> + Send;

    /// Takes all that can be processed at once.
    #[doc(hidden)]
    fn take_all(&self) -> impl Future<Output = Result<Receipt<Self>, Closed>> + Send;

    /// Ends it.
    #[doc(hidden)]
    fn end(&self);

    /// Which object an item is about, if it is about one.
    #[doc(hidden)]
    fn key_of(item: &Self::Taken) -> Option<&Key>;

    /// How many changes an item has.
    #[doc(hidden)]
    fn changes_of(item: &Self::Taken) -> usize;
}

/// What is done with what was taken.
pub(super) trait Process<Q: ReceiptQueue> {
    /// How much is taken at once.
    const TAKES: Takes;

    /// Processes what was taken, and answers the receipt, now or later.
    fn process(&mut self, receipt: Receipt<Q>);

    /// When it wants to be woken, if nothing comes before.
    fn wakes_at(&self) -> Option<Instant>;

    /// It is time.
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
    F: FnMut(&Q::Taken) -> Result<(), Failed> + Send,
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

    /// How delays grow for an item that fails again and again. Default: 5 ms, doubling up to 30 s.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.process.backoff(backoff);
        self
    }

    /// Hears of each item that could not be processed. Default: it is logged.
    pub fn on_error(mut self, hear: impl Fn(&ProcessError) + Send + Sync + 'static) -> Self {
        self.process.on_error(Box::new(hear));
        self
    }

    /// Runs until `stop` is done, or somebody else has closed the queue and it is empty. What is being processed then is brought
    /// to its end, and nothing more is taken.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) {
        let Self { reflector, queue, mut process } = self;
        let running = run(reflector, &queue, &mut process);
        select(pin!(stop), pin!(running)).await;
        queue.end();
    }
}

/// Runs a reflector beside the process loop. Both end when this is dropped, between two steps.
pub(super) async fn run<Q, P>(reflector: Reflector, queue: &Q, process: &mut P)
where
    Q: ControllerQueue,
    P: Process<Q>,
{
    let reflecting = pin!(reflector.run(std::future::pending()));
    let processing = pin!(process_all(queue, process));
    // The reflector first: what has come is queued before it is taken, so batches are as large as they can be.
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
        // Also if there is always something to take.
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

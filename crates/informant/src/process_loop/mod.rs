//! A low-level informer that calls a function of the user with each change, in place of a cache and handlers.
//!
//! - **In:** a reflector that fills a queue, and the function.
//! - **Out:** every queued change, processed by the function; no task is left when the loop ends.
//! - **Knows nothing of:** the cache and the handlers of a shared informer, which has a loop of its own.

mod retry; // calls the function, and retries items that it could not process

use std::{convert::Infallible, pin::pin};

use futures_util::future::select;
use tokio::{
    task::coop::consume_budget,
    time::{Instant, timeout_at},
};

pub use self::retry::ProcessError;
use self::retry::{ProcessFailure, Retrier};
use crate::{
    listwatch::{Backoff, Reflector, ReflectorBuilder, ReflectorHandle},
    queue::{Closed, DeltaFifo, ObjectChanges},
};

/// Lists and watches a source, and calls a function of yours with each queued change.
///
/// Use it if you keep a store of your own; for a cache with handlers use a [`SharedInformer`](crate::SharedInformer). The function
/// receives one item at a time: all pending changes of one object. There is no order between objects. If the function fails or panics, the error is
/// reported and the item is retried after a growing delay; other objects do not wait for it. The function can return any error: `?` converts it.
///
/// The queue needs read access to your store ([`known_objects`](crate::queue::DeltaFifoBuilder::known_objects)): it skips deletes
/// of objects that the store does not have, and it finds the objects that are absent from a relist.
///
/// ```
/// use std::sync::Arc;
/// use informant::{Lazy, pipeline::{Delta, DeltaFifo, Indexer, KubeSource, ObjectChanges, ProcessLoop, Reflector}};
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
/// let process_loop = ProcessLoop::new(reflector, queue.clone(), move |item: &ObjectChanges<Lazy<ConfigMap>>| {
///     match item.deltas().newest() {
///         Delta::Deleted(deleted) => drop(written.remove(deleted.key())),
///         // Any error makes the loop retry; here, an error of decoding.
///         delta => {
///             delta.object().get()?;
///             written.upsert(delta.object().clone());
///         }
///     }
///     Ok(())
/// });
///
/// // The loop runs until this future completes.
/// process_loop.run(async { queue.synced().await.unwrap() }).await;
/// assert!(store.lister().get(&"shop/opening-hours".parse()?).is_some());
/// # Ok(())
/// # }
/// ```
#[doc(alias = "Controller")]
#[must_use = "a process loop does nothing until it runs"]
pub struct ProcessLoop<O, F> {
    reflector: Reflector,
    queue: DeltaFifo<O>,
    process: Retrier<O, F>,
}

impl<O, F> ProcessLoop<O, F>
where
    O: Send + Sync + 'static,
    F: FnMut(&ObjectChanges<O>) -> Result<(), ProcessFailure> + Send,
{
    /// Creates a loop: a reflector that fills `queue`, and a function that is called for each queued item.
    pub fn new(reflector: ReflectorBuilder<O>, queue: DeltaFifo<O>, process: F) -> Self {
        Self { reflector: reflector.build(queue.clone()), queue, process: Retrier::new(process) }
    }

    /// Returns a handle that shows what the reflector is doing. Get it before `run`, which consumes the loop.
    pub fn handle(&self) -> ReflectorHandle {
        self.reflector.handle()
    }

    /// Sets the delays between retries of an item. Default: 5 ms, doubling up to 30 s.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.process.backoff = backoff;
        self
    }

    /// Calls `callback` for each item that could not be processed. Default: the error is logged as a warning.
    pub fn on_error(mut self, callback: impl Fn(&ProcessError) + Send + Sync + 'static) -> Self {
        self.process.on_error = Some(Box::new(callback));
        self
    }

    /// Runs until `stop` completes, or until the queue is closed elsewhere and empty. A running call of the function finishes first; no
    /// further item is taken.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) {
        let Self { reflector, queue, mut process } = self;
        let reflecting = pin!(reflector.run(std::future::pending()));
        let processing = pin!(process_all(&queue, &mut process));
        select(pin!(stop), select(reflecting, processing)).await;
        queue.close();
    }
}

async fn process_all<O, F>(queue: &DeltaFifo<O>, process: &mut Retrier<O, F>) -> Result<Infallible, Closed>
where
    F: FnMut(&ObjectChanges<O>) -> Result<(), ProcessFailure>,
{
    loop {
        let taken = match process.next_retry() {
            Some(at) => timeout_at(at, queue.pop()).await.ok(),
            None => Some(queue.pop().await),
        };
        if let Some(batch) = taken {
            process.process(batch?);
        }
        // Checked after each item, so that items are also retried while the queue is never empty.
        process.requeue_due(Instant::now());
        consume_budget().await;
    }
}

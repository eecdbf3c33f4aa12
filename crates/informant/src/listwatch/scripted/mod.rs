//! A source for tests: it answers from a script, or is driven live by the test.
//!
//! - **In:** scripted answers; with a [`SourceHandle`], changes of objects and failures.
//! - **Out:** the answers to lists and watches, and a record of the requests.
//! - **Knows nothing of:** the reflector that makes the requests.
//!
//! | file | what |
//! | --- | --- |
//! | `answers` | the scripted answers to one list and to one watch |
//! | `live` | the handle that drives a live source, and the lists and watches of such a source |
//! | `timeline` | the objects and the history of a live source, as plain data |

mod answers;
mod live;
mod timeline;

use std::{collections::VecDeque, fmt, sync::Arc, time::Duration};

use derive_where::derive_where;
use futures_util::{StreamExt, stream, stream::BoxStream};
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use self::{answers::Step, timeline::Timeline};
pub use self::{
    answers::{ScriptedAnswer, ScriptedList, ScriptedWatch},
    live::SourceHandle,
};
use super::{ListRequest, ListStream, ListWatch, Served, SourceError, WatchRequest, WatchStream};

/// A source for tests of code that uses an informer or a reflector. Cheap to clone; all clones are the same source.
///
/// It is used in one of two ways:
///
/// - [`live`](Self::live): the test holds a [`SourceHandle`] and changes objects or breaks the watch at any time. The source keeps the objects, so
///   that every list and every resumed watch is consistent with the events before. Use it to test a handler.
/// - [`new`](Self::new): the test writes down the answer to each request beforehand, word for word. Use it to test exactly which requests
///   are made, and what happens if the answers contradict each other.
///
/// It also records all [requests](Self::requests), in the notation `L(0, 500)` (a list of version 0 with at most 500 items a page), `W(10)` (a watch
/// from version 10), `WL("")` (a streamed list).
///
/// # Testing a handler
///
/// A change returns its version, and the [registration](crate::Registration) of the handler under test waits until the handler has
/// received it:
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use informant::{SharedInformer, testing::ScriptedSource};
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> informant::Result<()> {
/// let (source, handle) = ScriptedSource::live();
/// let informer = SharedInformer::<ConfigMap>::new(source);
/// let names = Arc::new(Mutex::new(Vec::new()));
/// let added = Arc::clone(&names);
/// let handler = informer
///     .subscribe()
///     .on_add(move |config, _| added.lock().unwrap().push(config.key().name().to_owned()))
///     .register()?;
/// informer.start();
///
/// handle.added(json!({"metadata": {"namespace": "shop", "name": "hours"}}));
/// handle.added(json!({"metadata": {"namespace": "shop", "name": "prices"}}));
/// handler.caught_up_to(&handle.version()).await?;
/// assert_eq!(*names.lock().unwrap(), ["hours", "prices"]);
/// informer.stop().await?;
/// # Ok(())
/// # }
/// ```
///
/// This test takes a handler through a watch failure, and a relist that reveals a missed delete. Time is paused, so the informer's delay before
/// the relist costs no time:
///
/// ```
/// use informant::{Deleted, SharedInformer, error::SourceError, testing::ScriptedSource};
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use serde_json::json;
/// use tokio::sync::mpsc;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (source, handle) = ScriptedSource::live();
/// handle.added(json!({"metadata": {"namespace": "shop", "name": "hours"}, "data": {"open": "9-17"}}));
/// handle.added(json!({"metadata": {"namespace": "shop", "name": "prices"}}));
///
/// // The handler under test sends its findings to this channel.
/// let (sender, mut findings) = mpsc::unbounded_channel();
/// let (updates, deletes) = (sender.clone(), sender);
/// let informer = SharedInformer::<ConfigMap>::new(source);
/// informer
///     .subscribe()
///     .on_update(move |_, new| updates.send(format!("{} is open {}", new.key(), new.data.as_ref().unwrap()["open"])).unwrap())
///     .on_delete(move |deleted| deletes.send(match deleted {
///         Deleted::Observed(config) => format!("{} was deleted", config.key()),
///         Deleted::Missed { last_known } => format!("{} was deleted during an outage", last_known.key()),
///     }).unwrap())
///     .register()?;
/// informer.start();
/// informer.synced().await?;
///
/// handle.modified(json!({"metadata": {"namespace": "shop", "name": "hours"}, "data": {"open": "10-18"}}));
/// assert_eq!(findings.recv().await.unwrap(), "shop/hours is open 10-18");
///
/// // The watch fails, and an object is deleted before the informer lists again.
/// handle.fail_watch(SourceError::expired);
/// handle.deleted("shop/prices");
/// assert_eq!(findings.recv().await.unwrap(), "shop/prices was deleted during an outage");
///
/// // The new watch works as before.
/// handle.deleted("shop/hours");
/// assert_eq!(findings.recv().await.unwrap(), "shop/hours was deleted");
/// informer.stop().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Scripting each answer
///
/// A list takes the next scripted list, and a watch the next scripted watch. A request without an answer waits until there is one.
///
/// ```
/// use informant::{Identity, Key, pipeline::{DeltaFifo, Item, Reflector}, testing::{ScriptedList, ScriptedSource, ScriptedWatch}};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let stock = |name: &str, count: u32| Item::new(Identity::of_key(Key::cluster_scoped(name)), count);
/// let source = ScriptedSource::new();
/// source.on_list(ScriptedList::at("10").object(stock("apples", 12)));
/// source.on_watch(ScriptedWatch::new().added(stock("pears", 3)).stays_open());
///
/// let queue = DeltaFifo::<u32>::new();
/// let reflector = Reflector::of_decoded_objects(source.clone()).build(queue.clone());
/// let running = tokio::spawn(reflector.run(std::future::pending()));
/// source.wait_for_requests(2).await;
///
/// assert_eq!(source.requests(), ["L(0, 500)", "W(10)"]);
/// running.abort();
/// # }
/// ```
#[derive_where(Clone, Debug, Default)]
pub struct ScriptedSource<O> {
    #[derive_where(skip(Debug))]
    shared: Arc<ScriptState<O>>,
}

#[derive_where(Default)]
struct ScriptState<O> {
    script: Mutex<Script<O>>,
    /// Notified after each request and each new answer.
    asked: Notify,
    /// Each open watch holds a clone.
    open: Arc<()>,
    /// Answers the requests that have no scripted answer.
    live: Option<Arc<Mutex<Timeline>>>,
}

#[derive_where(Default)]
struct Script<O> {
    lists: VecDeque<ScriptedList<O>>,
    watches: VecDeque<ScriptedWatch<O>>,
    streams: VecDeque<ScriptedWatch<O>>,
    streams_lists: bool,
    served: Served,
    requests: Vec<(Instant, String)>,
}

impl<O> ScriptedSource<O> {
    /// Creates an empty source, and the handle that controls it. See [above](Self#testing-a-handler) for an example.
    ///
    /// Scripted answers ([`on_list`](Self::on_list), [`on_watch`](Self::on_watch)) take precedence: the source answers a request from its
    /// objects if no scripted answer is left.
    pub fn live() -> (Self, SourceHandle<O>) {
        let timeline = Arc::new(Mutex::new(Timeline::new()));
        let shared = ScriptState { live: Some(Arc::clone(&timeline)), ..ScriptState::default() };
        let source = Self { shared: Arc::new(shared) };
        (source.clone(), SourceHandle { source, timeline })
    }

    /// Creates a source without answers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends an answer to the queue of answers for lists.
    pub fn on_list(&self, answer: ScriptedList<O>) {
        self.shared.script.lock().lists.push_back(answer);
        self.shared.asked.notify_waiters();
    }

    /// Appends an answer to the queue of answers for watches.
    pub fn on_watch(&self, answer: ScriptedWatch<O>) {
        self.shared.script.lock().watches.push_back(answer);
        self.shared.asked.notify_waiters();
    }

    /// Appends an answer to the queue of answers for streamed lists, and makes the source one that
    /// [can stream lists](ListWatch::can_stream_lists).
    pub fn on_stream(&self, answer: ScriptedWatch<O>) {
        let mut script = self.shared.script.lock();
        script.streams_lists = true;
        script.streams.push_back(answer);
        drop(script);
        self.shared.asked.notify_waiters();
    }

    /// Sets the answer to [`is_served`](ListWatch::is_served). Default: [`Served::Unknown`].
    pub fn serves(&self, served: Served) {
        self.shared.script.lock().served = served;
    }

    /// Returns the requests so far, oldest first: `L(0, 500)`, `W(10)`.
    pub fn requests(&self) -> Vec<String> {
        self.shared.script.lock().requests.iter().map(|(_, request)| request.clone()).collect()
    }

    /// Returns the times of the [requests](Self::requests).
    pub fn times(&self) -> Vec<Instant> {
        self.shared.script.lock().requests.iter().map(|(time, _)| *time).collect()
    }

    /// Waits until the source has received this many requests since it was created.
    pub async fn wait_for_requests(&self, count: usize) {
        self.wait_for(|script| (script.requests.len() >= count).then_some(())).await;
    }

    /// Returns how many watches are open, including streamed lists.
    pub fn open_watches(&self) -> usize {
        Arc::strong_count(&self.shared.open) - 1
    }

    /// Takes an answer of the script; a source that is not live waits for one.
    async fn scripted<R>(&self, mut take: impl FnMut(&mut Script<O>) -> Option<R>) -> Result<R, &Mutex<Timeline>> {
        match &self.shared.live {
            None => Ok(self.wait_for(take).await),
            Some(live) => take(&mut self.shared.script.lock()).ok_or(live),
        }
    }

    async fn wait_for<R>(&self, mut attempt: impl FnMut(&mut Script<O>) -> Option<R>) -> R {
        loop {
            let asked = self.shared.asked.notified();
            tokio::pin!(asked);
            // Registers for the notification before the script is read, so that a change in between is not missed.
            asked.as_mut().enable();
            if let Some(result) = attempt(&mut self.shared.script.lock()) {
                return result;
            }
            asked.await;
        }
    }

    fn record(&self, request: &impl fmt::Display) {
        self.shared.script.lock().requests.push((Instant::now(), request.to_string()));
        self.shared.asked.notify_waiters();
    }
}

impl<O: Send + Sync + 'static> ListWatch<O> for ScriptedSource<O> {
    async fn list(&self, request: ListRequest) -> Result<ListStream<O>, SourceError> {
        self.record(&request);
        match self.scripted(|script| script.lists.pop_front()).await {
            Err(live) => Ok(live.lock().list()),
            Ok(answer) => answer.give().await,
        }
    }

    async fn watch(&self, request: WatchRequest) -> Result<WatchStream<O>, SourceError> {
        self.record(&request);
        let answers = |script: &mut Script<O>| match request.sends_initial_events {
            true => script.streams.pop_front(),
            false => script.watches.pop_front(),
        };
        let pieces = match self.scripted(answers).await {
            Err(live) => live.lock().watch(&request)?,
            Ok(answer) => answer.give().await?,
        };
        let open = Arc::clone(&self.shared.open);
        Ok(stream::unfold((pieces, open), |(mut pieces, open)| async move {
            pieces.next().await.map(|piece| (piece, (pieces, open)))
        })
        .boxed())
    }

    async fn is_served(&self) -> Served {
        self.record(&"is it served?");
        self.shared.script.lock().served
    }

    fn can_stream_lists(&self) -> bool {
        self.shared.script.lock().streams_lists
    }
}

impl<P: Send + 'static> ScriptedAnswer<P> {
    /// Waits, and returns the pieces of the answer, or the error that refuses the request.
    async fn give(self) -> Result<BoxStream<'static, Result<P, SourceError>>, SourceError> {
        let Self { delay, refusal, mut steps, end } = self;
        wait(delay).await;
        steps.extend(end.map(Step::Piece));
        let pieces = stream::unfold(steps, |mut steps| async move {
            loop {
                let piece = match steps.pop_front()? {
                    Step::Piece(piece) => Ok(piece),
                    Step::Fail(error) => Err(error),
                    Step::Wait(time) => {
                        wait(time).await;
                        continue;
                    }
                    Step::Forever => std::future::pending().await,
                };
                return Some((piece, steps));
            }
        });
        refusal.map_or_else(|| Ok(pieces.boxed()), Err)
    }
}

async fn wait(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

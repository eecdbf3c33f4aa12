//! A source that says what a test tells it to.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Item;
use super::ListPiece;
use super::ListRequest;
use super::ListStream;
use super::ListWatch;
use super::Served;
use super::SourceError;
use super::SourceEvent;
use super::WatchPiece;
use super::WatchRequest;
use super::WatchStream;
use super::frames::ListMetadata;
use crate::ResourceVersion;

/// A source that answers as scripted, for tests of what stands on a reflector. Clones are the same source.
///
/// Each list and each watch takes the next answer of its kind; one that has no answer left waits for ever. What was asked
/// is written down, in the notation of informer specifications: `L(0, 500)`, `W(10)`, `WL("")`.
///
/// ```
/// use informant::{Key, object::Identity};
/// use informant::listwatch::{Item, Reflector, ScriptedList, ScriptedSource, ScriptedWatch};
/// use informant::queue::DeltaFifo;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let stock = |name: &str, count: u32| Item::new(Identity::of_key(Key::cluster_scoped(name)), count);
/// let source = ScriptedSource::new();
/// source.on_list(ScriptedList::at("10").object(stock("apples", 12)));
/// source.on_watch(ScriptedWatch::new().added(stock("pears", 3)).stays_open());
///
/// let queue = DeltaFifo::<u32>::new();
/// let reflector = Reflector::of_ready_objects(source.clone()).build(queue.clone());
/// let running = tokio::spawn(reflector.run(std::future::pending()));
/// source.asked(2).await;
///
/// assert_eq!(source.requests(), ["L(0, 500)", "W(10)"]);
/// running.abort();
/// # }
/// ```
pub struct ScriptedSource<O> {
    shared: Arc<Shared<O>>,
}

struct Shared<O> {
    script: Mutex<Script<O>>,
    asked: Notify,
    open: AtomicUsize,
}

struct Script<O> {
    lists: VecDeque<ScriptedList<O>>,
    watches: VecDeque<ScriptedWatch<O>>,
    streams: VecDeque<ScriptedWatch<O>>,
    streams_lists: bool,
    served: Served,
    requests: Vec<(Instant, String)>,
}

/// The answer to a list.
pub struct ScriptedList<O> {
    delay: Duration,
    answer: Result<Vec<Result<ListPiece<O>, SourceError>>, SourceError>,
    end: ListMetadata,
}

/// The answer to a watch: what it says, and how it ends.
pub struct ScriptedWatch<O> {
    delay: Duration,
    refusal: Option<SourceError>,
    steps: VecDeque<Step<O>>,
}

enum Step<O> {
    Piece(WatchPiece<O>),
    Fail(SourceError),
    Wait(Duration),
    Forever,
}

impl<O> ScriptedSource<O> {
    /// A source without answers.
    pub fn new() -> Self {
        let script = Script {
            lists: VecDeque::new(),
            watches: VecDeque::new(),
            streams: VecDeque::new(),
            streams_lists: false,
            served: Served::Unknown,
            requests: Vec::new(),
        };
        let shared = Shared { script: Mutex::new(script), asked: Notify::new(), open: AtomicUsize::new(0) };
        Self { shared: Arc::new(shared) }
    }

    /// The answer to the next list that has none yet.
    pub fn on_list(&self, answer: ScriptedList<O>) {
        self.shared.script.lock().lists.push_back(answer);
        self.shared.asked.notify_waiters();
    }

    /// The answer to the next watch that has none yet.
    pub fn on_watch(&self, answer: ScriptedWatch<O>) {
        self.shared.script.lock().watches.push_back(answer);
        self.shared.asked.notify_waiters();
    }

    /// The answer to the next streamed list that has none yet. From now on, such are asked for.
    pub fn on_stream(&self, answer: ScriptedWatch<O>) {
        let mut script = self.shared.script.lock();
        script.streams_lists = true;
        script.streams.push_back(answer);
        drop(script);
        self.shared.asked.notify_waiters();
    }

    /// What it says when it is asked whether it has the kind. Default: unknown.
    pub fn serves(&self, served: Served) {
        self.shared.script.lock().served = served;
    }

    /// What was asked so far.
    pub fn requests(&self) -> Vec<String> {
        self.shared.script.lock().requests.iter().map(|(_, request)| request.clone()).collect()
    }

    /// When it was asked, for each request.
    pub fn times(&self) -> Vec<Instant> {
        self.shared.script.lock().requests.iter().map(|(time, _)| *time).collect()
    }

    /// Waits until so much was asked.
    pub async fn asked(&self, count: usize) {
        self.wait_for(|script| (script.requests.len() >= count).then_some(())).await;
    }

    /// How many watches are open, streamed lists included.
    pub fn open_watches(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    async fn wait_for<R>(&self, mut attempt: impl FnMut(&mut Script<O>) -> Option<R>) -> R {
        loop {
            let asked = self.shared.asked.notified();
            tokio::pin!(asked);
            // Enlisted before looking, so that nothing can slip in between unnoticed.
            asked.as_mut().enable();
            if let Some(result) = attempt(&mut self.shared.script.lock()) {
                return result;
            }
            asked.await;
        }
    }

    fn write_down(&self, request: &impl fmt::Display) {
        self.shared.script.lock().requests.push((Instant::now(), request.to_string()));
        self.shared.asked.notify_waiters();
    }
}

impl<O> ScriptedList<O> {
    /// A list of this version, in one page.
    pub fn at(version: impl Into<ResourceVersion>) -> Self {
        let end = ListMetadata { resource_version: version.into(), ..ListMetadata::default() };
        Self { delay: Duration::ZERO, answer: Ok(Vec::new()), end }
    }

    /// No list, but an error.
    pub fn fails(error: SourceError) -> Self {
        Self { delay: Duration::ZERO, answer: Err(error), end: ListMetadata::default() }
    }

    /// With an item.
    #[must_use]
    pub fn object(self, item: Item<O>) -> Self {
        self.piece(Ok(ListPiece::Item(item)))
    }

    /// With an object as JSON.
    #[must_use]
    pub fn json(self, json: impl Into<Bytes>) -> Self {
        self.piece(Ok(ListPiece::Item(Item::json(json))))
    }

    /// Breaks off here.
    #[must_use]
    pub fn breaks(self, error: SourceError) -> Self {
        self.piece(Err(error))
    }

    /// There is more, for who asks with this token.
    #[must_use]
    pub fn more(mut self, continue_token: &str) -> Self {
        self.end.continue_token = continue_token.into();
        self
    }

    /// It takes so long to answer.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    fn piece(mut self, piece: Result<ListPiece<O>, SourceError>) -> Self {
        if let Ok(pieces) = &mut self.answer {
            pieces.push(piece);
        }
        self
    }
}

impl<O> ScriptedWatch<O> {
    /// A watch that says nothing and ends at once, unless it is told more.
    pub fn new() -> Self {
        Self { delay: Duration::ZERO, refusal: None, steps: VecDeque::new() }
    }

    /// No watch, but an error.
    pub fn fails(error: SourceError) -> Self {
        Self { refusal: Some(error), ..Self::new() }
    }

    /// It takes so long to answer.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Tells of a new object.
    #[must_use]
    pub fn added(self, item: Item<O>) -> Self {
        self.event(SourceEvent::Added(item))
    }

    /// Tells of a changed object.
    #[must_use]
    pub fn modified(self, item: Item<O>) -> Self {
        self.event(SourceEvent::Modified(item))
    }

    /// Tells of an object that is gone.
    #[must_use]
    pub fn deleted(self, item: Item<O>) -> Self {
        self.event(SourceEvent::Deleted(item))
    }

    /// Tells how far it is.
    #[must_use]
    pub fn bookmark(self, version: impl Into<ResourceVersion>) -> Self {
        self.event(SourceEvent::Bookmark { version: version.into(), ends_initial_events: false })
    }

    /// Tells that a streamed list is complete.
    #[must_use]
    pub fn list_ends(self, version: impl Into<ResourceVersion>) -> Self {
        self.event(SourceEvent::Bookmark { version: version.into(), ends_initial_events: true })
    }

    /// Tells anything.
    #[must_use]
    pub fn event(self, event: SourceEvent<O>) -> Self {
        self.step(Step::Piece(WatchPiece::Event(event)))
    }

    /// Sends bytes as an API server would.
    #[must_use]
    pub fn bytes(self, bytes: impl Into<Bytes>) -> Self {
        self.step(Step::Piece(WatchPiece::Body(bytes.into())))
    }

    /// Says nothing for this time.
    #[must_use]
    pub fn wait(self, time: Duration) -> Self {
        self.step(Step::Wait(time))
    }

    /// Says nothing more, and does not end.
    #[must_use]
    pub fn stays_open(self) -> Self {
        self.step(Step::Forever)
    }

    /// Ends with an error.
    #[must_use]
    pub fn breaks(self, error: SourceError) -> Self {
        self.step(Step::Fail(error))
    }

    fn step(mut self, step: Step<O>) -> Self {
        self.steps.push_back(step);
        self
    }
}

impl<O: Send + Sync + 'static> ListWatch<O> for ScriptedSource<O> {
    async fn list(&self, request: ListRequest) -> Result<ListStream<O>, SourceError> {
        self.write_down(&request);
        let ScriptedList { delay, answer, end } = self.wait_for(|script| script.lists.pop_front()).await;
        wait(delay).await;
        let pieces = answer?.into_iter().chain([Ok(ListPiece::End(end))]);
        Ok(stream::iter(pieces.collect::<Vec<_>>()).boxed())
    }

    async fn watch(&self, request: WatchRequest) -> Result<WatchStream<O>, SourceError> {
        self.write_down(&request);
        let answers = |script: &mut Script<O>| match request.sends_initial_events {
            true => script.streams.pop_front(),
            false => script.watches.pop_front(),
        };
        let ScriptedWatch { delay, refusal, steps } = self.wait_for(answers).await;
        wait(delay).await;
        if let Some(error) = refusal {
            return Err(error);
        }
        let open = Open::new(Arc::clone(&self.shared));
        Ok(stream::unfold((steps, open), |(mut steps, open)| async move {
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
                return Some((piece, (steps, open)));
            }
        })
        .boxed())
    }

    async fn is_served(&self) -> Served {
        self.write_down(&"is it served?");
        self.shared.script.lock().served
    }

    fn can_stream_lists(&self) -> bool {
        self.shared.script.lock().streams_lists
    }
}

/// Counts a watch as open while it lives.
struct Open<O>(Arc<Shared<O>>);

impl<O> Open<O> {
    fn new(shared: Arc<Shared<O>>) -> Self {
        shared.open.fetch_add(1, Ordering::SeqCst);
        Self(shared)
    }
}

impl<O> Drop for Open<O> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn wait(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

impl<O> Clone for ScriptedSource<O> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<O> Default for ScriptedSource<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O> Default for ScriptedWatch<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O> fmt::Debug for ScriptedSource<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedSource").field("requests", &self.requests()).finish_non_exhaustive()
    }
}

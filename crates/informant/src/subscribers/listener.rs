//! The buffer of one handler or stream behind a lock, and the progress of its delivery.
//!
//! - **In:** batches of events from the processor.
//! - **Out:** chunks of events, for the worker that calls the handler or for the stream.
//! - **Knows nothing of:** other listeners, the cache.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;
use tokio::sync::{SetOnce, oneshot};
use tracing::error;

use super::{
    buffer::{Batch, Buffer, Claims, DeferredDrop, Next, Policy},
    calling::Caller,
    filter::{Filter, Filtered, as_filtered},
    notice::Notice,
    workers::Work,
};
use crate::{Cached, metrics::HandlerMetrics, object::Erased, panics};

/// One handler or stream of an informer.
pub(crate) struct Listener {
    pub(super) caller: Caller,
    pub(super) name: Arc<str>,
    pub(super) informer: Arc<str>,
    filter: Option<Filter>,
    inbox: Mutex<Inbox>,
    pub(super) claims: Claims,
    pub(super) delivered: AtomicU64,
    panics: AtomicU64,
    resyncs_skipped: AtomicU64,
    /// A callback, or its future, is running.
    pub(super) is_busy: AtomicBool,
    /// Whether the inbox has `delivery_waits`. Read without the lock, so that the usual case costs one load.
    has_delivery_waits: AtomicBool,
    pub(super) metrics: HandlerMetrics,
    sync: SetOnce<Result<(), Ended>>,
    closed: SetOnce<Ended>,
    /// No callback runs, and none will be called.
    ended: SetOnce<()>,
}

/// Why a listener receives no more events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Removed,
    Stopped,
}

struct Inbox {
    buffer: Buffer,
    /// Wakes the worker or stream that waits for the next chunk.
    waker: Option<Waker>,
    worker: Worker,
    delivery_waits: Vec<DeliveryWait>,
}

/// The worker that takes events out of the buffer.
enum Worker {
    /// A stream has no worker: its owner takes the events.
    None,
    /// The informer has not started yet.
    Waiting(Work),
    Running,
}

/// A task that waits until all events before a position were delivered.
struct DeliveryWait {
    until: u64,
    delivered: oneshot::Sender<()>,
}

/// Events that were removed from a listener's buffer. Dropping users' objects runs users' code, so the caller drops this without a lock.
/// Panics of destructors are logged and counted.
pub(crate) struct RemovedEvents {
    listener: Arc<Listener>,
    events: DeferredDrop,
}

impl Drop for RemovedEvents {
    fn drop(&mut self) {
        self.listener.drop_catching_panics(std::mem::take(&mut self.events));
    }
}

impl Listener {
    pub(crate) fn new(
        caller: Caller,
        name: Arc<str>,
        informer: Arc<str>,
        policy: Policy,
        filter: Option<Filter>,
    ) -> Self {
        Self {
            caller,
            metrics: HandlerMetrics::new(&informer, &name),
            name,
            informer,
            filter,
            inbox: Mutex::new(Inbox::new(policy)),
            claims: Claims::default(),
            delivered: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            resyncs_skipped: AtomicU64::new(0),
            is_busy: AtomicBool::new(false),
            has_delivery_waits: AtomicBool::new(false),
            sync: SetOnce::new(),
            closed: SetOnce::new(),
            ended: SetOnce::new(),
        }
    }

    /// Appends a batch without resyncs to the buffer, and wakes the worker or stream that waits for it. Returns the events that were
    /// coalesced into others.
    pub(super) fn push(self: &Arc<Self>, batch: Batch) -> Option<RemovedEvents> {
        self.push_with(|buffer| buffer.push(batch, &self.claims))
    }

    /// As [`push`](Self::push), for a batch that has resyncs.
    pub(super) fn push_replay(self: &Arc<Self>, batch: Batch) -> Option<RemovedEvents> {
        self.push_with(|buffer| buffer.push_replay(batch, &self.claims))
    }

    /// Returns true if resyncs of an earlier replay still wait; counts the replay that the caller skips for that reason.
    ///
    /// Only the processor appends resyncs, so `false` still holds when it appends the replay.
    pub(super) fn skip_replay_if_waiting(&self) -> bool {
        let has_resyncs = self.inbox.lock().buffer.has_resyncs(&self.claims);
        if has_resyncs {
            self.resyncs_skipped.fetch_add(1, Ordering::Relaxed);
            self.metrics.resync_skipped();
        }
        has_resyncs
    }

    fn push_with(self: &Arc<Self>, push: impl FnOnce(&mut Buffer) -> DeferredDrop) -> Option<RemovedEvents> {
        let mut inbox = self.inbox.lock();
        let removed = push(&mut inbox.buffer);
        let (waker, backlog) = (inbox.waker.take(), inbox.buffer.len(&self.claims));
        drop(inbox);
        self.show(backlog);
        if let Some(waker) = waker {
            waker.wake();
        }
        (!removed.is_empty()).then(|| RemovedEvents { listener: Arc::clone(self), events: removed })
    }

    /// The next chunk, all of which may be [claimed](Claims::claim); `None` once the listener is closed. The caller has delivered all
    /// events that it claimed.
    pub(super) fn poll_chunk(&self, context: &mut Context<'_>) -> Poll<Option<Batch>> {
        // Before the waker is stored: destructors, which are users' code, must not use it up.
        let removed = self.inbox.lock().buffer.finish();
        self.drop_catching_panics(removed);
        let mut waker = Some(context.waker().clone());
        let mut inbox = self.inbox.lock();
        let next = inbox.buffer.next(&self.claims);
        if let Next::Nothing = next {
            // Stored under the same lock under which a push looks for it.
            std::mem::swap(&mut inbox.waker, &mut waker);
        }
        let backlog = inbox.buffer.len(&self.claims);
        let delivered = self.take_delivered(&mut inbox);
        drop(inbox);
        complete(delivered);
        self.show(backlog);
        match next {
            Next::Chunk(chunk) => Poll::Ready(Some(chunk)),
            Next::Closed => Poll::Ready(None),
            Next::Nothing => Poll::Pending,
        }
    }

    /// Waits until every event that waits now was delivered, or was coalesced into one that was.
    ///
    /// Cancel safe.
    pub(super) async fn backlog_delivered(&self) -> Result<(), Ended> {
        let Some(is_delivered) = self.add_delivery_wait() else { return Ok(()) };
        match is_delivered.await {
            Ok(()) => Ok(()),
            // The listener drops the sender when it is closed.
            Err(_) => Err(self.closed().await),
        }
    }

    /// Returns `None` if all events were delivered.
    fn add_delivery_wait(&self) -> Option<oneshot::Receiver<()>> {
        let (delivered, is_delivered) = oneshot::channel();
        let mut inbox = self.inbox.lock();
        // A closed listener drops the sender here.
        if !inbox.buffer.is_closed() {
            // A worker or stream that waits for events leaves its waker, and the next push takes it. Before the start there is no worker.
            let has_received_all = inbox.buffer.pushed() == 0 || inbox.waker.is_some();
            if has_received_all || self.has_returned_from_all(&inbox) {
                return None;
            }
            let until = inbox.buffer.pushed();
            // Removes the waits that were cancelled.
            inbox.delivery_waits.retain(|wait| !wait.delivered.is_closed());
            inbox.delivery_waits.push(DeliveryWait { until, delivered });
            self.has_delivery_waits.store(true, Ordering::Release);
        }
        Some(is_delivered)
    }

    /// Whether the handler has returned from all events, although its worker does not wait for others: it rests after a panic.
    fn has_returned_from_all(&self, inbox: &Inbox) -> bool {
        match inbox.worker {
            // The claims are read first: a call that was claimed before has ended if no call runs now.
            Worker::Running => {
                let position = inbox.buffer.first_unclaimed(&self.claims);
                position == inbox.buffer.pushed() && !self.is_busy.load(Ordering::Acquire)
            }
            // The reader of a stream has the last event until it requests the next one.
            Worker::None | Worker::Waiting(_) => false,
        }
    }

    /// Completes the waits for events that were delivered. The caller has delivered all events that it claimed.
    ///
    /// A wait that is added at the same moment may be overlooked; [`poll_chunk`](Self::poll_chunk), which the worker calls before it is
    /// idle, completes it.
    pub(super) fn complete_delivery_waits(&self) {
        if self.has_delivery_waits.load(Ordering::Acquire) {
            let delivered = self.take_delivered(&mut self.inbox.lock());
            complete(delivered);
        }
    }

    fn take_delivered(&self, inbox: &mut Inbox) -> Vec<DeliveryWait> {
        if inbox.delivery_waits.is_empty() {
            return Vec::new();
        }
        let position = inbox.buffer.first_unclaimed(&self.claims);
        let delivered = inbox.delivery_waits.extract_if(.., |wait| wait.until <= position).collect();
        self.has_delivery_waits.store(!inbox.delivery_waits.is_empty(), Ordering::Release);
        delivered
    }

    fn show(&self, backlog: usize) {
        self.metrics.backlog(backlog);
        // `close` may have set the gauge to zero in between.
        if backlog > 0 && self.is_closed() {
            self.metrics.backlog(0);
        }
    }

    /// Applies the filter to an event. An object at which the filter panics does not pass.
    pub(super) fn filtered(&self, notice: &Notice) -> Filtered {
        let Some(filter) = &self.filter else { return Filtered::Unchanged };
        as_filtered(notice, |object: &Cached<Erased>| {
            let passes = panics::catch(|| filter(object));
            passes.unwrap_or_else(|panic| {
                self.panicked("a filter panicked", Some(object.key().as_str()), &panic);
                false
            })
        })
    }

    /// Drops a value that may hold users' objects or code, without a lock. Panics of destructors are logged and counted.
    pub(super) fn drop_catching_panics<T>(&self, value: T) {
        let panics = panics::drop_catching(value, |panic| {
            self.log_panic("a destructor panicked", None, panic);
        });
        self.count_panics(panics);
    }

    pub(super) fn panicked(&self, what: &'static str, key: Option<&str>, panic: &str) {
        self.count_panics(1);
        self.log_panic(what, key, panic);
    }

    fn log_panic(&self, what: &'static str, key: Option<&str>, panic: &str) {
        error!(informer = &*self.informer, handler = &*self.name, key, error = panic, "{what}");
    }

    fn count_panics(&self, count: u64) {
        if count > 0 {
            self.panics.fetch_add(count, Ordering::Relaxed);
            self.metrics.panicked(count);
        }
    }

    /// How many events wait.
    pub(super) fn backlog(&self) -> usize {
        self.inbox.lock().buffer.len(&self.claims)
    }

    /// How many events were combined with others.
    pub(super) fn saved(&self) -> u64 {
        self.inbox.lock().buffer.saved()
    }

    /// Sets the worker, which starts with the informer. Drops it if the listener is closed.
    pub(crate) fn set_worker(&self, work: Work) {
        let mut inbox = self.inbox.lock();
        let too_late = match inbox.buffer.is_closed() {
            true => Some(work),
            false => {
                inbox.worker = Worker::Waiting(work);
                None
            }
        };
        drop(inbox);
        self.drop_catching_panics(too_late);
    }

    /// Takes the worker's future, to be run; `None` if it was taken before.
    pub(crate) fn begin_work(&self) -> Option<Work> {
        let mut inbox = self.inbox.lock();
        match std::mem::replace(&mut inbox.worker, Worker::None) {
            Worker::Waiting(work) => {
                inbox.worker = Worker::Running;
                Some(work)
            }
            other @ (Worker::None | Worker::Running) => {
                inbox.worker = other;
                None
            }
        }
    }

    /// The worker has ended; closes the listener, if it is open.
    pub(super) fn end(&self) {
        self.close(Ended::Removed);
        let _ = self.ended.set(());
    }

    /// Drops all waiting events and accepts no others. A running callback, or its future, goes on.
    pub(crate) fn close(&self, ended: Ended) {
        let mut inbox = self.inbox.lock();
        if inbox.buffer.is_closed() {
            return;
        }
        let removed = inbox.buffer.close(&self.claims);
        let (waker, waits) = (inbox.waker.take(), std::mem::take(&mut inbox.delivery_waits));
        let worker = match std::mem::replace(&mut inbox.worker, Worker::None) {
            Worker::Running => {
                inbox.worker = Worker::Running;
                None
            }
            idle @ (Worker::None | Worker::Waiting(_)) => Some(idle),
        };
        drop(inbox);
        // Set without the lock: these wake tasks, which may lock the inbox at once.
        let _ = self.closed.set(ended);
        let _ = self.sync.set(Err(ended));
        drop(waits);
        let is_idle = worker.is_some();
        self.drop_catching_panics(worker);
        self.drop_catching_panics(removed);
        if is_idle {
            let _ = self.ended.set(());
        }
        self.metrics.backlog(0);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.initialized()
    }

    pub(super) async fn closed(&self) -> Ended {
        *self.closed.wait().await
    }

    /// The initial list was delivered.
    pub(super) fn set_synced(&self) {
        let _ = self.sync.set(Ok(()));
    }

    pub(super) fn is_synced(&self) -> bool {
        self.sync.get() == Some(&Ok(()))
    }

    pub(super) async fn synced(&self) -> Result<(), Ended> {
        *self.sync.wait().await
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.initialized()
    }

    pub(crate) async fn ended(&self) {
        self.ended.wait().await;
    }

    /// Whether the stop of the informer waits for this listener: a callback runs, or the worker has not ended.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.has_ended() && (self.is_closed() || self.is_busy.load(Ordering::Relaxed))
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(super) fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    pub(super) fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    pub(super) fn resyncs_skipped(&self) -> u64 {
        self.resyncs_skipped.load(Ordering::Relaxed)
    }
}

impl Inbox {
    fn new(policy: Policy) -> Self {
        Self { buffer: Buffer::new(policy), waker: None, worker: Worker::None, delivery_waits: Vec::new() }
    }
}

/// Wakes the waiting tasks. Call it without the inbox's lock.
fn complete(waits: Vec<DeliveryWait>) {
    for wait in waits {
        // An error means that the wait was cancelled.
        let _ = wait.delivered.send(());
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("name", &self.name).field("backlog", &self.backlog()).finish_non_exhaustive()
    }
}

//! The buffer of one handler or stream behind a lock, and the progress of its delivery.
//!
//! - **In:** batches of events from the processor.
//! - **Out:** chunks of events, for the worker that calls the handler or for the stream.
//! - **Knows nothing of:** other listeners, the cache.

use std::{
    borrow::Cow,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
};

use futures_util::future::{Either, select};
use parking_lot::Mutex;
use tokio::{
    sync::{SetOnce, watch},
    time::Instant,
};
use tracing::{error, warn};

use super::{
    HandlerStatus,
    buffer::{Buffer, BufferPolicy, Claims, EventBatch, RemovedEvents},
    calling::WorkOwner,
    filter::Filtering,
    lateness::Lateness,
    workers::Worker,
};
use crate::{Event, metrics::HandlerMetrics, object::Erased, panics};

/// One handler or stream of an informer.
pub(crate) struct Listener {
    pub(super) owner: WorkOwner,
    pub(super) name: Arc<str>,
    pub(super) informer: Arc<str>,
    inbox: Mutex<Inbox>,
    pub(super) claims: Arc<Claims>,
    pub(super) delivered: AtomicU64,
    panics: AtomicU64,
    resyncs_skipped: AtomicU64,
    /// Whether a callback, or its future, is running.
    pub(super) is_busy: AtomicBool,
    /// All events before this position were delivered. Updated only while a task waits for it, so that the usual case costs one load.
    delivered_until: watch::Sender<u64>,
    pub(super) metrics: HandlerMetrics,
    sync: SetOnce<Result<(), CloseReason>>,
    closed: SetOnce<CloseReason>,
    /// Set when no callback runs, and none will be called.
    ended: SetOnce<()>,
}

/// Why a listener receives no more events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseReason {
    Removed,
    Stopped,
}

struct Inbox {
    buffer: Buffer,
    /// Wakes the worker or stream that waits for the next chunk.
    waker: Option<Waker>,
    worker: WorkerState,
    lateness: Lateness,
}

/// Whether a worker takes events out of the buffer.
enum WorkerState {
    /// A stream has no worker: its reader takes the events.
    NoWorker,
    /// The informer has not started yet.
    NotStarted(Worker),
    Running,
}

impl Listener {
    pub(crate) fn new(owner: WorkOwner, name: Arc<str>, informer: Arc<str>, policy: BufferPolicy) -> Self {
        let buffer = Buffer::new(policy);
        Self {
            owner,
            metrics: HandlerMetrics::new(&informer, &name),
            name,
            informer,
            claims: Arc::clone(buffer.claims()),
            inbox: Mutex::new(Inbox {
                buffer,
                waker: None,
                worker: WorkerState::NoWorker,
                lateness: Lateness::default(),
            }),
            delivered: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            resyncs_skipped: AtomicU64::new(0),
            is_busy: AtomicBool::new(false),
            delivered_until: watch::Sender::new(0),
            sync: SetOnce::new(),
            closed: SetOnce::new(),
            ended: SetOnce::new(),
        }
    }

    /// Appends a batch to the buffer, and wakes the worker or stream that waits for it. Returns the events that were coalesced into
    /// others.
    pub(super) fn push(&self, batch: EventBatch) -> RemovedEvents {
        self.push_with(|buffer| buffer.push(batch))
    }

    /// As [`push`](Self::push), for a batch with resync events.
    pub(super) fn push_resync(&self, batch: EventBatch) -> RemovedEvents {
        self.push_with(|buffer| buffer.push_resync(batch))
    }

    fn push_with(&self, push: impl FnOnce(&mut Buffer) -> RemovedEvents) -> RemovedEvents {
        let mut inbox = self.inbox.lock();
        let removed = push(&mut inbox.buffer);
        let (waker, backlog) = (inbox.waker.take(), inbox.buffer.len());
        drop(inbox);
        self.record_backlog(backlog);
        if let Some(waker) = waker {
            waker.wake();
        }
        removed
    }

    /// Returns true if the handler has not received everything up to the end of the last resync; counts the resync that the caller skips for that
    /// reason.
    ///
    /// Only the processor appends resync events, so `false` is still correct when it appends the events of the new resync.
    pub(super) fn skip_resync_if_waiting(&self) -> bool {
        let is_behind = self.inbox.lock().buffer.is_behind_resync();
        if is_behind {
            self.resyncs_skipped.fetch_add(1, Ordering::Relaxed);
            self.metrics.resyncs_skipped.increment(1);
        }
        is_behind
    }

    /// Takes the next chunk, whose events can be [claimed](Claims::claim); `None` once the listener is closed. The caller must have delivered all
    /// events that it claimed.
    pub(super) fn poll_chunk(&self, context: &mut Context<'_>) -> Poll<Option<EventBatch>> {
        let mut waker = Some(context.waker().clone());
        let finished;
        let mut inbox = self.inbox.lock();
        let chunk;
        (finished, chunk) = inbox.buffer.poll_chunk();
        if chunk.is_pending() {
            // Stores the waker before the lock is released, so that the next push finds it.
            std::mem::swap(&mut inbox.waker, &mut waker);
        }
        let (backlog, progress) = (inbox.buffer.len(), self.progress_to_publish(&inbox));
        drop(inbox);
        self.publish(progress);
        self.record_backlog(backlog);
        drop(finished);
        chunk
    }

    /// Waits until every event that waits now was delivered, or was coalesced into an event that was delivered.
    ///
    /// Cancel safe.
    pub(super) async fn backlog_delivered(&self) -> Result<(), CloseReason> {
        // Subscribes before `undelivered_until` takes the lock: a worker that takes the lock afterwards publishes its progress.
        let mut delivered_until = self.delivered_until.subscribe();
        let Some(until) = self.undelivered_until() else { return Ok(()) };
        let is_delivered = pin!(delivered_until.wait_for(|delivered_until| *delivered_until >= until));
        match select(is_delivered, pin!(self.closed())).await {
            Either::Left(_) => Ok(()),
            Either::Right((reason, _)) => Err(reason),
        }
    }

    /// Returns the position up to which events must be delivered so that all events that wait now are delivered; `None` if none waits.
    fn undelivered_until(&self) -> Option<u64> {
        let inbox = self.inbox.lock();
        let pushed = inbox.buffer.pushed();
        if inbox.buffer.is_closed() {
            // A closed listener publishes no position, so only `closed` ends the wait.
            return Some(u64::MAX);
        }
        // A worker or stream that waits for events leaves its waker, and the next push takes it. Before the start there is no worker.
        let has_received_all = pushed == 0 || inbox.waker.is_some();
        let has_returned_from_all = match inbox.worker {
            // The worker may pause after a panic, instead of waiting for events. The claims are read before `is_busy`: if no call runs
            // now, the calls for all claimed events have ended.
            WorkerState::Running => inbox.buffer.first_unclaimed() == pushed && !self.is_busy.load(Ordering::Acquire),
            // The reader of a stream has the last event until it requests the next one.
            WorkerState::NoWorker | WorkerState::NotStarted(_) => false,
        };
        (!has_received_all && !has_returned_from_all).then_some(pushed)
    }

    /// Publishes which events were delivered, if a task waits for that. The caller must have delivered all events that it
    /// claimed.
    ///
    /// A wait that begins at the same moment may not be noticed here. [`poll_chunk`](Self::poll_chunk), which the worker calls before it becomes
    /// idle, publishes the progress for that wait.
    pub(super) fn publish_progress(&self) {
        if self.delivered_until.receiver_count() > 0 {
            let progress = self.progress_to_publish(&self.inbox.lock());
            self.publish(progress);
        }
    }

    /// Returns the position to publish; `None` if no task waits for it.
    fn progress_to_publish(&self, inbox: &Inbox) -> Option<u64> {
        let is_awaited = self.delivered_until.receiver_count() > 0 && !inbox.buffer.is_closed();
        is_awaited.then(|| inbox.buffer.first_unclaimed())
    }

    /// Wakes the waiting tasks. Call it without the inbox's lock.
    fn publish(&self, progress: Option<u64>) {
        if let Some(delivered_until) = progress {
            self.delivered_until.send_replace(delivered_until);
        }
    }

    /// Sets the metric of the backlog.
    fn record_backlog(&self, backlog: usize) {
        self.metrics.backlog.set(backlog as f64);
        // `close` may have set the gauge to zero in between.
        if backlog > 0 && self.is_closed() {
            self.metrics.backlog.set(0.0);
        }
    }

    /// Returns the event as the handler receives it; `None` if the filter hides it. An object at which the filter panics does not pass.
    pub(super) fn event_for_handler<'a>(
        &self,
        filtering: &mut Option<Filtering>,
        event: &'a Event<Erased>,
    ) -> Option<Cow<'a, Event<Erased>>> {
        let Some(Filtering { filter, members }) = filtering else { return Some(Cow::Borrowed(event)) };
        members.receive(event, |object| {
            panics::catch(|| filter(object)).unwrap_or_else(|panic| {
                self.record_panic("a filter panicked", Some(object.key().as_str()), &panic);
                false
            })
        })
    }

    /// Logs and counts a panic of users' code.
    pub(super) fn record_panic(&self, what: &'static str, key: Option<&str>, panic: &str) {
        self.panics.fetch_add(1, Ordering::Relaxed);
        self.metrics.panics.increment(1);
        // Without a parent: a worker calls this in a span with the same names, a stream in the span of its reader.
        error!(parent: None, informer = &*self.informer, handler = &*self.name, key, error = panic, "{what}");
    }

    /// How many events wait.
    pub(super) fn backlog(&self) -> usize {
        self.inbox.lock().buffer.len()
    }

    /// Logs a warning, once a minute, while events wait too long. Call it about once a second.
    pub(crate) fn warn_if_late(&self, now: Instant) {
        let mut inbox = self.inbox.lock();
        let Inbox { buffer, lateness, .. } = &mut *inbox;
        let (waited, waiting) = (lateness.check(buffer.first_unclaimed(), buffer.pushed(), now), buffer.len());
        drop(inbox);
        if let Some(waited) = waited.filter(|_| !self.is_closed()) {
            let (informer, handler, waited_ms) = (&*self.informer, &*self.name, waited.as_millis());
            // Without a parent: the informer's task calls this in a span that names the informer.
            warn!(
                parent: None,
                informer,
                handler,
                waiting,
                waited_ms,
                "an event has waited too long; the handler, or the reader of the stream, is slow or hangs"
            );
        }
    }

    pub(crate) fn status(&self) -> HandlerStatus {
        let inbox = self.inbox.lock();
        let (backlog, coalesced) = (inbox.buffer.len(), inbox.buffer.coalesced());
        drop(inbox);
        HandlerStatus {
            name: Arc::clone(&self.name),
            is_synced: self.is_synced(),
            backlog,
            delivered: self.delivered.load(Ordering::Relaxed),
            coalesced,
            panics: self.panics.load(Ordering::Relaxed),
            resyncs_skipped: self.resyncs_skipped.load(Ordering::Relaxed),
        }
    }

    /// Sets the worker, which starts with the informer. The listener is new: no code can have closed it.
    pub(crate) fn set_worker(&self, worker: Worker) {
        self.inbox.lock().worker = WorkerState::NotStarted(worker);
    }

    /// Takes the worker, to be run; `None` if it was taken before.
    pub(crate) fn take_worker(&self) -> Option<Worker> {
        let worker = &mut self.inbox.lock().worker;
        match std::mem::replace(worker, WorkerState::Running) {
            WorkerState::NotStarted(taken) => Some(taken),
            other @ (WorkerState::NoWorker | WorkerState::Running) => {
                *worker = other;
                None
            }
        }
    }

    /// Called when the worker has ended. Closes the listener, if it is open.
    pub(super) fn end(&self) {
        self.close(CloseReason::Removed);
        let _ = self.ended.set(());
    }

    /// Drops all waiting events and accepts no others. A running callback, or its future, goes on.
    pub(crate) fn close(&self, reason: CloseReason) {
        let mut inbox = self.inbox.lock();
        if inbox.buffer.is_closed() {
            return;
        }
        let removed = inbox.buffer.close();
        let waker = inbox.waker.take();
        let idle = match inbox.worker {
            WorkerState::Running => None,
            WorkerState::NoWorker | WorkerState::NotStarted(_) => {
                Some(std::mem::replace(&mut inbox.worker, WorkerState::NoWorker))
            }
        };
        drop(inbox);
        // The inbox is not locked here: setting these wakes tasks, which may lock the inbox at once.
        let _ = self.closed.set(reason);
        let _ = self.sync.set(Err(reason));
        let is_idle = idle.is_some();
        drop((idle, removed));
        if is_idle {
            let _ = self.ended.set(());
        }
        self.metrics.backlog.set(0.0);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.initialized()
    }

    pub(super) async fn closed(&self) -> CloseReason {
        *self.closed.wait().await
    }

    /// Called when the initial list was delivered.
    pub(super) fn set_synced(&self) {
        let _ = self.sync.set(Ok(()));
    }

    pub(super) fn is_synced(&self) -> bool {
        self.sync.get() == Some(&Ok(()))
    }

    pub(super) async fn synced(&self) -> Result<(), CloseReason> {
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
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_wait_for_the_backlog_fails_if_the_listener_is_closed_before_all_events_are_delivered() {
        let owner = WorkOwner { informer: 0, listener: Some(0) };
        let listener = Arc::new(Listener::new(owner, "handler".into(), "informer".into(), BufferPolicy::Unbounded));
        let mut context = Context::from_waker(Waker::noop());
        drop(listener.push(std::iter::once(Event::Synced).collect()));
        assert!(listener.poll_chunk(&mut context).is_ready());
        let mut delivered = pin!(listener.backlog_delivered());
        assert_eq!(delivered.as_mut().now_or_never(), None);

        listener.close(CloseReason::Removed);
        assert!(matches!(listener.poll_chunk(&mut context), Poll::Ready(None)));

        assert_eq!(delivered.await, Err(CloseReason::Removed));
        assert_eq!(listener.backlog_delivered().await, Err(CloseReason::Removed), "also if the wait begins afterwards");
    }
}

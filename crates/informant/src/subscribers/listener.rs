//! One follower: its buffer behind a lock, and how far it is.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::task::Context;
use std::task::Poll;
use std::task::Waker;

use parking_lot::Mutex;
use tokio::sync::SetOnce;

use super::buffer::Batch;
use super::buffer::Buffer;
use super::buffer::Claims;
use super::buffer::Next;
use super::buffer::Policy;
use super::calling::Caller;
use super::filter::Filter;
use crate::metrics::HandlerMetrics;

/// One follower of an informer.
pub(crate) struct Listener<O> {
    pub(super) caller: Caller,
    pub(super) name: Arc<str>,
    pub(super) informer: Arc<str>,
    pub(super) filter: Option<Filter<O>>,
    inbox: Mutex<Inbox<O>>,
    pub(super) claims: Claims,
    pub(super) delivered: AtomicU64,
    pub(super) panics: AtomicU64,
    pub(super) metrics: HandlerMetrics,
    sync: SetOnce<Result<(), Ended>>,
    closed: SetOnce<Ended>,
    /// Nobody delivers anything any more.
    ended: SetOnce<()>,
}

/// Why a follower hears nothing any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Removed,
    Stopped,
}

struct Inbox<O> {
    buffer: Buffer<O>,
    /// Whoever waits for the next chunk.
    waker: Option<Waker>,
    is_served: bool,
}

impl<O> Listener<O> {
    pub(crate) fn new(
        caller: Caller,
        name: Arc<str>,
        informer: Arc<str>,
        policy: Policy,
        filter: Option<Filter<O>>,
    ) -> Self {
        Self {
            caller,
            metrics: HandlerMetrics::new(&informer, &name),
            name,
            informer,
            filter,
            inbox: Mutex::new(Inbox { buffer: Buffer::new(policy), waker: None, is_served: false }),
            claims: Claims::default(),
            delivered: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            sync: SetOnce::new(),
            closed: SetOnce::new(),
            ended: SetOnce::new(),
        }
    }

    /// Appends a batch to what waits, and wakes whoever waits for it.
    pub(super) fn push(&self, batch: Batch<O>) {
        let mut inbox = self.inbox.lock();
        inbox.buffer.push(batch, &self.claims);
        let (waker, backlog) = (inbox.waker.take(), inbox.buffer.len(&self.claims));
        drop(inbox);
        self.metrics.backlog(backlog);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The next chunk, all of which may be [claimed](Claims::claim); `None` if there will be none.
    pub(super) fn poll_chunk(&self, context: &mut Context<'_>) -> Poll<Option<Batch<O>>> {
        let mut inbox = self.inbox.lock();
        match inbox.buffer.next(&self.claims) {
            Next::Chunk(chunk) => Poll::Ready(Some(chunk)),
            Next::Closed => Poll::Ready(None),
            // Left under the same lock under which a push looks for it.
            Next::Nothing => {
                inbox.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// How many notices wait.
    pub(super) fn backlog(&self) -> usize {
        self.inbox.lock().buffer.len(&self.claims)
    }

    /// How many notices were merged into others.
    pub(super) fn saved(&self) -> u64 {
        self.inbox.lock().buffer.saved()
    }

    /// Somebody begins to empty the buffer.
    pub(super) fn serve(&self) {
        self.inbox.lock().is_served = true;
    }

    /// Nobody empties the buffer any more, so it takes nothing any more.
    pub(super) fn end(&self) {
        self.close(Ended::Removed);
        let _ = self.ended.set(());
    }

    /// Takes nothing any more, and gives nothing to deliver. What is being delivered goes on.
    pub(crate) fn close(&self, ended: Ended) {
        let mut inbox = self.inbox.lock();
        if inbox.buffer.is_closed() {
            return;
        }
        let leftovers = inbox.buffer.close(&self.claims);
        let (waker, is_served) = (inbox.waker.take(), inbox.is_served);
        drop(inbox);
        // These are users' objects, and dropping them is users' code.
        drop(leftovers);
        let _ = self.closed.set(ended);
        let _ = self.sync.set(Err(ended));
        if !is_served {
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

    pub(super) async fn closed(&self) {
        self.closed.wait().await;
    }

    /// The end of the initial list was reached.
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

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(super) fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    pub(super) fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }
}

impl<O> fmt::Debug for Listener<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("name", &self.name).field("backlog", &self.backlog()).finish_non_exhaustive()
    }
}

//! One follower: its buffer behind a lock, and how far it is.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::task::Context;
use std::task::Poll;
use std::task::Waker;

use parking_lot::Mutex;
use tokio::sync::SetOnce;
use tracing::error;

use super::buffer::Batch;
use super::buffer::Buffer;
use super::buffer::Claims;
use super::buffer::Next;
use super::buffer::Policy;
use super::buffer::Spent;
use super::calling::Caller;
use super::filter::Filter;
use super::filter::Filtered;
use super::filter::as_filtered;
use super::notice::Notice;
use super::workers::Work;
use crate::Cached;
use crate::metrics::HandlerMetrics;
use crate::object::Erased;
use crate::panics;

/// One follower of an informer.
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
    /// A callback is running.
    pub(super) is_busy: AtomicBool,
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

struct Inbox {
    buffer: Buffer,
    /// Whoever waits for the next chunk.
    waker: Option<Waker>,
    server: Server,
}

/// Who empties the buffer.
enum Server {
    /// Nobody in particular, as for a stream.
    Nobody,
    /// Somebody who has not begun, because the informer has not.
    Waiting(Work),
    AtWork,
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
            inbox: Mutex::new(Inbox { buffer: Buffer::new(policy), waker: None, server: Server::Nobody }),
            claims: Claims::default(),
            delivered: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            resyncs_skipped: AtomicU64::new(0),
            is_busy: AtomicBool::new(false),
            sync: SetOnce::new(),
            closed: SetOnce::new(),
            ended: SetOnce::new(),
        }
    }

    /// Appends a batch without resyncs to the buffer, and wakes the worker or stream that waits for it.
    pub(super) fn push(&self, batch: Batch) {
        self.push_with(|buffer| buffer.push(batch, &self.claims));
    }

    /// As [`push`](Self::push), for a batch that has resyncs.
    pub(super) fn push_replay(&self, batch: Batch) {
        self.push_with(|buffer| buffer.push_replay(batch, &self.claims));
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

    fn push_with(&self, push: impl FnOnce(&mut Buffer) -> Spent) {
        let mut inbox = self.inbox.lock();
        let spent = push(&mut inbox.buffer);
        let (waker, backlog) = (inbox.waker.take(), inbox.buffer.len(&self.claims));
        drop(inbox);
        self.drop_catching_panics(spent);
        self.show(backlog);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The next chunk, all of which may be [claimed](Claims::claim); `None` if there will be none.
    pub(super) fn poll_chunk(&self, context: &mut Context<'_>) -> Poll<Option<Batch>> {
        // Before a waker is left: users' code must not be able to miss or use up what wakes us.
        let spent = self.inbox.lock().buffer.finish();
        self.drop_catching_panics(spent);
        let mut waker = Some(context.waker().clone());
        let mut inbox = self.inbox.lock();
        let next = inbox.buffer.next(&self.claims);
        if let Next::Nothing = next {
            // Left under the same lock under which a push looks for it.
            std::mem::swap(&mut inbox.waker, &mut waker);
        }
        let backlog = inbox.buffer.len(&self.claims);
        drop(inbox);
        self.show(backlog);
        match next {
            Next::Chunk(chunk) => Poll::Ready(Some(chunk)),
            Next::Closed => Poll::Ready(None),
            Next::Nothing => Poll::Pending,
        }
    }

    fn show(&self, backlog: usize) {
        self.metrics.backlog(backlog);
        // Whoever closes it may have said so in between.
        if backlog > 0 && self.is_closed() {
            self.metrics.backlog(0);
        }
    }

    /// What a notice is to this follower. A filter that panics lets nothing pass.
    pub(super) fn filtered(&self, notice: &Notice) -> Filtered {
        let Some(filter) = &self.filter else { return Filtered::AsItIs };
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
            self.log_panic("something panicked when it was dropped", None, panic);
        });
        self.count_panics(panics);
    }

    pub(super) fn panicked(&self, what: &'static str, key: Option<&str>, panic: &str) {
        self.count_panics(1);
        self.log_panic(what, key, panic);
    }

    fn log_panic(&self, what: &'static str, key: Option<&str>, panic: &str) {
        error!(kind = &*self.informer, handler = &*self.name, key, error = panic, "{what}");
    }

    fn count_panics(&self, count: u64) {
        if count > 0 {
            self.panics.fetch_add(count, Ordering::Relaxed);
            self.metrics.panicked(count);
        }
    }

    /// How many notices wait.
    pub(super) fn backlog(&self) -> usize {
        self.inbox.lock().buffer.len(&self.claims)
    }

    /// How many notices were coalesced into others.
    pub(super) fn saved(&self) -> u64 {
        self.inbox.lock().buffer.saved()
    }

    /// Has somebody empty the buffer, once the informer has started. If it is closed by now, nobody does.
    pub(crate) fn serve_with(&self, work: Work) {
        let mut inbox = self.inbox.lock();
        let too_late = match inbox.buffer.is_closed() {
            true => Some(work),
            false => {
                inbox.server = Server::Waiting(work);
                None
            }
        };
        drop(inbox);
        self.drop_catching_panics(too_late);
    }

    /// The work that is to be begun, if it was not yet.
    pub(crate) fn begin_work(&self) -> Option<Work> {
        let mut inbox = self.inbox.lock();
        match std::mem::replace(&mut inbox.server, Server::Nobody) {
            Server::Waiting(work) => {
                inbox.server = Server::AtWork;
                Some(work)
            }
            other @ (Server::Nobody | Server::AtWork) => {
                inbox.server = other;
                None
            }
        }
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
        let spent = inbox.buffer.close(&self.claims);
        let waker = inbox.waker.take();
        let server = match std::mem::replace(&mut inbox.server, Server::Nobody) {
            Server::AtWork => {
                inbox.server = Server::AtWork;
                None
            }
            idle @ (Server::Nobody | Server::Waiting(_)) => Some(idle),
        };
        drop(inbox);
        // These wake others, which may look at the inbox at once.
        let _ = self.closed.set(ended);
        let _ = self.sync.set(Err(ended));
        let is_idle = server.is_some();
        self.drop_catching_panics(server);
        self.drop_catching_panics(spent);
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

    /// Whether the end of an informer has to wait for it: a callback runs, or its worker has not come to its end.
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

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("name", &self.name).field("backlog", &self.backlog()).finish_non_exhaustive()
    }
}

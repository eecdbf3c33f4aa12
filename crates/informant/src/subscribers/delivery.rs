//! Calls a handler, one notice at a time, until its listener is closed.
//!
//! - **In:** chunks of a listener.
//! - **Out:** calls of its handler.
//! - **Knows nothing of:** who else is told.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use tokio::task::yield_now;
use tokio::time::timeout;
use tracing::error;
use tracing::warn;

use super::EventHandler;
use super::Listener;
use super::Notice;
use super::buffer::Batch;
use super::calling::Calling;
use super::filter::as_filtered;
use crate::panics;

/// How long a handler rests after a panic.
const AFTER_PANIC: Duration = Duration::from_secs(1);

/// A backlog from which on it is worth saying that calls are slow.
const LONG_BACKLOG: usize = 1024;

/// A call that takes so long is slow.
const SLOW: Duration = Duration::from_millis(100);

/// How often it is said.
const SLOW_AGAIN: Duration = Duration::from_secs(10);

/// Calls the handler until the listener is closed.
pub(super) async fn run<O, H>(listener: Arc<Listener<O>>, handler: H)
where
    O: Send + Sync + 'static,
    H: EventHandler<O>,
{
    // Also if this is dropped half-way; and the handler is dropped before its end is told.
    let _ending = Ending(Arc::clone(&listener));
    let handler = handler;
    listener.serve();
    let mut pace = Pace::default();
    while let Some(chunk) = poll_fn(|context| listener.poll_chunk(context)).await {
        let mut spent = Duration::ZERO;
        while deliver_some(&listener, &handler, &chunk, &mut pace, &mut spent).await.is_continue() {}
        listener.metrics.chunk(spent, listener.backlog());
    }
}

struct Ending<O>(Arc<Listener<O>>);

impl<O> Drop for Ending<O> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// How many calls are made between two looks at the clock: the faster they are, the more.
struct Pace {
    calls: usize,
    said_slow: Option<Instant>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { calls: 1, said_slow: None }
    }
}

impl Pace {
    /// So many calls took so long.
    fn learn(&mut self, took: Duration) {
        const MOST: usize = 128;
        if took < Duration::from_millis(1) {
            self.calls = (self.calls * 2).min(MOST);
        } else if took > Duration::from_millis(10) {
            self.calls = 1;
        }
    }

    /// Whether to say that a call was slow, while so many wait.
    fn says_slow(&mut self, took: Duration, now: Instant, backlog: impl FnOnce() -> usize) -> Option<usize> {
        let is_silent = self.said_slow.is_some_and(|said| now - said < SLOW_AGAIN);
        if took < SLOW || is_silent {
            return None;
        }
        let backlog = backlog();
        (backlog > LONG_BACKLOG).then(|| {
            self.said_slow = Some(now);
            backlog
        })
    }
}

/// Delivers some notices of a chunk, without others having to wait for long.
async fn deliver_some<O, H>(
    listener: &Listener<O>,
    handler: &H,
    chunk: &Batch<O>,
    pace: &mut Pace,
    spent: &mut Duration,
) -> ControlFlow<()>
where
    O: Send + Sync + 'static,
    H: EventHandler<O>,
{
    let begun = Instant::now();
    let mut claimed = None;
    let mut calls = 0;
    let mut is_more = true;
    let called = panics::catch(|| {
        let _calling = Calling::begin(listener.caller);
        while is_more && calls < pace.calls {
            let position = listener.claims.claim();
            is_more = position + 1 < chunk.len();
            claimed = chunk.get(position);
            let Some(notice) = claimed else { break };
            calls += 1;
            tell(listener, handler, notice);
        }
    });
    let now = Instant::now();
    let took = now - begun;
    *spent += took;
    listener.delivered.fetch_add(calls as u64, Ordering::Relaxed);
    pace.learn(took);
    if let Some(waiting) = pace.says_slow(took, now, || listener.backlog()) {
        let (informer, handler, elapsed_ms) = (&*listener.informer, &*listener.name, took.as_millis());
        warn!(
            kind = informer,
            handler,
            count = calls,
            elapsed_ms,
            waiting,
            "the handler is slow; events pile up for it"
        );
    }
    if let Err(panic) = called {
        listener.panics.fetch_add(1, Ordering::Relaxed);
        listener.metrics.panicked();
        let key = claimed.and_then(Notice::key).map(crate::Key::as_str);
        error!(kind = &*listener.informer, handler = &*listener.name, key, error = panic, "a handler panicked");
        if let Some(Notice::Synced) = claimed {
            listener.set_synced();
        }
        // An error says that the time is over, and that nobody closed the listener.
        let _ = timeout(AFTER_PANIC, listener.closed()).await;
    }
    if !is_more {
        return ControlFlow::Break(());
    }
    yield_now().await;
    ControlFlow::Continue(())
}

fn tell<O, H: EventHandler<O>>(listener: &Listener<O>, handler: &H, notice: &Notice<O>) {
    match &listener.filter {
        None => call(handler, notice),
        Some(passes) => {
            if let Some(notice) = as_filtered(notice, passes) {
                call(handler, &notice);
            }
        }
    }
    if let Notice::Synced = notice {
        listener.set_synced();
    }
}

fn call<O, H: EventHandler<O>>(handler: &H, notice: &Notice<O>) {
    match notice {
        Notice::Added { object, origin } => handler.on_add(object, *origin),
        Notice::Updated { old, new } => handler.on_update(old, new),
        Notice::Unchanged(object) => handler.on_resync(object),
        Notice::Deleted { deleted, last: _ } => handler.on_delete(deleted),
        Notice::Synced => handler.on_synced(),
    }
}

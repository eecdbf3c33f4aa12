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
use tracing::warn;

use super::EventHandler;
use super::Listener;
use super::Notice;
use super::buffer::Batch;
use super::filter::Filtered;
use crate::Key;
use crate::panics;

/// How long a handler rests after a panic.
const AFTER_PANIC: Duration = Duration::from_secs(1);

/// A backlog from which on it is worth saying that calls are slow.
const LONG_BACKLOG: usize = 1024;

/// A call that takes so long is slow.
const SLOW: Duration = Duration::from_millis(100);

/// After so many calls of a group there is a look at the clock, and the group ends if it took long.
const LOOK_AFTER: usize = 8;
const LONG: Duration = Duration::from_millis(1);

/// How often it is said.
const SLOW_AGAIN: Duration = Duration::from_secs(10);

/// What calls the handler until the listener is closed. However that ends, also if it never begins, the listener ends with it.
pub(super) fn deliver<O, H>(listener: Arc<Listener<O>>, handler: H) -> impl Future<Output = ()> + Send
where
    O: Send + Sync + 'static,
    H: EventHandler<O>,
{
    let ending = Ending(Arc::clone(&listener));
    async move {
        // The handler is dropped before its end is told.
        let _ending = ending;
        let handler = handler;
        run(&listener, &handler).await;
        listener.let_go(handler);
    }
}

async fn run<O, H>(listener: &Listener<O>, handler: &H)
where
    O: Send + Sync + 'static,
    H: EventHandler<O>,
{
    let mut pace = Pace::default();
    while let Some(chunk) = poll_fn(|context| listener.poll_chunk(context)).await {
        let mut spent = Duration::ZERO;
        while deliver_some(listener, handler, &chunk, &mut pace, &mut spent).await.is_continue() {}
        listener.let_go(chunk);
        listener.metrics.chunk(spent);
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
        if took < LONG {
            self.calls = (self.calls * 2).min(MOST);
        } else if took > Duration::from_millis(5) {
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
    let (mut calls, mut given, mut is_more) = (0, 0, true);
    listener.is_busy.store(true, Ordering::Relaxed);
    let called = panics::catch(|| {
        while is_more && calls < pace.calls {
            let position = listener.claims.claim();
            is_more = position + 1 < chunk.len();
            claimed = chunk.get(position);
            let Some(notice) = claimed else { break };
            calls += 1;
            match listener.filtered(notice) {
                Filtered::AsItIs => {
                    given += 1;
                    call(handler, notice);
                }
                Filtered::As(notice) => {
                    given += 1;
                    call(handler, &notice);
                }
                Filtered::Nothing => {}
            }
            if let Notice::Synced = notice {
                listener.set_synced();
            }
            // They may become slow all of a sudden.
            if calls % LOOK_AFTER == 0 && begun.elapsed() > LONG {
                break;
            }
        }
    });
    listener.is_busy.store(false, Ordering::Relaxed);
    let now = Instant::now();
    let took = now - begun;
    *spent += took;
    listener.delivered.fetch_add(given, Ordering::Relaxed);
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
        // It counts as told.
        let key = claimed.and_then(Notice::key).map(Key::as_str);
        listener.panicked("a handler panicked", key, &panic);
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

fn call<O, H: EventHandler<O>>(handler: &H, notice: &Notice<O>) {
    match notice {
        Notice::Added { object, origin } => handler.on_add(object, *origin),
        Notice::Updated { old, new } => handler.on_update(old, new),
        Notice::Unchanged(object) => handler.on_resync(object),
        Notice::Deleted { deleted, last: _ } => handler.on_delete(deleted),
        Notice::Synced => handler.on_synced(),
    }
}

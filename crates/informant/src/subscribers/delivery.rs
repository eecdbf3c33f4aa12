//! Calls a handler, one notice at a time, until its listener is closed.
//!
//! - **In:** chunks of a listener.
//! - **Out:** calls of its handler.
//! - **Knows nothing of:** who else is told.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use futures_util::future::Either;
use futures_util::future::select;
use tokio::task::yield_now;
use tokio::time::timeout;
use tracing::warn;

use super::AnyHandler;
use super::EventHandler;
use super::Listener;
use super::Notice;
use super::buffer::Batch;
use super::turn::Taken;
use super::turn::Turn;
use crate::Key;
use crate::object::Erased;
use crate::panics;

/// How long a handler rests after a panic.
const AFTER_PANIC: Duration = Duration::from_secs(1);

/// Calls are made in groups, and then others may run. A group has at most so many calls.
const LARGEST_GROUP: usize = 128;
/// There is a look at the clock after so many of them, and if they took so long the group ends.
const LOOK_AFTER: usize = 8;
const LONG: Duration = Duration::from_millis(1);
/// After one that took so long, groups have one call.
const TOO_LONG: Duration = Duration::from_millis(5);

/// A group that takes so long, with so many notices waiting, is worth a word, every so often.
const SLOW: Duration = Duration::from_millis(100);
const LONG_BACKLOG: usize = 1024;
const SLOW_AGAIN: Duration = Duration::from_secs(10);

/// What calls the handler until the listener is closed. However that ends, also if it never begins, the listener ends with it.
pub(super) fn deliver(
    listener: Arc<Listener>,
    handler: AnyHandler,
    turn: Option<Turn>,
) -> impl Future<Output = ()> + Send {
    let served = Served { handler, ending: Ending(Arc::clone(&listener)) };
    async move {
        let Served { handler, ending: _ending } = served;
        let mut delivery = Delivery { listener: &listener, handler, turn, group: 1, said_slow: None };
        while let Some(chunk) = poll_fn(|context| listener.poll_chunk(context)).await {
            let spent = delivery.deliver(&chunk).await;
            listener.let_go(chunk);
            listener.metrics.chunk(spent);
        }
        // Before its end is told.
        listener.let_go(delivery.handler);
    }
}

/// In this order they are dropped if nothing ever begins: a handler is gone when its end is told.
struct Served {
    handler: AnyHandler,
    ending: Ending,
}

struct Ending(Arc<Listener>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A handler at work.
struct Delivery<'a> {
    listener: &'a Listener,
    handler: AnyHandler,
    /// For a handler that several informers call.
    turn: Option<Turn>,
    /// How many calls the next group has: the faster they are, the more.
    group: usize,
    said_slow: Option<Instant>,
}

/// The listener was closed.
struct Closed;

/// What became of a group of calls.
struct Group<'a> {
    /// The last notice that was claimed.
    last: Option<&'a Notice>,
    claimed: usize,
    /// How many of them the handler was called for: the filter may have hidden some.
    given: u64,
    /// Whether the chunk has more.
    is_more: bool,
}

impl Delivery<'_> {
    /// Delivers a chunk, group by group, so that others need not wait for long; says how long the calls took.
    async fn deliver(&mut self, chunk: &Batch) -> Duration {
        let mut spent = Duration::ZERO;
        loop {
            let Ok(turn) = self.take_turn().await else { return spent };
            let mut group = Group { last: None, claimed: 0, given: 0, is_more: true };
            let begun = Instant::now();
            self.listener.is_busy.store(true, Ordering::Relaxed);
            let called = panics::catch(|| self.call_group(chunk, &mut group, begun));
            self.listener.is_busy.store(false, Ordering::Relaxed);
            drop(turn);
            let took = begun.elapsed();
            spent += took;
            self.listener.delivered.fetch_add(group.given, Ordering::Relaxed);
            self.learn(took, group.claimed);
            if let Err(panic) = called {
                self.panicked(group.last, &panic).await;
            }
            if !group.is_more {
                return spent;
            }
            yield_now().await;
        }
    }

    /// Waits until nobody else calls the handler. If the listener is closed meanwhile, there is nothing more to call it for, whoever
    /// has the turn.
    async fn take_turn(&self) -> Result<Option<Taken<'_>>, Closed> {
        let Some(turn) = &self.turn else { return Ok(None) };
        match select(pin!(turn.take()), pin!(self.listener.closed())).await {
            Either::Left((turn, _)) => Ok(Some(turn)),
            Either::Right(_) => Err(Closed),
        }
    }

    /// Claims and delivers one notice after the other. What panics was claimed, so the next group goes on behind it.
    fn call_group<'c>(&self, chunk: &'c Batch, group: &mut Group<'c>, begun: Instant) {
        while group.is_more && group.claimed < self.group {
            let position = self.listener.claims.claim();
            group.is_more = position + 1 < chunk.len();
            group.last = chunk.get(position);
            let Some(notice) = group.last else { return };
            group.claimed += 1;
            let filtered = self.listener.filtered(notice);
            if let Some(told) = filtered.of(notice) {
                group.given += 1;
                call(&*self.handler, told);
            }
            if let Notice::Synced = notice {
                self.listener.set_synced();
            }
            // They may become slow all of a sudden.
            if group.claimed.is_multiple_of(LOOK_AFTER) && begun.elapsed() > LONG {
                return;
            }
        }
    }

    /// Learns how large the next group should be, and says so if this one was slow while much waits.
    fn learn(&mut self, took: Duration, calls: usize) {
        if took < LONG {
            self.group = (self.group * 2).min(LARGEST_GROUP);
        } else if took > TOO_LONG {
            self.group = 1;
        }
        if took < SLOW || self.said_slow.is_some_and(|said| said.elapsed() < SLOW_AGAIN) {
            return;
        }
        let waiting = self.listener.backlog();
        if waiting > LONG_BACKLOG {
            self.said_slow = Some(Instant::now());
            let (kind, handler, elapsed_ms) = (&*self.listener.informer, &*self.listener.name, took.as_millis());
            warn!(kind, handler, count = calls, elapsed_ms, waiting, "the handler is slow; events pile up for it");
        }
    }

    /// What it panicked at counts as told. It rests for a while, unless it is closed.
    async fn panicked(&self, at: Option<&Notice>, panic: &str) {
        self.listener.panicked("a handler panicked", at.and_then(Notice::key).map(Key::as_str), panic);
        if let Some(Notice::Synced) = at {
            self.listener.set_synced();
        }
        // An error says that the time is over, and that nobody closed the listener.
        let _ = timeout(AFTER_PANIC, self.listener.closed()).await;
    }
}

fn call(handler: &dyn EventHandler<Erased>, notice: &Notice) {
    match notice {
        Notice::Added { object, origin } => handler.on_add(object, *origin),
        Notice::Updated { old, new } => handler.on_update(old, new),
        Notice::Unchanged(object) => handler.on_resync(object),
        Notice::Deleted { deleted, last: _ } => handler.on_delete(deleted),
        Notice::Synced => handler.on_synced(),
    }
}

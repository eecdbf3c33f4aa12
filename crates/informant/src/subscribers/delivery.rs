//! Calls a handler, one event or one batch at a time, until its listener is closed.
//!
//! - **In:** chunks of a listener.
//! - **Out:** calls of its handler; futures of async callbacks, run to their end.
//! - **Knows nothing of:** other handlers.

use std::{
    borrow::Cow,
    future::poll_fn,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use futures_util::{
    FutureExt,
    future::{Either, OptionFuture, select},
};
use tokio::{task::yield_now, time::timeout};
use tracing::warn;

use super::{AnyHandler, EventFuture, Filter, Listener, buffer::EventBatch, call_lock::CallLock, filter::Filtering};
use crate::{Event, Key, object::Erased, panics};

/// How long a handler is not called after a panic.
const AFTER_PANIC: Duration = Duration::from_secs(1);

/// Upper bound on the calls of a group. The worker calls the handler for a group of events without yielding, and yields between groups.
const LARGEST_GROUP: usize = 128;
/// The worker reads the clock after this many calls, and ends the group if it took longer than `LONG`.
const LOOK_AFTER: usize = 8;
const LONG: Duration = Duration::from_millis(1);
/// After a group that took longer than this, groups have one call.
const TOO_LONG: Duration = Duration::from_millis(5);

/// A group that takes longer than `SLOW` while more than `LONG_BACKLOG` events wait is logged, at most once per `SLOW_AGAIN`.
const SLOW: Duration = Duration::from_millis(100);
const LONG_BACKLOG: usize = 1024;
const SLOW_AGAIN: Duration = Duration::from_secs(10);

/// Calls the handler until the listener is closed. When the returned future completes or is dropped, even if it was never polled, the
/// listener ends.
pub(super) fn deliver(
    listener: Arc<Listener>,
    handler: AnyHandler,
    filter: Option<Filter>,
    call_lock: Option<CallLock>,
) -> impl Future<Output = ()> + Send {
    // If the worker never starts, these are dropped in this order: the listener ends last.
    let owned = (handler, filter, EndOnDrop(Arc::clone(&listener)));
    async move {
        // Declared first, so that the listener ends after handler and filter are dropped.
        let (handler, filter, _end_on_drop) = owned;
        let filtering = filter.map(Filtering::new);
        let mut delivery = Delivery { listener: &listener, handler, filtering, group: 1, last_warning: None };
        while let Some(chunk) = poll_fn(|context| listener.poll_chunk(context)).await {
            let spent = delivery.deliver(&chunk, call_lock.as_ref()).await;
            listener.metrics.seconds.record(spent.as_secs_f64());
        }
        match delivery.handler {
            AnyHandler::OfBatches { callback, after: Some(after) } => {
                drop(callback);
                after.await;
            }
            AnyHandler::OfBatches { after: None, .. } | AnyHandler::OfEvents(_) => {}
        }
    }
}

/// Ends the listener when it is dropped.
struct EndOnDrop(Arc<Listener>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A handler and the pace at which it is called.
struct Delivery<'a> {
    listener: &'a Listener,
    handler: AnyHandler,
    filtering: Option<Filtering>,
    /// How many calls the next group has: the faster the handler, the more.
    group: usize,
    last_warning: Option<Instant>,
}

/// A group of calls.
struct CallGroup<'a> {
    /// The last event that was claimed.
    last: Option<&'a Event<Erased>>,
    claimed: usize,
    /// How many events the handler was called for; the filter may have hidden others.
    delivered: u64,
    /// Whether the chunk has more events.
    has_more: bool,
}

impl Delivery<'_> {
    /// Delivers a chunk, group by group, and yields to other tasks between groups. Returns how long the handler ran.
    async fn deliver(&mut self, chunk: &EventBatch, call_lock: Option<&CallLock>) -> Duration {
        let listener = self.listener;
        let mut spent = Duration::ZERO;
        loop {
            // Waits until no other worker calls the event handler. If the listener is closed first, it has no more events.
            let lock = OptionFuture::from(call_lock.map(CallLock::lock));
            let Either::Left((guard, _)) = select(pin!(lock), pin!(listener.closed())).await else { return spent };
            let mut group = CallGroup { last: None, claimed: 0, delivered: 0, has_more: true };
            let begun = Instant::now();
            listener.is_busy.store(true, Ordering::Relaxed);
            let called = match self.handler {
                AnyHandler::OfEvents(_) => self.call_group(chunk, &mut group, begun).await,
                AnyHandler::OfBatches { .. } => panics::catch(|| self.call_with_batch(chunk, &mut group)),
            };
            listener.is_busy.store(false, Ordering::Release);
            drop(guard);
            let took = begun.elapsed();
            spent += took;
            listener.delivered.fetch_add(group.delivered, Ordering::Relaxed);
            listener.publish_progress();
            self.adapt_group_size(took, group.claimed);
            if let Err(panic) = called {
                rest_after_panic(listener, group.last, &panic).await;
            }
            if !group.has_more {
                return spent;
            }
            yield_now().await;
        }
    }

    /// Claims and delivers all events of the chunk at once.
    fn call_with_batch<'c>(&mut self, chunk: &'c EventBatch, group: &mut CallGroup<'c>) {
        let Self { listener, handler, filtering, .. } = self;
        group.has_more = false;
        // Nothing is left if the listener was closed meanwhile.
        let Some(events) = chunk.get(listener.claims.revoke()..) else { return };
        (group.last, group.claimed) = (events.last(), events.len());
        let received = match filtering {
            None => Cow::Borrowed(events),
            Some(_) => {
                let received = events.iter().filter_map(|event| listener.event_for_handler(filtering, event));
                received.map(Cow::into_owned).collect()
            }
        };
        if let AnyHandler::OfBatches { callback, .. } = handler
            && !received.is_empty()
            && !listener.is_closed()
        {
            group.delivered = received.len() as u64;
            callback(&received);
        }
        after_event(listener, group.last);
    }

    /// Claims and delivers one event after the other, and waits for the future of each. Returns the message of the first panic. The
    /// event that caused it was claimed, so the next group starts after it.
    async fn call_group<'c>(
        &mut self,
        chunk: &'c EventBatch,
        group: &mut CallGroup<'c>,
        begun: Instant,
    ) -> Result<(), String> {
        while let Some(future) = panics::catch(|| self.call_until_future(chunk, group, begun))? {
            // The future also runs to its end if the listener is closed meanwhile: the task that removes the handler may wait for it.
            AssertUnwindSafe(future).catch_unwind().await.map_err(|payload| panics::message(&*payload))?;
            after_event(self.listener, group.last);
            if begun.elapsed() > LONG {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Delivers events until the group ends or a callback returns a future, which the caller must await.
    fn call_until_future<'c>(
        &mut self,
        chunk: &'c EventBatch,
        group: &mut CallGroup<'c>,
        begun: Instant,
    ) -> Option<EventFuture> {
        while group.has_more && group.claimed < self.group {
            let position = self.listener.claims.claim();
            group.has_more = position + 1 < chunk.len();
            let event = chunk.get(position)?;
            group.last = Some(event);
            group.claimed += 1;
            let received = self.listener.event_for_handler(&mut self.filtering, event);
            if self.listener.is_closed() {
                // The filter is users' code and may take long. The handler was removed meanwhile, so it must not be called.
                return None;
            }
            // The event is borrowed, because moving it costs more than the call of a fast handler.
            if let Some(event) = received.as_deref() {
                group.delivered += 1;
                if let AnyHandler::OfEvents(callback) = &mut self.handler
                    && let Some(future) = callback(event)
                {
                    return Some(future);
                }
            }
            after_event(self.listener, group.last);
            // The handler may become slow at any event.
            if group.claimed.is_multiple_of(LOOK_AFTER) && begun.elapsed() > LONG {
                return None;
            }
        }
        None
    }

    /// Sets the size of the next group, and logs a warning if this group was slow while many events wait.
    fn adapt_group_size(&mut self, took: Duration, calls: usize) {
        if took < LONG {
            self.group = (self.group * 2).min(LARGEST_GROUP);
        } else if took > TOO_LONG {
            self.group = 1;
        }
        if took < SLOW || self.last_warning.is_some_and(|warned| warned.elapsed() < SLOW_AGAIN) {
            return;
        }
        let waiting = self.listener.backlog();
        if waiting > LONG_BACKLOG {
            self.last_warning = Some(Instant::now());
            warn!(count = calls, elapsed_ms = took.as_millis(), waiting, "the handler is slow; events pile up for it");
        }
    }
}

/// Called when the handler has returned from an event.
fn after_event(listener: &Listener, event: Option<&Event<Erased>>) {
    if let Some(Event::Synced) = event {
        listener.set_synced();
    }
}

/// Logs and counts a panic. The event counts as delivered. Then waits before the next call, unless the listener is closed.
async fn rest_after_panic(listener: &Listener, event: Option<&Event<Erased>>, panic: &str) {
    listener.record_panic("a handler panicked", event.and_then(Event::key).map(Key::as_str), panic);
    after_event(listener, event);
    // An error means that the time is over and the listener is open.
    let _ = timeout(AFTER_PANIC, listener.closed()).await;
}

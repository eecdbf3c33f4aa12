//! Events for whoever asks for the next one: the asynchronous way to follow an informer.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Context;
use std::task::Poll;

use futures_util::Stream;
use tracing::error;

use super::Listener;
use super::Notice;
use super::Registration;
use super::buffer::Batch;
use super::filter::as_filtered;
use super::listener::Ended;
use crate::Event;
use crate::panics;

/// Events, in order, as a stream. It ends when the informer stops; dropping it unregisters.
///
/// What nobody asks for waits, as for a handler; [`coalesce_above`](crate::informer::Subscribe::coalesce_above) bounds that.
#[must_use = "a stream that is dropped hears of nothing"]
pub struct EventStream<O> {
    listener: Arc<Listener<O>>,
    registration: Registration,
    chunk: Option<Batch<O>>,
}

impl<O: Send + Sync + 'static> EventStream<O> {
    pub(crate) fn new(listener: Arc<Listener<O>>, registration: Registration) -> Self {
        Self { listener, registration, chunk: None }
    }

    /// How far the stream is: synced when all initial adds were taken, and the next event was asked for.
    pub fn registration(&self) -> &Registration {
        &self.registration
    }

    /// The next one of the chunk at hand that concerns this stream.
    fn next_here(&mut self) -> Option<Event<O>> {
        while let Some(chunk) = &self.chunk {
            let Some(notice) = chunk.get(self.listener.claims.claim()) else {
                self.chunk = None;
                return None;
            };
            self.listener.delivered.fetch_add(1, Ordering::Relaxed);
            if let Notice::Synced = notice {
                self.listener.set_synced();
            }
            let Some(passes) = &self.listener.filter else { return Some(notice.to_event()) };
            match panics::catch(|| as_filtered(notice, passes)) {
                Ok(Some(notice)) => return Some(notice.to_event()),
                Ok(None) => {}
                Err(panic) => {
                    self.listener.panics.fetch_add(1, Ordering::Relaxed);
                    self.listener.metrics.panicked();
                    let (kind, handler) = (&*self.listener.informer, &*self.listener.name);
                    error!(
                        kind,
                        handler,
                        key = notice.key().map(crate::Key::as_str),
                        error = panic,
                        "a filter panicked"
                    );
                }
            }
        }
        None
    }
}

impl<O: Send + Sync + 'static> Stream for EventStream<O> {
    type Item = Event<O>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event<O>>> {
        loop {
            if let Some(event) = self.next_here() {
                return Poll::Ready(Some(event));
            }
            match self.listener.poll_chunk(context) {
                Poll::Ready(Some(chunk)) => self.chunk = Some(chunk),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl<O> Drop for EventStream<O> {
    fn drop(&mut self) {
        self.listener.close(Ended::Removed);
    }
}

impl<O> fmt::Debug for EventStream<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream").field("listener", &self.listener).finish_non_exhaustive()
    }
}

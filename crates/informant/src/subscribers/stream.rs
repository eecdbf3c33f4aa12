//! Events as a stream: the reader takes one event after the other.
//!
//! - **In:** chunks of a listener.
//! - **Out:** items of a stream.
//! - **Knows nothing of:** workers, other listeners.

use std::{
    borrow::Cow,
    marker::PhantomData,
    pin::{Pin, pin},
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, ready},
};

use derive_where::derive_where;
use futures_util::{Stream, StreamExt, stream::SelectAll};
use tokio::task::coop::consume_budget;

use super::{Filter, Listener, Registration, buffer::EventBatch, filter::Filtering, listener::CloseReason};
use crate::{Event, object::Erased};

/// A stream of events, in order. It ends when the informer stops. Dropping it unregisters it.
///
/// Events wait until the stream is polled, as they wait for a slow handler;
/// [`coalesce_above`](crate::informer::Subscribe::coalesce_above) limits their number.
///
/// The stream of a [`View`](crate::View) has the events of all members; those of one member are in order. It returns
/// [`Event::Synced`] once, after the initial adds of all members; never, if a member stops before that. It ends when all members have
/// stopped.
#[must_use = "a stream that is dropped receives no events"]
#[derive_where(Debug)]
pub struct EventStream<O> {
    #[derive_where(skip(Debug))]
    members: MemberStreams,
    registration: Registration,
    #[derive_where(skip(Debug))]
    object_type: PhantomData<fn(O) -> O>,
}

/// The stream of one informer, or those of the members of a view.
pub(crate) enum MemberStreams {
    One(ListenerStream),
    Several {
        streams: SelectAll<ListenerStream>,
        /// The number of streams that have not returned [`Event::Synced`].
        unsynced: usize,
    },
}

/// The events of one listener as a stream.
pub(crate) struct ListenerStream {
    listener: Arc<Listener>,
    chunk: Option<EventBatch>,
    filtering: Option<Filtering>,
}

impl<O> EventStream<O> {
    pub(crate) fn new(members: MemberStreams, registration: Registration) -> Self {
        Self { members, registration, object_type: PhantomData }
    }

    /// The registration of the stream: its backlog, whether it is synced, how to remove it. An event counts as delivered when the next
    /// one is requested.
    pub fn registration(&self) -> &Registration {
        &self.registration
    }

    /// Waits for the next event; `None` when the informer has stopped or the stream was removed.
    ///
    /// `StreamExt` need not be imported for it. The type is a [`Stream`] too, so all other methods of `StreamExt` work.
    ///
    /// Cancel safe: an event is taken only when it is returned.
    ///
    /// ```
    /// use informant::{Event, SharedInformer, testing::ScriptedSource};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use serde_json::json;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> informant::Result<()> {
    /// let (source, handle) = ScriptedSource::live();
    /// handle.added(json!({"metadata": {"namespace": "shop", "name": "hours"}}));
    /// let configs = SharedInformer::<ConfigMap>::new(source);
    /// let mut events = configs.subscribe().stream()?;
    /// configs.start();
    ///
    /// while let Some(event) = events.next().await {
    ///     match event {
    ///         Event::Added { object, .. } => println!("+ {}", object.key()),
    ///         Event::Synced => break,
    ///         other => println!("{other:?}"),
    ///     }
    /// }
    /// # configs.stop().await?;
    /// # Ok(())
    /// # }
    /// ```
    // This is not an `async fn`: the future of one is not `Unpin`, unlike the future of `StreamExt::next`.
    #[expect(clippy::should_implement_trait, reason = "it returns a future, as `StreamExt::next` does")]
    pub fn next(&mut self) -> impl Future<Output = Option<Event<O>>> + Send + Unpin + '_ {
        StreamExt::next(self)
    }
}

impl MemberStreams {
    pub(crate) fn several(streams: Vec<ListenerStream>) -> Self {
        Self::Several { unsynced: streams.len(), streams: streams.into_iter().collect() }
    }
}

impl ListenerStream {
    pub(crate) fn new(listener: Arc<Listener>, filter: Option<Filter>) -> Self {
        Self { listener, chunk: None, filtering: filter.map(Filtering::new) }
    }

    /// Claims the next event of the current chunk; `None` if there is none. Returns the event as this stream returns it, which is `None` if the
    /// filter hides it.
    fn claim(&mut self) -> Option<Option<Event<Erased>>> {
        let Self { listener, chunk, filtering } = self;
        let event = &chunk.as_ref()?.get(listener.claims.claim())?;
        if let Event::Synced = event {
            listener.set_synced();
        }
        let received = listener.event_for_handler(filtering, event);
        listener.delivered.fetch_add(u64::from(received.is_some()), Ordering::Relaxed);
        Some(received.map(Cow::into_owned))
    }
}

impl<O> Stream for EventStream<O> {
    type Item = Event<O>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event<O>>> {
        self.members.poll_next_unpin(context).map(|event| event.map(Event::typed))
    }
}

impl Stream for MemberStreams {
    type Item = Event<Erased>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event<Erased>>> {
        match &mut *self {
            Self::One(stream) => stream.poll_next_unpin(context),
            Self::Several { streams, unsynced } => loop {
                match ready!(streams.poll_next_unpin(context)) {
                    Some(Event::Synced) => {
                        *unsynced -= 1;
                        if *unsynced == 0 {
                            return Poll::Ready(Some(Event::Synced));
                        }
                    }
                    event => return Poll::Ready(event),
                }
            },
        }
    }
}

impl Stream for ListenerStream {
    type Item = Event<Erased>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event<Erased>>> {
        loop {
            // Other tasks must be able to run, also if there is always an event to read, or the filter hides all of them.
            ready!(pin!(consume_budget()).poll(context));
            // The reader has finished with the previous event.
            self.listener.publish_progress();
            match self.claim() {
                Some(Some(event)) => return Poll::Ready(Some(event)),
                Some(None) => continue,
                None => {}
            }
            self.chunk = None;
            match ready!(self.listener.poll_chunk(context)) {
                Some(chunk) => self.chunk = Some(chunk),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl Drop for ListenerStream {
    fn drop(&mut self) {
        self.listener.close(CloseReason::Removed);
    }
}

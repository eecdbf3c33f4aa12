//! [`ViewStream`], the events of all members of a view as one stream.

use std::{
    fmt,
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_util::{Stream, StreamExt, stream::SelectAll};

use crate::{Event, Registration, object::Erased, subscribers::AnyEventStream};

/// A stream of the events of all members of a view. The events of one member are in order.
///
/// It returns [`Event::Synced`] once, after the initial adds of all members. If a member stops before that, the stream never returns it. The stream ends when all
/// members have stopped. Dropping it ends the subscription.
#[must_use = "dropping the stream ends the subscription"]
pub struct ViewStream<O> {
    events: AnyViewStream,
    object_type: PhantomData<fn(O) -> O>,
}

/// A [`ViewStream`] whose object type is erased.
pub(super) struct AnyViewStream {
    streams: SelectAll<AnyEventStream>,
    /// The number of members that have not delivered all initial adds.
    unsynced: usize,
    registration: Registration,
}

impl<O> ViewStream<O> {
    pub(super) fn from_any(events: AnyViewStream) -> Self {
        Self { events, object_type: PhantomData }
    }

    /// The state of the subscription. It is synced when the caller has taken all initial adds of all members and polls for the next
    /// event.
    pub fn registration(&self) -> &Registration {
        &self.events.registration
    }

    /// Waits for the next event; `None` when all members have stopped or the stream was removed.
    ///
    /// `StreamExt` need not be imported for it. The type is a [`Stream`] too, so all other methods of `StreamExt` work.
    ///
    /// Cancel safe: an event is taken only when it is returned.
    ///
    /// ```
    /// use informant::SharedInformerFactory;
    /// use informant_apiserver::ApiServer;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use serde_json::json;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ApiServer::new();
    /// server.put("configmaps", json!({"metadata": {"namespace": "shop", "name": "hours"}}))?;
    /// let factory = SharedInformerFactory::new(server.client());
    /// let configs = factory.request::<ConfigMap>().in_namespaces(["shop", "bank"]).view()?;
    /// let mut events = configs.stream()?;
    /// factory.start();
    ///
    /// let event = events.next().await.ok_or("the view has stopped")?;
    /// assert_eq!(event.key(), Some(&"shop/hours".parse()?));
    /// # factory.stop().await?;
    /// # Ok(())
    /// # }
    /// ```
    // This is not an `async fn`: the future of one is not `Unpin`, unlike the future of `StreamExt::next`.
    #[expect(clippy::should_implement_trait, reason = "it returns a future, as `StreamExt::next` does")]
    pub fn next(&mut self) -> impl Future<Output = Option<Event<O>>> + Send + Unpin + '_ {
        StreamExt::next(self)
    }
}

impl AnyViewStream {
    pub(super) fn new(streams: Vec<AnyEventStream>, registration: Registration) -> Self {
        Self { unsynced: streams.len(), streams: streams.into_iter().collect(), registration }
    }
}

impl<O> Stream for ViewStream<O> {
    type Item = Event<O>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event<O>>> {
        self.events.poll_next_unpin(context).map(|event| event.map(Event::typed))
    }
}

impl Stream for AnyViewStream {
    type Item = Event<Erased>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event<Erased>>> {
        loop {
            match ready!(self.streams.poll_next_unpin(context)) {
                Some(Event::Synced) => {
                    self.unsynced -= 1;
                    if self.unsynced == 0 {
                        return Poll::Ready(Some(Event::Synced));
                    }
                }
                event => return Poll::Ready(event),
            }
        }
    }
}

impl<O> fmt::Debug for ViewStream<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ViewStream").field("registration", self.registration()).finish_non_exhaustive()
    }
}

//! A source without a network: its objects are already decoded, and its events are sent by the benchmark.

use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use informant::{
    error::SourceError,
    pipeline::{
        Item, ListPiece, ListRequest, ListStream, ListWatch, SourceEvent, WatchPiece, WatchRequest, WatchStream,
    },
};
use tokio::sync::mpsc;

use super::{Content, identity};

/// A source that lists numbered objects; its watch delivers the events that the benchmark sends.
#[derive(Clone)]
pub struct Feed {
    /// The next list: its version, the number of objects, and the version of the objects.
    list: Arc<Mutex<(usize, usize, usize)>>,
    events: Arc<Mutex<Option<mpsc::UnboundedReceiver<Order>>>>,
}

/// What the watch does next.
pub enum Order {
    /// Delivers events.
    Events(Vec<SourceEvent<Content>>),
    /// Fails with "expired", so that the reflector relists; the next watch reads from this receiver.
    Expire(mpsc::UnboundedReceiver<Order>),
}

impl Feed {
    pub fn new(objects: usize) -> (Self, mpsc::UnboundedSender<Order>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let feed = Self { list: Arc::new(Mutex::new((1, objects, 1))), events: Arc::new(Mutex::new(Some(receiver))) };
        (feed, sender)
    }

    /// Sets the next list: this many objects, all changed at this version.
    pub fn relist(&self, objects: usize, version: usize) {
        *self.list.lock().unwrap() = (version, objects, version);
    }
}

pub fn item(number: usize, version: usize) -> Item<Content> {
    let content = Content { node: (number % 1000) as u32, app: ((number + version) % 200) as u32 };
    Item::new(identity(number, version), content)
}

pub fn modified(number: usize, version: usize) -> SourceEvent<Content> {
    SourceEvent::Modified(item(number, version))
}

impl ListWatch<Content> for Feed {
    async fn list(&self, _: ListRequest) -> Result<ListStream<Content>, SourceError> {
        let (version, objects, at) = *self.list.lock().unwrap();
        Ok(ListPiece::page(version.to_string().as_str(), (0..objects).map(|number| item(number, at))))
    }

    async fn watch(&self, _: WatchRequest) -> Result<WatchStream<Content>, SourceError> {
        let Some(orders) = self.events.lock().unwrap().take() else {
            return Ok(futures_util::stream::pending().boxed());
        };
        let next = Arc::clone(&self.events);
        let stream = futures_util::stream::unfold((orders, Vec::new().into_iter()), move |(mut orders, mut left)| {
            let next = Arc::clone(&next);
            async move {
                loop {
                    if let Some(event) = left.next() {
                        return Some((Ok(WatchPiece::Event(event)), (orders, left)));
                    }
                    match orders.recv().await? {
                        Order::Events(events) => left = events.into_iter(),
                        Order::Expire(later) => {
                            *next.lock().unwrap() = Some(later);
                            return Some((Err(SourceError::expired()), (orders, left)));
                        }
                    }
                }
            }
        });
        Ok(stream.boxed())
    }
}

//! Handlers that panic, and readers of streams that stall. Each records the events that it receives.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use informant::{Cached, Deleted, Event, EventHandler, EventStream, Origin, Registration, SharedInformer, Subscribe};
use tokio::task::JoinHandle;

use super::{
    history::{History, passes, shown},
    world::World,
};
use crate::{reflector::soak::Texted, support::reflector::sleep_seconds};

/// A handler that records each event, and then sometimes panics.
struct Panicky<O> {
    history: Arc<History<O>>,
    random: Mutex<fastrand::Rng>,
}

impl<O: Texted> Panicky<O> {
    fn receive(&self, event: &Event<O>) {
        self.history.receive(event);
        if self.random.lock().unwrap().u32(0..25) == 0 {
            // Unlike `panic!`, this prints nothing.
            std::panic::resume_unwind(Box::new("a random panic"));
        }
    }
}

impl<O: Texted> EventHandler<O> for Panicky<O> {
    fn on_add(&self, object: &Cached<O>, origin: Origin) {
        self.receive(&Event::Added { object: object.clone(), origin });
    }

    fn on_update(&self, old: &Cached<O>, new: &Cached<O>) {
        self.receive(&Event::Updated { old: old.clone(), new: new.clone() });
    }

    fn on_resync(&self, object: &Cached<O>) {
        self.receive(&Event::Resynced(object.clone()));
    }

    fn on_delete(&self, deleted: &Deleted<O>) {
        self.receive(&Event::Deleted(deleted.clone()));
    }

    fn on_synced(&self) {
        self.receive(&Event::Synced);
    }
}

/// A handler or the reader of a stream.
pub(super) struct Follower<O> {
    history: Arc<History<O>>,
    pub(super) registration: Registration,
    /// The task that reads a stream.
    reader: Option<JoinHandle<()>>,
}

impl<O: Texted> Follower<O> {
    pub(super) fn join(world: &World<O>, random: &mut fastrand::Rng) -> Self {
        let is_filtered = random.u32(0..4) == 0;
        let history = History::new(world, is_filtered);
        let mut subscribe: Subscribe<'_, O> = world.informer.subscribe().named("follower");
        if is_filtered {
            subscribe = subscribe.filter(passes);
        }
        if random.bool() {
            subscribe = subscribe.coalesce_above(random.usize(0..8));
        }
        subscribe = match random.u32(0..3) {
            0 => subscribe,
            1 => subscribe.resync_every(Duration::ZERO),
            _ => subscribe.resync_every(Duration::from_secs(random.u64(5..600))),
        };
        let random = fastrand::Rng::with_seed(random.u64(..));
        if random.clone().bool() {
            let handler = Panicky { history: Arc::clone(&history), random: Mutex::new(random) };
            return Self { history, registration: subscribe.handler(handler).unwrap(), reader: None };
        }
        let stream = subscribe.stream().unwrap();
        let registration = stream.registration().clone();
        let reader = tokio::spawn(read(stream, Arc::clone(&history), random));
        Self { history, registration, reader: Some(reader) }
    }

    /// Waits until the follower is synced and its events add up to the cache; returns a description if that does not happen.
    /// No object may change meanwhile.
    ///
    /// Every event that waits takes at most [`SLOWEST`] seconds, so the time that the backlog needs is known. Resyncs that arrive
    /// after it change nothing, and the wait begins again only if the cache itself changes.
    pub(super) async fn catches_up(&self, informer: &SharedInformer<O>) -> Option<String> {
        let mut expected = self.expected(informer);
        let mut steps = self.registration.backlog() + 2;
        loop {
            if self.registration.is_synced() && self.history.known() == expected {
                return None;
            }
            if steps == 0 {
                let (known, registration) = (self.history.known(), &self.registration);
                let events = self.history.record.lock().unwrap().events.clone();
                return Some(format!("P4, P7: {known:?} is not the cache {expected:?}; {registration:?}; {events:?}"));
            }
            steps -= 1;
            sleep_seconds(SLOWEST).await;
            let now = self.expected(informer);
            if now != expected {
                expected = now;
                steps = self.registration.backlog() + 2;
            }
        }
    }

    /// The part of the cache that passes the follower's filter.
    fn expected(&self, informer: &SharedInformer<O>) -> BTreeMap<String, String> {
        let mut objects = informer.lister().list();
        objects.retain(|object| !self.history.is_filtered || passes(object));
        objects.iter().map(|object| (object.key().to_string(), shown(object))).collect()
    }

    pub(super) async fn leave(self) -> Arc<History<O>> {
        self.registration.remove();
        self.history.end();
        if let Some(reader) = self.reader {
            reader.await.unwrap();
        }
        self.history
    }
}

/// The longest time, in seconds, that a reader takes for one event.
const SLOWEST: f64 = 100.0;

/// Reads a stream, and sometimes stalls.
async fn read<O: Texted>(mut stream: EventStream<O>, history: Arc<History<O>>, mut random: fastrand::Rng) {
    while let Some(event) = stream.next().await {
        history.receive(&event);
        if random.u32(0..10) == 0 {
            sleep_seconds(random.f64() * SLOWEST).await;
        }
    }
}

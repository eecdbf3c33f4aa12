//! Applies random changes of a server in batches, and checks the events: their order, and the cache that they add up to.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use super::apply::{Outcome, apply};
use crate::{
    Cached, Deleted, Event, Key, Uid,
    delta::{Change, Delta, Relist},
    object::Erased,
    queue::{
        DeltaFifo,
        model::scenario::{self, Server, Step, steps},
    },
    random,
    store::{Lister, Writer},
};

type Object = Cached<Erased>;

/// The version of the server at which the informer received each state and each deletion: that of the watch event or the list.
#[derive(Default)]
struct Received {
    states: HashMap<String, u64>,
    deletions: HashMap<Uid, u64>,
}

/// A handler that applies all events to `objects`, and checks that each event fits the ones before it.
struct CheckedHandler {
    lister: Lister<Erased>,
    objects: BTreeMap<Key, Object>,
    /// The place of the last event in the server's order.
    last: (u64, bool),
}

impl Received {
    fn record(&mut self, change: &Change<Erased>, server: &Server, before: &[Uid]) {
        let objects = match change {
            Change::Delta(delta) => std::slice::from_ref(delta.object()),
            Change::Relist(relist) => &relist.objects[..],
            Change::Existing(_) | Change::DeletedUnread { .. } | Change::Bookmark(_) | Change::Resync => &[],
        };
        for object in objects {
            self.states.entry(object.version().to_string()).or_insert(server.version);
        }
        for uid in before.iter().filter(|uid| !uids(server).contains(uid)) {
            self.deletions.insert(uid.clone(), server.version);
        }
    }

    /// Returns the place of an event in the server's order. Of a list, deletes come first.
    fn place(&self, event: &Event<Erased>) -> (u64, bool) {
        match event {
            Event::Added { object, .. } | Event::Updated { new: object, .. } => {
                (self.states[&object.version().to_string()], true)
            }
            Event::Deleted(deleted) => (self.deletions[deleted.object().uid()], false),
            Event::Resynced(_) | Event::Synced => unreachable!(),
        }
    }
}

impl CheckedHandler {
    fn receive(&mut self, Outcome { initial, live, .. }: Outcome, received: &Received) {
        assert!(initial.iter().all(|event| matches!(event, Event::Added { .. })));
        for event in initial.iter().chain(&live) {
            self.fold(event);
            if !event.is_resync() {
                let place = received.place(event);
                assert!(self.last <= place, "{event:?} comes after an event of version {}", self.last.0);
                self.last = place;
            }
        }
        let cached: Vec<_> = self.lister.list().into_iter().map(|object| (object.key().clone(), object)).collect();
        assert_eq!(cached.len(), self.objects.len());
        assert!(cached.iter().all(|(key, object)| Cached::ptr_eq(object, &self.objects[key])));
    }

    fn fold(&mut self, event: &Event<Erased>) {
        let key = event.key().unwrap().clone();
        let before = self.objects.remove(&key);
        let is_before = |object: &Object| before.as_ref().is_some_and(|before| Cached::ptr_eq(before, object));
        let after = match event {
            Event::Added { object, .. } => {
                assert!(before.is_none(), "{key} is added twice");
                Some(object)
            }
            Event::Updated { old, new } => {
                assert!(is_before(old) && old.version().compare(new.version()) == Some(Ordering::Less), "{key}");
                Some(new)
            }
            Event::Resynced(object) => {
                assert!(is_before(object), "{key}");
                Some(object)
            }
            Event::Deleted(_) => {
                assert!(before.is_some(), "{key} is deleted, but was not added");
                None
            }
            Event::Synced => unreachable!(),
        };
        after.into_iter().for_each(|after| drop(self.objects.insert(key.clone(), after.clone())));
    }

    /// Checks that the cache has the server's objects, except for those that cannot be decoded.
    fn check_end(&self, server: &Server) {
        let readable =
            |object: &scenario::Object| !server.unreadable.iter().any(|name| scenario::key(*name) == *object.key());
        let expected = server.objects.values().filter(|object| readable(object));
        assert!(expected.clone().all(|object| {
            self.lister.get(object.key()).is_some_and(|cached| cached.version() == object.version())
        }));
        let known =
            self.lister.keys().into_iter().filter(|key| server.objects.values().any(|object| object.key() == key));
        assert_eq!(known.count(), self.lister.len());
    }
}

fn uids(server: &Server) -> Vec<Uid> {
    server.objects.values().map(|object| object.uid().clone()).collect()
}

fn erase(change: Change<()>) -> Change<Erased> {
    let erase_deleted = |deleted: Deleted<()>| match deleted {
        Deleted::Observed(object) => Deleted::Observed(object.erase()),
        Deleted::Missed { last_known } => Deleted::Missed { last_known: last_known.erase() },
    };
    match change {
        Change::Delta(Delta::Added(object)) => Delta::Added(object.erase()).into(),
        Change::Delta(Delta::Updated(object)) => Delta::Updated(object.erase()).into(),
        Change::Delta(Delta::Deleted(deleted)) => Delta::Deleted(erase_deleted(deleted)).into(),
        Change::DeletedUnread { key, version } => Change::DeletedUnread { key, version },
        Change::Relist(Relist { version, objects, quarantined, history_changed }) => {
            let objects = objects.into_iter().map(Cached::erase).collect();
            Relist { version, objects, quarantined, history_changed }.into()
        }
        Change::Delta(Delta::Replaced(_) | Delta::Sync(_))
        | Change::Existing(_)
        | Change::Bookmark(_)
        | Change::Resync => unreachable!("the server pushes none of them"),
    }
}

/// P2, P4
#[test]
fn events_have_the_servers_order_also_between_objects_and_add_up_to_the_cache() {
    random::check(500, steps(), |steps| {
        let mut cache = Writer::new("objects".into());
        let lister = cache.lister();
        let queue = DeltaFifo::builder().known_objects(Arc::new(lister.clone())).build();
        let (mut server, mut received) = (Server::default(), Received::default());
        let mut handler = CheckedHandler { lister: lister.clone(), objects: BTreeMap::new(), last: (0, false) };
        for step in steps.iter().chain([&Step::Drain]) {
            while let Step::Drain = step
                && let Some(batch) = queue.try_drain().unwrap()
            {
                handler.receive(apply(&batch, &mut cache, &lister), &received);
                batch.acknowledge();
            }
            if let Step::Requeue(..) = step
                && let Some(batch) = queue.try_drain().unwrap()
            {
                batch.requeue();
            }
            let before = uids(&server);
            let Some(change) = server.act(step).map(erase) else { continue };
            received.record(&change, &server, &before);
            queue.push(change);
        }
        handler.check_end(&server);
    });
}

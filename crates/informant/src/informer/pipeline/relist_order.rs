//! Orders the events of a batch so that the deletes of a relist come before its adds and updates.
//!
//! - **In:** the events of one batch; the events of each object follow one another.
//! - **Out:** the same events; the order within each object does not change.
//! - **Knows nothing of:** queues, the cache, handlers.

use crate::event::CacheEvent;

/// Sorts the events of a batch that holds a relist into three phases, each in its original order:
///
/// 1. the events of each object up to the last delete before the relist's add or update of that object;
/// 2. the other events of each object up to its last delete: the relist added or updated the object, and the watch deleted it later;
/// 3. all other events.
///
/// All deletes of the relist are in phase 1, all its adds and updates in phases 2 and 3. Phase 3 has no deletes, so the last event of
/// an object that exists comes after the deletes of all objects. If the batch holds two relists, deletes of the second one may be
/// in phase 2: only adds and updates that were undone within the batch can come before them.
///
/// `listed` are the positions of the relist's adds and updates, ascending. It may be empty if the batch has no events of the watch.
pub(super) fn deletes_first(events: Vec<CacheEvent>, listed: &[usize]) -> Vec<CacheEvent> {
    let is_delete = |shared: &CacheEvent| shared.event.is_delete();
    let end_of_deletes = |events: &[CacheEvent]| events.iter().rposition(is_delete).map_or(0, |last| last + 1);
    let mut listed = listed.iter().copied().peekable();
    let mut phases = Vec::with_capacity(events.len());
    for of_object in events.chunk_by(|one, next| one.event.key() == next.event.key()) {
        let (start, end) = (phases.len(), phases.len() + of_object.len());
        let first_listed = listed.peek().map_or(end, |position| end.min(*position));
        while listed.next_if(|position| *position < end).is_some() {}
        let first_phase = start + end_of_deletes(&of_object[..first_listed - start]);
        let second_phase = start + end_of_deletes(of_object);
        phases.extend((start..end).map(|position| match (position < first_phase, position < second_phase) {
            (true, _) => 1_u8,
            (false, true) => 2,
            (false, false) => 3,
        }));
    }
    let mut sorted: Vec<_> = phases.into_iter().zip(events).collect();
    sorted.sort_by_key(|(phase, _)| *phase);
    sorted.into_iter().map(|(_, shared)| shared).collect()
}

#[cfg(test)]
mod tests {
    use std::{
        cmp::Ordering,
        collections::{BTreeMap, BTreeSet},
        sync::Arc,
    };

    use super::*;
    use crate::{
        Cached, Deleted, Event, Key, ResourceVersion, Uid,
        delta::{Change, Delta, Relist},
        informer::pipeline::apply::{ApplyOptions, Outcome, apply},
        object::Erased,
        queue::{
            Batch, Queue,
            model::scenario::{self, Server, Step, steps},
        },
        random,
        store::{Indexer, Lister},
    };

    type Object = Cached<Erased>;

    const OPTIONS: ApplyOptions = ApplyOptions { recreated_as_update: false, trusts_versions: true };

    /// The content of a relist that is in the queue.
    struct Listed {
        version: ResourceVersion,
        objects: Vec<Object>,
        /// The uids of all objects that exist, including those that cannot be decoded.
        uids: BTreeSet<Uid>,
    }

    /// A handler that applies all events to `objects`, and checks that each event fits the ones before it.
    struct CheckedHandler {
        lister: Lister<Erased>,
        objects: BTreeMap<Key, Object>,
        /// The versions that the watch has delivered.
        watched: BTreeSet<String>,
    }

    impl Listed {
        fn of(relist: &Relist<Erased>) -> Self {
            let listed = relist.objects.iter().map(|object| object.uid().clone());
            let uids = listed.chain(relist.quarantined.iter().map(|(_, uid)| uid.clone())).collect();
            Self { version: relist.version.clone(), objects: relist.objects.clone(), uids }
        }

        /// Returns true for a delete of the relist, or an earlier one: of an incarnation that is older than the relist and
        /// that the relist does not have.
        fn is_delete_of(&self, shared: &CacheEvent) -> bool {
            let (Event::Deleted(_), Some(last)) = (&shared.event, shared.last_received()) else { return false };
            last.version().compare(&self.version) == Ok(Ordering::Less) && !self.uids.contains(last.uid())
        }

        /// Returns true for an add or update of the relist: of a state that the watch has not delivered.
        fn is_change_of(&self, shared: &CacheEvent, watched: &BTreeSet<String>) -> bool {
            let (Event::Added { object, .. } | Event::Updated { new: object, .. }) = &shared.event else {
                return false;
            };
            let is_listed = self.objects.iter().any(|listed| Cached::ptr_eq(listed, object));
            is_listed && !watched.contains(&object.version().to_string())
        }
    }

    impl CheckedHandler {
        fn new(cache: &Indexer<Erased>) -> Self {
            Self { lister: cache.lister(), objects: BTreeMap::new(), watched: BTreeSet::new() }
        }

        fn receive(&mut self, Outcome { initial, live, .. }: Outcome, relists: &[Listed]) {
            assert!(initial.iter().all(|shared| matches!(shared.event, Event::Added { .. })));
            let end_of_initial = initial.len();
            let events: Vec<_> = initial.into_iter().chain(live).collect();
            for (position, shared) in events.iter().enumerate() {
                self.fold(shared);
                let later = &events[position + 1..];
                if let [relist] = relists
                    && relist.is_change_of(shared, &self.watched)
                {
                    assert!(
                        !later.iter().any(|later| relist.is_delete_of(later)),
                        "a delete of the relist after its change of {:?}",
                        shared.event.key()
                    );
                }
                // This holds also if the batch has several relists.
                let is_last =
                    position >= end_of_initial && later.iter().all(|later| later.event.key() != shared.event.key());
                if is_last && relists.iter().any(|relist| relist.is_change_of(shared, &self.watched)) {
                    assert!(
                        !later.iter().any(|later| later.event.is_delete()),
                        "a delete after the last change of {:?}",
                        shared.event.key()
                    );
                }
            }
            let cached: Vec<_> =
                self.lister.snapshot().iter().map(|object| (object.key().clone(), object.clone())).collect();
            assert_eq!(cached.len(), self.objects.len());
            assert!(cached.iter().all(|(key, object)| Cached::ptr_eq(object, &self.objects[key])));
        }

        fn fold(&mut self, shared: &CacheEvent) {
            let key = shared.event.key().unwrap().clone();
            let before = self.objects.remove(&key);
            let is_before = |object: &Object| before.as_ref().is_some_and(|before| Cached::ptr_eq(before, object));
            let after = match &shared.event {
                Event::Added { object, .. } => {
                    assert!(before.is_none(), "{key} is added twice");
                    Some(object)
                }
                Event::Updated { old, new } => {
                    assert!(is_before(old) && old.version().compare(new.version()) == Ok(Ordering::Less), "{key}");
                    Some(new)
                }
                Event::Resynced(object) => {
                    assert!(is_before(object), "{key}");
                    Some(object)
                }
                Event::Deleted(_) => {
                    assert!(shared.last_received().is_some_and(is_before), "{key}");
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

        fn watched(&mut self, change: &Change<Erased>) {
            if let Change::Delta(Delta::Added(object) | Delta::Updated(object)) = change {
                self.watched.insert(object.version().to_string());
            }
        }
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

    /// Returns the relists that have a change in the batch, and removes them and those before them.
    fn relists_in(batch: &Batch<Erased>, relists: &mut Vec<Listed>) -> Vec<Listed> {
        let objects: Vec<_> = batch.items().iter().flat_map(|item| item.deltas().iter().map(Delta::object)).collect();
        let is_in_batch = |relist: &Listed| {
            let mut listed = relist.objects.iter();
            listed.any(|listed| objects.iter().any(|object| Cached::ptr_eq(listed, object)))
        };
        let last = relists.iter().rposition(is_in_batch).map_or(0, |last| last + 1);
        relists.drain(..last).filter(is_in_batch).collect()
    }

    fn check(new_queue: fn(Arc<Lister<Erased>>) -> Queue<Erased>) {
        random::check(500, steps(), |steps| {
            let cache = Indexer::new();
            let queue = new_queue(Arc::new(cache.lister()));
            let (mut server, mut handler, mut relists) = (Server::default(), CheckedHandler::new(&cache), Vec::new());
            for step in steps.iter().chain([&Step::Drain]) {
                while let Step::Drain = step
                    && let Some(batch) = queue.try_drain().unwrap()
                {
                    let relists = relists_in(&batch, &mut relists);
                    let applied = apply(&batch, &cache, &cache.lister(), OPTIONS);
                    handler.receive(applied, &relists);
                    batch.acknowledge();
                }
                if let Step::Requeue(..) = step
                    && let Some(batch) = queue.try_drain().unwrap()
                {
                    batch.requeue();
                }
                let Some(change) = server.act(step).map(erase) else { continue };
                handler.watched(&change);
                if let Change::Relist(relist) = &change {
                    relists.push(Listed::of(relist));
                }
                queue.push(change);
            }
            handler.check_end(&server);
        });
    }

    /// P2, P4
    #[test]
    fn relist_order_in_the_grouping_queue_is_deletes_first_and_each_object_keeps_its_order() {
        check(|known| Queue::builder().known_objects(known).build());
    }

    /// P2, P4
    #[test]
    fn relist_order_in_the_in_order_queue_is_deletes_first_and_each_object_keeps_its_order() {
        check(|known| Queue::builder().known_objects(known).in_order().build());
    }
}

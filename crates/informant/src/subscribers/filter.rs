//! Applies a handler's filter: an object that begins to pass is an add, and one that no longer passes is a delete.
//!
//! - **In:** events, and the filter's answer for each object.
//! - **Out:** for each event the same event, another one, or none.
//! - **Knows nothing of:** buffers, tasks.

use std::{borrow::Cow, sync::Arc};

use hashbrown::HashSet;

use crate::{Cached, Deleted, Event, Key, Origin, object::Erased};

/// Returns true for the objects whose events a handler receives.
pub(crate) type Filter = Arc<dyn Fn(&Cached<Erased>) -> bool + Send + Sync>;

/// The filter of one handler or stream, and its members.
pub(super) struct Filtering {
    pub(super) filter: Filter,
    pub(super) members: Members,
}

/// The objects that the handler has received, without those that were deleted for it.
///
/// The members decide which events the handler receives, and not the filter's answer for the old state: that answer may differ from the one
/// that the filter gave when the state was new.
#[derive(Default)]
pub(super) struct Members {
    keys: HashSet<Key>,
}

/// The set is made smaller when it has room for more than this many keys, and four times as many as it has.
const SMALL: usize = 64;

impl Filtering {
    pub(super) fn new(filter: Filter) -> Self {
        Self { filter, members: Members::default() }
    }
}

impl Members {
    /// Returns the event that the handler receives, if it receives one. `passes` is called for the new state of the object, and not for a
    /// delete.
    pub(super) fn receive<'a>(
        &mut self,
        event: &'a Event<Erased>,
        passes: impl FnOnce(&Cached<Erased>) -> bool,
    ) -> Option<Cow<'a, Event<Erased>>> {
        // `last` is the state that the handler received last, if the object is a member.
        let (last, new) = match event {
            Event::Added { object, .. } | Event::Resynced(object) => (object, object),
            Event::Updated { old, new } => (old, new),
            Event::Deleted(deleted) => return self.remove(deleted.key()).then_some(Cow::Borrowed(event)),
            Event::Synced => return Some(Cow::Borrowed(event)),
        };
        if !passes(new) {
            let is_deleted = self.remove(new.key());
            return is_deleted.then(|| Cow::Owned(Event::Deleted(Deleted::Observed(last.clone()))));
        }
        // The key of the newest state, so that the set does not keep the text of an older state's key in memory.
        let was_member = self.keys.replace(new.key().clone()).is_some();
        Some(match event {
            Event::Updated { .. } | Event::Resynced(_) if !was_member => {
                Cow::Owned(Event::Added { object: new.clone(), origin: Origin::Live })
            }
            Event::Added { .. } | Event::Updated { .. } | Event::Resynced(_) | Event::Deleted(_) | Event::Synced => {
                Cow::Borrowed(event)
            }
        })
    }

    /// Returns whether the object was a member.
    fn remove(&mut self, key: &Key) -> bool {
        let was_member = self.keys.remove(key);
        if self.keys.capacity() > SMALL.max(4 * self.keys.len()) {
            self.keys.shrink_to(2 * self.keys.len());
        }
        was_member
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, task::Poll};

    use proptest::prelude::*;

    use super::*;
    use crate::{
        ResourceVersion,
        object::Identity,
        random,
        subscribers::buffer::{Buffer, BufferPolicy, EventBatch},
    };

    fn object(name: &str, version: usize) -> Cached<Erased> {
        let version = ResourceVersion::new(version.to_string());
        Cached::new(Identity { key: Key::cluster_scoped(name), uid: "u".into(), version }, ()).erase()
    }

    fn add(version: usize) -> Event<Erased> {
        Event::Added { object: object("x", version), origin: Origin::InitialList }
    }

    fn update(old: usize, new: usize) -> Event<Erased> {
        Event::Updated { old: object("x", old), new: object("x", new) }
    }

    fn resync(version: usize) -> Event<Erased> {
        Event::Resynced(object("x", version))
    }

    fn delete(version: usize) -> Event<Erased> {
        Event::Deleted(Deleted::Observed(object("x", version)))
    }

    /// The events that a handler receives if the filter gives these answers.
    fn received(events: impl IntoIterator<Item = (Event<Erased>, bool)>) -> Vec<String> {
        let mut members = Members::default();
        let shown = events.into_iter().filter_map(|(event, passes)| {
            Some(match &*members.receive(&event, |_| passes)? {
                Event::Added { object, origin: Origin::InitialList } => format!("initial +{object:?}"),
                Event::Added { object, origin: Origin::Live } => format!("+{object:?}"),
                Event::Updated { old, new } => format!("{old:?}→{new:?}"),
                Event::Resynced(object) => format!("={object:?}"),
                Event::Deleted(deleted) => format!("-{:?}", deleted.object()),
                Event::Synced => "synced".into(),
            })
        });
        shown.collect()
    }

    /// CT-26, as we want it: whether the handler has the object decides, and not the filter's answer for the old state.
    #[test]
    fn an_object_that_enters_the_filter_is_an_add_and_one_that_leaves_it_a_delete() {
        let steps = [(add(1), true), (update(1, 2), true), (update(2, 3), false), (update(3, 4), false)];
        assert_eq!(received(steps), ["initial +x@1", "x@1→x@2", "-x@2"]);
        assert_eq!(received([(add(1), false), (update(1, 2), true), (delete(3), false)]), ["+x@2", "-x@3"]);
        assert_eq!(received([(Event::Synced, false)]), ["synced"]);
    }

    #[test]
    fn a_resync_is_an_add_if_the_object_passes_now_and_a_delete_if_it_no_longer_does() {
        let steps = [(add(1), false), (resync(1), false), (resync(1), true), (resync(1), true), (resync(1), false)];
        assert_eq!(received(steps), ["+x@1", "=x@1", "-x@1"]);
    }

    /// CT-26, CT-27, as we want them.
    #[test]
    fn a_delete_is_received_exactly_if_the_object_was() {
        assert_eq!(received([(add(1), true), (delete(2), false), (delete(2), true)]), ["initial +x@1", "-x@2"]);
        assert!(received([(add(1), false), (delete(2), true)]).is_empty());
    }

    /// What the handler has: the objects in the state that it received last.
    #[derive(Default)]
    struct Handler {
        objects: BTreeMap<Key, Cached<Erased>>,
    }

    impl Handler {
        /// P4: panics if the event does not fit the events before it.
        fn receive(&mut self, event: &Event<Erased>) {
            let same = |known: Option<Cached<Erased>>, object: &Cached<Erased>| {
                assert!(known.is_some_and(|known| Cached::ptr_eq(&known, object)), "{event:?}");
            };
            match event {
                Event::Added { object, .. } => {
                    assert!(self.objects.insert(object.key().clone(), object.clone()).is_none(), "{event:?}");
                }
                Event::Updated { old, new } => same(self.objects.insert(new.key().clone(), new.clone()), old),
                Event::Resynced(object) => same(self.objects.get(object.key()).cloned(), object),
                Event::Deleted(deleted) => assert!(self.objects.remove(deleted.key()).is_some(), "{event:?}"),
                Event::Synced => {}
            }
        }
    }

    /// P4: for any events and any answers of the filter, also if events are coalesced. A step is the number of an object, what happens to it, the
    /// answer, and whether the handler receives everything that waits.
    #[test]
    fn the_events_that_a_filter_leaves_are_well_formed_and_the_last_answer_decides_what_the_handler_has() {
        let steps = prop::collection::vec((0..3u8, 0..5u8, any::<bool>(), any::<bool>()), 0..60);
        random::check(2000, (steps, prop::option::of(0..4usize)), |(steps, above)| {
            let policy = above.map_or(BufferPolicy::Unbounded, |above| BufferPolicy::Coalesce { above });
            let (mut buffer, mut members, mut handler) = (Buffer::new(policy), Members::default(), Handler::default());
            let (mut cache, mut answers) = (BTreeMap::<u8, Cached<Erased>>::new(), BTreeMap::new());
            let last = steps.len();
            for (version, (name, step, answer, receives)) in steps.into_iter().enumerate() {
                let new = object(&format!("o{name}"), version);
                let events = match (cache.get(&name).cloned(), step) {
                    (Some(_), 0) => vec![Event::Deleted(Deleted::Observed(new.clone()))],
                    (Some(old), 1) => vec![
                        Event::Deleted(Deleted::Missed { last_known: old }),
                        Event::Added { object: new.clone(), origin: Origin::Live },
                    ],
                    (Some(old), 2) => vec![Event::Resynced(old)],
                    (Some(old), _) => vec![Event::Updated { old, new: new.clone() }],
                    (None, _) => vec![Event::Added { object: new.clone(), origin: Origin::Live }],
                };
                match events.last() {
                    Some(Event::Deleted(_)) => drop(cache.remove(&name)),
                    Some(Event::Added { .. } | Event::Updated { .. }) => drop(cache.insert(name, new)),
                    Some(Event::Resynced(_) | Event::Synced) | None => {}
                }
                drop(buffer.push(events.into_iter().collect::<EventBatch>()));
                while (receives || version + 1 == last)
                    && let Poll::Ready(Some(chunk)) = buffer.poll_chunk().1
                {
                    while let Some(event) = chunk.get(buffer.claims().claim()) {
                        let passes = |object: &Cached<Erased>| {
                            answers.insert(object.key().clone(), answer);
                            answer
                        };
                        if let Some(event) = members.receive(event, passes) {
                            handler.receive(&event);
                        }
                    }
                }
            }

            let expected = cache.into_values().filter(|object| answers[object.key()]);
            let expected: Vec<_> = expected.map(|object| object.key().clone()).collect();
            assert_eq!(handler.objects.into_keys().collect::<Vec<_>>(), expected);
            assert_eq!(members.keys, expected.into_iter().collect::<HashSet<_>>());
        });
    }

    #[test]
    fn a_member_costs_less_than_sixty_bytes() {
        // The table of the set is nearly full with 14,000 keys, and half empty with 15,000.
        for count in [14_000, 15_000] {
            let objects: Vec<_> = (0..count).map(|number| Event::Resynced(object(&number.to_string(), 1))).collect();
            let mut members = Members::default();
            let taken = allocation_counter::measure(|| {
                objects.iter().for_each(|event| drop(members.receive(event, |_| true)));
            });
            let bytes = taken.bytes_current / count;
            assert!((20..60).contains(&bytes), "{count} keys: {bytes} bytes for each");
        }
    }

    #[test]
    fn the_memory_of_members_that_are_gone_is_released() {
        let mut members = Members::default();
        let event = |number: usize| Event::Resynced(object(&number.to_string(), 1));
        (0..10_000).for_each(|number| drop(members.receive(&event(number), |_| true)));
        assert!(members.keys.capacity() >= 10_000);

        (1..10_000).for_each(|number| drop(members.receive(&event(number), |_| false)));

        assert!(members.keys.capacity() <= SMALL, "{}", members.keys.capacity());
        assert_eq!(members.keys.len(), 1);
    }
}

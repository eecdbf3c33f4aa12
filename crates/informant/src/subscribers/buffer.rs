//! The events that wait for one handler or stream.
//!
//! - **In:** batches of events, event with the buffers of other listeners.
//! - **Out:** chunks of events, which are claimed one by one.
//! - **Knows nothing of:** locks, tasks, handlers.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
};

use super::coalesce::Coalesced;
use smallvec::SmallVec;

use crate::{Event, object::Erased};

/// What a buffer does when many events wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BufferPolicy {
    /// Keeps all events.
    Unbounded,
    /// When more than `above` events wait, coalesces the events of each object.
    Coalesce { above: usize },
}

/// Events that a buffer no longer needs. The caller drops them after it has released its locks: destructors of objects are users' code.
pub(crate) type RemovedEvents = SmallVec<[EventBatch; 2]>;

/// Events that were distributed together. All listeners share them.
pub(crate) type EventBatch = Arc<[Event<Erased>]>;

/// Counts the claimed events of the current chunk: the worker or stream claims one event at a time, and the buffer can take back the
/// rest.
#[derive(Default)]
pub(super) struct Claims {
    next: AtomicUsize,
}

/// The waiting events of one listener.
///
/// Oldest first: the rest of the current chunk, the coalesced events, the batches in the order of their arrival.
pub(super) struct Buffer {
    policy: BufferPolicy,
    claims: Arc<Claims>,
    current: Option<CurrentChunk>,
    coalesced: Coalesced,
    batches: VecDeque<EventBatch>,
    /// INV-L2: the number of events in `batches`.
    in_batches: usize,
    /// How many events were ever pushed. The position of an event is the number of events before it.
    pushed: u64,
    /// The position after the last resync.
    resyncs_end: u64,
    is_closed: bool,
}

/// The chunk that is being claimed.
struct CurrentChunk {
    events: EventBatch,
    /// The position of the first event.
    first: u64,
    /// Whether the events were coalesced. Such a chunk is small, and is not taken back.
    ///
    /// INV-L3: if this is false, no coalesced events wait, because coalescing first takes back the unclaimed events of such a chunk, which
    /// are older.
    is_coalesced: bool,
}

/// The size of a chunk of coalesced events. It is small because events of a chunk cannot be coalesced any more.
const COALESCED_CHUNK: usize = 64;

/// A count of claims that is greater than the length of any chunk, so that further claims fail. `claim` can add to it without overflow.
const ALL_CLAIMED: usize = usize::MAX / 2;

impl Claims {
    /// Claims the next event of the chunk and returns its index, which is past the end if there is no more.
    pub(super) fn claim(&self) -> usize {
        self.next.fetch_add(1, Ordering::AcqRel)
    }

    /// Begins a new chunk, of which no event is claimed.
    fn reset(&self) {
        self.next.store(0, Ordering::Release);
    }

    fn claimed(&self) -> usize {
        self.next.load(Ordering::Acquire)
    }

    /// Makes all later claims fail; returns how many events were claimed. Who calls it has all other events of the chunk.
    pub(super) fn revoke(&self) -> usize {
        self.next.swap(ALL_CLAIMED, Ordering::AcqRel)
    }
}

impl Buffer {
    pub(super) fn new(policy: BufferPolicy) -> Self {
        Self {
            policy,
            claims: Arc::default(),
            current: None,
            coalesced: Coalesced::default(),
            batches: VecDeque::new(),
            in_batches: 0,
            pushed: 0,
            resyncs_end: 0,
            is_closed: false,
        }
    }

    /// The claims of this buffer's chunks, for the worker or stream that takes them.
    pub(super) fn claims(&self) -> &Arc<Claims> {
        &self.claims
    }

    /// Appends a batch. If too many events wait, coalesces them. Returns events that do not wait any more.
    pub(super) fn push(&mut self, batch: EventBatch) -> RemovedEvents {
        let mut removed = RemovedEvents::default();
        if self.is_closed {
            removed.push(batch);
            return removed;
        }
        self.in_batches += batch.len();
        self.pushed += batch.len() as u64;
        if !batch.is_empty() {
            self.batches.push_back(batch);
        }
        match self.policy {
            BufferPolicy::Coalesce { above } if self.len() > above => self.coalesce(&mut removed),
            BufferPolicy::Coalesce { .. } | BufferPolicy::Unbounded => {}
        }
        removed
    }

    fn coalesce(&mut self, removed: &mut RemovedEvents) {
        debug_assert_eq!(self.in_batches, self.batches.iter().map(|batch| batch.len()).sum::<usize>(), "INV-L2");
        let taken_back = self.current.take_if(|chunk| !chunk.is_coalesced).map(|chunk| chunk.events);
        let rest = taken_back.as_ref().and_then(|events| events.get(self.claims.revoke()..)).unwrap_or_default();
        let first = self.first_in_batches() - rest.len() as u64;
        let waiting = rest.iter().chain(self.batches.iter().flat_map(|batch| batch.iter()));
        let mut replaced = Vec::new();
        for (position, event) in (first..).zip(waiting) {
            self.coalesced.push(position, event.clone(), &mut replaced);
        }
        removed.extend(taken_back);
        removed.extend(self.batches.drain(..));
        removed.push(replaced.into());
        self.in_batches = 0;
    }

    /// As [`push`](Self::push), for a batch with resync events.
    pub(super) fn push_resync(&mut self, batch: EventBatch) -> RemovedEvents {
        self.resyncs_end = self.pushed + batch.len() as u64;
        self.push(batch)
    }

    /// Takes the next chunk; `None` if the buffer is closed. Returns the previous chunk, too: the caller must have delivered every
    /// event that it claimed from that chunk, and claimed all events that `coalesce` did not take back.
    pub(super) fn poll_chunk(&mut self) -> (Option<EventBatch>, Poll<Option<EventBatch>>) {
        let finished = self.current.take().map(|chunk| chunk.events);
        (finished, self.poll_next_chunk())
    }

    fn poll_next_chunk(&mut self) -> Poll<Option<EventBatch>> {
        if self.is_closed {
            return Poll::Ready(None);
        }
        let first = self.first_in_batches();
        let chunk = if let Some(first) = self.coalesced.first_position() {
            let events = std::iter::from_fn(|| self.coalesced.pop()).take(COALESCED_CHUNK).collect();
            CurrentChunk { events, first, is_coalesced: true }
        } else if let Some(batch) = self.batches.pop_front() {
            debug_assert_eq!(self.coalesced.len(), 0, "INV-L3");
            self.in_batches -= batch.len();
            if self.batches.is_empty() && self.batches.capacity() > COALESCED_CHUNK {
                // Frees the memory: many batches may have waited.
                self.batches = VecDeque::new();
            }
            CurrentChunk { events: batch, first, is_coalesced: false }
        } else {
            return Poll::Pending;
        };
        let events = chunk.events.clone();
        self.current = Some(chunk);
        self.claims.reset();
        Poll::Ready(Some(events))
    }

    /// Takes all waiting events out. Afterwards the buffer accepts and returns none.
    pub(super) fn close(&mut self) -> RemovedEvents {
        self.is_closed = true;
        self.claims.revoke();
        self.in_batches = 0;
        let mut removed = RemovedEvents::default();
        removed.extend(self.current.take().map(|chunk| chunk.events));
        removed.push(self.coalesced.clear().into_iter().collect());
        removed.extend(std::mem::take(&mut self.batches));
        removed
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// How many unclaimed events wait.
    pub(super) fn len(&self) -> usize {
        let current = self.current.as_ref().map_or(0, |chunk| chunk.events.len());
        current.saturating_sub(self.claims.claimed()) + self.coalesced.len() + self.in_batches
    }

    /// The position of the oldest unclaimed event. If there is none, the position of the next event that will be pushed.
    ///
    /// An event that was coalesced into an older one has the position of the older event, and all events of a chunk of coalesced events have that of the
    /// first one.
    pub(super) fn first_unclaimed(&self) -> u64 {
        let claimed = self.claims.claimed();
        let chunk = self.current.as_ref().filter(|chunk| claimed < chunk.events.len());
        let in_chunk = chunk.map(|chunk| chunk.first + if chunk.is_coalesced { 0 } else { claimed as u64 });
        in_chunk.or_else(|| self.coalesced.first_position()).unwrap_or_else(|| self.first_in_batches())
    }

    /// How many events were ever pushed.
    pub(super) fn pushed(&self) -> u64 {
        self.pushed
    }

    /// The position of the first event in `batches`.
    fn first_in_batches(&self) -> u64 {
        self.pushed - self.in_batches as u64
    }

    /// Whether unclaimed events wait that were pushed before the last resync ended.
    pub(super) fn is_behind_resync(&self) -> bool {
        self.first_unclaimed() < self.resyncs_end
    }

    /// How many events were coalesced into others so far.
    pub(super) fn coalesced(&self) -> u64 {
        self.coalesced.removed()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        Cached, Deleted, Event, Key, Origin,
        object::{Erased, Identity},
        random,
    };

    fn object(name: &str) -> Cached<Erased> {
        Cached::new(Identity::of_key(Key::cluster_scoped(name)), ()).erase()
    }

    fn batch(events: impl IntoIterator<Item = Event<Erased>>) -> EventBatch {
        events.into_iter().collect()
    }

    fn add(name: u32) -> Event<Erased> {
        Event::Added { object: object(&name.to_string()), origin: Origin::Live }
    }

    /// Adds of these objects.
    fn adds(names: std::ops::Range<u32>) -> EventBatch {
        batch(names.map(add))
    }

    /// Updates of one object, all alike.
    fn updates(count: usize) -> EventBatch {
        let object = object("x");
        let update = || Event::Updated { old: object.clone(), new: object.clone() };
        batch(std::iter::repeat_with(update).take(count))
    }

    fn next_chunk(buffer: &mut Buffer) -> Option<EventBatch> {
        match buffer.poll_chunk().1 {
            Poll::Ready(chunk) => chunk,
            Poll::Pending => None,
        }
    }

    fn next(buffer: &mut Buffer) -> Option<usize> {
        next_chunk(buffer).map(|chunk| chunk.len())
    }

    /// Decision 10
    #[test]
    fn events_are_coalesced_when_more_than_the_bound_wait() {
        let mut buffer = Buffer::new(BufferPolicy::Coalesce { above: 5 });
        drop(buffer.push(updates(5)));
        assert_eq!((buffer.len(), buffer.coalesced()), (5, 0));

        drop(buffer.push(updates(1)));

        assert_eq!((buffer.len(), buffer.coalesced()), (1, 5));
    }

    /// Decision 10: the event that is being delivered is never coalesced; all later ones are.
    #[test]
    fn claimed_events_are_not_coalesced_and_the_rest_of_their_batch_cannot_be_claimed() {
        let mut buffer = Buffer::new(BufferPolicy::Coalesce { above: 10 });
        drop(buffer.push(updates(8)));
        assert_eq!(next(&mut buffer), Some(8));
        assert_eq!((buffer.claims().claim(), buffer.claims().claim(), buffer.claims().claim()), (0, 1, 2));
        assert_eq!(buffer.len(), 5);

        drop(buffer.push(updates(6)));

        assert!(buffer.claims().claim() >= 8, "it was taken back");
        assert_eq!((buffer.len(), buffer.coalesced()), (1, 10));
        assert_eq!(next(&mut buffer), Some(1));
    }

    /// Decision 10: a handler that is stuck at a coalesced event holds only a small chunk of them.
    #[test]
    fn coalesced_events_are_taken_in_small_chunks_oldest_first() {
        let mut buffer = Buffer::new(BufferPolicy::Coalesce { above: 100 });
        drop(buffer.push(adds(0..150)));
        assert_eq!(next(&mut buffer), Some(COALESCED_CHUNK));
        drop(buffer.push(adds(150..160)));
        drop(buffer.push(updates(3)));

        assert_eq!(buffer.claims().claim(), 0, "that chunk is not taken back");
        let chunks: Vec<_> = std::iter::from_fn(|| next(&mut buffer)).collect();

        assert_eq!(chunks.iter().sum::<usize>(), 160 - COALESCED_CHUNK + 1, "of the updates one is left");
        assert!(chunks.iter().all(|chunk| *chunk <= COALESCED_CHUNK));
    }

    fn resync(name: u32) -> Event<Erased> {
        Event::Resynced(object(&name.to_string()))
    }

    #[test]
    fn a_resync_waits_until_its_last_event_is_claimed() {
        let mut buffer = Buffer::new(BufferPolicy::Unbounded);
        drop(buffer.push(adds(0..3)));
        assert!(!buffer.is_behind_resync());

        drop(buffer.push_resync(batch([resync(0), resync(1)])));
        drop(buffer.push(updates(4)));

        for (chunk, resyncs) in [(3, [true; 3].as_slice()), (2, &[true, false]), (4, &[false; 4])] {
            assert_eq!(next(&mut buffer), Some(chunk));
            for waits in resyncs {
                buffer.claims().claim();
                assert_eq!(buffer.is_behind_resync(), *waits);
            }
        }
    }

    #[test]
    fn a_resync_that_was_coalesced_into_changes_waits_until_they_are_claimed() {
        let mut buffer = Buffer::new(BufferPolicy::Coalesce { above: 0 });
        drop(buffer.push_resync(batch([resync(0), resync(1)])));

        let (first, second) = (object("0"), object("1"));
        drop(buffer.push(batch([Event::Updated { old: first.clone(), new: first }])));
        drop(buffer.push(batch([Event::Deleted(Deleted::Observed(second))])));
        assert_eq!((next(&mut buffer), buffer.is_behind_resync()), (Some(2), true));
        buffer.claims().claim();
        assert!(buffer.is_behind_resync());
        buffer.claims().claim();

        assert!(!buffer.is_behind_resync());
    }

    /// One step: adds or updates of so many objects, a resync of them, or so many claims.
    #[derive(Debug, Clone)]
    enum BufferStep {
        Adds(u32),
        Updates(usize),
        Replay { changes: u32, resyncs: u32 },
        Claim(usize),
    }

    /// Claims the next event, of the next chunk if there is no more of this one.
    fn claim(buffer: &mut Buffer, chunk: &mut Option<EventBatch>) -> Option<Event<Erased>> {
        loop {
            if let Some(event) = chunk.as_ref().and_then(|chunk| chunk.get(buffer.claims().claim())) {
                return Some(event.clone());
            }
            *chunk = Some(next_chunk(buffer)?);
        }
    }

    #[test]
    fn a_resync_waits_at_least_until_its_last_event_is_claimed() {
        let step = prop_oneof![
            (0..4u32).prop_map(BufferStep::Adds),
            (0..4usize).prop_map(BufferStep::Updates),
            (0..3u32, 1..4u32).prop_map(|(changes, resyncs)| BufferStep::Replay { changes, resyncs }),
            (0..8usize).prop_map(BufferStep::Claim),
        ];
        let policies =
            prop_oneof![Just(BufferPolicy::Unbounded), (0..12usize).prop_map(|above| BufferPolicy::Coalesce { above })];
        random::check(2000, (policies, prop::collection::vec(step, 0..30)), |(policy, steps)| {
            let (mut buffer, mut chunk) = (Buffer::new(policy), None);
            for step in steps {
                match step {
                    BufferStep::Adds(count) => drop(buffer.push(adds(0..count))),
                    BufferStep::Updates(count) => drop(buffer.push(updates(count))),
                    BufferStep::Replay { changes, resyncs } => {
                        drop(buffer.push_resync(batch((0..changes).map(add).chain((0..resyncs).map(resync)))));
                    }
                    BufferStep::Claim(count) => {
                        for _ in 0..count {
                            claim(&mut buffer, &mut chunk);
                        }
                    }
                }
            }

            let waits = buffer.is_behind_resync();
            let rest: Vec<_> = std::iter::from_fn(|| claim(&mut buffer, &mut chunk)).collect();
            let has_resync = rest.iter().any(crate::event::Event::is_resync);

            assert!(waits || !has_resync);
            assert!(waits == has_resync || policy != BufferPolicy::Unbounded, "exact, if no events are coalesced");
            assert!(!buffer.is_behind_resync());
        });
    }

    /// The position up to which everything was claimed never goes back, is never ahead of a waiting event, and is exact when events are
    /// not coalesced.
    #[test]
    fn the_first_unclaimed_position_counts_claimed_and_coalesced_events() {
        let step = prop_oneof![
            (0..4u32).prop_map(BufferStep::Adds),
            (0..4usize).prop_map(BufferStep::Updates),
            (0..8usize).prop_map(BufferStep::Claim),
        ];
        let policies =
            prop_oneof![Just(BufferPolicy::Unbounded), (0..12usize).prop_map(|above| BufferPolicy::Coalesce { above })];
        random::check(2000, (policies, prop::collection::vec(step, 0..30)), |(policy, steps)| {
            let (mut buffer, mut chunk) = (Buffer::new(policy), None);
            let (mut claimed, mut before) = (0, 0);
            for step in steps {
                match step {
                    BufferStep::Adds(count) => drop(buffer.push(adds(0..count))),
                    BufferStep::Updates(count) => drop(buffer.push(updates(count))),
                    BufferStep::Replay { .. } => unreachable!("no step of this test"),
                    BufferStep::Claim(count) => {
                        let events = (0..count).filter_map(|_| claim(&mut buffer, &mut chunk));
                        claimed += events.count() as u64;
                    }
                }
                let first = buffer.first_unclaimed();
                assert!(first >= before, "it went back from {before} to {first}");
                before = first;
                let waiting = buffer.len() as u64;
                assert!(first + waiting <= buffer.pushed(), "each waiting event has a position of its own from there");
                assert_eq!(waiting == 0, first == buffer.pushed());
                if policy == BufferPolicy::Unbounded {
                    assert_eq!(first, claimed);
                }
            }
        });
    }

    /// PL-05
    #[test]
    fn a_closed_buffer_gives_and_takes_nothing() {
        let mut buffer = Buffer::new(BufferPolicy::Unbounded);
        drop(buffer.push(adds(0..3)));
        assert_eq!(next(&mut buffer), Some(3));
        buffer.claims().claim();

        drop(buffer.close());
        drop(buffer.push(adds(3..5)));

        assert!(buffer.claims().claim() >= 3);
        assert_eq!((buffer.len(), next(&mut buffer)), (0, None));
    }
}

//! The events that wait for one handler or stream.
//!
//! - **In:** batches of events, event with the buffers of other listeners.
//! - **Out:** chunks of events, which are claimed one by one.
//! - **Knows nothing of:** locks, tasks, handlers.

use std::{
    collections::VecDeque,
    ops::Deref,
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
#[derive(Clone)]
pub(crate) struct EventBatch {
    events: Arc<[Event<Erased>]>,
    /// The index after the last resync event; 0 if there is none.
    resyncs_end: usize,
}

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
    /// INV-L5: the number of `batches` that contain resync events.
    batches_with_resyncs: usize,
    /// How many events were ever pushed. The position of an event is the number of events before it.
    pushed: u64,
    is_closed: bool,
}

/// The chunk that is being claimed.
struct CurrentChunk {
    events: EventBatch,
    /// The positions of the events if they were coalesced. Such a chunk is small, and is not taken back.
    ///
    /// INV-L3: if this is `None`, no coalesced events wait, because coalescing first takes back the unclaimed events of such a chunk, which
    /// are older.
    coalesced_positions: Option<Vec<u64>>,
}

/// The size of a chunk of coalesced events. It is small because events of a chunk cannot be coalesced any more.
const COALESCED_CHUNK: usize = 64;

/// A count of claims that is greater than the length of any chunk, so that further claims fail. `claim` can add to it without overflow.
const ALL_CLAIMED: usize = usize::MAX / 2;

impl EventBatch {
    pub(super) fn new(events: Arc<[Event<Erased>]>) -> Self {
        let last_resync = events.iter().rposition(Event::is_resync);
        Self { events, resyncs_end: last_resync.map_or(0, |last| last + 1) }
    }

    pub(super) fn has_resyncs(&self) -> bool {
        self.resyncs_end > 0
    }
}

impl FromIterator<Event<Erased>> for EventBatch {
    fn from_iter<I: IntoIterator<Item = Event<Erased>>>(events: I) -> Self {
        Self::new(events.into_iter().collect())
    }
}

impl Deref for EventBatch {
    type Target = [Event<Erased>];

    fn deref(&self) -> &[Event<Erased>] {
        &self.events
    }
}

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

    /// Makes all later claims fail; returns how many events were claimed.
    fn revoke(&self) -> usize {
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
            batches_with_resyncs: 0,
            pushed: 0,
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
        self.batches_with_resyncs += usize::from(batch.has_resyncs());
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
        let with_resyncs = self.batches.iter().filter(|batch| batch.has_resyncs());
        debug_assert_eq!(self.batches_with_resyncs, with_resyncs.count(), "INV-L5");
        let taken_back = self.current.take_if(|chunk| chunk.coalesced_positions.is_none()).map(|chunk| chunk.events);
        let rest = taken_back.as_ref().and_then(|events| events.get(self.claims.revoke()..)).unwrap_or_default();
        let first = self.first_in_batches() - rest.len() as u64;
        let waiting = rest.iter().chain(self.batches.iter().flat_map(|batch| batch.iter()));
        let mut replaced = Vec::new();
        for (position, event) in (first..).zip(waiting) {
            self.coalesced.push(position, event.clone(), &mut replaced);
        }
        removed.extend(taken_back);
        removed.extend(self.batches.drain(..));
        removed.push(EventBatch::new(replaced.into()));
        self.in_batches = 0;
        self.batches_with_resyncs = 0;
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
        let chunk = if self.coalesced.len() > 0 {
            let oldest = std::iter::from_fn(|| self.coalesced.pop()).take(COALESCED_CHUNK);
            let (positions, events): (Vec<_>, Vec<_>) = oldest.unzip();
            CurrentChunk { events: EventBatch::new(events.into()), coalesced_positions: Some(positions) }
        } else if let Some(batch) = self.batches.pop_front() {
            debug_assert_eq!(self.coalesced.len(), 0, "INV-L3");
            self.in_batches -= batch.len();
            self.batches_with_resyncs -= usize::from(batch.has_resyncs());
            if self.batches.is_empty() && self.batches.capacity() > COALESCED_CHUNK {
                // Frees the memory: many batches may have waited.
                self.batches = VecDeque::new();
            }
            CurrentChunk { events: batch, coalesced_positions: None }
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
        self.batches_with_resyncs = 0;
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
    /// An event that was coalesced into an older one has the position of the older event.
    pub(super) fn first_unclaimed(&self) -> u64 {
        let claimed = self.claims.claimed();
        let in_chunk = self.current.as_ref().and_then(|chunk| match &chunk.coalesced_positions {
            Some(positions) => positions.get(claimed).copied(),
            None => {
                let rest = chunk.events.len().saturating_sub(claimed);
                (rest > 0).then(|| self.first_in_batches() - rest as u64)
            }
        });
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

    /// Whether an unclaimed resync event waits.
    pub(super) fn has_resyncs(&self) -> bool {
        let in_chunk = self.current.as_ref().is_some_and(|chunk| self.claims.claimed() < chunk.events.resyncs_end);
        in_chunk || self.batches_with_resyncs > 0 || self.coalesced.has_resyncs()
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
        assert!(!buffer.has_resyncs());

        drop(buffer.push(batch([resync(0), resync(1)])));
        drop(buffer.push(updates(4)));

        for (chunk, resyncs) in [(3, [true; 3].as_slice()), (2, &[true, false]), (4, &[false; 4])] {
            assert_eq!(next(&mut buffer), Some(chunk));
            for has_resyncs in resyncs {
                buffer.claims().claim();
                assert_eq!(buffer.has_resyncs(), *has_resyncs);
            }
        }
    }

    /// A resync that was coalesced into a change does not wait any more.
    #[test]
    fn a_resync_that_was_coalesced_into_changes_does_not_wait() {
        let mut buffer = Buffer::new(BufferPolicy::Coalesce { above: 0 });
        drop(buffer.push(batch([resync(0), resync(1)])));
        assert!(buffer.has_resyncs());

        let (first, second) = (object("0"), object("1"));
        drop(buffer.push(batch([Event::Updated { old: first.clone(), new: first }])));
        assert!(buffer.has_resyncs());
        drop(buffer.push(batch([Event::Deleted(Deleted::Observed(second))])));

        assert!(!buffer.has_resyncs());
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
    fn a_resync_waits_exactly_if_one_is_still_to_be_claimed() {
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
                        drop(buffer.push(batch((0..changes).map(add).chain((0..resyncs).map(resync)))));
                    }
                    BufferStep::Claim(count) => {
                        for _ in 0..count {
                            claim(&mut buffer, &mut chunk);
                        }
                    }
                }
            }

            let waits = buffer.has_resyncs();
            let rest: Vec<_> = std::iter::from_fn(|| claim(&mut buffer, &mut chunk)).collect();

            assert_eq!(waits, rest.iter().any(crate::event::Event::is_resync));
            assert!(!buffer.has_resyncs());
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

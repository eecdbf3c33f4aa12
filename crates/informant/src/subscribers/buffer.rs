//! The events that wait for one handler or stream.
//!
//! - **In:** batches of events, shared with the buffers of other listeners.
//! - **Out:** chunks of events, which are claimed one by one.
//! - **Knows nothing of:** locks, tasks, handlers.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::{Notice, coalesce::Coalesced};

/// What a buffer does when many events wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Keeps all of them.
    Unbounded,
    /// When more than `above` events wait, coalesces those of each object.
    Coalesce { above: usize },
}

/// Events that were distributed together. All listeners share them.
pub(crate) type Batch = Arc<[Notice]>;

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
    policy: Policy,
    current: Current,
    /// The resyncs of the current chunk stand before this index; 0 if it has none.
    resyncs_until: usize,
    coalesced: Coalesced,
    batches: VecDeque<Batch>,
    /// INV-L2: the number of events in `batches`.
    in_batches: usize,
    /// INV-L6: the number of `batches` that have resyncs.
    replays: usize,
    /// How many events were ever pushed. The position of an event is the number of events before it.
    pushed: u64,
    is_closed: bool,
}

/// The chunk that is being claimed.
///
/// INV-L4: there is none when the next chunk is requested.
enum Current {
    None,
    /// INV-L3: no coalesced events wait while this is the current chunk: before events are coalesced, its rest, which is older, is
    /// taken back.
    Batch(Batch),
    /// A small chunk of coalesced events; it is not taken back.
    Coalesced {
        positions: Vec<u64>,
    },
}

/// Events that a buffer has removed. Dropping users' objects runs users' code, so the caller drops this without a lock.
pub(super) struct DeferredDrop {
    _current: Current,
    _coalesced: Coalesced,
    batches: VecDeque<Batch>,
    notices: Vec<Notice>,
}

/// The answer to a request for events.
pub(super) enum Next {
    Chunk(Batch),
    Nothing,
    Closed,
}

/// The size of a chunk of coalesced events. It is small because events of a chunk cannot be coalesced any more.
const COALESCED_CHUNK: usize = 64;

/// Greater than the length of any chunk; `claim` can add to it without overflow.
const ALL: usize = usize::MAX / 2;

impl Claims {
    /// Claims the next event of the chunk and returns its index, which is past the end if there is no more.
    pub(super) fn claim(&self) -> usize {
        self.next.fetch_add(1, Ordering::AcqRel)
    }

    fn begin(&self) {
        self.next.store(0, Ordering::Release);
    }

    fn claimed(&self) -> usize {
        self.next.load(Ordering::Acquire)
    }

    /// Makes all later claims fail; returns how many events were claimed.
    fn revoke(&self) -> usize {
        self.next.swap(ALL, Ordering::AcqRel)
    }
}

impl Buffer {
    pub(super) fn new(policy: Policy) -> Self {
        Self {
            policy,
            current: Current::None,
            resyncs_until: 0,
            coalesced: Coalesced::default(),
            batches: VecDeque::new(),
            in_batches: 0,
            replays: 0,
            pushed: 0,
            is_closed: false,
        }
    }

    /// Appends a batch that has resyncs; as [`push`](Self::push), which is for batches without.
    pub(super) fn push_replay(&mut self, batch: Batch, claims: &Claims) -> DeferredDrop {
        debug_assert!(has_resyncs(&batch), "INV-L6");
        self.replays += usize::from(!self.is_closed);
        self.push(batch, claims)
    }

    /// Appends a batch. If too many events wait, coalesces them.
    pub(super) fn push(&mut self, batch: Batch, claims: &Claims) -> DeferredDrop {
        let mut removed = DeferredDrop::default();
        if self.is_closed {
            removed.batches.push_back(batch);
            return removed;
        }
        self.in_batches += batch.len();
        self.pushed += batch.len() as u64;
        if !batch.is_empty() {
            self.batches.push_back(batch);
        }
        match self.policy {
            Policy::Coalesce { above } if self.len(claims) > above => self.coalesce(claims, &mut removed),
            Policy::Coalesce { .. } | Policy::Unbounded => {}
        }
        removed
    }

    fn coalesce(&mut self, claims: &Claims, removed: &mut DeferredDrop) {
        debug_assert_eq!(self.in_batches, self.batches.iter().map(|batch| batch.len()).sum::<usize>(), "INV-L2");
        debug_assert_eq!(self.replays, self.batches.iter().filter(|batch| has_resyncs(batch)).count(), "INV-L6");
        let taken_back = match &self.current {
            Current::Batch(batch) => Some((Arc::clone(batch), claims.revoke().min(batch.len()))),
            Current::None | Current::Coalesced { .. } => None,
        };
        let rest = taken_back.as_ref().map_or(&[][..], |(batch, claimed)| &batch[*claimed..]);
        let mut position = self.first_in_batches() - rest.len() as u64;
        let mut coalesce = |notices: &[Notice]| {
            for notice in notices {
                self.coalesced.push(position, notice.clone(), &mut removed.notices);
                position += 1;
            }
        };
        coalesce(rest);
        self.batches.iter().for_each(|batch| coalesce(batch));
        if let Some((batch, _)) = taken_back {
            self.current = Current::None;
            self.resyncs_until = 0;
            removed.batches.push_back(batch);
        }
        removed.batches.append(&mut self.batches);
        self.in_batches = 0;
        self.replays = 0;
    }

    /// Drops the current chunk: all of it was claimed, or its rest was taken back.
    pub(super) fn finish(&mut self) -> DeferredDrop {
        self.resyncs_until = 0;
        DeferredDrop { _current: std::mem::replace(&mut self.current, Current::None), ..DeferredDrop::default() }
    }

    /// Takes the next chunk. The caller has [finished](Self::finish) the one before.
    pub(super) fn next(&mut self, claims: &Claims) -> Next {
        debug_assert!(matches!(self.current, Current::None), "INV-L4");
        if self.is_closed {
            return Next::Closed;
        }
        let chunk = if self.coalesced.len() > 0 {
            let oldest = std::iter::from_fn(|| self.coalesced.pop()).take(COALESCED_CHUNK);
            let (positions, taken): (Vec<_>, Vec<_>) = oldest.unzip();
            self.current = Current::Coalesced { positions };
            self.resyncs_until = end_of_resyncs(&taken);
            taken.into()
        } else if let Some(batch) = self.batches.pop_front() {
            debug_assert_eq!(self.coalesced.len(), 0, "INV-L3");
            self.in_batches -= batch.len();
            if self.replays > 0 {
                self.resyncs_until = end_of_resyncs(&batch);
                self.replays -= usize::from(self.resyncs_until > 0);
            }
            if self.batches.is_empty() && self.batches.capacity() > COALESCED_CHUNK {
                // Frees the memory: many batches may have waited.
                self.batches = VecDeque::new();
            }
            self.current = Current::Batch(Arc::clone(&batch));
            batch
        } else {
            return Next::Nothing;
        };
        claims.begin();
        Next::Chunk(chunk)
    }

    /// Drops all waiting events. Afterwards the buffer accepts and returns none.
    pub(super) fn close(&mut self, claims: &Claims) -> DeferredDrop {
        self.is_closed = true;
        claims.revoke();
        self.in_batches = 0;
        self.replays = 0;
        self.resyncs_until = 0;
        DeferredDrop {
            _current: std::mem::replace(&mut self.current, Current::None),
            _coalesced: self.coalesced.clear(),
            batches: std::mem::take(&mut self.batches),
            notices: Vec::new(),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// How many events wait, without those that were claimed.
    pub(super) fn len(&self, claims: &Claims) -> usize {
        let current = match &self.current {
            Current::None => 0,
            Current::Batch(batch) => batch.len(),
            Current::Coalesced { positions } => positions.len(),
        };
        current.saturating_sub(claims.claimed()) + self.coalesced.len() + self.in_batches
    }

    /// The position of the oldest event that was not claimed; that of the next event to be pushed, if there is none.
    ///
    /// An event that was coalesced into an older one counts as that one.
    pub(super) fn first_unclaimed(&self, claims: &Claims) -> u64 {
        let claimed = claims.claimed();
        let in_chunk = match &self.current {
            Current::None => None,
            Current::Batch(batch) => {
                let rest = batch.len().saturating_sub(claimed);
                (rest > 0).then(|| self.first_in_batches() - rest as u64)
            }
            Current::Coalesced { positions } => positions.get(claimed).copied(),
        };
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

    /// Whether a resync waits, without those that were claimed.
    pub(super) fn has_resyncs(&self, claims: &Claims) -> bool {
        self.replays > 0 || self.coalesced.has_resyncs() || claims.claimed() < self.resyncs_until
    }

    /// How many events were combined with others so far.
    pub(super) fn saved(&self) -> u64 {
        self.coalesced.saved()
    }
}

fn has_resyncs(notices: &[Notice]) -> bool {
    notices.iter().any(Notice::is_resync)
}

/// The index after the last resync; 0 if there is none.
fn end_of_resyncs(notices: &[Notice]) -> usize {
    notices.iter().rposition(Notice::is_resync).map_or(0, |last| last + 1)
}

impl DeferredDrop {
    /// Whether a push has removed no event.
    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty() && self.notices.is_empty()
    }
}

impl Default for DeferredDrop {
    fn default() -> Self {
        Self {
            _current: Current::None,
            _coalesced: Coalesced::default(),
            batches: VecDeque::new(),
            notices: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        Cached, Deleted, Key, Origin,
        object::{Erased, Identity},
        random,
    };

    /// Adds of these objects.
    fn adds(names: std::ops::Range<u32>) -> Batch {
        let object = |name: u32| Cached::new(Identity::of_key(Key::cluster_scoped(&name.to_string())), ()).erase();
        names.map(|name| Notice::Added { object: object(name), origin: Origin::Live }).collect()
    }

    /// Updates of one object, all alike.
    fn updates(count: usize) -> Batch {
        let object: Cached<Erased> = Cached::new(Identity::of_key(Key::cluster_scoped("x")), ()).erase();
        let update = || Notice::Updated { old: object.clone(), new: object.clone() };
        std::iter::repeat_with(update).take(count).collect()
    }

    fn next(buffer: &mut Buffer, claims: &Claims) -> Option<usize> {
        drop(buffer.finish());
        match buffer.next(claims) {
            Next::Chunk(chunk) => Some(chunk.len()),
            Next::Nothing | Next::Closed => None,
        }
    }

    /// Decision 10
    #[test]
    fn events_are_coalesced_when_more_than_the_bound_wait() {
        let (claims, mut buffer) = (Claims::default(), Buffer::new(Policy::Coalesce { above: 5 }));
        buffer.push(updates(5), &claims);
        assert_eq!((buffer.len(&claims), buffer.saved()), (5, 0));

        buffer.push(updates(1), &claims);

        assert_eq!((buffer.len(&claims), buffer.saved()), (1, 5));
    }

    /// Decision 10: the event that is being delivered is never coalesced; all later ones are.
    #[test]
    fn claimed_events_are_not_coalesced_and_the_rest_of_their_batch_cannot_be_claimed() {
        let (claims, mut buffer) = (Claims::default(), Buffer::new(Policy::Coalesce { above: 10 }));
        buffer.push(updates(8), &claims);
        assert_eq!(next(&mut buffer, &claims), Some(8));
        assert_eq!((claims.claim(), claims.claim(), claims.claim()), (0, 1, 2));
        assert_eq!(buffer.len(&claims), 5);

        buffer.push(updates(6), &claims);

        assert!(claims.claim() >= 8, "it was taken back");
        assert_eq!((buffer.len(&claims), buffer.saved()), (1, 10));
        assert_eq!(next(&mut buffer, &claims), Some(1));
    }

    /// Decision 10: a handler that is stuck at a coalesced event holds only a small chunk of them.
    #[test]
    fn coalesced_events_are_taken_in_small_chunks_oldest_first() {
        let (claims, mut buffer) = (Claims::default(), Buffer::new(Policy::Coalesce { above: 100 }));
        buffer.push(adds(0..150), &claims);
        assert_eq!(next(&mut buffer, &claims), Some(COALESCED_CHUNK));
        buffer.push(adds(150..160), &claims);
        buffer.push(updates(3), &claims);

        assert_eq!(claims.claim(), 0, "that chunk is not taken back");
        let chunks: Vec<_> = std::iter::from_fn(|| next(&mut buffer, &claims)).collect();

        assert_eq!(chunks.iter().sum::<usize>(), 160 - COALESCED_CHUNK + 1, "of the updates one is left");
        assert!(chunks.iter().all(|chunk| *chunk <= COALESCED_CHUNK));
    }

    fn unchanged(name: u32) -> Notice {
        Notice::Unchanged(Cached::new(Identity::of_key(Key::cluster_scoped(&name.to_string())), ()).erase())
    }

    #[test]
    fn a_replay_waits_until_its_last_resync_is_claimed() {
        let (claims, mut buffer) = (Claims::default(), Buffer::new(Policy::Unbounded));
        buffer.push(adds(0..3), &claims);
        assert!(!buffer.has_resyncs(&claims));

        buffer.push_replay(Arc::from([unchanged(0), unchanged(1)]), &claims);
        buffer.push(updates(4), &claims);

        for (chunk, resyncs) in [(3, [true; 3].as_slice()), (2, &[true, false]), (4, &[false; 4])] {
            assert_eq!(next(&mut buffer, &claims), Some(chunk));
            for has_resyncs in resyncs {
                claims.claim();
                assert_eq!(buffer.has_resyncs(&claims), *has_resyncs);
            }
        }
    }

    /// A resync that was coalesced into a change does not wait any more.
    #[test]
    fn a_replay_that_was_coalesced_into_changes_does_not_wait() {
        let (claims, mut buffer) = (Claims::default(), Buffer::new(Policy::Coalesce { above: 0 }));
        buffer.push_replay(Arc::from([unchanged(0), unchanged(1)]), &claims);
        assert!(buffer.has_resyncs(&claims));

        let Notice::Unchanged(first) = unchanged(0) else { unreachable!() };
        let Notice::Unchanged(second) = unchanged(1) else { unreachable!() };
        buffer.push(Arc::from([Notice::Updated { old: first.clone(), new: first }]), &claims);
        assert!(buffer.has_resyncs(&claims));
        let deleted = Deleted::Observed(second.clone());
        buffer.push(Arc::from([Notice::Deleted { deleted, last: second }]), &claims);

        assert!(!buffer.has_resyncs(&claims));
    }

    /// One step: adds or updates of so many objects, a replay of them, or so many claims.
    #[derive(Debug, Clone)]
    enum Step {
        Adds(u32),
        Updates(usize),
        Replay { changes: u32, resyncs: u32 },
        Claim(usize),
    }

    /// Claims the next notice, of the next chunk if there is no more of this one.
    fn claim(buffer: &mut Buffer, claims: &Claims, chunk: &mut Option<Batch>) -> Option<Notice> {
        loop {
            if let Some(notice) = chunk.as_ref().and_then(|chunk| chunk.get(claims.claim())) {
                return Some(notice.clone());
            }
            drop(buffer.finish());
            match buffer.next(claims) {
                Next::Chunk(next) => *chunk = Some(next),
                Next::Nothing | Next::Closed => return None,
            }
        }
    }

    #[test]
    fn a_resync_waits_exactly_if_one_is_still_to_be_claimed() {
        let step = prop_oneof![
            (0..4u32).prop_map(Step::Adds),
            (0..4usize).prop_map(Step::Updates),
            (0..3u32, 1..4u32).prop_map(|(changes, resyncs)| Step::Replay { changes, resyncs }),
            (0..8usize).prop_map(Step::Claim),
        ];
        let policies = prop_oneof![Just(Policy::Unbounded), (0..12usize).prop_map(|above| Policy::Coalesce { above })];
        random::check(2000, (policies, prop::collection::vec(step, 0..30)), |(policy, steps)| {
            let (claims, mut buffer, mut chunk) = (Claims::default(), Buffer::new(policy), None);
            for step in steps {
                match step {
                    Step::Adds(count) => drop(buffer.push(adds(0..count), &claims)),
                    Step::Updates(count) => drop(buffer.push(updates(count), &claims)),
                    Step::Replay { changes, resyncs } => {
                        let batch = adds(0..changes).iter().cloned().chain((0..resyncs).map(unchanged)).collect();
                        buffer.push_replay(batch, &claims);
                    }
                    Step::Claim(count) => {
                        for _ in 0..count {
                            claim(&mut buffer, &claims, &mut chunk);
                        }
                    }
                }
            }

            let waits = buffer.has_resyncs(&claims);
            let rest: Vec<_> = std::iter::from_fn(|| claim(&mut buffer, &claims, &mut chunk)).collect();

            assert_eq!(waits, has_resyncs(&rest));
            assert!(!buffer.has_resyncs(&claims));
        });
    }

    /// The position up to which everything was claimed never goes back, is never ahead of a waiting event, and is exact when events are
    /// not coalesced.
    #[test]
    fn the_first_unclaimed_position_counts_claimed_and_coalesced_events() {
        let step = prop_oneof![
            (0..4u32).prop_map(Step::Adds),
            (0..4usize).prop_map(Step::Updates),
            (0..8usize).prop_map(Step::Claim),
        ];
        let policies = prop_oneof![Just(Policy::Unbounded), (0..12usize).prop_map(|above| Policy::Coalesce { above })];
        random::check(2000, (policies, prop::collection::vec(step, 0..30)), |(policy, steps)| {
            let (claims, mut buffer, mut chunk) = (Claims::default(), Buffer::new(policy), None);
            let (mut claimed, mut before) = (0, 0);
            for step in steps {
                match step {
                    Step::Adds(count) => drop(buffer.push(adds(0..count), &claims)),
                    Step::Updates(count) => drop(buffer.push(updates(count), &claims)),
                    Step::Replay { .. } => unreachable!("no step of this test"),
                    Step::Claim(count) => {
                        let events = (0..count).filter_map(|_| claim(&mut buffer, &claims, &mut chunk));
                        claimed += events.count() as u64;
                    }
                }
                let first = buffer.first_unclaimed(&claims);
                assert!(first >= before, "it went back from {before} to {first}");
                before = first;
                let waiting = buffer.len(&claims) as u64;
                assert!(first + waiting <= buffer.pushed(), "each waiting event has a position of its own from there");
                assert_eq!(waiting == 0, first == buffer.pushed());
                if policy == Policy::Unbounded {
                    assert_eq!(first, claimed);
                }
            }
        });
    }

    /// PL-05
    #[test]
    fn a_closed_buffer_gives_and_takes_nothing() {
        let (claims, mut buffer) = (Claims::default(), Buffer::new(Policy::Unbounded));
        buffer.push(adds(0..3), &claims);
        assert_eq!(next(&mut buffer, &claims), Some(3));
        claims.claim();

        drop(buffer.close(&claims));
        buffer.push(adds(3..5), &claims);

        assert!(claims.claim() >= 3);
        assert_eq!((buffer.len(&claims), next(&mut buffer, &claims)), (0, None));
    }
}

//! What waits for one follower.
//!
//! - **In:** batches of notices, shared with all others who wait for them.
//! - **Out:** chunks of notices, to be claimed one by one.
//! - **Knows nothing of:** locks, tasks, handlers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use super::Notice;
use super::coalesce::Coalesced;

/// What becomes of notices that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// They wait, however many they are.
    Unbounded,
    /// When more than `above` wait, those of one object are coalesced.
    Coalesce { above: usize },
}

/// Notices of one drain, the same for all who wait for them.
pub(crate) type Batch = Arc<[Notice]>;

/// How far the current chunk was claimed: whoever delivers it claims one notice at a time, and the buffer can take back
/// what is left.
#[derive(Default)]
pub(super) struct Claims {
    next: AtomicUsize,
}

/// A buffer of notices.
///
/// Oldest first: the rest of the current chunk, what was coalesced, batches as they came.
pub(super) struct Buffer {
    policy: Policy,
    current: Current,
    /// The resyncs of the current chunk stand before this position; 0 if it has none.
    resyncs_until: usize,
    coalesced: Coalesced,
    batches: VecDeque<Batch>,
    /// INV-L2: the number of notices in `batches`.
    in_batches: usize,
    /// INV-L6: the number of `batches` that have resyncs.
    replays: usize,
    is_closed: bool,
}

/// The chunk that is being claimed.
///
/// INV-L4: there is none when the next one is asked for.
enum Current {
    None,
    /// INV-L3: when it is taken nothing is coalesced, and when something is coalesced it is taken back: it is older.
    Batch(Batch),
    /// Was coalesced, and is small.
    Coalesced {
        length: usize,
    },
}

/// What a buffer lets go of. These are users' objects, and dropping them is users' code: it is done where nobody waits.
pub(super) struct Spent {
    _current: Current,
    _coalesced: Coalesced,
    batches: VecDeque<Batch>,
    notices: Vec<Notice>,
}

/// What is to be delivered next.
pub(super) enum Next {
    Chunk(Batch),
    Nothing,
    Closed,
}

/// How many notices are taken out of the coalesced ones at once: what is taken can be coalesced no more.
const COALESCED_CHUNK: usize = 64;

/// More than any chunk has, with room to count on.
const ALL: usize = usize::MAX / 2;

impl Claims {
    /// The position of the next notice. It is the caller's, if the chunk is that long.
    pub(super) fn claim(&self) -> usize {
        self.next.fetch_add(1, Ordering::AcqRel)
    }

    fn begin(&self) {
        self.next.store(0, Ordering::Release);
    }

    fn claimed(&self) -> usize {
        self.next.load(Ordering::Acquire)
    }

    /// Lets nobody claim anything more; gives how many were.
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
            is_closed: false,
        }
    }

    /// Appends a batch that has resyncs, as [`push`](Self::push) does with one that has none.
    pub(super) fn push_replay(&mut self, batch: Batch, claims: &Claims) -> Spent {
        debug_assert!(has_resyncs(&batch), "INV-L6");
        self.replays += usize::from(!self.is_closed);
        self.push(batch, claims)
    }

    /// Appends a batch. If too much waits, coalesces it.
    pub(super) fn push(&mut self, batch: Batch, claims: &Claims) -> Spent {
        let mut spent = Spent::default();
        if self.is_closed {
            spent.batches.push_back(batch);
            return spent;
        }
        self.in_batches += batch.len();
        if !batch.is_empty() {
            self.batches.push_back(batch);
        }
        match self.policy {
            Policy::Coalesce { above } if self.len(claims) > above => self.coalesce(claims, &mut spent),
            Policy::Coalesce { .. } | Policy::Unbounded => {}
        }
        spent
    }

    fn coalesce(&mut self, claims: &Claims, spent: &mut Spent) {
        debug_assert_eq!(self.in_batches, self.batches.iter().map(|batch| batch.len()).sum::<usize>(), "INV-L2");
        debug_assert_eq!(self.replays, self.batches.iter().filter(|batch| has_resyncs(batch)).count(), "INV-L6");
        let mut coalesce = |notices: &[Notice]| {
            notices.iter().for_each(|notice| self.coalesced.push(notice.clone(), &mut spent.notices));
        };
        if let Current::Batch(batch) = &self.current {
            let claimed = claims.revoke().min(batch.len());
            coalesce(&batch[claimed..]);
            spent.batches.push_back(Arc::clone(batch));
            self.current = Current::None;
            self.resyncs_until = 0;
        }
        self.batches.iter().for_each(|batch| coalesce(batch));
        spent.batches.append(&mut self.batches);
        self.in_batches = 0;
        self.replays = 0;
    }

    /// The chunk that was claimed to its end, or taken back, is needed no more.
    pub(super) fn finish(&mut self) -> Spent {
        self.resyncs_until = 0;
        Spent { _current: std::mem::replace(&mut self.current, Current::None), ..Spent::default() }
    }

    /// The next chunk. The one before is [finished](Self::finish).
    pub(super) fn next(&mut self, claims: &Claims) -> Next {
        debug_assert!(matches!(self.current, Current::None), "INV-L4");
        if self.is_closed {
            return Next::Closed;
        }
        let chunk = if self.coalesced.len() > 0 {
            let taken: Batch = std::iter::from_fn(|| self.coalesced.pop()).take(COALESCED_CHUNK).collect();
            self.current = Current::Coalesced { length: taken.len() };
            self.resyncs_until = end_of_resyncs(&taken);
            taken
        } else if let Some(batch) = self.batches.pop_front() {
            debug_assert_eq!(self.coalesced.len(), 0, "INV-L3");
            self.in_batches -= batch.len();
            if self.replays > 0 {
                self.resyncs_until = end_of_resyncs(&batch);
                self.replays -= usize::from(self.resyncs_until > 0);
            }
            if self.batches.is_empty() && self.batches.capacity() > COALESCED_CHUNK {
                // It may have been a long line.
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

    /// Takes nothing any more and gives nothing any more.
    pub(super) fn close(&mut self, claims: &Claims) -> Spent {
        self.is_closed = true;
        claims.revoke();
        self.in_batches = 0;
        self.replays = 0;
        self.resyncs_until = 0;
        Spent {
            _current: std::mem::replace(&mut self.current, Current::None),
            _coalesced: self.coalesced.clear(),
            batches: std::mem::take(&mut self.batches),
            notices: Vec::new(),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// How many notices wait; those that were claimed do not.
    pub(super) fn len(&self, claims: &Claims) -> usize {
        let current = match &self.current {
            Current::None => 0,
            Current::Batch(batch) => batch.len(),
            Current::Coalesced { length } => *length,
        };
        current.saturating_sub(claims.claimed()) + self.coalesced.len() + self.in_batches
    }

    /// Whether a resync waits; one that was claimed does not.
    pub(super) fn has_resyncs(&self, claims: &Claims) -> bool {
        self.replays > 0 || self.coalesced.has_resyncs() || claims.claimed() < self.resyncs_until
    }

    /// How many notices were coalesced into others so far.
    pub(super) fn saved(&self) -> u64 {
        self.coalesced.saved()
    }
}

fn has_resyncs(notices: &[Notice]) -> bool {
    notices.iter().any(Notice::is_resync)
}

/// The position behind the last resync; 0 if there is none.
fn end_of_resyncs(notices: &[Notice]) -> usize {
    notices.iter().rposition(Notice::is_resync).map_or(0, |last| last + 1)
}

impl Default for Spent {
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
    use crate::Cached;
    use crate::Deleted;
    use crate::Key;
    use crate::Origin;
    use crate::object::Erased;
    use crate::object::Identity;
    use crate::random;

    /// Adds of so many objects.
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
    fn as_many_as_the_bound_may_wait_and_one_more_is_too_many() {
        let (claims, mut buffer) = (Claims::default(), Buffer::new(Policy::Coalesce { above: 5 }));
        buffer.push(updates(5), &claims);
        assert_eq!((buffer.len(&claims), buffer.saved()), (5, 0));

        buffer.push(updates(1), &claims);

        assert_eq!((buffer.len(&claims), buffer.saved()), (1, 5));
    }

    /// Decision 10: what is being delivered never coalesces, and everything behind it does.
    #[test]
    fn what_was_claimed_is_not_merged_and_nothing_more_of_its_batch_can_be_claimed() {
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

    /// Decision 10: a handler that is stuck in what was coalesced does not hold all of it.
    #[test]
    fn merged_notices_are_taken_in_small_chunks_oldest_first() {
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

    /// A resync that a change stands for does not wait any more.
    #[test]
    fn a_replay_that_was_merged_into_changes_does_not_wait() {
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

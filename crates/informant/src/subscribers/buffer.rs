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
use super::merge::Merged;

/// What becomes of notices that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// They wait, however many they are.
    Unbounded,
    /// When more than `above` wait, those of one object are merged.
    Coalesce { above: usize },
}

/// Notices of one drain, the same for all who wait for them.
pub(crate) type Batch<O> = Arc<[Notice<O>]>;

/// How far the current chunk was claimed: whoever delivers it claims one notice at a time, and the buffer can take back
/// what is left.
#[derive(Default)]
pub(super) struct Claims {
    next: AtomicUsize,
}

/// A buffer of notices.
///
/// Oldest first: the rest of the current chunk, what was merged, batches as they came.
pub(super) struct Buffer<O> {
    policy: Policy,
    current: Current<O>,
    merged: Merged<O>,
    batches: VecDeque<Batch<O>>,
    /// INV-L2: the number of notices in `batches`.
    in_batches: usize,
    is_closed: bool,
}

/// The chunk that is being claimed.
enum Current<O> {
    None,
    /// INV-L3: nothing is merged meanwhile, for that would be older.
    Batch(Batch<O>),
    /// Was merged, and is small.
    Merged {
        length: usize,
    },
}

/// What a closed buffer held: to be dropped where nobody waits.
pub(super) struct Leftovers<O> {
    _current: Current<O>,
    _merged: Merged<O>,
    _batches: VecDeque<Batch<O>>,
}

/// What is to be delivered next.
pub(super) enum Next<O> {
    Chunk(Batch<O>),
    Nothing,
    Closed,
}

/// How many notices are taken out of the merged ones at once: what is taken can be merged no more.
const MERGED_CHUNK: usize = 64;

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

impl<O> Buffer<O> {
    pub(super) fn new(policy: Policy) -> Self {
        Self {
            policy,
            current: Current::None,
            merged: Merged::default(),
            batches: VecDeque::new(),
            in_batches: 0,
            is_closed: false,
        }
    }

    /// Appends a batch. If too much waits, merges it.
    pub(super) fn push(&mut self, batch: Batch<O>, claims: &Claims) {
        if self.is_closed || batch.is_empty() {
            return;
        }
        self.in_batches += batch.len();
        self.batches.push_back(batch);
        match self.policy {
            Policy::Coalesce { above } if self.len(claims) > above => self.merge(claims),
            Policy::Coalesce { .. } | Policy::Unbounded => {}
        }
    }

    fn merge(&mut self, claims: &Claims) {
        if let Current::Batch(current) = &self.current {
            let claimed = claims.revoke().min(current.len());
            current[claimed..].iter().for_each(|notice| self.merged.push(notice.clone()));
            self.current = Current::None;
        }
        for batch in self.batches.drain(..) {
            batch.iter().for_each(|notice| self.merged.push(notice.clone()));
        }
        self.in_batches = 0;
    }

    /// The next chunk. The one before was claimed to its end, or taken back.
    pub(super) fn next(&mut self, claims: &Claims) -> Next<O> {
        if self.is_closed {
            return Next::Closed;
        }
        let chunk = if self.merged.len() > 0 {
            let taken: Batch<O> = std::iter::from_fn(|| self.merged.pop()).take(MERGED_CHUNK).collect();
            self.current = Current::Merged { length: taken.len() };
            taken
        } else if let Some(batch) = self.batches.pop_front() {
            self.in_batches -= batch.len();
            if self.batches.is_empty() && self.batches.capacity() > MERGED_CHUNK {
                // It may have been a long line.
                self.batches = VecDeque::new();
            }
            self.current = Current::Batch(Arc::clone(&batch));
            batch
        } else {
            self.current = Current::None;
            return Next::Nothing;
        };
        claims.begin();
        Next::Chunk(chunk)
    }

    /// Takes nothing any more and gives nothing any more.
    pub(super) fn close(&mut self, claims: &Claims) -> Leftovers<O> {
        self.is_closed = true;
        claims.revoke();
        self.in_batches = 0;
        Leftovers {
            _current: std::mem::replace(&mut self.current, Current::None),
            _merged: self.merged.clear(),
            _batches: std::mem::take(&mut self.batches),
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
            Current::Merged { length } => *length,
        };
        current.saturating_sub(claims.claimed()) + self.merged.len() + self.in_batches
    }

    /// How many notices were merged into others so far.
    pub(super) fn saved(&self) -> u64 {
        self.merged.saved()
    }
}

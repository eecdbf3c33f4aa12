//! [`Packing`]: whether the objects of an informer are packed, and against which base.
//!
//! - **In:** what the objects of all informers take; the JSON of objects.
//! - **Out:** packed JSON, and the error if packing is not enough.
//! - **Knows nothing of:** the cache.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
};

use parking_lot::Mutex;

use super::{
    Base, Packed,
    bases::{Bases, Choice},
};
use crate::{Key, error::SourceError, object::ObjectMemory};

/// The limit of what the informers of a factory take, and what they take.
pub(crate) struct MemoryBudget {
    /// 0 means that everything is packed.
    limit: usize,
    used: AtomicUsize,
    /// The number of cached objects that sweeps of all informers have packed.
    packed: AtomicUsize,
    /// Whether an informer has reported that packing is not enough.
    is_reported: AtomicBool,
}

/// How the objects of one informer are packed.
pub(crate) struct Packing {
    budget: Arc<MemoryBudget>,
    bases: Mutex<Bases>,
    /// The bytes of the bases.
    of_bases: AtomicUsize,
    /// Whether the last sweep over the cache found nothing to pack: what is plain was read since the sweep before, or does not become smaller.
    is_swept: AtomicBool,
}

/// An object is packed well if its JSON is at least this many times as long, without noted values. Otherwise it becomes a base itself, if there is room
/// for one.
const GOOD_RATIO: usize = 6;

/// JSON of less than this is packed well if it takes as little as JSON of this length must: what a base needs beside its JSON would be more than is
/// saved.
const SMALL: usize = 1000;

impl MemoryBudget {
    pub(crate) fn new(limit: usize) -> Self {
        let (used, packed, is_reported) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
        Self { limit, used, packed, is_reported }
    }
}

impl Packing {
    pub(crate) fn new(budget: Arc<MemoryBudget>) -> Self {
        Self { budget, bases: Mutex::default(), of_bases: AtomicUsize::new(0), is_swept: AtomicBool::new(false) }
    }

    /// Adds a number of bytes, which is negative (it wraps) if less is used.
    pub(in crate::object) fn add_used(&self, bytes: usize) {
        self.budget.used.fetch_add(bytes, Relaxed);
    }

    /// Whether objects may be plain at first. Without a limit, all of them are packed when they arrive.
    pub(crate) fn has_limit(&self) -> bool {
        self.budget.limit > 0
    }

    /// Whether objects are packed as they arrive.
    pub(in crate::object) fn packs_arrivals(&self) -> bool {
        !self.has_limit() || self.is_over_budget()
    }

    /// Whether objects that are cached already must be packed. If the limit is 0, all of them were packed when they arrived.
    pub(crate) fn is_over_budget(&self) -> bool {
        self.has_limit() && self.budget.used.load(Relaxed) > self.budget.limit
    }

    /// Packs the JSON of an object, or makes it a base; `None` if it stays plain. The JSON is the beginning of `text`. `memory` is that of the informer.
    pub(in crate::object) fn pack(
        &self,
        memory: &Arc<ObjectMemory>,
        key: &Key,
        text: &Arc<str>,
        length: usize,
    ) -> Option<Packed> {
        let choice = self.with_bases(memory, |bases| bases.choose(key));
        let packed = match choice {
            Choice::Base(base) => Packed::new(text, length, base),
            Choice::Itself => None,
        };
        let noted = text.len() - length;
        let is_good = packed.as_ref().is_some_and(|packed| (packed.bytes() - noted) * GOOD_RATIO <= length.max(SMALL));
        if !is_good && self.has_room_for_base(memory, length) {
            let base = Base::new(text, memory);
            self.with_bases(memory, |bases| bases.insert(key, &base));
            return Some(Packed::base(base));
        }
        packed.filter(|packed| packed.bytes() < length)
    }

    /// Counts the tables, too.
    fn with_bases<R>(&self, memory: &ObjectMemory, act: impl FnOnce(&mut Bases) -> R) -> R {
        let mut bases = self.bases.lock();
        let before = bases.bytes();
        let result = act(&mut bases);
        memory.change(before, bases.bytes());
        result
    }

    /// Whether the bases may take this much more: a quarter of what all objects take, and the size of a thousand pods in any case.
    fn has_room_for_base(&self, memory: &ObjectMemory, bytes: usize) -> bool {
        const ALWAYS: usize = 4 << 20;
        self.of_bases.load(Relaxed) + bytes <= ALWAYS.max(memory.of_objects() / 4)
    }

    /// Counts a base that is made (0 bytes before) or dropped (0 bytes now).
    pub(super) fn change_bases(&self, before: usize, now: usize) {
        self.of_bases.fetch_add(now.wrapping_sub(before), Relaxed);
    }

    /// Adds objects that a sweep has packed. Returns the number of those that sweeps of all informers have packed.
    pub(crate) fn add_packed(&self, objects: usize) -> usize {
        self.budget.packed.fetch_add(objects, Relaxed) + objects
    }

    /// Notes that the budget suffices, so that the next time when it does not is reported again.
    pub(crate) fn note_within_budget(&self) {
        self.is_swept.store(false, Relaxed);
        self.budget.is_reported.store(false, Relaxed);
    }

    /// Notes whether all objects of the cache that can be packed are packed.
    pub(crate) fn set_swept(&self, is_swept: bool) {
        self.is_swept.store(is_swept, Relaxed);
    }

    /// Returns the error to report if packing is not enough, to one informer of the factory.
    pub(crate) fn new_problem(&self) -> Option<SourceError> {
        let (used, budget) = self.exceeded()?;
        let is_new = !self.budget.is_reported.swap(true, Relaxed);
        is_new.then_some(SourceError::MemoryExceeded { used, budget })
    }

    /// What is used, and the limit, if more is used and the last sweep over the cache found nothing to pack.
    pub(crate) fn exceeded(&self) -> Option<(usize, usize)> {
        let is_exceeded = self.is_over_budget() && self.is_swept.load(Relaxed);
        is_exceeded.then(|| (self.budget.used.load(Relaxed), self.budget.limit))
    }
}

/// The bases are gone already; only their tables are left.
impl Drop for Packing {
    fn drop(&mut self) {
        let tables = self.bases.get_mut().bytes();
        self.add_used(0_usize.wrapping_sub(tables));
    }
}

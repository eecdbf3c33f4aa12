//! [`Packing`]: whether the objects of an informer are packed, and against which base.
//!
//! - **In:** what the objects of all informers take; the JSON of objects; what sweeps have packed.
//! - **Out:** packed JSON, and the error if packing is not enough.
//! - **Knows nothing of:** how the cache holds objects.

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

/// How many bytes the informers of a factory may take, and how many they take.
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
    /// Whether no informer of the factory packed a cached object between the ends of this informer's last two sweeps: what is plain is read again
    /// and again, or does not become smaller.
    packs_no_more: AtomicBool,
}

/// An object is packed well if its packed JSON, without noted values, is at most a sixth of its JSON. Otherwise it becomes a base, if the bases may grow.
const GOOD_RATIO: usize = 6;

/// Shorter JSON is judged as if it had this length: a base for it would cost more than it saves.
const LEAST_JUDGED: usize = 1000;

impl MemoryBudget {
    pub(crate) fn new(limit: usize) -> Self {
        let (used, packed, is_reported) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
        Self { limit, used, packed, is_reported }
    }
}

impl Packing {
    pub(crate) fn new(budget: Arc<MemoryBudget>) -> Self {
        Self { budget, bases: Mutex::default(), of_bases: AtomicUsize::new(0), packs_no_more: AtomicBool::new(false) }
    }

    /// Adds a number of bytes, which is negative (it wraps) if less is used.
    pub(in crate::object) fn add_used(&self, bytes: usize) {
        self.budget.used.fetch_add(bytes, Relaxed);
    }

    /// Whether every object is packed as it arrives: the budget is 0.
    pub(crate) fn packs_everything(&self) -> bool {
        self.budget.limit == 0
    }

    /// Whether objects are packed as they arrive.
    pub(in crate::object) fn packs_arrivals(&self) -> bool {
        self.packs_everything() || self.is_over_budget()
    }

    /// Whether objects that are cached already must be packed. If the limit is 0, all of them were packed when they arrived.
    pub(crate) fn is_over_budget(&self) -> bool {
        !self.packs_everything() && self.budget.used.load(Relaxed) > self.budget.limit
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
        let is_good =
            packed.as_ref().is_some_and(|packed| (packed.bytes() - noted) * GOOD_RATIO <= length.max(LEAST_JUDGED));
        if !is_good && self.may_add_base(memory, length) {
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
    fn may_add_base(&self, memory: &ObjectMemory, bytes: usize) -> bool {
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
        self.packs_no_more.store(false, Relaxed);
        self.budget.is_reported.store(false, Relaxed);
    }

    pub(crate) fn set_packs_no_more(&self, packs_no_more: bool) {
        self.packs_no_more.store(packs_no_more, Relaxed);
    }

    /// Returns the error to report if packing is not enough, to one informer of the factory.
    pub(crate) fn new_problem(&self) -> Option<SourceError> {
        let (used, budget) = self.exceeded()?;
        let is_new = !self.budget.is_reported.swap(true, Relaxed);
        is_new.then_some(SourceError::MemoryExceeded { used, budget })
    }

    /// What is used, and the limit, if more is used and no informer packs more.
    pub(crate) fn exceeded(&self) -> Option<(usize, usize)> {
        let is_exceeded = self.is_over_budget() && self.packs_no_more.load(Relaxed);
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

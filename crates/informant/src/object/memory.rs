//! Counts the bytes that the objects of one informer take.
//!
//! - **In:** objects that are made, packed and dropped; the size of the cache's tables.
//! - **Out:** the number of bytes.
//! - **Knows nothing of:** the cache, sources.

use std::{
    any::Any,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
};

#[cfg(feature = "packing")]
use super::packing::Packing;
use super::{Object, held_json::HeldJson};

/// The memory that the objects of one informer take, wherever their handles are. All objects of the informer share it.
pub(crate) struct ObjectMemory {
    /// Returns what an object of the informer's object type takes.
    pub(super) memory_of: MemoryOf,
    objects: AtomicUsize,
    /// Whether `objects` is an estimate.
    is_estimate: AtomicBool,
    /// The bytes of the cache's tables, until the cache is dropped.
    tables: AtomicUsize,
    /// `None` if objects are not packed.
    #[cfg(feature = "packing")]
    packing: Option<Packing>,
}

/// What an object takes in memory, beside its handle.
pub enum HeldMemory<'a> {
    /// The JSON of a lazy object.
    Json(&'a HeldJson),
    /// The number of bytes of an object that was decoded, as an estimate.
    Estimate(usize),
}

/// Returns what an object takes; the number is the length of the JSON that it was decoded from.
pub(crate) type MemoryOf = fn(&(dyn Any + Send + Sync), usize) -> HeldMemory<'_>;

/// The [`MemoryOf`] of objects of type `O`.
pub(crate) fn memory_of<O: Object>(object: &(dyn Any + Send + Sync), json_length: usize) -> HeldMemory<'_> {
    object.downcast_ref::<O>().map_or(HeldMemory::Estimate(0), |object| object.memory(json_length))
}

impl ObjectMemory {
    pub(crate) fn new(memory_of: MemoryOf) -> Self {
        Self {
            memory_of,
            objects: AtomicUsize::default(),
            is_estimate: AtomicBool::default(),
            tables: AtomicUsize::default(),
            #[cfg(feature = "packing")]
            packing: None,
        }
    }

    #[cfg(feature = "packing")]
    pub(crate) fn with_packing(mut self, packing: Option<Packing>) -> Self {
        self.packing = packing;
        self
    }

    /// The bytes of the objects, and of the cache's tables.
    pub(crate) fn bytes(&self) -> usize {
        self.of_objects() + self.tables.load(Relaxed)
    }

    pub(super) fn of_objects(&self) -> usize {
        self.objects.load(Relaxed)
    }

    pub(crate) fn is_estimate(&self) -> bool {
        self.is_estimate.load(Relaxed)
    }

    /// Counts the new size of an object, or of a base, in the place of its former one.
    pub(super) fn change(&self, before: usize, now: usize) {
        self.change_counter(&self.objects, before, now);
    }

    pub(super) fn note_estimate(&self) {
        self.is_estimate.store(true, Relaxed);
    }

    /// Only one thread at a time may call it.
    pub(crate) fn set_tables(&self, bytes: usize) {
        self.change_counter(&self.tables, self.tables.load(Relaxed), bytes);
    }

    fn change_counter(&self, counter: &AtomicUsize, before: usize, now: usize) {
        let added = now.wrapping_sub(before);
        counter.fetch_add(added, Relaxed);
        #[cfg(feature = "packing")]
        self.packing.iter().for_each(|packing| packing.add_used(added));
    }

    #[cfg(feature = "packing")]
    pub(crate) fn packing(&self) -> Option<&Packing> {
        self.packing.as_ref()
    }
}

//! Makes the heap grow in large steps while objects are decoded.
//!
//! - **In:** the number of bytes that an object needs.
//! - **Out:** nothing; the allocator has taken memory from the system.
//! - **Knows nothing of:** objects.
//!
//! The allocator of glibc enlarges the heap of a thread, other than the main thread, by as many pages as an allocation needs, with a system
//! call each time: one for each pod of a list, a tenth of its CPU time. An allocation that is freed at once leaves a larger heap behind.
//! Another allocator has no use of it; there it costs one unused allocation for each 120 kB.

use std::hint::black_box;

/// The bytes that are left of the last step.
#[derive(Default)]
pub(super) struct HeapGrowth {
    left: usize,
}

impl HeapGrowth {
    /// Less than the 128 kB from which glibc maps an allocation by itself, and from which it returns free memory to the system.
    const STEP: usize = 120 << 10;

    /// Enlarges the heap, if what is left of the last step does not suffice for about this many bytes, which will be allocated and kept.
    pub(super) fn prepare(&mut self, bytes: usize) {
        if self.left < bytes {
            drop(black_box(Vec::<u8>::with_capacity(Self::STEP)));
            self.left = Self::STEP;
        }
        self.left = self.left.saturating_sub(bytes);
    }
}

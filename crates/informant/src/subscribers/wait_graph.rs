//! Finds callbacks that would wait for each other for ever.
//!
//! - **In:** which callbacks wait for the end of which work.
//! - **Out:** whether one more wait would complete a circle.
//! - **Knows nothing of:** threads, futures and what the callbacks do.

use super::calling::WorkOwner;

/// The waits of all callbacks that wait for the end of a handler or an informer.
pub(super) struct WaitGraph {
    waits: Vec<Wait>,
    next_id: u64,
}

struct Wait {
    id: u64,
    /// The owners of the callback that waits; several if it was called by another callback.
    waiters: Vec<WorkOwner>,
    awaited: Vec<WorkOwner>,
}

/// Why a callback cannot wait for the end of some work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitConflict {
    /// The callback is part of the awaited work.
    OwnCallback,
    /// The awaited work waits for the callback, directly or through other callbacks.
    Circle,
}

impl WaitGraph {
    pub(super) const fn new() -> Self {
        Self { waits: Vec::new(), next_id: 0 }
    }

    /// Adds a wait and returns its number, unless the wait would never end.
    pub(super) fn add(&mut self, waiters: &[WorkOwner], awaited: &[WorkOwner]) -> Result<u64, WaitConflict> {
        if let Some(conflict) = self.conflict(waiters, awaited) {
            return Err(conflict);
        }
        self.next_id += 1;
        self.waits.push(Wait { id: self.next_id, waiters: waiters.to_vec(), awaited: awaited.to_vec() });
        Ok(self.next_id)
    }

    pub(super) fn remove(&mut self, id: u64) {
        self.waits.retain(|wait| wait.id != id);
    }

    /// Returns why a wait would never end; `None` if it can end.
    pub(super) fn conflict(&self, waiters: &[WorkOwner], awaited: &[WorkOwner]) -> Option<WaitConflict> {
        let includes_waiter = |work: &WorkOwner| waiters.iter().any(|waiter| work.includes(*waiter));
        if awaited.iter().any(includes_waiter) {
            return Some(WaitConflict::OwnCallback);
        }
        let mut reached = awaited.to_vec();
        let mut position = 0;
        while let Some(work) = reached.get(position).copied() {
            position += 1;
            let waits = self.waits.iter().filter(|wait| wait.waiters.iter().any(|waiter| work.includes(*waiter)));
            for next in waits.flat_map(|wait| &wait.awaited) {
                if !reached.contains(next) {
                    reached.push(*next);
                }
            }
        }
        reached.iter().any(includes_waiter).then_some(WaitConflict::Circle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn handler(informer: u64, listener: u64) -> WorkOwner {
        WorkOwner { informer, listener: Some(listener) }
    }

    const fn informer(informer: u64) -> WorkOwner {
        WorkOwner { informer, listener: None }
    }

    #[test]
    fn a_callback_cannot_wait_for_its_own_handler_or_informer() {
        let mut graph = WaitGraph::new();
        for awaited in [handler(1, 1), informer(1)] {
            assert_eq!(graph.add(&[handler(1, 1)], &[handler(2, 1), awaited]), Err(WaitConflict::OwnCallback));
        }
        graph.add(&[handler(1, 1)], &[handler(1, 2), informer(2)]).unwrap();
    }

    #[test]
    fn a_wait_that_completes_a_circle_of_any_length_is_refused() {
        let mut graph = WaitGraph::new();
        graph.add(&[handler(1, 1)], &[informer(2)]).unwrap();
        graph.add(&[handler(2, 7)], &[handler(3, 1), informer(4)]).unwrap();
        graph.add(&[informer(4)], &[informer(5)]).unwrap();

        for waiter in [handler(2, 1), handler(3, 1), informer(4), handler(5, 9)] {
            assert_eq!(graph.conflict(&[waiter], &[informer(1)]), Some(WaitConflict::Circle), "{waiter:?}");
        }
        assert_eq!(graph.conflict(&[handler(9, 1), handler(5, 1)], &[handler(1, 1)]), Some(WaitConflict::Circle));
    }

    #[test]
    fn waits_without_a_circle_are_accepted() {
        let mut graph = WaitGraph::new();
        let first = graph.add(&[handler(1, 1)], &[informer(2)]).unwrap();
        assert_eq!(graph.conflict(&[handler(3, 1)], &[informer(1), informer(2)]), None);
        assert_eq!(graph.conflict(&[handler(2, 1)], &[handler(1, 2)]), None, "the other handler of informer 1 waits");
        assert_eq!(graph.conflict(&[], &[informer(1)]), None, "the call is made outside of callbacks");

        graph.remove(first);
        assert_eq!(graph.conflict(&[handler(2, 1)], &[informer(1)]), None);
    }
}

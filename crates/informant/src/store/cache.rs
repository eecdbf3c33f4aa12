//! The table and its lock. No other file takes this lock.
//!
//! - **In:** functions that read or change the table.
//! - **Out:** their results.
//! - **Knows nothing of:** object types, index functions.

use std::sync::{Arc, atomic::AtomicBool};

use parking_lot::RwLock;

use super::table::Table;
use crate::object::ObjectMemory;

/// The state that the writer and the readers share.
pub(super) struct Cache {
    /// The current state. A writer changes it in place only if there is no snapshot of it.
    table: RwLock<Arc<Table>>,
    /// The name of the objects in errors, such as "pods".
    pub(super) resource: Arc<str>,
    /// Whether the informer has stopped, so that no more writes follow.
    pub(super) has_stopped: AtomicBool,
    /// Whether the first list of the informer was written; true without an informer.
    pub(super) is_synced: AtomicBool,
    /// Counts the bytes of the tables; `None` if they are not counted.
    memory: Option<Arc<ObjectMemory>>,
}

/// What a reader shows.
#[derive(Clone)]
pub(super) struct Objects {
    pub(super) cache: Arc<Cache>,
    /// The state that a snapshot shows; `None` for the current state at the time of each read.
    snapshot: Option<Arc<Table>>,
}

impl Objects {
    /// Shows the current state.
    pub(super) fn current(cache: Arc<Cache>) -> Self {
        Self { cache, snapshot: None }
    }

    /// Shows the state of this moment.
    pub(super) fn snapshot(&self) -> Self {
        Self { cache: Arc::clone(&self.cache), snapshot: Some(self.table()) }
    }

    pub(super) fn table(&self) -> Arc<Table> {
        self.snapshot.clone().unwrap_or_else(|| self.cache.snapshot())
    }

    /// Reads one state. `read` must not call users' code: writers wait for it, unless this is a snapshot.
    #[inline]
    pub(super) fn read<R>(&self, read: impl FnOnce(&Table) -> R) -> R {
        match &self.snapshot {
            None => self.cache.read(read),
            Some(table) => read(table),
        }
    }
}

impl Cache {
    pub(super) fn new(table: Table, resource: Arc<str>, memory: Option<Arc<ObjectMemory>>) -> Self {
        let (has_stopped, is_synced) = (AtomicBool::new(false), AtomicBool::new(true));
        Self { table: RwLock::new(Arc::new(table)), resource, has_stopped, is_synced, memory }
    }

    /// Reads the current state. `read` must not call users' code: writers wait for it.
    pub(super) fn read<R>(&self, read: impl FnOnce(&Table) -> R) -> R {
        read(&self.table.read())
    }

    /// Returns the current state. While it is held, a write copies the table.
    pub(super) fn snapshot(&self) -> Arc<Table> {
        Arc::clone(&self.table.read())
    }

    /// Changes the state so that readers see either the old one or the new one. `writes` is the number of objects that `change` writes, and
    /// `values` the number of their index values. Only one thread at a time may call it.
    ///
    /// `change` must return all objects that it takes out of the table, so that they are dropped when the table lock is released:
    /// destructors of objects are users' code.
    pub(super) fn change<R>(&self, writes: usize, values: usize, change: impl FnOnce(&mut Table) -> R) -> R {
        let mut table = self.table.write();
        if table.is_quick(writes, values)
            && let Some(table) = Arc::get_mut(&mut table)
        {
            let result = change(table);
            self.count(table);
            return result;
        }
        // Changes a copy, because the change is large, or a snapshot of the current state is held. Readers go on with the current state.
        let current = Arc::clone(&table);
        drop(table);
        let mut next = current.copy(writes, values);
        drop(current);
        let result = change(&mut next);
        self.count(&next);
        let next = Arc::new(next);
        let old = std::mem::replace(&mut *self.table.write(), next);
        drop(old);
        result
    }

    fn count(&self, table: &Table) {
        self.memory.iter().for_each(|memory| memory.set_tables(table.bytes()));
    }
}

/// The objects may outlive the tables, and the memory counts both.
impl Drop for Cache {
    fn drop(&mut self) {
        self.memory.iter().for_each(|memory| memory.set_tables(0));
    }
}

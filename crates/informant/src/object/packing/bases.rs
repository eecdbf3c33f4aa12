//! The bases of one informer, found by the key of an object.
//!
//! - **In:** keys, and bases that are known from now on.
//! - **Out:** the base that an object is probably most similar to.
//! - **Knows nothing of:** JSON, compression.

use std::sync::{Arc, Weak};

use hashbrown::HashMap;

use super::Base;
use crate::Key;

/// The bases of one informer. It does not keep them alive: the objects do.
#[derive(Default)]
pub(crate) struct Bases {
    /// By the [names](names) of their objects.
    by_name: HashMap<Box<str>, Weak<Base>>,
    last: Weak<Base>,
    /// When the table has this size, bases that are gone are removed from it.
    prune_at: usize,
}

impl Bases {
    /// Returns the last base that was an earlier state of this object, or whose object had the same owner, judged by its name. If there is none,
    /// returns the last one of all.
    pub(crate) fn find(&self, key: &Key) -> Option<Arc<Base>> {
        names(key).find_map(|name| self.by_name.get(name)?.upgrade()).or_else(|| self.last.upgrade())
    }

    /// Notes that the object of this key is a base.
    pub(crate) fn insert(&mut self, key: &Key, base: &Arc<Base>) {
        if self.by_name.len() >= self.prune_at {
            self.by_name.retain(|_, base| base.strong_count() > 0);
            self.prune_at = (2 * self.by_name.len()).max(1024);
        }
        for name in names(key) {
            self.by_name.insert(name.into(), Arc::downgrade(base));
        }
        self.last = Arc::downgrade(base);
    }
}

/// The key, and the keys of its possible owners: `shop/web-7d9f4c-x2x9z` may be owned by `shop/web-7d9f4c`, and that by `shop/web`.
fn names(key: &Key) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(key.as_str()), |name| Some(name.rsplit_once('-')?.0)).take(3)
}

//! The bases of one informer, found by the key of an object.
//!
//! - **In:** keys, and bases that are known from now on.
//! - **Out:** the base that an object is probably most similar to, and whether the object should become one.
//! - **Knows nothing of:** JSON, compression.

use std::{
    hash::BuildHasher,
    sync::{Arc, Weak},
};

use hashbrown::HashMap;

use super::Base;
use crate::Key;

/// The bases of one informer. It does not keep them alive: the objects do.
#[derive(Default)]
pub(super) struct Bases {
    /// By the hashes of the [names] of their objects.
    by_name: HashMap<u64, Weak<Base>>,
    last: Weak<Base>,
    /// When the table has this size, bases that are gone are removed from it.
    prune_at: usize,
    /// The owners whose objects have no base of their own, by a hash of their name: one of 32 bits for each object, chosen by its key, so that the same
    /// object counts once.
    without_base: HashMap<u32, u32>,
}

/// What an object is to be packed against.
pub(super) enum Choice {
    Base(Arc<Base>),
    /// The object is to become a base: the first one of all, or because its owner has many objects and none of them is a base.
    Itself,
}

/// An owner gets a base when this many of its 32 bits are set, by about 22 objects. A base costs what 16 objects save.
const BITS_OF_MANY: u32 = 16;

/// When this many owners have no base, counting begins again.
const MOST_COUNTED: usize = 1 << 16;

impl Bases {
    /// Chooses the last base that was an earlier state of this object, or whose object had the same owner, judged by its name. If there is none,
    /// chooses the last one of all; but if the owner has many objects, this one is to become a base.
    pub(super) fn choose(&mut self, key: &Key) -> Choice {
        if let Some(base) = names(key).find_map(|name| self.by_name.get(&self.hash_of(name))?.upgrade()) {
            return Choice::Base(base);
        }
        match self.last.upgrade() {
            Some(last) if !self.count_without_base(key) => Choice::Base(last),
            Some(_) | None => Choice::Itself,
        }
    }

    /// Counts an object whose owner has no base, and returns whether the owner has many of them.
    fn count_without_base(&mut self, key: &Key) -> bool {
        let Some(owner) = names(key).nth(1) else { return false };
        if self.without_base.len() >= MOST_COUNTED {
            self.without_base.clear();
        }
        let owner = self.hash_of(owner) as u32;
        let bits = self.without_base.entry(owner).or_default();
        *bits |= 1 << (key.table_hash() >> 59);
        bits.count_ones() >= BITS_OF_MANY
    }

    /// Notes that the object of this key is a base.
    pub(super) fn insert(&mut self, key: &Key, base: &Arc<Base>) {
        if self.by_name.len() >= self.prune_at {
            self.by_name.retain(|_, base| base.strong_count() > 0);
            self.prune_at = (2 * self.by_name.len()).max(1024);
        }
        for name in names(key) {
            self.by_name.insert(self.hash_of(name), Arc::downgrade(base));
        }
        self.last = Arc::downgrade(base);
    }

    /// The seed is random, so names that collide cannot be chosen; two that do would only share a base.
    fn hash_of(&self, name: &str) -> u64 {
        self.by_name.hasher().hash_one(name)
    }

    /// Returns the number of bytes of the tables.
    pub(super) fn bytes(&self) -> usize {
        self.by_name.allocation_size() + self.without_base.allocation_size()
    }
}

/// The key, and the keys of its possible owners: `shop/web-7d9f4c-x2x9z` may be owned by `shop/web-7d9f4c`, and that by `shop/web`.
fn names(key: &Key) -> impl Iterator<Item = &str> {
    let namespace = key.as_str().len() - key.name().len();
    std::iter::successors(Some(key.as_str()), move |name| {
        Some(name.rsplit_once('-')?.0).filter(|owner| owner.len() > namespace)
    })
    .take(3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{HeldMemory, ObjectMemory};

    fn key(name: &str) -> Key {
        Key::namespaced("shop", name)
    }

    fn base(text: &str) -> Arc<Base> {
        Base::new(&text.into(), &Arc::new(ObjectMemory::new(|_, _| HeldMemory::Estimate(0))))
    }

    /// The text of the chosen base; `None` if the object is to become a base.
    fn chosen(bases: &mut Bases, name: &str) -> Option<String> {
        match bases.choose(&key(name)) {
            Choice::Base(base) => Some(base.text.to_string()),
            Choice::Itself => None,
        }
    }

    #[test]
    fn a_base_is_found_by_object_owner_and_owner_of_the_owner_and_else_the_last_one_is_used() {
        let (mut bases, web, job, single) = (Bases::default(), base("web"), base("job"), base("single"));
        assert_eq!(chosen(&mut bases, "web-1-a"), None, "the first object");
        bases.insert(&key("web-1-a"), &web);
        bases.insert(&key("single"), &single);
        bases.insert(&key("job-5-x"), &job);

        for (name, expected) in
            [("web-1-b", "web"), ("web-2-c", "web"), ("web", "web"), ("single", "single"), ("other-1-a", "job")]
        {
            assert_eq!(chosen(&mut bases, name).as_deref(), Some(expected), "{name}");
        }
        let other_namespace = Key::namespaced("sh-op", "web");
        assert_eq!(names(&other_namespace).collect::<Vec<_>>(), ["sh-op/web"], "the namespace is not split");
        drop((web, job));
        assert_eq!(chosen(&mut bases, "web-1-b"), None, "no object refers to the base any more");
    }

    #[test]
    fn an_owner_with_many_objects_gets_a_base_and_one_object_that_changes_often_does_not() {
        let (mut bases, other) = (Bases::default(), base("other"));
        bases.insert(&key("other"), &other);

        assert!((0..1000).all(|_| chosen(&mut bases, "db-0").is_some()));
        let first = (0..100).position(|number| chosen(&mut bases, &format!("web-{number}")).is_none());

        assert!(first.is_some_and(|number| (15..100).contains(&number)), "{first:?}");
    }
}

//! Which objects hold which keys, and which value of a key readers see.
//!
//! - **In:** for each object that changed, the pairs that the function returned for it.
//! - **Out:** the new holders of each key that changed, and the changes that readers see.
//! - **Knows nothing of:** events, locks, tasks, time.

use std::{cmp::Ordering, hash::Hash, mem, slice, sync::Arc};

use derive_where::derive_where;
use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::{
    Key, ResourceVersion,
    slots::{Hashed, Slot, Slots},
};

/// The pairs that the function returned for one object. If a key is there twice, its last value counts.
pub(super) type Pairs<K, V> = SmallVec<[(K, V); 1]>;

/// The keys that readers see, with their holders.
pub(super) type Table<K, V> = HashMap<K, Holders<V>>;

/// Returns `Greater` if the first value is preferred. Users' code.
pub(super) type Prefer<V> = Box<dyn Fn(&V, &V) -> Ordering + Send>;

/// The pairs of all objects. Only the derivation has them; readers have the [`Table`].
#[derive_where(Default)]
pub(super) struct DerivedObjects<K, V> {
    /// The objects that have any pairs.
    ///
    /// INV-E1: the table, with the edits since the last commit applied, has exactly their pairs.
    objects: Slots<DerivedObject<K, V>>,
    edits: Vec<Edit<K, V>>,
}

/// The pairs of one object.
struct DerivedObject<K, V> {
    /// The position of its informer. Objects of different informers may have the same name.
    source: usize,
    key: Key,
    pairs: SmallVec<[(K, Arc<V>); 1]>,
}

impl<K, V> Hashed for DerivedObject<K, V> {
    fn table_hash(&self) -> u64 {
        self.key.table_hash()
    }
}

/// What has become of one key of an object.
struct Edit<K, V> {
    key: K,
    object: Slot,
    /// The value, and the version of the object; `None` if the object does not hold the key any more.
    held: Option<(Arc<V>, ResourceVersion)>,
}

/// An object that holds a key, and its value.
#[derive_where(Clone)]
pub(super) struct Holder<V> {
    object: Slot,
    value: Arc<V>,
}

/// The holders of one key.
#[derive_where(Clone)]
pub(super) enum Holders<V> {
    One(Holder<V>),
    /// Boxed, because it is rare.
    Several(Box<Rivals<V>>),
}

/// Several objects that hold one key.
#[derive_where(Clone)]
pub(super) struct Rivals<V> {
    /// In the order in which they took the key.
    holders: Vec<Holder<V>>,
    /// The position of the holder whose value readers see.
    winner: usize,
}

/// A change of the value of one key, as readers see it.
#[derive_where(Clone)]
pub(super) struct Transition<V> {
    pub(super) before: Option<Arc<V>>,
    pub(super) after: Option<Arc<V>>,
}

impl<V: PartialEq> Transition<V> {
    /// Whether the value has changed.
    pub(super) fn is_visible(&self) -> bool {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => !Arc::ptr_eq(before, after) && before != after,
            (None, None) => false,
            (Some(_), None) | (None, Some(_)) => true,
        }
    }
}

/// What a commit writes, key by key, and what readers see of it.
pub(super) struct Commit<K, V> {
    /// The new holders of each key; `None` if it has none.
    pub(super) writes: Vec<(K, Option<Holders<V>>)>,
    /// The keys whose visible value changed.
    pub(super) transitions: Vec<(K, Transition<V>)>,
}

impl<K: Clone + Eq + Hash, V: PartialEq> DerivedObjects<K, V> {
    /// Notes the pairs of an object in its present state; none if it was deleted.
    pub(super) fn set(&mut self, source: usize, key: &Key, version: &ResourceVersion, pairs: Pairs<K, V>) {
        let is_it = |object: &DerivedObject<K, V>| object.source == source && object.key == *key;
        let slot = match self.objects.find(key.table_hash(), is_it) {
            Some(slot) => slot,
            None if pairs.is_empty() => return,
            None => self.objects.insert(DerivedObject { source, key: key.clone(), pairs: SmallVec::new() }),
        };
        let Some(object) = self.objects.get_mut(slot) else { return };
        // Most events change no pair.
        if object.pairs.iter().map(|(key, value)| (key, &**value)).eq(pairs.iter().map(|(key, value)| (key, value))) {
            return;
        }
        let mut old: HashMap<K, Arc<V>> = mem::take(&mut object.pairs).into_iter().collect();
        object.pairs.reserve_exact(pairs.len());
        for (key, value) in pairs {
            let value = match old.remove(&key) {
                Some(same) if *same == value => same,
                Some(_) | None => {
                    let value = Arc::new(value);
                    let held = Some((Arc::clone(&value), version.clone()));
                    self.edits.push(Edit { key: key.clone(), object: slot, held });
                    value
                }
            };
            object.pairs.push((key, value));
        }
        if object.pairs.is_empty() {
            self.objects.remove(slot);
        }
        self.edits.extend(old.into_keys().map(|key| Edit { key, object: slot, held: None }));
    }

    /// Combines all edits since the last commit, key by key.
    pub(super) fn commit(&mut self, table: &Table<K, V>, prefer: Option<&Prefer<V>>) -> Commit<K, V> {
        let mut keys: HashMap<K, HoldersInCommit<V>> = HashMap::new();
        // Frees the memory: a list has many edits.
        for Edit { key, object, held } in mem::take(&mut self.edits) {
            let holders = keys.entry(key).or_insert_with_key(|key| HoldersInCommit::new(table.get(key)));
            holders.apply(object, held);
        }
        let mut commit = Commit { writes: Vec::with_capacity(keys.len()), transitions: Vec::new() };
        for (key, holders) in keys {
            let winner = |holders: &Holders<V>| Arc::clone(holders.winner());
            let (before, holders) = (table.get(&key).map(winner), holders.into_holders(prefer));
            let transition = Transition { before, after: holders.as_ref().map(winner) };
            if transition.is_visible() {
                commit.transitions.push((key.clone(), transition));
            }
            commit.writes.push((key, holders));
        }
        commit
    }
}

/// The holders of a key while a commit is made.
struct HoldersInCommit<V> {
    /// The holders of the table that are left.
    earlier: Vec<Holder<V>>,
    /// The objects that took the key in this commit, each with its version then.
    new: Vec<(ResourceVersion, Holder<V>)>,
}

impl<V> HoldersInCommit<V> {
    fn new(holders: Option<&Holders<V>>) -> Self {
        Self { earlier: holders.map_or_else(Vec::new, |holders| holders.all().to_vec()), new: Vec::new() }
    }

    fn apply(&mut self, object: Slot, held: Option<(Arc<V>, ResourceVersion)>) {
        let Some((value, version)) = held else {
            self.earlier.retain(|holder| holder.object != object);
            self.new.retain(|(_, holder)| holder.object != object);
            return;
        };
        let new = self.new.iter_mut().map(|(_, holder)| holder);
        match self.earlier.iter_mut().chain(new).find(|holder| holder.object == object) {
            Some(holder) => holder.value = value,
            None => self.new.push((version, Holder { object, value })),
        }
    }

    fn into_holders(self, prefer: Option<&Prefer<V>>) -> Option<Holders<V>> {
        let Self { earlier: mut holders, mut new } = self;
        // The events of a watch arrive in the order of their versions, and stay in it; the objects of a list are in no order. Versions that are no
        // numbers have none, either.
        if new.iter().all(|(version, _)| version.compare(version).is_some()) {
            new.sort_by(|(one, _), (other, _)| one.compare(other).unwrap_or(Ordering::Equal));
        }
        holders.extend(new.into_iter().map(|(_, holder)| holder));
        if holders.len() < 2 {
            return holders.pop().map(Holders::One);
        }
        // `max_by` returns the last one of values that are equal.
        let by_preference = |one: &usize, other: &usize| match prefer {
            Some(prefer) => prefer(&holders[*one].value, &holders[*other].value),
            None => Ordering::Equal,
        };
        let winner = (0..holders.len()).max_by(by_preference).unwrap_or_default();
        Some(Holders::Several(Box::new(Rivals { holders, winner })))
    }
}

impl<V> Holders<V> {
    /// The value that readers see.
    pub(super) fn winner(&self) -> &Arc<V> {
        match self {
            Self::One(holder) => &holder.value,
            Self::Several(rivals) => &rivals.holders[rivals.winner].value,
        }
    }

    /// In the order in which they took the key.
    fn all(&self) -> &[Holder<V>] {
        match self {
            Self::One(holder) => slice::from_ref(holder),
            Self::Several(rivals) => &rivals.holders,
        }
    }

    /// All values: the one that readers see, then the others, the last taken first.
    pub(super) fn values(&self) -> Vec<Arc<V>> {
        let winner = self.winner();
        let others = self.all().iter().rev().map(|holder| &holder.value).filter(|value| !Arc::ptr_eq(value, winner));
        std::iter::once(winner).chain(others).cloned().collect()
    }
}

//! Which objects hold which keys, and which value of a key readers see.
//!
//! - **In:** for each object that changed, the pairs that the function returned for it.
//! - **Out:** the new holders of each key that changed, and the changes that readers see.
//! - **Knows nothing of:** events, locks, tasks, time.

use std::{cmp::Ordering, hash::Hash, mem, slice, sync::Arc};

use derive_where::derive_where;
use hashbrown::{HashMap, hash_map::Entry};
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
    edits: Vec<(K, Edit<V>)>,
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
struct Edit<V> {
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
                    self.edits.push((key.clone(), Edit { object: slot, held }));
                    value
                }
            };
            object.pairs.push((key, value));
        }
        if object.pairs.is_empty() {
            self.objects.remove(slot);
        }
        self.edits.extend(old.into_keys().map(|key| (key, Edit { object: slot, held: None })));
    }

    /// Combines all edits since the last commit, key by key.
    pub(super) fn commit(&mut self, table: &Table<K, V>, prefer: Option<&Prefer<V>>) -> Commit<K, V> {
        let mut keys: HashMap<K, SmallVec<[Edit<V>; 1]>> = HashMap::new();
        // Frees the memory: a list has many edits.
        for (key, edit) in mem::take(&mut self.edits) {
            keys.entry(key).or_default().push(edit);
        }
        let mut commit = Commit { writes: Vec::with_capacity(keys.len()), transitions: Vec::new() };
        for (key, edits) in keys {
            let winner = |holders: &Holders<V>| Arc::clone(holders.winner());
            let before = table.get(&key);
            let holders = Holders::new(edited(before.map_or(&[], Holders::all), edits), prefer);
            let transition = Transition { before: before.map(winner), after: holders.as_ref().map(winner) };
            if transition.is_visible() {
                commit.transitions.push((key.clone(), transition));
            }
            commit.writes.push((key, holders));
        }
        commit
    }
}

/// Returns the holders of a key after these edits, in the order in which they took the key.
fn edited<V>(before: &[Holder<V>], edits: impl IntoIterator<Item = Edit<V>>) -> Vec<Holder<V>> {
    // With those that leave: removing each would take time in proportion to their number.
    let mut holders = before.to_vec();
    // The versions in which objects took the key, of the holders after `before`.
    let mut versions = Vec::new();
    // The position of each object that holds the key.
    let mut positions: HashMap<Slot, usize> = holders.iter().map(|holder| holder.object).zip(0..).collect();
    for Edit { object, held } in edits {
        match (held, positions.entry(object)) {
            (Some((value, _)), Entry::Occupied(position)) => holders[*position.get()].value = value,
            (Some((value, version)), Entry::Vacant(vacant)) => {
                vacant.insert(holders.len());
                holders.push(Holder { object, value });
                versions.push(version);
            }
            (None, Entry::Occupied(position)) => drop(position.remove()),
            (None, Entry::Vacant(_)) => {}
        }
    }
    let holds = |(holder, position): &(Holder<V>, usize)| positions.get(&holder.object) == Some(position);
    let new = holders.split_off(before.len()).into_iter().zip(before.len()..).zip(versions);
    let mut new: Vec<_> = new.filter(|(holder, _)| holds(holder)).collect();
    // The events of a watch arrive in the order of their versions, and stay in it; the objects of a list are in no order. Versions that are no
    // numbers have none, either.
    if new.iter().all(|(_, version)| version.compare(version).is_some()) {
        new.sort_by(|(_, one), (_, other)| one.compare(other).unwrap_or(Ordering::Equal));
    }
    let earlier = holders.into_iter().zip(0..).filter(holds);
    earlier.chain(new.into_iter().map(|(holder, _)| holder)).map(|(holder, _)| holder).collect()
}

impl<V> Holders<V> {
    /// `None` if there are no holders.
    fn new(mut holders: Vec<Holder<V>>, prefer: Option<&Prefer<V>>) -> Option<Self> {
        if holders.len() < 2 {
            return holders.pop().map(Self::One);
        }
        // `max_by` returns the last one of values that are equal.
        let by_preference = |one: &usize, other: &usize| match prefer {
            Some(prefer) => prefer(&holders[*one].value, &holders[*other].value),
            None => Ordering::Equal,
        };
        let winner = (0..holders.len()).max_by(by_preference).unwrap_or_default();
        Some(Self::Several(Box::new(Rivals { holders, winner })))
    }

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

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, time::Instant};

    use super::*;

    type Objects = DerivedObjects<u32, u32>;

    fn set(objects: &mut Objects, name: u32, version: u32, pairs: impl IntoIterator<Item = (u32, u32)>) {
        let (key, version) = (Key::cluster_scoped(&name.to_string()), ResourceVersion::new(version.to_string()));
        objects.set(0, &key, &version, pairs.into_iter().collect());
    }

    fn commit(objects: &mut Objects, table: &mut Table<u32, u32>) {
        for (key, holders) in objects.commit(table, None).writes {
            match holders {
                Some(holders) => drop(table.insert(key, holders)),
                None => drop(table.remove(&key)),
            }
        }
    }

    #[test]
    fn the_table_has_exactly_the_pairs_of_the_objects() {
        let (mut objects, mut table, mut random) = (Objects::default(), Table::default(), fastrand::Rng::with_seed(1));
        for version in 0..3000 {
            let keys: BTreeSet<u32> = (0..random.usize(0..4)).map(|_| random.u32(0..6)).collect();
            set(&mut objects, random.u32(0..20), version, keys.into_iter().map(|key| (key, random.u32(0..3))));
            if random.bool() {
                continue;
            }
            commit(&mut objects, &mut table);
            let of_object = |(slot, object): (Slot, &DerivedObject<u32, u32>)| {
                object.pairs.iter().map(|(key, value)| (*key, slot, Arc::as_ptr(value))).collect::<Vec<_>>()
            };
            let of_holders = |(key, holders): (&u32, &Holders<u32>)| {
                let all = holders.all().iter();
                all.map(|holder| (*key, holder.object, Arc::as_ptr(&holder.value))).collect::<Vec<_>>()
            };
            let pairs: BTreeSet<_> = objects.objects.occupied().flat_map(of_object).collect();
            let held: Vec<_> = table.iter().flat_map(of_holders).collect();
            assert_eq!((held.len(), held.into_iter().collect()), (pairs.len(), pairs), "INV-E1");
        }
    }

    #[test]
    fn a_commit_in_which_many_objects_take_or_leave_one_key_takes_linear_time() {
        let time = |count| {
            let (mut objects, mut table) = (Objects::default(), Table::default());
            let begun = Instant::now();
            for is_held in [true, false] {
                (0..count).for_each(|name| set(&mut objects, name, name, is_held.then_some((7, name))));
                commit(&mut objects, &mut table);
            }
            begun.elapsed()
        };
        // Other programs use the processor as well, so a slow attempt proves nothing; quadratic time is never fast.
        let times: Vec<_> = (0..10).map(|_| (time(2_000), time(16_000))).collect();

        assert!(times.iter().any(|(few, many)| *many < *few * 24), "8 times as many objects took {times:?}");
    }
}

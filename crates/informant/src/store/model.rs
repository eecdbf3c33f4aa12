//! Compares the cache with a simple model: one map, from which everything else is computed.

use std::collections::{BTreeMap, BTreeSet};

use proptest::{
    prelude::{Just, Strategy},
    prop_oneof,
};

use super::{Indexer, Lister, WriteBatch};
use crate::{Cached, Key, Uid, delta::Relist, object::Identity, random};

/// The number of names: large enough that a value can have more objects than a short list of slots holds.
const NAMES: u8 = 40;

/// An object is a list of tags; "boom" makes one of the index functions panic.
type Tags = Vec<&'static str>;
type Content = BTreeMap<Key, Cached<Tags>>;

#[derive(Debug, Clone)]
enum Step {
    Apply(Vec<Write>),
    Replace(Vec<(u8, Tags)>, Vec<u8>),
    AddIndex,
    TakeSnapshot,
    DropSnapshot,
}

#[derive(Debug, Clone)]
enum Write {
    Upsert(u8, Tags),
    Remove(u8),
}

/// The name of an index, and its function.
type NamedIndex = (&'static str, fn(&Tags) -> Vec<String>);

/// The indexes, in the order in which they are added.
const INDEXES: [NamedIndex; 3] = [
    ("tag", |tags| tags.iter().map(ToString::to_string).collect()),
    ("count", |tags| vec![tags.len().to_string()]),
    ("fragile", |tags| {
        assert!(!tags.contains(&"boom"), "on purpose");
        tags.iter().take(1).map(ToString::to_string).collect()
    }),
];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = || 0..NAMES;
    let tag = proptest::sample::select(vec!["a", "b", "c", "d", "boom"]);
    let tags = || proptest::collection::vec(tag.clone(), 0..4);
    let write = prop_oneof![
        3 => (name(), tags()).prop_map(|(name, tags)| Write::Upsert(name, tags)),
        1 => name().prop_map(Write::Remove),
    ];
    let listed = proptest::collection::vec((name(), tags()), 0..40);
    let step = prop_oneof![
        6 => proptest::collection::vec(write, 0..25).prop_map(Step::Apply),
        2 => (listed, proptest::collection::vec(name(), 0..2)).prop_map(|(listed, kept)| Step::Replace(listed, kept)),
        1 => Just(Step::AddIndex),
        1 => Just(Step::TakeSnapshot),
        1 => Just(Step::DropSnapshot),
    ];
    proptest::collection::vec(step, 1..20)
}

struct Run {
    indexer: Indexer<Tags>,
    content: Content,
    version: u64,
    indexes: usize,
    snapshots: Vec<(Lister<Tags>, Content, u64, usize)>,
}

impl Run {
    fn step(&mut self, step: Step) {
        self.version += 1;
        match step {
            Step::Apply(writes) => {
                let mut batch = WriteBatch::new();
                let mut expected = Vec::new();
                for write in writes {
                    match write {
                        Write::Upsert(name, tags) => {
                            let object = object(name, tags);
                            batch.upsert(object.clone());
                            expected.push((self.content.insert(key(name), object.clone()), Some(object)));
                        }
                        Write::Remove(name) => {
                            batch.remove(key(name));
                            expected.push((self.content.remove(&key(name)), None));
                        }
                    }
                }
                batch.at(self.version.to_string().as_str().into());
                let applied = self.indexer.apply(batch);
                let replacements =
                    applied.replacements.into_iter().map(|replacement| (replacement.old, replacement.new));
                assert_eq!(pointers(replacements), pointers(expected));
            }
            Step::Replace(listed, kept) => {
                let before = self.content.clone();
                let objects: Vec<_> = listed.into_iter().map(|(name, tags)| object(name, tags)).collect();
                // Equal objects are replaced by the stored ones, as in a relist that reuses unchanged objects.
                let reuse = |object: Cached<Tags>| match before.get(object.key()) {
                    Some(stored) if stored.object() == object.object() => stored.clone(),
                    _ => object,
                };
                let objects: Vec<_> = objects.into_iter().map(reuse).collect();
                self.content.retain(|key, _| kept.iter().any(|name| key == &self::key(*name)));
                self.content.extend(objects.iter().map(|object| (object.key().clone(), object.clone())));
                let relist = Relist {
                    version: self.version.to_string().as_str().into(),
                    objects: objects.clone(),
                    quarantined: kept.iter().map(|name| (key(*name), Uid::default())).collect(),
                    history_changed: false,
                };
                let applied = self.indexer.replace(&relist);
                let removed = before.iter().filter(|(key, _)| !self.content.contains_key(*key));
                let removed: BTreeSet<_> = removed.map(|(_, object)| pointer(object)).collect();
                let (gone, listed): (Vec<_>, Vec<_>) =
                    applied.replacements.into_iter().partition(|replacement| replacement.new.is_none());
                let gone: BTreeSet<_> =
                    gone.iter().filter_map(|replacement| replacement.old.as_ref()).map(pointer).collect();
                assert_eq!(gone, removed);
                let last_of_each = objects.iter().enumerate().filter(|(position, object)| {
                    !objects[position + 1..].iter().any(|later| later.key() == object.key())
                });
                let expected =
                    last_of_each.map(|(_, object)| (before.get(object.key()).cloned(), Some(object.clone())));
                assert_eq!(
                    pointers(listed.into_iter().map(|replacement| (replacement.old, replacement.new))),
                    pointers(expected)
                );
            }
            Step::AddIndex => {
                if let Some((name, values)) = INDEXES.get(self.indexes) {
                    self.indexer.add_index(name, move |object| values(object)).unwrap();
                    self.indexes += 1;
                }
                self.version -= 1;
            }
            Step::TakeSnapshot => {
                self.version -= 1;
                self.snapshots.push((
                    self.indexer.lister().snapshot(),
                    self.content.clone(),
                    self.version,
                    self.indexes,
                ));
            }
            Step::DropSnapshot => {
                self.version -= 1;
                self.snapshots.pop();
            }
        }
        self.indexer.check_invariants();
        check(&self.indexer.lister().snapshot(), &self.content, self.version, self.indexes);
        for (snapshot, content, version, indexes) in &self.snapshots {
            check(snapshot, content, *version, *indexes);
        }
    }
}

fn check(snapshot: &Lister<Tags>, content: &Content, version: u64, indexes: usize) {
    assert_eq!(snapshot.version().map_or(0, |version| version.as_str().parse().unwrap()), version);
    assert_eq!(snapshot.len(), content.len());
    for name in 0..NAMES {
        assert_eq!(snapshot.get(&key(name)).as_ref().map(pointer), content.get(&key(name)).map(pointer));
    }
    for (index, values_of) in &INDEXES[..indexes] {
        let mut expected = BTreeMap::<String, Vec<Key>>::new();
        for (key, object) in content {
            let is_fragile = *index == "fragile" && object.contains(&"boom");
            let values = if is_fragile { Vec::new() } else { values_of(object) };
            for value in values.into_iter().collect::<BTreeSet<_>>() {
                expected.entry(value).or_default().push(key.clone());
            }
        }
        let values: BTreeSet<_> = snapshot.index(index).unwrap().values().iter().map(ToString::to_string).collect();
        assert_eq!(values, expected.keys().cloned().collect());
        for (value, keys) in expected {
            assert_eq!(snapshot.index(index).unwrap().keys(&value), keys);
            let mut found = snapshot.index(index).unwrap().get(&value);
            found.sort_by(|a, b| a.key().cmp(b.key()));
            assert_eq!(found.iter().map(|object| object.key().clone()).collect::<Vec<_>>(), keys);
        }
    }
    for (index, _) in &INDEXES[indexes..] {
        assert!(snapshot.index(index).is_err());
    }
}

fn key(name: u8) -> Key {
    Key::namespaced("n", &name.to_string())
}

fn object(name: u8, tags: Tags) -> Cached<Tags> {
    Cached::new(Identity::of_key(key(name)), tags)
}

fn pointer(object: &Cached<Tags>) -> *const Tags {
    object.object()
}

type Pair = (Option<Cached<Tags>>, Option<Cached<Tags>>);

fn pointers(pairs: impl IntoIterator<Item = Pair>) -> Vec<String> {
    let pointers = |(old, new): Pair| (old.as_ref().map(pointer), new.as_ref().map(pointer));
    pairs.into_iter().map(|pair| format!("{:?}", pointers(pair))).collect()
}

// P6, IX-06, IX-08 to IX-11, IX-15, IX-17 to IX-19, IX-24, IX-30, IX-31
#[test]
fn the_cache_agrees_with_its_model() {
    random::check(1500, steps(), |steps| {
        let (content, snapshots) = (Content::new(), Vec::new());
        let mut run = Run { indexer: Indexer::new(), content, version: 0, indexes: 0, snapshots };
        steps.into_iter().for_each(|step| run.step(step));
    });
}

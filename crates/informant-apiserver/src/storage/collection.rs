//! The objects of one kind, and the history of their changes.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
    sync::Arc,
};

use crate::{
    objects::{
        Key, Object,
        encoded::{Change, Encoded},
    },
    registry::kind::Kind,
};

/// The objects of one kind.
pub(crate) struct Collection {
    kind: Kind,
    objects: BTreeMap<Key, Arc<Encoded>>,
    /// All changes after the version `forgotten`, ordered by version.
    history: VecDeque<Event>,
    /// The sum of [`Event::bytes`] over the history.
    history_bytes: usize,
    /// The version of the last change that the history no longer has.
    forgotten: u64,
    ended: bool,
    /// The number of open watches.
    pub(crate) watchers: usize,
    /// The value of [`Storage::cuts`](super::Storage::cuts) when watches of this collection were last cut. Watches that
    /// were opened before that end.
    pub(crate) last_cut: u32,
}

/// One change.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) version: u64,
    pub(crate) key: Key,
    pub(crate) change: Change,
    /// The new state; for a delete, the last state with the version of the delete.
    pub(crate) object: Arc<Encoded>,
    /// The state before the change.
    pub(crate) previous: Option<Arc<Encoded>>,
}

/// The limits of a collection's history. The last change is kept even if it exceeds a limit, so that watches receive it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HistoryLimits {
    /// The number of changes.
    pub(crate) changes: usize,
    /// The number of JSON bytes, not counting the current objects.
    pub(crate) bytes: usize,
}

impl HistoryLimits {
    pub(super) const NONE: Self = Self { changes: usize::MAX, bytes: usize::MAX };
}

impl Event {
    /// The bytes of JSON that the history holds because of this change: the replaced state and the last state of a
    /// deleted object. A new state is not counted: it is the current object, or the replaced state of a later change.
    fn bytes(&self) -> usize {
        let replaced = self.previous.as_ref().map_or(0, |previous| previous.len());
        match self.change {
            Change::Added | Change::Modified => replaced,
            Change::Deleted => replaced + self.object.len(),
        }
    }
}

/// The history no longer has the requested version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forgotten;

impl Collection {
    pub(crate) fn new(kind: Kind, version: u64) -> Self {
        let (objects, history) = (BTreeMap::new(), VecDeque::new());
        Self { kind, objects, history, history_bytes: 0, forgotten: version, ended: false, watchers: 0, last_cut: 0 }
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Encoded>> {
        self.objects.get(key)
    }

    pub(crate) fn all(&self) -> &BTreeMap<Key, Arc<Encoded>> {
        &self.objects
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = (&Key, &Arc<Encoded>)> {
        self.objects.iter()
    }

    /// The keys of all objects in a namespace.
    pub(crate) fn keys_in(&self, namespace: &str) -> impl Iterator<Item = &Key> {
        let from = Key::from_text(&format!("{namespace}/"));
        self.objects.range(from..).map(|(key, _)| key).take_while(move |key| key.namespace() == namespace)
    }

    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    pub(super) fn write(
        &mut self,
        version: u64,
        key: Key,
        change: Change,
        mut object: Object,
        limits: HistoryLimits,
    ) -> Arc<Encoded> {
        object.set("resourceVersion", version.to_string());
        let object = Arc::new(Encoded::new(&self.kind, change, &object));
        let previous = match change {
            Change::Added | Change::Modified => self.objects.insert(key.clone(), object.clone()),
            Change::Deleted => self.objects.remove(&key),
        };
        let event = Event { version, key, change, object: object.clone(), previous };
        self.history_bytes += event.bytes();
        self.history.push_back(event);
        self.drop_changes_beyond(limits);
        object
    }

    /// Drops the oldest changes until the history is within the limits.
    fn drop_changes_beyond(&mut self, limits: HistoryLimits) {
        while self.history.len() > 1
            && (self.history.len() > limits.changes || self.history_bytes > limits.bytes)
            && let Some(oldest) = self.history.pop_front()
        {
            self.history_bytes -= oldest.bytes();
            self.forgotten = oldest.version;
        }
    }

    /// All changes after this version.
    pub(crate) fn changes_after(&self, version: u64) -> Result<impl DoubleEndedIterator<Item = &Event>, Forgotten> {
        if version < self.forgotten {
            return Err(Forgotten);
        }
        let begin = self.history.partition_point(|event| event.version <= version);
        Ok(self.history.range(begin..))
    }

    /// The objects at this version, ordered by key, starting after the key `behind`.
    pub(crate) fn objects_at(
        &self,
        version: u64,
        behind: Option<&Key>,
    ) -> Result<impl Iterator<Item = (&Key, &Arc<Encoded>)>, Forgotten> {
        // The oldest change after the version comes last and wins: its previous state is the one at that version.
        let mut undone = BTreeMap::new();
        for event in self.changes_after(version)?.rev() {
            undone.insert(&event.key, event.previous.as_ref());
        }
        let from = (behind.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let changed = undone.clone();
        let mut same = self.objects.range::<Key, _>(from).filter(move |(key, _)| !changed.contains_key(key)).peekable();
        let mut restored = undone
            .into_iter()
            .filter(move |(key, _)| behind.is_none_or(|behind| *key > behind))
            .filter_map(|(key, object)| Some((key, object?)))
            .peekable();
        Ok(std::iter::from_fn(move || match (same.peek(), restored.peek()) {
            (Some((left, _)), Some((right, _))) if left < right => same.next(),
            (_, Some(_)) => restored.next(),
            (_, None) => same.next(),
        }))
    }

    pub(super) fn restore(&mut self, objects: BTreeMap<Key, Arc<Encoded>>, version: u64) {
        self.objects = objects;
        self.history.clear();
        self.history_bytes = 0;
        self.forgotten = version;
    }
}

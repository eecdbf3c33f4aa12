//! The objects of a live source and the events that changed them, as plain data.
//!
//! - **In:** changes of objects, and ends of watches, in the order of the test.
//! - **Out:** the current list; for each watch, its next event or its end.
//! - **Knows nothing of:** locks, waiting, streams.

use std::{collections::BTreeMap, sync::Arc};

use derive_where::derive_where;
use serde_json::{Value, json};

use super::super::{Item, SourceError, SourceEvent};
use crate::{Key, ResourceVersion, object::Identity};

/// The state and the history of a live source.
pub(super) struct Timeline<O> {
    objects: BTreeMap<Key, ObjectState<O>>,
    /// All events since the source was created, oldest first.
    log: Vec<LoggedEvent<O>>,
    /// The version of the newest event.
    version: ResourceVersion,
    /// The largest version that is a number; versions are counted from it.
    last_number: u64,
    /// How many uids the source has assigned.
    uids: u64,
    endings: Vec<Ending>,
    /// How many of the newest endings wait for a watch to be opened. Zero while `unended` is not zero.
    unassigned: usize,
    /// How many open watches have no ending yet.
    unended: usize,
}

/// A state of an object.
#[derive_where(Clone)]
pub(super) struct ObjectState<O> {
    pub(super) identity: Identity,
    pub(super) content: ObjectContent<O>,
}

/// The content of an object, from which any number of items can be made.
#[derive_where(Clone)]
pub(super) enum ObjectContent<O> {
    Json(Arc<Value>),
    Ready(Arc<MakeItem<O>>),
}

/// Copies a decoded object into an item with this identity.
type MakeItem<O> = dyn Fn(&Identity) -> Item<O> + Send + Sync;

/// A change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangeKind {
    Added,
    Modified,
    Deleted,
}

/// An event of the history.
#[derive_where(Clone)]
pub(super) struct LoggedEvent<O> {
    version: ResourceVersion,
    /// `None` for a bookmark.
    change: Option<(ChangeKind, ObjectState<O>)>,
}

/// The end of all watches that were open at one time.
struct Ending {
    /// How many events of the log these watches deliver before they end.
    position: usize,
    /// `None` for a clean end.
    error: Option<SourceError>,
}

/// How much of the history one watch has delivered.
#[derive(Debug)]
pub(super) struct Cursor {
    /// The index of the next event in the log.
    position: usize,
    /// The index of the watch's ending, which may not exist yet.
    ending: usize,
}

/// The next piece of a watch.
pub(super) enum NextEvent<O> {
    Event(LoggedEvent<O>),
    /// The watch has delivered everything and stays open.
    Nothing,
    /// The watch ends, with an error or cleanly.
    End(Option<SourceError>),
}

impl<O> Timeline<O> {
    /// A source without objects, at version 1: version 0 has a meaning of its own in requests.
    pub(super) fn new() -> Self {
        Self {
            objects: BTreeMap::new(),
            log: Vec::new(),
            version: "1".into(),
            last_number: 1,
            uids: 0,
            endings: Vec::new(),
            unassigned: 0,
            unended: 0,
        }
    }

    /// The current version and objects, ordered by key.
    pub(super) fn list(&self) -> (ResourceVersion, Vec<ObjectState<O>>) {
        (self.version.clone(), self.objects.values().cloned().collect())
    }

    /// The newest version.
    pub(super) fn version(&self) -> ResourceVersion {
        self.version.clone()
    }

    /// Applies a change and returns its version. A missing uid becomes the uid of the object's present state, or a new one; a missing
    /// version becomes the next number.
    pub(super) fn change(&mut self, change: ChangeKind, mut state: ObjectState<O>) -> ResourceVersion {
        let Identity { key, uid, version } = &mut state.identity;
        if uid.is_empty() {
            *uid = match self.objects.get(key) {
                Some(present) => present.identity.uid.clone(),
                None => self.new_uid(),
            };
        }
        *version = self.advance(version);
        let version = version.clone();
        match change {
            ChangeKind::Added | ChangeKind::Modified => self.objects.insert(state.identity.key.clone(), state.clone()),
            ChangeKind::Deleted => self.objects.remove(&state.identity.key),
        };
        self.log.push(LoggedEvent { version: version.clone(), change: Some((change, state)) });
        version
    }

    /// Deletes an object in its present state and returns the version of the deletion; `None` if there is no such object.
    pub(super) fn delete(&mut self, key: &Key) -> Option<ResourceVersion> {
        let present = self.objects.get(key)?;
        let identity = Identity { version: ResourceVersion::default(), ..present.identity.clone() };
        let state = ObjectState { identity, content: present.content.clone() };
        Some(self.change(ChangeKind::Deleted, state))
    }

    /// Records a bookmark.
    pub(super) fn bookmark(&mut self, version: &ResourceVersion) {
        let version = self.advance(version);
        self.log.push(LoggedEvent { version, change: None });
    }

    /// Ends all open watches; if none is open, the next one that is opened.
    pub(super) fn end(&mut self, error: Option<SourceError>) {
        self.endings.push(Ending { position: self.log.len(), error });
        match self.unended {
            0 => self.unassigned += 1,
            _ => self.unended = 0,
        }
    }

    /// Opens a watch of the events after a version.
    pub(super) fn open_after(&mut self, version: &ResourceVersion) -> Result<Cursor, SourceError> {
        let is_newer = |entry: &LoggedEvent<O>| entry.version.compare(version).is_some_and(std::cmp::Ordering::is_gt);
        let position = match self.log.iter().rposition(|entry| entry.version == *version) {
            Some(known) => known + 1,
            None if self.version.compare(version).is_none() => return Err(SourceError::expired()),
            None => self.log.iter().position(is_newer).unwrap_or(self.log.len()),
        };
        Ok(self.open(position))
    }

    /// Opens a watch of the events after the current list.
    pub(super) fn open_at_end(&mut self) -> Cursor {
        self.open(self.log.len())
    }

    fn open(&mut self, position: usize) -> Cursor {
        let ending = self.endings.len() - self.unassigned;
        match self.unassigned {
            0 => self.unended += 1,
            _ => self.unassigned -= 1,
        }
        Cursor { position, ending }
    }

    /// Called when a watch was dropped.
    pub(super) fn close(&mut self, cursor: &Cursor) {
        if cursor.ending >= self.endings.len() {
            self.unended -= 1;
        }
    }

    /// The next piece of a watch.
    pub(super) fn next(&self, cursor: &mut Cursor) -> NextEvent<O> {
        let ending = self.endings.get(cursor.ending);
        let limit = ending.map_or(self.log.len(), |ending| ending.position);
        match self.log.get(cursor.position).filter(|_| cursor.position < limit) {
            Some(entry) => {
                cursor.position += 1;
                NextEvent::Event(entry.clone())
            }
            None => match ending {
                Some(ending) => NextEvent::End(ending.error.as_ref().map(SourceError::copy)),
                None => NextEvent::Nothing,
            },
        }
    }

    /// Makes a version the current one; an empty version becomes the next number.
    fn advance(&mut self, given: &ResourceVersion) -> ResourceVersion {
        self.last_number = match given.as_str().parse::<u64>() {
            Ok(number) => self.last_number.max(number),
            Err(_) if given.is_empty() => self.last_number + 1,
            Err(_) => self.last_number,
        };
        self.version = if given.is_empty() { self.last_number.into() } else { given.clone() };
        self.version.clone()
    }

    fn new_uid(&mut self) -> crate::Uid {
        self.uids += 1;
        crate::Uid::new(format!("uid-{}", self.uids))
    }
}

impl<O> ObjectState<O> {
    /// Makes an item of this state. Runs users' code: the `Clone` of a decoded object.
    pub(super) fn item(&self) -> Item<O> {
        match &self.content {
            ObjectContent::Ready(make) => make(&self.identity),
            ObjectContent::Json(value) => {
                let mut value = Value::clone(value);
                value["metadata"]["uid"] = json!(self.identity.uid.as_str());
                value["metadata"]["resourceVersion"] = json!(self.identity.version.as_str());
                value.into()
            }
        }
    }
}

impl<O> LoggedEvent<O> {
    /// Makes the event that a watch delivers. Runs users' code: the `Clone` of a decoded object.
    pub(super) fn event(&self) -> SourceEvent<O> {
        match &self.change {
            Some((ChangeKind::Added, state)) => SourceEvent::Added(state.item()),
            Some((ChangeKind::Modified, state)) => SourceEvent::Modified(state.item()),
            Some((ChangeKind::Deleted, state)) => SourceEvent::Deleted(state.item()),
            None => SourceEvent::Bookmark { version: self.version.clone(), ends_initial_events: false },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json_state(name: &str, version: &str) -> ObjectState<()> {
        let content = ObjectContent::Json(Arc::new(json!({"metadata": {"name": name}})));
        ObjectState {
            identity: Identity { version: version.into(), ..Identity::of_key(name.parse().unwrap()) },
            content,
        }
    }

    fn versions(timeline: &Timeline<()>, cursor: &mut Cursor) -> Vec<String> {
        let next = || match timeline.next(cursor) {
            NextEvent::Event(entry) => Some(entry.version.to_string()),
            NextEvent::Nothing | NextEvent::End(_) => None,
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn versions_are_counted_up_from_the_largest_given_one() {
        let mut timeline = Timeline::new();
        for version in ["", "40", "", "v1", ""] {
            timeline.change(ChangeKind::Added, json_state("a", version));
        }

        let mut cursor = timeline.open_after(&"1".into()).unwrap();
        assert_eq!(versions(&timeline, &mut cursor), ["2", "40", "41", "v1", "42"]);
    }

    #[test]
    fn an_object_keeps_its_uid_until_it_is_deleted() {
        let mut timeline = Timeline::new();
        timeline.change(ChangeKind::Added, json_state("a", ""));
        timeline.change(ChangeKind::Modified, json_state("a", ""));
        assert_eq!(timeline.objects[&"a".parse().unwrap()].identity.uid.as_str(), "uid-1");

        assert!(timeline.delete(&"a".parse().unwrap()).is_some());
        assert!(timeline.delete(&"a".parse().unwrap()).is_none());
        timeline.change(ChangeKind::Added, json_state("a", ""));
        assert_eq!(timeline.objects[&"a".parse().unwrap()].identity.uid.as_str(), "uid-2");
    }

    #[test]
    fn a_watch_replays_the_events_after_its_version() {
        let mut timeline = Timeline::new();
        for name in ["a", "b", "c"] {
            timeline.change(ChangeKind::Added, json_state(name, ""));
        }

        for (version, expected) in [("1", vec!["2", "3", "4"]), ("3", vec!["4"]), ("4", vec![]), ("9", vec![])] {
            let mut cursor = timeline.open_after(&version.into()).unwrap();
            assert_eq!(versions(&timeline, &mut cursor), expected, "after {version}");
        }
        assert_eq!(timeline.open_after(&"v1".into()).unwrap_err().code(), Some(410));
    }

    #[test]
    fn an_ending_applies_once_to_each_open_watch() {
        let mut timeline = Timeline::new();
        let ends = |timeline: &Timeline<()>, cursor: &mut Cursor| matches!(timeline.next(cursor), NextEvent::End(_));
        let (mut one, mut two) = (timeline.open_at_end(), timeline.open_at_end());

        timeline.end(Some(SourceError::expired()));
        timeline.change(ChangeKind::Added, json_state("a", ""));
        let mut three = timeline.open_at_end();

        // The event after the ending does not reach the watches that end.
        assert!(ends(&timeline, &mut one) && ends(&timeline, &mut two));
        assert!(!ends(&timeline, &mut three));
        for cursor in [one, two, three] {
            timeline.close(&cursor);
        }
        assert_eq!((timeline.unended, timeline.unassigned), (0, 0));
    }

    #[test]
    fn endings_without_an_open_watch_apply_to_the_next_ones() {
        let mut timeline = Timeline::<()>::new();
        timeline.end(None);
        timeline.end(Some(SourceError::expired()));

        let mut opened = [timeline.open_at_end(), timeline.open_at_end(), timeline.open_at_end()];

        let ends: Vec<_> = opened.iter_mut().map(|cursor| timeline.next(cursor)).collect();
        assert!(matches!(&ends[..], [NextEvent::End(None), NextEvent::End(Some(_)), NextEvent::Nothing]));
    }
}

//! The objects of a live source and the events that changed them, as plain data.
//!
//! - **In:** changes of objects, and ends of watches, in the order of the test.
//! - **Out:** the current objects; for each watch, a channel with its events and its end.
//! - **Knows nothing of:** locks, requests, streams.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, VecDeque},
};

use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::super::{SourceError, SourceEvent};
use crate::{Key, ResourceVersion};

/// The state and the history of a live source.
pub(super) struct Timeline {
    pub(super) objects: BTreeMap<Key, Value>,
    /// All events since the source was created, oldest first, with their versions.
    log: Vec<(ResourceVersion, LiveEvent)>,
    /// The version of the newest event.
    pub(super) version: ResourceVersion,
    /// The largest version that is a number; versions are counted from it.
    last_number: u64,
    /// How many uids the source has assigned.
    uids: u64,
    /// The watches that have not ended; some may be closed.
    watches: Vec<UnboundedSender<Result<LiveEvent, SourceError>>>,
    /// The ends of the watches that are opened next, with the number of events of the log before each.
    endings: VecDeque<(usize, Ending)>,
}

/// How a watch ends: with an error, or cleanly.
type Ending = Option<SourceError>;

/// A change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangeKind {
    Added,
    Modified,
    Deleted,
}

/// An event of the history.
#[derive(Clone, Debug)]
pub(super) enum LiveEvent {
    Change(ChangeKind, Value),
    Bookmark { version: ResourceVersion, ends_initial_events: bool },
}

impl Timeline {
    /// A source without objects, at version 1: version 0 has a meaning of its own in requests.
    pub(super) fn new() -> Self {
        let (objects, log, watches, endings) = (BTreeMap::new(), Vec::new(), Vec::new(), VecDeque::new());
        Self { objects, log, version: "1".into(), last_number: 1, uids: 0, watches, endings }
    }

    /// Applies a change and returns its version. A missing uid becomes the uid of the object's present state, or a new one; a missing
    /// version becomes the next number. An object that is deleted can be given as its key.
    pub(super) fn change(&mut self, change: ChangeKind, given: Value) -> Result<ResourceVersion, String> {
        let mut object = if let Value::String(key) = &given { self.find_deleted(change, key)? } else { given };
        let field = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
        if field("name").is_empty() {
            return Err(format!("an object with metadata.name was expected, found {object}"));
        }
        let key = Key::namespaced(field("namespace"), field("name"));
        let version = self.advance(&field("resourceVersion").into());
        if field("uid").is_empty() {
            let present = self.objects.get(&key).map(|present| present["metadata"]["uid"].clone());
            object["metadata"]["uid"] = present.unwrap_or_else(|| {
                self.uids += 1;
                json!(format!("uid-{}", self.uids))
            });
        }
        object["metadata"]["resourceVersion"] = json!(version.as_str());
        match change {
            ChangeKind::Added | ChangeKind::Modified => self.objects.insert(key, object.clone()),
            ChangeKind::Deleted => self.objects.remove(&key),
        };
        self.record(version.clone(), LiveEvent::Change(change, object));
        Ok(version)
    }

    /// Returns the present state of an object that is deleted by its key, without its version.
    fn find_deleted(&self, change: ChangeKind, key: &str) -> Result<Value, String> {
        let key: Key = key.parse().map_err(|error| format!("{error}"))?;
        if change != ChangeKind::Deleted {
            return Err(format!("{key} is only a key; pass an object"));
        }
        let present = self.objects.get(&key);
        let mut object = present.ok_or_else(|| format!("the source has no object {key}; add it first"))?.clone();
        object["metadata"]["resourceVersion"] = Value::Null;
        Ok(object)
    }

    /// Records a bookmark.
    pub(super) fn bookmark(&mut self, version: &ResourceVersion) {
        let version = self.advance(version);
        self.record(version.clone(), LiveEvent::Bookmark { version, ends_initial_events: false });
    }

    fn record(&mut self, version: ResourceVersion, event: LiveEvent) {
        self.watches.retain(|watch| watch.send(Ok(event.clone())).is_ok());
        self.log.push((version, event));
    }

    /// Ends all open watches; if none is open, the next one that is opened.
    pub(super) fn end(&mut self, ending: impl Fn() -> Ending) {
        self.watches.retain(|watch| !watch.is_closed());
        if self.watches.is_empty() {
            self.endings.push_back((self.log.len(), ending()));
        }
        for watch in self.watches.drain(..) {
            // A watch whose sender is dropped ends.
            ending().into_iter().for_each(|error| drop(watch.send(Err(error))));
        }
    }

    /// Opens a watch of the events after a version; without one, of the events after the current objects.
    pub(super) fn open(
        &mut self,
        after: Option<&ResourceVersion>,
    ) -> Result<UnboundedReceiver<Result<LiveEvent, SourceError>>, SourceError> {
        let begin = match after {
            None => self.log.len(),
            Some(after) => match self.log.iter().rposition(|(version, _)| version == after) {
                Some(known) => known + 1,
                None if self.version.compare(after).is_none() => return Err(SourceError::expired()),
                None => self.log.iter().take_while(|(version, _)| !is_newer(version, after)).count(),
            },
        };
        let (sender, receiver) = unbounded_channel();
        let ending = self.endings.pop_front();
        let end = ending.as_ref().map_or(self.log.len(), |(end, _)| *end);
        let events = self.log.get(begin..end).unwrap_or_default().iter().map(|(_, event)| Ok(event.clone()));
        let has_ending = ending.is_some();
        let error = ending.and_then(|(_, error)| error).map(Err);
        // The receiver exists, so no message is refused.
        events.chain(error).for_each(|message| drop(sender.send(message)));
        if !has_ending {
            self.watches.push(sender);
        }
        Ok(receiver)
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
}

fn is_newer(version: &ResourceVersion, than: &ResourceVersion) -> bool {
    version.compare(than) == Some(Ordering::Greater)
}

impl<O> From<LiveEvent> for SourceEvent<O> {
    fn from(event: LiveEvent) -> Self {
        match event {
            LiveEvent::Change(ChangeKind::Added, object) => Self::Added(object.into()),
            LiveEvent::Change(ChangeKind::Modified, object) => Self::Modified(object.into()),
            LiveEvent::Change(ChangeKind::Deleted, object) => Self::Deleted(object.into()),
            LiveEvent::Bookmark { version, ends_initial_events } => Self::Bookmark { version, ends_initial_events },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Watch = UnboundedReceiver<Result<LiveEvent, SourceError>>;

    fn object(name: &str, version: &str) -> Value {
        json!({"metadata": {"name": name, "resourceVersion": version}})
    }

    /// The versions of the events that a watch has received.
    fn versions(watch: &mut Watch) -> Vec<String> {
        let next = || match watch.try_recv() {
            Ok(Ok(LiveEvent::Change(_, object))) => Some(object["metadata"]["resourceVersion"].as_str()?.to_owned()),
            Ok(Ok(LiveEvent::Bookmark { version, .. })) => Some(version.to_string()),
            Ok(Err(_)) | Err(_) => None,
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn versions_are_counted_up_from_the_largest_given_one() {
        let mut timeline = Timeline::new();
        for version in ["", "40", "", "v1", ""] {
            timeline.change(ChangeKind::Added, object("a", version)).unwrap();
        }

        let mut watch = timeline.open(Some(&"1".into())).unwrap();
        assert_eq!(versions(&mut watch), ["2", "40", "41", "v1", "42"]);
    }

    #[test]
    fn an_object_keeps_its_uid_until_it_is_deleted() {
        let mut timeline = Timeline::new();
        let uid = |timeline: &Timeline| timeline.objects[&"a".parse().unwrap()]["metadata"]["uid"].clone();
        timeline.change(ChangeKind::Added, object("a", "")).unwrap();
        timeline.change(ChangeKind::Modified, object("a", "")).unwrap();
        assert_eq!(uid(&timeline), "uid-1");

        assert!(timeline.change(ChangeKind::Deleted, json!("a")).is_ok());
        assert!(timeline.change(ChangeKind::Deleted, json!("a")).is_err());
        timeline.change(ChangeKind::Added, object("a", "")).unwrap();
        assert_eq!(uid(&timeline), "uid-2");
    }

    #[test]
    fn a_watch_replays_the_events_after_its_version() {
        let mut timeline = Timeline::new();
        for name in ["a", "b", "c"] {
            timeline.change(ChangeKind::Added, object(name, "")).unwrap();
        }

        for (version, expected) in [("1", vec!["2", "3", "4"]), ("3", vec!["4"]), ("4", vec![]), ("9", vec![])] {
            let mut watch = timeline.open(Some(&version.into())).unwrap();
            assert_eq!(versions(&mut watch), expected, "after {version}");
        }
        assert_eq!(timeline.open(Some(&"v1".into())).unwrap_err().code(), Some(410));
    }

    #[test]
    fn an_ending_applies_once_to_each_open_watch() {
        let mut timeline = Timeline::new();
        let (mut one, mut two) = (timeline.open(None).unwrap(), timeline.open(None).unwrap());

        timeline.end(|| Some(SourceError::expired()));
        timeline.change(ChangeKind::Added, object("a", "")).unwrap();
        let mut three = timeline.open(None).unwrap();

        // The event after the ending does not reach the watches that end.
        for watch in [&mut one, &mut two] {
            assert!(matches!(watch.try_recv(), Ok(Err(_))) && watch.is_closed());
        }
        assert!(versions(&mut three).is_empty() && !three.is_closed());
    }

    #[test]
    fn endings_without_an_open_watch_apply_to_the_next_ones() {
        let mut timeline = Timeline::new();
        timeline.end(|| None);
        timeline.end(|| Some(SourceError::expired()));

        let mut opened = [timeline.open(None).unwrap(), timeline.open(None).unwrap(), timeline.open(None).unwrap()];

        let failed = opened.each_mut().map(|watch| matches!(watch.try_recv(), Ok(Err(_))));
        assert_eq!(failed, [false, true, false]);
        assert_eq!(opened.each_ref().map(UnboundedReceiver::is_closed), [true, true, false]);
    }
}

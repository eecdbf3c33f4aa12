//! Watches without streams: selects the next lines to send.
//!
//! - **In:** the start, a selector, and the storage at each call.
//! - **Out:** lines to send. A watch has no buffer: it reads the history of the collection from its position, and ends if the
//!   history no longer has that position.
//! - **Knows nothing of:** clocks, sockets, waiting.

pub(crate) mod stream;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;

use crate::{
    error::ApiError,
    objects::{
        Key,
        encoded::{Change, Encoded, Form, METADATA_HEAD},
    },
    registry::kind::Kind,
    select::Selector,
    storage::{Collection, CollectionId, Event, Storage},
};

/// The start of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// The changes after a version, which may be in the past or the future.
    After(u64),
    /// The changes from now on.
    Now,
    /// All objects as `ADDED` events, then the changes.
    State {
        /// The oldest acceptable version of the objects.
        at_least: Option<u64>,
        /// The objects must be at the newest version, even if a fault makes the server lag behind.
        fresh: bool,
    },
}

/// The parameters of a watch.
pub(crate) struct WatchQuery {
    pub(crate) start: Start,
    pub(crate) selector: Selector,
    pub(crate) form: Form,
    /// Sends a bookmark after the initial objects, if the watch starts with them.
    pub(crate) marks_end: bool,
    /// The number of versions that the watch stays behind.
    pub(crate) lag: u64,
}

/// An open watch: its selector and its position in the history.
pub(crate) struct Watch {
    collection: CollectionId,
    /// The number of times that the server had cut watches when this one was opened.
    cuts: u32,
    selector: Selector,
    form: Form,
    /// The initial objects that are not sent yet.
    initial: std::vec::IntoIter<Arc<Encoded>>,
    marker: Marker,
    /// The version up to which all changes are sent.
    sent_version: u64,
    /// The number of versions that the watch stays behind.
    lag: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marker {
    Due,
    None,
}

/// The next step of a watch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Send these lines.
    Lines(Vec<Bytes>),
    /// Wait for a change.
    Nothing,
    /// End the watch, for this reason.
    End(End),
}

/// The reason for the end of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The kind is no longer served.
    KindRemoved,
    /// The client reads too slowly: the history no longer has the next change.
    TooSlow,
    /// The connection breaks, because a test restored a backup or cut the watches.
    Broken,
}

/// The line of an `ERROR` event.
pub(crate) fn error_line(error: &ApiError) -> Bytes {
    format!("{}\n", json!({"type": "ERROR", "object": error.status()})).into()
}

/// The largest number of lines in a batch, so that no watch holds the lock of the storage for long.
const BATCH: usize = 128;

/// The number of bytes after which a batch ends. A watch whose client does not read holds one batch, in addition to the history.
const BATCH_BYTES: usize = 1024 * 1024;

/// The lines that a watch reads under one lock.
#[derive(Default)]
struct Batch {
    lines: Vec<Bytes>,
    bytes: usize,
}

impl Batch {
    fn push(&mut self, line: Bytes) {
        self.bytes += line.len();
        self.lines.push(line);
    }

    fn is_full(&self) -> bool {
        self.lines.len() >= BATCH || self.bytes >= BATCH_BYTES
    }
}

impl Watch {
    pub(crate) fn open(storage: &Storage, collection: CollectionId, query: WatchQuery) -> Result<Self, ApiError> {
        let found = storage.collection(collection).ok_or(ApiError::UnknownPath)?;
        let WatchQuery { start, selector, form, marks_end, lag } = query;
        let mut watch = Self {
            collection,
            cuts: storage.cuts(),
            selector,
            form,
            initial: Vec::new().into_iter(),
            marker: Marker::None,
            sent_version: 0,
            lag,
        };
        let now = watch.now(storage, found);
        match start {
            Start::After(version) => {
                if version < storage.oldest(found) {
                    return Err(ApiError::version_too_old(version, storage.oldest(found)));
                }
                watch.sent_version = version;
            }
            Start::Now => watch.sent_version = now,
            Start::State { at_least, fresh } => {
                let now = if fresh { storage.version() } else { now };
                if let Some(asked) = at_least.filter(|asked| *asked > now) {
                    return Err(ApiError::VersionTooLarge { asked, current: now });
                }
                let state =
                    found.objects_at(now, None).map_err(|_| ApiError::version_too_old(now, found.forgotten()))?;
                let wanted = state.filter(|(key, object)| watch.selector.matches(key, object));
                watch.initial = wanted.map(|(_, object)| object.clone()).collect::<Vec<_>>().into_iter();
                watch.marker = if marks_end { Marker::Due } else { Marker::None };
                watch.sent_version = now;
            }
        }
        Ok(watch)
    }

    /// The newest version that this watch sends.
    fn now(&self, storage: &Storage, collection: &Collection) -> u64 {
        // A lag does not delay the end of the kind.
        if collection.has_ended() {
            return storage.version();
        }
        storage.version().saturating_sub(self.lag).max(collection.forgotten().min(storage.version()))
    }

    /// Returns the next step and moves the position.
    pub(crate) fn advance(&mut self, storage: &Storage) -> Next {
        let collection = match storage.collection(self.collection) {
            Some(collection) if collection.last_cut <= self.cuts => collection,
            Some(_) => return Next::End(End::Broken),
            None => return Next::End(End::KindRemoved),
        };
        let mut batch = Batch::default();
        while !batch.is_full()
            && let Some(object) = self.initial.next()
        {
            batch.push(object.line(Change::Added, self.form));
        }
        if self.initial.len() > 0 {
            return Next::Lines(batch.lines);
        }
        if self.marker == Marker::Due {
            self.marker = Marker::None;
            batch.push(self.bookmark(collection.kind(), Some("k8s.io/initial-events-end")));
        }
        if !batch.lines.is_empty() {
            return Next::Lines(batch.lines);
        }
        self.changes(storage, collection)
    }

    fn changes(&mut self, storage: &Storage, collection: &Collection) -> Next {
        let now = self.now(storage, collection);
        let Ok(events) = collection.changes_after(self.sent_version) else { return Next::End(End::TooSlow) };
        let mut batch = Batch::default();
        for event in events.take_while(|event| event.version <= now) {
            self.sent_version = event.version;
            if let Some(line) = self.line(collection.kind(), event) {
                batch.push(line);
            }
            if batch.is_full() {
                return Next::Lines(batch.lines);
            }
        }
        self.sent_version = self.sent_version.max(now);
        match (batch.lines.is_empty(), collection.has_ended()) {
            (false, _) => Next::Lines(batch.lines),
            (true, false) => Next::Nothing,
            (true, true) => Next::End(End::KindRemoved),
        }
    }

    /// The line for a change; `None` if the selector matches neither the old nor the new state.
    fn line(&self, kind: &Kind, event: &Event) -> Option<Bytes> {
        if !self.selector.looks_inside() {
            return event.key.is_in(&self.selector.namespace).then(|| event.object.line(event.change, self.form));
        }
        let matches = |key: &Key, object: &Encoded| self.selector.matches(key, object);
        let before = event.previous.as_deref().filter(|object| matches(&event.key, object));
        let after = event.change != Change::Deleted && matches(&event.key, &event.object);
        match (before, after) {
            (None, false) => None,
            (None, true) => Some(event.object.line(Change::Added, self.form)),
            (Some(_), true) => Some(event.object.line(Change::Modified, self.form)),
            (Some(_), false) if event.change == Change::Deleted => Some(event.object.line(Change::Deleted, self.form)),
            // The object no longer matches. The watch sends a delete with the last matching state and the new version.
            (Some(before), false) => {
                let mut last = before.decode();
                last.set("resourceVersion", event.version.to_string());
                let last = Encoded::new(kind, Change::Deleted, &last);
                Some(last.line(Change::Deleted, self.form))
            }
        }
    }

    /// A bookmark with the position of the watch; `None` while it waits for a version in the future.
    pub(crate) fn progress(&self, storage: &Storage) -> Option<Bytes> {
        let collection = storage.collection(self.collection)?;
        (self.sent_version <= storage.version()).then(|| self.bookmark(collection.kind(), None))
    }

    fn bookmark(&self, kind: &Kind, annotation: Option<&str>) -> Bytes {
        let head = match self.form {
            Form::Full => {
                format!(r#"{{"kind":"{}","apiVersion":"{}","metadata":"#, kind.kind, kind.api_version())
            }
            Form::Metadata => METADATA_HEAD.to_owned(),
        };
        let annotations = annotation.map_or(String::new(), |name| format!(r#","annotations":{{"{name}":"true"}}"#));
        let metadata = format!(r#"{{"resourceVersion":"{}"{annotations}}}"#, self.sent_version);
        format!("{{\"type\":\"BOOKMARK\",\"object\":{head}{metadata}}}}}\n").into()
    }

    /// The number of times that the server had cut watches when this one was opened.
    pub(crate) fn cuts(&self) -> u32 {
        self.cuts
    }

    /// The version up to which all changes are sent.
    pub(crate) fn sent_version(&self) -> u64 {
        self.sent_version
    }
}

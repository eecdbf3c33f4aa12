//! A watch without its stream: which lines come next.
//!
//! - **In:** where to start, which objects, and the storage, again and again.
//! - **Out:** lines that are ready to be sent. A watch has no buffer of its own: it reads the collection's history from
//!   where it stands, and one that falls behind all of it ends.
//! - **Knows nothing of:** clocks, sockets, waiting.

pub(crate) mod stream;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;

use crate::error::ApiError;
use crate::objects::Key;
use crate::objects::encoded::Change;
use crate::objects::encoded::Encoded;
use crate::objects::encoded::Form;
use crate::objects::encoded::METADATA_HEAD;
use crate::registry::kind::Kind;
use crate::select::Selector;
use crate::storage::Collection;
use crate::storage::CollectionId;
use crate::storage::Event;
use crate::storage::Storage;

/// Where a watch starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// With the changes after a version, be it of the past or the future.
    After(u64),
    /// With the changes from now on.
    Now,
    /// With all objects as additions, then the changes.
    State {
        /// The state must be at least as new as this.
        at_least: Option<u64>,
        /// It must be the newest, even if the server lags behind.
        fresh: bool,
    },
}

/// Which watch a client wants.
pub(crate) struct WatchQuery {
    pub(crate) start: Start,
    pub(crate) selector: Selector,
    pub(crate) form: Form,
    /// Whether a bookmark marks the end of the state, if it starts with that.
    pub(crate) marks_end: bool,
    /// How many versions behind the server it is kept.
    pub(crate) lag: u64,
}

/// One watch: what it has told and what it is to tell.
pub(crate) struct Watch {
    collection: CollectionId,
    /// How many times the server had cut watches when this one was opened.
    cuts: u32,
    selector: Selector,
    form: Form,
    /// The objects that are still to be told as they were at the start.
    initial: std::vec::IntoIter<Arc<Encoded>>,
    marker: Marker,
    /// Everything up to this version is told.
    told: u64,
    /// How many versions behind the server this watch is kept.
    lag: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marker {
    Due,
    None,
}

/// What a watch has to say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// These lines.
    Lines(Vec<Bytes>),
    /// Nothing until something changes.
    Nothing,
    /// It is over, for this reason.
    End(End),
}

/// Why a watch is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The kind is not served any more.
    KindRemoved,
    /// The client read too slowly: what it has to read next is forgotten.
    TooSlow,
    /// Its connection broke: the server was restored from a backup, or a test cut the watches.
    Broken,
}

/// The line of an ERROR event.
pub(crate) fn error_line(error: &ApiError) -> Bytes {
    format!("{}\n", json!({"type": "ERROR", "object": error.status()})).into()
}

/// How many lines are taken in one go, so that no watch keeps the storage to itself.
const BATCH: usize = 128;

/// After how many bytes a batch ends. A watch whose client does not read holds one batch, beyond the limits of the history.
const BATCH_BYTES: usize = 1024 * 1024;

/// The lines that a watch takes in one go.
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
            told: 0,
            lag,
        };
        let now = watch.now(storage, found);
        match start {
            Start::After(version) => {
                if version < storage.oldest(found) {
                    return Err(ApiError::version_too_old(version, storage.oldest(found)));
                }
                watch.told = version;
            }
            Start::Now => watch.told = now,
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
                watch.told = now;
            }
        }
        Ok(watch)
    }

    /// The version up to which this watch sees the server.
    fn now(&self, storage: &Storage, collection: &Collection) -> u64 {
        // The end of a kind is the end for all.
        if collection.has_ended() {
            return storage.version();
        }
        storage.version().saturating_sub(self.lag).max(collection.forgotten().min(storage.version()))
    }

    /// Tells what comes next.
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
        let Ok(events) = collection.changes_after(self.told) else { return Next::End(End::TooSlow) };
        let mut batch = Batch::default();
        for event in events.take_while(|event| event.version <= now) {
            self.told = event.version;
            if let Some(line) = self.line(collection.kind(), event) {
                batch.push(line);
            }
            if batch.is_full() {
                return Next::Lines(batch.lines);
            }
        }
        self.told = self.told.max(now);
        match (batch.lines.is_empty(), collection.has_ended()) {
            (false, _) => Next::Lines(batch.lines),
            (true, false) => Next::Nothing,
            (true, true) => Next::End(End::KindRemoved),
        }
    }

    /// How this watch tells of a change, if it is about one of its objects.
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
            // It does not match any more: for this watch it ends with the last state that did, under the new version.
            (Some(before), false) => {
                let mut last = before.decode();
                last.set("resourceVersion", event.version.to_string());
                let last = Encoded::new(kind, Change::Deleted, &last);
                Some(last.line(Change::Deleted, self.form))
            }
        }
    }

    /// A bookmark of how far this watch is; none while it waits for a version of the future.
    pub(crate) fn progress(&self, storage: &Storage) -> Option<Bytes> {
        let collection = storage.collection(self.collection)?;
        (self.told <= storage.version()).then(|| self.bookmark(collection.kind(), None))
    }

    fn bookmark(&self, kind: &Kind, annotation: Option<&str>) -> Bytes {
        let head = match self.form {
            Form::Full => {
                format!(r#"{{"kind":"{}","apiVersion":"{}","metadata":"#, kind.kind, kind.api_version())
            }
            Form::Metadata => METADATA_HEAD.to_owned(),
        };
        let annotations = annotation.map_or(String::new(), |name| format!(r#","annotations":{{"{name}":"true"}}"#));
        let metadata = format!(r#"{{"resourceVersion":"{}"{annotations}}}"#, self.told);
        format!("{{\"type\":\"BOOKMARK\",\"object\":{head}{metadata}}}}}\n").into()
    }

    /// How many times the server had cut watches when this one was opened.
    pub(crate) fn cuts(&self) -> u32 {
        self.cuts
    }

    /// Up to which version everything is told.
    pub(crate) fn told(&self) -> u64 {
        self.told
    }
}

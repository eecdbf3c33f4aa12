//! Drives a scripted source while it is used.
//!
//! - **In:** the calls of a test on its [`SourceHandle`].
//! - **Out:** lists of the current objects, and watches that deliver each change.
//! - **Knows nothing of:** scripted answers; `ScriptedSource` uses those first.

use std::{fmt, str::FromStr, sync::Arc};

use derive_where::derive_where;
use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::Notify;

use super::{
    super::{
        Item, ListPiece, ListStream, SourceError, SourceEvent, WatchPiece, WatchRequest, WatchStream,
        source::ItemContent,
    },
    ScriptedList, ScriptedSource,
    timeline::{ChangeKind, Cursor, NextEvent, ObjectContent, ObjectState, Timeline},
};
use crate::{
    Key, ResourceVersion,
    object::{Identity, Provenance},
};

/// Drives a [live](ScriptedSource::live) source. Cheap to clone; all clones drive the same source.
///
/// The handle and its source act as a tiny server: it holds the objects that the events describe, a list returns them, and a watch that
/// resumes at a version receives every event after it. So a test needs no script: it changes objects, breaks the watch, and looks at what
/// its handler does.
///
/// Objects are given as [`LiveObject`]s: JSON, a typed Kubernetes object, or an [`Item`]. An object without `uid` or
/// `resourceVersion` gets both from the source, which counts versions up from 2.
///
/// # Panics
///
/// The calls panic at the caller's line when an object has no name or cannot be written as JSON.
#[derive_where(Clone)]
pub struct SourceHandle<O> {
    source: ScriptedSource<O>,
    live: Arc<Live<O>>,
}

/// The state that the handle and the source share.
pub(super) struct Live<O> {
    timeline: Mutex<Timeline<O>>,
    /// Notified after each change of the timeline.
    changed: Notify,
}

/// An object that a [`SourceHandle`] accepts. It is implemented for
///
/// - every type that serializes to the JSON of a Kubernetes object: [`serde_json::Value`], `Pod`, `DynamicObject`. It fits each object
///   type of the informer: eager, [`Lazy`](crate::Lazy), projections, dynamic ones.
/// - [`Item`], for sources of decoded objects (`O: Clone`: each list and each watch receives a copy).
pub trait LiveObject<O>: sealed::Sealed<O> {}

mod sealed {
    pub trait Sealed<O> {
        fn into_given(self) -> Result<super::Given<O>, String>;
    }
}

/// A [`LiveObject`] after it was parsed. It is not part of the public API.
pub enum Given<O> {
    Key(Key),
    Object(Identity, GivenContent<O>),
}

/// The content of such an object. It is not part of the public API.
pub struct GivenContent<O>(ObjectContent<O>);

impl<O: Send + Sync + 'static> SourceHandle<O> {
    pub(super) fn new(source: ScriptedSource<O>, live: Arc<Live<O>>) -> Self {
        Self { source, live }
    }

    /// The newest version of the source: that of the last change or bookmark. A new source is at version 1.
    ///
    /// ```
    /// use informant::testing::ScriptedSource;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use serde_json::json;
    ///
    /// let (source, handle) = ScriptedSource::<ConfigMap>::live();
    /// let added = handle.added(json!({"metadata": {"namespace": "shop", "name": "hours"}}));
    /// assert_eq!(handle.version(), added);
    /// ```
    pub fn version(&self) -> ResourceVersion {
        self.live.timeline.lock().version()
    }

    /// Creates an object and sends an `ADDED` event to each watch. Before the first list, this fills the list. Returns the object's
    /// version.
    #[track_caller]
    pub fn added(&self, object: impl LiveObject<O>) -> ResourceVersion {
        self.change(ChangeKind::Added, object)
    }

    /// Replaces an object and sends a `MODIFIED` event to each watch. Returns the object's new version.
    #[track_caller]
    pub fn modified(&self, object: impl LiveObject<O>) -> ResourceVersion {
        self.change(ChangeKind::Modified, object)
    }

    /// Removes an object and sends a `DELETED` event to each watch. The argument is the object's final state, or only its key,
    /// such as `"shop/web"`: the final state is then the current one. Returns the version of the deletion.
    ///
    /// # Panics
    ///
    /// If only a key is given, and no object has it.
    #[track_caller]
    pub fn deleted(&self, object: impl LiveObject<O>) -> ResourceVersion {
        self.change(ChangeKind::Deleted, object)
    }

    /// Sends a bookmark to each watch: all events up to this version have been sent.
    pub fn bookmark(&self, version: impl Into<ResourceVersion>) {
        let version = version.into();
        self.live.update(|timeline| timeline.bookmark(&version));
    }

    /// Ends each open watch with this error, after the events before this call; if no watch is open, the next one. Events after this call
    /// are delivered by the watch that the reflector opens afterwards, or, if it lists again, by the difference of the lists.
    ///
    /// [`SourceError::expired`] makes the reflector list again, so that it sees changes made meanwhile only in the list (missed deletes). After
    /// [`SourceError::other`] it lists again as well; after a lost connection it resumes the watch.
    pub fn fail_watch(&self, error: SourceError) {
        self.live.update(|timeline| timeline.end(Some(error)));
    }

    /// Ends each open watch cleanly, as a server does when the requested time is over; if no watch is open, the next one.
    pub fn end_watch(&self) {
        self.live.update(|timeline| timeline.end(None));
    }

    /// Makes the next list fail with this error. Each call makes one list fail.
    pub fn fail_next_list(&self, error: SourceError) {
        self.source.on_list(ScriptedList::fails(error));
    }

    #[track_caller]
    fn change(&self, change: ChangeKind, object: impl LiveObject<O>) -> ResourceVersion {
        let given = object.into_given().unwrap_or_else(|problem| panic!("{change:?}: {problem}"));
        match given {
            Given::Object(identity, GivenContent(content)) => {
                self.live.update(|timeline| timeline.change(change, ObjectState { identity, content }))
            }
            Given::Key(key) if change == ChangeKind::Deleted => {
                let version = self.live.update(|timeline| timeline.delete(&key));
                version.unwrap_or_else(|| panic!("{change:?}: the source has no object {key}; add it first"))
            }
            Given::Key(key) => panic!("{change:?}: {key} is only a key; pass an object"),
        }
    }
}

impl<O: Send + Sync + 'static> Live<O> {
    pub(super) fn new() -> Self {
        Self { timeline: Mutex::new(Timeline::new()), changed: Notify::new() }
    }

    fn update<R>(&self, update: impl FnOnce(&mut Timeline<O>) -> R) -> R {
        let result = update(&mut self.timeline.lock());
        self.changed.notify_waiters();
        result
    }

    /// Lists the current objects in one page.
    pub(super) fn list(&self) -> ListStream<O> {
        let (version, states) = self.timeline.lock().list();
        ListPiece::page(version, states.iter().map(ObjectState::item))
    }

    /// Watches from the requested version; without one, the watch begins with the current objects.
    pub(super) fn watch(self: &Arc<Self>, request: &WatchRequest) -> Result<WatchStream<O>, SourceError> {
        let begins_with_objects = request.sends_initial_events || matches!(request.version.as_str(), "" | "0");
        let mut initial = Vec::new();
        let cursor = match begins_with_objects {
            false => self.timeline.lock().open_after(&request.version)?,
            true => {
                let mut timeline = self.timeline.lock();
                let (cursor, (version, states)) = (timeline.open_at_end(), timeline.list());
                drop(timeline);
                initial.extend(states.iter().map(|state| SourceEvent::Added(state.item())));
                let end = SourceEvent::Bookmark { version, ends_initial_events: true };
                initial.extend(request.sends_initial_events.then_some(end));
                cursor
            }
        };
        let watch = LiveWatch { live: Arc::clone(self), cursor };
        let initial = stream::iter(initial.into_iter().map(|event| Ok(WatchPiece::Event(event))));
        // A failed watch must not be polled again: the ending would be delivered twice.
        let rest = stream::unfold(Some(watch), |watch| async {
            let mut watch = watch?;
            match watch.next().await {
                Ok(event) => Some((Ok(WatchPiece::Event(event)), Some(watch))),
                Err(error) => error.map(|error| (Err(error), None)),
            }
        });
        Ok(initial.chain(rest).boxed())
    }
}

/// An open watch of a live source.
struct LiveWatch<O: Send + Sync + 'static> {
    live: Arc<Live<O>>,
    cursor: Cursor,
}

impl<O: Send + Sync + 'static> LiveWatch<O> {
    /// Waits for the next event. `Err` is the end of the watch: with an error, or cleanly.
    ///
    /// Cancel safe: an event is taken only when it is returned.
    async fn next(&mut self) -> Result<SourceEvent<O>, Option<SourceError>> {
        loop {
            let changed = self.live.changed.notified();
            tokio::pin!(changed);
            // Registers for the notification before the timeline is read, so that a change in between is not missed.
            changed.as_mut().enable();
            let next = self.live.timeline.lock().next(&mut self.cursor);
            match next {
                NextEvent::Event(entry) => return Ok(entry.event()),
                NextEvent::End(error) => return Err(error),
                NextEvent::Nothing => changed.await,
            }
        }
    }
}

impl<O: Send + Sync + 'static> Drop for LiveWatch<O> {
    fn drop(&mut self) {
        self.live.timeline.lock().close(&self.cursor);
    }
}

impl<O, S: Serialize> LiveObject<O> for S {}

impl<O, S: Serialize> sealed::Sealed<O> for S {
    fn into_given(self) -> Result<Given<O>, String> {
        let value =
            serde_json::to_value(self).map_err(|error| format!("the object cannot be written as JSON: {error}"))?;
        from_json(value)
    }
}

impl<O: Clone + Send + Sync + 'static> LiveObject<O> for Item<O> {}

impl<O: Clone + Send + Sync + 'static> sealed::Sealed<O> for Item<O> {
    fn into_given(self) -> Result<Given<O>, String> {
        match self.into_content() {
            ItemContent::Json(json) => {
                let value = serde_json::from_slice(&json).map_err(|error| format!("the item is not JSON: {error}"))?;
                from_json(value)
            }
            ItemContent::Decoded(cached) => {
                let mut provenance = Provenance::new(cached.types().clone());
                if let Some(cluster) = cached.cluster() {
                    provenance = provenance.of_cluster(Arc::clone(cluster));
                }
                let (identity, provenance) = (cached.identity().clone(), Arc::new(provenance));
                let make = move |identity: &Identity| {
                    Item::with_provenance(identity.clone(), Arc::clone(&provenance), cached.object().clone())
                };
                Ok(Given::Object(identity, GivenContent(ObjectContent::Ready(Arc::new(make)))))
            }
        }
    }
}

fn from_json<O>(value: Value) -> Result<Given<O>, String> {
    if let Value::String(text) = &value {
        return Key::from_str(text).map(Given::Key).map_err(|error| error.to_string());
    }
    let field = |name: &str| value["metadata"][name].as_str().unwrap_or_default();
    if field("name").is_empty() {
        return Err(format!("an object with metadata.name was expected, found {value}"));
    }
    let identity = Identity {
        key: Key::namespaced(field("namespace"), field("name")),
        uid: field("uid").into(),
        version: field("resourceVersion").into(),
    };
    Ok(Given::Object(identity, GivenContent(ObjectContent::Json(Arc::new(value)))))
}

impl<O> fmt::Debug for SourceHandle<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceHandle").field("source", &self.source).finish_non_exhaustive()
    }
}

//! Drives a scripted source while it is used.
//!
//! - **In:** the calls of a test on its [`SourceHandle`].
//! - **Out:** lists of the current objects, and watches that deliver each change.
//! - **Knows nothing of:** scripted answers; `ScriptedSource` uses those first.

use std::sync::Arc;

use derive_where::derive_where;
use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use serde::Serialize;

use super::{
    super::{Item, ListPiece, ListStream, SourceError, WatchPiece, WatchRequest, WatchStream},
    ScriptedList, ScriptedSource,
    timeline::{ChangeKind, LiveEvent, Timeline},
};
use crate::ResourceVersion;

/// Drives a [live](ScriptedSource::live) source. Cheap to clone; all clones drive the same source.
///
/// The handle and its source act as a tiny server: it holds the objects that the events describe, a list returns them, and a watch that
/// resumes at a version receives every event after it. So a test needs no script: it changes objects, breaks the watch, and looks at what
/// its handler does.
///
/// An object is given as anything that serializes to the JSON of a Kubernetes object: [`serde_json::Value`], `Pod`, `DynamicObject`. It fits each
/// object type of the informer: eager, [`Lazy`](crate::Lazy), projections, dynamic ones. An object without `uid` or
/// `resourceVersion` gets both from the source, which counts versions up from 2.
///
/// # Panics
///
/// The calls panic at the caller's line when an object has no name or cannot be written as JSON.
#[derive_where(Clone, Debug)]
pub struct SourceHandle<O> {
    #[derive_where(skip(Debug))]
    pub(super) source: ScriptedSource<O>,
    #[derive_where(skip(Debug))]
    pub(super) timeline: Arc<Mutex<Timeline>>,
}

impl<O> SourceHandle<O> {
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
        self.timeline.lock().version.clone()
    }

    /// Creates an object and sends an `ADDED` event to each watch. Before the first list, this fills the list. Returns the object's
    /// version.
    #[track_caller]
    pub fn added(&self, object: impl Serialize) -> ResourceVersion {
        self.change(ChangeKind::Added, object)
    }

    /// Replaces an object and sends a `MODIFIED` event to each watch. Returns the object's new version.
    #[track_caller]
    pub fn modified(&self, object: impl Serialize) -> ResourceVersion {
        self.change(ChangeKind::Modified, object)
    }

    /// Removes an object and sends a `DELETED` event to each watch. The argument is the object's final state, or only its key,
    /// such as `"shop/web"`: the final state is then the current one. Returns the version of the deletion.
    ///
    /// # Panics
    ///
    /// If only a key is given, and no object has it.
    #[track_caller]
    pub fn deleted(&self, object: impl Serialize) -> ResourceVersion {
        self.change(ChangeKind::Deleted, object)
    }

    /// Sends a bookmark to each watch: all events up to this version have been sent.
    pub fn bookmark(&self, version: impl Into<ResourceVersion>) {
        self.timeline.lock().bookmark(&version.into());
    }

    /// Ends each open watch with an error that `error` makes, after the events before this call; if no watch is open, the next one. Events after this
    /// call are delivered by the watch that the reflector opens afterwards, or, if it lists again, by the difference of the lists.
    ///
    /// [`SourceError::expired`] makes the reflector list again, so that it sees changes made meanwhile only in the list (missed deletes). After
    /// [`SourceError::other`] it lists again as well; after a lost connection it resumes the watch.
    pub fn fail_watch(&self, error: impl Fn() -> SourceError) {
        self.timeline.lock().end(|| Some(error()));
    }

    /// Ends each open watch cleanly, as a server does when the requested time is over; if no watch is open, the next one.
    pub fn end_watch(&self) {
        self.timeline.lock().end(|| None);
    }

    /// Makes the next list fail with this error. Each call makes one list fail.
    pub fn fail_next_list(&self, error: SourceError) {
        self.source.on_list(ScriptedList::fails(error));
    }

    #[track_caller]
    fn change(&self, change: ChangeKind, object: impl Serialize) -> ResourceVersion {
        let object = serde_json::to_value(object);
        let object = object.map_err(|error| format!("the object cannot be written as JSON: {error}"));
        let version = object.and_then(|object| self.timeline.lock().change(change, object));
        version.unwrap_or_else(|problem| panic!("{change:?}: {problem}"))
    }
}

impl Timeline {
    /// Lists the current objects in one page.
    pub(super) fn list<O: Send + Sync + 'static>(&self) -> ListStream<O> {
        ListPiece::page(self.version.clone(), self.objects.values().cloned().map(Item::from))
    }

    /// Watches from the requested version; without one, the watch begins with the current objects.
    pub(super) fn watch<O: 'static>(&mut self, request: &WatchRequest) -> Result<WatchStream<O>, SourceError> {
        let begins_with_objects = request.sends_initial_events || matches!(request.version.as_str(), "" | "0");
        let mut initial = Vec::new();
        if begins_with_objects {
            initial.extend(self.objects.values().cloned().map(|object| LiveEvent::Change(ChangeKind::Added, object)));
            let end = LiveEvent::Bookmark { version: self.version.clone(), ends_initial_events: true };
            initial.extend(request.sends_initial_events.then_some(end));
        }
        let mut events = self.open((!begins_with_objects).then_some(&request.version))?;
        let events = stream::poll_fn(move |context| events.poll_recv(context));
        let events = stream::iter(initial.into_iter().map(Ok)).chain(events);
        Ok(events.map(|event| Ok(WatchPiece::Event(event?.into()))).boxed())
    }
}

//! The trait that a source of objects implements, with its requests and responses.
//!
//! - **In:** the reflector's requests: a page of a list, a watch, a lookup.
//! - **Out:** streams of pieces: bytes as an API server writes them, or items one by one.
//! - **Knows nothing of:** when requests are made, and what follows a failure.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use derive_where::derive_where;
use futures_util::{StreamExt, stream::BoxStream};
use kube::core::TypeMeta;

use super::{SourceError, any_source::AnySource, frames::ListMetadata};
use crate::{
    Cached, Key, ResourceVersion,
    object::{Erased, Identity, Provenance},
};

/// How long the next piece of a list may take before the connection counts as dead: twice the request timeout of an API server.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// A source of objects that can be listed and watched.
///
/// [`KubeSource`](super::KubeSource) is the source for Kubernetes. A custom source implements two functions, and its objects can be of any
/// type:
///
/// ```
/// use futures_util::stream::{self, StreamExt};
/// use informant::{Identity, Key, error::SourceError, pipeline::{Item, ListPiece, ListRequest, ListStream, ListWatch, SourceEvent, WatchPiece, WatchRequest, WatchStream}};
///
/// /// The stock of a shop: how many there are of each thing.
/// struct Shop;
///
/// fn stock(name: &str, count: u32) -> Item<u32> {
///     Item::new(Identity::of_key(Key::cluster_scoped(name)), count)
/// }
///
/// impl ListWatch<u32> for Shop {
///     async fn list(&self, _: ListRequest) -> Result<ListStream<u32>, SourceError> {
///         Ok(ListPiece::page("1", [stock("apples", 12), stock("pears", 3)]))
///     }
///
///     async fn watch(&self, _: WatchRequest) -> Result<WatchStream<u32>, SourceError> {
///         let sold = SourceEvent::Modified(stock("apples", 11));
///         // The watch stays open. If it ended, the reflector would list again.
///         Ok(stream::iter([Ok(WatchPiece::Event(sold))]).chain(stream::pending()).boxed())
///     }
/// }
/// ```
///
/// If the lists of a source have versions, the reflector resumes an ended or failed watch from the last version that it reached; otherwise
/// the reflector lists again.
pub trait ListWatch<O>: Send + Sync + 'static {
    /// Requests one page of a list.
    ///
    /// Dropping the future or the stream cancels the request.
    fn list(&self, request: ListRequest) -> impl Future<Output = Result<ListStream<O>, SourceError>> + Send;

    /// Opens a watch. The future completes when the source has accepted the request, before the first event.
    ///
    /// Dropping the future or the stream ends the watch.
    fn watch(&self, request: WatchRequest) -> impl Future<Output = Result<WatchStream<O>, SourceError>> + Send;

    /// Reads the source's version and, if a key is given, the state of one object.
    ///
    /// The reflector calls this after an outage, to check that the source still has the history that the reflector followed, and
    /// when a watch is silent; [audits](crate::InformerBuilder::audit_every) call it for objects that seem to be wrong in the cache. Default: `Ok(None)`, which means that the source does not support lookups; watches are then resumed without a
    /// check.
    fn look_up(
        &self,
        _request: LookupRequest,
    ) -> impl Future<Output = Result<Option<LookupAnswer<O>>, SourceError>> + Send {
        async { Ok(None) }
    }

    /// Returns whether the source still serves this kind. The reflector calls this after a "not found" error; on [`Served::No`] it treats all objects
    /// as deleted. Default: [`Served::Unknown`].
    fn is_served(&self) -> impl Future<Output = Served> + Send {
        async { Served::Unknown }
    }

    /// Returns whether the source supports [`WatchRequest::sends_initial_events`]. Default: false.
    fn can_stream_lists(&self) -> bool {
        false
    }

    /// Returns the apiVersion and kind that JSON items must have. Default: both empty, which declares no kind; then items whose JSON states
    /// another kind than that of the [object type](crate::Object::types) are quarantined.
    fn types(&self) -> TypeMeta {
        TypeMeta::default()
    }

    /// Returns the name of the objects' cluster, which each object [carries](Cached::cluster). Default: `None`.
    fn cluster(&self) -> Option<Arc<str>> {
        None
    }

    /// Returns the namespace of all objects, if the source has only one. Default: `None`.
    fn namespace(&self) -> Option<Arc<str>> {
        None
    }

    /// Returns the name of the objects in logs and errors, such as `pods`. Default: `objects`.
    fn name(&self) -> String {
        "objects".into()
    }

    /// Returns the name of the storage that gives the objects their versions. Sources of one client with the same storage share one history: after an
    /// outage, one question about it answers for all of them. Default: `None`, a storage of its own.
    fn storage(&self) -> Option<String> {
        None
    }

    /// Erases the object type. The reflector calls it; it is not part of the public API.
    #[doc(hidden)]
    fn erase(self) -> AnySource
    where
        Self: Sized,
        O: Send + Sync + 'static,
    {
        AnySource::new(self)
    }
}

/// The pieces of one page of a list.
pub type ListStream<O> = BoxStream<'static, Result<ListPiece<O>, SourceError>>;

/// The pieces of a watch. The stream ends when the watch ends.
pub type WatchStream<O> = BoxStream<'static, Result<WatchPiece<O>, SourceError>>;

/// A request for one page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListRequest {
    /// The minimum version of the list: `0` for any version that the server has in memory, empty for the newest one.
    pub version: ResourceVersion,
    /// The largest number of items in the page.
    pub limit: Option<u32>,
    /// The token of the page before; `None` for the first page.
    pub continue_token: Option<String>,
    /// True in the lists of an [audit](crate::InformerBuilder::audit_every): it reads only key, uid and version of the items, so the source may
    /// leave out everything but their metadata.
    pub needs_only_metadata: bool,
}

/// A request for a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchRequest {
    /// The watch delivers all events after this version.
    pub version: ResourceVersion,
    /// Requests a streamed list: the watch begins with an event for each existing object, followed by a bookmark with `ends_initial_events`.
    pub sends_initial_events: bool,
    /// How long the watch should last, in whole seconds.
    pub timeout: Duration,
}

/// A request for the source's version and the state of at most one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LookupRequest {
    /// The object to look up; `None` to read only the source's version.
    pub key: Option<Key>,
    /// The state at exactly this version; empty for the newest state. A source must not answer from a replica that lags behind.
    pub version: ResourceVersion,
}

/// The answer to a [`LookupRequest`].
#[derive_where(Debug)]
pub struct LookupAnswer<O> {
    /// The version at which the source was read.
    pub version: ResourceVersion,
    /// The object, if the request named one and it exists at that version.
    pub object: Option<Item<O>>,
}

/// A piece of a page of a list.
#[derive_where(Debug)]
#[non_exhaustive]
pub enum ListPiece<O> {
    /// Bytes of the page, in the JSON of an API server. A chunk may begin and end anywhere.
    Body(#[derive_where(skip(Debug))] Bytes),
    /// An item.
    Item(Item<O>),
    /// The end of a page of `Item`s. A page of `Body`s needs none: its JSON contains the metadata.
    End(ListMetadata),
}

/// A piece of a watch.
#[derive_where(Debug)]
#[non_exhaustive]
pub enum WatchPiece<O> {
    /// Bytes of the watch, in the JSON lines of an API server. A chunk may begin and end anywhere.
    Body(#[derive_where(skip(Debug))] Bytes),
    /// An event.
    Event(SourceEvent<O>),
}

/// An event of a watch.
#[non_exhaustive]
#[derive_where(Debug)]
pub enum SourceEvent<O> {
    /// An object was created, or exists (in a streamed list).
    Added(Item<O>),
    /// An object was changed.
    Modified(Item<O>),
    /// An object was deleted. The item is its final state.
    Deleted(Item<O>),
    /// All events up to a version have been delivered.
    Bookmark {
        /// The version.
        version: ResourceVersion,
        /// True for the bookmark that ends a streamed list.
        ends_initial_events: bool,
    },
}

/// An object that a source delivers: JSON, or a decoded object with its identity. It is not `Clone`, because a transform may still change
/// the object before the reflector shares it.
///
/// ```
/// use informant::{Identity, Key, pipeline::Item};
///
/// let decoded = Item::new(Identity::of_key(Key::cluster_scoped("apples")), 12_u32);
/// assert_eq!(decoded.identity().map(|identity| identity.key.name()), Some("apples"));
///
/// let json = Item::<u32>::json(r#"{"metadata": {"name": "apples"}}"#);
/// assert_eq!(json.identity(), None);
/// ```
pub struct Item<O> {
    pub(super) content: ItemContent<O>,
}

pub(super) enum ItemContent<O> {
    Json(Bytes),
    Decoded(Cached<O>),
}

/// Whether a source serves a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Served {
    /// The source serves the kind.
    Yes,
    /// The source certainly does not serve the kind.
    No,
    /// The source does not know, or could not be asked.
    #[default]
    Unknown,
}

impl<O: Send + Sync + 'static> ListPiece<O> {
    /// Makes a list of one page.
    pub fn page(version: impl Into<ResourceVersion>, items: impl IntoIterator<Item = Item<O>>) -> ListStream<O> {
        let end = ListMetadata { resource_version: version.into(), ..ListMetadata::default() };
        let items: Vec<_> = items.into_iter().map(|item| Ok(Self::Item(item))).collect();
        futures_util::stream::iter(items).chain(futures_util::stream::iter([Ok(Self::End(end))])).boxed()
    }
}

impl<O: Send + Sync + 'static> Item<O> {
    /// Creates an item from a decoded object and its identity.
    pub fn new(identity: Identity, object: O) -> Self {
        Self::decoded(Cached::new(identity, object))
    }

    /// Like [`new`](Self::new), with the object's apiVersion, kind and cluster.
    pub fn with_provenance(identity: Identity, provenance: Arc<Provenance>, object: O) -> Self {
        Self::decoded(Cached::with_provenance(identity, provenance, object))
    }
}

impl<O> Item<O> {
    /// Creates an item from the JSON of an object, which the reflector decodes. A reflector [of decoded
    /// objects](super::Reflector::of_decoded_objects) cannot decode JSON, and puts the item into quarantine.
    pub fn json(json: impl Into<Bytes>) -> Self {
        Self { content: ItemContent::Json(json.into()) }
    }

    /// Returns the identity; `None` for JSON, which has not been parsed yet.
    pub fn identity(&self) -> Option<&Identity> {
        match &self.content {
            ItemContent::Json(_) => None,
            ItemContent::Decoded(object) => Some(object.identity()),
        }
    }

    /// The object must not be shared, because a transform may change it (INV-I1).
    fn decoded(object: Cached<O>) -> Self {
        Self { content: ItemContent::Decoded(object) }
    }

    /// Erases the object type.
    pub(super) fn erase(self) -> Item<Erased> {
        match self.content {
            ItemContent::Json(json) => Item::json(json),
            ItemContent::Decoded(object) => Item::decoded(object.erase()),
        }
    }
}

/// The JSON of a Kubernetes object, as [`serde_json::json!`] makes it.
impl<O> From<serde_json::Value> for Item<O> {
    fn from(value: serde_json::Value) -> Self {
        Self::json(value.to_string())
    }
}

/// Erasing the object type.
impl<O> ListPiece<O> {
    pub(super) fn erase(self) -> ListPiece<Erased> {
        match self {
            Self::Body(bytes) => ListPiece::Body(bytes),
            Self::Item(item) => ListPiece::Item(item.erase()),
            Self::End(metadata) => ListPiece::End(metadata),
        }
    }
}

impl<O> WatchPiece<O> {
    pub(super) fn erase(self) -> WatchPiece<Erased> {
        match self {
            Self::Body(bytes) => WatchPiece::Body(bytes),
            Self::Event(event) => WatchPiece::Event(event.erase()),
        }
    }
}

impl<O> SourceEvent<O> {
    fn erase(self) -> SourceEvent<Erased> {
        match self {
            Self::Added(item) => SourceEvent::Added(item.erase()),
            Self::Modified(item) => SourceEvent::Modified(item.erase()),
            Self::Deleted(item) => SourceEvent::Deleted(item.erase()),
            Self::Bookmark { version, ends_initial_events } => SourceEvent::Bookmark { version, ends_initial_events },
        }
    }
}

impl<O> LookupAnswer<O> {
    pub(super) fn erase(self) -> LookupAnswer<Erased> {
        LookupAnswer { version: self.version, object: self.object.map(Item::erase) }
    }
}

/// Writes the request as `L(0, 500)` (version, limit) or `L("", 500, C1)` (version, limit, continue token); as `LM(…)` if it needs only metadata.
impl fmt::Display for ListRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.needs_only_metadata { "LM" } else { "L" };
        let limit = self.limit.map_or_else(|| "no limit".into(), |limit| limit.to_string());
        let token = self.continue_token.iter().map(|token| format!(", {token}")).collect::<String>();
        write!(f, "{verb}({}, {limit}{token})", quoted(&self.version))
    }
}

/// Writes the request as `W(10)`, or as `WL("")` if it sends initial events.
impl fmt::Display for WatchRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.sends_initial_events { "WL" } else { "W" };
        write!(f, "{verb}({})", quoted(&self.version))
    }
}

/// Returns the text of a version; `""` for an empty one.
fn quoted(version: &ResourceVersion) -> &str {
    if version.is_empty() { "\"\"" } else { version.as_str() }
}

/// Shows the identity of a decoded object, or the length of the JSON. The content may be large, or secret.
impl<O> fmt::Debug for Item<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.content {
            ItemContent::Json(json) => write!(f, "Item({} bytes of JSON)", json.len()),
            ItemContent::Decoded(object) => write!(f, "Item({object:?})"),
        }
    }
}

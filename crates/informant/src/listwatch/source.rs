//! Where objects come from: the trait that a source implements, and the words it uses.
//!
//! - **In:** what the reflector asks for: a page of a list, a watch, a lookup.
//! - **Out:** streams of pieces: bytes as an API server writes them, or items one by one.
//! - **Knows nothing of:** when to ask, and what to do when it fails.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use kube::core::TypeMeta;

use super::SourceError;
use super::any_source::AnySource;
use super::frames::ListMetadata;
use crate::Cached;
use crate::Key;
use crate::ResourceVersion;
use crate::object::DecodeError;
use crate::object::Erased;
use crate::object::Identity;
use crate::object::Provenance;

/// A source of objects that can be listed and watched.
///
/// [`KubeSource`](super::KubeSource) is the one for Kubernetes. A source of your own needs two functions; its objects need
/// no JSON:
///
/// ```
/// use futures_util::stream::{self, StreamExt};
/// use informant::{Key, object::Identity};
/// use informant::listwatch::{
///     Item, ListPiece, ListRequest, ListStream, ListWatch, SourceError, SourceEvent, WatchPiece, WatchRequest, WatchStream,
/// };
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
///         // A watch goes on until there is a reason to end it: after that, everything is listed anew.
///         Ok(stream::iter([Ok(WatchPiece::Event(sold))]).chain(stream::pending()).boxed())
///     }
/// }
/// ```
///
/// If its lists have versions, and `watch` can go on from one, a watch that ends or breaks is resumed where it was; else
/// everything is listed anew.
pub trait ListWatch<O>: Send + Sync + 'static {
    /// Begins to list a page.
    ///
    /// Dropping the future or the stream gives the request up.
    fn list(&self, request: ListRequest) -> impl Future<Output = Result<ListStream<O>, SourceError>> + Send;

    /// Begins to watch. The future ends when the source has accepted, also if nothing happens yet.
    ///
    /// Dropping the future or the stream ends the watch.
    fn watch(&self, request: WatchRequest) -> impl Future<Output = Result<WatchStream<O>, SourceError>> + Send;

    /// Reads the source's version and, if a key is given, the state of one object.
    ///
    /// The reflector asks after an outage, to find out whether the source still has the history that the reflector followed, and
    /// when a watch is silent. Default: `Ok(None)`, which means that the source cannot answer; watches are then resumed without a
    /// check.
    fn look_up(&self, _request: LookupRequest) -> impl Future<Output = Result<Option<Lookup<O>>, SourceError>> + Send {
        async { Ok(None) }
    }

    /// Whether the source still has this kind at all; asked after it said "not found". Default: unknown, so that nothing
    /// is forgotten.
    fn is_served(&self) -> impl Future<Output = Served> + Send {
        async { Served::Unknown }
    }

    /// Whether [`WatchRequest::sends_initial_events`] may be tried. Default: no.
    fn can_stream_lists(&self) -> bool {
        false
    }

    /// Which apiVersion and kind JSON items must have. Default: any.
    fn types(&self) -> TypeMeta {
        TypeMeta::default()
    }

    /// The cluster that the objects are of; each of them [says so](Cached::cluster). Default: none in particular.
    fn cluster(&self) -> Option<Arc<str>> {
        None
    }

    /// The namespace that all objects are of, if there is only one. Default: any, or none.
    fn namespace(&self) -> Option<Arc<str>> {
        None
    }

    /// What the objects are called in logs and errors, such as `pods`. Default: `objects`.
    fn name(&self) -> String {
        "objects".into()
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

/// The pieces of one page.
pub type ListStream<O> = BoxStream<'static, Result<ListPiece<O>, SourceError>>;

/// The pieces of a watch, as long as it lasts.
pub type WatchStream<O> = BoxStream<'static, Result<WatchPiece<O>, SourceError>>;

/// Which page is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListRequest {
    /// At least this version; `0` for anything that is at hand, empty for the newest.
    pub version: ResourceVersion,
    /// This very version, not a newer one.
    pub is_exact: bool,
    /// At most so many items.
    pub limit: Option<u32>,
    /// What the page before gave as its token.
    pub continue_token: Option<String>,
}

/// What is to be watched.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchRequest {
    /// Everything after this version.
    pub version: ResourceVersion,
    /// Begin with everything that exists, and mark the end of that: a list as a stream.
    pub sends_initial_events: bool,
    /// End it after this time, which is in whole seconds.
    pub timeout: Duration,
}

/// Which state is looked up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LookupRequest {
    /// The object to look up; `None` if only the source's version is wanted.
    pub key: Option<Key>,
    /// The state at exactly this version; empty for the newest state, which must not be that of a replica that lags behind.
    pub version: ResourceVersion,
}

/// The answer to a [`LookupRequest`].
#[derive(Debug)]
pub struct Lookup<O> {
    /// The version at which the source was read.
    pub version: ResourceVersion,
    /// The object, if it was asked for and exists at that version.
    pub object: Option<Item<O>>,
}

/// A piece of a page.
#[non_exhaustive]
pub enum ListPiece<O> {
    /// Some bytes of the page, which is JSON as an API server writes it. They may begin and end anywhere.
    Body(Bytes),
    /// An item.
    Item(Item<O>),
    /// The end of a page that came as items. One that came as bytes says itself where it ends.
    End(ListMetadata),
}

/// A piece of a watch.
#[non_exhaustive]
pub enum WatchPiece<O> {
    /// Some bytes of the watch, which is lines of JSON as an API server writes them. They may begin and end anywhere.
    Body(Bytes),
    /// An event.
    Event(SourceEvent<O>),
}

/// Something that happened at the source.
#[derive(Debug)]
#[non_exhaustive]
pub enum SourceEvent<O> {
    /// An object is there.
    Added(Item<O>),
    /// An object has changed.
    Modified(Item<O>),
    /// An object is gone; this is its final state.
    Deleted(Item<O>),
    /// Nothing happened to objects, but everything up to a version was told.
    Bookmark {
        /// The version.
        version: ResourceVersion,
        /// Whether everything that existed was told as well: the end of a streamed list.
        ends_initial_events: bool,
    },
}

/// An object that a source delivers: JSON, or a decoded object with its identity. It is not `Clone`, because a transform may still change
/// the object before the reflector shares it.
///
/// ```
/// use informant::{Key, object::Identity};
/// use informant::listwatch::Item;
///
/// let ready = Item::new(Identity::of_key(Key::cluster_scoped("apples")), 12_u32);
/// assert_eq!((ready.identity().map(|identity| identity.key.name()), ready.object()), (Some("apples"), Some(&12)));
///
/// let json = Item::<u32>::json(r#"{"metadata": {"name": "apples"}}"#);
/// assert_eq!((json.as_json().is_some(), json.identity(), json.object()), (true, None, None));
/// ```
#[derive(Debug)]
pub struct Item<O> {
    content: ItemContent<O>,
}

#[derive(Debug)]
pub(super) enum ItemContent<O> {
    Json(Bytes),
    Ready(Cached<O>),
}

/// Whether a source has a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// It has.
    Yes,
    /// It has not, for sure.
    No,
    /// It cannot say.
    Unknown,
}

impl WatchRequest {
    /// Everything after a version; asked to last five minutes.
    pub fn from_version(version: impl Into<ResourceVersion>) -> Self {
        Self { version: version.into(), sends_initial_events: false, timeout: Duration::from_secs(300) }
    }
}

impl ListRequest {
    /// The next page of the same list.
    pub(super) fn next_page(&self, continue_token: String) -> Self {
        Self {
            version: ResourceVersion::default(),
            is_exact: false,
            limit: self.limit,
            continue_token: Some(continue_token),
        }
    }

    /// The same list in one page.
    pub(super) fn unpaged(&self) -> Self {
        Self { limit: None, continue_token: None, ..self.clone() }
    }
}

impl<O: Send + Sync + 'static> ListPiece<O> {
    /// A whole list in one page.
    pub fn page(version: impl Into<ResourceVersion>, items: impl IntoIterator<Item = Item<O>>) -> ListStream<O> {
        let end = ListMetadata { resource_version: version.into(), ..ListMetadata::default() };
        let items: Vec<_> = items.into_iter().map(|item| Ok(Self::Item(item))).collect();
        futures_util::stream::iter(items).chain(futures_util::stream::iter([Ok(Self::End(end))])).boxed()
    }
}

impl<O: Send + Sync + 'static> Item<O> {
    /// A decoded object, with its identity.
    pub fn new(identity: Identity, object: O) -> Self {
        Self::ready(Cached::new(identity, object))
    }

    /// As [`new`](Self::new), with the object's apiVersion and kind, and its cluster.
    pub fn with_provenance(identity: Identity, provenance: Arc<Provenance>, object: O) -> Self {
        Self::ready(Cached::with_provenance(identity, provenance, object))
    }

    /// A decoded object; its identity is read from its metadata.
    ///
    /// # Errors
    ///
    /// When the object has no name, for example because it was never sent to a server.
    pub fn of(object: O) -> Result<Self, DecodeError>
    where
        O: kube::Resource<DynamicType = ()>,
    {
        Cached::of(object).map(Self::ready)
    }

    /// The decoded object; `None` for JSON.
    pub fn object(&self) -> Option<&O> {
        match &self.content {
            ItemContent::Json(_) => None,
            // A plain reference, not the handle: a clone of the handle would prevent a transform (INV-I1).
            ItemContent::Ready(object) => Some(object.object()),
        }
    }
}

impl<O> Item<O> {
    /// An object as JSON, which the reflector decodes. A reflector [of ready objects](super::Reflector::of_ready_objects) quarantines it.
    pub fn json(json: impl Into<Bytes>) -> Self {
        Self { content: ItemContent::Json(json.into()) }
    }

    /// The JSON; `None` for a decoded object.
    pub fn as_json(&self) -> Option<&Bytes> {
        match &self.content {
            ItemContent::Json(json) => Some(json),
            ItemContent::Ready(_) => None,
        }
    }

    /// The identity; `None` for JSON, which has not been read yet.
    pub fn identity(&self) -> Option<&Identity> {
        match &self.content {
            ItemContent::Json(_) => None,
            ItemContent::Ready(object) => Some(object.identity()),
        }
    }

    /// The object must not be shared (INV-I1).
    fn ready(object: Cached<O>) -> Self {
        Self { content: ItemContent::Ready(object) }
    }

    pub(super) fn content(&self) -> &ItemContent<O> {
        &self.content
    }

    pub(super) fn into_content(self) -> ItemContent<O> {
        self.content
    }

    /// Erases the object type.
    pub(super) fn erase(self) -> Item<Erased> {
        match self.content {
            ItemContent::Json(json) => Item::json(json),
            ItemContent::Ready(object) => Item::ready(object.erase()),
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

impl<O> Lookup<O> {
    pub(super) fn erase(self) -> Lookup<Erased> {
        Lookup { version: self.version, object: self.object.map(Item::erase) }
    }
}

/// In the notation of informer specifications: `L(0, 500)`, `L("", 500, C1)`.
impl fmt::Display for ListRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "L({}, ", Version(&self.version))?;
        match self.limit {
            None => write!(f, "no limit")?,
            Some(limit) => write!(f, "{limit}")?,
        }
        match &self.continue_token {
            None => write!(f, ")"),
            Some(token) => write!(f, ", {token})"),
        }
    }
}

/// `W(10)`, or `WL("")` if it sends initial events.
impl fmt::Display for WatchRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.sends_initial_events { "WL" } else { "W" };
        write!(f, "{verb}({})", Version(&self.version))
    }
}

/// A version that can be seen also if it is empty.
struct Version<'a>(&'a ResourceVersion);

impl fmt::Display for Version<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str("\"\"") } else { self.0.fmt(f) }
    }
}

impl<O> fmt::Debug for ListPiece<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Body(bytes) => write!(f, "Body({} bytes)", bytes.len()),
            Self::Item(_) => f.write_str("Item"),
            Self::End(metadata) => f.debug_tuple("End").field(metadata).finish(),
        }
    }
}

impl<O> fmt::Debug for WatchPiece<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Body(bytes) => write!(f, "Body({} bytes)", bytes.len()),
            Self::Event(_) => f.write_str("Event"),
        }
    }
}

//! Erases the object type of a source, so that the reflector is compiled once.
//!
//! - **In:** a [source](ListWatch) of objects of some type.
//! - **Out:** the same source, with erased objects.
//! - **Knows nothing of:** what is listed and watched.

use std::{marker::PhantomData, sync::Arc};

use futures_util::{StreamExt, future::BoxFuture};
use kube::core::TypeMeta;

use super::{
    ListPiece, ListRequest, ListStream, ListWatch, LookupAnswer, LookupRequest, Served, SourceError, WatchPiece,
    WatchRequest, WatchStream,
};
use crate::object::Erased;

/// A source whose object type is erased.
pub struct AnySource {
    pub(super) source: Arc<dyn DynSource>,
    /// `None` for a custom source.
    pub(super) selection: Option<KubeSelection>,
}

/// The objects of an API server that a source requests, beside their namespace.
#[derive(Clone, Debug)]
pub(crate) struct KubeSelection {
    /// The kind, with its group: `Pod`, `Deployment.apps`.
    pub(crate) kind: String,
    /// The label selector; empty if all labels are selected.
    pub(crate) labels: String,
    /// The field selector; empty if all fields are selected.
    pub(crate) fields: String,
}

/// [`ListWatch`] with boxed futures and erased objects.
pub(crate) trait DynSource: Send + Sync {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<ListStream<Erased>, SourceError>>;
    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<WatchStream<Erased>, SourceError>>;
    fn look_up(&self, request: LookupRequest) -> BoxFuture<'_, Result<Option<LookupAnswer<Erased>>, SourceError>>;
    fn is_served(&self) -> BoxFuture<'_, Served>;
    fn can_stream_lists(&self) -> bool;
    fn types(&self) -> TypeMeta;
    fn cluster(&self) -> Option<Arc<str>>;
    fn namespace(&self) -> Option<Arc<str>>;
    fn name(&self) -> String;
    fn storage(&self) -> Option<String>;
}

/// Adapts a `ListWatch<O>` to the erased objects of the reflector.
struct ErasedSource<O, L> {
    source: L,
    object_type: PhantomData<fn(O) -> O>,
}

impl AnySource {
    /// Erases the object type of a source. Compiled for each `O` and `L`.
    pub(super) fn new<O: Send + Sync + 'static, L: ListWatch<O>>(source: L) -> Self {
        Self { source: Arc::new(ErasedSource { source, object_type: PhantomData }), selection: None }
    }
}

impl<O: Send + Sync + 'static, L: ListWatch<O>> DynSource for ErasedSource<O, L> {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<ListStream<Erased>, SourceError>> {
        Box::pin(async move { Ok(self.source.list(request).await?.map(|piece| piece.map(ListPiece::erase)).boxed()) })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<WatchStream<Erased>, SourceError>> {
        Box::pin(async move { Ok(self.source.watch(request).await?.map(|piece| piece.map(WatchPiece::erase)).boxed()) })
    }

    fn look_up(&self, request: LookupRequest) -> BoxFuture<'_, Result<Option<LookupAnswer<Erased>>, SourceError>> {
        Box::pin(async move { Ok(self.source.look_up(request).await?.map(LookupAnswer::erase)) })
    }

    fn is_served(&self) -> BoxFuture<'_, Served> {
        Box::pin(self.source.is_served())
    }

    fn can_stream_lists(&self) -> bool {
        self.source.can_stream_lists()
    }

    fn types(&self) -> TypeMeta {
        self.source.types()
    }

    fn cluster(&self) -> Option<Arc<str>> {
        self.source.cluster()
    }

    fn namespace(&self) -> Option<Arc<str>> {
        self.source.namespace()
    }

    fn name(&self) -> String {
        self.source.name()
    }

    fn storage(&self) -> Option<String> {
        self.source.storage()
    }
}

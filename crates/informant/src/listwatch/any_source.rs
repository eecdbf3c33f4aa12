//! A source of objects of any type, as the reflector holds it: so the reflector is compiled once.
//!
//! - **In:** a [source](ListWatch) of objects of some type.
//! - **Out:** the same source; its objects have lost their type.
//! - **Knows nothing of:** what is listed and watched.

use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use kube::core::TypeMeta;

use super::Item;
use super::ListPiece;
use super::ListRequest;
use super::ListStream;
use super::ListWatch;
use super::Lookup;
use super::LookupRequest;
use super::Served;
use super::SourceError;
use super::SourceEvent;
use super::WatchPiece;
use super::WatchRequest;
use super::WatchStream;
use crate::object::Erased;

/// A source of objects of any type.
pub struct AnySource(pub(super) Arc<dyn DynSource>);

/// [`ListWatch`] with boxed futures, and without the type of the objects.
pub(super) trait DynSource: Send + Sync {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<ListStream<Erased>, SourceError>>;
    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<WatchStream<Erased>, SourceError>>;
    fn look_up(&self, request: LookupRequest) -> BoxFuture<'_, Result<Option<Lookup<Erased>>, SourceError>>;
    fn is_served(&self) -> BoxFuture<'_, Served>;
    fn can_stream_lists(&self) -> bool;
    fn types(&self) -> TypeMeta;
    fn cluster(&self) -> Option<Arc<str>>;
    fn namespace(&self) -> Option<Arc<str>>;
    fn name(&self) -> String;
}

/// A source whose objects are of type `O`.
struct OfType<O, L> {
    source: L,
    object: PhantomData<fn() -> O>,
}

impl AnySource {
    /// A source whose objects are of type `O`. Compiled for each `O` and `L`.
    pub(super) fn of_type<O: Send + Sync + 'static, L: ListWatch<O>>(source: L) -> Self {
        Self(Arc::new(OfType { source, object: PhantomData }))
    }

    /// A source that delivers nothing but JSON, and so the same for all types of objects. Compiled once for each `L`.
    pub(super) fn of_json<L: ListWatch<Erased>>(source: L) -> Self {
        Self::of_type::<Erased, L>(source)
    }
}

impl<O: Send + Sync + 'static, L: ListWatch<O>> DynSource for OfType<O, L> {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<ListStream<Erased>, SourceError>> {
        Box::pin(async move { Ok(cast_all(self.source.list(request).await?, cast_list_piece)) })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<WatchStream<Erased>, SourceError>> {
        Box::pin(async move { Ok(cast_all(self.source.watch(request).await?, cast_watch_piece)) })
    }

    fn look_up(&self, request: LookupRequest) -> BoxFuture<'_, Result<Option<Lookup<Erased>>, SourceError>> {
        Box::pin(async move {
            let found = self.source.look_up(request).await?;
            Ok(found.map(|Lookup { version, object }| Lookup { version, object: object.map(Item::cast) }))
        })
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
}

/// A stream whose pieces have lost the type of their objects.
fn cast_all<P: 'static, E: 'static>(
    pieces: BoxStream<'static, Result<P, SourceError>>,
    cast: fn(P) -> E,
) -> BoxStream<'static, Result<E, SourceError>> {
    pieces.map(move |piece| piece.map(cast)).boxed()
}

fn cast_list_piece<O>(piece: ListPiece<O>) -> ListPiece<Erased> {
    match piece {
        ListPiece::Body(bytes) => ListPiece::Body(bytes),
        ListPiece::Item(item) => ListPiece::Item(item.cast()),
        ListPiece::End(metadata) => ListPiece::End(metadata),
    }
}

fn cast_watch_piece<O>(piece: WatchPiece<O>) -> WatchPiece<Erased> {
    let event = match piece {
        WatchPiece::Body(bytes) => return WatchPiece::Body(bytes),
        WatchPiece::Event(event) => event,
    };
    WatchPiece::Event(match event {
        SourceEvent::Added(item) => SourceEvent::Added(item.cast()),
        SourceEvent::Modified(item) => SourceEvent::Modified(item.cast()),
        SourceEvent::Deleted(item) => SourceEvent::Deleted(item.cast()),
        SourceEvent::Bookmark { version, ends_initial_events } => {
            SourceEvent::Bookmark { version, ends_initial_events }
        }
    })
}

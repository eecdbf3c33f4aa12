//! The receiver of the reflector's changes.
//!
//! - **In:** changes from the reflector, in the server's order.
//! - **Out:** the same changes, with the user's object type.
//! - **Knows nothing of:** the queue, which implements the trait.

use std::{future::poll_fn, marker::PhantomData, task::Poll};

use futures_util::future::BoxFuture;

use crate::{delta::Change, object::Erased};

/// Receives the changes that a reflector reads, in the server's order. The [queue](crate::pipeline::DeltaFifo) implements it.
pub trait Destination<O>: Send + Sync + 'static {
    /// Receives a change. Must not block: the reflector reads nothing while it runs.
    fn push(&self, change: Change<O>);

    /// Completes when the destination accepts more changes. The reflector awaits it before it reads further events, which slows the server down
    /// instead of using more memory. Must be cancel safe. Default: completes at once.
    ///
    /// An implementation writes `Box::pin(async move { … })`; each call allocates the future. The default allocates nothing.
    fn room(&self) -> BoxFuture<'_, ()> {
        // A future without a size: a box of it needs no allocation.
        Box::pin(poll_fn(|_| Poll::Ready(())))
    }
}

/// Adapts a `Destination<O>` to the erased objects of the reflector.
pub(super) struct ErasedDestination<O, D> {
    pub(super) destination: D,
    pub(super) object_type: PhantomData<fn(O) -> O>,
}

impl<O: 'static, D: Destination<O>> Destination<Erased> for ErasedDestination<O, D> {
    fn push(&self, change: Change<Erased>) {
        self.destination.push(change.typed());
    }

    fn room(&self) -> BoxFuture<'_, ()> {
        self.destination.room()
    }
}

//! What users write: somebody who is told of changes.

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

use crate::Cached;
use crate::Deleted;
use crate::Origin;
use crate::object::Erased;

/// Somebody who hears of every change of an informer's objects.
///
/// One call at a time, in order: for each object an add, then updates, then a delete, and so on. When a call comes, the cache
/// has the change already, and perhaps later ones.
///
/// One order holds between objects. When the watch was down and the informer has listed everything again, the handler receives all
/// deletes of this relist before all its adds and updates, with either queue. These deletes include the missed delete of an object
/// that was deleted and created again. So a handler that maps the IP addresses of pods to names can remove the address in
/// `on_delete` and insert it in `on_add`, although another pod got the address while the watch was down. The promise does not cover
/// the order of updates among each other, changes that a [filter](crate::informer::Subscribe::filter) turns from updates into deletes,
/// events that were [coalesced](crate::informer::Subscribe::coalesce_above), and the members of a [`View`](crate::View) among each
/// other. The [in-order queue](crate::informer::InformerBuilder::in_order) also keeps the order of all changes that the watch delivers.
///
/// Calls must not block: they run on the runtime's threads. For work that takes long, put a key into a work queue, read a
/// [stream](super::EventStream) instead, or give the handler [a thread of its own](crate::informer::Subscribe::blocking_handler). A
/// call that panics is logged and counts as done; the next one comes a second later.
///
/// An `Arc` of a handler is a handler, so one may follow several informers, or the same one twice.
///
/// ```
/// use informant::{Cached, Deleted, EventHandler, Origin};
/// use k8s_openapi::api::core::v1::Pod;
///
/// struct Printer;
///
/// impl EventHandler<Pod> for Printer {
///     fn on_add(&self, pod: &Cached<Pod>, origin: Origin) {
///         println!("+ {} ({origin:?})", pod.key());
///     }
///     fn on_delete(&self, pod: &Deleted<Pod>) {
///         println!("- {}", pod.key());
///     }
/// }
/// ```
pub trait EventHandler<O>: Send + Sync + 'static {
    /// An object is there: it was created, or it belongs to what was there when the handler came.
    fn on_add(&self, object: &Cached<O>, origin: Origin) {
        let _ = (object, origin);
    }

    /// An object has changed. `old` is what was last told of it.
    fn on_update(&self, old: &Cached<O>, new: &Cached<O>) {
        let _ = (old, new);
    }

    /// An object is gone.
    fn on_delete(&self, deleted: &Deleted<O>) {
        let _ = deleted;
    }

    /// An object is replayed without a change, to a handler with a [resync
    /// period](crate::informer::Subscribe::resync_every): when the period is over, and when a relist has the object unchanged; in both
    /// cases not while events of an earlier replay wait for the handler.
    ///
    /// Default: calls `on_update(object, object)`, so old and new are [the same object](Cached::ptr_eq).
    fn on_resync(&self, object: &Cached<O>) {
        self.on_update(object, object);
    }

    /// All objects that were there when the handler came were told. It comes once.
    fn on_synced(&self) {}

    /// What it is called in logs, errors and metrics. Default: the name of its type.
    fn name(&self) -> String {
        std::any::type_name::<Self>().to_owned()
    }
}

/// What points to a handler is one.
macro_rules! handler_behind {
    ($pointer:ident) => {
        impl<O, H: EventHandler<O> + ?Sized> EventHandler<O> for $pointer<H> {
            fn on_add(&self, object: &Cached<O>, origin: Origin) {
                (**self).on_add(object, origin);
            }

            fn on_update(&self, old: &Cached<O>, new: &Cached<O>) {
                (**self).on_update(old, new);
            }

            fn on_delete(&self, deleted: &Deleted<O>) {
                (**self).on_delete(deleted);
            }

            fn on_resync(&self, object: &Cached<O>) {
                (**self).on_resync(object);
            }

            fn on_synced(&self) {
                (**self).on_synced();
            }

            fn name(&self) -> String {
                (**self).name()
            }
        }
    };
}

handler_behind!(Arc);
handler_behind!(Box);

/// Adapts an `EventHandler<O>` to the erased objects of the engine.
struct ErasedHandler<O, H> {
    handler: H,
    object_type: PhantomData<fn(O) -> O>,
}

/// Erases the object type of a handler.
pub(crate) fn erase_handler<O: 'static>(handler: impl EventHandler<O>) -> AnyHandler {
    Box::new(ErasedHandler { handler, object_type: PhantomData })
}

/// A handler whose object type is erased.
pub(crate) type AnyHandler = Box<dyn EventHandler<Erased>>;

impl<O: 'static, H: EventHandler<O>> EventHandler<Erased> for ErasedHandler<O, H> {
    fn on_add(&self, object: &Cached<Erased>, origin: Origin) {
        self.handler.on_add(object.typed_ref(), origin);
    }

    fn on_update(&self, old: &Cached<Erased>, new: &Cached<Erased>) {
        self.handler.on_update(old.typed_ref(), new.typed_ref());
    }

    fn on_delete(&self, deleted: &Deleted<Erased>) {
        self.handler.on_delete(&deleted.clone().typed());
    }

    fn on_resync(&self, object: &Cached<Erased>) {
        self.handler.on_resync(object.typed_ref());
    }

    fn on_synced(&self) {
        self.handler.on_synced();
    }

    fn name(&self) -> String {
        self.handler.name()
    }
}

/// A handler made of closures, each of which may be left out.
///
/// ```
/// use informant::Handler;
/// use k8s_openapi::api::core::v1::Pod;
///
/// let handler = Handler::<Pod>::new()
///     .on_add(|pod, origin| println!("+ {} ({origin:?})", pod.key()))
///     .on_update(|old, new| println!("~ {} {} → {}", new.key(), old.version(), new.version()))
///     .on_delete(|pod| println!("- {}", pod.key()));
/// ```
#[must_use = "a handler hears nothing until it is added to an informer"]
pub struct Handler<O> {
    on_add: Option<OnAdd<O>>,
    on_update: Option<OnUpdate<O>>,
    on_delete: Option<OnDelete<O>>,
    on_resync: Option<OnResync<O>>,
    on_synced: Option<Box<dyn Fn() + Send + Sync>>,
    made_at: &'static Location<'static>,
}

type OnAdd<O> = Box<dyn Fn(&Cached<O>, Origin) + Send + Sync>;
type OnUpdate<O> = Box<dyn Fn(&Cached<O>, &Cached<O>) + Send + Sync>;
type OnDelete<O> = Box<dyn Fn(&Deleted<O>) + Send + Sync>;
type OnResync<O> = Box<dyn Fn(&Cached<O>) + Send + Sync>;

impl<O> Handler<O> {
    /// One that does nothing. It is called after the place in the code where it was made.
    #[track_caller]
    pub fn new() -> Self {
        let made_at = Location::caller();
        Self { on_add: None, on_update: None, on_delete: None, on_resync: None, on_synced: None, made_at }
    }

    /// Hears of objects that are there.
    pub fn on_add(mut self, hear: impl Fn(&Cached<O>, Origin) + Send + Sync + 'static) -> Self {
        self.on_add = Some(Box::new(hear));
        self
    }

    /// Hears of objects that have changed: old, then new.
    pub fn on_update(mut self, hear: impl Fn(&Cached<O>, &Cached<O>) + Send + Sync + 'static) -> Self {
        self.on_update = Some(Box::new(hear));
        self
    }

    /// Hears of objects that are gone.
    pub fn on_delete(mut self, hear: impl Fn(&Deleted<O>) + Send + Sync + 'static) -> Self {
        self.on_delete = Some(Box::new(hear));
        self
    }

    /// Hears of objects that are as they were. Default: as an update.
    pub fn on_resync(mut self, hear: impl Fn(&Cached<O>) + Send + Sync + 'static) -> Self {
        self.on_resync = Some(Box::new(hear));
        self
    }

    /// Hears that all objects that were there at first were told.
    pub fn on_synced(mut self, hear: impl Fn() + Send + Sync + 'static) -> Self {
        self.on_synced = Some(Box::new(hear));
        self
    }
}

impl<O: 'static> EventHandler<O> for Handler<O> {
    fn on_add(&self, object: &Cached<O>, origin: Origin) {
        if let Some(hear) = &self.on_add {
            hear(object, origin);
        }
    }

    fn on_update(&self, old: &Cached<O>, new: &Cached<O>) {
        if let Some(hear) = &self.on_update {
            hear(old, new);
        }
    }

    fn on_delete(&self, deleted: &Deleted<O>) {
        if let Some(hear) = &self.on_delete {
            hear(deleted);
        }
    }

    fn on_resync(&self, object: &Cached<O>) {
        match &self.on_resync {
            Some(hear) => hear(object),
            None => self.on_update(object, object),
        }
    }

    fn on_synced(&self) {
        if let Some(hear) = &self.on_synced {
            hear();
        }
    }

    fn name(&self) -> String {
        format!("handler at {}", self.made_at)
    }
}

impl<O> Default for Handler<O> {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl<O> fmt::Debug for Handler<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handler").field("made_at", &format_args!("{}", self.made_at)).finish_non_exhaustive()
    }
}

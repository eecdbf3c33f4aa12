//! The events that handlers and streams receive.

use std::{fmt, ops::Deref};

use crate::{Cached, Key, object::Erased};

/// A deleted object, and how the informer learned of the deletion.
///
/// It dereferences to the last known state of the object, so that a callback can use it like any other [`Cached`] object:
///
/// ```
/// use informant::{Cached, Deleted};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let mut pod = Pod::default();
/// pod.metadata.name = Some("web".into());
/// let deleted = Deleted::Observed(Cached::of(pod)?);
///
/// assert_eq!(deleted.metadata.name.as_deref(), Some("web"));
/// assert_eq!(deleted.key().name(), "web");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub enum Deleted<O> {
    /// The watch delivered the final state. A handler with a filter also receives it when an object stops passing the filter; then this is the
    /// state that the handler received last.
    Observed(Cached<O>),
    /// The watch was down, or the final state could not be decoded. This is the newest state that the cache had; the object may have
    /// changed since.
    Missed {
        /// The newest state that the cache had.
        last_known: Cached<O>,
    },
}

/// Whether an added object is part of the initial list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The object is part of the initial list, or was in the cache when the handler was added.
    InitialList,
    /// The object was added later.
    Live,
}

/// A change of an informer's objects, as a handler or stream receives it.
///
/// The events of one object are always an add, then updates, then a delete, and so on.
pub enum Event<O> {
    /// The object was added.
    Added {
        /// The object.
        object: Cached<O>,
        /// Whether the object is part of the initial list.
        origin: Origin,
    },
    /// The object has changed.
    Updated {
        /// The state that the handler or stream received last.
        old: Cached<O>,
        /// The new state.
        new: Cached<O>,
    },
    /// The object has not changed; it is replayed by a resync, or because a relist returned it unchanged. Only handlers and streams with a
    /// resync period receive this event.
    Resynced(Cached<O>),
    /// The object was deleted.
    Deleted(Deleted<O>),
    /// All objects of the initial list were delivered. Received once.
    Synced,
}

/// An event on its way from the cache to the handlers. For a delete, it also carries the state that handlers received last, so that this
/// state, too, is dropped after the apply lock was released.
#[derive(Debug, Clone)]
pub(crate) struct CacheEvent {
    pub(crate) event: Event<Erased>,
    /// For a delete, the state that handlers received last. `None` if that is the state in the event, and for all other events.
    #[cfg_attr(not(test), expect(dead_code, reason = "it delays the drop; only tests read it"))]
    last_received: Option<Cached<Erased>>,
}

impl<O> Event<O> {
    /// The state of the object after this event; `None` for [`Synced`](Self::Synced).
    pub fn object(&self) -> Option<&Cached<O>> {
        match self {
            Self::Added { object, .. } | Self::Updated { new: object, .. } | Self::Resynced(object) => Some(object),
            Self::Deleted(deleted) => Some(deleted.object()),
            Self::Synced => None,
        }
    }

    /// The key of the object; `None` for [`Synced`](Self::Synced).
    pub fn key(&self) -> Option<&Key> {
        self.object().map(Cached::key)
    }

    /// Whether the object was deleted.
    pub(crate) fn is_delete(&self) -> bool {
        matches!(self, Self::Deleted(_))
    }

    /// Whether the event replays an object that has not changed.
    pub(crate) fn is_resync(&self) -> bool {
        matches!(self, Self::Resynced(_))
    }
}

impl CacheEvent {
    pub(crate) fn deleted(deleted: Deleted<Erased>, last_received: Cached<Erased>) -> Self {
        Self { event: Event::Deleted(deleted), last_received: Some(last_received) }
    }

    /// For a delete, returns the state that handlers received last; for any other event, its [object](Event::object).
    #[cfg(test)]
    pub(crate) fn last_received(&self) -> Option<&Cached<Erased>> {
        self.last_received.as_ref().or_else(|| self.event.object())
    }
}

impl From<Event<Erased>> for CacheEvent {
    fn from(event: Event<Erased>) -> Self {
        Self { event, last_received: None }
    }
}

impl<O> Deleted<O> {
    /// The newest known state of the object; it is the final one only if it is [`Observed`](Self::Observed).
    pub fn object(&self) -> &Cached<O> {
        match self {
            Self::Observed(object) | Self::Missed { last_known: object } => object,
        }
    }

    /// The key of the deleted object.
    pub fn key(&self) -> &Key {
        self.object().key()
    }

    /// Returns false if the UIDs show that the two deletes are of different objects with the same name.
    pub(crate) fn may_be_same_incarnation(&self, other: &Self) -> bool {
        self.object().identity().may_be_same_incarnation(other.object().uid())
    }
}

impl Event<Erased> {
    /// Restores the type of the objects, as [`Cached::typed`] does.
    pub(crate) fn typed<O>(self) -> Event<O> {
        match self {
            Self::Added { object, origin } => Event::Added { object: object.typed(), origin },
            Self::Updated { old, new } => Event::Updated { old: old.typed(), new: new.typed() },
            Self::Resynced(object) => Event::Resynced(object.typed()),
            Self::Deleted(deleted) => Event::Deleted(deleted.typed()),
            Self::Synced => Event::Synced,
        }
    }
}

impl Deleted<Erased> {
    /// Restores the type of the object, as [`Cached::typed`] does.
    pub(crate) fn typed<O>(self) -> Deleted<O> {
        match self {
            Self::Observed(object) => Deleted::Observed(object.typed()),
            Self::Missed { last_known } => Deleted::Missed { last_known: last_known.typed() },
        }
    }
}

/// The last known state of the object, as [`object`](Deleted::object) returns it.
impl<O> Deref for Deleted<O> {
    type Target = Cached<O>;

    fn deref(&self) -> &Cached<O> {
        self.object()
    }
}

impl<O> Clone for Deleted<O> {
    fn clone(&self) -> Self {
        match self {
            Self::Observed(object) => Self::Observed(object.clone()),
            Self::Missed { last_known } => Self::Missed { last_known: last_known.clone() },
        }
    }
}

impl<O> Clone for Event<O> {
    fn clone(&self) -> Self {
        match self {
            Self::Added { object, origin } => Self::Added { object: object.clone(), origin: *origin },
            Self::Updated { old, new } => Self::Updated { old: old.clone(), new: new.clone() },
            Self::Resynced(object) => Self::Resynced(object.clone()),
            Self::Deleted(deleted) => Self::Deleted(deleted.clone()),
            Self::Synced => Self::Synced,
        }
    }
}

impl<O> fmt::Debug for Deleted<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Observed(object) => f.debug_tuple("Observed").field(object).finish(),
            Self::Missed { last_known } => f.debug_struct("Missed").field("last_known", last_known).finish(),
        }
    }
}

impl<O> fmt::Debug for Event<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added { object, origin } => {
                f.debug_struct("Added").field("object", object).field("origin", origin).finish()
            }
            Self::Updated { old, new } => f.debug_struct("Updated").field("old", old).field("new", new).finish(),
            Self::Resynced(object) => f.debug_tuple("Resynced").field(object).finish(),
            Self::Deleted(deleted) => f.debug_tuple("Deleted").field(deleted).finish(),
            Self::Synced => f.write_str("Synced"),
        }
    }
}

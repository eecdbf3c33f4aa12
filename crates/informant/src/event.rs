//! The events that handlers and streams receive.

use std::ops::Deref;

use derive_where::derive_where;

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
#[derive_where(Clone, Debug)]
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
#[derive_where(Clone, Debug)]
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

impl<O> Deleted<O> {
    /// The newest known state of the object; it is the final one only if it is [`Observed`](Self::Observed).
    pub fn object(&self) -> &Cached<O> {
        match self {
            Self::Observed(object) | Self::Missed { last_known: object } => object,
        }
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

//! An event on its way to the handlers, with what is needed to filter and coalesce it.
//!
//! - **In:** changes of the cache.
//! - **Out:** [`Event`]s.
//! - **Knows nothing of:** listeners.

use crate::{Cached, Deleted, Event, Key, Origin, object::Erased};

/// An event whose object type is erased.
pub(crate) enum Notice {
    Added {
        object: Cached<Erased>,
        origin: Origin,
    },
    Updated {
        old: Cached<Erased>,
        new: Cached<Erased>,
    },
    /// A replay of an object that has not changed: by a resync, or by a relist.
    Unchanged(Cached<Erased>),
    Deleted {
        deleted: Deleted<Erased>,
        /// The state that handlers received last; the final state may differ.
        last: Cached<Erased>,
    },
    /// The end of the initial list.
    Synced,
}

impl Notice {
    /// The key of the object; `None` for `Synced`.
    pub(crate) fn key(&self) -> Option<&Key> {
        match self {
            Self::Added { object, .. } | Self::Updated { new: object, .. } | Self::Unchanged(object) => {
                Some(object.key())
            }
            Self::Deleted { deleted, .. } => Some(deleted.key()),
            Self::Synced => None,
        }
    }

    /// Whether it is a delete.
    pub(crate) fn is_delete(&self) -> bool {
        match self {
            Self::Deleted { .. } => true,
            Self::Added { .. } | Self::Updated { .. } | Self::Unchanged(_) | Self::Synced => false,
        }
    }

    /// Whether it replays an object that has not changed.
    pub(crate) fn is_resync(&self) -> bool {
        match self {
            Self::Added { .. } | Self::Updated { .. } | Self::Deleted { .. } | Self::Synced => false,
            Self::Unchanged(_) => true,
        }
    }

    /// The event as a handler or stream receives it.
    pub(super) fn to_event(&self) -> Event<Erased> {
        match self {
            Self::Added { object, origin } => Event::Added { object: object.clone(), origin: *origin },
            Self::Updated { old, new } => Event::Updated { old: old.clone(), new: new.clone() },
            Self::Unchanged(object) => Event::Resynced(object.clone()),
            Self::Deleted { deleted, last: _ } => Event::Deleted(deleted.clone()),
            Self::Synced => Event::Synced,
        }
    }
}

impl Clone for Notice {
    fn clone(&self) -> Self {
        match self {
            Self::Added { object, origin } => Self::Added { object: object.clone(), origin: *origin },
            Self::Updated { old, new } => Self::Updated { old: old.clone(), new: new.clone() },
            Self::Unchanged(object) => Self::Unchanged(object.clone()),
            Self::Deleted { deleted, last } => Self::Deleted { deleted: deleted.clone(), last: last.clone() },
            Self::Synced => Self::Synced,
        }
    }
}

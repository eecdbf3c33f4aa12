//! What a listener is told: an event, and what it takes to filter and merge it.

use std::sync::Arc;

use crate::Cached;
use crate::Deleted;
use crate::Event;
use crate::Key;
use crate::Origin;

/// One change of the cache.
pub(crate) enum Notice<O> {
    Added {
        object: Arc<Cached<O>>,
        origin: Origin,
    },
    Updated {
        old: Arc<Cached<O>>,
        new: Arc<Cached<O>>,
    },
    /// As it was: said by a resync, or by a list that has it in the state that is known.
    Unchanged(Arc<Cached<O>>),
    Deleted {
        deleted: Deleted<O>,
        /// What was last told of it. The final state may be another one.
        last: Arc<Cached<O>>,
    },
    /// The end of the initial list.
    Synced,
}

impl<O> Notice<O> {
    /// Which object it is about, if it is about one.
    pub(crate) fn key(&self) -> Option<&Key> {
        match self {
            Self::Added { object, .. } | Self::Updated { new: object, .. } | Self::Unchanged(object) => {
                Some(object.key())
            }
            Self::Deleted { deleted, .. } => Some(deleted.key()),
            Self::Synced => None,
        }
    }

    /// Whether an object is gone.
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

    /// As a follower hears of it.
    pub(super) fn to_event(&self) -> Event<O> {
        match self {
            Self::Added { object, origin } => Event::Added { object: Arc::clone(object), origin: *origin },
            Self::Updated { old, new } => Event::Updated { old: Arc::clone(old), new: Arc::clone(new) },
            Self::Unchanged(object) => Event::Resynced(Arc::clone(object)),
            Self::Deleted { deleted, last: _ } => Event::Deleted(deleted.clone()),
            Self::Synced => Event::Synced,
        }
    }
}

impl<O> Clone for Notice<O> {
    fn clone(&self) -> Self {
        match self {
            Self::Added { object, origin } => Self::Added { object: Arc::clone(object), origin: *origin },
            Self::Updated { old, new } => Self::Updated { old: Arc::clone(old), new: Arc::clone(new) },
            Self::Unchanged(object) => Self::Unchanged(Arc::clone(object)),
            Self::Deleted { deleted, last } => Self::Deleted { deleted: deleted.clone(), last: Arc::clone(last) },
            Self::Synced => Self::Synced,
        }
    }
}

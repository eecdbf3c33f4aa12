//! What happens to an object, and what is said of it besides its content: how it went, and when it came.

use std::fmt;

use crate::Cached;
use crate::Key;
use crate::object::Erased;

/// How we learned that an object is gone.
pub enum Deleted<O> {
    /// The watch delivered the final state. For a follower with a filter also: the object does not pass any more, and this is the
    /// last state that did.
    Observed(Cached<O>),
    /// The watch was down, or the final state was unreadable: the object is gone, and this is the newest state that
    /// we knew. There may have been newer ones.
    Missed {
        /// The newest state that we knew.
        last_known: Cached<O>,
    },
}

/// Whether a change belongs to the first complete picture of the server, or came later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Part of the initial list.
    InitialList,
    /// Everything after it.
    Live,
}

/// What happens to the objects of an informer, as each of those who follow it hears of it.
///
/// For one object it is always an add, then updates, then a delete, and so on.
pub enum Event<O> {
    /// The object is there.
    Added {
        /// The object.
        object: Cached<O>,
        /// Whether it belongs to the first complete picture that this follower gets.
        origin: Origin,
    },
    /// The object has changed.
    Updated {
        /// What was last told of it.
        old: Cached<O>,
        /// What it is now.
        new: Cached<O>,
    },
    /// The object is as it was: it is told again because the follower wants that every now and then, or because a new list of
    /// everything has it unchanged. Only followers with a resync period hear of that.
    Resynced(Cached<O>),
    /// The object is gone.
    Deleted(Deleted<O>),
    /// Everything of the first complete picture was told. It comes once.
    Synced,
}

impl<O> Event<O> {
    /// The object as this event left it; none if it is not about one.
    pub fn object(&self) -> Option<&Cached<O>> {
        match self {
            Self::Added { object, .. } | Self::Updated { new: object, .. } | Self::Resynced(object) => Some(object),
            Self::Deleted(deleted) => Some(deleted.object()),
            Self::Synced => None,
        }
    }

    /// Which object it is about, if it is about one.
    pub fn key(&self) -> Option<&Key> {
        self.object().map(Cached::key)
    }
}

impl<O> Deleted<O> {
    /// The newest state we have of the object; final only if it was [`Observed`](Self::Observed).
    pub fn object(&self) -> &Cached<O> {
        match self {
            Self::Observed(object) | Self::Missed { last_known: object } => object,
        }
    }

    /// Which object is gone.
    pub fn key(&self) -> &Key {
        self.object().key()
    }

    /// Whether both say the same: that this life of the object is over.
    pub(crate) fn is_of_same_incarnation(&self, other: &Self) -> bool {
        self.object().identity().may_be_same_incarnation(other.object().uid())
    }
}

impl Event<Erased> {
    /// Gives the objects a type again, as [`Cached::typed`] does.
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
    /// Gives the object a type again, as [`Cached::typed`] does.
    pub(crate) fn typed<O>(self) -> Deleted<O> {
        match self {
            Self::Observed(object) => Deleted::Observed(object.typed()),
            Self::Missed { last_known } => Deleted::Missed { last_known: last_known.typed() },
        }
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

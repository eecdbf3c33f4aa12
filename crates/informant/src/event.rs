//! What is said of an object besides its content: how it went, and when it came.

use std::sync::Arc;

use crate::Cached;
use crate::Key;

/// How we learned that an object is gone.
#[derive(Debug)]
pub enum Deleted<O> {
    /// The watch delivered the final state.
    Observed(Arc<Cached<O>>),
    /// The watch was down, or the final state was unreadable: the object is gone, and this is the newest state that
    /// we knew. There may have been newer ones.
    Missed {
        /// The newest state that we knew.
        last_known: Arc<Cached<O>>,
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

impl<O> Deleted<O> {
    /// The newest state we have of the object; final only if it was [`Observed`](Self::Observed).
    pub fn object(&self) -> &Arc<Cached<O>> {
        match self {
            Self::Observed(object) | Self::Missed { last_known: object } => object,
        }
    }

    /// Which object is gone.
    pub fn key(&self) -> &Key {
        self.object().key()
    }

    /// Whether both say the same: that this life of the object is over.
    pub(crate) fn is_of_same_life(&self, other: &Self) -> bool {
        self.object().identity().may_be_same_life(other.object().uid())
    }
}

impl<O> Clone for Deleted<O> {
    fn clone(&self) -> Self {
        match self {
            Self::Observed(object) => Self::Observed(Arc::clone(object)),
            Self::Missed { last_known } => Self::Missed { last_known: Arc::clone(last_known) },
        }
    }
}

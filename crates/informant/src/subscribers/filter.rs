//! Applies a handler's filter: an object that begins to pass is an add, and one that no longer passes is a delete.
//!
//! - **In:** an event, and a function that selects objects.
//! - **Out:** the same event, another one, or none.
//! - **Knows nothing of:** buffers, tasks.

use std::sync::Arc;

use super::Notice;
use crate::{Cached, Deleted, Origin, object::Erased};

/// Returns true for the objects whose events a handler receives.
pub(crate) type Filter = Arc<dyn Fn(&Cached<Erased>) -> bool + Send + Sync>;

/// The result of applying a filter to an event.
pub(super) enum Filtered {
    Unchanged,
    /// Another event.
    Instead(Notice),
    Nothing,
}

impl Filtered {
    /// The event that the handler receives, if it receives one.
    pub(super) fn of<'a>(&'a self, notice: &'a Notice) -> Option<&'a Notice> {
        match self {
            Self::Unchanged => Some(notice),
            Self::Instead(other) => Some(other),
            Self::Nothing => None,
        }
    }
}

/// Applies a filter to an event.
///
/// A delete is delivered if the state that the handler received last passes, whatever the final state is. Otherwise a handler would miss
/// the delete of an object whose last change made it fail the filter.
pub(super) fn as_filtered(notice: &Notice, passes: impl Fn(&Cached<Erased>) -> bool) -> Filtered {
    let if_passes = |object: &Cached<Erased>| if passes(object) { Filtered::Unchanged } else { Filtered::Nothing };
    match notice {
        Notice::Added { object, .. } | Notice::Unchanged(object) => if_passes(object),
        Notice::Updated { old, new } => match (passes(old), passes(new)) {
            (true, true) => Filtered::Unchanged,
            (false, true) => Filtered::Instead(Notice::Added { object: new.clone(), origin: Origin::Live }),
            // The object exists, but no longer passes. The handler gets the state that it received last.
            (true, false) => {
                let deleted = Deleted::Observed(old.clone());
                Filtered::Instead(Notice::Deleted { deleted, last: old.clone() })
            }
            (false, false) => Filtered::Nothing,
        },
        Notice::Deleted { last, .. } => if_passes(last),
        Notice::Synced => Filtered::Unchanged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, object::Identity};

    fn object(passes: bool) -> Cached<Erased> {
        Cached::new(Identity::of_key(Key::cluster_scoped("x")), passes).erase()
    }

    fn shown(notice: &Notice) -> Option<&'static str> {
        let left = as_filtered(notice, |object| **object.typed_ref::<bool>());
        Some(match left.of(notice)? {
            Notice::Added { origin: Origin::InitialList, .. } => "initial add",
            Notice::Added { origin: Origin::Live, .. } => "add",
            Notice::Updated { .. } => "update",
            Notice::Unchanged(_) => "unchanged",
            Notice::Deleted { .. } => "delete",
            Notice::Synced => "synced",
        })
    }

    /// CT-26
    #[test]
    fn an_object_that_enters_the_filter_is_an_add_and_one_that_leaves_it_a_delete() {
        let update = |old, new| Notice::Updated { old: object(old), new: object(new) };
        assert_eq!(shown(&update(true, true)), Some("update"));
        assert_eq!(shown(&update(false, true)), Some("add"));
        assert_eq!(shown(&update(true, false)), Some("delete"));
        assert_eq!(shown(&update(false, false)), None);
    }

    /// CT-26
    #[test]
    fn an_add_and_a_resync_pass_the_filter_if_the_object_does() {
        let add = |passes| Notice::Added { object: object(passes), origin: Origin::InitialList };
        assert_eq!(shown(&add(true)), Some("initial add"));
        assert_eq!(shown(&add(false)), None);
        assert_eq!(shown(&Notice::Unchanged(object(true))), Some("unchanged"));
        assert_eq!(shown(&Notice::Unchanged(object(false))), None);
        assert_eq!(shown(&Notice::Synced), Some("synced"));
    }

    /// CT-26, CT-27, as we want them: the state that was delivered last decides.
    #[test]
    fn a_delete_passes_the_filter_if_the_last_delivered_state_did() {
        let delete = |last, fin| Notice::Deleted { deleted: Deleted::Observed(object(fin)), last: object(last) };
        assert_eq!(shown(&delete(true, true)), Some("delete"));
        assert_eq!(shown(&delete(true, false)), Some("delete"));
        assert_eq!(shown(&delete(false, true)), None);
        let missed = Deleted::Missed { last_known: object(true) };
        assert_eq!(shown(&Notice::Deleted { deleted: missed, last: object(true) }), Some("delete"));
    }
}

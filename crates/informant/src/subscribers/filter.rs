//! The objects that a follower cares for: what enters them is an add, what leaves them a delete.

use std::sync::Arc;

use super::Notice;
use crate::Cached;
use crate::Deleted;
use crate::Origin;
use crate::object::Erased;

/// Says which objects somebody cares for.
pub(crate) type Filter = Arc<dyn Fn(&Cached<Erased>) -> bool + Send + Sync>;

/// What is left of a notice.
pub(super) enum Filtered {
    AsItIs,
    /// Something else.
    As(Notice),
    Nothing,
}

impl Filtered {
    /// What is told instead of the notice, if anything is.
    pub(super) fn of<'a>(&'a self, notice: &'a Notice) -> Option<&'a Notice> {
        match self {
            Self::AsItIs => Some(notice),
            Self::As(other) => Some(other),
            Self::Nothing => None,
        }
    }
}

/// What a notice means to somebody who cares only for the objects that pass; nothing, if it concerns none of them.
///
/// Whether a delete is told depends on what was last told, not on the final state: so nobody waits for ever for the delete of
/// an object whose last change made it uninteresting.
pub(super) fn as_filtered(notice: &Notice, passes: impl Fn(&Cached<Erased>) -> bool) -> Filtered {
    let if_passes = |object: &Cached<Erased>| if passes(object) { Filtered::AsItIs } else { Filtered::Nothing };
    match notice {
        Notice::Added { object, .. } | Notice::Unchanged(object) => if_passes(object),
        Notice::Updated { old, new } => match (passes(old), passes(new)) {
            (true, true) => Filtered::AsItIs,
            (false, true) => Filtered::As(Notice::Added { object: new.clone(), origin: Origin::Live }),
            // It is there, but not for this follower, who gets the state that it was told of last.
            (true, false) => {
                let deleted = Deleted::Observed(old.clone());
                Filtered::As(Notice::Deleted { deleted, last: old.clone() })
            }
            (false, false) => Filtered::Nothing,
        },
        Notice::Deleted { last, .. } => if_passes(last),
        Notice::Synced => Filtered::AsItIs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;
    use crate::object::Identity;

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
    fn what_enters_the_filter_is_an_add_and_what_leaves_it_a_delete() {
        let update = |old, new| Notice::Updated { old: object(old), new: object(new) };
        assert_eq!(shown(&update(true, true)), Some("update"));
        assert_eq!(shown(&update(false, true)), Some("add"));
        assert_eq!(shown(&update(true, false)), Some("delete"));
        assert_eq!(shown(&update(false, false)), None);
    }

    /// CT-26
    #[test]
    fn an_add_and_a_resync_are_told_of_objects_that_pass() {
        let add = |passes| Notice::Added { object: object(passes), origin: Origin::InitialList };
        assert_eq!(shown(&add(true)), Some("initial add"));
        assert_eq!(shown(&add(false)), None);
        assert_eq!(shown(&Notice::Unchanged(object(true))), Some("unchanged"));
        assert_eq!(shown(&Notice::Unchanged(object(false))), None);
        assert_eq!(shown(&Notice::Synced), Some("synced"));
    }

    /// CT-26, CT-27, as we want them: what was last told decides.
    #[test]
    fn a_delete_is_told_if_the_object_was_whatever_its_final_state_is() {
        let delete = |last, fin| Notice::Deleted { deleted: Deleted::Observed(object(fin)), last: object(last) };
        assert_eq!(shown(&delete(true, true)), Some("delete"));
        assert_eq!(shown(&delete(true, false)), Some("delete"));
        assert_eq!(shown(&delete(false, true)), None);
        let missed = Deleted::Missed { last_known: object(true) };
        assert_eq!(shown(&Notice::Deleted { deleted: missed, last: object(true) }), Some("delete"));
    }
}

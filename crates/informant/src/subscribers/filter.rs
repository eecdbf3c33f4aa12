//! Applies a handler's filter: an object that begins to pass is an add, and one that no longer passes is a delete.
//!
//! - **In:** an event, and a function that selects objects.
//! - **Out:** the same event, another one, or none.
//! - **Knows nothing of:** buffers, tasks.

use std::{borrow::Cow, sync::Arc};

use crate::{Cached, Deleted, Event, Origin, event::CacheEvent, object::Erased};

/// Returns true for the objects whose events a handler receives.
pub(crate) type Filter = Arc<dyn Fn(&Cached<Erased>) -> bool + Send + Sync>;

/// Returns the event that the handler receives, if it receives one.
///
/// A delete is delivered if the state that the handler received last passes, whatever the final state is. Otherwise a handler would miss
/// the delete of an object whose last change made it fail the filter.
pub(super) fn apply_filter(
    shared: &CacheEvent,
    passes: impl Fn(&Cached<Erased>) -> bool,
) -> Option<Cow<'_, Event<Erased>>> {
    let is_received = match &shared.event {
        Event::Updated { old, new } => match (passes(old), passes(new)) {
            (false, true) => return Some(Cow::Owned(Event::Added { object: new.clone(), origin: Origin::Live })),
            // The object exists, but no longer passes. The handler gets the state that it received last.
            (true, false) => return Some(Cow::Owned(Event::Deleted(Deleted::Observed(old.clone())))),
            (passed_before, _) => passed_before,
        },
        Event::Added { .. } | Event::Resynced(_) | Event::Deleted(_) | Event::Synced => {
            shared.last_received().is_none_or(passes)
        }
    };
    is_received.then_some(Cow::Borrowed(&shared.event))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, object::Identity};

    fn object(passes: bool) -> Cached<Erased> {
        Cached::new(Identity::of_key(Key::cluster_scoped("x")), passes).erase()
    }

    fn shown(event: impl Into<CacheEvent>) -> Option<&'static str> {
        let event = event.into();
        let received = apply_filter(&event, |object| **object.typed_ref::<bool>())?;
        Some(match &*received {
            Event::Added { origin: Origin::InitialList, .. } => "initial add",
            Event::Added { origin: Origin::Live, .. } => "add",
            Event::Updated { .. } => "update",
            Event::Resynced(_) => "unchanged",
            Event::Deleted(_) => "delete",
            Event::Synced => "synced",
        })
    }

    /// CT-26
    #[test]
    fn an_object_that_enters_the_filter_is_an_add_and_one_that_leaves_it_a_delete() {
        let update = |old, new| Event::Updated { old: object(old), new: object(new) };
        assert_eq!(shown(update(true, true)), Some("update"));
        assert_eq!(shown(update(false, true)), Some("add"));
        assert_eq!(shown(update(true, false)), Some("delete"));
        assert_eq!(shown(update(false, false)), None);
    }

    /// CT-26
    #[test]
    fn an_add_and_a_resync_pass_the_filter_if_the_object_does() {
        let add = |passes| Event::Added { object: object(passes), origin: Origin::InitialList };
        assert_eq!(shown(add(true)), Some("initial add"));
        assert_eq!(shown(add(false)), None);
        assert_eq!(shown(Event::Resynced(object(true))), Some("unchanged"));
        assert_eq!(shown(Event::Resynced(object(false))), None);
        assert_eq!(shown(Event::Synced), Some("synced"));
    }

    /// CT-26, CT-27, as we want them: the state that was delivered last decides.
    #[test]
    fn a_delete_passes_the_filter_if_the_last_delivered_state_did() {
        let delete = |last, fin| CacheEvent::deleted(Deleted::Observed(object(fin)), object(last));
        assert_eq!(shown(delete(true, true)), Some("delete"));
        assert_eq!(shown(delete(true, false)), Some("delete"));
        assert_eq!(shown(delete(false, true)), None);
        assert_eq!(shown(Event::Deleted(Deleted::Missed { last_known: object(true) })), Some("delete"));
    }
}

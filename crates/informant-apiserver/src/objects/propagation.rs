//! What a delete does with the objects that the deleted one owns: the finalizers that it sets for the garbage collector.
//!
//! - **In:** the kind and the object; the policy in the request, if it has one.
//! - **Out:** the finalizers of the object from then on.
//! - **Knows nothing of:** the collector, which removes these finalizers. Without one they stay, as in a bare kube-apiserver.

use crate::{
    objects::Object,
    registry::kind::{Kind, Origin},
};

/// The finalizer of an object whose dependents are to lose their reference to it.
pub(crate) const ORPHAN: &str = "orphan";

/// The finalizer of an object that waits until its dependents are deleted.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// The policy of a delete for the dependents: the objects that name the deleted one as their owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// They are deleted after the object.
    Background,
    /// They are deleted before the object.
    Foreground,
    /// They stay, and lose the reference to the object.
    Orphan,
}

/// Returns the finalizers of an object after a delete with this policy; `None` if they do not change.
///
/// Without a policy in the request, finalizers that the object already has decide, and then the kind.
pub(crate) fn finalizers(kind: &Kind, object: &Object, asked: Option<Propagation>) -> Option<Vec<String>> {
    let existing = object.finalizers();
    let by_finalizer = existing.iter().find_map(|finalizer| match *finalizer {
        ORPHAN => Some(Propagation::Orphan),
        FOREGROUND => Some(Propagation::Foreground),
        _ => None,
    });
    let policy = match takes_part(kind) {
        true => asked.or(by_finalizer).unwrap_or(default(kind)),
        false => Propagation::Background,
    };
    let wanted = match policy {
        Propagation::Background => None,
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Orphan => Some(ORPHAN),
    };
    let others = existing.iter().copied().filter(|finalizer| ![ORPHAN, FOREGROUND].contains(finalizer));
    let next: Vec<_> = others.chain(wanted).collect();
    let is_same = next.len() == existing.len() && next.iter().all(|finalizer| existing.contains(finalizer));
    (!is_same).then(|| next.into_iter().map(str::to_owned).collect())
}

/// Returns true if objects of this kind can have owners and dependents for the garbage collector. Events cannot.
pub(crate) fn takes_part(kind: &Kind) -> bool {
    !(kind.origin == Origin::BuiltIn && kind.plural == "events")
}

/// The policy of a kind for deletes without one.
pub(crate) fn default(kind: &Kind) -> Propagation {
    let orphans =
        kind.origin == Origin::BuiltIn && (kind.is_at("batch", "jobs") || kind.is_at("", "replicationcontrollers"));
    if orphans { Propagation::Orphan } else { Propagation::Background }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::registry::Registry;

    fn after(plural: &str, existing: &[&str], asked: Option<Propagation>) -> Option<Vec<String>> {
        let kind = Registry::builtin_kinds().find(|kind| kind.plural == plural).unwrap();
        let object = Object::from_value(json!({"metadata": {"finalizers": existing}}));
        finalizers(&kind, &object, asked)
    }

    #[test]
    fn the_request_decides_then_the_finalizers_then_the_kind() {
        let is = |finalizers: &[&str]| Some(finalizers.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>());

        assert_eq!(after("pods", &["a/b"], None), None);
        assert_eq!(after("pods", &["a/b"], Some(Propagation::Orphan)), is(&["a/b", ORPHAN]));
        assert_eq!(after("pods", &[], Some(Propagation::Foreground)), is(&[FOREGROUND]));
        assert_eq!(after("pods", &[ORPHAN], None), None);
        assert_eq!(after("pods", &[ORPHAN, "a/b"], Some(Propagation::Foreground)), is(&["a/b", FOREGROUND]));
        assert_eq!(after("pods", &[FOREGROUND, "a/b"], Some(Propagation::Background)), is(&["a/b"]));
        assert_eq!(after("jobs", &[], None), is(&[ORPHAN]));
        assert_eq!(after("jobs", &[FOREGROUND], None), None);
        assert_eq!(after("jobs", &[], Some(Propagation::Background)), None);
        assert_eq!(after("replicationcontrollers", &[], None), is(&[ORPHAN]));
        assert_eq!(after("cronjobs", &[], None), None);
        assert_eq!(after("events", &[], Some(Propagation::Foreground)), None);
    }
}

//! Decides whether an informer can see an object that was written.
//!
//! - **In:** the written object; the kind, namespace and selectors that the informer's source requests.
//! - **Out:** the reason why the informer cannot see the object, if that is certain.
//! - **Knows nothing of:** the cache, and waiting.

use std::any::Any;

use kube::core::{DynamicObject, ObjectMeta, TypeMeta};

use crate::{
    Key,
    error::ScopeMismatch,
    listwatch::{KubeSelection, kind_name},
    object::Identity,
    store::LabelSelector,
};

/// An object as a server returned it from a write.
pub(crate) struct Written<'a> {
    pub(crate) identity: Identity,
    /// The kind with its group, as in [`KubeSelection::kind`]; `None` if it is unknown.
    kind: Option<String>,
    metadata: &'a ObjectMeta,
}

impl<'a> Written<'a> {
    /// Returns `None` if the object has no name or no version, so that no server returned it.
    pub(crate) fn of<K: kube::Resource + 'static>(object: &'a K) -> Option<Self> {
        let identity = Identity::of_written(object)?;
        Some(Self { identity, kind: kind_of(object), metadata: object.meta() })
    }

    /// Returns why no state of the object with this kind, labels and fields is in the selection; `None` also if that is unknown.
    pub(super) fn mismatch(&self, selection: &KubeSelection) -> Option<ScopeMismatch> {
        let KubeSelection { kind: informer, labels, fields } = selection;
        if let Some(object) = self.kind.as_ref().filter(|kind| *kind != informer) {
            return Some(ScopeMismatch::Kind { informer: informer.clone(), object: object.clone() });
        }
        if excludes(fields, &self.identity.key) {
            return Some(ScopeMismatch::Fields { selector: fields.clone() });
        }
        // A selector that cannot be parsed has operators that only servers know.
        let selector: LabelSelector = labels.parse().ok()?;
        let matches = selector.matches(self.metadata.labels.as_ref().unwrap_or(&Default::default()));
        (!matches).then(|| ScopeMismatch::Labels { selector: labels.clone() })
    }
}

/// Returns the kind of an object, if its type names it or it contains it.
fn kind_of<K: kube::Resource + 'static>(object: &K) -> Option<String> {
    let known_at_compile_time: &dyn Any = &();
    if let Some(kind) = known_at_compile_time.downcast_ref::<K::DynamicType>() {
        return Some(kind_name(&K::group(kind), &K::kind(kind)));
    }
    let object: &dyn Any = object;
    let TypeMeta { api_version, kind } = object.downcast_ref::<DynamicObject>()?.types.as_ref()?;
    // The core group has no name: its apiVersion is `v1`.
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    Some(kind_name(group, kind))
}

/// Returns true if a field selector certainly excludes an object. An object's name and namespace are the only fields that every kind has;
/// requirements on other fields are ignored.
fn excludes(fields: &str, key: &Key) -> bool {
    // A backslash can hide a comma or an equals sign, and no name has one.
    !fields.contains('\\') && fields.split(',').any(|requirement| is_unmet(requirement, key))
}

/// Returns true if a key does not meet one requirement of a field selector: `a=b`, `a==b` or `a!=b`.
fn is_unmet(requirement: &str, key: &Key) -> bool {
    let Some((field, wanted)) = requirement.split_once('=') else { return false };
    let (field, is_negated) = field.strip_suffix('!').map_or((field, false), |field| (field, true));
    let value = match field {
        "metadata.name" => key.name(),
        "metadata.namespace" => key.namespace().unwrap_or_default(),
        _ => return false,
    };
    (value == wanted.strip_prefix('=').unwrap_or(wanted)) == is_negated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_selector_excludes_an_object_only_by_its_name_and_namespace() {
        let key = Key::namespaced("shop", "web");
        for fields in ["", "metadata.name=web", "metadata.name==web", "metadata.name!=x,metadata.namespace=shop"] {
            assert!(!excludes(fields, &key), "{fields:?}");
        }
        for fields in ["metadata.name=x", "metadata.name!=web", "spec.a=b,metadata.namespace==home"] {
            assert!(excludes(fields, &key), "{fields:?}");
        }
        for fields in ["spec.nodeName=n1", "spec.a=b\\,metadata.name=x", "metadata.name", "status.phase!=Running,"] {
            assert!(!excludes(fields, &key), "{fields:?} cannot be decided");
        }
        assert!(!excludes("metadata.namespace=", &Key::cluster_scoped("node-1")));
    }
}

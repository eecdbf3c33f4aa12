//! Fields that a write through an endpoint does not change. Nobody owns them for having sent them there.

use super::{Author, set::FieldSet};
use crate::registry::{
    kind::{Kind, Origin},
    subresource::Subresource,
};

/// Fields that are in no managed fields.
const STRIPPED: [&[&str]; 12] = [
    &["apiVersion"],
    &["kind"],
    &["metadata"],
    &["metadata", "clusterName"],
    &["metadata", "creationTimestamp"],
    &["metadata", "generation"],
    &["metadata", "managedFields"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "resourceVersion"],
    &["metadata", "selfLink"],
    &["metadata", "uid"],
];

/// The fields of a set that an author can own.
pub(super) fn ownable(kind: &Kind, author: &Author, fields: FieldSet) -> FieldSet {
    stripped(written(kind, author, fields))
}

/// A set without the fields that are in no managed fields.
pub(super) fn stripped(fields: FieldSet) -> FieldSet {
    fields.difference(&set(&STRIPPED))
}

/// A set without the fields that an endpoint ignores.
pub(super) fn written(kind: &Kind, author: &Author, fields: FieldSet) -> FieldSet {
    fields.recursive_difference(&set(ignored(kind, author.subresource)))
}

fn set(paths: &[&[&str]]) -> FieldSet {
    let mut set = FieldSet::default();
    for path in paths {
        set.extend(FieldSet::of_path(path));
    }
    set
}

fn ignored(kind: &Kind, subresource: Option<Subresource>) -> &'static [&'static [&'static str]] {
    match (subresource, kind.origin, &*kind.plural) {
        (None, Origin::BuiltIn, "certificatesigningrequests") => &[&["spec"], &["status"]],
        (None, _, _) if kind.has(Subresource::Status) => &[&["status"]],
        (Some(Subresource::Status), Origin::Custom, _) => &[&["metadata"], &["spec"]],
        (Some(Subresource::Status), Origin::BuiltIn, plural) => match plural {
            "apiservices" | "csinodes" | "flowschemas" | "prioritylevelconfigurations" | "volumeattachments" => {
                &[&["metadata"], &["spec"]]
            }
            "certificatesigningrequests" => &[&["spec"], &["status", "conditions"]],
            "deployments" => &[&["spec"], &["metadata", "labels"]],
            "pods" => &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]],
            _ => &[&["spec"]],
        },
        (Some(Subresource::Approval), _, _) => &[&["spec"], &["status", "certificate"]],
        (Some(Subresource::Finalize), _, _) => &[&["status"]],
        (
            None
            | Some(
                Subresource::Scale
                | Subresource::EphemeralContainers
                | Subresource::Eviction
                | Subresource::Binding
                | Subresource::Token,
            ),
            _,
            _,
        ) => &[],
    }
}

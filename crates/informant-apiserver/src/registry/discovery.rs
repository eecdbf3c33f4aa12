//! Discovery documents, which list the groups, versions and kinds of the server.

use std::{cmp::Reverse, collections::BTreeSet};

use serde_json::{Value, json};

use crate::registry::{
    Registry,
    kind::{Kind, Scope},
    subresource::Subresource,
};

/// `/version`.
pub(crate) fn version() -> Value {
    json!({
        "major": "1",
        "minor": "37",
        "gitVersion": concat!("v1.37.0+informant-", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

/// `/api`.
pub(crate) fn core_versions() -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
}

/// `/apis`.
pub(crate) fn groups(registry: &Registry) -> Value {
    let groups = named_groups(registry).filter_map(|group| group_entry(registry, group)).collect::<Vec<_>>();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// All groups but the core group, each once.
fn named_groups(registry: &Registry) -> impl Iterator<Item = &str> {
    let mut seen = BTreeSet::new();
    registry.kinds().map(|kind| &*kind.group).filter(move |group| !group.is_empty() && seen.insert(*group))
}

/// Which part of the API an aggregated document is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Root {
    /// `/api`: the core group.
    Api,
    /// `/apis`: all other groups.
    Apis,
}

/// The content type of aggregated documents.
pub(crate) const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// All groups, versions and kinds in one document, for clients that accept [`AGGREGATED`].
pub(crate) fn aggregated(registry: &Registry, root: Root) -> Value {
    let groups = match root {
        Root::Api => vec![""],
        Root::Apis => named_groups(registry).collect(),
    };
    let items = groups.into_iter().map(|group| aggregated_group(registry, group)).collect::<Vec<_>>();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn aggregated_group(registry: &Registry, group: &str) -> Value {
    let entry = |version: &str| {
        let kinds = registry.kinds().filter(|kind| kind.group == group && kind.version == version);
        let resources = kinds.map(aggregated_kind).collect::<Vec<_>>();
        json!({"version": version, "freshness": "Current", "resources": resources})
    };
    let versions = versions(registry, group).into_iter().map(entry).collect::<Vec<_>>();
    let metadata = if group.is_empty() { json!({}) } else { json!({ "name": group }) };
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_kind(kind: &Kind) -> Value {
    let names = |(group, version, kind)| json!({"group": group, "version": version, "kind": kind});
    // An empty group and version mean those of the kind.
    let own_type = ("", "", &*kind.kind);
    let subresource = |subresource: &Subresource| {
        json!({
            "subresource": subresource.name(),
            "responseKind": names(subresource.own_type().unwrap_or(own_type)),
            "verbs": subresource.verbs(),
        })
    };
    let mut resource = json!({
        "resource": kind.plural,
        "responseKind": names(own_type),
        "scope": match kind.scope {
            Scope::Namespaced => "Namespaced",
            Scope::Cluster => "Cluster",
        },
        "singularResource": kind.singular,
        "verbs": verbs(kind),
    });
    add_names(&mut resource, kind);
    if !kind.subresources.is_empty() {
        resource["subresources"] = kind.subresources.iter().map(subresource).collect();
    }
    resource
}

/// `/apis/GROUP`.
pub(crate) fn group(registry: &Registry, group: &str) -> Option<Value> {
    let mut entry = group_entry(registry, group)?;
    entry["kind"] = json!("APIGroup");
    entry["apiVersion"] = json!("v1");
    Some(entry)
}

fn group_entry(registry: &Registry, group: &str) -> Option<Value> {
    let entry = |version: &str| json!({"groupVersion": format!("{group}/{version}"), "version": version});
    let versions: Vec<_> = versions(registry, group).into_iter().map(entry).collect();
    let preferred = versions.first()?.clone();
    Some(json!({"name": group, "versions": versions, "preferredVersion": preferred}))
}

/// The versions of a group, the most mature one first.
fn versions<'a>(registry: &'a Registry, group: &str) -> Vec<&'a str> {
    let kinds = registry.kinds().filter(|kind| kind.group == group);
    let mut names: Vec<_> = kinds.map(|kind| &*kind.version).collect();
    names.sort_by_cached_key(|name| (Reverse(maturity(name)), *name));
    names.dedup();
    names
}

/// How mature a version is, by its name: `v2` before `v1` before `v1beta2` before `v1alpha1` before names of another pattern.
fn maturity(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let (stage, (major, minor)) = if let Some(parts) = rest.split_once("beta") {
        (1, parts)
    } else if let Some(parts) = rest.split_once("alpha") {
        (0, parts)
    } else {
        (2, (rest, "0"))
    };
    Some((stage, major.parse().ok()?, minor.parse().ok()?))
}

/// `/api/v1` and `/apis/GROUP/VERSION`.
pub(crate) fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let kinds = || registry.kinds().filter(|kind| kind.group == group && kind.version == version);
    let api_version = kinds().next()?.api_version();
    let resources = kinds().flat_map(entries).collect::<Vec<_>>();
    Some(json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": resources}))
}

fn entries(kind: &Kind) -> Vec<Value> {
    let namespaced = kind.scope == Scope::Namespaced;
    let mut whole = json!({
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": namespaced,
        "kind": kind.kind,
        "verbs": verbs(kind),
    });
    add_names(&mut whole, kind);
    let subresource = |subresource: &Subresource| {
        let mut entry = json!({
            "name": format!("{}/{}", kind.plural, subresource.name()),
            "singularName": "",
            "namespaced": namespaced,
            "kind": kind.kind,
            "verbs": subresource.verbs(),
        });
        if let Some((group, version, kind)) = subresource.own_type() {
            entry["kind"] = json!(kind);
            entry["version"] = json!(version);
            if !group.is_empty() {
                entry["group"] = json!(group);
            }
        }
        entry
    };
    [whole].into_iter().chain(kind.subresources.iter().map(subresource)).collect()
}

/// The verbs that a kind supports. Namespaces do not support `deletecollection`.
pub(crate) fn verbs(kind: &Kind) -> &'static [&'static str] {
    if kind.is_review {
        &["create"]
    } else if kind.is_namespace() {
        &["create", "delete", "get", "list", "patch", "update", "watch"]
    } else {
        &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
    }
}

/// Adds the short names and categories of a kind to its entry, if it has some.
fn add_names(entry: &mut Value, kind: &Kind) {
    if !kind.short_names.is_empty() {
        entry["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        entry["categories"] = json!(kind.categories);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_their_maturity() {
        let mut versions = ["v1alpha1", "first", "v1beta1", "v2", "v10", "v1", "v1beta2", "v2alpha1"];
        versions.sort_by_key(|name| (Reverse(maturity(name)), *name));
        assert_eq!(versions, ["v10", "v2", "v1", "v1beta2", "v1beta1", "v2alpha1", "v1alpha1", "first"]);
    }
}

//! The documents by which clients find out what is served.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde_json::Value;
use serde_json::json;

use crate::registry::Registry;
use crate::registry::kind::Kind;
use crate::registry::kind::Scope;

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
    let mut seen = BTreeSet::new();
    let named = registry.kinds().map(|kind| &*kind.group).filter(|group| !group.is_empty() && seen.insert(*group));
    let groups = named.filter_map(|group| group_entry(registry, group)).collect::<Vec<_>>();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`.
pub(crate) fn group(registry: &Registry, group: &str) -> Option<Value> {
    let mut entry = group_entry(registry, group)?;
    entry["kind"] = json!("APIGroup");
    entry["apiVersion"] = json!("v1");
    Some(entry)
}

fn group_entry(registry: &Registry, group: &str) -> Option<Value> {
    let kinds = registry.kinds().filter(|kind| kind.group == group);
    let mut names: Vec<_> = kinds.map(|kind| &*kind.version).collect();
    names.sort_by_cached_key(|name| (Reverse(maturity(name)), *name));
    names.dedup();
    let entry = |version: &&str| json!({"groupVersion": format!("{group}/{version}"), "version": version});
    let versions: Vec<_> = names.iter().map(entry).collect();
    let preferred = versions.first()?.clone();
    Some(json!({"name": group, "versions": versions, "preferredVersion": preferred}))
}

/// How mature a version is, by its name: `v2` before `v1` before `v1beta2` before `v1alpha1` before what is no such name.
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
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
    });
    if !kind.short_names.is_empty() {
        whole["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        whole["categories"] = json!(kind.categories);
    }
    let status = json!({
        "name": format!("{}/status", kind.plural),
        "singularName": "",
        "namespaced": namespaced,
        "kind": kind.kind,
        "verbs": ["get", "patch", "update"],
    });
    let scale = json!({
        "name": format!("{}/scale", kind.plural),
        "singularName": "",
        "namespaced": namespaced,
        "group": "autoscaling",
        "version": "v1",
        "kind": "Scale",
        "verbs": ["get", "patch", "update"],
    });
    let parts = [(scale, kind.has_scale), (status, kind.has_status)];
    let parts = parts.into_iter().filter_map(|(entry, is_there)| is_there.then_some(entry));
    [whole].into_iter().chain(parts).collect()
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

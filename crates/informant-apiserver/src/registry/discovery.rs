//! The documents by which clients find out what is served.

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
    let mut versions = Vec::new();
    for kind in registry.kinds().filter(|kind| kind.group == group) {
        let entry = json!({"groupVersion": kind.api_version(), "version": kind.version});
        if !versions.contains(&entry) {
            versions.push(entry);
        }
    }
    let preferred = versions.first()?.clone();
    Some(json!({"name": group, "versions": versions, "preferredVersion": preferred}))
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
        "singularName": kind.kind.to_lowercase(),
        "namespaced": namespaced,
        "kind": kind.kind,
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
    });
    if !kind.short_names.is_empty() {
        whole["shortNames"] = json!(kind.short_names);
    }
    if kind.is_of_all {
        whole["categories"] = json!(["all"]);
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

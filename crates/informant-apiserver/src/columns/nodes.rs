//! The columns of nodes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{AGE, Column, NONE, UNKNOWN, is_true, joined, list, or, str, text};

pub(super) fn columns() -> Vec<Column> {
    vec![
        text("Status", |node| status(node).into()),
        text("Roles", roles),
        AGE,
        text("Version", |node| str(node, "/status/nodeInfo/kubeletVersion").into()),
        text("Internal-IP", |node| address(node, "InternalIP")).wide(),
        text("External-IP", |node| address(node, "ExternalIP")).wide(),
        text("OS-Image", |node| or(str(node, "/status/nodeInfo/osImage"), UNKNOWN)).wide(),
        text("Kernel-Version", |node| or(str(node, "/status/nodeInfo/kernelVersion"), UNKNOWN)).wide(),
        text("Container-Runtime", |node| or(str(node, "/status/nodeInfo/containerRuntimeVersion"), UNKNOWN)).wide(),
    ]
}

fn status(node: &Value) -> String {
    let ready = list(node, "/status/conditions").iter().find(|condition| condition["type"] == "Ready");
    let ready = match ready.map(|condition| str(condition, "/status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    format!("{ready}{}", if is_true(node, "/spec/unschedulable") { ",SchedulingDisabled" } else { "" })
}

/// The roles of a node, from labels such as `node-role.kubernetes.io/control-plane`.
fn roles(node: &Value) -> Value {
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object);
    let roles = labels.into_iter().flatten().filter_map(|(name, value)| match name.as_str() {
        "kubernetes.io/role" => value.as_str().filter(|role| !role.is_empty()),
        name => name.strip_prefix("node-role.kubernetes.io/").filter(|role| !role.is_empty()),
    });
    or(&joined(roles.collect::<BTreeSet<_>>().into_iter()), NONE)
}

fn address(node: &Value, kind: &str) -> Value {
    let found = list(node, "/status/addresses").iter().find(|address| address["type"] == kind);
    or(found.map(|address| str(address, "/address")).unwrap_or_default(), NONE)
}

//! The objects that a new cluster has.
//!
//! - **In:** nothing.
//! - **Out:** each object as JSON, with the name of its kind, in the order of creation.

use serde_json::{Value, json};

/// Each object, with the name of its kind, in the order of creation.
pub(crate) fn objects() -> Vec<(&'static str, Value)> {
    let namespaces = ["default", "kube-node-lease", "kube-public", "kube-system"]
        .map(|name| ("namespaces", json!({"metadata": {"name": name}})));
    let others = [
        ("services", kubernetes_service()),
        ("clusterroles.rbac.authorization.k8s.io", cluster_admin()),
        ("clusterrolebindings.rbac.authorization.k8s.io", cluster_admin_binding()),
        (
            "priorityclasses.scheduling.k8s.io",
            priority_class("system-cluster-critical", 2_000_000_000, "some node of the cluster"),
        ),
        (
            "priorityclasses.scheduling.k8s.io",
            priority_class("system-node-critical", 2_000_001_000, "their current node"),
        ),
    ];
    namespaces.into_iter().chain(others).collect()
}

/// The service by which pods reach the API server.
fn kubernetes_service() -> Value {
    let labels = json!({"component": "apiserver", "provider": "kubernetes"});
    json!({
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
        "spec": {
            "clusterIP": "10.96.0.1",
            "clusterIPs": ["10.96.0.1"],
            "internalTrafficPolicy": "Cluster",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
            "sessionAffinity": "None",
            "type": "ClusterIP",
        },
        "status": {"loadBalancer": {}},
    })
}

/// Metadata of objects that kube-apiserver creates for access control.
fn rbac_metadata(name: &str) -> Value {
    json!({
        "name": name,
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
    })
}

fn cluster_admin() -> Value {
    json!({
        "metadata": rbac_metadata("cluster-admin"),
        "rules": [
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
            {"nonResourceURLs": ["*"], "verbs": ["*"]},
        ],
    })
}

fn cluster_admin_binding() -> Value {
    json!({
        "metadata": rbac_metadata("cluster-admin"),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:masters"}],
    })
}

fn priority_class(name: &str, value: u32, place: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "value": value,
        "description": format!("Used for system critical pods that must run on {place}."),
        "preemptionPolicy": "PreemptLowerPriority",
    })
}

//! The objects of the stage, as the server has them: the scopes that the client's informers follow, and a fresh list of each.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result};
use http::Request;
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::protocol::{Contents, State};

/// The annotation that has another value after each write.
pub const STAMP: &str = "conformance/stamp";

/// The group of the custom kind.
pub const GROUP: &str = "conformance.example";

/// The namespaces of the stage.
pub const NAMESPACES: [&str; 2] = ["stage-a", "stage-b"];

/// The objects that one informer follows.
pub struct Scope {
    pub name: &'static str,
    /// The path of its list.
    path: &'static str,
}

/// One scope for each informer of the client.
pub const SCOPES: [Scope; 7] = [
    Scope { name: "configmaps", path: "/api/v1/configmaps" },
    Scope { name: "secrets, lazy", path: "/api/v1/secrets" },
    Scope { name: "deployments, metadata only", path: "/apis/apps/v1/deployments" },
    Scope { name: "widgets, dynamic", path: "/apis/conformance.example/v1/widgets" },
    Scope { name: "configmaps by label, lazy", path: "/api/v1/configmaps?labelSelector=tier%3Dfront" },
    Scope { name: "pods by field", path: "/api/v1/pods?fieldSelector=status.phase%3DRunning" },
    Scope { name: "deployments of a namespace, lazy", path: "/apis/apps/v1/namespaces/stage-b/deployments" },
];

#[derive(Deserialize)]
struct List {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    namespace: String,
    name: String,
    uid: String,
    resource_version: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

impl Scope {
    /// Lists the scope on the server.
    pub async fn list(&self, server: &Client) -> Result<Contents> {
        let list = server.request::<List>(Request::get(self.path).body(Vec::new())?).await?;
        let contents = list.items.into_iter().map(|Item { metadata }| {
            let stamp = metadata.annotations.get(STAMP).cloned().unwrap_or_default();
            let state = State { uid: metadata.uid, version: metadata.resource_version, stamp };
            (format!("{}/{}", metadata.namespace, metadata.name), state)
        });
        Ok(contents.collect())
    }
}

/// Creates the namespaces, the custom kind and the client's permissions.
pub async fn prepare(server: &Client) -> Result<()> {
    for name in NAMESPACES {
        create(server, "/api/v1/namespaces", &json!({"metadata": {"name": name}})).await?;
    }
    let binding = json!({
        "metadata": {"name": "client"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "client"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "client"}],
    });
    create(server, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).await?;
    set_permissions(server, &["get", "list", "watch"]).await?;
    define_widgets(server).await
}

/// Defines the custom kind, and waits until it is served.
pub async fn define_widgets(server: &Client) -> Result<()> {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "metadata": {"name": format!("widgets.{GROUP}")},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    create(server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await?;
    for _ in 0..600 {
        let widgets = Request::get(format!("/apis/{GROUP}/v1/widgets")).body(Vec::new())?;
        if server.request::<Value>(widgets).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    anyhow::bail!("the custom kind was not served within 30 s")
}

/// Deletes the custom kind and its objects.
pub async fn delete_widgets(server: &Client) -> Result<()> {
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{GROUP}");
    server.request::<Value>(Request::delete(&path).body(Vec::new())?).await?;
    for _ in 0..600 {
        if server.request::<Value>(Request::get(&path).body(Vec::new())?).await.is_err() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    anyhow::bail!("the custom kind was not deleted within 30 s")
}

/// Sets what the client may do with all objects, and waits until the server applies it.
pub async fn set_permissions(server: &Client, verbs: &[&str]) -> Result<()> {
    let rule = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": verbs});
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "client"},
        // A rule needs a verb.
        "rules": if verbs.is_empty() { json!([]) } else { json!([rule]) },
    });
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let apply = Request::patch(format!("{path}/client?fieldManager=conformance&force=true"))
        .header("content-type", "application/apply-patch+yaml")
        .body(serde_json::to_vec(&role)?)?;
    server.request::<Value>(apply).await.context("setting the client's role")?;
    let review = json!({"spec": {"user": "client", "resourceAttributes": {"verb": "watch", "resource": "configmaps"}}});
    for _ in 0..600 {
        let answer = create(server, "/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).await?;
        if answer["status"]["allowed"] == verbs.contains(&"watch") {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    anyhow::bail!("the client's role was not applied within 30 s")
}

async fn create(server: &Client, path: &str, object: &Value) -> Result<Value> {
    let request = Request::post(path).header("content-type", "application/json").body(serde_json::to_vec(object)?)?;
    server.request(request).await.with_context(|| format!("creating {object} at {path}"))
}

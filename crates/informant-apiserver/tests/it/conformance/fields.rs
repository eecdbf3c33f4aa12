//! Field selectors: the supported fields of each kind, and the matching objects.

use super::*;

both_ways! {
    fields_select_by_name_and_namespace
    a_field_that_a_kind_does_not_support_is_refused_by_name
    an_unsupported_field_is_refused_in_watches_and_deletes_of_collections
    pods_can_be_selected_by_the_fields_of_their_spec_and_status
    an_absent_boolean_equals_false
    an_absent_number_equals_zero
    events_can_be_selected_by_their_source
    secrets_and_services_can_be_selected_by_type
}

/// The names of the objects that a field selector selects.
async fn selected(api: &Api, path: &str, selector: &str) -> String {
    let list = api.get(&format!("{path}?fieldSelector={}", encode(selector))).await;
    assert_eq!(list.code, 200, "{selector}: {list:?}");
    list.names().concat()
}

fn encode(selector: &str) -> String {
    form_urlencoded::byte_serialize(selector.as_bytes()).collect()
}

async fn create(api: &Api, path: &str, object: &Value) {
    let created = api.post(path, object).await;
    assert_eq!(created.code, 201, "{created:?}");
}

fn pod(name: &str, host_network: Option<bool>) -> Value {
    let mut spec = json!({"nodeName": format!("node-{name}"), "containers": [{"name": "a", "image": "one"}]});
    if let Some(host_network) = host_network {
        spec["hostNetwork"] = json!(host_network);
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
}

async fn fields_select_by_name_and_namespace(api: Api) {
    for name in ["a", "b", "c"] {
        api.add(name).await;
    }
    // Clusters with controllers have a config map in every namespace.
    let not_theirs = "metadata.name!=kube-root-ca.crt";
    let selected = async |selector: &str| {
        let selector = format!("{selector},{not_theirs}");
        selected(&api, &api.path("configmaps"), &selector).await
    };

    assert_eq!(selected("metadata.name=a").await, "a");
    assert_eq!(selected("metadata.name==a").await, "a");
    assert_eq!(selected("metadata.name!=a").await, "bc");
    assert_eq!(selected("metadata.namespace=elsewhere").await, "");
    assert_eq!(selected(&format!("metadata.name!=a,metadata.name!=b,metadata.namespace={}", api.namespace)).await, "c");
}

async fn a_field_that_a_kind_does_not_support_is_refused_by_name(api: Api) {
    let not_supported = |label: &str| format!("field label not supported: {label}");
    let not_known = |label: &str| {
        format!("\"{label}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    };
    for (path, label, message) in [
        ("/api/v1/pods", "spec.image", not_supported("spec.image")),
        ("/api/v1/pods", "metadata.labels", not_supported("metadata.labels")),
        ("/api/v1/nodes", "metadata.namespace", not_supported("metadata.namespace")),
        ("/api/v1/nodes", "spec.podCIDR", not_supported("spec.podCIDR")),
        ("/api/v1/namespaces", "spec.finalizers", not_supported("spec.finalizers")),
        ("/api/v1/events", "message", not_supported("message")),
        ("/apis/events.k8s.io/v1/events", "source", not_supported("source")),
        ("/api/v1/configmaps", "data.colour", not_known("data.colour")),
        ("/api/v1/persistentvolumes", "name", not_known("name")),
        ("/apis/apps/v1/deployments", "spec.replicas", not_known("spec.replicas")),
        ("/apis/apps/v1/replicasets", "status.replicas", not_known("status.replicas")),
        ("/apis/batch/v1/jobs", "spec.suspend", "field label \"spec.suspend\" not supported for Job".to_owned()),
    ] {
        let refused = api.get(&format!("{path}?fieldSelector={}", encode(&format!("metadata.name=a,{label}=b")))).await;

        assert_eq!(refused.failure(), (400, "BadRequest"), "{path} {label}");
        assert_eq!(refused.text("/message"), message, "{path}");
    }
    for (path, label) in [("/api/v1/persistentvolumes", "metadata.namespace"), ("/api/v1/pods", "spec.host")] {
        assert_eq!(api.get(&format!("{path}?fieldSelector={label}%3Da")).await.code, 200, "{path} {label}");
    }
}

async fn an_unsupported_field_is_refused_in_watches_and_deletes_of_collections(api: Api) {
    api.add("a").await;
    let path = format!("{}?fieldSelector=data.colour%3Dred", api.path("configmaps"));

    assert_eq!(api.get(&format!("{path}&watch=true")).await.failure(), (400, "BadRequest"));
    assert_eq!(api.delete(&path).await.failure(), (400, "BadRequest"));
    assert_eq!(api.get(&api.config_map("a")).await.code, 200);
}

async fn pods_can_be_selected_by_the_fields_of_their_spec_and_status(api: Api) {
    let path = api.path("pods");
    for name in ["a", "b"] {
        create(&api, &path, &pod(name, None)).await;
    }
    let status = json!({"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]});
    let changed = api.change(&format!("{path}/b/status"), |pod| pod["status"] = status).await;
    assert_eq!(changed.code, 200, "{changed:?}");

    assert_eq!(selected(&api, &path, "spec.nodeName=node-a").await, "a");
    assert_eq!(selected(&api, &path, "spec.host=node-a").await, "a", "an old name of the same field");
    assert_eq!(selected(&api, &path, "status.phase=Running,spec.nodeName!=node-a").await, "b");
    assert_eq!(selected(&api, &path, "status.podIP=10.0.0.1").await, "b");
    assert_eq!(selected(&api, &path, "status.podIPs=10.0.0.1").await, "", "accepted, but without a value");
}

async fn an_absent_boolean_equals_false(api: Api) {
    let path = api.path("pods");
    for (name, host_network) in [("a", None), ("b", Some(false)), ("c", Some(true))] {
        create(&api, &path, &pod(name, host_network)).await;
    }
    let nodes = [("x", json!({})), ("y", json!({"unschedulable": true}))];
    for (name, spec) in &nodes {
        let name = format!("{}-{name}", api.namespace);
        create(&api, "/api/v1/nodes", &json!({"metadata": {"name": name}, "spec": spec})).await;
    }

    assert_eq!(selected(&api, &path, "spec.hostNetwork=false").await, "ab");
    assert_eq!(selected(&api, &path, "spec.hostNetwork!=false").await, "c");
    let schedulable = selected(&api, "/api/v1/nodes", "spec.unschedulable=false").await;
    assert!(schedulable.contains(&format!("{}-x", api.namespace)), "{schedulable}");
    assert!(!schedulable.contains(&format!("{}-y", api.namespace)), "{schedulable}");
    for (name, _) in &nodes {
        api.delete(&format!("/api/v1/nodes/{}-{name}", api.namespace)).await;
    }
}

async fn an_absent_number_equals_zero(api: Api) {
    let (jobs, controllers) = (api.path("batch/jobs"), api.path("replicationcontrollers"));
    let spec = json!({"restartPolicy": "Never", "containers": [{"name": "a", "image": "one"}]});
    create(&api, &jobs, &json!({"metadata": {"name": "a"}, "spec": {"suspend": true, "template": {"spec": spec}}}))
        .await;
    let template =
        json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "a", "image": "one"}]}});
    let controller =
        json!({"metadata": {"name": "a"}, "spec": {"replicas": 0, "selector": {"app": "a"}, "template": template}});
    create(&api, &controllers, &controller).await;

    assert_eq!(selected(&api, &jobs, "status.successful=0").await, "a");
    assert_eq!(selected(&api, &jobs, "status.successful=1").await, "");
    assert_eq!(selected(&api, &controllers, "status.replicas=0").await, "a");
}

async fn events_can_be_selected_by_their_source(api: Api) {
    let path = api.path("events");
    let event = |name: &str, source: Value, component: &str| {
        let about = json!({"kind": "Pod", "namespace": api.namespace, "name": name});
        json!({
            "metadata": {"name": name},
            "involvedObject": about,
            "reason": "Pulled",
            "type": "Normal",
            "source": source,
            "reportingComponent": component,
            "reportingInstance": "one",
            "action": "Pull",
            "eventTime": "2026-01-01T00:00:00.000000Z",
        })
    };
    create(&api, &path, &event("a", json!({"component": "kubelet"}), "example.com/other")).await;
    create(&api, &path, &event("b", json!({}), "example.com/operator")).await;

    assert_eq!(selected(&api, &path, "source=kubelet").await, "a");
    assert_eq!(
        selected(&api, &path, "source=example.com/operator").await,
        "b",
        "without a source, the reporter counts"
    );
    assert_eq!(selected(&api, &path, "reportingComponent=example.com/other").await, "a");
    assert_eq!(selected(&api, &path, "involvedObject.kind=Pod,involvedObject.name=b,type=Normal").await, "b");
}

async fn secrets_and_services_can_be_selected_by_type(api: Api) {
    let (secrets, services) = (api.path("secrets"), api.path("services"));
    for (name, kind) in [("a", "Opaque"), ("b", "example.com/b")] {
        create(&api, &secrets, &json!({"metadata": {"name": name}, "type": kind})).await;
    }
    let ports = json!([{"port": 80}]);
    for (name, kind) in [("a", "ExternalName"), ("b", "ClusterIP")] {
        let mut spec = json!({"type": kind, "ports": ports});
        if kind == "ExternalName" {
            spec["externalName"] = json!("example.com");
        }
        create(&api, &services, &json!({"metadata": {"name": name}, "spec": spec})).await;
    }

    assert_eq!(selected(&api, &secrets, "type=example.com/b").await, "b");
    assert_eq!(selected(&api, &services, "spec.type=ExternalName").await, "a");
    assert_eq!(selected(&api, &services, "spec.clusterIP=,spec.type!=ClusterIP").await, "a");
}

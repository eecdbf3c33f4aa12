//! The scale subresource, which `kubectl scale` and autoscalers use.

use super::{
    apply::{apply, owner, owners},
    definitions::Widgets,
    *,
};

both_ways! {
    a_scale_says_what_is_wanted_what_is_there_and_whose
    a_scale_is_read_at_a_version_as_its_object_is
    a_scale_is_written_and_changed_and_the_object_with_it
    a_scale_may_name_the_version_that_it_is_for
    a_scale_that_makes_no_sense_is_refused
    kinds_without_replicas_have_no_scale
    replicas_at_another_path_are_owned_there
    a_scale_is_found_by_discovery
}

const MERGE: &str = "application/merge-patch+json";

/// Creates a replica set with two replicas, and returns its path.
async fn replica_set(api: &Api) -> String {
    let replica_set = json!({
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "replicas": 2,
            "selector": {
                "matchLabels": {"app": "web"},
                "matchExpressions": [
                    {"key": "tier", "operator": "In", "values": ["front", "back"]},
                    {"key": "a", "operator": "Exists"},
                ],
            },
            "template": {
                "metadata": {"labels": {"app": "web", "tier": "front", "a": ""}},
                "spec": {"containers": [{"name": "a", "image": "one"}]},
            },
        },
    });
    let path = api.path("apps/replicasets");
    let created = api.post(&path, &replica_set).await;
    assert_eq!(created.code, 201, "{created:?}");
    format!("{path}/web")
}

async fn a_scale_says_what_is_wanted_what_is_there_and_whose(api: Api) {
    let path = replica_set(&api).await;
    let object = api.get(&path).await;

    let scale = api.get(&format!("{path}/scale")).await;

    assert_eq!((scale.text("/kind"), scale.text("/apiVersion")), ("Scale", "autoscaling/v1"), "{scale:?}");
    let mut metadata = object.body["metadata"].clone();
    metadata.as_object_mut().unwrap().retain(|name, _| !["labels", "generation", "managedFields"].contains(&&**name));
    assert_eq!(scale.body["metadata"], metadata);
    assert_eq!(scale.body["spec"], json!({"replicas": 2}));
    assert_eq!(scale.body["status"], json!({"replicas": 0, "selector": "a,app=web,tier in (back,front)"}));
    let metadata_only = [("accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")];
    let partial = api.send_text(Method::GET, &format!("{path}/scale"), String::new(), &metadata_only).await;
    assert_eq!((partial.text("/kind"), &partial.body["spec"]), ("PartialObjectMetadata", &Value::Null));
    assert_eq!(partial.body["metadata"], scale.body["metadata"]);
    assert_eq!(api.get(&format!("{}/missing/scale", api.path("apps/replicasets"))).await.failure(), (404, "NotFound"));
}

async fn a_scale_is_read_at_a_version_as_its_object_is(api: Api) {
    let path = replica_set(&api).await;
    // A real server answers version 0 from its cache, which may not have the new object yet. This request waits for it.
    let created = api.get(&path).await.version();
    assert_eq!(api.get(&format!("{path}?resourceVersion={created}")).await.code, 200);

    for (version, code) in [("0", Some(200)), ("letters", None), ("-1", None), ("9000000000000000", Some(504))] {
        let object = api.get(&format!("{path}?resourceVersion={version}")).await;
        let scale = api.get(&format!("{path}/scale?resourceVersion={version}")).await;
        assert_eq!(object.code, scale.code, "{version}");
        assert!(code.map_or(object.code >= 400, |code| object.code == code), "{version}: {object:?}");
    }
}

async fn a_scale_is_written_and_changed_and_the_object_with_it(api: Api) {
    let path = replica_set(&api).await;
    let before = api.get(&path).await;

    let written = json!({"metadata": {"name": "web", "labels": {"not": "kept"}}, "spec": {"replicas": 5}});
    let scale = api.put(&format!("{path}/scale"), &written).await;
    assert_eq!((scale.code, &scale.body["spec"]["replicas"]), (200, &json!(5)), "{scale:?}");
    let after = api.get(&path).await;
    assert_eq!(after.body["spec"]["replicas"], 5);
    assert_eq!(after.body["metadata"]["labels"], before.body["metadata"]["labels"]);
    assert_eq!(after.body["metadata"]["generation"], 2);
    assert_eq!(after.body["spec"]["template"], before.body["spec"]["template"]);
    assert!(after.version() > before.version() && after.version() == scale.version());

    let change = json!({"spec": {"replicas": 3}});
    for content_type in [MERGE, "application/strategic-merge-patch+json"] {
        let changed = api.patch(&format!("{path}/scale"), content_type, &change).await;
        assert_eq!((changed.code, changed.text("/kind")), (200, "Scale"), "{changed:?}");
    }
    assert_eq!(api.get(&path).await.body["spec"]["replicas"], 3);
    let dry = api.patch(&format!("{path}/scale?dryRun=All"), MERGE, &json!({"spec": {"replicas": 9}})).await;
    assert_eq!(
        (&dry.body["spec"]["replicas"], api.get(&path).await.body["spec"]["replicas"].as_u64()),
        (&json!(9), Some(3))
    );
    let nothing = api.put(&format!("{path}/scale"), &json!({"metadata": {"name": "web"}, "spec": {}})).await;
    assert_eq!((nothing.code, &nothing.body["spec"]), (200, &json!({})), "{nothing:?}");
    assert_eq!(api.get(&path).await.body["spec"]["replicas"], 0, "absent replicas mean 0");
}

async fn a_scale_may_name_the_version_that_it_is_for(api: Api) {
    let path = format!("{}/scale", replica_set(&api).await);
    let mut scale = api.get(&path).await.body;
    scale["spec"]["replicas"] = json!(3);

    assert_eq!(api.put(&path, &scale).await.code, 200);
    scale["spec"]["replicas"] = json!(4);
    let stale = api.put(&path, &scale).await;
    assert_eq!(stale.failure(), (409, "Conflict"));
    assert_eq!(stale.text("/details/kind"), "replicasets");
    let change =
        json!({"metadata": {"resourceVersion": scale["metadata"]["resourceVersion"]}, "spec": {"replicas": 5}});
    assert_eq!(api.patch(&path, MERGE, &change).await.failure(), (409, "Conflict"));
}

async fn a_scale_that_makes_no_sense_is_refused(api: Api) {
    let path = format!("{}/scale", replica_set(&api).await);

    let negative = api.patch(&path, MERGE, &json!({"spec": {"replicas": -1}})).await;
    assert_eq!(negative.failure(), (422, "Invalid"));
    assert_eq!((negative.text("/details/kind"), negative.text("/details/causes/0/field")), ("Scale", "spec.replicas"));
    let of = |spec: Value| json!({"metadata": {"name": "web"}, "spec": spec});
    for spec in [json!({"replicas": "many"}), json!({"replicas": 7.5}), json!("many"), json!([])] {
        assert_eq!(api.put(&path, &of(spec.clone())).await.failure(), (400, "BadRequest"), "{spec}");
        let patched = api.patch(&path, MERGE, &json!({ "spec": spec })).await;
        assert_eq!(patched.failure(), (422, "Invalid"), "{spec}");
    }
    assert_eq!(api.patch(&path, MERGE, &json!({"status": "good"})).await.failure(), (422, "Invalid"));
    let elsewhere = json!({"metadata": {"name": "web", "namespace": "elsewhere"}, "spec": {"replicas": 1}});
    assert_eq!(api.put(&path, &elsewhere).await.failure(), (400, "BadRequest"));
    assert_eq!(api.patch(&path, MERGE, &elsewhere).await.failure(), (400, "BadRequest"));
    let renamed = api.put(&path, &json!({"metadata": {"name": "other"}, "spec": {"replicas": 1}})).await;
    assert_eq!(renamed.failure(), (400, "BadRequest"));
    let mut other = of(json!({"replicas": 1}));
    other["kind"] = json!("ReplicaSet");
    other["apiVersion"] = json!("apps/v1");
    assert_eq!(api.put(&path, &other).await.failure(), (400, "BadRequest"));
    assert_eq!(api.delete(&path).await.failure(), (405, "MethodNotAllowed"));
}

async fn kinds_without_replicas_have_no_scale(api: Api) {
    api.add("a").await;

    assert_eq!(api.get(&format!("{}/scale", api.config_map("a"))).await.failure(), (404, "NotFound"));
}

async fn replicas_at_another_path_are_owned_there(api: Api) {
    let mut widgets = Widgets::new(&api);
    let version = &mut widgets.definition["spec"]["versions"][0];
    version["subresources"]["scale"] =
        json!({"specReplicasPath": ".spec.size.wanted", "statusReplicasPath": ".status.size"});
    let integer = json!({"type": "integer"});
    let size = json!({"type": "object", "properties": {"wanted": integer, "least": integer}});
    let spec = json!({"type": "object", "properties": {"size": size}});
    version["schema"]["openAPIV3Schema"] = json!({"type": "object", "properties": {"spec": spec}});
    widgets.define(&api).await;
    let path = format!("{}/a", widgets.path);
    let mut widget = widgets.widget("a");
    widget["spec"] = json!({"size": {"wanted": 1, "least": 0}});
    apply(&api, &path, "one", &widget).await;

    let scale =
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 3}});
    let refused = apply(&api, &format!("{path}/scale"), "two", &scale).await;
    assert_eq!(refused.text("/message"), "Apply failed with 1 conflict: conflict with \"one\": .spec.replicas");
    let patched = api.patch(&format!("{path}/scale?fieldManager=two"), MERGE, &json!({"spec": {"replicas": 3}})).await;

    assert_eq!((patched.code, &patched.body["spec"]["replicas"]), (200, &json!(3)), "{patched:?}");
    let object = api.get(&path).await;
    assert_eq!(object.body["spec"], json!({"size": {"wanted": 3, "least": 0}}));
    let of_one = json!({"f:spec": {"f:size": {"f:least": {}}}});
    let of_two = json!({"f:spec": {"f:size": {"f:wanted": {}}}});
    assert_eq!(owners(&object.body), [owner("one Apply", of_one), owner("two Update/scale", of_two)]);
    api.delete(&widgets.place()).await;
}

async fn a_scale_is_found_by_discovery(api: Api) {
    for (version, wanted) in [
        ("apis/apps/v1", &["deployments/scale", "replicasets/scale", "statefulsets/scale"][..]),
        ("api/v1", &["replicationcontrollers/scale"]),
    ] {
        let resources = api.get(&format!("/{version}")).await;
        let mut scales: Vec<_> = resources.body["resources"].as_array().unwrap().iter().collect();
        scales.retain(|resource| resource["kind"] == "Scale");
        scales.sort_by_key(|scale| scale["name"].to_string());
        assert_eq!(scales.iter().map(|scale| scale["name"].as_str().unwrap()).collect::<Vec<_>>(), wanted);
        assert!(scales.iter().all(|scale| scale["group"] == "autoscaling" && scale["version"] == "v1"), "{scales:?}");
    }
}

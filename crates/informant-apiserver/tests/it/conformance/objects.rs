//! Single objects: create, get, update, delete, status, and the errors of invalid requests.

use super::*;

both_ways! {
    a_created_object_has_an_identity
    each_change_has_a_higher_version
    a_type_that_is_left_out_is_filled_in
    a_name_is_taken_once
    names_are_generated
    a_long_generated_name_is_cut
    an_object_needs_a_name
    a_name_follows_the_rules
    an_object_of_another_kind_is_refused
    an_object_of_another_namespace_is_refused
    a_body_that_is_no_json_is_refused
    metadata_of_the_wrong_type_is_refused
    a_new_object_has_no_version_yet
    what_is_not_there_is_not_found
    a_kind_that_is_not_served_is_not_found
    a_verb_that_a_path_does_not_have_is_refused
    an_update_replaces_the_object
    a_stale_update_conflicts
    an_update_without_a_version_always_wins
    an_update_of_another_life_conflicts
    an_update_that_changes_nothing_is_no_change
    an_update_names_the_object_of_its_path
    what_the_server_owns_cannot_be_changed
    labels_and_finalizers_follow_the_rules
    a_get_can_ask_for_a_version
    the_generation_counts_changes_of_the_spec
    status_is_written_through_its_subresource_alone
    an_update_of_the_status_takes_annotations_along
    a_kind_without_status_has_no_such_subresource
    a_deleted_object_is_gone
    a_recreated_object_is_another
    an_object_with_finalizers_waits_for_them
    the_end_of_an_object_with_finalizers_tells_its_last_stored_state
    a_delete_of_some_kinds_shows_the_object
    the_options_of_a_delete_are_read
    a_lease_wants_to_know_which_version_an_update_replaces
    some_kinds_are_created_by_an_update
    version_zero_means_none
    metadata_that_says_nothing_is_left_out
    a_delete_keeps_to_its_preconditions
    a_collection_is_deleted_by_selector
    a_dry_run_changes_nothing
    a_cluster_scoped_kind_has_no_namespace
    metadata_alone_is_given_on_request
    a_form_that_nobody_speaks_is_refused
    a_body_that_is_too_large_is_refused
    discovery_names_the_kinds
}

const HOLD: &str = "example.com/hold";

fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "a"}},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [{"name": "a", "image": "a"}]},
            },
        },
        "status": {"replicas": 7},
    })
}

async fn a_created_object_has_an_identity(api: Api) {
    let created = api.post(&api.path("configmaps"), &config_map("a", &json!({}))).await;

    assert_eq!(created.code, 201);
    assert_eq!(created.text("/kind"), "ConfigMap");
    assert_eq!(created.text("/apiVersion"), "v1");
    assert_eq!(created.text("/metadata/namespace"), api.namespace);
    assert_eq!(created.text("/metadata/uid").len(), 36);
    let time = created.text("/metadata/creationTimestamp");
    assert!(time.len() == 20 && time.ends_with('Z'), "{time}");
    assert!(created.version() > 0);
    let read = api.get(&api.config_map("a")).await;
    assert_eq!((read.code, read.body), (200, created.body));
}

async fn each_change_has_a_higher_version(api: Api) {
    let first = version(&api.add("a").await);
    let second = version(&api.add("b").await);
    let third = api.change(&api.config_map("a"), |object| object["data"]["colour"] = json!("blue")).await.version();

    assert!(first < second && second < third, "{first} {second} {third}");
}

async fn a_type_that_is_left_out_is_filled_in(api: Api) {
    let created = api.post(&api.path("configmaps"), &json!({"metadata": {"name": "a"}})).await;

    assert_eq!(created.code, 201, "{created:?}");
    assert_eq!(created.text("/kind"), "ConfigMap");
}

async fn a_name_is_taken_once(api: Api) {
    api.add("a").await;

    let again = api.post(&api.path("configmaps"), &config_map("a", &json!({}))).await;

    assert_eq!(again.failure(), (409, "AlreadyExists"));
    assert_eq!(again.text("/message"), "configmaps \"a\" already exists");
    assert_eq!(again.body["details"], json!({"name": "a", "kind": "configmaps"}));
}

async fn names_are_generated(api: Api) {
    let object = json!({"metadata": {"generateName": "a-"}});
    let first = api.post(&api.path("configmaps"), &object).await;
    let second = api.post(&api.path("configmaps"), &object).await;

    for created in [&first, &second] {
        let name = created.text("/metadata/name");
        assert!(name.starts_with("a-") && name.len() == 7, "{name}");
        assert_eq!(created.text("/metadata/generateName"), "a-");
    }
    assert_ne!(first.text("/metadata/name"), second.text("/metadata/name"));
}

async fn a_long_generated_name_is_cut(api: Api) {
    let created = api.post(&api.path("configmaps"), &json!({"metadata": {"generateName": "a".repeat(70)}})).await;

    assert_eq!(created.text("/metadata/name").len(), 63, "{created:?}");
}

async fn an_object_needs_a_name(api: Api) {
    let refused = api.post(&api.path("configmaps"), &json!({"metadata": {}})).await;

    assert_eq!(refused.failure(), (422, "Invalid"));
    assert_eq!(refused.text("/details/causes/0/reason"), "FieldValueRequired");
    assert_eq!(refused.text("/details/causes/0/field"), "metadata.name");
}

async fn a_name_follows_the_rules(api: Api) {
    for name in ["A", "-a", "a..b", "a_b", "a/b", &"a".repeat(254)] {
        let refused = api.post(&api.path("configmaps"), &config_map(name, &json!({}))).await;

        assert_eq!(refused.failure(), (422, "Invalid"), "{name}");
        assert_eq!(refused.text("/details/causes/0/field"), "metadata.name");
        assert_eq!(refused.text("/details/causes/0/reason"), "FieldValueInvalid");
    }
    assert_eq!(api.post(&api.path("configmaps"), &config_map("a.b-c.1", &json!({}))).await.code, 201);
}

async fn an_object_of_another_kind_is_refused(api: Api) {
    let mut object = config_map("a", &json!({}));
    object["kind"] = json!("Secret");

    assert_eq!(api.post(&api.path("configmaps"), &object).await.failure(), (400, "BadRequest"));
}

async fn an_object_of_another_namespace_is_refused(api: Api) {
    let mut object = config_map("a", &json!({}));
    object["metadata"]["namespace"] = json!("elsewhere");

    assert_eq!(api.post(&api.path("configmaps"), &object).await.failure(), (400, "BadRequest"));
}

async fn a_body_that_is_no_json_is_refused(api: Api) {
    for body in ["{", "[]", "7", "\"a\"", ""] {
        let refused = api.send_text(Method::POST, &api.path("configmaps"), body.into(), &[]).await;

        assert_eq!(refused.failure(), (400, "BadRequest"), "{body}");
    }
}

async fn metadata_of_the_wrong_type_is_refused(api: Api) {
    for metadata in [
        json!(7),
        json!({"name": 7}),
        json!({"name": "a", "labels": {"a": 7}}),
        json!({"name": "a", "finalizers": "x"}),
    ] {
        let refused = api.post(&api.path("configmaps"), &json!({"metadata": metadata})).await;

        assert_eq!(refused.failure(), (400, "BadRequest"), "{metadata}");
    }
}

async fn a_new_object_has_no_version_yet(api: Api) {
    let mut object = config_map("a", &json!({}));
    object["metadata"]["resourceVersion"] = json!("5");

    let refused = api.post(&api.path("configmaps"), &object).await;

    assert_eq!(refused.code, 500);
    assert_eq!(refused.text("/message"), "resourceVersion should not be set on objects to be created");
}

async fn what_is_not_there_is_not_found(api: Api) {
    let missing = [
        api.get(&api.config_map("a")).await,
        api.put(&api.config_map("a"), &config_map("a", &json!({}))).await,
        api.delete(&api.config_map("a")).await,
    ];

    for answer in missing {
        assert_eq!(answer.failure(), (404, "NotFound"));
        assert_eq!(answer.text("/message"), "configmaps \"a\" not found");
        assert_eq!(answer.body["details"], json!({"name": "a", "kind": "configmaps"}));
    }
}

async fn a_kind_that_is_not_served_is_not_found(api: Api) {
    for path in ["/api/v1/widgets", "/apis/example.org/v1/widgets", "/apis/apps/v2/deployments", "/nothing"] {
        assert_eq!(api.get(path).await.code, 404, "{path}");
    }
    assert_eq!(api.get(&format!("{}/a/b", api.path("configmaps"))).await.code, 404);
}

async fn a_verb_that_a_path_does_not_have_is_refused(api: Api) {
    let object = config_map("a", &json!({}));

    assert_eq!(api.put(&api.path("configmaps"), &object).await.code, 405);
    assert_eq!(api.post(&api.config_map("a"), &object).await.code, 405);
    assert_eq!(api.post("/api/v1/configmaps", &object).await.code, 405);
}

async fn an_update_replaces_the_object(api: Api) {
    let created = api.add_labelled("a", json!({"x": "1"})).await;

    let updated = api
        .change(&api.config_map("a"), |object| {
            object["data"] = json!({"shape": "round"});
            object["metadata"]["labels"] = json!({"y": "2"});
        })
        .await;

    assert_eq!(updated.code, 200);
    assert_eq!(updated.body["data"], json!({"shape": "round"}));
    assert_eq!(updated.body["metadata"]["labels"], json!({"y": "2"}));
    assert!(updated.version() > version(&created));
    assert_eq!(updated.body["metadata"]["uid"], created["metadata"]["uid"]);
    assert_eq!(api.get(&api.config_map("a")).await.body, updated.body);
}

async fn a_stale_update_conflicts(api: Api) {
    let stale = api.add("a").await;
    api.change(&api.config_map("a"), |object| object["data"]["colour"] = json!("blue")).await;

    let refused = api.put(&api.config_map("a"), &stale).await;

    assert_eq!(refused.failure(), (409, "Conflict"));
    assert_eq!(
        refused.text("/message"),
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; \
         please apply your changes to the latest version and try again"
    );
    assert_eq!(refused.body["details"], json!({"name": "a", "kind": "configmaps"}));
}

async fn an_update_without_a_version_always_wins(api: Api) {
    api.add("a").await;
    let mut object = config_map("a", &json!({}));
    object["data"] = json!({"colour": "green"});

    let updated = api.put(&api.config_map("a"), &object).await;

    assert_eq!((updated.code, updated.text("/data/colour")), (200, "green"));
}

async fn an_update_of_another_life_conflicts(api: Api) {
    let old = api.add("a").await;
    api.delete(&api.config_map("a")).await;
    api.add("a").await;

    let refused =
        api.change(&api.config_map("a"), |object| object["metadata"]["uid"] = old["metadata"]["uid"].clone()).await;

    assert_eq!(refused.failure(), (409, "Conflict"));
}

async fn an_update_that_changes_nothing_is_no_change(api: Api) {
    let created = api.add("a").await;
    let mut watch = api.watch(&api.path("configmaps"), &format!("resourceVersion={}", version(&created))).await;

    let same = api.change(&api.config_map("a"), |_| {}).await;
    api.add("b").await;

    assert_eq!((same.code, same.version()), (200, version(&created)));
    assert_eq!(watch.next_short().await, "ADDED b");
}

async fn an_update_names_the_object_of_its_path(api: Api) {
    api.add("a").await;

    let refused = api.put(&api.config_map("a"), &config_map("b", &json!({}))).await;
    assert_eq!(refused.failure(), (400, "BadRequest"));
    assert_eq!(refused.text("/message"), "the name of the object (b) does not match the name on the URL (a)");

    let elsewhere =
        api.change(&api.config_map("a"), |object| object["metadata"]["namespace"] = json!("elsewhere")).await;
    assert_eq!(elsewhere.failure(), (400, "BadRequest"));
}

async fn what_the_server_owns_cannot_be_changed(api: Api) {
    let created = api.add("a").await;

    let updated = api
        .change(&api.config_map("a"), |object| {
            object["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
            object["data"]["colour"] = json!("blue");
        })
        .await;
    assert_eq!(updated.code, 200, "{updated:?}");
    assert_eq!(updated.body["metadata"]["creationTimestamp"], created["metadata"]["creationTimestamp"]);

    let time = json!("2001-01-01T00:00:00Z");
    let ended = api.change(&api.config_map("a"), |object| object["metadata"]["deletionTimestamp"] = time).await;
    assert_eq!(ended.failure(), (422, "Invalid"));
    assert_eq!(ended.text("/details/causes/0/field"), "metadata.deletionTimestamp");
}

async fn labels_and_finalizers_follow_the_rules(api: Api) {
    let good = json!({"name": "good", "labels": {"a.b/c_d": "E-f", "x": ""}, "finalizers": ["example.com/hold"]});
    assert_eq!(api.post(&api.path("configmaps"), &json!({"metadata": good})).await.code, 201);

    for (metadata, field) in [
        (json!({"labels": {"a b": "c"}}), "metadata.labels"),
        (json!({"labels": {"/a": "c"}}), "metadata.labels"),
        (json!({"labels": {"a": "-c"}}), "metadata.labels"),
        (json!({"labels": {"a": "c".repeat(64)}}), "metadata.labels"),
        (json!({"finalizers": ["hold"]}), "metadata.finalizers[0]"),
    ] {
        let mut object = json!({"metadata": metadata});
        object["metadata"]["name"] = json!("bad");
        let refused = api.post(&api.path("configmaps"), &object).await;
        assert_eq!(refused.failure(), (422, "Invalid"), "{metadata}");
        assert_eq!(refused.text("/details/causes/0/field"), field, "{metadata}");
    }
}

async fn a_get_can_ask_for_a_version(api: Api) {
    let created = api.add("a").await;
    let path = api.config_map("a");

    assert_eq!(api.get(&format!("{path}?resourceVersion=0")).await.body, created);
    assert_eq!(api.get(&format!("{path}?resourceVersion={}", version(&created))).await.body, created);
    assert_eq!(api.get(&format!("{path}?watch=true")).await.body, created);
    assert_eq!(api.get(&format!("{path}?resourceVersion=999999999")).await.failure(), (504, "Timeout"));
}

async fn the_generation_counts_changes_of_the_spec(api: Api) {
    let path = format!("{}/a", api.path("apps/deployments"));
    let created = api.post(&api.path("apps/deployments"), &deployment("a")).await;
    let labelled = api.change(&path, |object| object["metadata"]["labels"] = json!({"x": "1"})).await;
    let scaled = api.change(&path, |object| object["spec"]["replicas"] = json!(2)).await;
    let observed = api.change(&format!("{path}/status"), |object| object["status"] = json!({"replicas": 2})).await;

    let generations = [created, labelled, scaled, observed].map(|answer| answer.body["metadata"]["generation"].clone());
    assert_eq!(generations, [json!(1), json!(1), json!(2), json!(2)]);
}

async fn status_is_written_through_its_subresource_alone(api: Api) {
    let path = format!("{}/a", api.path("apps/deployments"));

    let created = api.post(&api.path("apps/deployments"), &deployment("a")).await;
    assert_eq!(created.body.pointer("/status/replicas"), None, "a new object has no status");

    let spec = api
        .change(&path, |object| {
            object["status"] = json!({"replicas": 3});
            object["spec"]["replicas"] = json!(4);
        })
        .await;
    assert_eq!(spec.body.pointer("/status/replicas"), None);
    assert_eq!(spec.body["spec"]["replicas"], 4);

    let status = api
        .change(&format!("{path}/status"), |object| {
            object["status"] = json!({"replicas": 5});
            object["spec"]["replicas"] = json!(6);
        })
        .await;
    assert_eq!(status.body["status"]["replicas"], 5);
    assert_eq!(status.body["spec"]["replicas"], 4);
    assert_eq!(api.get(&format!("{path}/status")).await.body, status.body);
}

async fn an_update_of_the_status_takes_annotations_along(api: Api) {
    let path = format!("{}/a", api.path("resourcequotas"));
    api.post(&api.path("resourcequotas"), &json!({"metadata": {"name": "a"}, "spec": {"hard": {"pods": "1"}}})).await;

    let updated = api
        .change(&format!("{path}/status"), |object| {
            object["metadata"]["annotations"] = json!({"x": "1"});
            object["spec"]["hard"] = json!({"pods": "2"});
            object["status"] = json!({"hard": {"pods": "3"}});
        })
        .await;

    assert_eq!(updated.body["metadata"]["annotations"], json!({"x": "1"}));
    assert_eq!(updated.body["spec"]["hard"]["pods"], "1");
    assert_eq!(updated.body["status"]["hard"]["pods"], "3");
}

async fn a_kind_without_status_has_no_such_subresource(api: Api) {
    let created = api.add("a").await;

    assert_eq!(api.get(&format!("{}/status", api.config_map("a"))).await.code, 404);
    assert_eq!(api.put(&format!("{}/status", api.config_map("a")), &created).await.code, 404);
}

async fn a_deleted_object_is_gone(api: Api) {
    let created = api.add("a").await;

    let deleted = api.delete(&api.config_map("a")).await;

    assert_eq!((deleted.code, deleted.text("/kind"), deleted.text("/status")), (200, "Status", "Success"));
    assert_eq!(deleted.body["details"], json!({"name": "a", "kind": "configmaps", "uid": created["metadata"]["uid"]}));
    assert_eq!(api.get(&api.config_map("a")).await.code, 404);
}

async fn a_recreated_object_is_another(api: Api) {
    let first = api.add("a").await;
    api.delete(&api.config_map("a")).await;
    let second = api.add("a").await;

    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    assert!(version(&second) > version(&first));
}

async fn an_object_with_finalizers_waits_for_them(api: Api) {
    let mut object = config_map("a", &json!({}));
    object["metadata"]["finalizers"] = json!([HOLD]);
    let created = api.post(&api.path("configmaps"), &object).await;

    let deleted = api.delete(&api.config_map("a")).await;
    assert_eq!((deleted.code, deleted.text("/kind")), (200, "ConfigMap"));
    assert!(!deleted.text("/metadata/deletionTimestamp").is_empty());
    assert!(deleted.version() > created.version());

    let again = api.delete(&api.config_map("a")).await;
    assert_eq!((again.code, again.version()), (200, deleted.version()));

    let more = api
        .change(&api.config_map("a"), |object| object["metadata"]["finalizers"] = json!([HOLD, "example.com/more"]))
        .await;
    assert_eq!(more.failure(), (422, "Invalid"));

    let other = api.change(&api.config_map("a"), |object| object["data"]["colour"] = json!("blue")).await;
    assert_eq!(other.code, 200);

    let released = api.change(&api.config_map("a"), |object| object["metadata"]["finalizers"] = json!([])).await;
    assert_eq!(released.code, 200);
    assert_eq!(api.get(&api.config_map("a")).await.code, 404);
}

async fn the_end_of_an_object_with_finalizers_tells_its_last_stored_state(api: Api) {
    let mut object = config_map("a", &json!({}));
    object["metadata"]["finalizers"] = json!([HOLD]);
    api.post(&api.path("configmaps"), &object).await;
    let waiting = api.delete(&api.config_map("a")).await;
    let mut watch = api.watch(&api.path("configmaps"), &format!("resourceVersion={}", waiting.version())).await;

    let released = api
        .change(&api.config_map("a"), |object| {
            object["metadata"]["finalizers"] = json!([]);
            object["data"]["colour"] = json!("blue");
        })
        .await;

    assert_eq!((released.code, released.version()), (200, waiting.version()));
    assert_eq!(released.text("/data/colour"), "blue");
    let end = watch.next().await.unwrap();
    assert_eq!((&end["type"], &end["object"]["data"]["colour"]), (&json!("DELETED"), &json!("red")));
    assert_eq!(end["object"]["metadata"]["finalizers"], json!([HOLD]));
    assert!(version(&end["object"]) > waiting.version());
}

async fn a_delete_of_some_kinds_shows_the_object(api: Api) {
    let path = api.path("serviceaccounts");
    let created = api.post(&path, &json!({"metadata": {"name": "a"}})).await;

    let deleted = api.delete(&format!("{path}/a")).await;

    assert_eq!((deleted.code, deleted.text("/kind")), (200, "ServiceAccount"));
    assert_eq!(deleted.body["metadata"]["uid"], created.body["metadata"]["uid"]);
}

async fn the_options_of_a_delete_are_read(api: Api) {
    api.add("a").await;
    let path = api.config_map("a");

    let other = api.delete_with(&path, &json!({"kind": "Pod", "apiVersion": "v1"})).await;
    let unknown = api.delete_with(&path, &json!({"propagationPolicy": "Somehow"})).await;
    let good = api.delete_with(&path, &json!({"kind": "DeleteOptions", "propagationPolicy": "Background"})).await;

    assert_eq!(other.failure(), (400, "BadRequest"));
    assert_eq!((unknown.failure(), unknown.text("/details/kind")), ((422, "Invalid"), "DeleteOptions"));
    assert_eq!(good.code, 200);
}

async fn a_lease_wants_to_know_which_version_an_update_replaces(api: Api) {
    let path = api.path("coordination.k8s.io/leases");
    let lease = json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 5}});
    assert_eq!(api.post(&path, &lease).await.code, 201);

    let blind = api.put(&format!("{path}/a"), &lease).await;

    assert_eq!(blind.failure(), (422, "Invalid"));
    assert_eq!(blind.text("/details/causes/0/field"), "metadata.resourceVersion");
}

async fn some_kinds_are_created_by_an_update(api: Api) {
    let lease = json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 5}});

    let created = api.put(&format!("{}/a", api.path("coordination.k8s.io/leases")), &lease).await;

    assert_eq!(created.code, 201, "{created:?}");
    assert!(!created.text("/metadata/uid").is_empty());
}

async fn version_zero_means_none(api: Api) {
    let mut object = config_map("a", &json!({}));
    object["metadata"]["resourceVersion"] = json!("0");
    assert_eq!(api.post(&api.path("configmaps"), &object).await.code, 201);

    object["data"]["colour"] = json!("blue");
    assert_eq!(api.put(&api.config_map("a"), &object).await.code, 200);
}

async fn metadata_that_says_nothing_is_left_out(api: Api) {
    let created = api.add("a").await;

    let same = api
        .change(&api.config_map("a"), |object| {
            object["metadata"]["labels"] = json!({});
            object["metadata"]["annotations"] = json!(null);
            object["metadata"]["finalizers"] = json!([]);
            object["metadata"]["nonsense"] = json!("x");
        })
        .await;

    assert_eq!((same.code, same.version()), (200, version(&created)), "the version does not change");
    let empty = api.change(&api.config_map("a"), |object| object["metadata"]["labels"] = json!({"x": null})).await;
    assert_eq!(empty.body["metadata"]["labels"], json!({"x": ""}));
}

async fn a_delete_keeps_to_its_preconditions(api: Api) {
    let created = api.add("a").await;
    let path = api.config_map("a");

    let other_life = api.delete_with(&path, &json!({"preconditions": {"uid": "another"}})).await;
    let other_state = api.delete_with(&path, &json!({"preconditions": {"resourceVersion": "1"}})).await;
    for refused in [other_life, other_state] {
        assert_eq!(refused.failure(), (409, "Conflict"));
    }

    let metadata = &created["metadata"];
    let preconditions = json!({"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]});
    assert_eq!(api.delete_with(&path, &json!({"preconditions": preconditions})).await.code, 200);
}

async fn a_collection_is_deleted_by_selector(api: Api) {
    api.add_labelled("a", json!({"x": "1"})).await;
    api.add_labelled("b", json!({"x": "2"})).await;
    api.add_labelled("c", json!({"x": "1"})).await;

    let deleted = api.delete(&format!("{}?labelSelector=x%3D1", api.path("configmaps"))).await;

    assert_eq!((deleted.code, deleted.text("/kind")), (200, "ConfigMapList"));
    assert_eq!(deleted.names(), ["a", "c"]);
    let left = api.get(&format!("{}?labelSelector=x", api.path("configmaps"))).await;
    assert_eq!(left.names(), ["b"]);
}

async fn a_dry_run_changes_nothing(api: Api) {
    let created = api.add("a").await;

    let other = api.post(&format!("{}?dryRun=All", api.path("configmaps")), &config_map("b", &json!({}))).await;
    let mut changed = created.clone();
    changed["data"]["colour"] = json!("blue");
    let updated = api.put(&format!("{}?dryRun=All", api.config_map("a")), &changed).await;
    let deleted = api.delete(&format!("{}?dryRun=All", api.config_map("a"))).await;

    assert_eq!((other.code, updated.code, deleted.code), (201, 200, 200));
    assert_eq!(updated.text("/data/colour"), "blue");
    assert_eq!(api.get(&api.config_map("a")).await.body, created);
    assert_eq!(api.get(&api.config_map("b")).await.code, 404);
    let some = api.delete_with(&api.config_map("a"), &json!({"dryRun": ["Some"]})).await;
    assert_eq!((some.failure(), some.text("/details/kind")), ((422, "Invalid"), "DeleteOptions"));
    assert_eq!(
        api.post(&format!("{}?dryRun=Some", api.path("configmaps")), &config_map("c", &json!({}))).await.code,
        422
    );
}

async fn a_cluster_scoped_kind_has_no_namespace(api: Api) {
    let name = format!("{}:reader", api.namespace);
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let role = json!({"metadata": {"name": name}, "rules": []});

    let created = api.post(path, &role).await;

    assert_eq!(created.code, 201, "{created:?}");
    assert_eq!(created.body["metadata"].get("namespace"), None);
    assert_eq!(api.get(&format!("{path}/{name}")).await.code, 200);
    assert_eq!(
        api.get(&format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{}/clusterroles", api.namespace)).await.code,
        404
    );
    assert_eq!(api.delete(&format!("{path}/{name}")).await.code, 200);
}

async fn metadata_alone_is_given_on_request(api: Api) {
    let created = api.add("a").await;
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

    let partial = api.send(Method::GET, &api.config_map("a"), None, &[("accept", accept)]).await;

    assert_eq!((partial.text("/kind"), partial.text("/apiVersion")), ("PartialObjectMetadata", "meta.k8s.io/v1"));
    assert_eq!(partial.body["metadata"], created["metadata"]);
    assert_eq!(partial.body.get("data"), None);
}

async fn a_form_that_nobody_speaks_is_refused(api: Api) {
    let created = api.add("a").await;

    let answer = api.send(Method::GET, &api.config_map("a"), None, &[("accept", "text/html")]).await;
    assert_eq!(answer.failure(), (406, "NotAcceptable"));

    let form = [("content-type", "text/plain")];
    let sent = api.send(Method::PUT, &api.config_map("a"), Some(&created), &form).await;
    assert_eq!(sent.failure(), (415, "UnsupportedMediaType"));
}

async fn a_body_that_is_too_large_is_refused(api: Api) {
    let mut object = config_map("a", &json!({}));
    object["data"]["colour"] = json!("x".repeat(4 << 20));

    assert_eq!(api.post(&api.path("configmaps"), &object).await.failure(), (413, "RequestEntityTooLarge"));
}

async fn discovery_names_the_kinds(api: Api) {
    let core = api.get("/api").await;
    assert_eq!(core.body["versions"], json!(["v1"]));

    let groups = api.get("/apis").await;
    let apps = groups.body["groups"].as_array().unwrap().iter().find(|group| group["name"] == "apps").unwrap();
    assert_eq!(apps["preferredVersion"], json!({"groupVersion": "apps/v1", "version": "v1"}));
    assert_eq!(api.get("/apis/apps").await.text("/kind"), "APIGroup");

    let resources = api.get("/api/v1").await;
    let find = |name: &str| {
        let all = resources.body["resources"].as_array().unwrap();
        all.iter().find(|resource| resource["name"] == name).unwrap().clone()
    };
    let pods = find("pods");
    assert_eq!(
        (&pods["kind"], &pods["namespaced"], &pods["shortNames"]),
        (&json!("Pod"), &json!(true), &json!(["po"]))
    );
    assert_eq!(find("nodes")["namespaced"], false);
    assert_eq!(find("pods/status")["kind"], "Pod");
    for verb in ["create", "delete", "deletecollection", "get", "list", "update", "watch"] {
        assert!(pods["verbs"].as_array().unwrap().contains(&json!(verb)), "{verb}");
    }
    assert_eq!(api.get("/apis/apps/v1").await.text("/groupVersion"), "apps/v1");
    assert_eq!(api.get("/apis/missing.example.com/v1").await.code, 404);
    assert_eq!(api.get("/version").await.text("/major"), "1");
}

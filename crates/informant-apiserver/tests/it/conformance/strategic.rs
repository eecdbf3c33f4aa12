//! Strategic merge patches, which `kubectl apply`, `edit` and `set` send.

use super::*;

both_ways! {
    lists_are_merged_by_the_key_of_their_items_where_kubernetes_says_so
    items_are_removed_and_put_in_order
    new_items_come_first_unless_an_order_is_given
    a_list_can_be_replaced_all_the_same
    a_list_without_keys_is_replaced_whatever_its_items_say
    finalizers_are_added_once_and_taken_away_by_name
    only_what_is_retained_stays
    maps_can_be_replaced_and_emptied
    nothing_is_removed_from_what_is_not_there
    a_strategic_patch_of_the_status_merges_conditions
    a_strategic_patch_that_makes_no_sense_is_refused
}

const STRATEGIC: &str = "application/strategic-merge-patch+json";

async fn patch(api: &Api, path: &str, patch: &Value) -> Answer {
    api.patch(path, STRATEGIC, patch).await
}

/// Creates a deployment with three containers, and returns its path.
async fn deployment(api: &Api) -> String {
    let container = |name: &str| {
        json!({
            "name": name,
            "image": "one",
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            "command": ["run", "fast"],
        })
    };
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "containers": [container("a"), container("b"), container("c")],
                    "volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}],
                },
            },
        },
    });
    let path = api.path("apps/deployments");
    let created = api.post(&path, &deployment).await;
    assert_eq!(created.code, 201, "{created:?}");
    format!("{path}/web")
}

fn of_pods(patch: &Value) -> Value {
    json!({"spec": {"template": {"spec": patch}}})
}

fn pods(answer: &Answer) -> &Value {
    assert_eq!(answer.code, 200, "{answer:?}");
    &answer.body["spec"]["template"]["spec"]
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect()
}

async fn lists_are_merged_by_the_key_of_their_items_where_kubernetes_says_so(api: Api) {
    let path = deployment(&api).await;

    let change = json!({"name": "b", "image": "two", "env": [{"name": "B", "value": "3"}], "command": ["walk"]});
    let patched = patch(&api, &path, &of_pods(&json!({"containers": [change]}))).await;

    let containers = &pods(&patched)["containers"];
    assert_eq!(names(containers), ["a", "b", "c"]);
    let (changed, other) = (&containers[1], &containers[0]);
    assert_eq!((&changed["image"], &other["image"]), (&json!("two"), &json!("one")));
    assert_eq!(changed["env"], json!([{"name": "A", "value": "1"}, {"name": "B", "value": "3"}]));
    assert_eq!(changed["command"], json!(["walk"]), "this list has no key");
}

async fn items_are_removed_and_put_in_order(api: Api) {
    let path = deployment(&api).await;
    let item = |name: &str| json!({ "name": name });

    let gone = of_pods(&json!({"containers": [{"name": "b", "$patch": "delete"}, {"name": "x", "$patch": "delete"}]}));
    assert_eq!(names(&pods(&patch(&api, &path, &gone).await)["containers"]), ["a", "c"]);

    let turned = of_pods(&json!({"$setElementOrder/containers": [item("c"), item("a")]}));
    assert_eq!(names(&pods(&patch(&api, &path, &turned).await)["containers"]), ["c", "a"]);

    let part = of_pods(&json!({
        "$setElementOrder/containers": [item("d"), item("a")],
        "containers": [{"name": "d", "image": "one"}, {"name": "a", "image": "two"}],
    }));
    assert_eq!(names(&pods(&patch(&api, &path, &part).await)["containers"]), ["d", "c", "a"]);
}

async fn new_items_come_first_unless_an_order_is_given(api: Api) {
    let path = deployment(&api).await;
    let new = |name: &str| json!({"name": name, "image": "one"});

    let first = patch(&api, &path, &of_pods(&json!({"containers": [new("d")]}))).await;
    assert_eq!(names(&pods(&first)["containers"]), ["d", "a", "b", "c"]);

    let between = of_pods(&json!({
        "$setElementOrder/containers": [{"name": "d"}, {"name": "a"}, {"name": "e"}, {"name": "b"}],
        "containers": [new("e")],
    }));
    assert_eq!(names(&pods(&patch(&api, &path, &between).await)["containers"]), ["d", "a", "e", "b", "c"]);
}

async fn a_list_can_be_replaced_all_the_same(api: Api) {
    let path = deployment(&api).await;

    let replaced = of_pods(&json!({"containers": [{"$patch": "replace"}, {"name": "d", "image": "one"}]}));

    assert_eq!(names(&pods(&patch(&api, &path, &replaced).await)["containers"]), ["d"]);

    // Two items may have the same key.
    let port = |name: &str, protocol: &str| json!({"name": name, "port": 53, "protocol": protocol});
    let service = json!({"metadata": {"name": "dns"}, "spec": {"ports": [{"name": "web", "port": 80}]}});
    let path = api.path("services");
    assert_eq!(api.post(&path, &service).await.code, 201);
    let replaced = json!({"spec": {"ports": [port("tcp", "TCP"), port("udp", "UDP"), {"$patch": "replace"}]}});
    let patched = patch(&api, &format!("{path}/dns"), &replaced).await;
    assert_eq!(names(&patched.body["spec"]["ports"]), ["tcp", "udp"], "{patched:?}");
}

async fn a_list_without_keys_is_replaced_whatever_its_items_say(api: Api) {
    let path = deployment(&api).await;
    let tolerations = |list: &[Value]| of_pods(&json!({ "tolerations": list }));
    let (a, b) = (json!({"key": "a", "operator": "Exists"}), json!({"key": "b", "operator": "Exists"}));
    patch(&api, &path, &tolerations(std::slice::from_ref(&a))).await;

    let deletes = json!({"$patch": "delete", "key": "a", "operator": "Exists"});
    let patched = patch(&api, &path, &tolerations(&[deletes, b.clone()])).await;

    assert_eq!(pods(&patched)["tolerations"], json!([a, b]));
}

async fn finalizers_are_added_once_and_taken_away_by_name(api: Api) {
    api.add("a").await;
    let path = api.config_map("a");
    let finalizers = |answer: &Answer| answer.body["metadata"]["finalizers"].clone();
    let change = |change: Value| json!({ "metadata": change });

    let added = patch(&api, &path, &change(json!({"finalizers": ["example.com/a", "example.com/b"]}))).await;
    assert_eq!(finalizers(&added), json!(["example.com/a", "example.com/b"]), "{added:?}");
    let again = patch(&api, &path, &change(json!({"finalizers": ["example.com/c", "example.com/a"]}))).await;
    assert_eq!(finalizers(&again), json!(["example.com/c", "example.com/a", "example.com/b"]));
    let taken = change(json!({"$deleteFromPrimitiveList/finalizers": ["example.com/b", "example.com/x"]}));
    assert_eq!(finalizers(&patch(&api, &path, &taken).await), json!(["example.com/c", "example.com/a"]));
    let none = patch(&api, &path, &change(json!({"finalizers": null}))).await;
    assert_eq!(finalizers(&none), Value::Null);
}

/// A volume has one source: the new source replaces the old one.
async fn only_what_is_retained_stays(api: Api) {
    let path = deployment(&api).await;

    let change = json!({"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/tmp"}});
    let patched = patch(&api, &path, &of_pods(&json!({"volumes": [change]}))).await;

    let volume = &pods(&patched)["volumes"][0];
    assert_eq!((&volume["hostPath"]["path"], &volume["emptyDir"]), (&json!("/tmp"), &Value::Null), "{volume}");
}

async fn maps_can_be_replaced_and_emptied(api: Api) {
    api.add_labelled("a", json!({"keep": "1", "drop": "1"})).await;
    let path = api.config_map("a");

    let merged = patch(&api, &path, &json!({"metadata": {"labels": {"drop": null, "new": "1"}}})).await;
    assert_eq!(merged.body["metadata"]["labels"], json!({"keep": "1", "new": "1"}), "{merged:?}");
    let replaced = patch(&api, &path, &json!({"metadata": {"labels": {"$patch": "replace", "other": "1"}}})).await;
    assert_eq!(replaced.body["metadata"]["labels"], json!({"other": "1"}), "{replaced:?}");
    let emptied = patch(&api, &path, &json!({"data": {"$patch": "delete"}})).await;
    assert_eq!((emptied.code, emptied.body["data"].get("colour")), (200, None), "{emptied:?}");
}

async fn nothing_is_removed_from_what_is_not_there(api: Api) {
    let created = api.add("a").await;
    let change = json!({
        "metadata": {"annotations": {"a": null}, "finalizers": null, "$deleteFromPrimitiveList/finalizers": ["x.com/a"]},
        "data": {"nothing": null},
        "binaryData": {"$patch": "replace", "a": "MQ=="},
    });

    let patched = patch(&api, &api.config_map("a"), &change).await;

    assert_eq!((patched.code, patched.version()), (200, version(&created)), "{patched:?}");
}

async fn a_strategic_patch_of_the_status_merges_conditions(api: Api) {
    let path = format!("{}/status", deployment(&api).await);
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
    let change = |conditions: &[Value]| json!({"status": {"conditions": conditions}});

    patch(&api, &path, &change(&[condition("Available", "False"), condition("Progressing", "True")])).await;
    let patched = patch(&api, &path, &change(&[condition("Available", "True")])).await;

    assert_eq!(patched.code, 200, "{patched:?}");
    let conditions = patched.body["status"]["conditions"].as_array().unwrap();
    let shown = conditions.iter().map(|condition| (condition["type"].as_str(), condition["status"].as_str()));
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [(Some("Available"), Some("True")), (Some("Progressing"), Some("True"))],
        "{patched:?}"
    );
}

async fn a_strategic_patch_that_makes_no_sense_is_refused(api: Api) {
    let path = deployment(&api).await;

    for (code, change) in [
        (500, json!({"containers": [{"image": "two"}]})),
        (500, json!({"containers": [{"name": "a", "$patch": "fly"}]})),
        (500, json!({"$patch": "merge"})),
        (500, json!({"containers": [{"name": "a"}], "$setElementOrder/containers": [{"name": "b"}]})),
        (500, json!({"containers": [{"name": "a"}], "$setElementOrder/containers": "b"})),
        (500, json!({"$setElementOrder/containers": ["b"]})),
        (400, json!({"volumes": [{"name": "v", "$retainKeys": "name"}]})),
        (400, json!({"volumes": [{"name": "v", "$retainKeys": ["name"], "hostPath": {"path": "/tmp"}}]})),
    ] {
        let refused = patch(&api, &path, &of_pods(&change)).await;
        assert_eq!(refused.code, code, "{change}: {refused:?}");
    }
    let headers = [("content-type", STRATEGIC)];
    for body in ["{", "", "[]", "5"] {
        let refused = api.send_text(Method::PATCH, &path, body.into(), &headers).await;
        assert_eq!(refused.failure(), (400, "BadRequest"), "{body}");
    }
}

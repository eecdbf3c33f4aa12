//! Lists: versions, pages, selectors, representations.

use super::*;

both_ways! {
    a_list_is_in_the_order_of_names
    items_of_built_in_kinds_carry_no_type
    an_empty_list_is_a_list
    a_list_across_namespaces_has_all_of_them
    pages_are_of_one_version
    the_last_page_of_a_selection_may_be_empty
    a_page_says_how_many_follow
    a_list_at_an_exact_version_shows_the_state_of_then
    a_list_not_older_than_a_version_may_be_newer
    a_list_at_any_version_is_answered
    a_version_of_the_future_is_too_large
    parameters_that_contradict_each_other_are_refused
    labels_select_with_every_operator
    a_selector_that_makes_no_sense_is_refused
    of_a_parameter_that_is_given_twice_the_first_counts
    a_list_of_metadata_alone
}

/// Only the objects of this test: controllers of a real cluster create objects in every namespace.
const OURS: &str = "labelSelector=ours";

async fn three(api: &Api) {
    for name in ["b", "a", "c"] {
        api.add_labelled(name, json!({"ours": "", "tier": name})).await;
    }
}

async fn a_list_is_in_the_order_of_names(api: Api) {
    three(&api).await;

    let list = api.get(&format!("{}?{OURS}", api.path("configmaps"))).await;

    assert_eq!(list.code, 200);
    assert_eq!((list.text("/kind"), list.text("/apiVersion")), ("ConfigMapList", "v1"));
    assert_eq!(list.names(), ["a", "b", "c"]);
    let newest = list.body["items"].as_array().unwrap().iter().map(version).max().unwrap();
    assert!(list.version() >= newest);
}

async fn items_of_built_in_kinds_carry_no_type(api: Api) {
    three(&api).await;

    let list = api.get(&format!("{}?{OURS}", api.path("configmaps"))).await;

    let item = &list.body["items"][0];
    assert_eq!((item.get("kind"), item.get("apiVersion")), (None, None));
    assert_eq!(item["data"], json!({"colour": "red"}));
}

async fn an_empty_list_is_a_list(api: Api) {
    let list = api.get(&format!("{}?{OURS}", api.path("configmaps"))).await;

    assert_eq!(list.body["items"], json!([]));
    assert!(list.version() > 0);
}

async fn a_list_across_namespaces_has_all_of_them(api: Api) {
    three(&api).await;

    let list = api
        .get(&format!("/api/v1/configmaps?labelSelector=ours&fieldSelector=metadata.namespace%3D{}", api.namespace))
        .await;

    assert_eq!(list.names(), ["a", "b", "c"]);
}

async fn pages_are_of_one_version(api: Api) {
    three(&api).await;
    let path = format!("{}?{OURS}&limit=1", api.path("configmaps"));

    let first = api.get(&path).await;
    // The second page does not contain changes after the first one.
    api.delete(&api.config_map("b")).await;
    api.add_labelled("aa", json!({"ours": ""})).await;
    api.change(&api.config_map("c"), |object| object["data"]["colour"] = json!("blue")).await;
    let second = api.get(&format!("{path}&continue={}", first.text("/metadata/continue"))).await;
    let third = api.get(&format!("{path}&continue={}", second.text("/metadata/continue"))).await;

    assert_eq!([first.names(), second.names(), third.names()].concat(), ["a", "b", "c"]);
    assert_eq!(third.text("/items/0/data/colour"), "red");
    assert_eq!((first.version(), third.version()), (second.version(), second.version()));
    assert_eq!(third.text("/metadata/continue"), "");
}

async fn the_last_page_of_a_selection_may_be_empty(api: Api) {
    three(&api).await;
    api.add("z").await;

    let first = api.get(&format!("{}?{OURS}&limit=3", api.path("configmaps"))).await;
    assert_eq!(first.names(), ["a", "b", "c"]);
    let token = first.text("/metadata/continue");
    assert!(!token.is_empty(), "later objects exist, even though none of them matches");
    let second = api.get(&format!("{}?{OURS}&limit=3&continue={token}", api.path("configmaps"))).await;

    assert_eq!((second.names(), second.text("/metadata/continue")), (vec![], ""));
}

async fn a_page_says_how_many_follow(api: Api) {
    three(&api).await;

    let whole = api.get(&api.path("configmaps")).await.names().len();
    let first = api.get(&format!("{}?limit=1", api.path("configmaps"))).await;

    assert_eq!(first.body["metadata"]["remainingItemCount"], whole - 1);
    let selected = api.get(&format!("{}?limit=1&{OURS}", api.path("configmaps"))).await;
    assert_eq!(selected.body["metadata"].get("remainingItemCount"), None, "unknown with a selector");
}

async fn a_list_at_an_exact_version_shows_the_state_of_then(api: Api) {
    three(&api).await;
    let then = api.get(&format!("{}?{OURS}", api.path("configmaps"))).await.version();
    api.delete(&api.config_map("a")).await;
    api.change(&api.config_map("b"), |object| object["data"]["colour"] = json!("blue")).await;
    api.add_labelled("d", json!({"ours": ""})).await;

    let exact =
        api.get(&format!("{}?{OURS}&resourceVersion={then}&resourceVersionMatch=Exact", api.path("configmaps"))).await;
    let legacy = api.get(&format!("{}?{OURS}&resourceVersion={then}&limit=10", api.path("configmaps"))).await;

    for list in [exact, legacy] {
        assert_eq!(list.names(), ["a", "b", "c"]);
        assert_eq!(list.text("/items/1/data/colour"), "red");
        assert_eq!(list.version(), then);
    }
}

async fn a_list_not_older_than_a_version_may_be_newer(api: Api) {
    three(&api).await;
    let then = api.get(&format!("{}?{OURS}", api.path("configmaps"))).await.version();
    let added = version(&api.add_labelled("d", json!({"ours": ""})).await);

    for query in
        [format!("resourceVersion={added}&resourceVersionMatch=NotOlderThan"), format!("resourceVersion={added}")]
    {
        let list = api.get(&format!("{}?{OURS}&{query}", api.path("configmaps"))).await;
        assert_eq!(list.names(), ["a", "b", "c", "d"]);
        assert!(list.version() >= added && list.version() > then);
    }
}

async fn a_list_at_any_version_is_answered(api: Api) {
    three(&api).await;

    let list = api.get(&format!("{}?{OURS}&resourceVersion=0", api.path("configmaps"))).await;

    assert_eq!(list.code, 200);
    assert!(list.version() > 0);
}

async fn a_version_of_the_future_is_too_large(api: Api) {
    let refused = api.get(&format!("{}?resourceVersion=999999999", api.path("configmaps"))).await;

    assert_eq!(refused.failure(), (504, "Timeout"));
    assert!(
        refused.text("/message").starts_with("Timeout: Too large resource version: 999999999, current: "),
        "{refused:?}"
    );
    assert_eq!(
        refused.body["details"],
        json!({
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        })
    );
}

async fn parameters_that_contradict_each_other_are_refused(api: Api) {
    three(&api).await;
    let path = api.path("configmaps");
    let first = api.get(&format!("{path}?limit=1")).await;
    let token = first.text("/metadata/continue");

    for query in [
        "resourceVersionMatch=Exact".to_owned(),
        "resourceVersionMatch=NotOlderThan".to_owned(),
        "resourceVersion=0&resourceVersionMatch=Exact".to_owned(),
        "resourceVersion=1&resourceVersionMatch=Newest".to_owned(),
        format!("resourceVersion=1&resourceVersionMatch=NotOlderThan&limit=1&continue={token}"),
        "sendInitialEvents=true".to_owned(),
    ] {
        let refused = api.get(&format!("{path}?{query}")).await;
        assert_eq!(refused.failure(), (422, "Invalid"), "{query}");
        assert_eq!(refused.body["details"]["kind"], "ListOptions", "{query}");
    }
    assert_eq!(api.get(&format!("{path}?limit=-1")).await.code, 200, "no limit");
    for query in [
        "resourceVersion=abc",
        "limit=many",
        "continue=nonsense",
        &format!("resourceVersion=1&limit=1&continue={token}"),
    ] {
        assert_eq!(api.get(&format!("{path}?{query}")).await.failure().0, 400, "{query}");
    }
}

async fn labels_select_with_every_operator(api: Api) {
    for (name, labels) in [
        ("a", json!({"ours": "", "app": "web", "weight": "5"})),
        ("b", json!({"ours": "", "app": "db", "weight": "15"})),
        ("c", json!({"ours": ""})),
    ] {
        api.add_labelled(name, labels).await;
    }
    let selected = async |selector: &str| {
        let encoded = form_urlencoded::byte_serialize(format!("ours,{selector}").as_bytes()).collect::<String>();
        api.get(&format!("{}?labelSelector={encoded}", api.path("configmaps"))).await.names().concat()
    };

    assert_eq!(selected("app=web").await, "a");
    assert_eq!(selected("app==web").await, "a");
    assert_eq!(selected("app!=web").await, "bc");
    assert_eq!(selected("app in (web, db)").await, "ab");
    assert_eq!(selected("app notin (web)").await, "bc");
    assert_eq!(selected("app").await, "ab");
    assert_eq!(selected("!app").await, "c");
    assert_eq!(selected("weight>5").await, "b");
    assert_eq!(selected("weight<15").await, "a");
    assert_eq!(selected("app=web,weight=6").await, "");
}

async fn a_selector_that_makes_no_sense_is_refused(api: Api) {
    for query in [
        "labelSelector=a%20b",
        "labelSelector=a%20in",
        "labelSelector=%2Ca",
        "fieldSelector=metadata.name",
        "labelSelector=a%3E%20b",
    ] {
        let refused = api.get(&format!("{}?{query}", api.path("configmaps"))).await;

        assert_eq!(refused.failure(), (400, "BadRequest"), "{query}");
    }
}

async fn of_a_parameter_that_is_given_twice_the_first_counts(api: Api) {
    three(&api).await;

    let list = api.get(&format!("{}?{OURS}&limit=2&limit=1", api.path("configmaps"))).await;

    assert_eq!(list.names(), ["a", "b"]);
}

async fn a_list_of_metadata_alone(api: Api) {
    three(&api).await;
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

    let list = api.send(Method::GET, &format!("{}?{OURS}", api.path("configmaps")), None, &[("accept", accept)]).await;

    assert_eq!((list.text("/kind"), list.text("/apiVersion")), ("PartialObjectMetadataList", "meta.k8s.io/v1"));
    assert_eq!(list.names(), ["a", "b", "c"]);
    assert_eq!(list.text("/items/0/metadata/labels/tier"), "a");
    assert_eq!(list.body["items"][0].get("data"), None);
}

//! Watches: their start, events and end.
//!
//! kube-apiserver has no streamed lists if its feature gate `WatchList` is off. The tests then check that it refuses them.

use super::{definitions::Widgets, *};
use crate::support::short;

both_ways! {
    a_watch_from_a_version_tells_what_happened_since
    a_watch_goes_on_with_what_happens_then
    a_watch_without_a_version_begins_with_the_state
    a_streaming_list_marks_the_end_of_its_state
    a_watch_that_begins_with_the_state_marks_its_end_too
    a_watch_can_do_without_the_state
    a_watch_ends_when_its_time_is_up
    a_watch_keeps_to_its_namespace
    an_object_that_starts_to_match_is_added_and_one_that_stops_is_deleted
    a_watch_can_follow_one_object
    finalizers_make_an_end_a_change_first
    a_watch_from_a_version_that_is_no_longer_kept_gets_an_error_event
    a_watch_whose_parameters_contradict_each_other_is_refused
    a_watch_from_the_future_waits_for_it
    a_watch_of_metadata_alone
    many_watches_see_the_same
}

impl Api {
    /// Opens a watch of the config maps with `sendInitialEvents`; `None` if the server has no streamed lists and refuses it.
    async fn streamed(&self, query: &str) -> Option<Lines> {
        if self.has_streamed_lists().await {
            return Some(self.watch(&self.path("configmaps"), query).await);
        }
        let refused = self.get(&format!("{}?watch=true&{query}", self.path("configmaps"))).await;
        assert_eq!(refused.failure(), (422, "Invalid"), "{query}");
        let why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
        assert_eq!(
            refused.text("/message"),
            format!("ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: {why}")
        );
        None
    }

    /// The metrics of kube-apiserver list its feature gates. The embedded server has no metrics.
    async fn has_streamed_lists(&self) -> bool {
        let metrics = self.get("/metrics").await.body;
        let is_off =
            |line: &str| line.starts_with("kubernetes_feature_enabled{name=\"WatchList\",") && line.ends_with(" 0");
        !metrics.as_str().is_some_and(|text| text.lines().any(is_off))
    }
}

/// The next event that is not a bookmark. kube-apiserver may send one shortly after that which marks the end of the state.
async fn next_change(watch: &mut Lines) -> Value {
    loop {
        let event = watch.next().await.expect("an event");
        if event["type"] != "BOOKMARK" {
            return event;
        }
        assert_eq!(event["object"]["metadata"]["annotations"], Value::Null, "no end is marked here");
    }
}

async fn a_watch_from_a_version_tells_what_happened_since(api: Api) {
    let start = version(&api.add("zero").await);
    let added = version(&api.add("a").await);
    let modified = api.change(&api.config_map("a"), |object| object["data"]["colour"] = json!("blue")).await.version();
    api.delete(&api.config_map("a")).await;

    let mut watch = api.watch(&api.path("configmaps"), &format!("resourceVersion={start}")).await;
    let mut events = Vec::new();
    for _ in 0..3 {
        events.push(watch.next().await.unwrap());
    }

    let types = events.iter().map(|event| event["type"].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(types, ["ADDED", "MODIFIED", "DELETED"]);
    let versions = events.iter().map(|event| version(&event["object"])).collect::<Vec<_>>();
    assert_eq!(versions[..2], [added, modified]);
    assert!(versions[2] > modified, "a deleted object has the version of its delete");
    assert_eq!(events[2]["object"]["data"]["colour"], "blue", "and its last state");
    for event in &events {
        assert_eq!((&event["object"]["kind"], &event["object"]["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
    }
}

async fn a_watch_goes_on_with_what_happens_then(api: Api) {
    let start = version(&api.add("zero").await);
    let mut watch = api.watch(&api.path("configmaps"), &format!("resourceVersion={start}")).await;

    api.add("a").await;
    assert_eq!(watch.next_short().await, "ADDED a");
    api.change(&api.config_map("a"), |object| object["data"]["colour"] = json!("blue")).await;
    assert_eq!(watch.next_short().await, "MODIFIED a");
    api.delete(&api.config_map("a")).await;
    assert_eq!(watch.next_short().await, "DELETED a");
}

async fn a_watch_without_a_version_begins_with_the_state(api: Api) {
    api.add_labelled("a", json!({"ours": ""})).await;
    let last = api.add_labelled("b", json!({"ours": ""})).await;
    api.change(&api.config_map("a"), |object| object["data"]["colour"] = json!("blue")).await;

    for query in ["", "resourceVersion=0", "resourceVersion="] {
        // A response to "0" may come from a cache that is behind, so the test first waits until the cache is current.
        let fresh = format!("{}?resourceVersion={}", api.path("configmaps"), version(&last));
        assert_eq!(api.get(&fresh).await.code, 200);
        let mut watch = api.watch(&api.path("configmaps"), &format!("labelSelector=ours&{query}")).await;

        let mut initial = watch.take(2).await;
        initial.sort();
        assert_eq!(initial, ["ADDED a", "ADDED b"], "{query}");
        let marked = format!("c{}", query.len());
        api.add_labelled(&marked, json!({"ours": ""})).await;
        assert_eq!(watch.next_short().await, format!("ADDED {marked}"));
        api.delete(&api.config_map(&marked)).await;
    }
}

async fn a_streaming_list_marks_the_end_of_its_state(api: Api) {
    let created = api.add_labelled("a", json!({"ours": ""})).await;
    let query = "labelSelector=ours&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

    for rest in ["", "&resourceVersion=0", &format!("&resourceVersion={}", version(&created))] {
        // A response to "0" may come from a cache that is behind the last delete, so the test first lets the cache catch up.
        let newest = api.get(&api.path("configmaps")).await.version();
        let fresh = format!("{}?resourceVersion={newest}", api.path("configmaps"));
        assert_eq!(api.get(&fresh).await.code, 200);
        let Some(mut watch) = api.streamed(&format!("{query}{rest}")).await else { continue };

        assert_eq!(watch.next_short().await, "ADDED a");
        let end = watch.next().await.unwrap();
        assert_eq!(end["type"], "BOOKMARK");
        assert_eq!(end["object"]["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));
        assert_eq!((&end["object"]["kind"], &end["object"]["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
        assert!(version(&end["object"]) >= version(&created));
        let name = format!("b{}", rest.len());
        api.add_labelled(&name, json!({"ours": ""})).await;
        assert_eq!(short(&next_change(&mut watch).await), format!("ADDED {name}"));
        api.delete(&api.config_map(&name)).await;
    }
}

async fn a_watch_that_begins_with_the_state_marks_its_end_too(api: Api) {
    let created = api.add_labelled("a", json!({"ours": ""})).await;
    let fresh = format!("{}?resourceVersion={}", api.path("configmaps"), version(&created));
    assert_eq!(api.get(&fresh).await.code, 200);
    let has_streamed_lists = api.has_streamed_lists().await;

    for query in ["", "&resourceVersion=0"] {
        let query = format!("labelSelector=ours&allowWatchBookmarks=true{query}");
        let mut watch = api.watch(&api.path("configmaps"), &query).await;

        assert_eq!(watch.next_short().await, "ADDED a");
        if !has_streamed_lists {
            api.change(&api.config_map("a"), |object| object["data"]["colour"] = query.as_str().into()).await;
            assert_eq!(short(&next_change(&mut watch).await), "MODIFIED a");
            continue;
        }
        let end = watch.next().await.unwrap();
        assert_eq!(end["object"]["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));
    }
}

async fn a_watch_can_do_without_the_state(api: Api) {
    api.add_labelled("a", json!({"ours": ""})).await;
    let query = "labelSelector=ours&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

    let Some(mut watch) = api.streamed(query).await else { return };
    api.add_labelled("b", json!({"ours": ""})).await;

    assert_eq!(watch.next_short().await, "ADDED b");
}

async fn a_watch_ends_when_its_time_is_up(api: Api) {
    let start = version(&api.add("a").await);

    let mut watch = api.watch(&api.path("configmaps"), &format!("resourceVersion={start}&timeoutSeconds=1")).await;

    assert_eq!(watch.next().await, None);
}

async fn a_watch_keeps_to_its_namespace(api: Api) {
    let start = version(&api.add("a").await);
    let other = api.post("/api/v1/namespaces", &json!({"metadata": {"generateName": "other-"}})).await;
    let mut watch = api.watch(&api.path("configmaps"), &format!("resourceVersion={start}")).await;
    let mut across = api.watch("/api/v1/configmaps", &format!("resourceVersion={start}&labelSelector=ours")).await;

    let elsewhere = format!("/api/v1/namespaces/{}/configmaps", other.text("/metadata/name"));
    let created = api.post(&elsewhere, &config_map("elsewhere", &json!({"ours": api.namespace}))).await;
    assert_eq!(created.code, 201, "{created:?}");
    api.add_labelled("here", json!({"ours": api.namespace})).await;

    assert_eq!(watch.next_short().await, "ADDED here");
    // Other tests may use the same server at the same time.
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let event = across.next().await.unwrap();
        if event["object"]["metadata"]["labels"]["ours"] == api.namespace.as_str() {
            seen.push(event["object"]["metadata"]["name"].clone());
        }
    }
    assert_eq!(seen, ["elsewhere", "here"]);
}

async fn an_object_that_starts_to_match_is_added_and_one_that_stops_is_deleted(api: Api) {
    let start = version(&api.add_labelled("a", json!({"tier": "back"})).await);
    let mut watch =
        api.watch(&api.path("configmaps"), &format!("resourceVersion={start}&labelSelector=tier%3Dfront")).await;

    api.change(&api.config_map("a"), |object| object["data"]["colour"] = json!("unseen")).await;
    api.change(&api.config_map("a"), |object| object["metadata"]["labels"]["tier"] = json!("front")).await;
    assert_eq!(watch.next_short().await, "ADDED a");
    api.change(&api.config_map("a"), |object| object["data"]["colour"] = json!("seen")).await;
    assert_eq!(watch.next_short().await, "MODIFIED a");
    let left = api
        .change(&api.config_map("a"), |object| {
            object["metadata"]["labels"]["tier"] = json!("back");
            object["data"]["colour"] = json!("hidden");
        })
        .await;
    let gone = watch.next().await.unwrap();
    assert_eq!(gone["type"], "DELETED");
    assert_eq!(version(&gone["object"]), left.version(), "the version is that of the change");
    assert_eq!(gone["object"]["metadata"]["labels"]["tier"], "front", "the state is the last that matched");
    assert_eq!(gone["object"]["data"]["colour"], "seen");

    api.delete(&api.config_map("a")).await;
    api.add_labelled("b", json!({"tier": "front"})).await;
    assert_eq!(watch.next_short().await, "ADDED b", "the delete of an object that does not match is not sent");
    api.delete(&api.config_map("b")).await;
    assert_eq!(watch.next_short().await, "DELETED b");
}

async fn a_watch_can_follow_one_object(api: Api) {
    let start = version(&api.add("zero").await);
    let mut watch =
        api.watch(&api.path("configmaps"), &format!("resourceVersion={start}&fieldSelector=metadata.name%3Db")).await;

    for name in ["a", "b", "c"] {
        api.add(name).await;
    }
    api.delete(&api.config_map("a")).await;
    api.delete(&api.config_map("b")).await;

    assert_eq!(watch.take(2).await, ["ADDED b", "DELETED b"]);
}

async fn finalizers_make_an_end_a_change_first(api: Api) {
    let mut object = config_map("a", &json!({}));
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let start = api.post(&api.path("configmaps"), &object).await.version();
    let mut watch = api.watch(&api.path("configmaps"), &format!("resourceVersion={start}")).await;

    api.delete(&api.config_map("a")).await;
    let marked = watch.next().await.unwrap();
    assert_eq!(marked["type"], "MODIFIED");
    assert!(marked["object"]["metadata"]["deletionTimestamp"].is_string());

    api.change(&api.config_map("a"), |object| object["metadata"]["finalizers"] = json!([])).await;
    assert_eq!(watch.next_short().await, "DELETED a");
}

async fn a_watch_from_a_version_that_is_no_longer_kept_gets_an_error_event(api: Api) {
    // The history of a kind starts when the kind is defined, also on a server that keeps all its changes.
    let widgets = Widgets::defined(&api).await;

    let mut watch = api.watch(&widgets.path, "resourceVersion=1").await;
    let error = watch.next().await.unwrap();

    assert_eq!(error["type"], "ERROR");
    let status = &error["object"];
    assert_eq!(
        (&status["kind"], &status["code"], &status["reason"]),
        (&json!("Status"), &json!(410), &json!("Expired"))
    );
    assert!(status["message"].as_str().unwrap().starts_with("too old resource version: 1 ("), "{status}");
    assert_eq!(watch.next().await, None);
}

async fn a_watch_whose_parameters_contradict_each_other_is_refused(api: Api) {
    for query in [
        "sendInitialEvents=true",
        "resourceVersionMatch=NotOlderThan&resourceVersion=1",
        "sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1",
    ] {
        let refused = api.get(&format!("{}?watch=true&{query}", api.path("configmaps"))).await;
        assert_eq!(refused.failure(), (422, "Invalid"), "{query}");
    }
    for query in ["labelSelector=%2C", "timeoutSeconds=soon"] {
        let refused = api.get(&format!("{}?watch=true&{query}", api.path("configmaps"))).await;
        assert_eq!(refused.failure().0, 400, "{query}");
    }
    // kube-apiserver reports this as an internal error.
    let refused = api.get(&format!("{}?watch=true&resourceVersion=abc", api.path("configmaps"))).await;
    assert!([400, 500].contains(&refused.failure().0), "{refused:?}");
}

async fn a_watch_from_the_future_waits_for_it(api: Api) {
    assert!(version(&api.add("a").await) < 999_999_999);
    let path = api.path("configmaps");

    let mut quiet = api.watch(&path, "resourceVersion=999999999&allowWatchBookmarks=true&timeoutSeconds=1").await;
    api.add("b").await;
    assert_eq!(quiet.next().await, None);

    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let Some(mut state) = api.streamed(&format!("{query}&resourceVersion=999999999")).await else { return };
    let error = state.next().await.unwrap();
    assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(504)));
    assert_eq!(error["object"]["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    assert_eq!(state.next().await, None);
}

async fn a_watch_of_metadata_alone(api: Api) {
    api.add_labelled("a", json!({"ours": ""})).await;
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let (query, expected): (_, &[&str]) = if api.has_streamed_lists().await {
        (
            "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
            &["ADDED", "BOOKMARK", "MODIFIED"],
        )
    } else {
        ("", &["ADDED", "MODIFIED"])
    };
    let query = format!("labelSelector=ours{query}");
    let mut watch = api.watch_with(&api.path("configmaps"), &query, &[("accept", accept)]).await;

    let mut events = Vec::new();
    for _ in 1..expected.len() {
        events.push(watch.next().await.unwrap());
    }
    api.change(&api.config_map("a"), |object| object["data"]["colour"] = json!("blue")).await;
    events.push(next_change(&mut watch).await);

    let types = events.iter().map(|event| event["type"].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(types, expected);
    for event in &events {
        assert_eq!(event["object"]["kind"], "PartialObjectMetadata");
        assert_eq!(event["object"]["apiVersion"], "meta.k8s.io/v1");
        assert_eq!(event["object"].get("data"), None);
    }
    assert_eq!(events[0]["object"]["metadata"]["labels"], json!({"ours": ""}));
}

async fn many_watches_see_the_same(api: Api) {
    let start = version(&api.add("zero").await);
    let mut watches = Vec::new();
    for _ in 0..5 {
        watches.push(api.watch(&api.path("configmaps"), &format!("resourceVersion={start}")).await);
    }

    for name in ["a", "b", "c"] {
        api.add(name).await;
    }

    for watch in &mut watches {
        assert_eq!(watch.take(3).await, ["ADDED a", "ADDED b", "ADDED c"]);
    }
}

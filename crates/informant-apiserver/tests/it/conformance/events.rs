//! Events: `v1` and `events.k8s.io/v1` are two views of the same objects; so are the two versions of autoscalers.

use super::*;

both_ways! {
    an_event_that_is_written_as_one_kind_is_read_as_the_other
    a_new_event_reaches_watches_of_both_kinds
    an_update_or_delete_through_one_kind_shows_in_the_other
    both_versions_of_an_autoscaler_are_served
}

fn event(api: &Api, name: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": api.namespace},
        "regarding": {"kind": "Pod", "name": "web", "namespace": api.namespace},
        "reason": "Started",
        "note": "container started",
        "type": "Normal",
        "action": "Start",
        "eventTime": "2026-01-02T03:04:05.000006Z",
        "reportingController": "example.com/starter",
        "reportingInstance": "starter-1",
    })
}

async fn an_event_that_is_written_as_one_kind_is_read_as_the_other(api: Api) {
    let created = api.post(&api.path("events.k8s.io/events"), &event(&api, "a")).await;
    assert_eq!(created.code, 201, "{created:?}");

    let core = api.get(&format!("{}/a", api.path("events"))).await.body;

    assert_eq!((&core["apiVersion"], &core["kind"]), (&json!("v1"), &json!("Event")));
    assert_eq!(core["message"], "container started");
    assert_eq!(core["involvedObject"]["name"], "web");
    assert_eq!(core["reportingComponent"], "example.com/starter");
    assert!(core.get("note").is_none() && core.get("regarding").is_none(), "{core}");
    assert_eq!(core["metadata"]["uid"], created.body["metadata"]["uid"]);
    assert_eq!(core["metadata"]["resourceVersion"], created.body["metadata"]["resourceVersion"]);
    let old = json!({
        "metadata": {"name": "b"},
        "involvedObject": {"kind": "Pod", "name": "web", "namespace": api.namespace},
        "reason": "Killed",
        "message": "container killed",
        "type": "Warning",
        "count": 3,
        "source": {"component": "kubelet"},
        "firstTimestamp": "2026-01-02T03:04:05Z",
        "lastTimestamp": "2026-01-02T03:04:06Z",
    });
    assert_eq!(api.post(&api.path("events"), &old).await.code, 201);
    let new = api.get(&format!("{}/b", api.path("events.k8s.io/events"))).await.body;
    assert_eq!(new["apiVersion"], "events.k8s.io/v1");
    assert_eq!((&new["note"], &new["deprecatedCount"]), (&json!("container killed"), &json!(3)));
    assert_eq!(new["deprecatedSource"]["component"], "kubelet");
    let list = api.get(&api.path("events.k8s.io/events")).await.body;
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
}

async fn a_new_event_reaches_watches_of_both_kinds(api: Api) {
    let since = api.get(&api.path("events")).await.body["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let since = format!("resourceVersion={since}");
    let mut core = api.watch(&api.path("events"), &since).await;
    let mut new = api.watch(&api.path("events.k8s.io/events"), &since).await;

    api.post(&api.path("events.k8s.io/events"), &event(&api, "a")).await;

    let (core, new) = (core.next().await.unwrap(), new.next().await.unwrap());
    assert_eq!((&core["type"], &core["object"]["message"]), (&json!("ADDED"), &json!("container started")));
    assert_eq!((&new["type"], &new["object"]["note"]), (&json!("ADDED"), &json!("container started")));
}

async fn an_update_or_delete_through_one_kind_shows_in_the_other(api: Api) {
    api.post(&api.path("events.k8s.io/events"), &event(&api, "a")).await;
    let (core, new) = (format!("{}/a", api.path("events")), format!("{}/a", api.path("events.k8s.io/events")));

    let patch = json!({"count": 2, "message": "again"});
    assert_eq!(api.patch(&core, "application/merge-patch+json", &patch).await.code, 200);
    let found = api.get(&new).await.body;
    assert_eq!((&found["note"], &found["deprecatedCount"]), (&json!("again"), &json!(2)));
    let series = json!({"series": {"count": 5, "lastObservedTime": "2026-01-02T03:04:07.000000Z"}});
    assert_eq!(api.patch(&new, "application/merge-patch+json", &series).await.code, 200);
    assert_eq!(api.get(&core).await.body["series"]["count"], 5);
    assert_eq!(api.delete(&core).await.code, 200);
    assert_eq!(api.get(&new).await.failure(), (404, "NotFound"));
}

async fn both_versions_of_an_autoscaler_are_served(api: Api) {
    let path =
        |version: &str| format!("/apis/autoscaling/{version}/namespaces/{}/horizontalpodautoscalers", api.namespace);
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let spec = json!({"scaleTargetRef": target, "maxReplicas": 9, "targetCPUUtilizationPercentage": 70});

    let created = api.post(&path("v1"), &json!({"metadata": {"name": "a"}, "spec": spec})).await;
    assert_eq!(created.code, 201, "{created:?}");

    let found = api.get(&format!("{}/a", path("v2"))).await.body;
    assert_eq!(found["apiVersion"], "autoscaling/v2");
    assert_eq!(found["spec"]["metrics"][0]["resource"]["name"], "cpu");
    assert_eq!(found["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 70);
    let change = json!({"spec": {"maxReplicas": 5}});
    assert_eq!(api.patch(&format!("{}/a", path("v2")), "application/merge-patch+json", &change).await.code, 200);
    let found = api.get(&format!("{}/a", path("v1"))).await.body;
    assert_eq!(found["spec"]["maxReplicas"], 5);
    assert_eq!(found["spec"]["targetCPUUtilizationPercentage"], 70);
}

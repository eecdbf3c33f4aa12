//! Requests of typical operators: finalizers, discovery, events, access reviews.

use std::sync::Arc;

use informant_apiserver::ApiServer;
use k8s_openapi::api::{
    authorization::v1::SelfSubjectAccessReview,
    core::v1::{ConfigMap, Event as CoreEvent, Pod},
    events::v1::Event as NewEvent,
};
use kube::{
    Api, Discovery, Resource, ResourceExt,
    api::{DeleteParams, EvictParams, ListParams, PostParams},
    discovery::{ApiGroup, verbs},
    runtime::{
        controller::Action,
        events::{Event, EventType, Recorder, Reporter},
        finalizer::{Error as FinalizerError, Event as Finalizer, finalizer},
    },
};
use serde_json::json;

/// One call of a reconciler that uses `finalizer`; returns the requested action.
async fn reconcile(maps: &Api<ConfigMap>) -> Result<&'static str, FinalizerError<std::io::Error>> {
    let map = Arc::new(maps.get("a").await.expect("the object exists until its finalizer is removed"));
    let mut asked = "nothing";
    finalizer(maps, "example.com/cleanup", map, async |event| {
        asked = match event {
            Finalizer::Apply(_) => "apply",
            Finalizer::Cleanup(_) => "clean up",
        };
        Ok(Action::await_change())
    })
    .await?;
    Ok(asked)
}

#[tokio::test]
async fn kube_runtimes_finalizer_is_added_applied_and_removed() {
    let server = ApiServer::new();
    let maps: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    let map = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();

    assert_eq!(reconcile(&maps).await.unwrap(), "nothing", "the first call adds the finalizer");
    assert_eq!(maps.get("a").await.unwrap().finalizers(), ["example.com/cleanup"]);
    assert_eq!(reconcile(&maps).await.unwrap(), "apply");
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(maps.get("a").await.unwrap().meta().deletion_timestamp.is_some());
    assert_eq!(reconcile(&maps).await.unwrap(), "clean up");

    assert!(maps.get_opt("a").await.unwrap().is_none());
}

#[tokio::test]
async fn aggregated_discovery_finds_what_plain_discovery_finds() {
    let server = ApiServer::new();

    let plain = Discovery::new(server.client()).run().await.unwrap();
    let aggregated = Discovery::new(server.client()).run_aggregated().await.unwrap();

    let kinds = |discovery: &Discovery| {
        let mut kinds: Vec<_> = discovery
            .groups()
            .flat_map(ApiGroup::recommended_resources)
            .map(|(resource, abilities)| {
                let (scope, list) = (format!("{:?}", abilities.scope), abilities.supports_operation(verbs::LIST));
                (resource.api_version, resource.kind, resource.plural, scope, list)
            })
            .collect();
        kinds.sort();
        kinds
    };
    assert!(kinds(&plain).len() > 45, "{:?}", kinds(&plain));
    assert_eq!(kinds(&aggregated), kinds(&plain));
}

#[tokio::test]
async fn an_event_of_kubes_recorder_is_seen_in_both_apis() {
    let server = ApiServer::new();
    let pod: Pod =
        serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "default", "uid": "u1"}})).unwrap();
    let recorder = Recorder::new(server.client(), Reporter { controller: "starter".into(), instance: None });
    let event = Event {
        type_: EventType::Normal,
        reason: "Started".into(),
        note: Some("container started".into()),
        action: "Start".into(),
        secondary: None,
    };

    recorder.publish(&event, &pod.object_ref(&())).await.unwrap();
    recorder.publish(&event, &pod.object_ref(&())).await.unwrap();

    let core: Api<CoreEvent> = Api::namespaced(server.client(), "default");
    let core = core.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(core.len(), 1, "the second one raises a count: {core:?}");
    assert_eq!(core[0].message.as_deref(), Some("container started"));
    assert_eq!(core[0].involved_object.name.as_deref(), Some("web"));
    assert_eq!(core[0].reporting_component.as_deref(), Some("starter"));
    let new: Api<NewEvent> = Api::namespaced(server.client(), "default");
    let new = new.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(new[0].series.as_ref().map(|series| series.count), Some(2));
    assert_eq!(new[0].resource_version(), core[0].resource_version());
}

#[tokio::test]
async fn kube_can_evict_a_pod() {
    let server = ApiServer::new();
    let pod = json!({"metadata": {"namespace": "default", "name": "web"}, "spec": {"containers": []}});
    server.put("pods", pod).unwrap();
    let pods: Api<Pod> = Api::namespaced(server.client(), "default");

    pods.evict("web", &EvictParams::default()).await.unwrap();

    assert_eq!(server.count("pods"), Ok(0));
}

#[tokio::test]
async fn kube_can_create_an_access_review() {
    let server = ApiServer::new();
    let access = json!({"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}});
    let reviews: Api<SelfSubjectAccessReview> = Api::all(server.client());

    let answered = reviews.create(&PostParams::default(), &serde_json::from_value(access).unwrap()).await.unwrap();

    assert!(answered.status.unwrap().allowed);
}

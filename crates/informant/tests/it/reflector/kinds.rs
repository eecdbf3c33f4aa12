//! Kinds that the server stops serving: a 404 deletes no object until discovery confirms that the kind is gone.

use informant::{
    pipeline::{KubeSource, Reflector, Served},
    testing::{ScriptedList, ScriptedSource, ScriptedWatch},
};
use informant_apiserver::{CannedResponse, Fault, Kind, On, Verb};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};

use super::kube_source::config_maps;
use crate::support::reflector::{
    Recorder, backoff_without_jitter, config_map, list, open_watch, run_without_jitter, server_at_10, sleep_seconds,
    start, status_error,
};

/// An empty discovery document proves nothing: a proxy may have sent it.
#[tokio::test(start_paused = true)]
async fn an_empty_discovery_document_does_not_delete_the_objects_of_a_kind() {
    for body in ["{}", r#"{"groupVersion":"v1","resources":[]}"#, r#"{"groupVersion":"apps/v1","resources":[]}"#] {
        let server = server_at_10();
        server.put("configmaps", config_map("a", "1")).unwrap();
        server.inject(On::watch().of("configmaps").once(), Fault::freeze_after_events(2));
        let recorder = Recorder::<ConfigMap>::new();
        let running = start(Reflector::builder(config_maps(&server)).backoff(backoff_without_jitter()), recorder);
        running.wait_for_line("Replaced@11 [shop/a@11]").await;
        server.inject(On::any().of("configmaps"), Fault::status(404));
        server.inject(On::verbs([Verb::Discover]), Fault::Response(CannedResponse::new(200, body)));
        sleep_seconds(3000.0).await;

        assert_eq!(running.recorder.state(), ["shop/a@11"], "{body}");
        running.stop().await;
    }
}

/// The kind may be back meanwhile.
#[tokio::test(start_paused = true)]
async fn discovery_without_an_answer_delays_the_next_list_by_twenty_seconds_only() {
    let server = server_at_10();
    server.put("configmaps", config_map("a", "1")).unwrap();
    server.inject(On::list().of("configmaps").once(), Fault::status(404));
    server.inject(On::verbs([Verb::Discover]), Fault::Hang);
    let reflector = Reflector::builder(config_maps(&server)).backoff(backoff_without_jitter()).without_streaming();
    let running = start(reflector, Recorder::<ConfigMap>::new());

    sleep_seconds(25.0).await;

    assert_eq!(running.recorder.state(), ["shop/a@11"]);
    running.stop().await;
}

/// A discovery answer counts only for the failure that follows it.
#[tokio::test(start_paused = true)]
async fn discovery_is_repeated_if_another_error_comes_between_two_404s() {
    let source = ScriptedSource::new();
    source.serves(Served::No);
    source.on_list(list("10", &[("a", 1)]));
    source.on_watch(ScriptedWatch::fails(status_error(404, "NotFound")));
    source.on_list(ScriptedList::fails(status_error(404, "NotFound")));
    source.on_list(ScriptedList::fails(status_error(503, "ServiceUnavailable")));
    source.on_list(ScriptedList::fails(status_error(404, "NotFound")));
    let running = run_without_jitter(&source);
    sleep_seconds(2.0).await;
    source.serves(Served::Yes);
    sleep_seconds(60.0).await;

    assert_eq!(running.lines(), ["Replaced@10 [a@1]"]);
    running.stop().await;
}

/// Discovery answers with the same 404, which therefore proves nothing.
#[tokio::test(start_paused = true)]
async fn a_proxy_that_answers_every_request_with_404_does_not_delete_the_objects_of_a_kind() {
    let server = server_at_10();
    server.put("configmaps", config_map("a", "1")).unwrap();
    server.inject(On::watch().of("configmaps").once(), Fault::freeze_after_events(2));
    let recorder = Recorder::<ConfigMap>::new();
    let running = start(Reflector::builder(config_maps(&server)).backoff(backoff_without_jitter()), recorder);
    running.wait_for_line("Replaced@11 [shop/a@11]").await;

    let not_found = CannedResponse::new(404, "default backend - 404").header("content-type", "text/plain");
    server.inject(On::any(), Fault::Response(not_found));
    sleep_seconds(3000.0).await;

    assert_eq!(running.recorder.state(), ["shop/a@11"]);
    assert!(!running.handle.status().is_gone);
    assert!(running.errors().last().unwrap().contains("default backend - 404"), "{:?}", running.errors());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_served_again_at_the_second_list_is_not_gone() {
    let source = ScriptedSource::new();
    source.serves(Served::No);
    source.on_list(list("10", &[("a", 1)]));
    source.on_watch(ScriptedWatch::fails(status_error(404, "NotFound")));
    source.on_list(ScriptedList::fails(status_error(404, "NotFound")));
    source.on_list(list("12", &[("a", 1)]));
    source.on_watch(open_watch());
    let running = run_without_jitter(&source);
    sleep_seconds(60.0).await;

    let requests = ["L(0, 500)", "W(10)", "L(10, no limit)", "is it served?", "L(10, no limit)", "W(12)"];
    assert_eq!(source.requests(), requests);
    assert_eq!(running.lines(), ["Replaced@10 [a@1]", "Replaced@12 [a@1]"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_reflector_waits_for_a_kind_that_is_not_served_yet() {
    let source = ScriptedSource::new();
    source.serves(Served::No);
    for _ in 0..3 {
        source.on_list(ScriptedList::fails(status_error(404, "NotFound")));
    }
    source.on_list(list("10", &[("a", 1)]));
    source.on_watch(open_watch());
    let running = run_without_jitter(&source);
    sleep_seconds(60.0).await;

    assert_eq!(running.lines(), ["Replaced@10 [a@1]"], "the destination receives no empty list before");
    assert_eq!(running.errors().len(), 1, "the cause does not change");
    running.stop().await;
}

/// A list of custom objects may have any kind name within its group, and a list of any objects may be a `v1, List`.
#[tokio::test(start_paused = true)]
async fn a_list_of_a_custom_kind_may_have_another_kind_name_but_not_another_group() {
    let server = server_at_10();
    server.register(Kind::new("example.com", "v1", "Widget", "widgets"));
    let kind = GroupVersionKind::gvk("example.com", "v1", "Widget");
    let resource = ApiResource::from_gvk_with_plural(&kind, "widgets");
    let cases = [
        (r#""kind":"WidgetCollection","apiVersion":"example.com/v1""#, true),
        (r#""kind":"List","apiVersion":"v1""#, true),
        (r#""kind":"WidgetList","apiVersion":"example.org/v1""#, false),
    ];
    for (types, is_ours) in cases {
        let body = format!(r#"{{{types},"metadata":{{"resourceVersion":"9"}},"items":[]}}"#);
        server.clear_faults();
        server.inject(On::list().of("widgets.example.com").once(), Fault::Response(CannedResponse::new(200, body)));
        let client = kube::Client::new(server.service(), "default");
        let source = KubeSource::dynamic(client, resource.clone());
        let recorder = Recorder::<DynamicObject>::new();
        let builder = Reflector::builder(source).backoff(backoff_without_jitter()).without_streaming();
        let running = start(builder, recorder);
        running.recorder.wait_until(|lines, _| !lines.is_empty()).await;

        assert_eq!(running.lines()[0] == "Replaced@9 []", is_ours, "{types}");
        running.stop().await;
    }
}

/// A discovery document that has the group but not the version proves that the version is gone.
#[tokio::test(start_paused = true)]
async fn a_kind_is_gone_if_discovery_lists_its_group_without_its_version() {
    for (versions, is_gone) in [
        (r#"[{"groupVersion":"example.com/v2","version":"v2"}]"#, true),
        (r#"[{"groupVersion":"example.com/v1","version":"v1"}]"#, false),
    ] {
        let server = server_at_10();
        server.register(Kind::new("example.com", "v1", "Widget", "widgets"));
        server.put("widgets.example.com", serde_json::json!({"metadata": {"namespace": "shop", "name": "w"}})).unwrap();
        server.inject(On::watch().once(), Fault::freeze_after_events(2));
        let kind = GroupVersionKind::gvk("example.com", "v1", "Widget");
        let client = kube::Client::new(server.service(), "default");
        let resource = ApiResource::from_gvk_with_plural(&kind, "widgets");
        let source = KubeSource::dynamic(client, resource);
        let recorder = Recorder::<DynamicObject>::new();
        let running = start(Reflector::builder(source).backoff(backoff_without_jitter()), recorder);
        running.recorder.wait_until(|_, state| state.len() == 1).await;

        server.inject(On::any().of("widgets.example.com"), Fault::status(404));
        let groups = format!(
            r#"{{"kind":"APIGroupList","apiVersion":"v1","groups":[{{"name":"example.com","versions":{versions}}}]}}"#
        );
        let discover = || On::verbs([Verb::Discover]);
        server.inject(discover().once(), Fault::status(404));
        server.inject(discover().skip(1).once(), Fault::Response(CannedResponse::new(200, groups)));
        server.inject(discover().skip(2), Fault::status(503));
        sleep_seconds(1500.0).await;

        assert_eq!(running.handle.status().is_gone, is_gone, "{versions}");
        running.stop().await;
    }
}

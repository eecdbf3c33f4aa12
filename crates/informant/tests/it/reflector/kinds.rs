//! Whether a kind is there: nothing goes because of an answer that can be anybody's.

use informant::listwatch::{Reflector, ScriptedList, ScriptedSource, ScriptedWatch, Served};
use informant_apiserver::{CannedResponse, Fault, On};
use k8s_openapi::api::core::v1::ConfigMap;

use super::kube_source::config_maps;
use super::support::{Recorder, config_map, exact, list, open_watch, run_exactly, says, seconds, server_at_10, start};

/// Discovery is believed if it says something.
#[tokio::test(start_paused = true)]
async fn discovery_that_says_nothing_empties_nothing() {
    for body in ["{}", r#"{"groupVersion":"v1","resources":[]}"#, r#"{"groupVersion":"apps/v1","resources":[]}"#] {
        let server = server_at_10();
        server.put("configmaps", config_map("a", "1")).unwrap();
        server.inject(On::watch().of("configmaps").once(), Fault::freeze_after_events(2));
        let recorder = Recorder::<ConfigMap>::new();
        let running = start(Reflector::builder(config_maps(&server)).backoff(exact()), recorder);
        running.until("Replaced@11 [shop/a@11]").await;
        server.inject(On::any().of("configmaps"), Fault::status(404));
        server
            .inject(On::verbs([informant_apiserver::Verb::Discover]), Fault::Response(CannedResponse::new(200, body)));
        seconds(3000.0).await;

        assert_eq!(running.recorder.state(), ["shop/a@11"], "{body}");
        running.stop().await;
    }
}

/// What discovery said long ago counts nothing.
#[tokio::test(start_paused = true)]
async fn a_kind_that_was_denied_before_other_trouble_is_asked_for_again() {
    let source = ScriptedSource::new();
    source.serves(Served::No);
    source.on_list(list("10", &[("a", 1)]));
    source.on_watch(ScriptedWatch::fails(says(404, "NotFound")));
    source.on_list(ScriptedList::fails(says(404, "NotFound")));
    source.on_list(ScriptedList::fails(says(503, "ServiceUnavailable")));
    source.on_list(ScriptedList::fails(says(404, "NotFound")));
    let running = run_exactly(&source);
    seconds(3.0).await;
    source.serves(Served::Yes);
    seconds(60.0).await;

    assert_eq!(running.told(), ["Replaced@10 [a@1]"]);
    running.stop().await;
}

/// A 404 alone empties nothing, not even one of everything.
#[tokio::test(start_paused = true)]
async fn a_proxy_that_finds_nothing_at_all_empties_nothing() {
    let server = server_at_10();
    server.put("configmaps", config_map("a", "1")).unwrap();
    server.inject(On::watch().of("configmaps").once(), Fault::freeze_after_events(2));
    let recorder = Recorder::<ConfigMap>::new();
    let running = start(Reflector::builder(config_maps(&server)).backoff(exact()), recorder);
    running.until("Replaced@11 [shop/a@11]").await;

    let not_found = CannedResponse::new(404, "default backend - 404").header("content-type", "text/plain");
    server.inject(On::any(), Fault::Response(not_found));
    seconds(3000.0).await;

    assert_eq!(running.recorder.state(), ["shop/a@11"]);
    assert!(!running.handle.status().is_gone);
    assert!(running.errors().last().unwrap().contains("default backend - 404"), "{:?}", running.errors());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_back_when_it_is_asked_for_again_was_never_gone() {
    let source = ScriptedSource::new();
    source.serves(Served::No);
    source.on_list(list("10", &[("a", 1)]));
    source.on_watch(ScriptedWatch::fails(says(404, "NotFound")));
    source.on_list(ScriptedList::fails(says(404, "NotFound")));
    source.on_list(list("12", &[("a", 1)]));
    source.on_watch(open_watch());
    let running = run_exactly(&source);
    seconds(60.0).await;

    let requests = ["L(0, 500)", "W(10)", "L(10, no limit)", "is it served?", "L(10, no limit)", "W(12)"];
    assert_eq!(source.requests(), requests);
    assert_eq!(running.told(), ["Replaced@10 [a@1]", "Replaced@12 [a@1]"]);
    running.stop().await;
}

/// A kind that never was there is not gone.
#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_there_from_the_start_is_waited_for() {
    let source = ScriptedSource::new();
    source.serves(Served::No);
    for _ in 0..3 {
        source.on_list(ScriptedList::fails(says(404, "NotFound")));
    }
    source.on_list(list("10", &[("a", 1)]));
    source.on_watch(open_watch());
    let running = run_exactly(&source);
    seconds(60.0).await;

    assert_eq!(running.told(), ["Replaced@10 [a@1]"], "and nothing was told before");
    assert_eq!(running.errors().len(), 3);
    running.stop().await;
}

/// Lists of custom kinds may be called as their authors like, those of any kind `v1, List`.
#[tokio::test(start_paused = true)]
async fn a_list_may_be_called_otherwise_where_that_is_usual() {
    use informant_apiserver::Kind;
    use kube::core::ApiResource;
    use kube::core::DynamicObject;
    use kube::core::GroupVersionKind;
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
        let source = informant::listwatch::KubeSource::dynamic(client, resource.clone());
        let recorder = Recorder::<DynamicObject>::new();
        let builder = Reflector::builder(source).backoff(exact()).without_streaming();
        let running = start(builder, recorder);
        running.recorder.until(|lines, _| !lines.is_empty()).await;

        assert_eq!(running.told()[0] == "Replaced@9 []", is_ours, "{types}");
        running.stop().await;
    }
}

/// Discovery that knows the group but not our version is sure.
#[tokio::test(start_paused = true)]
async fn a_version_of_a_kind_that_is_served_no_more_is_gone_and_one_that_should_be_is_not() {
    use informant_apiserver::Kind;
    use kube::core::ApiResource;
    use kube::core::DynamicObject;
    use kube::core::GroupVersionKind;
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
        let source = informant::listwatch::KubeSource::dynamic(client, resource);
        let recorder = Recorder::<DynamicObject>::new();
        let running = start(Reflector::builder(source).backoff(exact()), recorder);
        running.recorder.until(|_, state| state.len() == 1).await;

        server.inject(On::any().of("widgets.example.com"), Fault::status(404));
        let groups = format!(
            r#"{{"kind":"APIGroupList","apiVersion":"v1","groups":[{{"name":"example.com","versions":{versions}}}]}}"#
        );
        let discover = || On::verbs([informant_apiserver::Verb::Discover]);
        server.inject(discover().once(), Fault::status(404));
        server.inject(discover().skip(1).once(), Fault::Response(CannedResponse::new(200, groups)));
        server.inject(discover().skip(2), Fault::status(503));
        seconds(1500.0).await;

        assert_eq!(running.handle.status().is_gone, is_gone, "{versions}");
        running.stop().await;
    }
}

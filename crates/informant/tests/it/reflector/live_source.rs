//! A live `ScriptedSource`: the test changes objects and breaks the watch while informers use the source.

use informant::{
    Deleted, Event, EventStream, Lazy, Object, ResourceVersion, SharedInformer,
    error::SourceError,
    testing::{ScriptedList, ScriptedSource, SourceHandle},
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::DynamicObject;
use serde::Serialize;
use serde_json::{Value, json};

/// An object of the shop, without uid and version.
fn config(name: &str, open: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "shop", "name": name}, "data": {"open": open}})
}

fn typed_config(name: &str) -> ConfigMap {
    serde_json::from_value(config(name, "9-17")).unwrap()
}

/// An error after which the reflector resumes the watch.
fn connection_lost() -> SourceError {
    SourceError::Connection { source: "the connection was reset".into() }
}

fn start_informer<O: Object>(source: &ScriptedSource<O>) -> (SharedInformer<O>, EventStream<O>) {
    let informer = SharedInformer::new(source.clone());
    let events = informer.subscribe().stream().unwrap();
    informer.start();
    (informer, events)
}

/// The next event, as a line: `+a@2`, `~a 2→3`, `-a@4` (observed), `?a@3` (missed), `synced`.
async fn next_line<O: Send + Sync + 'static>(events: &mut EventStream<O>) -> String {
    match events.next().await.unwrap() {
        Event::Added { object, .. } => format!("+{}@{}", object.key().name(), object.version()),
        Event::Updated { old, new } => format!("~{} {}→{}", new.key().name(), old.version(), new.version()),
        Event::Resynced(object) => format!("={}@{}", object.key().name(), object.version()),
        Event::Deleted(Deleted::Observed(object)) => format!("-{}@{}", object.key().name(), object.version()),
        Event::Deleted(Deleted::Missed { last_known }) => {
            format!("?{}@{}", last_known.key().name(), last_known.version())
        }
        Event::Synced => "synced".into(),
    }
}

async fn next_sorted<O: Send + Sync + 'static, const N: usize>(events: &mut EventStream<O>) -> [String; N] {
    let mut lines = [const { String::new() }; N];
    for line in &mut lines {
        *line = next_line(events).await;
    }
    lines.sort();
    lines
}

/// Puts, modifies and deletes objects, breaks the watch, and deletes an object that only a relist reveals.
async fn run_through_a_relist<O: Object>(
    a: impl Serialize,
    changed: impl Serialize,
    b: impl Serialize,
) -> SharedInformer<O> {
    let (source, handle) = ScriptedSource::live();
    handle.added(a);
    let (informer, mut events) = start_informer(&source);
    assert_eq!([next_line(&mut events).await, next_line(&mut events).await], ["+a@2", "synced"]);

    handle.modified(changed);
    handle.added(b);
    assert_eq!([next_line(&mut events).await, next_line(&mut events).await], ["~a 2→3", "+b@4"]);

    handle.fail_watch(SourceError::expired);
    handle.deleted("shop/a");
    assert_eq!(next_line(&mut events).await, "?a@3");

    handle.deleted("shop/b");
    assert_eq!(next_line(&mut events).await, "-b@6");
    assert_eq!(source.requests(), ["L(0, 500)", "W(2)", "L(4, no limit)", "W(5)"]);
    informer
}

#[tokio::test(start_paused = true)]
async fn a_live_source_serves_eager_lazy_and_dynamic_objects() {
    run_through_a_relist::<ConfigMap>(config("a", "9"), config("a", "10"), config("b", "9"))
        .await
        .stop()
        .await
        .unwrap();
    run_through_a_relist::<ConfigMap>(typed_config("a"), typed_config("a"), typed_config("b"))
        .await
        .stop()
        .await
        .unwrap();
    run_through_a_relist::<Lazy<ConfigMap>>(config("a", "9"), typed_config("a"), config("b", "9"))
        .await
        .stop()
        .await
        .unwrap();
    let dynamic = || serde_json::from_value::<DynamicObject>(config("a", "9")).unwrap();
    run_through_a_relist::<DynamicObject>(dynamic(), dynamic(), config("b", "9")).await.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_resumed_watch_of_a_live_source_receives_the_events_since_its_failure() {
    let (source, handle) = ScriptedSource::<ConfigMap>::live();
    handle.added(config("a", "9"));
    handle.added(config("b", "9"));
    let (informer, mut events) = start_informer(&source);
    assert_eq!(next_sorted(&mut events).await, ["+a@2", "+b@3", "synced"]);

    handle.modified(config("a", "10"));
    assert_eq!(next_line(&mut events).await, "~a 2→4");
    handle.fail_watch(connection_lost);
    handle.deleted("shop/a");
    handle.modified(config("b", "10"));

    assert_eq!(next_sorted(&mut events).await, ["-a@5", "~b 3→6"]);
    assert_eq!(source.requests(), ["L(0, 500)", "W(3)", "W(4)"]);
    informer.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_live_source_serves_several_informers_and_a_failure_ends_the_watch_of_each() {
    let (source, handle) = ScriptedSource::<Lazy<ConfigMap>>::live();
    handle.added(config("a", "9"));
    let (one, mut events_of_one) = start_informer(&source);
    let (two, mut events_of_two) = start_informer(&source);
    for events in [&mut events_of_one, &mut events_of_two] {
        assert_eq!([next_line(events).await, next_line(events).await], ["+a@2", "synced"]);
    }
    handle.added(config("b", "9"));
    for events in [&mut events_of_one, &mut events_of_two] {
        assert_eq!(next_line(events).await, "+b@3");
    }
    assert_eq!(source.open_watches(), 2);

    handle.fail_watch(SourceError::expired);
    handle.deleted("shop/a");

    for events in [&mut events_of_one, &mut events_of_two] {
        assert_eq!(next_line(events).await, "?a@2");
    }
    let (late, mut events_of_late) = start_informer(&source);
    assert_eq!([next_line(&mut events_of_late).await, next_line(&mut events_of_late).await], ["+b@3", "synced"]);
    for informer in [one, two, late] {
        informer.stop().await.unwrap();
    }
    assert_eq!(source.open_watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_live_source_gives_a_recreated_object_another_uid() {
    let (source, handle) = ScriptedSource::<ConfigMap>::live();
    handle.added(config("a", "9"));
    let (informer, mut events) = start_informer(&source);
    assert_eq!([next_line(&mut events).await, next_line(&mut events).await], ["+a@2", "synced"]);

    handle.fail_watch(SourceError::expired);
    handle.deleted("shop/a");
    handle.added(config("a", "9"));

    assert_eq!([next_line(&mut events).await, next_line(&mut events).await], ["?a@2", "+a@4"]);
    informer.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn fail_next_list_makes_lists_fail_and_the_reflector_retries_them() {
    let (source, handle) = ScriptedSource::<ConfigMap>::live();
    handle.added(config("a", "9"));
    handle.fail_next_list(connection_lost());
    handle.fail_next_list(connection_lost());
    let (informer, mut events) = start_informer(&source);

    assert_eq!([next_line(&mut events).await, next_line(&mut events).await], ["+a@2", "synced"]);
    assert_eq!(source.requests().iter().filter(|request| request.starts_with('L')).count(), 3);
    informer.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn end_watch_makes_the_reflector_resume_at_the_version_of_the_last_bookmark() {
    let (source, handle) = ScriptedSource::<ConfigMap>::live();
    let (informer, mut events) = start_informer(&source);
    assert_eq!(next_line(&mut events).await, "synced");

    handle.bookmark("50");
    handle.end_watch();
    handle.added(config("a", "9"));

    assert_eq!(next_line(&mut events).await, "+a@51");
    assert_eq!(source.requests(), ["L(0, 500)", "W(1)", "W(50)"]);
    informer.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_live_source_keeps_given_uids_and_versions() {
    let (source, handle) = ScriptedSource::<ConfigMap>::live();
    handle.added(json!({"metadata": {"namespace": "shop", "name": "a", "uid": "u1", "resourceVersion": "15"}}));
    let (informer, mut events) = start_informer(&source);
    assert_eq!([next_line(&mut events).await, next_line(&mut events).await], ["+a@15", "synced"]);
    assert_eq!(*informer.lister().list()[0].uid(), "u1");

    // This final state has a version, which is kept.
    handle.deleted(json!({"metadata": {"namespace": "shop", "name": "a", "uid": "u1", "resourceVersion": "20"}}));
    handle.added(config("b", "9"));

    assert_eq!(next_sorted(&mut events).await, ["+b@21", "-a@20"]);
    informer.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn scripted_answers_take_precedence_over_the_objects_of_a_live_source() {
    let (source, handle) = ScriptedSource::<ConfigMap>::live();
    handle.added(config("a", "9"));
    source.on_list(ScriptedList::at("1"));
    let (informer, mut events) = start_informer(&source);

    // The list was scripted to be empty; the watch is live and replays the event after version 1.
    assert_eq!([next_line(&mut events).await, next_line(&mut events).await], ["synced", "+a@2"]);
    informer.stop().await.unwrap();
}

#[test]
fn a_wrong_call_of_a_source_handle_panics_with_the_reason() {
    let (_source, handle) = ScriptedSource::<ConfigMap>::live();
    let panics = |call: fn(&SourceHandle<ConfigMap>) -> ResourceVersion| {
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| call(&handle))).unwrap_err();
        *panic.downcast::<String>().unwrap()
    };

    assert_eq!(
        panics(|handle| handle.added(json!({"data": 1}))),
        r#"Added: an object with metadata.name was expected, found {"data":1}"#
    );
    assert_eq!(panics(|handle| handle.modified("shop/a")), "Modified: shop/a is only a key; pass an object");
    assert_eq!(panics(|handle| handle.deleted("shop/a")), "Deleted: the source has no object shop/a; add it first");
}

#[test]
fn a_live_source_returns_the_version_of_each_change() {
    let (_source, handle) = ScriptedSource::<ConfigMap>::live();
    assert_eq!(handle.version().as_str(), "1");

    let given = json!({"metadata": {"name": "b", "resourceVersion": "20"}});
    let versions = [
        handle.added(config("a", "9")),
        handle.modified(config("a", "10")),
        handle.added(given),
        handle.deleted("shop/a"),
        handle.deleted(json!({"metadata": {"name": "b"}})),
    ];
    assert_eq!(versions.each_ref().map(ResourceVersion::as_str), ["2", "3", "20", "21", "22"]);
    assert_eq!(handle.version(), versions[4]);

    handle.bookmark("30");
    assert_eq!(handle.clone().version().as_str(), "30");
}

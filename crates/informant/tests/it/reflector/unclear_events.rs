//! Watch events that may concern any object: they lead to a list, at most once a minute, and hold up no other event.

use std::time::Duration;

use informant::testing::{ScriptedSource, ScriptedWatch};

use crate::support::{
    Logs,
    reflector::{item, list, open_watch, run_without_jitter, sleep_seconds, wait_until_idle},
};

/// A line of a watch with an event of an unknown type.
fn renamed(version: &str) -> String {
    let object = format!(r#"{{"metadata":{{"name":"a","uid":"u1","resourceVersion":"{version}"}}}}"#);
    format!("{{\"type\":\"RENAMED\",\"object\":{object}}}\n")
}

/// P1: RE-30
#[tokio::test(start_paused = true)]
async fn a_watch_event_of_an_unknown_type_leads_to_a_list_and_does_not_advance_the_version() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[("a", 1)]));
    source.on_watch(ScriptedWatch::new().bytes(renamed("11")).stays_open());
    source.on_list(list("11", &[("b", 11)]));
    source.on_watch(open_watch());
    let running = run_without_jitter(&source);
    sleep_seconds(2.0).await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(10)", "L(10, no limit)", "W(11)"]);
    assert_eq!(running.lines(), ["Replaced@10 [a@1]", "Replaced@11 [b@11]"]);
    assert!(running.last_error().ends_with("an event of the unknown type \"RENAMED\""), "{}", running.last_error());
    running.stop().await;
}

/// P1, P10: the list is due even if the watch ends before.
#[tokio::test(start_paused = true)]
async fn events_of_unknown_types_lead_to_one_list_a_minute_and_later_events_are_delivered_meanwhile() {
    for ends in [false, true] {
        let logs = Logs::capture();
        let source = ScriptedSource::new();
        source.on_list(list("10", &[("a", 1)]));
        source.on_watch(ScriptedWatch::new().bytes(renamed("11")).stays_open());
        source.on_list(list("11", &[("a", 11)]));
        let watch = ScriptedWatch::new().bytes(renamed("12")).bytes(renamed("13")).wait(Duration::from_secs(10));
        let watch = watch.added(item("b", 14));
        source.on_watch(if ends { watch } else { watch.stays_open() });
        let running = run_without_jitter(&source);
        source.on_watch(open_watch());
        sleep_seconds(55.0).await;

        let before = source.requests();
        assert_eq!(before[..4], ["L(0, 500)", "W(10)", "L(10, no limit)", "W(11)"]);
        assert_eq!(before[4..], ["W(14)"][..usize::from(ends)]);
        assert_eq!(running.lines().last().unwrap(), "Added b@14");
        assert_eq!(logs.take().matches("may concern any object").count(), 2, "one line for each list");

        source.on_list(list("14", &[("a", 13), ("b", 14)]));
        source.on_watch(open_watch());
        sleep_seconds(10.0).await;
        assert_eq!(source.requests()[before.len()..], ["L(14, no limit)", "W(14)"]);
        let lists = source
            .requests()
            .iter()
            .zip(source.times())
            .filter(|(request, _)| request.starts_with('L'))
            .map(|(_, at)| at)
            .collect::<Vec<_>>();
        assert!(lists[2] - lists[1] >= Duration::from_secs(59), "{:?}", lists[2] - lists[1]);
        running.stop().await;
    }
}

/// A list for another reason contains the change, too.
#[tokio::test(start_paused = true)]
async fn a_list_for_another_reason_replaces_the_list_that_an_unknown_event_type_leads_to() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[("a", 1)]));
    source.on_watch(ScriptedWatch::new().bytes(renamed("11")).stays_open());
    source.on_list(list("11", &[("a", 11)]));
    let expires = ScriptedWatch::new().bytes(renamed("12")).wait(Duration::from_secs(1));
    source.on_watch(expires.breaks(informant::error::SourceError::expired()));
    source.on_list(list("12", &[("a", 12)]));
    source.on_watch(open_watch());
    let running = run_without_jitter(&source);
    sleep_seconds(300.0).await;

    assert_eq!(source.requests().iter().filter(|request| request.starts_with('L')).count(), 3);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_with_an_event_of_an_unknown_type_is_replaced_by_an_ordinary_list() {
    let source = ScriptedSource::new();
    source.on_stream(ScriptedWatch::new().added(item("a", 5)).bytes(renamed("6")).list_ends("10").stays_open());
    source.on_list(list("10", &[("b", 6)]));
    source.on_watch(open_watch());
    let running = run_without_jitter(&source);
    wait_until_idle().await;

    assert_eq!(source.requests(), ["WL(\"\")", "L(0, 500)", "W(10)"]);
    assert_eq!(running.lines(), ["Replaced@10 [b@6]"]);
    running.stop().await;
}

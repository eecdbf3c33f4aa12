//! Everything that exists: which list is asked for, and what becomes of it.

use std::time::Duration;

use informant::listwatch::ScriptedList;
use informant::listwatch::ScriptedSource;
use informant::listwatch::ScriptedWatch;
use kube::core::Status;
use kube::core::response::StatusCause;
use kube::core::response::StatusDetails;

use super::support::exact;
use super::support::list;
use super::support::open_watch;
use super::support::pauses;
use super::support::ready;
use super::support::run;
use super::support::run_with;
use super::support::says;
use super::support::seconds;
use super::support::settle;

/// A stream that ends so that everything must be listed anew.
fn broken_watch() -> ScriptedWatch<()> {
    ScriptedWatch::new().breaks(says(400, "BadRequest"))
}

/// RE-08, RE-09, RE-21, RE-24
#[tokio::test(start_paused = true)]
async fn the_first_list_takes_what_is_at_hand_and_the_watch_begins_at_its_version() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[("b", 2), ("a", 1)]));
    source.on_watch(open_watch());
    let running = run(&source);
    settle().await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(10)"]);
    assert_eq!(running.told(), ["Replaced@10 [a@1 b@2]"]);
    assert_eq!(running.handle.status().version, Some("10".into()));
    running.stop().await;
}

/// RE-01, RE-08, RE-09: after a round, a delay, and then a list that is not older than what was seen.
#[tokio::test(start_paused = true)]
async fn a_later_list_asks_for_what_was_seen_last_and_without_pages() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    source.on_watch(ScriptedWatch::new().added(ready("a", 12)).breaks(says(400, "BadRequest")));
    source.on_list(list("15", &[("a", 12)]));
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(exact()));
    seconds(1.0).await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(10)", "L(12, no limit)", "W(15)"]);
    assert_eq!(pauses(&source), [0.0, 0.8, 0.0]);
    running.stop().await;
}

/// HC-23, RE-10, RE-11
#[tokio::test(start_paused = true)]
async fn pages_that_come_unasked_for_are_asked_for_ever_after() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[("a", 1)]).more("C1"));
    source.on_list(list("11", &[("b", 2)]).more("C2"));
    source.on_list(list("12", &[("c", 3)]));
    source.on_watch(broken_watch());
    source.on_list(list("20", &[]));
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(exact()));
    seconds(1.0).await;

    let requests = ["L(0, 500)", "L(\"\", 500, C1)", "L(\"\", 500, C2)", "W(10)", "L(10, 500)", "W(20)"];
    assert_eq!(source.requests(), requests);
    assert_eq!(running.told(), ["Replaced@10 [a@1 b@2 c@3]", "Replaced@20 []"], "the version is the first page's");
    running.stop().await;
}

/// HC-23, control: RE-10
#[tokio::test(start_paused = true)]
async fn pages_of_any_other_list_than_the_first_do_not_stick() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    source.on_watch(broken_watch());
    source.on_list(ScriptedList::fails(says(410, "Expired")));
    source.on_list(list("20", &[]).more("C1"));
    source.on_list(list("20", &[]));
    source.on_watch(broken_watch());
    source.on_list(list("30", &[]));
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(exact()));
    seconds(3.0).await;

    let lists: Vec<_> = source.requests().into_iter().filter(|request| request.starts_with('L')).collect();
    assert_eq!(lists, ["L(0, 500)", "L(10, no limit)", "L(\"\", 500)", "L(\"\", 500, C1)", "L(20, no limit)"]);
    running.stop().await;
}

/// RE-09
#[tokio::test(start_paused = true)]
async fn a_page_size_of_the_users_own_is_always_asked_for() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    source.on_watch(broken_watch());
    source.on_list(list("20", &[]));
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(exact()).page_size(7));
    seconds(1.0).await;

    assert_eq!(source.requests(), ["L(0, 7)", "W(10)", "L(10, 7)", "W(20)"]);
    running.stop().await;
}

/// RE-12
#[tokio::test(start_paused = true)]
async fn a_page_that_has_expired_is_replaced_by_the_whole_list_at_once() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[("a", 1)]).more("C1"));
    source.on_list(ScriptedList::fails(says(410, "Expired")));
    source.on_list(list("12", &[("b", 2)]));
    source.on_watch(open_watch());
    let running = run(&source);
    settle().await;

    assert_eq!(source.requests(), ["L(0, 500)", "L(\"\", 500, C1)", "L(0, no limit)", "W(12)"]);
    assert_eq!(running.told(), ["Replaced@12 [b@2]"], "nothing is left of the first page");
    assert!(running.errors().is_empty());
    running.stop().await;
}

/// RE-13, RE-14, RE-15
#[tokio::test(start_paused = true)]
async fn a_version_that_has_expired_is_replaced_by_the_newest_state_at_once() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    source.on_watch(broken_watch());
    source.on_list(ScriptedList::fails(says(410, "Expired")));
    source.on_list(list("20", &[]));
    source.on_watch(broken_watch());
    source.on_list(list("21", &[]));
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(exact()));
    seconds(3.0).await;

    let requests = ["L(0, 500)", "W(10)", "L(10, no limit)", "L(\"\", 500)", "W(20)", "L(20, no limit)", "W(21)"];
    assert_eq!(source.requests(), requests);
    assert_eq!(pauses(&source), [0.0, 0.8, 0.0, 0.0, 1.6, 0.0]);
    running.stop().await;
}

/// P10: one immediate repeat in a round, RE-15: and the mark stays until a list succeeds.
#[tokio::test(start_paused = true)]
async fn a_list_is_repeated_at_once_only_once_in_a_round() {
    let source = ScriptedSource::new();
    for _ in 0..4 {
        source.on_list(ScriptedList::fails(says(410, "Expired")));
    }
    source.on_list(list("10", &[]));
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(exact()));
    seconds(10.0).await;

    assert_eq!(
        source.requests(),
        ["L(0, 500)", "L(\"\", 500)", "L(\"\", 500)", "L(\"\", 500)", "L(\"\", 500)", "W(10)"]
    );
    assert_eq!(
        pauses(&source),
        [0.0, 0.5, 0.8, 1.6, 0.0],
        "within a second for the first time, then with growing delays"
    );
    assert_eq!(running.errors().len(), 3, "one for each round that failed");
    running.stop().await;
}

fn timeout_with(message: &str, cause_reason: &str, cause_message: &str) -> Status {
    let cause = StatusCause { reason: cause_reason.into(), message: cause_message.into(), field: String::new() };
    Status::failure(message, "Timeout").with_code(504).with_details(StatusDetails {
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: vec![cause],
        retry_after_seconds: 0,
    })
}

/// HC-21, B7: RE-14, RE-17
#[tokio::test(start_paused = true)]
async fn a_version_too_large_is_replaced_by_the_newest_state_however_the_server_puts_it() {
    let phrase = "Too large resource version: 20, current: 10";
    let encodings = [
        timeout_with("timed out", "ResourceVersionTooLarge", "so it is"),
        timeout_with("timed out", "", phrase),
        timeout_with(phrase, "", ""),
    ];
    let source = ScriptedSource::new();
    source.on_list(list("20", &[]));
    for (encoding, version) in encodings.into_iter().zip(["30", "40", "50"]) {
        source.on_watch(broken_watch());
        source.on_list(ScriptedList::fails(encoding.into()));
        source.on_list(list(version, &[]));
    }
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(exact()));
    seconds(10.0).await;

    let lists = source.requests().into_iter().filter(|request| request.starts_with('L'));
    let versions: Vec<_> = lists.map(|list| list[2..list.find(',').unwrap()].to_owned()).collect();
    assert_eq!(versions, ["0", "20", "\"\"", "30", "\"\"", "40", "\"\""]);
    running.stop().await;
}

/// HC-21, control
#[tokio::test(start_paused = true)]
async fn an_ordinary_timeout_of_a_list_is_a_failure_like_any_other() {
    let source = ScriptedSource::new();
    source.on_list(ScriptedList::fails(timeout_with("timed out", "", "it took too long").into()));
    source.on_list(list("10", &[]));
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(exact()));
    seconds(1.0).await;

    assert_eq!(source.requests(), ["L(0, 500)", "L(0, 500)", "W(10)"]);
    assert_eq!(pauses(&source), [0.8, 0.0]);
    running.stop().await;
}

/// RE-18, RE-06, HC-27
#[tokio::test(start_paused = true)]
async fn a_list_that_fails_is_told_by_name_and_no_watch_is_opened() {
    let source = ScriptedSource::new();
    for _ in 0..3 {
        source.on_list(ScriptedList::fails(says(403, "Forbidden")));
    }
    let running = run_with(&source, |builder| builder.backoff(exact()));
    seconds(6.0).await;

    assert_eq!(source.requests(), ["L(0, 500)"; 4], "each round asks again");
    assert_eq!(running.errors(), ["listing objects failed: the server answered: so it is (Forbidden, 403)"; 3]);
    assert!(running.told().is_empty());
    running.stop().await;
}

/// A list that breaks in the middle changes nothing.
#[tokio::test(start_paused = true)]
async fn nobody_sees_half_of_a_list() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[("a", 1)]).breaks(super::support::lost()));
    source.on_list(list("10", &[("a", 1)]).more("C1"));
    source.on_list(list("10", &[("b", 1)]).breaks(super::support::lost()));
    source.on_list(list("11", &[("c", 1)]));
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(exact()));
    seconds(3.0).await;

    assert_eq!(running.told(), ["Replaced@11 [c@1]"]);
    running.stop().await;
}

/// P10
#[tokio::test(start_paused = true)]
async fn a_server_that_gives_the_same_token_for_ever_is_found_out() {
    let source = ScriptedSource::new();
    for _ in 0..3 {
        source.on_list(list("10", &[("a", 1)]).more("C1"));
    }
    let running = run_with(&source, |builder| builder.backoff(exact()));
    settle().await;

    assert_eq!(source.requests(), ["L(0, 500)", "L(\"\", 500, C1)"]);
    assert!(running.last_error().contains("same continue token twice"), "{}", running.last_error());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_never_answered_is_given_up_and_asked_again() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]).after(Duration::from_secs(1000)));
    source.on_list(list("20", &[]));
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(exact()));
    seconds(122.0).await;

    assert_eq!(pauses(&source), [120.8, 0.0]);
    assert_eq!(running.errors(), ["listing objects failed: the connection was silent for 120 seconds"]);
    assert_eq!(running.told(), ["Replaced@20 []"]);
    running.stop().await;
}

/// RE-07
#[tokio::test(start_paused = true)]
async fn without_a_callback_failures_are_logged_and_those_of_everyday_life_quietly() {
    let logs = crate::support::Logs::capture();
    let source = ScriptedSource::<()>::new();
    source.on_list(list("10", &[]));
    source.on_watch(ScriptedWatch::fails(says(410, "Expired")));
    source.on_list(list("11", &[]));
    source.on_watch(ScriptedWatch::new().breaks(says(500, "InternalError")));
    source.on_list(ScriptedList::fails(says(403, "Forbidden")));
    // The outage was reported already.
    source.on_list(ScriptedList::fails(super::support::lost()));
    let reflector = informant::listwatch::Reflector::of_decoded_objects(source.clone()).backoff(exact());
    let queue = informant::queue::DeltaFifo::new();
    let task = tokio::spawn(reflector.build(queue).run(std::future::pending()));
    source.wait_for_requests(7).await;

    let said = logs.take();
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 1, "{said}");
    assert!(lines[0].contains("WARN") && lines[0].contains("(Forbidden, 403)"), "{said}");
    task.abort();
}

//! `synced`, `synced_within`, and the errors that explain why an informer is not synced.

use std::time::Duration;

use futures_util::FutureExt;
use informant::{
    error::SyncError,
    testing::{ScriptedList, ScriptedSource},
};

use crate::support::{
    Logs,
    informers::{
        Leaks, Probe, connection_refused, informer, informer_with, list, open_watch, show_error, sleep_seconds, source,
        status_error,
    },
    key,
};

fn forbidden() -> ScriptedSource<()> {
    let source = ScriptedSource::new();
    for _ in 0..100 {
        source.on_list(ScriptedList::fails(status_error(403, "Forbidden")));
    }
    source
}

/// Decision 11: the reason can be read during the wait.
#[tokio::test(start_paused = true)]
async fn the_status_of_an_informer_that_is_not_synced_shows_the_error() {
    let leaks = Leaks::watch();
    let informer = informer_with(&forbidden(), |builder| builder.on_error(|_| {}));
    informer.start();
    sleep_seconds(5.0).await;

    let status = informer.status();

    assert!(!status.is_synced && status.problem().is_some() && !status.is_watching());
    let error = status.source.last_error.unwrap();
    assert_eq!(
        show_error(&*error),
        "listing objects failed: the server answered: the scripted status (Forbidden, 403)"
    );
    leaks.stop(&informer).await;
}

/// Decision 11
#[tokio::test(start_paused = true)]
async fn synced_within_returns_the_last_error_when_the_time_limit_passes() {
    let leaks = Leaks::watch();
    let informer = informer_with(&forbidden(), |builder| builder.on_error(|_| {}));
    informer.start();

    let error = informer.synced_within(Duration::from_secs(10)).await.unwrap_err();

    assert_eq!(
        show_error(&error),
        "informer things is not synced after 10s: listing objects failed: the server answered: the scripted status (Forbidden, 403)"
    );
    leaks.stop(&informer).await;
    let error = informer.synced().await.unwrap_err();
    assert!(
        show_error(&error).starts_with("informer things stopped before it was synced: listing"),
        "{}",
        show_error(&error)
    );
}

#[tokio::test(start_paused = true)]
async fn synced_within_reports_that_the_server_has_sent_neither_an_object_nor_an_error() {
    let leaks = Leaks::watch();
    let source = ScriptedSource::new();
    source.on_list(list("10", &[("a", 1)]).after(Duration::from_secs(60)));
    let informer = informer(&source);
    informer.start();

    let error = informer.synced_within(Duration::from_secs(10)).await.unwrap_err();

    assert_eq!(
        show_error(&error),
        "informer things is not synced after 10s; the server has sent no object and no error"
    );
    leaks.stop(&informer).await;
}

/// ST-01, ST-03, ST-05, ST-07, P7: `is_synced` and `synced` agree, without polling.
#[tokio::test(start_paused = true)]
async fn synced_completes_at_the_moment_of_the_sync() {
    let leaks = Leaks::watch();
    let source = ScriptedSource::new();
    source.on_list(ScriptedList::fails(connection_refused()));
    source.on_list(list("10", &[("a", 1)]));
    source.on_watch(open_watch());
    let informer = informer_with(&source, |builder| builder.on_error(|_| {}));
    let probe = Probe::new();
    let registration = informer.subscribe().handler(probe.handler()).unwrap();
    let start = tokio::time::Instant::now();
    informer.start();
    assert!(!informer.is_synced() && !registration.is_synced());

    let (first, second, third) = tokio::join!(informer.synced(), informer.synced(), registration.synced());

    assert!(first.is_ok() && second.is_ok() && third.is_ok());
    assert!(informer.is_synced() && registration.is_synced());
    assert_eq!((start.elapsed().as_secs_f64() * 10.0).round(), 8.0, "the moment of the second list");
    leaks.stop(&informer).await;
}

/// P7
#[tokio::test(start_paused = true)]
async fn a_handler_that_is_added_during_the_first_list_is_synced_with_it() {
    let leaks = Leaks::watch();
    let source = ScriptedSource::new();
    source.on_list(list("10", &[("a", 1)]).after(Duration::from_secs(5)));
    source.on_watch(open_watch());
    let informer = informer(&source);
    informer.start();
    sleep_seconds(2.0).await;
    let probe = Probe::new();
    let registration = informer.subscribe().handler(probe.handler()).unwrap();
    assert!(!registration.is_synced());

    registration.synced().await.unwrap();

    assert_eq!(probe.take(), ["A(a@1, initial)", "synced"]);
    leaks.stop(&informer).await;
}

/// SI-29
#[tokio::test(start_paused = true)]
async fn last_version_is_that_of_the_source_and_none_before_the_start() {
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[], open_watch()));
    assert_eq!(informer.last_version(), None);
    informer.start();
    informer.synced().await.unwrap();
    assert_eq!(informer.last_version(), Some("10".into()));
    leaks.stop(&informer).await;
    assert_eq!(informer.last_version(), Some("10".into()), "also after the stop");
}

/// Decision 11
#[tokio::test(start_paused = true)]
async fn synced_within_reports_the_number_of_objects_that_a_slow_list_has_received() {
    let leaks = Leaks::watch();
    let source = ScriptedSource::new();
    source.on_list(list("10", &[("a", 1), ("b", 2)]).more("C1"));
    source.on_list(list("10", &[("c", 3)]).after(Duration::from_secs(60)));
    let informer = informer(&source);
    informer.start();

    let error = informer.synced_within(Duration::from_secs(10)).await.unwrap_err();

    assert_eq!(show_error(&error), "informer things is not synced after 10s; 2 objects received so far");
    leaks.stop(&informer).await;
}

/// Decision 11
#[tokio::test(start_paused = true)]
async fn synced_logs_one_warning_after_ten_seconds_if_the_informer_was_not_started() {
    let logs = Logs::capture();
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("a", 1)], open_watch()));
    let waiting = tokio::spawn({
        let informer = informer.clone();
        async move { informer.synced().await }
    });

    sleep_seconds(9.9).await;
    assert_eq!(logs.take(), "");
    sleep_seconds(0.2).await;
    let logged = logs.take();
    assert!(logged.contains("WARN") && logged.contains("informer=\"things\""), "{logged}");
    assert!(logged.contains("waiting for an informer to sync that has not been started"), "{logged}");
    sleep_seconds(1000.0).await;
    assert_eq!(logs.take(), "");

    informer.start();
    waiting.await.unwrap().unwrap();
    leaks.stop(&informer).await;
}

/// Decision 11
#[tokio::test(start_paused = true)]
async fn synced_logs_no_warning_if_the_informer_is_started_during_the_wait() {
    let logs = Logs::capture();
    let leaks = Leaks::watch();
    let informer = informer_with(&forbidden(), |builder| builder.on_error(|_| {}));
    let waiting = tokio::spawn({
        let informer = informer.clone();
        async move { informer.synced().await }
    });
    sleep_seconds(9.0).await;
    informer.start();

    sleep_seconds(100.0).await;

    assert!(!logs.take().contains("has not been started"));
    leaks.stop(&informer).await;
    waiting.await.unwrap().unwrap_err();
}

/// Decision 11: `synced` needs no runtime.
#[test]
fn synced_of_an_informer_that_was_not_started_works_outside_of_a_runtime() {
    let informer = informer(&source("10", &[("a", 1)], open_watch()));

    assert!(informer.synced().now_or_never().is_none());
}

#[tokio::test(start_paused = true)]
async fn the_error_of_an_informer_that_was_not_started_says_so() {
    let informer = informer(&source("10", &[("a", 1)], open_watch()));

    let error = informer.synced_within(Duration::from_secs(5)).await.unwrap_err();

    assert_eq!(
        error.to_string(),
        "informer things is not synced after 5s: it has not been started; call `start` on it or on its factory"
    );
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_not_found_before_the_first_list_may_exist_and_the_error_says_so() {
    let informer = informer(&source("10", &[("a", 1)], open_watch()));
    let leaks = Leaks::watch();
    let error = |name: &str| informer.lister().require(&key(name)).map(drop).map_err(|error| error.to_string());
    let not_synced =
        "a not found in the cache of things, which is not synced yet; wait for `synced` before you read it";
    assert_eq!(error("a"), Err(not_synced.to_owned()));

    informer.start();
    informer.synced().await.unwrap();

    assert_eq!(error("a"), Ok(()));
    assert_eq!(error("b"), Err("b not found in the cache of things".to_owned()));
    leaks.stop(&informer).await;
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_handler_fails_as_fast_as_waiting_for_its_informer() {
    let _logs = Logs::capture();
    let leaks = Leaks::watch();
    let informer = informer_with(&forbidden(), informant::InformerBuilder::fail_fast);
    let registration = informer.subscribe().handler(Probe::new().handler()).unwrap();
    informer.start();

    let error = registration.synced().await.unwrap_err();

    assert!(matches!(&error, SyncError::Permanent { informer, .. } if &**informer == "things"), "{error}");
    leaks.stop(&informer).await;
}

//! Waiting until the cached state of one object satisfies a condition.

use std::time::Duration;

use futures_util::FutureExt;
use informant::{
    Cached, Key, SharedInformer,
    error::WaitError,
    testing::{ScriptedSource, SourceHandle},
};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::informers::{Leaks, wait_until_idle};

const SECOND: Duration = Duration::from_secs(1);

fn hours(open: &str) -> Value {
    json!({"metadata": {"namespace": "shop", "name": "hours"}, "data": {"open": open}})
}

fn key() -> Key {
    Key::namespaced("shop", "hours")
}

fn informer() -> (SharedInformer<ConfigMap>, SourceHandle<ConfigMap>) {
    let (source, handle) = ScriptedSource::live();
    (SharedInformer::builder(source).name("configs").build(), handle)
}

fn opens_at(open: &str) -> impl FnMut(Option<&Cached<ConfigMap>>) -> bool {
    move |config| config.is_some_and(|config| config.data.as_ref().unwrap()["open"] == open)
}

#[tokio::test(start_paused = true)]
async fn a_wait_returns_the_state_that_satisfies_the_condition() {
    let leaks = Leaks::watch();
    let (informer, handle) = informer();
    informer.start();
    let (key, mut states) = (key(), Vec::new());
    let wait = informer.wait_until(
        &key,
        |config| {
            states.push(config.map(|config| config.version().to_string()));
            opens_at("10")(config)
        },
        60 * SECOND,
    );
    let mut wait = Box::pin(wait);

    assert!(wait.as_mut().now_or_never().is_none());
    wait_until_idle().await;
    for open in ["8", "9"] {
        assert!(wait.as_mut().now_or_never().is_none());
        handle.added(hours(open));
        wait_until_idle().await;
    }
    assert!(wait.as_mut().now_or_never().is_none());
    let version = handle.modified(hours("10"));

    assert_eq!(wait.await.unwrap().unwrap().version(), &version);
    assert_eq!(states, [None, Some("2".into()), Some("3".into()), Some("4".into())]);
    // A condition that holds is not awaited.
    informer.wait_until(&key, opens_at("10"), SECOND).now_or_never().unwrap().unwrap();
    leaks.stop(&informer).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_counts_as_missing_only_after_the_first_list() {
    let (informer, handle) = informer();
    handle.added(hours("9"));
    let is_missing = |config: Option<&Cached<ConfigMap>>| config.is_none();
    let key = key();
    let mut wait = Box::pin(informer.wait_until(&key, is_missing, 60 * SECOND));
    assert!(wait.as_mut().now_or_never().is_none(), "not synced");
    informer.start();
    wait_until_idle().await;
    assert!(wait.as_mut().now_or_never().is_none(), "the object exists");

    handle.deleted("shop/hours");

    assert!(wait.await.unwrap().is_none());
    informer.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_condition_ends_at_its_time_limit_and_when_the_informer_stops() {
    let (informer, handle) = informer();
    handle.added(hours("9"));
    informer.start();
    let (start, key) = (Instant::now(), key());

    let error = informer.wait_until(&key, opens_at("10"), 5 * SECOND).await.unwrap_err();
    assert_eq!(start.elapsed(), 5 * SECOND);
    assert!(matches!(error, WaitError::TimedOut { .. }));
    assert_eq!(
        error.to_string(),
        "informer configs has not seen a state of shop/hours that satisfies the condition within 5s; its cache is at version 2"
    );

    let (waited, stopped) = tokio::join!(informer.wait_until(&key, opens_at("10"), 5 * SECOND), informer.stop());
    stopped.unwrap();
    assert!(matches!(waited, Err(WaitError::Stopped { .. })), "{waited:?}");
}

/// An object that exists but cannot be read is not missing.
#[tokio::test(start_paused = true)]
async fn a_wait_for_a_condition_names_the_quarantine_when_its_time_is_over() {
    let (informer, handle) = informer();
    handle.added(json!({"metadata": {"namespace": "shop", "name": "hours"}, "data": 7}));
    informer.start();
    informer.synced().await.unwrap();
    let key = key();

    let error = informer.wait_until(&key, |config| config.is_none(), 5 * SECOND).await.unwrap_err();
    assert!(matches!(error, WaitError::Quarantined { .. }), "{error}");

    let mut wait = Box::pin(informer.wait_until(&key, opens_at("9"), 5 * SECOND));
    assert!(wait.as_mut().now_or_never().is_none());
    handle.modified(hours("9"));
    assert!(wait.await.unwrap().is_some(), "a later write can be read");
    informer.stop().await.unwrap();
}

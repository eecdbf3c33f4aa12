//! Waits of a registration: until the handler has everything that the cache has, and for the end of the handler.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::FutureExt;
use informant::{
    Registration, SharedInformer,
    error::{StopError, WaitError, WaitTarget},
    testing::{ScriptedSource, SourceHandle},
};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use tokio::{
    sync::{Semaphore, mpsc},
    time::Instant,
};

use super::callbacks::Received;
use crate::support::informers::{Leaks, wait_until_idle};

const SECOND: Duration = Duration::from_secs(1);

fn config(name: &str) -> Value {
    json!({"metadata": {"namespace": "shop", "name": name}})
}

/// An informer of `a` with a handler of adds, each of which waits for a permit.
struct Gated {
    informer: SharedInformer<ConfigMap>,
    handle: SourceHandle<ConfigMap>,
    registration: Registration,
    received: Received,
    gate: Arc<Semaphore>,
}

impl Gated {
    async fn start() -> Self {
        let (source, handle) = ScriptedSource::live();
        handle.added(config("a"));
        let informer = SharedInformer::<ConfigMap>::builder(source).name("configs").build();
        let (received, gate) = (Received::default(), Arc::new(Semaphore::new(0)));
        let (lines, permits) = (received.clone(), Arc::clone(&gate));
        let add = move |config: informant::Cached<ConfigMap>, _| {
            let (lines, permits) = (lines.clone(), Arc::clone(&permits));
            async move {
                permits.acquire().await.unwrap().forget();
                lines.push(config.key().name().to_owned());
            }
        };
        let registration = informer.subscribe().named("gated").on_add_async(add).register().unwrap();
        informer.start();
        informer.synced().await.unwrap();
        Self { informer, handle, registration, received, gate }
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_has_caught_up_when_it_has_received_everything_that_the_cache_has() {
    let Gated { informer, handle, registration, received, gate } = Gated::start().await;
    let added = handle.added(config("b"));
    informer.caught_up_to(&added, SECOND).await.unwrap();
    let caught_up = registration.caught_up();
    tokio::pin!(caught_up);

    for lines in [&[][..], &["a"]] {
        wait_until_idle().await;
        assert!(caught_up.as_mut().now_or_never().is_none());
        assert_eq!(received.lines(), lines);
        gate.add_permits(1);
    }
    // Added after the call: not awaited.
    let added = handle.added(config("c"));
    informer.caught_up_to(&added, SECOND).await.unwrap();
    caught_up.await.unwrap();
    assert_eq!(received.lines(), ["a", "b"]);

    gate.add_permits(1);
    registration.caught_up().await.unwrap();
    assert_eq!(received.lines(), ["a", "b", "c"]);
    registration.caught_up().now_or_never().expect("no event waits").unwrap();
    informer.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_the_events_of_the_cache_ends_with_the_handler_and_with_the_informer() {
    let Gated { informer, handle, registration, gate, .. } = Gated::start().await;
    let (caught_up, ()) = tokio::join!(registration.caught_up(), async { registration.remove() });
    let error = caught_up.unwrap_err();
    assert!(
        matches!(&error, WaitError::Removed { awaited: WaitTarget::Version(version), .. } if *version == handle.version()),
        "{error}"
    );
    assert_eq!(
        error.to_string(),
        "gated was removed from informer configs and may not have received all events up to version 2"
    );
    gate.add_permits(1);
    informer.stop().await.unwrap();

    let Gated { informer, registration, gate, .. } = Gated::start().await;
    let end_callback = async {
        wait_until_idle().await;
        gate.add_permits(1);
    };
    let (caught_up, stopped, ()) = tokio::join!(registration.caught_up(), informer.stop(), end_callback);
    stopped.unwrap();
    assert!(matches!(caught_up, Err(WaitError::Stopped { .. })), "{caught_up:?}");
}

#[tokio::test(start_paused = true)]
async fn a_removed_handler_of_an_empty_cache_has_an_error_without_a_version() {
    let (source, _handle) = ScriptedSource::live();
    let informer = SharedInformer::<ConfigMap>::builder(source).name("configs").build();
    let registration = informer.subscribe().named("early").on_add(|_, _| ()).register().unwrap();
    registration.caught_up().await.unwrap();

    registration.remove();
    let error = registration.caught_up().await.unwrap_err();

    assert_eq!(error.to_string(), "early was removed from informer configs and may not have received all events");
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_stopped_within_a_time_limit() {
    let leaks = Leaks::watch();
    let Gated { informer, registration, received, gate, handle } = Gated::start().await;
    handle.added(config("b"));
    wait_until_idle().await;
    let start = Instant::now();

    let error = registration.stop_within(2 * SECOND).await.unwrap_err();

    assert_eq!(start.elapsed(), 2 * SECOND);
    assert!(matches!(error, StopError::StillRunning { within, .. } if within == 2 * SECOND));
    assert_eq!(
        error.to_string(),
        "a callback of gated of informer configs is still running after 2s; the handler is removed, so no other one begins"
    );
    assert!(registration.is_removed());
    gate.add_permits(2);
    registration.stop_within(SECOND).await.unwrap();
    assert_eq!(received.lines(), ["a"], "no other callback begins");
    leaks.stop(&informer).await;
}

#[tokio::test(start_paused = true)]
async fn a_callback_cannot_wait_for_itself() {
    let (source, handle) = ScriptedSource::live();
    let informer = SharedInformer::<ConfigMap>::builder(source).name("configs").build();
    let (sender, mut errors) = mpsc::unbounded_channel();
    let own = Arc::new(OnceLock::<Registration>::new());
    let captured = Arc::clone(&own);
    let callback = move |_| {
        let (own, sender) = (Arc::clone(&captured), sender.clone());
        async move {
            let own = own.get().unwrap();
            sender.send(own.caught_up().await.unwrap_err().to_string()).unwrap();
            sender.send(own.stop_within(SECOND).await.unwrap_err().to_string()).unwrap();
        }
    };
    let registration = informer.subscribe().named("own").on_event_async(callback).register().unwrap();
    own.set(registration.clone()).unwrap();
    informer.start();
    handle.added(config("a"));

    assert_eq!(
        errors.recv().await.unwrap(),
        "own of informer configs cannot wait in one of its own callbacks until it has received events; wait in another task"
    );
    assert_eq!(
        errors.recv().await.unwrap(),
        "own of informer configs cannot wait in one of its own callbacks for their end; wait in another task"
    );
    assert!(registration.is_removed());
    informer.stop().await.unwrap();
}

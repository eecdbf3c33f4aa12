//! The memory that a relist needs: unchanged objects are not held twice.

use std::{sync::Arc, time::Duration};

use allocation_counter::measure;
use bytes::Bytes;
use informant::{
    error::SourceError,
    pipeline::{
        Backoff, Item, ListRequest, ListStream, ListWatch, LookupAnswer, LookupRequest, Reflector, WatchRequest,
        WatchStream,
    },
    testing::{ScriptedList, ScriptedSource, ScriptedWatch},
};
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use crate::support::reflector::{Recorder, Running, start, status_error};

const PODS: usize = 200;

/// Pods as JSON; the first `changed` of them are in a newer state.
fn pods(changed: usize) -> Vec<Bytes> {
    let mut pod: Value = serde_json::from_slice(include_bytes!("../../../benches/pod.json")).unwrap();
    let state = |number| if number < changed { 2 } else { 1 };
    (0..PODS)
        .map(|number| {
            pod["metadata"]["name"] = format!("pod-{number}").into();
            pod["metadata"]["uid"] = format!("uid-{number}").into();
            pod["metadata"]["resourceVersion"] = state(number).to_string().into();
            Bytes::from(pod.to_string())
        })
        .collect()
}

fn list(version: &str, pods: &[Bytes]) -> ScriptedList<Pod> {
    pods.iter().fold(ScriptedList::at(version), |list, pod| list.json(pod.clone()))
}

/// A server whose storage is at version 30, and whose lists come from a cache that lags behind, at version 20. A list that asks for a
/// newer version waits until the cache has reached it.
struct LaggingServer {
    scripted: ScriptedSource<Pod>,
    pods: Vec<Bytes>,
}

impl ListWatch<Pod> for LaggingServer {
    async fn list(&self, request: ListRequest) -> Result<ListStream<Pod>, SourceError> {
        let version = match request.version.as_str() {
            "0" => "10",
            "10" => "20",
            _ => "30",
        };
        self.scripted.on_list(list(version, &self.pods));
        self.scripted.list(request).await
    }

    async fn watch(&self, request: WatchRequest) -> Result<WatchStream<Pod>, SourceError> {
        self.scripted.watch(request).await
    }

    async fn look_up(&self, request: LookupRequest) -> Result<Option<LookupAnswer<Pod>>, SourceError> {
        let position = request.key.and_then(|key| key.name().strip_prefix("pod-")?.parse::<usize>().ok());
        let object = position.map(|position| Item::json(self.pods[position].clone()));
        Ok(Some(LookupAnswer { version: "30".into(), object }))
    }
}

/// The peak of bytes that a relist because of an expired watch allocates on top of the cache. `scripted` answers the requests to `source`.
fn peak_bytes_of_the_relist(
    source: impl ListWatch<Pod>,
    scripted: &ScriptedSource<Pod>,
    before_relist: impl FnOnce(),
) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let running: Running<Pod> = runtime.block_on(async {
        let recorder = Recorder::new();
        let builder = Reflector::builder(source).known_objects(Arc::new(recorder.clone()));
        let backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(1));
        let running = start(builder.backoff(backoff), recorder);
        scripted.wait_for_requests(2).await;
        running
    });
    before_relist();
    let most = measure(|| {
        runtime.block_on(async {
            scripted.on_watch(ScriptedWatch::new().breaks(status_error(410, "Expired")));
            // Requests 3 and 4: the second list, and the watch after it.
            scripted.wait_for_requests(4).await;
        });
    });
    assert_eq!(running.lines().len(), 2, "{:?}", scripted.requests());
    runtime.block_on(running.stop());
    usize::try_from(most.bytes_max).unwrap()
}

/// The peak of bytes of a relist in which some objects have changed.
fn peak_bytes_of_a_relist(changed: usize) -> usize {
    let source = ScriptedSource::<Pod>::new();
    source.on_list(list("10", &pods(0)));
    let relist = list("20", &pods(changed));
    peak_bytes_of_the_relist(source.clone(), &source, || source.on_list(relist))
}

#[test]
fn a_relist_holds_no_second_copy_of_unchanged_objects() {
    let one = 22_000;
    let nothing = peak_bytes_of_a_relist(0);
    let some = peak_bytes_of_a_relist(10);
    let all = peak_bytes_of_a_relist(PODS);

    assert!(nothing < PODS * one / 20, "a relist of {PODS} unchanged pods needs {nothing} bytes");
    assert!(some > 5 * one && some < nothing + 20 * one, "a relist with ten changed pods needs {some} bytes");
    assert!(
        all > PODS * one / 2,
        "a relist with all pods changed needs {all} bytes; otherwise the measurement is wrong"
    );
}

/// The history is checked before the relist, and the answer shows a newer version than the server's cache has.
#[test]
fn a_relist_from_a_cache_that_lags_behind_is_not_repeated_and_holds_no_second_copy() {
    let scripted = ScriptedSource::<Pod>::new();
    let server = LaggingServer { scripted: scripted.clone(), pods: pods(0) };

    let peak = peak_bytes_of_the_relist(server, &scripted, || {});

    assert_eq!(scripted.requests(), ["L(0, 500)", "W(10)", "L(30, no limit)", "W(30)"]);
    assert!(peak < PODS * 28_000 / 20, "the relist needs {peak} bytes");
}

//! The memory that a relist needs: unchanged objects are not held twice.

use std::{sync::Arc, time::Duration};

use allocation_counter::measure;
use bytes::Bytes;
use informant::listwatch::{Backoff, Reflector, ScriptedList, ScriptedSource, ScriptedWatch};
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

/// The peak of bytes that a relist allocates on top of the cache.
fn peak_bytes_of_a_relist(changed: usize) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let source = ScriptedSource::<Pod>::new();
    source.on_list(list("10", &pods(0)));
    let running: Running<Pod> = runtime.block_on(async {
        let recorder = Recorder::new();
        let builder = Reflector::builder(source.clone()).known_objects(Arc::new(recorder.clone()));
        let backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(1));
        let running = start(builder.backoff(backoff), recorder);
        source.wait_for_requests(2).await;
        running
    });
    source.on_list(list("20", &pods(changed)));
    let most = measure(|| {
        runtime.block_on(async {
            source.on_watch(ScriptedWatch::new().breaks(status_error(410, "Expired")));
            // Requests 3 and 4: the second list, and the watch after it.
            source.wait_for_requests(4).await;
        });
    });
    assert_eq!(running.lines().len(), 2);
    runtime.block_on(running.stop());
    usize::try_from(most.bytes_max).unwrap()
}

#[test]
fn a_relist_holds_no_second_copy_of_unchanged_objects() {
    let one = 28_000;
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

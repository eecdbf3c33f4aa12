//! A list of what is known holds no second copy of it.

use std::sync::Arc;
use std::time::Duration;

use allocation_counter::measure;
use bytes::Bytes;
use informant::listwatch::Backoff;
use informant::listwatch::Reflector;
use informant::listwatch::ScriptedList;
use informant::listwatch::ScriptedSource;
use informant::listwatch::ScriptedWatch;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::support::Recorder;
use super::support::Running;
use super::support::says;
use super::support::start;

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

/// The most bytes that were held beyond what was held before, while everything was listed anew.
fn most_while_relisting(changed: usize) -> usize {
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
            source.on_watch(ScriptedWatch::new().breaks(says(410, "Expired")));
            // The second list, and the watch after it.
            source.wait_for_requests(4).await;
        });
    });
    assert_eq!(running.told().len(), 2);
    runtime.block_on(running.stop());
    usize::try_from(most.bytes_max).unwrap()
}

#[test]
fn what_has_not_changed_is_not_held_twice_and_of_the_rest_only_old_and_new() {
    let one = 28_000;
    let nothing = most_while_relisting(0);
    let some = most_while_relisting(10);
    let all = most_while_relisting(PODS);

    assert!(nothing < PODS * one / 20, "{nothing} bytes for {PODS} pods that are known");
    assert!(some > 5 * one && some < nothing + 20 * one, "{some} bytes if ten have changed");
    assert!(all > PODS * one / 2, "{all} bytes if all have changed: the measure can tell");
}

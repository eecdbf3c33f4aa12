//! The columns of pods.

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, Column, NONE, ages::time_since, field, has, list, number, or, since, str, text};

pub(super) fn columns() -> Vec<Column> {
    vec![
        text("Ready", |pod| format!("{}/{}", ready(pod), wanted(pod)).into()),
        text("Status", |pod| status(pod).into()),
        since("Restarts", restarts),
        AGE,
        text("IP", |pod| or(list(pod, "/status/podIPs").first().map_or("", |address| str(address, "/ip")), NONE))
            .wide(),
        text("Node", |pod| field(pod, "/spec/nodeName")).wide(),
        text("Nominated Node", |pod| field(pod, "/status/nominatedNodeName")).wide(),
        text("Readiness Gates", |pod| gates(pod).into()).wide(),
    ]
}

/// The sidecars: init containers that run as long as the pod.
fn sidecars(pod: &Value) -> impl Iterator<Item = &Value> {
    list(pod, "/spec/initContainers").iter().filter(|container| str(container, "/restartPolicy") == "Always")
}

fn is_of_sidecar(pod: &Value, state: &Value) -> bool {
    sidecars(pod).any(|container| container["name"] == state["name"])
}

/// The number of containers that should run as long as the pod.
fn wanted(pod: &Value) -> usize {
    list(pod, "/spec/containers").len() + sidecars(pod).count()
}

/// The container states that the cells of a pod depend on.
struct States<'a> {
    /// The init containers, up to the first one that the others wait for.
    initial: &'a [Value],
    /// The ordinary containers; empty until the init containers are done.
    ordinary: &'a [Value],
    is_initializing: bool,
}

fn states(pod: &Value) -> States<'_> {
    let all = list(pod, "/status/initContainerStatuses");
    let is_done = |state: &Value| {
        let has_ended = has(state, "/state/terminated") && number(state, "/state/terminated/exitCode") == 0;
        has_ended || (state["started"] == true && is_of_sidecar(pod, state))
    };
    let waits_for = all.iter().position(|state| !is_done(state));
    let is_initializing = waits_for.is_some() && !has_condition(pod, "Initialized");
    States {
        initial: waits_for.map_or(all, |place| &all[..=place]),
        ordinary: if is_initializing { &[] } else { list(pod, "/status/containerStatuses") },
        is_initializing,
    }
}

fn ready(pod: &Value) -> usize {
    let States { initial, ordinary, .. } = states(pod);
    let is_ready_sidecar =
        |state: &&Value| state["ready"] == true && state["started"] == true && is_of_sidecar(pod, state);
    initial.iter().filter(is_ready_sidecar).count() + ordinary.iter().filter(|state| is_running(state)).count()
}

/// The number of restarts, and the time since the last one.
fn restarts(pod: &Value, now: Timestamp) -> Value {
    let States { initial, ordinary, is_initializing } = states(pod);
    // After initialization, only sidecars count among the init containers.
    let initial = initial.iter().filter(|state| is_initializing || is_of_sidecar(pod, state));
    let counted: Vec<_> = initial.chain(ordinary).collect();
    // The status may contain any numbers, so the sum saturates.
    let count = counted.iter().map(|state| number(state, "/restartCount")).fold(0, i64::saturating_add);
    let ends = counted.iter().map(|state| str(state, "/lastState/terminated/finishedAt"));
    match ends.filter_map(|end| end.parse().ok()).max() {
        Some(end) if count > 0 => format!("{count} ({} ago)", time_since(end, now)).into(),
        Some(_) | None => count.to_string().into(),
    }
}

/// The phase, or the reason why the pod does not run.
fn status(pod: &Value) -> String {
    let (phase, reason) = (str(pod, "/status/phase"), str(pod, "/status/reason"));
    if has(pod, "/metadata/deletionTimestamp") {
        match (reason, phase) {
            ("NodeLost", _) => return "Unknown".to_owned(),
            (_, "Succeeded" | "Failed") => {}
            (_, _) => return "Terminating".to_owned(),
        }
    }
    let States { initial, ordinary: containers, is_initializing } = states(pod);
    if let Some(last) = initial.last().filter(|_| is_initializing) {
        let place = || format!("{}/{}", initial.len() - 1, list(pod, "/spec/initContainers").len());
        return format!("Init:{}", stopped(last).filter(|reason| reason != "PodInitializing").unwrap_or_else(place));
    }
    if let Some(reason) = containers.iter().find_map(stopped) {
        let has_failed = |state: &&Value| number(state, "/state/terminated/exitCode") != 0;
        let some_run = containers.iter().any(is_running);
        return match containers.iter().find(has_failed).and_then(stopped) {
            _ if reason != "Completed" => reason,
            _ if some_run && has_condition(pod, "Ready") => "Running".to_owned(),
            Some(failure) => failure,
            None if some_run => "NotReady".to_owned(),
            None => reason,
        };
    }
    let is_gated = list(pod, "/status/conditions").iter().any(|condition| condition["reason"] == "SchedulingGated");
    let shown =
        [if is_gated { "SchedulingGated" } else { "" }, reason, phase].into_iter().find(|shown| !shown.is_empty());
    shown.unwrap_or_default().to_owned()
}

/// The reason why a container does not run, if its state has one.
fn stopped(state: &Value) -> Option<String> {
    let waits = str(state, "/state/waiting/reason");
    if !waits.is_empty() {
        return Some(waits.to_owned());
    }
    let ended = state.pointer("/state/terminated").filter(|ended| !ended.is_null())?;
    Some(match (str(ended, "/reason"), number(ended, "/signal")) {
        ("", 0) => format!("ExitCode:{}", number(ended, "/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    })
}

fn is_running(state: &Value) -> bool {
    state["ready"] == true && has(state, "/state/running")
}

fn has_condition(pod: &Value, name: &str) -> bool {
    list(pod, "/status/conditions").iter().any(|condition| condition["type"] == name && condition["status"] == "True")
}

fn gates(pod: &Value) -> String {
    let gates = list(pod, "/spec/readinessGates");
    let open = gates.iter().filter(|gate| has_condition(pod, str(gate, "/conditionType"))).count();
    if gates.is_empty() { NONE.to_owned() } else { format!("{open}/{}", gates.len()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn waiting(reason: &str) -> Value {
        json!({"name": "b", "restartCount": 5, "state": {"waiting": {"reason": reason}}})
    }

    fn ended(reason: &str, code: u8) -> Value {
        json!({"name": "a", "restartCount": 1, "state": {"terminated": {"reason": reason, "exitCode": code}}})
    }

    fn running() -> Value {
        json!({"name": "c", "ready": true, "started": true, "restartCount": 2, "state": {"running": {}}})
    }

    fn pod(status: &Value) -> Value {
        json!({"spec": {"initContainers": [{"name": "a"}, {"name": "b"}], "containers": [{"name": "c"}]}, "status": status})
    }

    #[test]
    fn the_status_says_what_keeps_a_pod() {
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let of = |containers: &[Value]| json!({"phase": "Running", "containerStatuses": containers});
        let and_ready =
            |containers: &[Value]| json!({"phase": "Running", "containerStatuses": containers, "conditions": ready});
        for (status_of_pod, shown) in [
            (json!({"phase": "Pending"}), "Pending"),
            (json!({"phase": "Failed", "reason": "Evicted"}), "Evicted"),
            (of(&[waiting("CrashLoopBackOff"), running()]), "CrashLoopBackOff"),
            (of(&[json!({"ready": true, "state": {"running": {}, "terminated": null, "waiting": null}})]), "Running"),
            (of(&[ended("", 3)]), "ExitCode:3"),
            (of(&[ended("Completed", 0)]), "Completed"),
            (of(&[ended("Completed", 0), running()]), "NotReady"),
            (and_ready(&[ended("Completed", 0), running()]), "Running"),
            (of(&[ended("Completed", 0), ended("Error", 1)]), "Error"),
            (of(&[ended("Completed", 0), ended("Error", 1), running()]), "Error"),
            (
                json!({"phase": "Pending", "initContainerStatuses": [ended("Completed", 0), waiting("ErrImagePull")], "containerStatuses": [waiting("PodInitializing")]}),
                "Init:ErrImagePull",
            ),
            (json!({"phase": "Pending", "initContainerStatuses": [ended("", 2)]}), "Init:ExitCode:2"),
            (json!({"phase": "Pending", "initContainerStatuses": [ended("Completed", 0), running()]}), "Init:1/2"),
        ] {
            assert_eq!(status(&pod(&status_of_pod)), shown, "{status_of_pod}");
        }
        let going = |phase: &str| json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": phase}});
        assert_eq!((status(&going("Running")), status(&going("Failed"))), ("Terminating".into(), "Failed".into()));
    }

    #[test]
    fn restarts_are_those_of_initial_containers_until_they_are_done() {
        let now = "2026-01-01T00:05:00Z".parse().unwrap();
        let status = |second: Value| {
            pod(&json!({"initContainerStatuses": [ended("Completed", 0), second], "containerStatuses": [running()]}))
        };

        let initializing = status(waiting("CrashLoopBackOff"));
        assert_eq!((ready(&initializing), restarts(&initializing, now)), (0, json!("6")));
        let huge = pod(&json!({"containerStatuses": [{"restartCount": i64::MAX}, {"restartCount": i64::MAX}]}));
        assert_eq!(restarts(&huge, now), i64::MAX.to_string());
        let initialized = status(ended("Completed", 0));
        assert_eq!((ready(&initialized), restarts(&initialized, now)), (1, json!("2")));
    }

    #[test]
    fn sidecars_are_counted_with_the_containers() {
        let state = |name: &str| json!({"name": name, "ready": true, "started": true, "restartCount": 2, "state": {"running": {}}, "lastState": {"terminated": {"finishedAt": "2026-01-01T00:00:00Z"}}});
        let mut pod = json!({
            "spec": {"containers": [{"name": "web"}], "initContainers": [{"name": "a"}, {"name": "mesh", "restartPolicy": "Always"}]},
            "status": {"containerStatuses": [state("web")], "initContainerStatuses": [ended("Completed", 0), state("mesh")]},
        });

        assert_eq!((ready(&pod), wanted(&pod)), (2, 2));
        assert_eq!(restarts(&pod, "2026-01-01T00:05:00Z".parse().unwrap()), "4 (5m ago)");
        pod["status"]["initContainerStatuses"][1]["ready"] = json!(false);
        assert_eq!((ready(&pod), wanted(&pod)), (1, 2));
    }
}

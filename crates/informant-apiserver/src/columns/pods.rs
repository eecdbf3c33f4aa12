//! The columns of pods.

use jiff::Timestamp;
use serde_json::Value;

use super::AGE;
use super::Column;
use super::NONE;
use super::age_of;
use super::field;
use super::list;
use super::number;
use super::or;
use super::since;
use super::str;
use super::text;

pub(super) fn columns() -> Vec<Column> {
    vec![
        text("Ready", |pod| format!("{}/{}", ready(pod), wanted(pod)).into()),
        text("Status", |pod| status(pod).into()),
        since("Restarts", restarts),
        AGE,
        text("IP", |pod| {
            let first = list(pod, "/status/podIPs").first().map(|address| str(address, "/ip"));
            or(first.filter(|ip| !ip.is_empty()).unwrap_or_else(|| str(pod, "/status/podIP")), NONE)
        })
        .wide(),
        text("Node", |pod| field(pod, "/spec/nodeName")).wide(),
        text("Nominated Node", |pod| field(pod, "/status/nominatedNodeName")).wide(),
        text("Readiness Gates", |pod| gates(pod).into()).wide(),
    ]
}

/// The containers that are to run as long as the pod: the ordinary ones, and initial ones that are restarted.
fn is_sidecar(container: &Value) -> bool {
    str(container, "/restartPolicy") == "Always"
}

fn sidecars(pod: &Value) -> impl Iterator<Item = &Value> {
    list(pod, "/spec/initContainers").iter().filter(|container| is_sidecar(container))
}

fn sidecar_states(pod: &Value) -> impl Iterator<Item = &Value> {
    let is_of_sidecar = |state: &&Value| sidecars(pod).any(|container| container["name"] == state["name"]);
    list(pod, "/status/initContainerStatuses").iter().filter(is_of_sidecar)
}

fn wanted(pod: &Value) -> usize {
    list(pod, "/spec/containers").len() + sidecars(pod).count()
}

fn ready(pod: &Value) -> usize {
    let states = list(pod, "/status/containerStatuses").iter();
    let ready = states.filter(|state| state["ready"] == true && state.pointer("/state/running").is_some()).count();
    ready + sidecar_states(pod).filter(|state| state["ready"] == true && state["started"] == true).count()
}

/// How often containers were restarted, and when that was last.
fn restarts(pod: &Value, now: Timestamp) -> Value {
    let states = || list(pod, "/status/containerStatuses").iter().chain(sidecar_states(pod));
    let count: i64 = states().map(|state| number(state, "/restartCount")).sum();
    let ends = states().map(|state| str(state, "/lastState/terminated/finishedAt"));
    match ends.filter_map(|end| end.parse::<Timestamp>().ok()).max() {
        Some(end) if count > 0 => {
            let ago = age_of(&end.to_string(), now);
            format!("{count} ({} ago)", ago.as_str().unwrap_or_default()).into()
        }
        Some(_) | None => count.to_string().into(),
    }
}

/// The phase, or what keeps the pod from running.
fn status(pod: &Value) -> String {
    let phase = str(pod, "/status/phase");
    if pod.pointer("/metadata/deletionTimestamp").is_some() && !["Succeeded", "Failed"].contains(&phase) {
        let is_lost = str(pod, "/status/reason") == "NodeLost";
        return if is_lost { "Unknown" } else { "Terminating" }.to_owned();
    }
    if let Some(initializing) = initializing(pod).filter(|_| !has_condition(pod, "Initialized")) {
        return initializing;
    }
    let containers = list(pod, "/status/containerStatuses");
    match containers.iter().find_map(stopped) {
        Some(reason) if reason == "Completed" && containers.iter().any(is_running) => {
            if has_condition(pod, "Ready") { "Running" } else { "NotReady" }.to_owned()
        }
        Some(reason) => reason,
        None if list(pod, "/status/conditions").iter().any(|condition| condition["reason"] == "SchedulingGated") => {
            "SchedulingGated".to_owned()
        }
        None => match str(pod, "/status/reason") {
            "" => phase.to_owned(),
            reason => reason.to_owned(),
        },
    }
}

/// How far the initial containers are, if they are not done.
fn initializing(pod: &Value) -> Option<String> {
    let all = list(pod, "/spec/initContainers").len();
    let is_done = |state: &Value| {
        let ended = state.pointer("/state/terminated");
        ended.is_some_and(|ended| number(ended, "/exitCode") == 0)
            || (state["started"] == true && sidecars(pod).any(|container| container["name"] == state["name"]))
    };
    let mut states = list(pod, "/status/initContainerStatuses").iter().enumerate();
    let (place, state) = states.find(|(_, state)| !is_done(state))?;
    let reason = stopped(state).filter(|reason| reason != "PodInitializing");
    Some(format!("Init:{}", reason.unwrap_or_else(|| format!("{place}/{all}"))))
}

/// Why a container does not run, if it says so.
fn stopped(state: &Value) -> Option<String> {
    let waits = str(state, "/state/waiting/reason");
    if !waits.is_empty() {
        return Some(waits.to_owned());
    }
    let ended = state.pointer("/state/terminated")?;
    Some(match (str(ended, "/reason"), number(ended, "/signal")) {
        ("", 0) => format!("ExitCode:{}", number(ended, "/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    })
}

fn is_running(state: &Value) -> bool {
    state["ready"] == true && state.pointer("/state/running").is_some()
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

    #[test]
    fn the_status_says_what_keeps_a_pod() {
        let waiting = |reason: &str| json!({"state": {"waiting": {"reason": reason}}});
        let ended = |reason: &str, code: u8| json!({"state": {"terminated": {"reason": reason, "exitCode": code}}});
        let running = json!({"ready": true, "state": {"running": {}}});
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let of = |containers: &[&Value]| json!({"phase": "Running", "containerStatuses": containers});
        for (pod_status, said) in [
            (json!({"phase": "Pending"}), "Pending"),
            (json!({"phase": "Failed", "reason": "Evicted"}), "Evicted"),
            (of(&[&waiting("CrashLoopBackOff"), &running]), "CrashLoopBackOff"),
            (of(&[&ended("", 3)]), "ExitCode:3"),
            (of(&[&ended("Completed", 0)]), "Completed"),
            (of(&[&ended("Completed", 0), &running]), "NotReady"),
            (
                json!({"phase": "Running", "containerStatuses": [ended("Completed", 0), running], "conditions": ready}),
                "Running",
            ),
            (
                json!({"phase": "Pending", "initContainerStatuses": [ended("Completed", 0), waiting("ErrImagePull")], "containerStatuses": [waiting("PodInitializing")]}),
                "Init:ErrImagePull",
            ),
            (json!({"phase": "Pending", "initContainerStatuses": [{"state": {"running": {}}}]}), "Init:0/2"),
        ] {
            let pod = json!({"spec": {"initContainers": [{"name": "a"}, {"name": "b"}]}, "status": pod_status});
            assert_eq!(status(&pod), said, "{pod}");
        }
        let going = |phase: &str| json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": phase}});
        assert_eq!((status(&going("Running")), status(&going("Failed"))), ("Terminating".into(), "Failed".into()));
    }

    #[test]
    fn sidecars_are_counted_with_the_containers() {
        let state = |name: &str| json!({"name": name, "ready": true, "started": true, "restartCount": 2, "state": {"running": {}}, "lastState": {"terminated": {"finishedAt": "2026-01-01T00:00:00Z"}}});
        let pod = json!({
            "spec": {"containers": [{"name": "web"}], "initContainers": [{"name": "once"}, {"name": "mesh", "restartPolicy": "Always"}]},
            "status": {"containerStatuses": [state("web")], "initContainerStatuses": [state("once"), state("mesh")]},
        });

        assert_eq!((ready(&pod), wanted(&pod)), (2, 2));
        assert_eq!(restarts(&pod, "2026-01-01T00:05:00Z".parse().unwrap()), "4 (5m ago)");
    }
}

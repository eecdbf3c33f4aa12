//! The columns of kinds that create pods.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    AGE, Column, NONE,
    ages::{age_of, time_since},
    field, has, is_true, joined, list, number, numeric, or, pairs, since, str, text, truth,
};
use crate::objects::scale;

pub(super) fn deployment() -> Vec<Column> {
    vec![
        text("Ready", |set| format!("{}/{}", number(set, "/status/readyReplicas"), wanted(set)).into()),
        text("Up-to-date", |set| number(set, "/status/updatedReplicas").into()),
        text("Available", |set| number(set, "/status/availableReplicas").into()),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ]
}

pub(super) fn replica_set() -> Vec<Column> {
    vec![
        numeric("Desired", |set| wanted(set).into()),
        numeric("Current", |set| number(set, "/status/replicas").into()),
        numeric("Ready", |set| number(set, "/status/readyReplicas").into()),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ]
}

pub(super) fn stateful_set() -> Vec<Column> {
    vec![
        text("Ready", |set| format!("{}/{}", number(set, "/status/readyReplicas"), wanted(set)).into()),
        AGE,
        CONTAINERS,
        IMAGES,
    ]
}

pub(super) fn daemon_set() -> Vec<Column> {
    vec![
        numeric("Desired", |set| number(set, "/status/desiredNumberScheduled").into()),
        numeric("Current", |set| number(set, "/status/currentNumberScheduled").into()),
        numeric("Ready", |set| number(set, "/status/numberReady").into()),
        numeric("Up-to-date", |set| number(set, "/status/updatedNumberScheduled").into()),
        numeric("Available", |set| number(set, "/status/numberAvailable").into()),
        text("Node Selector", |set| pairs(set.pointer("/spec/template/spec/nodeSelector"))),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ]
}

pub(super) fn job() -> Vec<Column> {
    vec![
        text("Status", |job| job_status(job).into()),
        text("Completions", |job| completions(job).into()),
        since("Duration", |job, now| job_duration(job, now).into()),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ]
}

pub(super) fn cron_job() -> Vec<Column> {
    vec![
        text("Schedule", |job| str(job, "/spec/schedule").into()),
        text("Timezone", |job| field(job, "/spec/timeZone")),
        // kube-apiserver sends strings here.
        truth("Suspend", |job| if is_true(job, "/spec/suspend") { "True".into() } else { "False".into() }),
        numeric("Active", |job| list(job, "/status/active").len().into()),
        since("Last Schedule", |job, now| match str(job, "/status/lastScheduleTime") {
            "" => NONE.into(),
            time => age_of(time, now),
        }),
        AGE,
        text("Containers", |job| of_containers(job, "/spec/jobTemplate/spec/template/spec/containers", "/name")).wide(),
        text("Images", |job| of_containers(job, "/spec/jobTemplate/spec/template/spec/containers", "/image")).wide(),
        text("Selector", |job| selector(job.pointer("/spec/jobTemplate/spec/selector"))).wide(),
    ]
}

const CONTAINERS: Column =
    text("Containers", |set| of_containers(set, "/spec/template/spec/containers", "/name")).wide();
const IMAGES: Column = text("Images", |set| of_containers(set, "/spec/template/spec/containers", "/image")).wide();
const SELECTOR: Column = text("Selector", |set| selector(set.pointer("/spec/selector"))).wide();

/// The wanted number of replicas; 1 if the field is absent.
fn wanted(set: &Value) -> i64 {
    set.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1)
}

fn of_containers(object: &Value, containers: &str, of: &str) -> Value {
    joined(list(object, containers).iter().map(|container| str(container, of))).into()
}

/// `app=web,tier in (back,front)`.
fn selector(selector: Option<&Value>) -> Value {
    or(&selector.map(scale::selector).unwrap_or_default(), NONE)
}

fn job_status(job: &Value) -> &'static str {
    let is_so = |name: &str| {
        let conditions = list(job, "/status/conditions");
        conditions.iter().any(|condition| condition["type"] == name && condition["status"] == "True")
    };
    let first = |names: &[&'static str]| names.iter().find(|name| is_so(name)).copied();
    let is_going = has(job, "/metadata/deletionTimestamp");
    first(&["Complete", "Failed"])
        .or(is_going.then_some("Terminating"))
        .or(first(&["Suspended", "FailureTarget", "SuccessCriteriaMet"]))
        .unwrap_or("Running")
}

fn completions(job: &Value) -> String {
    let done = number(job, "/status/succeeded");
    match (job.pointer("/spec/completions").and_then(Value::as_i64), number(job, "/spec/parallelism")) {
        (Some(wanted), _) => format!("{done}/{wanted}"),
        (None, several @ 2..) => format!("{done}/1 of {several}"),
        (None, _) => format!("{done}/1"),
    }
}

fn job_duration(job: &Value, now: Timestamp) -> String {
    let time = |pointer: &str| str(job, pointer).parse::<Timestamp>().ok();
    let Some(start) = time("/status/startTime") else { return String::new() };
    time_since(start, time("/status/completionTime").unwrap_or(now))
}

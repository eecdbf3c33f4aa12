//! What a table shows of an object: of the kinds that people look at most what they look at first, and whether others are ready.

use informant::Key;
use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::Kind;

/// The columns of a kind: namespace, name, and what its objects are like.
pub struct Columns {
    has_namespaces: bool,
    columns: Vec<Column>,
}

struct Column {
    header: &'static str,
    cell: Cell,
}

enum Cell {
    Of(fn(&Value) -> String),
    /// How long ago the time was that stands there.
    Since(&'static str),
}

impl Columns {
    /// Of metadata alone there is less to show.
    pub fn new(kind: &Kind, is_of_metadata: bool, has_namespaces: bool) -> Self {
        let mut columns = if is_of_metadata { Vec::new() } else { of_kind(kind) };
        columns.push(since("AGE", "/metadata/creationTimestamp"));
        if is_of_metadata {
            columns.push(column("LABELS", labels));
        }
        Self { has_namespaces, columns }
    }

    pub fn headers(&self) -> impl Iterator<Item = String> {
        let namespace = self.has_namespaces.then_some("NAMESPACE");
        let headers = self.columns.iter().map(|column| column.header);
        namespace.into_iter().chain(["NAME"]).chain(headers).map(str::to_owned)
    }

    pub fn cells(&self, key: &Key, object: &Value, now: Timestamp) -> impl Iterator<Item = String> {
        let namespace = self.has_namespaces.then(|| key.namespace().unwrap_or_default().to_owned());
        let cells = self.columns.iter().map(move |column| {
            let cell = match column.cell {
                Cell::Of(cell) => cell(object),
                Cell::Since(pointer) => time_since(object, pointer, now),
            };
            // Whoever counts columns finds each of them.
            if cell.is_empty() { "<none>".to_owned() } else { cell }
        });
        namespace.into_iter().chain([key.name().to_owned()]).chain(cells)
    }
}

fn column(header: &'static str, cell: fn(&Value) -> String) -> Column {
    Column { header, cell: Cell::Of(cell) }
}

fn since(header: &'static str, pointer: &'static str) -> Column {
    Column { header, cell: Cell::Since(pointer) }
}

fn of_kind(kind: &Kind) -> Vec<Column> {
    match (&*kind.resource.group, &*kind.resource.kind) {
        ("", "Pod") => vec![
            column("READY", |pod| format!("{}/{}", ready_containers(pod), count(pod, "/spec/containers"))),
            column("STATUS", pod_status),
            column("RESTARTS", |pod| restarts(pod).to_string()),
            column("NODE", |pod| text(pod, "/spec/nodeName")),
        ],
        ("", "Node") => {
            vec![column("STATUS", node_status), column("VERSION", |node| text(node, "/status/nodeInfo/kubeletVersion"))]
        }
        ("", "Service") => vec![
            column("TYPE", |service| text(service, "/spec/type")),
            column("CLUSTER-IP", |service| text(service, "/spec/clusterIP")),
            column("PORTS", ports),
        ],
        ("", "ConfigMap") => vec![column("DATA", data)],
        ("", "Secret") => vec![column("TYPE", |secret| text(secret, "/type")), column("DATA", data)],
        ("", "Namespace" | "PersistentVolume" | "PersistentVolumeClaim") => {
            vec![column("STATUS", |object| text(object, "/status/phase"))]
        }
        ("" | "events.k8s.io", "Event") => vec![
            column("TYPE", |event| text(event, "/type")),
            column("REASON", |event| text(event, "/reason")),
            column("OBJECT", about),
            column("MESSAGE", |event| first_text(event, &["/message", "/note"])),
        ],
        ("apps", "Deployment" | "StatefulSet") => vec![
            column("READY", ready_replicas),
            column("UP-TO-DATE", |set| number(set, "/status/updatedReplicas").to_string()),
        ],
        ("apps", "ReplicaSet") | ("", "ReplicationController") => vec![column("READY", ready_replicas)],
        ("apps", "DaemonSet") => vec![column("READY", |set| {
            format!("{}/{}", number(set, "/status/numberReady"), number(set, "/status/desiredNumberScheduled"))
        })],
        ("batch", "Job") => vec![column("COMPLETIONS", |job| {
            format!("{}/{}", number(job, "/status/succeeded"), wanted(job, "/spec/completions"))
        })],
        ("batch", "CronJob") => vec![
            column("SCHEDULE", |job| text(job, "/spec/schedule")),
            column("ACTIVE", |job| count(job, "/status/active").to_string()),
            since("LAST", "/status/lastScheduleTime"),
        ],
        ("coordination.k8s.io", "Lease") => vec![column("HOLDER", |lease| text(lease, "/spec/holderIdentity"))],
        // Of those of Kubernetes itself, the others have no such condition.
        (group, _) if group.contains('.') && !group.ends_with(".k8s.io") => {
            vec![column("READY", |object| condition(object, "Ready").unwrap_or_default())]
        }
        (_, _) => vec![],
    }
}

fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn first_text(object: &Value, pointers: &[&str]) -> String {
    pointers.iter().map(|pointer| text(object, pointer)).find(|text| !text.is_empty()).unwrap_or_default()
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

/// A number that is one where nobody says otherwise.
fn wanted(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(1)
}

fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn count(object: &Value, pointer: &str) -> usize {
    list(object, pointer).len()
}

fn data(object: &Value) -> String {
    let members = |name: &str| object.get(name).and_then(Value::as_object).map_or(0, serde_json::Map::len);
    (members("data") + members("binaryData")).to_string()
}

fn labels(object: &Value) -> String {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    let pairs =
        labels.into_iter().flatten().map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()));
    pairs.collect::<Vec<_>>().join(",")
}

fn ready_containers(pod: &Value) -> usize {
    list(pod, "/status/containerStatuses").iter().filter(|status| status["ready"] == true).count()
}

fn ready_replicas(set: &Value) -> String {
    format!("{}/{}", number(set, "/status/readyReplicas"), wanted(set, "/spec/replicas"))
}

fn restarts(pod: &Value) -> i64 {
    list(pod, "/status/containerStatuses").iter().map(|status| number(status, "/restartCount")).sum()
}

/// The phase, or what keeps a container of it from running.
fn pod_status(pod: &Value) -> String {
    if pod.pointer("/metadata/deletionTimestamp").is_some() {
        return "Terminating".to_owned();
    }
    let is_done = |status: &Value| {
        number(status, "/state/terminated/exitCode") == 0 && status.pointer("/state/terminated").is_some()
    };
    let initial = list(pod, "/status/initContainerStatuses")
        .iter()
        .filter(|status| !is_done(status) && status["started"] != true);
    let stuck = |status: &Value| {
        Some(first_text(status, &["/state/waiting/reason", "/state/terminated/reason"]))
            .filter(|reason| !reason.is_empty())
    };
    if let Some(reason) = initial.filter_map(stuck).next() {
        return format!("Init:{reason}");
    }
    let containers = list(pod, "/status/containerStatuses");
    let some_run = containers.iter().any(|status| status.pointer("/state/running").is_some());
    // One that has done its work keeps none of the others from running.
    if let Some(reason) = containers.iter().filter(|status| !(some_run && is_done(status))).filter_map(stuck).next() {
        return reason;
    }
    first_text(pod, &["/status/reason", "/status/phase"])
}

fn node_status(node: &Value) -> String {
    let ready = match condition(node, "Ready").as_deref() {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let is_cordoned = node.pointer("/spec/unschedulable").and_then(Value::as_bool) == Some(true);
    format!("{ready}{}", if is_cordoned { ",SchedulingDisabled" } else { "" })
}

fn condition(object: &Value, name: &str) -> Option<String> {
    let conditions = list(object, "/status/conditions");
    conditions.iter().find(|condition| condition["type"] == name).map(|condition| text(condition, "/status"))
}

fn ports(service: &Value) -> String {
    let port = |port: &Value| format!("{}/{}", number(port, "/port"), first_text(port, &["/protocol"]));
    list(service, "/spec/ports").iter().map(port).collect::<Vec<_>>().join(",")
}

/// What an event is about: `pod/web`.
fn about(event: &Value) -> String {
    let object = event.get("involvedObject").or_else(|| event.get("regarding")).unwrap_or(&Value::Null);
    format!("{}/{}", text(object, "/kind").to_lowercase(), text(object, "/name"))
}

fn time_since(object: &Value, pointer: &str, now: Timestamp) -> String {
    let then = text(object, pointer).parse::<Timestamp>();
    then.map_or_else(|_| String::new(), |then| age(now.duration_since(then).as_secs()))
}

/// A time as `kubectl` says it: the longer it is, the coarser.
fn age(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let two = |large: i64, unit: &str, small: i64, rest: &str| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{rest}"),
    };
    match (seconds, minutes, hours, days) {
        (..120, ..) => format!("{seconds}s"),
        (_, ..10, ..) => two(minutes, "m", seconds % 60, "s"),
        (_, ..180, ..) => format!("{minutes}m"),
        (_, _, ..8, _) => two(hours, "h", minutes % 60, "m"),
        (_, _, ..48, _) => format!("{hours}h"),
        (_, _, _, ..8) => two(days, "d", hours % 24, "h"),
        (_, _, _, ..730) => format!("{days}d"),
        (_, _, _, ..2920) => two(days / 365, "y", days % 365, "d"),
        (_, _, _, _) => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_age_is_said_as_kubectl_does() {
        let said = [
            0,
            119,
            120,
            125,
            599,
            600,
            10_799,
            10_800,
            11_000,
            28_800,
            172_799,
            172_800,
            180_000,
            691_200,
            63_072_000,
            64_000_000,
            252_288_001,
        ];
        assert_eq!(
            said.map(age),
            [
                "0s", "119s", "2m", "2m5s", "9m59s", "10m", "179m", "3h", "3h3m", "8h", "47h", "2d", "2d2h", "8d",
                "2y", "2y10d", "8y"
            ]
        );
        assert_eq!(age(-5), "0s", "clocks differ");
    }

    #[test]
    fn the_status_of_a_pod_says_what_keeps_it() {
        let waiting = |reason: &str| json!({"state": {"waiting": {"reason": reason}}});
        for (pod, status) in [
            (json!({"status": {"phase": "Pending"}}), "Pending"),
            (json!({"status": {"phase": "Failed", "reason": "Evicted"}}), "Evicted"),
            (
                json!({"status": {"phase": "Running", "containerStatuses": [waiting("CrashLoopBackOff")]}}),
                "CrashLoopBackOff",
            ),
            (
                json!({"status": {"phase": "Pending", "initContainerStatuses": [waiting("ErrImagePull")], "containerStatuses": [waiting("PodInitializing")]}}),
                "Init:ErrImagePull",
            ),
            (
                json!({"status": {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": {"reason": "Completed"}}}]}}),
                "Completed",
            ),
            (
                json!({"status": {"phase": "Running", "containerStatuses": [
                    {"state": {"terminated": {"reason": "Completed", "exitCode": 0}}}, {"state": {"running": {}}},
                ]}}),
                "Running",
            ),
            (
                json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": "Running"}}),
                "Terminating",
            ),
        ] {
            assert_eq!(pod_status(&pod), status, "{pod}");
        }
    }

    #[test]
    fn a_row_has_a_cell_for_each_header_also_of_an_object_without_content() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let object = json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}});
        for kind in crate::kinds::built_in_kinds() {
            for (is_of_metadata, has_namespaces) in [(false, true), (true, false)] {
                let columns = Columns::new(&kind, is_of_metadata, has_namespaces);
                let headers: Vec<_> = columns.headers().collect();
                let cells: Vec<_> = columns.cells(&Key::namespaced("shop", "web"), &object, now).collect();
                assert_eq!(headers.len(), cells.len(), "{headers:?}");
                let cell = |header: &str| &cells[headers.iter().position(|other| other == header).unwrap()];
                assert_eq!((cell("NAME").as_str(), cell("AGE").as_str()), ("web", "60s"));
                assert_eq!(headers.contains(&"NAMESPACE".to_owned()), has_namespaces);
            }
        }
    }
}

//! The columns that `kubectl get` prints for the objects of a kind.
//!
//! - **In:** a kind; objects as JSON, and the time.
//! - **Out:** the names and cells of the columns.
//! - **Knows nothing of:** HTTP and the JSON of tables.
//!
//! ```
//! use informant_apiserver::columns;
//!
//! let pods = columns::of("", "Pod");
//! let names: Vec<_> = pods.iter().filter(|column| !column.is_wide()).map(|column| column.name()).collect();
//! assert_eq!(names, ["Name", "Ready", "Status", "Restarts", "Age"]);
//!
//! let pod = serde_json::json!({"metadata": {"name": "web"}, "status": {"phase": "Running"}});
//! assert_eq!(pods[2].cell(&pod, jiff::Timestamp::now()), "Running");
//! ```
//!
//! Frequently used kinds have the columns of Kubernetes 1.37, the others name and age. Custom resources have the columns of their
//! definition ([`of_definition`]).

mod ages;
mod definition;
mod events;
mod nodes;
mod path;
mod pods;
mod workloads;

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::Value;

pub use self::definition::{PrinterColumn, of_definition};
use self::{ages::age_of, path::Path};

/// A column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    name: Cow<'static, str>,
    /// The OpenAPI type of the cells.
    content: Cow<'static, str>,
    format: Cow<'static, str>,
    description: Cow<'static, str>,
    priority: i32,
    cell: Cell,
}

#[derive(Clone, Debug)]
enum Cell {
    Of(fn(&Value) -> Value),
    At(fn(&Value, Timestamp) -> Value),
    /// The value at this path; `None` if the path is not supported.
    Found(Option<Path>),
}

impl Column {
    /// Returns the name, such as `Last Schedule`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns true if only `kubectl get -o wide` shows the column.
    pub fn is_wide(&self) -> bool {
        self.priority != 0
    }

    /// Returns the cell of an object: a string, a number or a boolean. For a missing value, the cell is what kube-apiserver sends: a
    /// placeholder such as `<none>`, an empty string or null.
    pub fn cell(&self, object: &Value, now: Timestamp) -> Value {
        match &self.cell {
            Cell::Of(cell) => cell(object),
            Cell::At(cell) => cell(object, now),
            Cell::Found(path) => {
                let found = path.as_ref().and_then(|path| path.find(object));
                found.map_or(Value::Null, |value| definition::shown(&self.content, value, now))
            }
        }
    }

    /// The OpenAPI type of the cells.
    pub(crate) fn content(&self) -> &str {
        &self.content
    }

    pub(crate) fn format(&self) -> &str {
        &self.format
    }

    pub(crate) fn description(&self) -> &str {
        &self.description
    }

    pub(crate) fn priority(&self) -> i32 {
        self.priority
    }

    const fn new(name: &'static str, content: &'static str, format: &'static str, cell: Cell) -> Self {
        let (name, content, format) = (Cow::Borrowed(name), Cow::Borrowed(content), Cow::Borrowed(format));
        Self { name, content, format, description: Cow::Borrowed(""), priority: 0, cell }
    }

    const fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }
}

/// Returns the columns for objects with only metadata: name and age.
pub fn of_metadata() -> Vec<Column> {
    vec![NAME, AGE]
}

/// Returns the columns of a built-in kind; name and age if the kind is not known. The core group is `""`.
pub fn of(group: &str, kind: &str) -> Vec<Column> {
    let own = match (group, kind) {
        ("", "Pod") => pods::columns(),
        ("", "Node") => nodes::columns(),
        ("apps", "Deployment") => workloads::deployment(),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => workloads::replica_set(),
        ("apps", "StatefulSet") => workloads::stateful_set(),
        ("apps", "DaemonSet") => workloads::daemon_set(),
        ("batch", "Job") => workloads::job(),
        ("batch", "CronJob") => workloads::cron_job(),
        ("", "Service") => vec![
            text("Type", |service| str(service, "/spec/type").into()),
            text("Cluster-IP", |service| field(service, "/spec/clusterIP")),
            text("External-IP", external_ip),
            text("Port(s)", ports),
            AGE,
            text("Selector", |service| pairs(service.pointer("/spec/selector"))).wide(),
        ],
        ("", "ConfigMap") => vec![text("Data", |map| (len(map, "/data") + len(map, "/binaryData")).into()), AGE],
        ("", "Secret") => {
            vec![
                text("Type", |secret| str(secret, "/type").into()),
                text("Data", |secret| len(secret, "/data").into()),
                AGE,
            ]
        }
        ("", "Namespace") => vec![text("Status", |namespace| str(namespace, "/status/phase").into()), AGE],
        ("", "PersistentVolumeClaim") => vec![
            text("Status", |claim| phase(claim).into()),
            text("Volume", |claim| str(claim, "/spec/volumeName").into()),
            text("Capacity", |claim| bound(claim, str(claim, "/status/capacity/storage").into())),
            text("Access Modes", |claim| bound(claim, access_modes(claim, "/status/accessModes"))),
            text("StorageClass", |claim| str(claim, "/spec/storageClassName").into()),
            text("VolumeAttributesClass", |claim| or(str(claim, "/spec/volumeAttributesClassName"), "<unset>")),
            AGE,
            text("VolumeMode", |claim| or(str(claim, "/spec/volumeMode"), "<unset>")).wide(),
        ],
        ("", "Event") | ("events.k8s.io", "Event") => return events::columns(),
        ("coordination.k8s.io", "Lease") => {
            vec![text("Holder", |lease| str(lease, "/spec/holderIdentity").into()), AGE]
        }
        ("networking.k8s.io", "Ingress") => vec![
            text("Class", |ingress| field(ingress, "/spec/ingressClassName")),
            text("Hosts", hosts),
            text("Address", |ingress| addresses(ingress).into()),
            text("Ports", |ingress| if list(ingress, "/spec/tls").is_empty() { "80".into() } else { "80, 443".into() }),
            AGE,
        ],
        ("policy", "PodDisruptionBudget") => vec![
            text("Min Available", |budget| number_or_text(budget, "/spec/minAvailable")),
            text("Max Unavailable", |budget| number_or_text(budget, "/spec/maxUnavailable")),
            numeric("Allowed Disruptions", |budget| number(budget, "/status/disruptionsAllowed").into()),
            AGE,
        ],
        ("scheduling.k8s.io", "PriorityClass") => vec![
            numeric("Value", |class| number(class, "/value").into()),
            truth("Global-Default", |class| is_true(class, "/globalDefault").into()),
            AGE,
            text("PreemptionPolicy", |class| str(class, "/preemptionPolicy").into()),
        ],
        (_, _) => return of_metadata(),
    };
    [NAME].into_iter().chain(own).collect()
}

/// The cell for a missing value.
const NONE: &str = "<none>";
const UNKNOWN: &str = "<unknown>";

const NAME: Column = Column::new("Name", "string", "name", Cell::Of(|object| str(object, "/metadata/name").into()));
const AGE: Column = since("Age", |object, now| age_of(str(object, "/metadata/creationTimestamp"), now));

const fn text(name: &'static str, cell: fn(&Value) -> Value) -> Column {
    Column::new(name, "string", "", Cell::Of(cell))
}

const fn since(name: &'static str, cell: fn(&Value, Timestamp) -> Value) -> Column {
    Column::new(name, "string", "", Cell::At(cell))
}

const fn numeric(name: &'static str, cell: fn(&Value) -> Value) -> Column {
    Column::new(name, "integer", "", Cell::Of(cell))
}

const fn truth(name: &'static str, cell: fn(&Value) -> Value) -> Column {
    Column::new(name, "boolean", "", Cell::Of(cell))
}

fn str<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn or(text: &str, otherwise: &str) -> Value {
    if text.is_empty() { otherwise.into() } else { text.into() }
}

/// The string at this path, or `<none>`.
fn field(object: &Value, pointer: &str) -> Value {
    or(str(object, pointer), NONE)
}

/// Returns true if the value at this path exists and is not null.
fn has(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer).is_some_and(|value| !value.is_null())
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

fn is_true(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer).and_then(Value::as_bool).unwrap_or_default()
}

/// A number such as `3` or a string such as `30%`; otherwise `N/A`.
fn number_or_text(object: &Value, pointer: &str) -> Value {
    match object.pointer(pointer) {
        Some(Value::String(text)) => text.as_str().into(),
        Some(number @ Value::Number(_)) => number.to_string().into(),
        Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => "N/A".into(),
    }
}

fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The number of fields of a map.
fn len(object: &Value, pointer: &str) -> usize {
    object.pointer(pointer).and_then(Value::as_object).map_or(0, serde_json::Map::len)
}

fn joined(texts: impl Iterator<Item = impl Into<String>>) -> String {
    texts.map(Into::into).collect::<Vec<_>>().join(",")
}

/// The entries of a map: `a=1,b=2`.
fn pairs(map: Option<&Value>) -> Value {
    let pairs = map.and_then(Value::as_object).into_iter().flatten();
    or(&joined(pairs.map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()))), NONE)
}

/// The phase; `Terminating` for an object that is being deleted.
fn phase(object: &Value) -> &str {
    if has(object, "/metadata/deletionTimestamp") { "Terminating" } else { str(object, "/status/phase") }
}

/// The cell of a claim with a volume; empty without a volume.
fn bound(claim: &Value, cell: Value) -> Value {
    if str(claim, "/spec/volumeName").is_empty() { "".into() } else { cell }
}

fn access_modes(object: &Value, pointer: &str) -> Value {
    const MODES: [(&str, &str); 4] =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let modes = list(object, pointer);
    joined(MODES.iter().filter(|(mode, _)| modes.iter().any(|one| one == mode)).map(|(_, short)| *short)).into()
}

fn external_ip(service: &Value) -> Value {
    let named = joined(list(service, "/spec/externalIPs").iter().filter_map(Value::as_str));
    match str(service, "/spec/type") {
        "ExternalName" => field(service, "/spec/externalName"),
        "LoadBalancer" => {
            let both = [addresses(service), named];
            or(&joined(both.into_iter().filter(|addresses| !addresses.is_empty())), "<pending>")
        }
        "ClusterIP" | "NodePort" => or(&named, NONE),
        _ => UNKNOWN.into(),
    }
}

/// The addresses of a load balancer.
fn addresses(object: &Value) -> String {
    let address = |ingress: &Value| match str(ingress, "/ip") {
        "" => str(ingress, "/hostname").to_owned(),
        ip => ip.to_owned(),
    };
    joined(list(object, "/status/loadBalancer/ingress").iter().map(address))
}

/// The ports of a service: `80/TCP,443:30443/TCP`.
fn ports(service: &Value) -> Value {
    let port = |port: &Value| {
        let on_nodes = Some(number(port, "/nodePort")).filter(|port| *port != 0);
        let on_nodes = on_nodes.map(|port| format!(":{port}")).unwrap_or_default();
        format!("{}{on_nodes}/{}", number(port, "/port"), str(port, "/protocol"))
    };
    or(&joined(list(service, "/spec/ports").iter().map(port)), NONE)
}

fn hosts(ingress: &Value) -> Value {
    const SHOWN: usize = 3;
    let rules = list(ingress, "/spec/rules");
    let hosts: Vec<_> =
        rules.iter().map(|rule| str(rule, "/host")).filter(|host| !host.is_empty()).take(SHOWN).collect();
    match rules.len().saturating_sub(SHOWN) {
        more @ 1.. if hosts.len() == SHOWN => format!("{} + {more} more...", hosts.join(",")).into(),
        _ => or(&hosts.join(","), "*"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::registry::Registry;

    #[test]
    fn every_kind_has_a_name_and_a_cell_in_each_column_also_of_an_object_without_content() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let object = json!({"metadata": {"name": "web", "creationTimestamp": "2026-01-01T00:00:00Z"}});
        for kind in Registry::builtin_kinds() {
            let columns = of(&kind.group, &kind.kind);
            let cell =
                |name: &str| columns.iter().find(|column| column.name == name).map(|found| found.cell(&object, now));
            assert_eq!(cell("Name"), Some("web".into()), "{kind:?}");
            assert!(cell("Age").is_none_or(|age| age == "60s"), "{kind:?}");
            for column in &columns {
                let cell = column.cell(&object, now);
                let suits = match column.content() {
                    "integer" => cell.is_number(),
                    "boolean" => cell.is_boolean() || cell == "False",
                    _ => cell.is_string() || cell.is_number(),
                };
                assert!(suits, "{kind:?} {column:?} {cell}");
            }
        }
    }
    #[test]
    fn an_empty_object_has_the_placeholders_of_kubernetes() {
        let shown = |group: &str, kind: &str| {
            let cells = of(group, kind).into_iter().skip(1).filter(|column| column.name() != "Age");
            let cell = |column: Column| {
                let cell = column.cell(&json!({}), Timestamp::UNIX_EPOCH);
                cell.as_str().map_or_else(|| cell.to_string(), str::to_owned)
            };
            cells.map(cell).collect::<Vec<_>>()
        };

        let of_system = ["<unknown>"; 3];
        assert_eq!(shown("", "Node"), [&["Unknown", "<none>", "", "<none>", "<none>"][..], &of_system].concat());
        assert_eq!(shown("", "Pod"), ["0/0", "", "0", "<none>", "<none>", "<none>", "<none>"]);
        assert_eq!(shown("", "Service"), ["", "<none>", "<unknown>", "<none>", "<none>"]);
        assert_eq!(shown("", "Namespace"), [""]);
        assert_eq!(shown("", "Secret"), ["", "0"]);
        assert_eq!(shown("", "PersistentVolumeClaim"), ["", "", "", "", "", "<unset>", "<unset>"]);
        assert_eq!(shown("coordination.k8s.io", "Lease"), [""]);
        assert_eq!(shown("networking.k8s.io", "Ingress"), ["<none>", "*", "", "80"]);
        assert_eq!(shown("policy", "PodDisruptionBudget"), ["N/A", "N/A", "0"]);
    }
}

//! Type checks of frequently used fields, so that a request with a string in place of a number fails.
//!
//! - **In:** a built-in kind, and an object of it as JSON.
//! - **Out:** a message that names the first field of a wrong type; the object with empty strings in place of nulls in maps of strings.
//!
//! The server has no schemas: only the fields listed here are checked.

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::registry::kind::{Kind, Origin};

/// Each line is a kind, followed by its fields as `path:type`; indented lines continue the line above. `[]` means each item of a
/// list. [`Type::read`] has the types; `pod` is the spec of a pod.
const FIELDS: &str = "
ConfigMap           data:texts binaryData:base64 immutable:bool
CronJob             spec.schedule:text spec.suspend:bool spec.jobTemplate:map spec.jobTemplate.spec.template.spec:pod
DaemonSet           spec.selector:map spec.template.spec:pod spec.minReadySeconds:int
Deployment          spec.replicas:int spec.selector:map spec.template.spec:pod spec.paused:bool spec.minReadySeconds:int
                    spec.revisionHistoryLimit:int spec.progressDeadlineSeconds:int spec.strategy:map
EndpointSlice       addressType:text endpoints:maps ports:maps
Endpoints           subsets:maps
Event               reason:text type:text message:text note:text count:int deprecatedCount:int involvedObject:map regarding:map
                    reportingComponent:text reportingController:text reportingInstance:text source:map series:map action:text eventTime:time firstTimestamp:time lastTimestamp:time
                    deprecatedFirstTimestamp:time deprecatedLastTimestamp:time
HorizontalPodAutoscaler spec.minReplicas:int spec.maxReplicas:int spec.scaleTargetRef:map spec.metrics:maps
Ingress             spec.rules:maps spec.tls:maps spec.ingressClassName:text
Job                 spec.parallelism:int spec.completions:int spec.backoffLimit:int spec.suspend:bool spec.template.spec:pod
Lease               spec.holderIdentity:text spec.leaseDurationSeconds:int spec.leaseTransitions:int spec.acquireTime:time
                    spec.renewTime:time
Namespace           spec.finalizers:list status.phase:text
Node                spec.unschedulable:bool spec.taints:maps spec.providerID:text spec.podCIDR:text status.conditions:maps
                    status.addresses:maps status.capacity:map status.allocatable:map
PersistentVolume    spec.accessModes:list spec.capacity:map spec.claimRef:map spec.storageClassName:text
PersistentVolumeClaim spec.accessModes:list spec.resources:map spec.storageClassName:text spec.volumeName:text
Pod                 spec:pod status.phase:text status.podIP:text status.conditions:maps status.containerStatuses:maps
PodDisruptionBudget spec.selector:map status.disruptionsAllowed:int
PodTemplate         template.spec:pod
ReplicaSet          spec.replicas:int spec.selector:map spec.template.spec:pod spec.minReadySeconds:int
ReplicationController spec.replicas:int spec.selector:texts spec.template.spec:pod
Binding             target:map
Eviction            deleteOptions:map
Secret              data:base64 stringData:texts type:text immutable:bool
Service             spec.ports:maps spec.ports[].name:text spec.ports[].port:int spec.ports[].nodePort:int
                    spec.ports[].protocol:text spec.selector:texts spec.clusterIP:text spec.type:text spec.externalName:text
ServiceAccount      secrets:maps imagePullSecrets:maps automountServiceAccountToken:bool
SubjectAccessReview spec.user:text spec.groups:list spec.resourceAttributes:map spec.nonResourceAttributes:map
LocalSubjectAccessReview spec.user:text spec.groups:list spec.resourceAttributes:map
SelfSubjectAccessReview spec.resourceAttributes:map spec.nonResourceAttributes:map
TokenRequest        spec.audiences:list spec.expirationSeconds:long spec.boundObjectRef:map
TokenReview         spec.token:text spec.audiences:list
StatefulSet         spec.replicas:int spec.selector:map spec.template.spec:pod spec.serviceName:text
";

/// The fields of a pod's spec.
const POD: &str = "
nodeName:text serviceAccountName:text restartPolicy:text schedulerName:text hostname:text priorityClassName:text priority:int
hostNetwork:bool hostPID:bool hostIPC:bool terminationGracePeriodSeconds:long activeDeadlineSeconds:long nodeSelector:texts
volumes:maps tolerations:maps imagePullSecrets:maps affinity:map securityContext:map volumes[].name:text
containers:container initContainers:container ephemeralContainers:container
";

/// The fields of a container.
const CONTAINER: &str = "
name:text image:text imagePullPolicy:text workingDir:text command:list args:list env:maps env[].name:text env[].value:text
envFrom:maps ports:maps ports[].name:text ports[].containerPort:int ports[].hostPort:int ports[].protocol:text resources:map
resources.limits:map resources.requests:map volumeMounts:maps volumeMounts[].name:text volumeMounts[].mountPath:text
volumeMounts[].readOnly:bool livenessProbe:map readinessProbe:map startupProbe:map securityContext:map
";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    String,
    /// A time in the format of RFC 3339.
    Time,
    /// An integer of 32 bits.
    Int,
    /// An integer of 64 bits.
    Long,
    Bool,
    Object,
    /// A map of strings.
    StringMap,
    /// A map of base64 strings.
    Base64Map,
    /// A list of strings.
    StringList,
    /// A list of maps.
    ObjectList,
    /// A map with the fields of a pod's spec.
    PodSpec,
    /// A list of maps with the fields of a container.
    Containers,
}

impl Type {
    fn read(name: &str) -> Self {
        match name {
            "time" => Self::Time,
            "int" => Self::Int,
            "long" => Self::Long,
            "bool" => Self::Bool,
            "map" => Self::Object,
            "texts" => Self::StringMap,
            "base64" => Self::Base64Map,
            "list" => Self::StringList,
            "maps" => Self::ObjectList,
            "pod" => Self::PodSpec,
            "container" => Self::Containers,
            _ => Self::String,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::String => "a string",
            Self::Time => "a time such as \"2026-01-02T03:04:05Z\"",
            Self::Int => "an integer of 32 bits",
            Self::Long => "an integer",
            Self::Bool => "a boolean",
            Self::Object | Self::PodSpec => "an object",
            Self::StringMap => "an object whose values are strings",
            Self::Base64Map => "an object whose values are base64 strings",
            Self::StringList => "a list of strings",
            Self::ObjectList | Self::Containers => "a list of objects",
        }
    }

    fn has(self, value: &Value) -> bool {
        let all = |value: &Value, is: fn(&Value) -> bool| value.as_array().is_some_and(|list| list.iter().all(is));
        let texts = |value: &Value, is: fn(&str) -> bool| {
            let is = |text: &Value| text.is_null() || text.as_str().is_some_and(is);
            value.as_object().is_some_and(|map| map.values().all(is))
        };
        match self {
            Self::String => value.is_string(),
            Self::Time => value.as_str().is_some_and(|text| text.parse::<Timestamp>().is_ok()),
            Self::Int => value.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
            Self::Long => value.is_i64(),
            Self::Bool => value.is_boolean(),
            Self::Object | Self::PodSpec => value.is_object(),
            Self::StringMap => texts(value, |_| true),
            Self::Base64Map => texts(value, is_base64),
            Self::StringList => all(value, Value::is_string),
            Self::ObjectList | Self::Containers => all(value, Value::is_object),
        }
    }
}

fn is_base64(text: &str) -> bool {
    STANDARD.decode(text.replace(['\n', '\r'], "")).is_ok()
}

/// Returns an error that names the first field of a built-in kind with a value of the wrong type.
pub(crate) fn check(kind: &Kind, object: &Value) -> Result<(), String> {
    if kind.origin != Origin::BuiltIn {
        return Ok(());
    }
    let mut fields = ["spec:map", "status:map"].into_iter().chain(fields_of(&kind.kind));
    match fields.find_map(|field| find_wrong_type(object, "", field)) {
        Some((path, expected)) => Err(format!(
            "{} in version {:?} cannot be handled as a {}: {path} must be {expected}",
            kind.kind, kind.version, kind.kind
        )),
        None => Ok(()),
    }
}

/// Replaces each null in a map of strings by an empty string, as decoding into Go types does.
pub(crate) fn fill_in_nulls(kind: &Kind, object: &mut Value) {
    if kind.origin != Origin::BuiltIn {
        return;
    }
    let maps = fields_of(&kind.kind).filter_map(|field| field.strip_suffix(":texts"));
    for path in maps {
        let map = object.pointer_mut(&format!("/{}", path.replace('.', "/"))).and_then(Value::as_object_mut);
        for value in map.into_iter().flat_map(Map::values_mut).filter(|value| value.is_null()) {
            *value = Value::String(String::new());
        }
    }
}

/// The fields of a kind in the table.
fn fields_of(kind: &str) -> impl Iterator<Item = &'static str> {
    let mut lines = FIELDS.lines().skip_while(move |line| line.split_whitespace().next() != Some(kind));
    let first = lines.next().unwrap_or_default().split_whitespace().skip(1);
    let others = lines.take_while(|line| line.starts_with(' ')).flat_map(str::split_whitespace);
    first.chain(others)
}

/// The path of the first value below `value` that does not have the type in `field`, and that type.
fn find_wrong_type(value: &Value, path: &str, field: &'static str) -> Option<(String, &'static str)> {
    let (names, expected) = field.split_once(':')?;
    let expected = Type::read(expected);
    let mut found = vec![(path.to_owned(), value)];
    for name in names.split('.') {
        let (name, is_each) = name.strip_suffix("[]").map_or((name, false), |name| (name, true));
        found = found.into_iter().flat_map(|(path, value)| values_at(&path, value, name, is_each)).collect();
    }
    let is_wrong = |value: &Value| !value.is_null() && !expected.has(value);
    if let Some((path, _)) = found.iter().find(|(_, value)| is_wrong(value)) {
        return Some((path.clone(), expected.name()));
    }
    let inside = match expected {
        Type::PodSpec => POD,
        Type::Containers => {
            let items = found.into_iter().flat_map(|(path, value)| items(&path, value)).collect::<Vec<_>>();
            return items.into_iter().find_map(|(path, item)| find_wrong_type_in(item, &path, CONTAINER));
        }
        Type::String
        | Type::Time
        | Type::Int
        | Type::Long
        | Type::Bool
        | Type::Object
        | Type::StringMap
        | Type::Base64Map
        | Type::StringList
        | Type::ObjectList => {
            return None;
        }
    };
    found.into_iter().find_map(|(path, value)| find_wrong_type_in(value, &path, inside))
}

fn find_wrong_type_in(value: &Value, path: &str, fields: &'static str) -> Option<(String, &'static str)> {
    fields.split_whitespace().find_map(|field| find_wrong_type(value, path, field))
}

/// The value of the field `name`, or each of its items; empty if the field is absent.
fn values_at<'a>(path: &str, value: &'a Value, name: &str, is_each: bool) -> Vec<(String, &'a Value)> {
    let path = join(path, name);
    match (value.get(name), is_each) {
        (Some(value), false) => vec![(path, value)],
        (Some(value), true) => items(&path, value),
        (None, _) => Vec::new(),
    }
}

fn items<'a>(path: &str, value: &'a Value) -> Vec<(String, &'a Value)> {
    let items = value.as_array().into_iter().flatten().enumerate();
    items.map(|(position, item)| (format!("{path}[{position}]"), item)).collect()
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::registry::Registry;

    fn problem(kind: &str, object: &Value) -> Option<String> {
        let kind = Registry::builtin_kinds().find(|built_in| built_in.kind == kind).unwrap();
        check(&kind, object).err().map(|problem| problem.split_once(": ").unwrap().1.to_owned())
    }

    #[test]
    fn a_value_of_the_wrong_type_is_found_wherever_it_stands() {
        let container =
            |container: Value| json!({"spec": {"template": {"spec": {"containers": [{"name": "a"}, container]}}}});
        let place = "spec.template.spec.containers[1]";
        let deployment = |fields: &Value| problem("Deployment", fields);

        assert_eq!(deployment(&container(json!({"name": "b", "image": "b", "args": ["x"]}))), None);
        assert_eq!(deployment(&container(json!({"image": 7}))).unwrap(), format!("{place}.image must be a string"));
        let port = json!({"ports": [{"containerPort": "80"}]});
        assert_eq!(
            deployment(&container(port)).unwrap(),
            format!("{place}.ports[0].containerPort must be an integer of 32 bits")
        );
        assert_eq!(
            deployment(&json!({"spec": {"replicas": "3"}})).unwrap(),
            "spec.replicas must be an integer of 32 bits"
        );
        assert_eq!(deployment(&json!({"spec": {"replicas": null}})), None);
        assert_eq!(deployment(&json!({"spec": []})).unwrap(), "spec must be an object");
        assert_eq!(
            problem("Pod", &json!({"spec": {"containers": {}}})).unwrap(),
            "spec.containers must be a list of objects"
        );
        let data = json!({"data": {"a": 1}});
        assert_eq!(problem("ConfigMap", &data).unwrap(), "data must be an object whose values are strings");
        assert!(problem("Secret", &json!({"data": {"a": "no base64!"}})).unwrap().starts_with("data must be"));
        assert_eq!(problem("Secret", &json!({"data": {"a": "YQ=="}, "stringData": {"b": "c"}})), None);
    }

    #[test]
    fn every_kind_and_type_of_the_table_exists() {
        for line in FIELDS.lines().filter(|line| !line.starts_with(' ') && !line.is_empty()) {
            let kind = line.split_whitespace().next().unwrap();
            let is_built_in = Registry::builtin_kinds().any(|built_in| built_in.kind == kind);
            assert!(is_built_in || ["Binding", "Eviction", "TokenRequest"].contains(&kind), "{kind}");
        }
        for field in [FIELDS, POD, CONTAINER].concat().split_whitespace().filter_map(|field| field.split_once(':')) {
            assert!(Type::read(field.1) != Type::String || field.1 == "text", "{field:?}");
        }
    }
}

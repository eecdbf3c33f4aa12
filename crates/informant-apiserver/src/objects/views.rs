//! Kinds that show the same objects: an object written as one kind can be read as the other.
//!
//! - **In:** an object of one kind.
//! - **Out:** the same object as the other kind.
//! - **Knows nothing of:** collections, versions.
//!
//! | kind | other kind | what differs |
//! | --- | --- | --- |
//! | `v1` Event | `events.k8s.io/v1` Event | the names of fields |
//! | `autoscaling/v2` HorizontalPodAutoscaler | `autoscaling/v1` | `v1` has one metric, the CPU utilization; `v2` has a list |
//!
//! In `autoscaling/v1`, annotations hold the values that have no field there, as JSON of `v2`.

use serde_json::{Map, Value, json};

use crate::{
    objects::Object,
    registry::kind::{Kind, Origin},
};

/// A second kind that shows the objects of a kind, and the conversion to it.
#[derive(Clone, Copy)]
pub(crate) struct OtherKind {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) plural: &'static str,
    conversion: fn(Object) -> Object,
}

impl OtherKind {
    /// Converts an object to the other kind.
    pub(crate) fn convert(&self, object: &Object) -> Object {
        (self.conversion)(object.clone())
    }
}

/// The other kind that shows the same objects, if there is one.
pub(crate) fn other_kind_of(kind: &Kind) -> Option<OtherKind> {
    if kind.origin != Origin::BuiltIn {
        return None;
    }
    let view = |group, version, plural, conversion| Some(OtherKind { group, version, plural, conversion });
    match (&*kind.group, &*kind.version, &*kind.plural) {
        ("", "v1", "events") => view("events.k8s.io", "v1", "events", |event| rename(event, EVENT_FIELDS)),
        ("events.k8s.io", "v1", "events") => {
            view("", "v1", "events", |event| rename(event, EVENT_FIELDS.map(|(core, other)| (other, core))))
        }
        ("autoscaling", "v2", "horizontalpodautoscalers") => {
            view("autoscaling", "v1", "horizontalpodautoscalers", autoscaler_v1)
        }
        ("autoscaling", "v1", "horizontalpodautoscalers") => {
            view("autoscaling", "v2", "horizontalpodautoscalers", autoscaler_v2)
        }
        _ => None,
    }
}

/// The fields of events that have another name in `events.k8s.io`.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

fn rename<const N: usize>(mut object: Object, names: [(&str, &str); N]) -> Object {
    for (from, to) in names {
        if let Some(value) = object.rest.remove(from) {
            object.rest.insert(to.to_owned(), value);
        }
    }
    object
}

/// Fields of `v2` that `autoscaling/v1` holds in annotations: parent, field, annotation.
const ANNOTATED_FIELDS: [(&str, &str, &str); 4] = [
    ("spec", "metrics", "autoscaling.alpha.kubernetes.io/metrics"),
    ("spec", "behavior", "autoscaling.alpha.kubernetes.io/behavior"),
    ("status", "currentMetrics", "autoscaling.alpha.kubernetes.io/current-metrics"),
    ("status", "conditions", "autoscaling.alpha.kubernetes.io/conditions"),
];

/// The metric that `autoscaling/v1` has a field for: parent, list in `v2`, field in `v1`, name of the target in `v2`.
const CPU_METRICS: [(&str, &str, &str, &str); 2] = [
    ("spec", "metrics", "targetCPUUtilizationPercentage", "target"),
    ("status", "currentMetrics", "currentCPUUtilizationPercentage", "current"),
];

fn autoscaler_v1(mut object: Object) -> Object {
    let mut annotations = annotations(&object);
    for (field, list, percentage, target) in CPU_METRICS {
        let mut part = object.field(field);
        let Some(metrics) = part[list].as_array().cloned() else { continue };
        let is_cpu = |metric: &Value| metric["resource"]["name"] == "cpu" && metric["type"] == "Resource";
        let (cpu, others): (Vec<_>, Vec<_>) = metrics.into_iter().partition(is_cpu);
        if let Some(load) = cpu.first().map(|metric| &metric["resource"][target]["averageUtilization"]) {
            part[percentage] = load.clone();
        }
        part[list] = others.into();
        object.set_field(field, &part);
    }
    for (field, name, annotation) in ANNOTATED_FIELDS {
        let mut part = object.field(field);
        let Some(value) = part.as_object_mut().and_then(|part| part.remove(name)) else { continue };
        object.set_field(field, &part);
        if value.as_array().is_none_or(|list| !list.is_empty()) {
            annotations.insert(annotation.to_owned(), value.to_string().into());
        }
    }
    set_annotations(&mut object, annotations);
    object
}

fn autoscaler_v2(mut object: Object) -> Object {
    let mut annotations = annotations(&object);
    for (field, name, annotation) in ANNOTATED_FIELDS {
        let kept = annotations.remove(annotation).and_then(|text| serde_json::from_str::<Value>(text.as_str()?).ok());
        if let Some(kept) = kept {
            let mut part = object.field(field);
            part[name] = kept;
            object.set_field(field, &part);
        }
    }
    for (field, list, percentage, target) in CPU_METRICS {
        let mut part = object.field(field);
        let Some(load) = part.as_object_mut().and_then(|part| part.remove(percentage)) else { continue };
        let value = match target {
            "target" => json!({"type": "Utilization", "averageUtilization": load}),
            _ => json!({"averageUtilization": load}),
        };
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", target: value}});
        let others = part[list].as_array().cloned().unwrap_or_default();
        part[list] = others.into_iter().chain([cpu]).collect();
        object.set_field(field, &part);
    }
    set_annotations(&mut object, annotations);
    object
}

fn annotations(object: &Object) -> Map<String, Value> {
    object.metadata.get("annotations").and_then(Value::as_object).cloned().unwrap_or_default()
}

fn set_annotations(object: &mut Object, annotations: Map<String, Value>) {
    match annotations.is_empty() {
        true => drop(object.metadata.remove("annotations")),
        false => object.set("annotations", annotations),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    #[test]
    fn an_autoscaler_is_the_same_after_both_conversions() {
        let kind = Registry::builtin_kinds().find(|kind| kind.plural == "horizontalpodautoscalers").unwrap();
        let cpu = |target: &str| {
            let mut target = json!({target: {"averageUtilization": 70}});
            if let Some(of_spec) = target.get_mut("target") {
                of_spec["type"] = json!("Utilization");
            }
            target["name"] = json!("cpu");
            json!({"type": "Resource", "resource": target})
        };
        let memory =
            json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "Value", "value": "1Gi"}}});
        let stored = Object::from_value(json!({
            "metadata": {"name": "web"},
            "spec": {"maxReplicas": 9, "metrics": [memory, cpu("target")], "behavior": {"scaleDown": {}}},
            "status": {"currentReplicas": 2, "currentMetrics": [cpu("current")]},
        }));

        let v1 = other_kind_of(&kind).unwrap().convert(&stored);
        let spec = v1.field("spec");
        assert_eq!(spec, json!({"maxReplicas": 9, "targetCPUUtilizationPercentage": 70}));
        assert_eq!(v1.field("status"), json!({"currentReplicas": 2, "currentCPUUtilizationPercentage": 70}));
        assert_eq!(autoscaler_v2(v1), stored);
    }
}

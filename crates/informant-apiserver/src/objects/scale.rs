//! The `scale` subresource: the wanted and the actual number of replicas, in one format for all kinds.
//!
//! - **In:** an object; a `Scale` from a client.
//! - **Out:** the `Scale` of the object; the object with the number of replicas from the client.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::{
    error::{ApiError, Cause},
    objects::Object,
    registry::kind::{Kind, Origin},
};

/// The kind `Scale`.
pub(crate) fn kind() -> Kind {
    Kind { origin: Origin::BuiltIn, ..Kind::new("autoscaling", "v1", "Scale", "scales") }
}

/// The scale of an object.
pub(crate) fn of(object: &Object) -> Map<String, Value> {
    let (spec, status) = (object.field("spec"), object.field("status"));
    let kept = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];
    let metadata = kept.iter().filter_map(|name| Some(((*name).to_owned(), object.metadata.get(*name)?.clone())));
    let mut scale = Map::new();
    scale.insert("kind".into(), "Scale".into());
    scale.insert("apiVersion".into(), "autoscaling/v1".into());
    scale.insert("metadata".into(), metadata.collect::<Map<_, _>>().into());
    let wanted = spec.get("replicas").filter(|replicas| **replicas != 0);
    scale.insert("spec".into(), wanted.map_or(json!({}), |replicas| json!({ "replicas": replicas })));
    let replicas = status.get("replicas").cloned().unwrap_or(json!(0));
    scale.insert("status".into(), json!({"replicas": replicas, "selector": selector(&spec["selector"])}));
    scale
}

/// Reads the body of a request.
pub(crate) fn read(body: &[u8]) -> Result<Object, ApiError> {
    let scale = Object::read(&kind(), body)?;
    wanted(&scale).map(|_| scale)
}

/// The number of replicas that a scale wants; 0 if the field is absent.
fn wanted(scale: &Object) -> Result<i32, ApiError> {
    let is_map = |json: &Bytes| json.starts_with(b"{") || **json == *b"null";
    if let Some(name) = ["spec", "status"].into_iter().find(|name| !scale.rest.get(*name).is_none_or(is_map)) {
        return Err(ApiError::BadRequest(format!("the {name} of the Scale in the request is not a JSON object")));
    }
    let wanted = &scale.field("spec")["replicas"];
    let replicas = if wanted.is_null() { Some(0) } else { wanted.as_i64() };
    replicas.and_then(|replicas| i32::try_from(replicas).ok()).ok_or_else(|| {
        ApiError::BadRequest(format!(
            "spec.replicas of the Scale in the request must be a 32-bit integer, but is {wanted}"
        ))
    })
}

/// Sets the replicas of an object to those that a scale wants.
pub(crate) fn set(object: &mut Object, scale: &Object) -> Result<(), ApiError> {
    let replicas = wanted(scale)?;
    if replicas < 0 {
        let cause = Cause::invalid("spec.replicas", &replicas.to_string(), "must be greater than or equal to 0");
        return Err(ApiError::invalid(&kind(), object.text("name"), cause));
    }
    let mut spec = object.field("spec");
    spec["replicas"] = replicas.into();
    object.set_field("spec", &spec);
    // The rules of updates check these preconditions.
    for precondition in ["namespace", "uid", "resourceVersion"] {
        if !scale.text(precondition).is_empty() {
            object.set(precondition, scale.text(precondition));
        }
    }
    Ok(())
}

/// A selector as text, ordered by key. Older kinds have a map of labels in its place.
pub(crate) fn selector(selector: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let labels = if selector.get("matchLabels").is_some() || selector.get("matchExpressions").is_some() {
        &selector["matchLabels"]
    } else {
        selector
    };
    let labels = labels.as_object().into_iter().flatten();
    let labels = labels.map(|(key, value)| (key.clone(), format!("{key}={}", text(value))));
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten().map(|expression| {
        let key = text(&expression["key"]);
        let mut values = expression["values"].as_array().into_iter().flatten().map(text).collect::<Vec<_>>();
        values.sort();
        let values = values.join(",");
        let text = match expression["operator"].as_str() {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("DoesNotExist") => format!("!{key}"),
            Some(_) | None => key.clone(),
        };
        (key, text)
    });
    let mut all = labels.chain(expressions).collect::<Vec<_>>();
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    all.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_told_in_the_words_of_queries() {
        let expression = |operator: &str| json!({"key": "tier", "operator": operator, "values": ["b", "a"]});
        let of = |operator: &str| {
            selector(&json!({"matchLabels": {"app": "web"}, "matchExpressions": [expression(operator)]}))
        };

        assert_eq!(of("In"), "app=web,tier in (a,b)");
        assert_eq!(of("NotIn"), "app=web,tier notin (a,b)");
        assert_eq!(of("Exists"), "app=web,tier");
        assert_eq!(of("DoesNotExist"), "app=web,!tier");
        assert_eq!(selector(&json!({"app": "web", "tier": "a"})), "app=web,tier=a");
        assert_eq!(
            selector(&json!({"matchLabels": {"z": "1"}, "matchExpressions": [expression("Exists")]})),
            "tier,z=1"
        );
        assert_eq!(selector(&Value::Null), "");
    }
}

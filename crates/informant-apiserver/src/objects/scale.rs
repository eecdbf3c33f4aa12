//! The `scale` subresource: the wanted and the actual number of replicas, in one format for all kinds.
//!
//! - **In:** an object; a `Scale` from a client.
//! - **Out:** the `Scale` of the object; the object with the number of replicas from the client.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::{
    error::{ApiError, Cause},
    objects::{Object, rules::Part},
    registry::kind::{Kind, Origin},
};

/// The kind `Scale`.
pub(crate) fn kind() -> Kind {
    Kind { origin: Origin::BuiltIn, ..Kind::new("autoscaling", "v1", "Scale", "scales") }
}

/// The paths of the replicas in the objects of a custom kind, such as `.spec.replicas`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub(crate) spec: String,
    pub(crate) status: String,
    /// The path of the selector, as text.
    pub(crate) selector: Option<String>,
}

/// The names of the fields on a path: the first is that of a field outside of the metadata.
fn steps(path: &str) -> Vec<&str> {
    path.trim_start_matches('.').split('.').collect()
}

/// The names of the fields on the path to the replicas in the objects of a kind.
pub(crate) fn path_of_replicas(kind: &Kind) -> Vec<&str> {
    steps(kind.scale.as_ref().map_or(".spec.replicas", |paths| &paths.spec))
}

fn value_at(object: &Object, path: &str) -> Option<Value> {
    let steps = steps(path);
    let (first, rest) = steps.split_first()?;
    rest.iter().try_fold(object.field(first), |mut value, step| value.get_mut(step).map(Value::take))
}

/// The scale of an object; an error if a custom kind has its replicas at a path where the object has nothing.
pub(crate) fn of(kind: &Kind, object: &Object) -> Result<Map<String, Value>, ApiError> {
    let mut scale = of_usual_paths(object);
    if let Some(paths) = &kind.scale {
        let Some(wanted) = value_at(object, &paths.spec) else {
            let why = format!("Internal error occurred: the spec replicas field {:?} does not exist", paths.spec);
            return Err(ApiError::Internal(why));
        };
        scale.insert("spec".into(), if wanted == 0 { json!({}) } else { json!({ "replicas": wanted }) });
        let mut status = json!({"replicas": value_at(object, &paths.status).unwrap_or(json!(0))});
        let selector = paths.selector.as_ref().and_then(|path| value_at(object, path));
        if let Some(selector) = selector.filter(|selector| *selector != "") {
            status["selector"] = selector;
        }
        scale.insert("status".into(), status);
    }
    Ok(scale)
}

/// Checks the replicas and the selector of a custom kind.
pub(crate) fn check(kind: &Kind, object: &Object, part: Part, causes: &mut Vec<Cause>) {
    let Some(paths) = &kind.scale else { return };
    let replicas = [(&paths.spec, part == Part::Main), (&paths.status, true)];
    for (path, _) in replicas.into_iter().filter(|(_, is_written)| *is_written) {
        let Some(value) = value_at(object, path) else { continue };
        let why = match value.as_i64() {
            None => {
                let found = go_type(&value);
                causes.push(Cause::invalid(path.clone(), "0", &accessor_error(path, &value, found, "int64")));
                continue;
            }
            Some(replicas) if replicas < 0 => "should be a non-negative integer",
            Some(replicas) if i32::try_from(replicas).is_err() => "should be less than or equal to 2147483647",
            Some(_) => continue,
        };
        causes.push(Cause::invalid(path.clone(), &value.to_string(), why));
    }
    let selector = paths.selector.as_ref().and_then(|path| Some((path, value_at(object, path)?)));
    if let Some((path, value)) = selector.filter(|(_, value)| !value.is_string()) {
        causes.push(Cause::invalid(path.clone(), "\"\"", &accessor_error(path, &value, go_type(&value), "string")));
    }
}

fn accessor_error(path: &str, value: &Value, found: &str, expected: &str) -> String {
    let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    format!("{path} accessor error: {shown} is of the type {found}, expected {expected}")
}

/// The name of the type in which Go holds a value.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// The scale of an object that has its replicas at the usual paths.
fn of_usual_paths(object: &Object) -> Map<String, Value> {
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
pub(crate) fn set(kind: &Kind, object: &mut Object, scale: &Object) -> Result<(), ApiError> {
    let replicas = wanted(scale)?;
    if replicas < 0 {
        let cause = Cause::invalid("spec.replicas", &replicas.to_string(), "must be greater than or equal to 0");
        return Err(ApiError::invalid(&self::kind(), object.text("name"), cause));
    }
    let steps = path_of_replicas(kind);
    let mut field = object.field(steps[0]);
    let mut place = &mut field;
    for step in &steps[1..] {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[*step];
    }
    *place = replicas.into();
    object.set_field(steps[0], &field);
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

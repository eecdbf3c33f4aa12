//! Objects of built-in kinds as kube-apiserver decodes them: without unknown fields, nulls and empty maps and lists.
//!
//! - **In:** the JSON of an object.
//! - **Out:** what is stored of it, and the fields that were dropped; or what is of the wrong type, in the words of Go's decoder.
//! - **Knows nothing of:** custom kinds, validation.

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{Scalar, Shape, Type, facts};
use crate::registry::kind::{Kind, Origin};

/// Decodes an object of a built-in kind. Returns the paths of the fields that the kind does not have; they are dropped.
pub(crate) fn decode(kind: &Kind, object: &mut Value) -> Result<Vec<String>, String> {
    let mut decoder = Decoder { version: &kind.version, unknown: Vec::new() };
    if let (Some(of), Origin::BuiltIn, true) =
        (facts::built_in(&kind.api_version(), &kind.kind), kind.origin, object.is_object())
    {
        decoder.decode(of, object, &Path { outer: None, step: Step::Root })?;
    }
    Ok(decoder.unknown)
}

/// The place of a value, from the innermost step outwards.
#[derive(Clone, Copy)]
struct Path<'a> {
    outer: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    /// The field of a struct.
    Field {
        structure: &'a str,
        name: &'a str,
    },
    /// The value of a key in a map.
    Key(&'a str),
    Item(usize),
}

impl Path<'_> {
    fn then<'a>(&'a self, step: Step<'a>) -> Path<'a> {
        Path { outer: Some(self), step }
    }

    /// As users write it: `spec.containers[0].image`.
    fn shown(&self) -> String {
        let outer = self.outer.map(Path::shown).unwrap_or_default();
        match self.step {
            Step::Root => outer,
            Step::Field { name, .. } | Step::Key(name) if outer.is_empty() => name.to_owned(),
            Step::Field { name, .. } | Step::Key(name) => format!("{outer}.{name}"),
            Step::Item(place) => format!("{outer}[{place}]"),
        }
    }

    /// As Go names it: the innermost struct, and the fields on the way.
    fn in_go(&self) -> (&str, String) {
        match (self.step, self.outer) {
            (Step::Field { structure, name }, Some(outer)) => {
                let fields = outer.in_go().1;
                (structure, if fields.is_empty() { name.to_owned() } else { format!("{fields}.{name}") })
            }
            (_, Some(outer)) => outer.in_go(),
            (_, None) => ("", String::new()),
        }
    }
}

struct Decoder<'a> {
    /// The version of the kind, which is the name of its Go package.
    version: &'a str,
    unknown: Vec<String>,
}

impl Decoder<'_> {
    fn decode(&mut self, of: Type<'_>, value: &mut Value, path: &Path<'_>) -> Result<(), String> {
        match (of.shape, &mut *value) {
            (Shape::Any | Shape::Whole | Shape::Metadata, _) | (_, Value::Null) => Ok(()),
            (Shape::Map { name, .. }, Value::Object(map)) => match name.is_empty() {
                true => self.decode_map(of, map, path),
                false => self.decode_struct(of, name, map, path),
            },
            (Shape::List { .. }, Value::Array(list)) => list.iter_mut().enumerate().try_for_each(|(place, item)| {
                fill_in(of.items(), item);
                self.decode(of.items(), item, &path.then(Step::Item(place)))
            }),
            (Shape::Scalar(scalar), _) => check(*scalar, value, path),
            (Shape::Map { .. } | Shape::List { .. }, _) => Err(mismatch(value, path, &self.go_name(of))),
        }
    }

    fn decode_struct(
        &mut self,
        of: Type<'_>,
        structure: &str,
        map: &mut Map<String, Value>,
        path: &Path<'_>,
    ) -> Result<(), String> {
        let structure = short(structure);
        let mut result = Ok(());
        map.retain(|name, value| {
            let path = path.then(Step::Field { structure, name });
            let Some((of, field)) = of.field(name) else {
                self.unknown.push(path.shown());
                return false;
            };
            if result.is_ok() {
                result = self.decode(of, value, &path);
            }
            let is_kept = field.is_some_and(|field| field.is_always_there) || name == "managedFields";
            !value.is_null() && (is_kept || !is_left_out(of, value))
        });
        result
    }

    fn decode_map(&mut self, of: Type<'_>, map: &mut Map<String, Value>, path: &Path<'_>) -> Result<(), String> {
        for (name, value) in map.iter_mut() {
            let of = of.field(name).map_or(Type::any(), |(of, _)| of);
            fill_in(of, value);
            self.decode(of, value, &path.then(Step::Key(name)))?;
        }
        map.retain(|_, value| !value.is_null());
        Ok(())
    }

    fn go_name(&self, of: Type<'_>) -> String {
        match of.shape {
            Shape::Map { name, .. } if name.is_empty() => match of.field("").map(|(of, _)| of.shape) {
                Some(Shape::Scalar(Scalar::Quantity)) => format!("{}.ResourceList", self.version),
                Some(_) | None => {
                    format!("map[string]{}", of.field("").map_or_else(String::new, |(of, _)| self.go_name(of)))
                }
            },
            Shape::Map { name, .. } => format!("{}.{}", self.version, short(name)),
            Shape::List { .. } => format!("[]{}", self.go_name(of.items())),
            Shape::Scalar(scalar) => go_scalar(*scalar).to_owned(),
            Shape::Any | Shape::Whole | Shape::Metadata => "interface {}".to_owned(),
        }
    }
}

/// A name without the group and version that tell it from others.
fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// A null in a map or list of strings is an empty string.
fn fill_in(of: Type<'_>, value: &mut Value) {
    if value.is_null() && *of.shape == Shape::Scalar(Scalar::String) {
        *value = Value::String(String::new());
    }
}

/// Returns true for empty maps and lists. A struct without fields may mean something.
fn is_left_out(of: Type<'_>, value: &Value) -> bool {
    match (of.shape, value) {
        (Shape::Map { name, .. }, Value::Object(map)) => name.is_empty() && map.is_empty(),
        (Shape::List { .. }, Value::Array(list)) => list.is_empty(),
        (
            Shape::Map { .. } | Shape::List { .. } | Shape::Scalar(_) | Shape::Any | Shape::Whole | Shape::Metadata,
            _,
        ) => false,
    }
}

fn check(scalar: Scalar, value: &Value, path: &Path<'_>) -> Result<(), String> {
    let text = value.as_str();
    let fits = match (scalar, text) {
        (Scalar::String, _) => text.is_some(),
        (Scalar::Bytes, Some(text)) => return check_base64(text),
        (Scalar::Int, _) => value.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
        (Scalar::Long, _) => value.is_i64(),
        (Scalar::Number, _) => value.is_number(),
        (Scalar::Bool, _) => value.is_boolean(),
        (Scalar::Time, Some(text)) => return check_time(text),
        (Scalar::Quantity, _) => return check_quantity(value),
        (Scalar::IntOrString, None) => value.is_i64(),
        (Scalar::IntOrString, Some(_)) | (Scalar::Any, _) => true,
        (Scalar::Bytes | Scalar::Time, None) => false,
    };
    if fits { Ok(()) } else { Err(mismatch(value, path, go_scalar(scalar))) }
}

fn check_base64(text: &str) -> Result<(), String> {
    match STANDARD.decode(text.replace(['\n', '\r'], "")) {
        Ok(_) => Ok(()),
        Err(base64::DecodeError::InvalidByte(place, _)) => Err(format!("illegal base64 data at input byte {place}")),
        Err(_) => Err(format!("illegal base64 data at input byte {}", text.len())),
    }
}

fn check_time(text: &str) -> Result<(), String> {
    match text.parse::<Timestamp>() {
        Ok(_) => Ok(()),
        Err(_) => {
            let layout = "2006-01-02T15:04:05Z07:00";
            Err(format!("parsing time {text:?} as {layout:?}: cannot parse {text:?} as \"2006\""))
        }
    }
}

fn check_quantity(value: &Value) -> Result<(), String> {
    let rule = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    let is_one = match value {
        Value::Number(_) => true,
        Value::String(text) => {
            let amount = text.trim_start_matches(['+', '-']);
            let unit = amount.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
            let exponent = unit.trim_start_matches(|letter| "eEinumkKMGTP".contains(letter));
            let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            text.len() - amount.len() < 2
                && amount.len() > unit.len()
                && exponent.bytes().all(|digit| digit.is_ascii_digit())
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    };
    if is_one { Ok(()) } else { Err(rule.to_owned()) }
}

fn mismatch(value: &Value, path: &Path<'_>, wanted: &str) -> String {
    let found = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(number) if wanted.contains("int") => format!("number {number}"),
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    };
    let (structure, fields) = path.in_go();
    format!("json: cannot unmarshal {found} into Go struct field {structure}.{fields} of type {wanted}")
}

fn go_scalar(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::String | Scalar::Time => "string",
        Scalar::Bytes => "[]uint8",
        Scalar::Int | Scalar::IntOrString => "int32",
        Scalar::Long => "int64",
        Scalar::Number => "float64",
        Scalar::Bool => "bool",
        Scalar::Quantity => "resource.Quantity",
        Scalar::Any => "interface {}",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::registry::Registry;

    fn decoded(kind: &str, mut object: Value) -> Result<(Value, Vec<String>), String> {
        let kind = Registry::builtin_kinds().find(|built_in| built_in.kind == kind).unwrap();
        decode(&kind, &mut object).map(|unknown| (object, unknown))
    }

    #[test]
    fn what_kubernetes_does_not_store_is_dropped() {
        let pod = json!({"spec": {
            "containers": [{"name": "a", "args": [], "env": null, "resources": {"limits": {}}, "colour": "red"}],
            "nodeSelector": {},
            "volumes": [{"name": "v", "emptyDir": {}}],
        }, "size": 1});

        let (stored, unknown) = decoded("Pod", pod).unwrap();

        let container = json!({"name": "a", "resources": {}});
        assert_eq!(stored, json!({"spec": {"containers": [container], "volumes": [{"name": "v", "emptyDir": {}}]}}));
        assert_eq!(unknown, ["size", "spec.containers[0].colour"]);
        let (stored, _) = decoded("ConfigMap", json!({"data": {"a": null}})).unwrap();
        assert_eq!(stored, json!({"data": {"a": ""}}));
    }

    #[test]
    fn a_value_of_the_wrong_type_is_named_as_go_names_it() {
        let problem = |kind: &str, object: Value| decoded(kind, object).unwrap_err();
        let field = |found: &str, field: &str, of: &str| {
            format!("json: cannot unmarshal {found} into Go struct field {field} of type {of}")
        };
        let containers = |containers: Value| json!({"spec": {"template": {"spec": {"containers": containers}}}});

        let replicas = problem("Deployment", json!({"spec": {"replicas": "3"}}));
        assert_eq!(replicas, field("string", "DeploymentSpec.spec.replicas", "int32"));
        let image = problem("Deployment", containers(json!([{"image": 7}])));
        assert_eq!(image, field("number", "Container.spec.template.spec.containers.image", "string"));
        let list = problem("Deployment", containers(json!({})));
        assert_eq!(list, field("object", "PodSpec.spec.template.spec.containers", "[]v1.Container"));
        assert_eq!(problem("Deployment", json!({"spec": []})), field("array", "Deployment.spec", "v1.DeploymentSpec"));
        assert_eq!(problem("ConfigMap", json!({"data": {"a": 1}})), field("number", "ConfigMap.data", "string"));
        assert_eq!(problem("ConfigMap", json!({"data": []})), field("array", "ConfigMap.data", "map[string]string"));
        assert_eq!(problem("ConfigMap", json!({"binaryData": {"a": "!"}})), "illegal base64 data at input byte 0");
        let half = problem("Deployment", json!({"spec": {"replicas": 3.5}}));
        assert_eq!(half, field("number 3.5", "DeploymentSpec.spec.replicas", "int32"));
        let cpu = json!({"spec": {"containers": [{"resources": {"limits": {"cpu": "abc"}}}]}});
        assert!(problem("Pod", cpu).starts_with("quantities must match"));
        let amounts = json!({"a": "1", "b": "250m", "c": "1.5Gi", "d": 2, "e": "1e3"});
        assert!(decoded("Pod", json!({"spec": {"containers": [{"resources": {"limits": amounts}}]}})).is_ok());
    }
}

//! A field of an object, given by its path, such as `spec.nodeName`. A dot within a name is written `\.`, a backslash `\\`.
//!
//! The notation is that of `informant::FieldPath`. That type cannot be used here: it is for fields that may be removed from objects,
//! so it rejects fields such as `metadata.name`.

use std::{fmt, str::FromStr};

use serde_json::Value;

/// The path to a field. An array on the path stands for each of its items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    names: Vec<String>,
}

impl FromStr for Field {
    type Err = String;

    fn from_str(path: &str) -> Result<Self, String> {
        let mut names = vec![String::new()];
        let mut characters = path.strip_prefix('.').unwrap_or(path).chars();
        while let Some(character) = characters.next() {
            let literal = match character {
                '.' => {
                    names.push(String::new());
                    continue;
                }
                '\\' => characters.next().filter(|next| ['.', '\\'].contains(next)).ok_or_else(|| {
                    format!("{path:?} has a backslash before a character other than a dot or a backslash")
                })?,
                other => other,
            };
            names.last_mut().into_iter().for_each(|name| name.push(literal));
        }
        match names.iter().any(String::is_empty) {
            true => Err(format!("{path:?} has an empty name; expected a path such as spec.nodeName")),
            false => Ok(Self { names }),
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escaped: Vec<_> = self.names.iter().map(|name| escaped(name)).collect();
        f.write_str(&escaped.join("."))
    }
}

/// Escapes a name for use in a path.
pub fn escaped(name: &str) -> String {
    name.replace('\\', r"\\").replace('.', r"\.")
}

impl Field {
    /// The strings, numbers and booleans at this path of an object.
    pub fn values(&self, object: &Value) -> Vec<String> {
        let mut found = vec![object];
        for name in &self.names {
            found = found.into_iter().flat_map(items).filter_map(|value| value.get(name)).collect();
        }
        found.into_iter().flat_map(items).filter_map(scalar).collect()
    }
}

/// The items of an array, recursively; any other value by itself.
fn items(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().flat_map(self::items).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => vec![value],
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_found_through_arrays_and_escaped_names() {
        let pod = json!({
            "metadata": {"labels": {"app.kubernetes.io/name": "web"}},
            "spec": {"nodeName": "n1", "containers": [{"image": "a", "args": ["x", "y"]}, {"image": "b"}], "hostPID": true},
        });
        let values = |path: &str| path.parse::<Field>().unwrap().values(&pod);

        assert_eq!(values("spec.nodeName"), ["n1"]);
        assert_eq!(values(".spec.hostPID"), ["true"]);
        assert_eq!(values("spec.containers.image"), ["a", "b"]);
        assert_eq!(values("spec.containers.args"), ["x", "y"]);
        assert_eq!(values(r"metadata.labels.app\.kubernetes\.io/name"), ["web"]);
        assert!(values("spec").is_empty() && values("spec.nowhere").is_empty());
    }

    #[test]
    fn a_path_is_displayed_as_it_was_parsed() {
        assert_eq!(r"a.b\.c.d\\e".parse::<Field>().unwrap().to_string(), r"a.b\.c.d\\e");
        for bad in ["", ".", "a..b", "a.", r"a\b", "a\\"] {
            assert!(bad.parse::<Field>().is_err(), "{bad}");
        }
    }
}

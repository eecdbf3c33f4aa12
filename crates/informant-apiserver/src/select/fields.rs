//! Field selectors: `metadata.name=web,spec.nodeName!=node-1`, on the fields that the kind allows.

use std::borrow::Cow;

use serde_json::Value;

use crate::registry::{kind::Kind, selectable::SelectableField};

/// A field, and the value that it must or must not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldRequirement {
    field: SelectableField,
    value: String,
    equal: bool,
}

impl FieldRequirement {
    pub(crate) fn field(&self) -> &SelectableField {
        &self.field
    }

    /// Returns true if the value of the field matches; `None` is a value that is not a scalar.
    pub(crate) fn matches(&self, found: Option<&str>) -> bool {
        (found == Some(self.value.as_str())) == self.equal
    }
}

/// Reads `path=value`, `path==value` and `path!=value`, joined by commas. A backslash escapes `,`, `=` and `\`.
pub(crate) fn parse(kind: &Kind, text: &str) -> Result<Vec<FieldRequirement>, String> {
    split(text, ',').into_iter().filter(|term| !term.is_empty()).map(|term| parse_term(kind, term)).collect()
}

fn parse_term(kind: &Kind, term: &str) -> Result<FieldRequirement, String> {
    let parts = split(term, '=');
    let (path, value, equal) = match parts[..] {
        [path, value] => match path.strip_suffix('!') {
            Some(path) => (path, value, false),
            None => (path, value, true),
        },
        [path, "", value] => (path, value, true),
        _ => return Err(format!("invalid selector: '{term}'; can't understand '{term}'")),
    };
    if path.is_empty() {
        return Err(format!("invalid selector: '{term}'; the field before the operator is missing"));
    }
    let value = unescape(value)?;
    Ok(FieldRequirement { field: SelectableField::find(kind, path)?, value, equal })
}

/// The name that a field selector selects: `web` in `metadata.name=web`.
pub(crate) fn selected_name(text: &str) -> Option<String> {
    split(text, ',').into_iter().find_map(|term| match split(term, '=')[..] {
        ["metadata.name", name] | ["metadata.name", "", name] => unescape(name).ok(),
        _ => None,
    })
}

/// Splits the text at each separator that is not escaped by a backslash.
fn split(text: &str, separator: char) -> Vec<&str> {
    let mut escaped = false;
    text.split(|letter| {
        let cut = letter == separator && !escaped;
        escaped = letter == '\\' && !escaped;
        cut
    })
    .collect()
}

fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(value.len());
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            plain.push(letter);
            continue;
        }
        match letters.next() {
            Some(next @ ('\\' | ',' | '=')) => plain.push(next),
            next => return Err(format!("invalid field selector: invalid escape sequence: \\{}", next.unwrap_or(' '))),
        }
    }
    Ok(plain)
}

/// The scalar at the first of these paths that has one, as text; `None` if an array or object is there.
pub(crate) fn scalar_at<'a>(object: &'a Value, paths: &[String], absent: &'static str) -> Option<Cow<'a, str>> {
    let at = |path: &String| path.split('.').try_fold(object, |value, field| value.get(field));
    match paths.iter().filter_map(at).find(|value| !value.is_null() && *value != "") {
        None | Some(Value::Null) => Some(Cow::Borrowed(absent)),
        Some(Value::String(text)) => Some(Cow::Borrowed(text)),
        Some(Value::Bool(value)) => Some(Cow::Owned(value.to_string())),
        Some(Value::Number(value)) => Some(Cow::Owned(value.to_string())),
        Some(Value::Array(_) | Value::Object(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FIELDS: [&str; 6] =
        ["spec.nodeName", "spec.replicas", "spec.paused", "spec.x", "spec.containers", "spec.nodeName.x"];

    fn kind() -> Kind {
        Kind::new("example.com", "v1", "Widget", "widgets").selectable_fields(FIELDS)
    }

    fn select(selector: &str, object: &Value) -> bool {
        let matches = |requirement: &FieldRequirement| match requirement.field() {
            SelectableField::Scalar { paths, absent } => {
                requirement.matches(scalar_at(object, paths, absent).as_deref())
            }
            SelectableField::Name | SelectableField::Namespace => panic!("{requirement:?} is not in the object"),
        };
        parse(&kind(), selector).unwrap().iter().all(matches)
    }

    #[test]
    fn a_field_selector_reads_scalars() {
        let object = json!({"spec": {"nodeName": "n1", "replicas": 3, "paused": true, "containers": []}});

        for yes in
            ["spec.nodeName=n1", "spec.nodeName==n1,spec.replicas=3", "spec.paused=true", "spec.x=", "spec.x!=a", ""]
        {
            assert!(select(yes, &object), "{yes}");
        }
        for no in ["spec.nodeName=n2", "spec.nodeName!=n1", "spec.x=a", "spec.containers=", "spec.nodeName.x=n1"] {
            assert!(!select(no, &object), "{no}");
        }
    }

    #[test]
    fn separators_in_values_are_escaped() {
        let object = json!({"spec": {"x": "a,b=c\\d"}});

        assert!(select(r"spec.x=a\,b\=c\\d", &object));
        assert!(parse(&kind(), r"spec.x=\x").is_err());
    }

    #[test]
    fn a_selector_that_makes_no_sense_is_an_error() {
        for bad in ["spec", "=a", "a=b=c", "!=a", "spec.y=a"] {
            assert!(parse(&kind(), bad).is_err(), "{bad}");
        }
    }
}

//! Field selectors: `metadata.name=web,spec.nodeName!=node-1`, on any path that leads to a scalar.

use std::borrow::Cow;

use serde_json::Value;

/// A path and what must be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldRequirement {
    path: String,
    value: String,
    equal: bool,
}

impl FieldRequirement {
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Whether the scalar at the path is right; none stands for something that is not a scalar.
    pub(crate) fn matches(&self, found: Option<&str>) -> bool {
        (found == Some(self.value.as_str())) == self.equal
    }
}

/// Reads `path=value`, `path==value` and `path!=value`, joined by commas; a backslash takes the next `,`, `=` or `\` as it is.
pub(crate) fn parse(text: &str) -> Result<Vec<FieldRequirement>, String> {
    split(text, ',').into_iter().filter(|term| !term.is_empty()).map(parse_term).collect()
}

fn parse_term(term: &str) -> Result<FieldRequirement, String> {
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
        return Err(format!("invalid selector: '{term}'; it names no field"));
    }
    Ok(FieldRequirement { path: path.into(), value: unescape(value)?, equal })
}

/// Cuts at each separator that no backslash stands before.
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

/// The scalar at a path of field names, as text; a field that is not there is empty, as Kubernetes sees it.
pub(crate) fn scalar_at<'a>(object: &'a Value, path: &str) -> Option<Cow<'a, str>> {
    let found = path.split('.').try_fold(object, |value, field| value.get(field));
    match found {
        None | Some(Value::Null) => Some(Cow::Borrowed("")),
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

    fn select(selector: &str, object: &Value) -> bool {
        let matches =
            |requirement: &FieldRequirement| requirement.matches(scalar_at(object, &requirement.path).as_deref());
        parse(selector).unwrap().iter().all(matches)
    }

    #[test]
    fn a_field_selector_reads_any_scalar() {
        let object = json!({"spec": {"nodeName": "n1", "replicas": 3, "paused": true, "containers": []}});

        for yes in
            ["spec.nodeName=n1", "spec.nodeName==n1,spec.replicas=3", "spec.paused=true", "spec.x=", "spec.x!=a", ""]
        {
            assert!(select(yes, &object), "{yes}");
        }
        for no in
            ["spec.nodeName=n2", "spec.nodeName!=n1", "spec.x=a", "spec.containers=", "spec=", "spec.nodeName.x=n1"]
        {
            assert!(!select(no, &object), "{no}");
        }
    }

    #[test]
    fn separators_in_values_are_escaped() {
        let object = json!({"spec": {"image": "a,b=c\\d"}});

        assert!(select(r"spec.image=a\,b\=c\\d", &object));
        assert!(parse(r"spec.image=\x").is_err());
    }

    #[test]
    fn a_selector_that_makes_no_sense_is_an_error() {
        for bad in ["spec", "=a", "a=b=c", "!=a"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}

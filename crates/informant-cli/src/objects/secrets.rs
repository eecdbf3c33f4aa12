//! Hides the values of Secrets, including the copy that `kubectl apply` keeps in an annotation.

use serde_json::Value;

use super::diff::{Change, Step};

/// The annotation in which `kubectl apply` keeps a copy of the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Returns true if the values at this path are hidden.
fn is_hidden(path: &[&str]) -> bool {
    match path {
        ["data" | "stringData" | "binaryData", ..] | ["metadata", "annotations", LAST_APPLIED, ..] => true,
        [..] => false,
    }
}

/// Replaces the values of a Secret; keeps their names and lengths.
pub fn hide(secret: &mut Value) {
    hide_below(&mut Vec::new(), secret);
}

/// Replaces the values in a change: it shows that a value changed, but not the value.
pub fn hide_change(change: &mut Change) {
    let member = |step: &Step| match step {
        Step::Member(name) | Step::Item(name) => name.clone(),
    };
    let path: Vec<_> = change.path.iter().map(member).collect();
    let names = || path.iter().map(String::as_str).collect::<Vec<_>>();
    for side in change.old.iter_mut().chain(&mut change.new) {
        hide_below(&mut names(), side);
    }
    if is_hidden(&names()) {
        // The name of an array item is a value in it.
        for step in &mut change.path {
            if let Step::Item(name) = step {
                *name = "hidden".to_owned();
            }
        }
    }
}

/// Hides the values below this path that must be hidden.
fn hide_below<'a>(path: &mut Vec<&'a str>, value: &'a mut Value) {
    if is_hidden(path) {
        return hide_all(value);
    }
    let Value::Object(members) = value else { return };
    for (name, member) in members {
        path.push(name);
        hide_below(path, member);
        path.pop();
    }
}

fn hide_all(value: &mut Value) {
    match value {
        Value::Object(members) => members.values_mut().for_each(hide_all),
        Value::Array(items) => items.iter_mut().for_each(hide_all),
        Value::Null => {}
        Value::String(text) => *value = Value::from(format!("(hidden, {} characters)", text.chars().count())),
        Value::Bool(_) | Value::Number(_) => *value = Value::from("(hidden)"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::diff::changes, *};

    fn secret(password: &str) -> Value {
        json!({
            "metadata": {"name": "db", "annotations": {LAST_APPLIED: format!("{{\"data\":\"{password}\"}}"), "note": "mine"}},
            "data": {"password": password, "empty": null},
            "stringData": {"user": password},
            "type": "Opaque",
        })
    }

    #[test]
    fn a_hidden_secret_keeps_only_names_and_lengths() {
        let mut shown = secret("aHVudGVyMg==");
        hide(&mut shown);

        assert!(!shown.to_string().contains("aHVudGVyMg"), "{shown}");
        assert_eq!(shown["data"]["password"], "(hidden, 12 characters)");
        assert_eq!((&shown["type"], &shown["metadata"]["annotations"]["note"]), (&json!("Opaque"), &json!("mine")));
    }

    #[test]
    fn a_change_of_a_secret_is_shown_without_the_value() {
        let mut changes = changes(&secret("b25l"), &secret("dHdv"));
        changes.iter_mut().for_each(hide_change);

        assert_eq!(changes.len(), 3, "{changes:?}");
        assert!(!format!("{changes:?}").contains("b25l") && !format!("{changes:?}").contains("dHdv"), "{changes:?}");
    }

    #[test]
    fn values_are_hidden_when_a_whole_member_is_added_or_removed() {
        for (old, new) in [
            (json!({}), secret("b25l")),
            (secret("b25l"), json!({"data": null, "metadata": null})),
            (json!({"metadata": {"annotations": null}, "data": 5}), secret("b25l")),
            (json!({"data": [{"name": "b25l"}]}), json!({"data": [{"name": "b25l", "x": 1}]})),
        ] {
            let mut changes = changes(&old, &new);
            changes.iter_mut().for_each(hide_change);
            assert!(!changes.is_empty() && !format!("{changes:?}").contains("b25l"), "{changes:?}");
        }
    }
}

//! What secrets have in them is hidden: also where a copy of it stands in an annotation.

use serde_json::Value;

use super::diff::Change;

/// The members of a secret that nobody is to see.
const HIDDEN: [&str; 2] = ["data", "stringData"];

/// Where `kubectl apply` keeps a copy of everything.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Hides the values, and keeps their names and sizes.
pub fn hide(secret: &mut Value) {
    for member in HIDDEN {
        secret.get_mut(member).into_iter().for_each(hide_all);
    }
    secret
        .pointer_mut("/metadata/annotations")
        .and_then(|all| all.get_mut(LAST_APPLIED))
        .into_iter()
        .for_each(hide_all);
}

/// The same of a change: that something changed can be seen, but not what.
pub fn hide_change(change: &mut Change) {
    let path: Vec<_> = change.path.iter().map(String::as_str).collect();
    let is_hidden = match path[..] {
        [member, ..] if HIDDEN.contains(&member) => true,
        ["metadata", "annotations", LAST_APPLIED, ..] => true,
        _ => false,
    };
    if is_hidden {
        change.old.iter_mut().chain(&mut change.new).for_each(hide_all);
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

    use super::super::diff::changes;
    use super::*;

    fn secret(password: &str) -> Value {
        json!({
            "metadata": {"name": "db", "annotations": {LAST_APPLIED: format!("{{\"data\":\"{password}\"}}"), "note": "mine"}},
            "data": {"password": password, "empty": null},
            "stringData": {"user": password},
            "type": "Opaque",
        })
    }

    #[test]
    fn nothing_of_a_secret_is_left_but_names_and_sizes() {
        let mut shown = secret("aHVudGVyMg==");
        hide(&mut shown);

        assert!(!shown.to_string().contains("aHVudGVyMg"), "{shown}");
        assert_eq!(shown["data"]["password"], "(hidden, 12 characters)");
        assert_eq!((&shown["type"], &shown["metadata"]["annotations"]["note"]), (&json!("Opaque"), &json!("mine")));
    }

    #[test]
    fn a_change_of_a_secret_is_seen_but_not_what_it_is() {
        let mut changes = changes(&secret("b25l"), &secret("dHdv"));
        changes.iter_mut().for_each(hide_change);

        assert_eq!(changes.len(), 3, "{changes:?}");
        assert!(!format!("{changes:?}").contains("b25l") && !format!("{changes:?}").contains("dHdv"), "{changes:?}");
    }
}

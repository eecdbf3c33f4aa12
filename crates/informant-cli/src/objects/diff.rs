//! The differences between two states of an object, field by field.
//!
//! Items of an array that all have a unique name (or type, key, uid, ip) are matched by it, and a changed order is reported; other items
//! are matched by their position.

use std::{collections::BTreeSet, fmt};

use serde_json::{Map, Value};

use super::field::escaped;

/// A field whose value differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub path: Vec<Step>,
    /// The old value; `None` if the field was absent.
    pub old: Option<Value>,
    /// The new value; `None` if the field is absent.
    pub new: Option<Value>,
}

/// One element of the path to a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Member(String),
    /// An item of an array, by its name or its position.
    Item(String),
}

/// Formats a path: `spec.containers[web].image`.
pub struct Path<'a>(pub &'a [Step]);

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                Step::Member(name) if position == 0 => f.write_str(&escaped(name))?,
                Step::Member(name) => write!(f, ".{}", escaped(name))?,
                Step::Item(name) => write!(f, "[{name}]")?,
            }
        }
        Ok(())
    }
}

/// Returns the fields in which two states differ, except `metadata.resourceVersion`, which always does.
pub fn changes(old: &Value, new: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    compare(&mut Vec::new(), Some(old), Some(new), &mut changes);
    changes.retain(|change| Path(&change.path).to_string() != "metadata.resourceVersion");
    changes
}

/// Compares two values recursively, down to scalars and empty objects and arrays.
fn compare(path: &mut Vec<Step>, old: Option<&Value>, new: Option<&Value>, changes: &mut Vec<Change>) {
    if old == new {
        return;
    }
    let before = changes.len();
    match (old, new) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => members(path, old, new, changes),
        (Some(Value::Object(old)), None) => members(path, old, &Map::new(), changes),
        (None, Some(Value::Object(new))) => members(path, &Map::new(), new, changes),
        (Some(Value::Array(old)), Some(Value::Array(new))) => items(path, old, new, changes),
        (Some(Value::Array(old)), None) => items(path, old, &[], changes),
        (None, Some(Value::Array(new))) => items(path, &[], new, changes),
        (_, _) => {}
    }
    // The values differ, but no nested value does.
    if changes.len() == before {
        changes.push(Change { path: path.clone(), old: old.cloned(), new: new.cloned() });
    }
}

fn members(path: &mut Vec<Step>, old: &Map<String, Value>, new: &Map<String, Value>, changes: &mut Vec<Change>) {
    let names: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    for name in names {
        path.push(Step::Member(name.clone()));
        compare(path, old.get(name), new.get(name), changes);
        path.pop();
    }
}

fn items(path: &mut Vec<Step>, old: &[Value], new: &[Value], changes: &mut Vec<Change>) {
    let name =
        ["name", "type", "key", "uid", "ip"].into_iter().find(|name| has_names(old, name) && has_names(new, name));
    let pairs: Vec<(Step, Option<&Value>, Option<&Value>)> = match name {
        Some(name) => {
            let place = |items: &[Value], wanted: &Value| items.iter().position(|item| &item[name] == wanted);
            let mut pairs: Vec<_> = old
                .iter()
                .map(|item| (named(&item[name]), Some(item), place(new, &item[name]).map(|place| &new[place])))
                .collect();
            let fresh = new.iter().filter(|item| place(old, &item[name]).is_none());
            pairs.extend(fresh.map(|item| (named(&item[name]), None, Some(item))));
            pairs
        }
        None => {
            let places = 0..old.len().max(new.len());
            places.map(|place| (Step::Item(place.to_string()), old.get(place), new.get(place))).collect()
        }
    };
    for (item, old, new) in pairs {
        path.push(item);
        compare(path, old, new, changes);
        path.pop();
    }
    let Some(name) = name else { return };
    let order = |items: &[Value], others: &[Value]| -> Vec<Value> {
        let is_common = |item: &&Value| others.iter().any(|other| other[name] == item[name]);
        items.iter().filter(is_common).map(|item| item[name].clone()).collect()
    };
    let (before, now) = (order(old, new), order(new, old));
    if before != now {
        path.push(Step::Item("order".to_owned()));
        changes.push(Change { path: path.clone(), old: Some(before.into()), new: Some(now.into()) });
        path.pop();
    }
}

fn named(name: &Value) -> Step {
    Step::Item(name.as_str().unwrap_or_default().to_owned())
}

/// Returns true if every item has a member of this name with a unique string.
fn has_names(items: &[Value], name: &str) -> bool {
    let names: BTreeSet<_> = items.iter().filter_map(|item| item.get(name)?.as_str()).collect();
    names.len() == items.len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn diff(old: &Value, new: &Value) -> Vec<String> {
        let shown = |value: &Option<Value>| value.as_ref().map_or("none".to_owned(), ToString::to_string);
        let line = |change: &Change| format!("{}: {} → {}", Path(&change.path), shown(&change.old), shown(&change.new));
        changes(old, new).iter().map(line).collect()
    }

    #[test]
    fn only_fields_that_differ_are_listed() {
        let old = json!({"metadata": {"resourceVersion": "1", "labels": {"app.io/name": "web", "tier": "db"}}, "spec": {"replicas": 2}});
        let new = json!({"metadata": {"resourceVersion": "2", "labels": {"app.io/name": "api"}}, "spec": {"replicas": 2, "paused": true}});

        assert_eq!(
            diff(&old, &new),
            [
                r#"metadata.labels.app\.io/name: "web" → "api""#,
                r#"metadata.labels.tier: "db" → none"#,
                "spec.paused: none → true"
            ]
        );
        assert!(diff(&new, &new).is_empty());
    }

    #[test]
    fn items_with_names_are_matched_by_name() {
        let old = json!({"c": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]});
        let new = json!({"c": [{"name": "b", "image": "2"}, {"name": "d", "image": "1"}]});

        assert_eq!(
            diff(&old, &new),
            [
                r#"c[a].image: "1" → none"#,
                r#"c[a].name: "a" → none"#,
                r#"c[b].image: "1" → "2""#,
                r#"c[d].image: none → "1""#,
                r#"c[d].name: none → "d""#,
            ]
        );
    }

    #[test]
    fn items_without_names_are_matched_by_position() {
        assert_eq!(
            diff(&json!({"args": ["x", "y"]}), &json!({"args": ["x", "z", {}]})),
            [r#"args[1]: "y" → "z""#, "args[2]: none → {}"]
        );
    }

    #[test]
    fn a_changed_type_and_an_empty_value_are_changes() {
        assert_eq!(
            diff(&json!({"a": {}, "b": [1], "c": null}), &json!({"a": {"x": 1}, "b": {"y": 2}})),
            ["a.x: none → 1", r#"b: [1] → {"y":2}"#, "c: null → none"]
        );
        assert_eq!(diff(&json!({"a": {"x": 1}}), &json!({"a": {}})), ["a.x: 1 → none"]);
        assert_eq!(diff(&json!({}), &json!({"a": {}})), ["a: none → {}"]);
    }

    #[test]
    fn a_changed_order_of_named_items_is_a_change() {
        let items = |names: &[&str]| json!({"c": names.iter().map(|name| json!({"name": name})).collect::<Value>()});

        assert_eq!(diff(&items(&["a", "b"]), &items(&["b", "a"])), [r#"c[order]: ["a","b"] → ["b","a"]"#]);
        let others = diff(&items(&["a", "b", "x"]), &items(&["y", "b", "a"]));
        assert!(others.contains(&r#"c[order]: ["a","b"] → ["b","a"]"#.to_owned()), "{others:?}");
        assert_eq!(others.len(), 3, "{others:?}");
    }
}

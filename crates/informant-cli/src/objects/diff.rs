//! What changed between two states of an object, field by field.
//!
//! Items of a list that have names, or types, are compared with those of the same name, and their order is looked at; others are
//! compared with those of the same place.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Map;
use serde_json::Value;

use super::field::escaped;

/// A field that has another value than before.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub path: Vec<Step>,
    /// What it was, if it was there.
    pub old: Option<Value>,
    /// What it is, if it is there.
    pub new: Option<Value>,
}

/// A step on the way to a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Member(String),
    /// An item of a list, by its name or its place.
    Item(String),
}

/// A path as people write it: `spec.containers[web].image`.
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

/// The fields in which two states differ; but for the version, which always does.
pub fn changes(old: &Value, new: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    compare(&mut Vec::new(), Some(old), Some(new), &mut changes);
    changes.retain(|change| Path(&change.path).to_string() != "metadata.resourceVersion");
    changes
}

/// Goes down to where nothing is below: a value, or an object or list that is empty.
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
    // They differ, and nothing within them does.
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

/// Whether each item has a name of its own.
fn has_names(items: &[Value], name: &str) -> bool {
    let names: BTreeSet<_> = items.iter().filter_map(|item| item.get(name)?.as_str()).collect();
    names.len() == items.len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(old: &Value, new: &Value) -> Vec<String> {
        let shown = |value: &Option<Value>| value.as_ref().map_or("none".to_owned(), ToString::to_string);
        let told = |change: &Change| format!("{}: {} → {}", Path(&change.path), shown(&change.old), shown(&change.new));
        changes(old, new).iter().map(told).collect()
    }

    #[test]
    fn only_what_differs_is_told() {
        let old = json!({"metadata": {"resourceVersion": "1", "labels": {"app.io/name": "web", "tier": "db"}}, "spec": {"replicas": 2}});
        let new = json!({"metadata": {"resourceVersion": "2", "labels": {"app.io/name": "api"}}, "spec": {"replicas": 2, "paused": true}});

        assert_eq!(
            told(&old, &new),
            [
                r#"metadata.labels.app\.io/name: "web" → "api""#,
                r#"metadata.labels.tier: "db" → none"#,
                "spec.paused: none → true"
            ]
        );
        assert!(told(&new, &new).is_empty());
    }

    #[test]
    fn items_with_names_are_compared_with_their_like() {
        let old = json!({"c": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]});
        let new = json!({"c": [{"name": "b", "image": "2"}, {"name": "d", "image": "1"}]});

        assert_eq!(
            told(&old, &new),
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
    fn other_items_are_compared_by_their_places() {
        assert_eq!(
            told(&json!({"args": ["x", "y"]}), &json!({"args": ["x", "z", {}]})),
            [r#"args[1]: "y" → "z""#, "args[2]: none → {}"]
        );
    }

    #[test]
    fn values_of_another_type_and_empty_ones_are_changes() {
        assert_eq!(
            told(&json!({"a": {}, "b": [1], "c": null}), &json!({"a": {"x": 1}, "b": {"y": 2}})),
            ["a.x: none → 1", r#"b: [1] → {"y":2}"#, "c: null → none"]
        );
        assert_eq!(told(&json!({"a": {"x": 1}}), &json!({"a": {}})), ["a.x: 1 → none"]);
        assert_eq!(told(&json!({}), &json!({"a": {}})), ["a: none → {}"]);
    }

    #[test]
    fn items_in_another_order_are_a_change() {
        let items = |names: &[&str]| json!({"c": names.iter().map(|name| json!({"name": name})).collect::<Value>()});

        assert_eq!(told(&items(&["a", "b"]), &items(&["b", "a"])), [r#"c[order]: ["a","b"] → ["b","a"]"#]);
        let others = told(&items(&["a", "b", "x"]), &items(&["y", "b", "a"]));
        assert!(others.contains(&r#"c[order]: ["a","b"] → ["b","a"]"#.to_owned()), "{others:?}");
        assert_eq!(others.len(), 3, "{others:?}");
    }
}

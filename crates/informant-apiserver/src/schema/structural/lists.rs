//! Lists that are sets or maps: no item, or no key, occurs twice.
//!
//! - **In:** an object as JSON, and its schema.
//! - **Out:** the duplicates; the item of another list with the same key.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::schema::structural::{Schema, Violation, path::Path};

/// Adds a violation for each item that occurs a second time, in the sets and maps below `value`.
pub(super) fn find_duplicates(schema: &Schema, value: &Value, path: &Path<'_>, found: &mut Vec<Violation>) {
    match value {
        Value::Array(items) => {
            match schema.list_type.as_deref() {
                Some("set") => duplicates(items.iter(), path, found),
                Some("map") => duplicates_of_map(schema, items, path, found),
                Some(_) | None => {}
            }
            if let Some(of_items) = schema.item() {
                for (index, item) in items.iter().enumerate() {
                    find_duplicates(of_items, item, &path.index(index), found);
                }
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(property) = schema.properties.get(name) {
                    find_duplicates(property, value, &path.field(name), found);
                } else if let Some(additional) = schema.additional() {
                    find_duplicates(additional, value, &path.key(name), found);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn duplicates_of_map(schema: &Schema, items: &[Value], path: &Path<'_>, found: &mut Vec<Violation>) {
    let wrong = items.iter().position(|item| !item.is_null() && !item.is_object());
    if let Some(index) = wrong {
        let why = "must be an object for an array of list-type map";
        found.push(Violation::invalid(&path.index(index), &items[index].to_string(), why));
        return;
    }
    let keys: Vec<_> = items.iter().map(|item| Value::Object(key(schema, item))).collect();
    duplicates(keys.iter(), path, found);
}

/// Adds a violation for the second occurrence of each value.
fn duplicates<'a>(values: impl Iterator<Item = &'a Value>, path: &Path<'_>, found: &mut Vec<Violation>) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (index, value) in values.enumerate() {
        let times = seen.entry(value.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            found.push(Violation::duplicate(&path.index(index), value));
        }
    }
}

/// The key of an item: its fields that are named in `x-kubernetes-list-map-keys`.
fn key(schema: &Schema, item: &Value) -> Map<String, Value> {
    let field = |name: &String| Some((name.clone(), item.get(name)?.clone()));
    schema.list_map_keys.iter().filter_map(field).collect()
}

/// The items of an older list by their keys, if the list is a map.
pub(super) struct OlderItems<'a>(HashMap<String, &'a Value>);

impl<'a> OlderItems<'a> {
    pub(super) fn new(schema: &Schema, older: Option<&'a Value>) -> Self {
        let is_map = schema.list_type.as_deref() == Some("map");
        let items = older.and_then(Value::as_array).filter(|_| is_map).into_iter().flatten();
        Self(items.map(|item| (Self::key(schema, item), item)).collect())
    }

    /// The older item with the key of this one.
    pub(super) fn get(&self, schema: &Schema, item: &Value) -> Option<&'a Value> {
        if self.0.is_empty() { None } else { self.0.get(&Self::key(schema, item)).copied() }
    }

    fn key(schema: &Schema, item: &Value) -> String {
        Value::Object(key(schema, item)).to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    fn duplicates_in(schema: &Value, value: &Value) -> Vec<String> {
        let mut found = Vec::new();
        find_duplicates(&Schema::deserialize(schema).unwrap(), value, &Path::root(""), &mut found);
        let causes = found.into_iter().map(|violation| violation.into_cause(""));
        causes.map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    #[test]
    fn what_occurs_twice_in_a_set_or_a_map_is_found_once() {
        let set = json!({"properties": {"tags": {"x-kubernetes-list-type": "set"}}});
        assert_eq!(duplicates_in(&set, &json!({"tags": ["a", "b", "a", "a"]})), [r#"tags[2]: Duplicate value: "a""#]);
        let map = json!({"additionalProperties": {
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
        }});
        let port = |port: u16, protocol: &str| json!({"port": port, "protocol": protocol, "name": protocol});
        let list = json!({"x": [port(1, "TCP"), port(1, "UDP"), port(1, "TCP")]});
        assert_eq!(duplicates_in(&map, &list), [r#"[x][2]: Duplicate value: {"port":1,"protocol":"TCP"}"#]);
    }

    #[test]
    fn an_older_item_is_found_by_its_key() {
        let schema = json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]});
        let schema = Schema::deserialize(&schema).unwrap();
        let older = json!([{"name": "a", "size": 1}, {"name": "b", "size": 2}]);

        let items = OlderItems::new(&schema, Some(&older));
        assert_eq!(items.get(&schema, &json!({"name": "b"})), Some(&older[1]));
        assert_eq!(items.get(&schema, &json!({"name": "c"})), None);
        let atomic = Schema::default();
        assert_eq!(OlderItems::new(&atomic, Some(&older)).get(&atomic, &json!({"name": "b"})), None);
    }
}

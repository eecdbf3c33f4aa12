//! Strategic merge patches, as `kubectl apply` sends them: merge patches that also change the items of lists.
//!
//! - **In:** an object, a patch, and the type of the object, which says how its lists are merged.
//! - **Out:** the patched object.
//! - **Knows nothing of:** the meaning of fields.
//!
//! Besides fields, a patch has directives:
//!
//! | in | directive | effect |
//! |---|---|---|
//! | a map | `$patch: replace`, `delete` | replaces the map by the rest of the patch, or empties it |
//! | | `$retainKeys: [names]` | removes the other fields of the map |
//! | | `$setElementOrder/LIST: [items]` | sets the order of a list, for the items that it names |
//! | | `$deleteFromPrimitiveList/LIST: [values]` | removes these values from a list |
//! | an item of a list | `$patch: delete` | removes the item with that key |
//! | | `$patch: replace` | replaces the list by the other items of the patch |

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value};

use super::order::{Key, put_in_order};
use crate::{
    error::ApiError,
    schema::{Shape, Type},
};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder/";
const DELETE: &str = "$deleteFromPrimitiveList/";

type Object = Map<String, Value>;

/// How a field is merged.
#[derive(Clone, Copy)]
enum Rule<'a> {
    /// A map, field by field.
    Map(Type<'a>),
    /// A list of maps, identified by the value of a field. The type is that of the items.
    ByKey(&'static str, Type<'a>),
    /// A list of distinct values.
    Set,
    /// As a whole.
    Replaced,
}

/// The rule for a field of a map. Lists of fields that the type does not have are replaced.
fn rule<'a>(of: Type<'a>, name: &str) -> Rule<'a> {
    let Some((of, field)) = of.field(name) else { return Rule::Map(Type::any()) };
    let strategy = field.and_then(|field| field.strategy);
    let has = |name: &str| strategy.is_some_and(|strategy| strategy.names.split('+').any(|one| one == name));
    match (of.shape, strategy.and_then(|strategy| strategy.merge_key)) {
        (Shape::List { .. }, Some(key)) => Rule::ByKey(key, of.items()),
        (Shape::List { .. }, None) if has("merge") => Rule::Set,
        (Shape::List { .. }, None) => Rule::Replaced,
        (Shape::Map { .. } | Shape::Any | Shape::Whole | Shape::Scalar(_) | Shape::Metadata, _) => {
            if has("replace") {
                Rule::Replaced
            } else {
                Rule::Map(of)
            }
        }
    }
}

/// Applies a patch to a map of a type.
pub(super) fn merge(object: &mut Object, mut patch: Object, of: Type<'_>) -> Result<(), ApiError> {
    match patch.remove(PATCH) {
        None => {}
        Some(directive) if directive == "replace" => {
            *object = plain_map(patch);
            return Ok(());
        }
        Some(directive) if directive == "delete" => {
            object.clear();
            return Ok(());
        }
        Some(directive) => return Err(unknown(&directive)),
    }
    retain_keys(object, &mut patch)?;
    let mut orders = take_lists(&mut patch, ORDER).map_err(|order| {
        ApiError::Internal(format!("the value of a {ORDER} directive must be a list, but is {order}"))
    })?;
    let deletions = take_lists(&mut patch, DELETE)
        .map_err(|_| ApiError::BadRequest("invalid patch format of primitive list".into()))?;
    for (name, change) in patch {
        let (rule, order) = (rule(of, &name), orders.remove(&name));
        if let Some(value) = merged(object.remove(&name), change, rule, order.as_deref())? {
            object.insert(name, value);
        }
    }
    for (name, order) in orders {
        if let (Some(Value::Array(items)), Some(key)) = (object.get_mut(&name), rule(of, &name).key()) {
            let before = key.places(items);
            put_in_order(items, &before, &[], Some(&order), key)?;
        }
    }
    for (name, values) in deletions {
        if let Some(Value::Array(items)) = object.get_mut(&name) {
            let gone = Key::Whole.places(&values);
            items.retain(|item| Key::Whole.place(item, &gone).is_none());
        }
    }
    Ok(())
}

/// The patched value of a field; `None` if the patch removes it.
fn merged(
    old: Option<Value>,
    change: Value,
    rule: Rule<'_>,
    order: Option<&[Value]>,
) -> Result<Option<Value>, ApiError> {
    match (old, change, rule) {
        (_, Value::Null, _) => Ok(None),
        (Some(Value::Object(mut old)), Value::Object(change), Rule::Map(of)) => {
            merge(&mut old, change, of)?;
            Ok(Some(Value::Object(old)))
        }
        (Some(Value::Array(mut old)), Value::Array(change), Rule::ByKey(field, of)) => {
            let key = Key::Field(field);
            let before = key.places(&old);
            let named = merge_items(&mut old, change, key, of)?;
            put_in_order(&mut old, &before, &named, order, key)?;
            Ok(Some(Value::Array(old)))
        }
        (Some(Value::Array(mut old)), Value::Array(change), Rule::Set) => {
            let before = Key::Whole.places(&old);
            let mut seen = HashSet::new();
            old.extend(change.iter().cloned());
            old.retain(|value| seen.insert(value.to_string()));
            put_in_order(&mut old, &before, &change, order, Key::Whole)?;
            Ok(Some(Value::Array(old)))
        }
        (Some(Value::Object(_)), change @ Value::Object(_), Rule::Replaced | Rule::ByKey(..) | Rule::Set)
        | (Some(Value::Array(_)), change @ Value::Array(_), Rule::Map(_) | Rule::Replaced) => Ok(Some(plain(change))),
        // The field is absent or has another type.
        (_, change, Rule::Map(_) | Rule::Replaced | Rule::ByKey(..) | Rule::Set) => Ok(new(change)),
    }
}

/// Applies a patch to the items of a list, and returns the items that the patch names.
fn merge_items(items: &mut Vec<Value>, change: Vec<Value>, key: Key, of: Type<'_>) -> Result<Vec<Value>, ApiError> {
    let (mut named, mut gone, mut replaces) = (Vec::new(), Vec::new(), false);
    for item in change {
        let directive = item.get(PATCH);
        if directive.is_some_and(|directive| directive == "replace") {
            replaces = true;
            continue;
        }
        key.check(&item)?;
        match directive {
            None => named.push(item),
            Some(directive) if directive == "delete" => gone.push(item),
            Some(directive) => return Err(unknown(directive)),
        }
    }
    if replaces {
        // Not merged: several items may have the same key.
        *items = named.iter().cloned().map(plain).collect();
        return Ok(named);
    }
    let gone = key.places(&gone);
    items.retain(|item| key.place(item, &gone).is_none());
    let mut places = key.places(items);
    for item in &named {
        match (key.place(item, &places).and_then(|place| items.get_mut(place)), item.clone()) {
            (Some(Value::Object(old)), Value::Object(item)) => merge(old, item, of)?,
            (_, _) => {
                places.extend(key.name(item).map(|name| (name, items.len())));
                items.push(plain(item.clone()));
            }
        }
    }
    Ok(named)
}

impl Rule<'_> {
    /// The key of the items, for a list that is merged.
    fn key(self) -> Option<Key> {
        match self {
            Self::ByKey(field, _) => Some(Key::Field(field)),
            Self::Set => Some(Key::Whole),
            Self::Map(_) | Self::Replaced => None,
        }
    }
}

/// Removes the fields that `$retainKeys` does not name.
fn retain_keys(object: &mut Object, patch: &mut Object) -> Result<(), ApiError> {
    let Some(kept) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let bad = || ApiError::BadRequest("invalid patch format of retainKeys".into());
    let Value::Array(kept) = kept else { return Err(bad()) };
    let is_kept = |name: &String| kept.iter().any(|kept| kept == name);
    let sets = |(name, value): (&String, &Value)| !value.is_null() && !is_directive(name);
    if patch.iter().any(|field| sets(field) && !is_kept(field.0)) {
        return Err(bad());
    }
    object.retain(|name, _| is_kept(name));
    Ok(())
}

/// Takes the directives with this prefix from a patch, by the name of the list. The error is a value that is not a list.
fn take_lists(patch: &mut Object, prefix: &str) -> Result<BTreeMap<String, Vec<Value>>, Value> {
    let names = patch.keys().filter(|name| name.starts_with(prefix)).cloned().collect::<Vec<_>>();
    let lists = names.into_iter().filter_map(|name| match patch.remove(&name)? {
        Value::Array(list) => Some(Ok((name[prefix.len()..].to_owned(), list))),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
            Some(Err(other))
        }
    });
    lists.collect()
}

fn unknown(directive: &Value) -> ApiError {
    ApiError::Internal(format!("unknown patch type: {directive}"))
}

fn is_directive(name: &str) -> bool {
    [PATCH, RETAIN_KEYS].contains(&name) || name.starts_with(ORDER) || name.starts_with(DELETE)
}

/// The value that a patch sets for an absent field; `None` for a map with a `$patch` directive, which needs an existing map.
fn new(change: Value) -> Option<Value> {
    fn undirected(change: Value) -> Option<Value> {
        match change {
            Value::Object(map) if map.contains_key(PATCH) => None,
            Value::Object(map) => {
                let fields = map.into_iter().filter_map(|(name, value)| Some((name, undirected(value)?)));
                Some(Value::Object(fields.collect()))
            }
            Value::Array(items) => Some(items.into_iter().filter_map(undirected).collect()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(change),
        }
    }
    undirected(change).map(plain)
}

/// The value that a patch sets, without directives and nulls.
fn plain(change: Value) -> Value {
    match change {
        Value::Object(map) => Value::Object(plain_map(map)),
        Value::Array(items) => items.into_iter().map(plain).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => change,
    }
}

fn plain_map(map: Object) -> Object {
    let set = map.into_iter().filter(|(name, value)| !value.is_null() && !is_directive(name));
    set.map(|(name, value)| (name, plain(value))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{registry::Registry, schema};

    fn patched(kind: &str, object: Value, patch: Value) -> Result<Value, ApiError> {
        let (Value::Object(mut object), Value::Object(patch)) = (object, patch) else { panic!("two maps") };
        let kind = Registry::builtin_kinds().find(|built_in| built_in.kind == kind).unwrap();
        merge(&mut object, patch, schema::of(&kind)).map(|()| Value::Object(object))
    }

    /// The names of the containers of a pod that had `a`, `b` and `c`.
    fn containers(patch: &Value) -> Result<Vec<String>, ApiError> {
        let pod = json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}});
        let merged = patched("Pod", pod, json!({ "spec": patch }))?;
        let names = merged["spec"]["containers"].as_array().unwrap().iter();
        Ok(names.map(|container| container["name"].as_str().unwrap().to_owned()).collect())
    }

    #[test]
    fn items_of_a_list_are_merged_by_their_key() {
        let service =
            json!({"spec": {"ports": [{"port": 80, "name": "web"}, {"port": 443}], "externalIPs": ["1", "2"]}});

        let merged = patched(
            "Service",
            service,
            json!({"spec": {"ports": [{"port": 443, "name": "tls"}], "externalIPs": ["3"]}}),
        );

        let ports = json!([{"port": 80, "name": "web"}, {"port": 443, "name": "tls"}]);
        assert_eq!(
            merged,
            Ok(json!({"spec": {"ports": ports, "externalIPs": ["3"]}})),
            "one list is merged, one replaced"
        );
    }

    #[test]
    fn items_go_on_request_and_new_ones_have_the_place_that_is_wanted() {
        let item = |name: &str| json!({ "name": name });
        let gone = json!({"name": "b", "$patch": "delete"});
        let order = |names: &[&str]| names.iter().map(|name| item(name)).collect::<Value>();

        assert_eq!(containers(&json!({"containers": [gone]})).unwrap(), ["a", "c"]);
        assert_eq!(
            containers(&json!({"containers": [item("d")]})).unwrap(),
            ["d", "a", "b", "c"],
            "it has no place of before"
        );
        assert_eq!(containers(&json!({"containers": [item("d"), item("b")]})).unwrap(), ["d", "a", "b", "c"]);
        assert_eq!(containers(&json!({"containers": [item("c"), item("a")]})).unwrap(), ["b", "c", "a"]);
        assert_eq!(containers(&json!({"containers": [{"$patch": "replace"}, item("d")]})).unwrap(), ["d"]);
        assert_eq!(containers(&json!({"$setElementOrder/containers": order(&["c", "a"])})).unwrap(), ["b", "c", "a"]);
        let nowhere = json!({"$setElementOrder/containers": [], "containers": [item("d")]});
        assert_eq!(containers(&nowhere).unwrap(), ["a", "b", "c", "d"]);
        let both = json!({"$setElementOrder/containers": order(&["a", "d", "b"]), "containers": [item("d"), gone]});
        assert_eq!(containers(&both).unwrap(), ["a", "d", "c"]);
    }

    #[test]
    fn values_of_a_list_are_added_once_and_go_on_request() {
        let object = |finalizers: &[&str]| json!({"metadata": {"finalizers": finalizers}});
        let patch = |patch: Value| patched("ConfigMap", object(&["a", "b"]), json!({ "metadata": patch }));

        assert_eq!(patch(json!({"finalizers": ["b", "c", "c"]})), Ok(object(&["a", "b", "c"])));
        assert_eq!(patch(json!({"$deleteFromPrimitiveList/finalizers": ["a", "x"]})), Ok(object(&["b"])));
        assert_eq!(patch(json!({"$setElementOrder/finalizers": ["b", "a"]})), Ok(object(&["b", "a"])));
    }

    #[test]
    fn maps_are_merged_replaced_or_emptied() {
        let object = || json!({"data": {"a": "1", "b": {"c": "2"}}});
        let patch = |patch: Value| patched("ConfigMap", object(), json!({ "data": patch }));

        assert_eq!(
            patch(json!({"a": null, "d": {"e": null, "f": "3"}})),
            Ok(json!({"data": {"b": {"c": "2"}, "d": {"f": "3"}}}))
        );
        assert_eq!(patch(json!({"$patch": "replace", "d": "3"})), Ok(json!({"data": {"d": "3"}})));
        assert_eq!(patch(json!({"$patch": "delete"})), Ok(json!({"data": {}})));
        for directive in ["delete", "replace", "fly"] {
            let new = json!({"data": {"$patch": directive, "a": "1"}});
            assert_eq!(patched("ConfigMap", json!({}), new), Ok(json!({})), "there is no map to {directive}");
        }
        assert_eq!(
            patch(json!({"$retainKeys": ["a", "d"], "d": "3", "x": null})),
            Ok(json!({"data": {"a": "1", "d": "3"}}))
        );
        let budget = json!({"spec": {"selector": {"matchLabels": {"a": "1"}}}});
        let replaced = json!({"spec": {"selector": {"matchLabels": {"b": "1"}}}});
        assert_eq!(
            patched("PodDisruptionBudget", budget, replaced.clone()),
            Ok(replaced),
            "kube-apiserver has the same rule"
        );
    }

    #[test]
    fn what_is_new_has_no_directives_in_it() {
        let spec = json!({"containers": [{"name": "a", "env": [{"name": "x", "value": null}], "$setElementOrder/env": []}, {"name": "b", "$patch": "delete"}], "$ref": "kept"});

        let merged = patched("Pod", json!({}), json!({ "spec": spec }));

        assert_eq!(
            merged,
            Ok(json!({"spec": {"containers": [{"name": "a", "env": [{"name": "x"}]}], "$ref": "kept"}}))
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused_as_kubernetes_does() {
        let code = |patch: Value| containers(&patch).unwrap_err().code();

        assert_eq!(code(json!({"containers": [{"image": "x"}]})), 500, "no key");
        assert_eq!(code(json!({"containers": ["x"]})), 500);
        assert_eq!(code(json!({"containers": [{"name": "a", "$patch": "fly"}]})), 500);
        assert_eq!(code(json!({"$patch": "merge"})), 500);
        assert_eq!(code(json!({"containers": [{"name": "a"}], "$setElementOrder/containers": [{"name": "b"}]})), 500);
        assert_eq!(code(json!({"$setElementOrder/containers": "a"})), 500);
        assert_eq!(code(json!({"$setElementOrder/containers": ["a"]})), 500);
        assert_eq!(code(json!({"$deleteFromPrimitiveList/containers": {}})), 400);
        assert_eq!(code(json!({"$retainKeys": "a"})), 400);
        assert_eq!(code(json!({"$retainKeys": ["a"], "b": 1})), 400);
    }
}

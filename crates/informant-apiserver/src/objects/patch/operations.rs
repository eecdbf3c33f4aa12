//! JSON patches: operations are applied in order, and the size of the result is limited.
//!
//! - **In:** the operations that a client sent, and an object.
//! - **Out:** the changed object, or an error.
//!
//! Kubernetes accepts more than RFC 6902 allows; each operation is first rewritten in terms of the RFC:
//!
//! | operation | RFC 6902 | Kubernetes |
//! | --- | --- | --- |
//! | `test` of an absent key | an error | succeeds if the value is `null` |
//! | `replace` of an absent key | an error | adds it |
//! | `copy` from an absent key | an error | adds `null` |
//! | an index below 0 | an error | counts from the end of the list: `-1` is the last item, or the place behind it for `add` |
//! | `add`, `replace`, `test` without `value` | an error | the value is `null` |
//!
//! The size of the result is bounded, because each `copy` can double it.

use json_patch::{
    AddOperation, CopyOperation, MoveOperation, PatchOperation, RemoveOperation, ReplaceOperation, TestOperation,
    jsonptr::{Pointer, PointerBuf},
};
use serde_json::Value;

use crate::{
    error::ApiError,
    objects::validate::{DEEPEST, depth},
};

/// The largest number of operations, as in kube-apiserver.
const MOST: usize = 10_000;

/// The limit of JSON bytes that all operations of a patch copy, or move deeper; kube-apiserver has the same limit for copies.
const MOST_COPIED: usize = 3 * 1024 * 1024;

/// Reads the operations of a request.
pub(super) fn read(mut list: Vec<Value>) -> Result<json_patch::Patch, ApiError> {
    if list.len() > MOST {
        return Err(ApiError::TooManyOperations { most: MOST, got: list.len() });
    }
    for operation in list.iter_mut().filter_map(Value::as_object_mut) {
        if matches!(operation.get("op").and_then(Value::as_str), Some("add" | "replace" | "test")) {
            operation.entry("value").or_insert(Value::Null);
        }
    }
    // The list contains something other than operations.
    serde_json::from_value(Value::from(list)).map_err(|_| ApiError::BadPatch)
}

/// Applies the operations to an object.
pub(super) fn apply(operations: &json_patch::Patch, mut object: Value) -> Result<Value, ApiError> {
    let mut copied = 0;
    for operation in &operations.0 {
        let Some(operation) = &to_rfc_6902(operation, &object) else { continue };
        let added = match operation {
            PatchOperation::Add(add) => Some(&add.value),
            PatchOperation::Replace(replace) => Some(&replace.value),
            // The moved value does not get deeper.
            PatchOperation::Move(moving) if moving.path.count() <= moving.from.count() => None,
            PatchOperation::Move(MoveOperation { from, .. }) | PatchOperation::Copy(CopyOperation { from, .. }) => {
                let added = from.resolve(&object).ok();
                copied += added.map_or(0, |value| value.to_string().len());
                added
            }
            PatchOperation::Remove(_) | PatchOperation::Test(_) => None,
        };
        if copied > MOST_COPIED || operation.path().count() + added.map_or(0, depth) > DEEPEST {
            return Err(ApiError::BadPatch);
        }
        json_patch::patch(&mut object, std::slice::from_ref(operation)).map_err(|_| ApiError::BadPatch)?;
    }
    Ok(object)
}

/// Translates an operation into one that has the same effect under RFC 6902. `None` if it succeeds without a change.
fn to_rfc_6902(operation: &PatchOperation, object: &Value) -> Option<PatchOperation> {
    let counted = |path: &Pointer| resolve_negative_indexes(path, object, 0, None);
    let target = |path: &Pointer| resolve_negative_indexes(path, object, 1, None);
    Some(match operation {
        PatchOperation::Add(AddOperation { path, value }) => {
            PatchOperation::Add(AddOperation { path: target(path), value: value.clone() })
        }
        PatchOperation::Remove(RemoveOperation { path }) => {
            PatchOperation::Remove(RemoveOperation { path: counted(path) })
        }
        PatchOperation::Replace(ReplaceOperation { path, value }) => {
            let (path, value) = (counted(path), value.clone());
            match is_absent_key(&path, object) {
                true => PatchOperation::Add(AddOperation { path, value }),
                false => PatchOperation::Replace(ReplaceOperation { path, value }),
            }
        }
        PatchOperation::Move(MoveOperation { from, path }) => {
            let from = counted(from);
            let path = resolve_negative_indexes(path, object, 1, from.parent());
            PatchOperation::Move(MoveOperation { from, path })
        }
        PatchOperation::Copy(CopyOperation { from, path }) => {
            let (from, path) = (counted(from), target(path));
            match is_absent_key(&from, object) {
                true => PatchOperation::Add(AddOperation { path, value: Value::Null }),
                false => PatchOperation::Copy(CopyOperation { from, path }),
            }
        }
        PatchOperation::Test(TestOperation { path, value }) => {
            let path = counted(path);
            if value.is_null() && is_absent_key(&path, object) {
                return None;
            }
            PatchOperation::Test(TestOperation { path, value: value.clone() })
        }
    })
}

/// Returns true if the path leads to a map without its last key.
fn is_absent_key(path: &Pointer, object: &Value) -> bool {
    let Some((map, key)) = path.split_back() else { return false };
    let map = map.resolve(object).ok().and_then(Value::as_object);
    map.is_some_and(|map| !map.contains_key(&*key.decoded()))
}

/// Replaces every negative index by the index that it stands for. With `past_end` = 1, the last index may be the one behind the last
/// item, as `add` needs. An index before the start of its list is kept, so that the operation fails. The list at `shortened` counts as
/// one item shorter: `move` takes an item out of it first.
fn resolve_negative_indexes(
    path: &Pointer,
    object: &Value,
    past_end: usize,
    shortened: Option<&Pointer>,
) -> PointerBuf {
    let mut counted = PointerBuf::new();
    let mut tokens = path.tokens().peekable();
    while let Some(token) = tokens.next() {
        let list = counted.resolve(object).ok().and_then(Value::as_array);
        let past_end = if tokens.peek().is_none() { past_end } else { 0 };
        let from_end = token.encoded().strip_prefix('-').and_then(|digits| digits.parse::<usize>().ok());
        let removed = usize::from(shortened == Some(&*counted));
        let length = |list: &Vec<Value>| (list.len() + past_end).saturating_sub(removed);
        let index = list.zip(from_end).and_then(|(list, from_end)| length(list).checked_sub(from_end));
        match index {
            Some(index) => counted.push_back(index),
            None => counted.push_back(token),
        }
    }
    counted
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_beyond_rfc_6902_behave_as_in_kube_apiserver() {
        let object = json!({"map": {"a": "1"}, "list": [{"n": 1}, {"n": 2}]});
        let result = |operation: Value| {
            let operations = read(vec![operation]).map_err(|error| error.code())?;
            apply(&operations, object.clone()).map_err(|error| error.code())
        };
        let with = |path: &str, value: Value| {
            let mut changed = object.clone();
            *changed.pointer_mut(path).unwrap() = value;
            Ok(changed)
        };

        assert_eq!(result(json!({"op": "test", "path": "/map/b", "value": null})), Ok(object.clone()));
        assert_eq!(result(json!({"op": "test", "path": "/map/b"})), Ok(object.clone()));
        assert_eq!(result(json!({"op": "test", "path": "/map/a", "value": null})), Err(422));
        assert_eq!(result(json!({"op": "test", "path": "/map/b", "value": "1"})), Err(422));
        assert_eq!(result(json!({"op": "test", "path": "/none/b", "value": null})), Err(422));
        assert_eq!(result(json!({"op": "test", "path": "/list/2", "value": null})), Err(422));
        let replace = |path: &str| result(json!({"op": "replace", "path": path, "value": 7}));
        assert_eq!(replace("/map/b"), with("/map", json!({"a": "1", "b": 7})));
        assert_eq!(replace("/list/-1"), with("/list/1", json!(7)));
        assert_eq!(replace("/list/-1/n"), with("/list/1/n", json!(7)));
        assert_eq!(replace("/list/2"), Err(422));
        assert_eq!(replace("/list/-3"), Err(422));
        assert_eq!(replace("/none/b"), Err(422));
        let add = |path: &str| result(json!({"op": "add", "path": path, "value": 7}));
        assert_eq!(add("/list/-1"), with("/list", json!([{"n": 1}, {"n": 2}, 7])));
        assert_eq!(add("/list/-3"), with("/list", json!([7, {"n": 1}, {"n": 2}])));
        assert_eq!(add("/list/-4"), Err(422));
        assert_eq!(result(json!({"op": "add", "path": "/map/b"})), with("/map", json!({"a": "1", "b": null})));
        let remove = |path: &str| result(json!({"op": "remove", "path": path}));
        assert_eq!(remove("/list/-2"), with("/list", json!([{"n": 2}])));
        assert_eq!(remove("/map/b"), Err(422));
        let copy = |from: &str| result(json!({"op": "copy", "from": from, "path": "/map/b"}));
        assert_eq!(copy("/map/none"), with("/map", json!({"a": "1", "b": null})));
        assert_eq!(copy("/list/-1"), with("/map", json!({"a": "1", "b": {"n": 2}})));
        let moved = result(json!({"op": "move", "from": "/list/0", "path": "/list/-1"}));
        assert_eq!(moved, with("/list", json!([{"n": 2}, {"n": 1}])));
        assert_eq!(result(json!({"op": "move", "from": "/map/none", "path": "/map/b"})), Err(422));
    }

    fn patched(operations: Vec<Value>) -> Result<Value, u16> {
        let operations = read(operations).map_err(|error| error.code())?;
        apply(&operations, json!({"data": {"a": "1", "b": "2"}})).map_err(|error| error.code())
    }

    #[test]
    fn operations_are_done_in_order_or_not_at_all() {
        let add = json!({"op": "add", "path": "/data/c", "value": "3"});
        let test = |value: &str| json!({"op": "test", "path": "/data/c", "value": value});

        assert_eq!(patched(vec![add.clone(), test("3")]).unwrap()["data"]["c"], "3");
        assert_eq!(patched(vec![add, test("4")]), Err(422));
        assert_eq!(patched(vec![json!({"op": "fly", "path": "/data"})]), Err(422));
    }

    /// Each of them doubles it, or makes it deeper: without bounds, a few hundred bytes would be enough for any memory or stack.
    #[test]
    fn a_small_patch_makes_no_huge_object() {
        let copy = |to: String| json!({"op": "copy", "from": "/data", "path": to});

        assert!(patched((0..10).map(|number| copy(format!("/data/{number}"))).collect()).is_ok());
        assert_eq!(patched((0..30).map(|number| copy(format!("/data/{number}"))).collect()), Err(422));
        assert_eq!(patched((0..5000).map(|_| copy("/data/c".to_owned())).collect()), Err(422));
        let deeper = (1..2000)
            .map(|levels| json!({"op": "add", "path": "/data".to_owned() + &"/c".repeat(levels), "value": {}}));
        assert_eq!(patched(deeper.collect()), Err(422));
        let dig = |from: &str, to: &str| json!({"op": "move", "from": from, "path": to});
        let large = json!({"op": "add", "path": "/data/c", "value": "x".repeat(1_000_000)});
        let level = [large.clone(), dig("/data/c", "/data/d"), dig("/data/d", "/data/c")];
        assert!(patched(level[..1].iter().chain(level[1..].iter().cycle().take(100)).cloned().collect()).is_ok());
        let hole = json!({"op": "add", "path": "/hole", "value": {}});
        let deep = [large, hole, dig("/data/c", "/hole/c"), dig("/hole/c", "/c"), dig("/c", "/hole/c")];
        let deeper = |moves| patched(deep[..3].iter().chain(deep[3..].iter().cycle().take(moves)).cloned().collect());
        assert!(deeper(2).is_ok(), "two of them move a megabyte deeper");
        assert_eq!(deeper(20), Err(422));
        let test = json!({"op": "test", "path": "/data/a", "value": "1"});
        assert!(patched(vec![test.clone(); 10_000]).is_ok());
        assert_eq!(patched(vec![test; 10_001]), Err(413));
    }
}

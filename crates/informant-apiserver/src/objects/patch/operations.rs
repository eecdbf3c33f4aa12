//! JSON patches (RFC 6902): one operation after the other, within bounds.
//!
//! What a few bytes of patch can make of an object is bounded here, since a copy can double it each time.

use json_patch::CopyOperation;
use json_patch::MoveOperation;
use json_patch::PatchOperation;
use serde_json::Value;

use crate::error::ApiError;
use crate::objects::validate::DEEPEST;
use crate::objects::validate::depth;

/// As many as Kubernetes takes.
const MOST: usize = 10_000;

/// How much may be copied, or moved deeper, by all of them, in bytes of JSON; as much as may be copied in Kubernetes.
const MOST_COPIED: usize = 3 * 1024 * 1024;

/// Reads what a client sent.
pub(super) fn read(list: Vec<Value>) -> Result<json_patch::Patch, ApiError> {
    if list.len() > MOST {
        return Err(ApiError::TooManyOperations { most: MOST, got: list.len() });
    }
    // A list, but not of operations that anybody knows.
    serde_json::from_value(Value::from(list)).map_err(|_| ApiError::BadPatch)
}

/// The object with the change.
pub(super) fn apply(operations: &json_patch::Patch, mut object: Value) -> Result<Value, ApiError> {
    let mut copied = 0;
    for operation in &operations.0 {
        let added = match operation {
            PatchOperation::Add(add) => Some(&add.value),
            PatchOperation::Replace(replace) => Some(&replace.value),
            // Nothing gets deeper.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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

//! Changes to an object that a client describes instead of sending the whole: RFC 7386 and RFC 6902.
//!
//! - **In:** a content type and a body; an object.
//! - **Out:** the object as it would be.
//! - **Knows nothing of:** storage, rules of updates.

use serde_json::Value;

use crate::error::ApiError;

/// A change that a client describes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Patch {
    /// What is in it replaces what is there, and `null` removes it.
    Merge(Value),
    /// One operation after the other.
    Operations(json_patch::Patch),
}

const MERGE: &str = "application/merge-patch+json";
const OPERATIONS: &str = "application/json-patch+json";

/// The content types of patches that are understood.
pub(crate) const ACCEPTED: &str = "application/json-patch+json, application/merge-patch+json";

impl Patch {
    /// Reads what a client sent; none if it is of a type that nobody here understands.
    pub(crate) fn read(content_type: &str, body: &[u8]) -> Option<Result<Self, ApiError>> {
        let undecodable = |error: serde_json::Error| ApiError::BadRequest(format!("error decoding patch: {error}"));
        match content_type {
            MERGE => Some(match serde_json::from_slice(body).map_err(undecodable) {
                Ok(patch @ Value::Object(_)) => Ok(Self::Merge(patch)),
                Ok(_) => Err(ApiError::BadRequest("error decoding patch: it is not a JSON object".into())),
                Err(error) => Err(error),
            }),
            OPERATIONS => {
                let list = serde_json::from_slice::<Vec<Value>>(body).map_err(undecodable);
                Some(list.and_then(|list| {
                    // A list, but not of operations that anybody knows.
                    serde_json::from_value(Value::from(list)).map(Self::Operations).map_err(|_| ApiError::BadPatch)
                }))
            }
            _ => None,
        }
    }

    /// The object with the change.
    pub(crate) fn apply(&self, mut object: Value) -> Result<Value, ApiError> {
        match self {
            Self::Merge(patch) => json_patch::merge(&mut object, patch),
            Self::Operations(operations) => {
                json_patch::patch(&mut object, operations).map_err(|_| ApiError::BadPatch)?;
            }
        }
        Ok(object)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(content_type: &str, patch: &Value) -> Result<Value, u16> {
        let patch = Patch::read(content_type, patch.to_string().as_bytes()).unwrap().map_err(|error| error.code())?;
        patch.apply(json!({"data": {"a": "1", "b": "2"}})).map_err(|error| error.code())
    }

    #[test]
    fn a_merge_replaces_adds_and_removes() {
        let merged = patched(MERGE, &json!({"data": {"a": null, "b": "3", "c": "4"}}));
        assert_eq!(merged, Ok(json!({"data": {"b": "3", "c": "4"}})));
        assert_eq!(patched(MERGE, &json!([])), Err(400));
    }

    #[test]
    fn operations_are_done_in_order_or_not_at_all() {
        let add = json!({"op": "add", "path": "/data/c", "value": "3"});
        let test = |value: &str| json!({"op": "test", "path": "/data/c", "value": value});

        assert_eq!(patched(OPERATIONS, &json!([add, test("3")])).unwrap()["data"]["c"], "3");
        assert_eq!(patched(OPERATIONS, &json!([add, test("4")])), Err(422));
        assert_eq!(patched(OPERATIONS, &json!([{"op": "fly", "path": "/data"}])), Err(422));
        assert_eq!(patched(OPERATIONS, &json!({})), Err(400));
    }
}

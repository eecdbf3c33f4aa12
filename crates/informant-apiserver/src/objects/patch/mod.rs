//! Patches: merge patches (RFC 7386), JSON patches (RFC 6902, `operations`) and strategic merge patches (`strategic`).
//!
//! - **In:** a content type and a body; an object and its kind.
//! - **Out:** the patched object.
//! - **Knows nothing of:** storage, rules of updates.

mod operations;
mod order;
mod strategic;

use serde_json::{Map, Value};

use crate::{
    error::ApiError,
    registry::kind::{Kind, Origin},
    schema,
};

/// A patch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Patch {
    /// A merge patch: its values replace those of the object, and `null` removes them.
    Merge(Value),
    /// A strategic merge patch: a merge patch that merges some lists item by item.
    Strategic(Map<String, Value>),
    /// A JSON patch: operations that are applied in order.
    Operations(json_patch::Patch),
}

const MERGE: &str = "application/merge-patch+json";
const OPERATIONS: &str = "application/json-patch+json";

const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// The supported content types of patches. Strategic merge patches need the rules of built-in kinds.
pub(crate) fn media_types(kind: &Kind) -> &'static str {
    match kind.origin {
        Origin::BuiltIn => {
            "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml"
        }
        Origin::Custom => "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
    }
}

impl Patch {
    /// Reads the body of a request.
    pub(crate) fn read(kind: &Kind, content_type: &str, body: &[u8]) -> Result<Self, ApiError> {
        let undecodable = |error: serde_json::Error| ApiError::BadRequest(format!("error decoding patch: {error}"));
        match (content_type, kind.origin) {
            (MERGE, _) => serde_json::from_slice(body).map(Value::Object).map(Self::Merge).map_err(undecodable),
            (STRATEGIC, Origin::BuiltIn) => serde_json::from_slice(body).map(Self::Strategic).map_err(undecodable),
            (OPERATIONS, _) => {
                let list = serde_json::from_slice(body).map_err(undecodable)?;
                operations::read(list).map(Self::Operations)
            }
            (_, Origin::BuiltIn | Origin::Custom) => {
                Err(ApiError::UnsupportedMediaType { accepted: media_types(kind), advice: None })
            }
        }
    }

    /// Applies the patch to an object.
    pub(crate) fn apply(&self, kind: &Kind, object: Map<String, Value>) -> Result<Value, ApiError> {
        match self {
            Self::Merge(patch) => {
                let mut object = Value::Object(object);
                json_patch::merge(&mut object, patch);
                Ok(object)
            }
            Self::Strategic(patch) => {
                let mut object = object;
                strategic::merge(&mut object, patch.clone(), schema::of(kind))?;
                Ok(Value::Object(object))
            }
            Self::Operations(operations) => operations::apply(operations, Value::Object(object)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(content_type: &str, patch: &Value) -> Result<Value, u16> {
        let kind = Kind::new("", "v1", "ConfigMap", "configmaps");
        let patch = Patch::read(&kind, content_type, patch.to_string().as_bytes()).map_err(|error| error.code())?;
        let Value::Object(object) = json!({"data": {"a": "1", "b": "2"}}) else { panic!("it is an object") };
        patch.apply(&kind, object).map_err(|error| error.code())
    }

    #[test]
    fn a_merge_replaces_adds_and_removes() {
        let merged = patched(MERGE, &json!({"data": {"a": null, "b": "3", "c": "4"}}));
        assert_eq!(merged, Ok(json!({"data": {"b": "3", "c": "4"}})));
        assert_eq!(patched(MERGE, &json!([])), Err(400));
        assert_eq!(patched(OPERATIONS, &json!({})), Err(400));
    }
}

//! The object types that this program caches, and how each is converted to JSON.

use informant::{Lazy, Object, error::DecodeError, index::Labelled};
use kube::core::{DynamicObject, PartialObjectMeta};
use serde_json::Value;

/// An object type that can be printed.
pub trait PrintableObject: Object + Labelled {
    /// Whether the type holds only the metadata of an object.
    const IS_METADATA_ONLY: bool;

    /// Returns the object as one line of JSON.
    fn to_json(&self) -> Result<String, DecodeError>;

    /// Returns the object as a JSON value. Fails if a number in a lazily decoded object is out of range.
    fn to_value(&self) -> Result<Value, DecodeError>;
}

/// A decoded object type: a whole object, or its metadata.
pub trait DecodedObject:
    kube::Resource + Clone + serde::Serialize + serde::de::DeserializeOwned + Send + Sync + 'static
{
    const IS_METADATA_ONLY: bool;
}

impl DecodedObject for DynamicObject {
    const IS_METADATA_ONLY: bool = false;
}

impl DecodedObject for PartialObjectMeta<DynamicObject> {
    const IS_METADATA_ONLY: bool = true;
}

impl<K: DecodedObject> PrintableObject for Lazy<K> {
    const IS_METADATA_ONLY: bool = K::IS_METADATA_ONLY;

    fn to_json(&self) -> Result<String, DecodeError> {
        self.json().map(|json| json.to_string())
    }

    fn to_value(&self) -> Result<Value, DecodeError> {
        self.peek()
    }
}

impl<K: DecodedObject> PrintableObject for K {
    const IS_METADATA_ONLY: bool = <K as DecodedObject>::IS_METADATA_ONLY;

    fn to_json(&self) -> Result<String, DecodeError> {
        // Cannot fail: the object was decoded from JSON.
        Ok(serde_json::to_string(self).unwrap_or_default())
    }

    fn to_value(&self) -> Result<Value, DecodeError> {
        // Cannot fail: the object was decoded from JSON.
        Ok(serde_json::to_value(self).unwrap_or_default())
    }
}

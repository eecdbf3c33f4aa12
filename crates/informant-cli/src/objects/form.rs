//! The forms in which objects are held, and how each is read.

use std::borrow::Cow;

use informant::Lazy;
use informant::Object;
use informant::object::DecodeError;
use informant::object::Labelled;
use kube::core::DynamicObject;
use kube::core::PartialObjectMeta;
use serde_json::Value;

/// A form that can be shown.
pub trait Form: Object + Labelled {
    /// Whether it has nothing but metadata.
    const IS_OF_METADATA: bool;

    /// As a line of JSON.
    fn to_json(&self) -> Cow<'_, str>;

    /// As a value. Of an object that is held as JSON nobody knows before whether each number can be held.
    fn to_value(&self) -> Result<Value, DecodeError>;
}

/// A decoded form: all of an object, or its metadata.
pub trait Decoded: kube::Resource + serde::Serialize + serde::de::DeserializeOwned + Send + Sync + 'static {
    const IS_OF_METADATA: bool;
}

impl Decoded for DynamicObject {
    const IS_OF_METADATA: bool = false;
}

impl Decoded for PartialObjectMeta<DynamicObject> {
    const IS_OF_METADATA: bool = true;
}

impl<K: Decoded> Form for Lazy<K> {
    const IS_OF_METADATA: bool = K::IS_OF_METADATA;

    fn to_json(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.json())
    }

    fn to_value(&self) -> Result<Value, DecodeError> {
        self.peek()
    }
}

impl<K: Decoded> Form for K {
    const IS_OF_METADATA: bool = <K as Decoded>::IS_OF_METADATA;

    fn to_json(&self) -> Cow<'_, str> {
        // It was JSON before.
        Cow::Owned(serde_json::to_string(self).unwrap_or_default())
    }

    fn to_value(&self) -> Result<Value, DecodeError> {
        // It was JSON before.
        Ok(serde_json::to_value(self).unwrap_or_default())
    }
}

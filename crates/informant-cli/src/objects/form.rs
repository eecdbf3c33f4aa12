//! The forms in which objects are held, and how each is read.

use std::borrow::Cow;

use informant::Labelled;
use informant::Lazy;
use informant::Object;
use kube::core::DynamicObject;
use kube::core::PartialObjectMeta;
use serde_json::Value;

/// A form that can be shown.
pub trait Form: Object + Labelled {
    /// Whether it has nothing but metadata.
    const IS_OF_METADATA: bool;

    /// As a line of JSON.
    fn to_json(&self) -> Cow<'_, str>;

    /// As a value.
    fn to_value(&self) -> Value;
}

/// A kind that is known at run time: all of it, or its metadata.
pub trait Whole: kube::Resource + serde::Serialize + serde::de::DeserializeOwned + Send + Sync + 'static {
    const IS_OF_METADATA: bool;
}

impl Whole for DynamicObject {
    const IS_OF_METADATA: bool = false;
}

impl Whole for PartialObjectMeta<DynamicObject> {
    const IS_OF_METADATA: bool = true;
}

impl<K: Whole> Form for Lazy<K> {
    const IS_OF_METADATA: bool = K::IS_OF_METADATA;

    fn to_json(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.json())
    }

    fn to_value(&self) -> Value {
        // Its syntax was checked when it came.
        serde_json::from_str(self.json()).unwrap_or_default()
    }
}

impl<K: Whole> Form for K {
    const IS_OF_METADATA: bool = <K as Whole>::IS_OF_METADATA;

    fn to_json(&self) -> Cow<'_, str> {
        Cow::Owned(self.to_value().to_string())
    }

    fn to_value(&self) -> Value {
        // It was JSON before.
        serde_json::to_value(self).unwrap_or_default()
    }
}

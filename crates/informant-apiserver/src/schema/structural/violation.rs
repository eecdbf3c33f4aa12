//! What is wrong with a value, in the words of kube-apiserver.
//!
//! - **In:** a path, and what the schema demands there.
//! - **Out:** a [`Cause`] of the error.

use serde_json::Value;

use crate::{
    error::Cause,
    schema::structural::{number::Number, path::Path},
};

/// A value that a schema does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    reason: &'static str,
    /// The path below the value that was checked. Empty for that value itself, and for what concerns several schemas.
    path: String,
    message: String,
}

impl Violation {
    pub(crate) fn new(reason: &'static str, path: &Path<'_>, message: String) -> Self {
        Self { reason, path: path.to_string(), message }
    }

    pub(super) fn required(path: &Path<'_>, why: &str) -> Self {
        let separator = if why.is_empty() { "" } else { ": " };
        Self::new("FieldValueRequired", path, format!("Required value{separator}{why}"))
    }

    pub(super) fn forbidden(path: &Path<'_>, why: &str) -> Self {
        Self::new("FieldValueForbidden", path, format!("Forbidden: {why}"))
    }

    pub(super) fn duplicate(path: &Path<'_>, value: &Value) -> Self {
        Self::new("FieldValueDuplicate", path, format!("Duplicate value: {}", shown(value)))
    }

    /// A value that breaks a rule which names it. `value` is already printed.
    pub(super) fn invalid(path: &Path<'_>, value: &str, why: &str) -> Self {
        Self::new("FieldValueInvalid", path, format!("Invalid value: {value}: {why}"))
    }

    /// A value that breaks a limit of its schema.
    pub(super) fn broken_limit(path: &Path<'_>, value: &str, limit: &str) -> Self {
        Self::invalid(path, value, &format!("{path} in body {limit}"))
    }

    /// A value of another type, or with another format, than the schema demands.
    pub(super) fn wrong_type(path: &Path<'_>, expected: &str, found: &str) -> Self {
        let message = format!("Invalid value: {found:?}: {path} in body must be of type {expected}: {found:?}");
        Self::new("FieldValueTypeInvalid", path, message)
    }

    pub(super) fn unsupported(path: &Path<'_>, value: &str, supported: impl IntoIterator<Item = String>) -> Self {
        let supported: Vec<_> = supported.into_iter().map(|value| format!("{value:?}")).collect();
        let message = format!("Unsupported value: {value}: supported values: {}", supported.join(", "));
        Self::new("FieldValueNotSupported", path, message)
    }

    pub(super) fn too_long(path: &Path<'_>, longest: i64) -> Self {
        let bytes = if longest == 1 { "byte" } else { "bytes" };
        Self::new("FieldValueTooLong", path, format!("Too long: may not be more than {longest} {bytes}"))
    }

    pub(super) fn too_many(path: &Path<'_>, got: usize, most: i64) -> Self {
        let items = if most == 1 { "item" } else { "items" };
        Self::new("FieldValueTooMany", path, format!("Too many: {got}: must have at most {most} {items}"))
    }

    /// An error that kube-apiserver reports without a field.
    pub(super) fn without_field(why: &str) -> Self {
        Self::invalid(&Path::root(""), "\"\"", why)
    }

    /// The same violation of a value at `place`, whose message keeps the path below it.
    pub(super) fn below(mut self, place: &Path<'_>) -> Self {
        let separator = if self.path.is_empty() { "" } else { "." };
        self.path = format!("{place}{separator}{}", self.path);
        self
    }

    /// The field and the message, as in the response.
    pub(super) fn as_text(&self) -> String {
        format!("{}: {}", self.path, self.message)
    }

    /// Returns true if the CEL rules of the object are not run because of this violation.
    pub(crate) fn blocks_rules(&self) -> bool {
        const BLOCKING: [&str; 5] = [
            "FieldValueNotSupported",
            "FieldValueRequired",
            "FieldValueTooLong",
            "FieldValueTooMany",
            "FieldValueTypeInvalid",
        ];
        BLOCKING.contains(&self.reason)
    }

    /// The entry in the response. `place` is the path of the value that was checked.
    pub(crate) fn into_cause(self, place: &str) -> Cause {
        let field = match (place.is_empty(), self.path.is_empty()) {
            (true, true) => "<nil>".to_owned(),
            (true, false) => self.path,
            (false, true) => place.to_owned(),
            (false, false) => format!("{place}.{}", self.path),
        };
        Cause { reason: self.reason, field: field.into(), message: self.message }
    }
}

/// A value as it stands in an error.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Number(number) => Number::read(number).to_string(),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

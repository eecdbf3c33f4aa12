//! Why the bytes of an object could not be decoded.

use kube::core::TypeMeta;

use crate::{Key, error::one_line};

/// Why the bytes of an object could not be decoded: which object, at which byte, and what is wrong there.
///
/// The message never quotes the object's content, which may be secret; the source of [`Field`](Self::Field) may quote the
/// value of the wrong type.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes are not one JSON object.
    #[error("{}: {problem} at byte {offset}", subject(.key))]
    Syntax {
        /// The object, if its name was read before the problem.
        key: Option<Key>,
        /// The position in the received bytes.
        offset: usize,
        /// What is wrong there.
        problem: SyntaxProblem,
    },

    /// A field of the identity appears twice, so the object has no certain identity.
    #[error("{}: {field} appears twice, again at byte {offset}", subject(.key))]
    DuplicateField {
        /// The object, as the first appearance names it.
        key: Option<Key>,
        /// The field's path.
        field: &'static str,
        /// The position in the received bytes.
        offset: usize,
    },

    /// A field of the metadata has the wrong type.
    #[error("{}: {field} must be {expected}, at byte {offset}", subject(.key))]
    BadMetadata {
        /// The object, if its name was read before the problem.
        key: Option<Key>,
        /// The field's path.
        field: &'static str,
        /// The type that it must have.
        expected: &'static str,
        /// The position in the received bytes.
        offset: usize,
    },

    /// The object has no name.
    #[error("object without metadata.name")]
    NoName,

    /// The object is of another kind than the requested one.
    #[error("{key}: expected {expected}, found {}", one_line(found))]
    WrongType {
        /// The object.
        key: Key,
        /// `apiVersion, Kind` that was requested.
        expected: String,
        /// `apiVersion, Kind` of the object.
        found: String,
    },

    /// The object is larger than the [size limit](crate::listwatch::ReflectorBuilder::size_limit).
    #[error("{}: larger than {limit} bytes; raise `size_limit` if such objects are valid", subject(.key))]
    TooLarge {
        /// The object, if its name could be read.
        key: Option<Key>,
        /// The limit in bytes.
        limit: usize,
    },

    /// A field does not have the type that it is decoded into.
    #[error("{key}: cannot decode {}", one_line(if path == "." { "the object" } else { path }))]
    Field {
        /// The object.
        key: Key,
        /// The field's path, such as `spec.containers[0].image`; `.` for the object itself.
        ///
        /// serde decodes untagged and internally tagged enums, and flattened fields, from a copy of the JSON. If a field in them
        /// has the wrong type, this is the path of the enum, or of the object with the flattened fields. If the content of an adjacently tagged
        /// enum comes before its tag, this is the path of the tag.
        path: String,
        /// The error of serde_json, with the position in [`Lazy::json`](crate::Lazy::json).
        source: serde_json::Error,
    },

    /// The packed JSON of the object cannot be unpacked.
    #[error("{key}: its packed JSON is damaged")]
    Damaged {
        /// The object.
        key: Key,
    },

    /// The informer's transform returned an error for the object, or panicked.
    #[error("{key}: the transform failed")]
    Transform {
        /// The object.
        key: Key,
        /// The error, or the message of the panic.
        source: Box<dyn std::error::Error + Send + Sync>,
    },

    /// The [`Object::decode`](crate::Object::decode) of a user's own type returned an error, or panicked.
    #[error("{key}: refused")]
    Refused {
        /// The object.
        key: Key,
        /// The error, or the message of the panic.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// What is wrong with JSON at one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SyntaxProblem {
    /// The JSON ends before the object does.
    #[error("JSON ends too early")]
    Truncated,
    /// The JSON is not an object.
    #[error("expected a JSON object")]
    NotAnObject,
    /// A byte that JSON does not allow there.
    #[error("unexpected byte")]
    UnexpectedByte,
    /// More bytes follow the object.
    #[error("unexpected data after the object")]
    TrailingData,
    /// A number in a form that JSON does not allow.
    #[error("malformed number")]
    BadNumber,
    /// A backslash that does not start a JSON escape, or half of a surrogate pair.
    #[error("malformed escape in a string")]
    BadEscape,
    /// A control character that is not escaped.
    #[error("control character in a string")]
    ControlCharacter,
    /// Bytes that are not UTF-8.
    #[error("invalid UTF-8")]
    InvalidUtf8,
    /// Objects and arrays that are nested deeper than serde_json accepts.
    #[error("nested deeper than {} levels", super::walk::MAX_DEPTH)]
    TooDeep,
}

impl DecodeError {
    pub(crate) fn wrong_type(key: Key, expected: &TypeMeta, api_version: &str, kind: &str) -> Self {
        let expected = format!("{}, {}", expected.api_version, expected.kind);
        Self::WrongType { key, expected, found: format!("{api_version}, {kind}") }
    }

    /// The object that did not decode, if its name could be read.
    pub fn key(&self) -> Option<&Key> {
        match self {
            Self::Syntax { key, .. }
            | Self::DuplicateField { key, .. }
            | Self::BadMetadata { key, .. }
            | Self::TooLarge { key, .. } => key.as_ref(),
            Self::NoName => None,
            Self::WrongType { key, .. }
            | Self::Field { key, .. }
            | Self::Damaged { key }
            | Self::Transform { key, .. }
            | Self::Refused { key, .. } => Some(key),
        }
    }
}

/// The object an error message is about.
fn subject(key: &Option<Key>) -> &str {
    key.as_ref().map_or("object without a readable name", Key::as_str)
}

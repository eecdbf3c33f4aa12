//! Why bytes did not become an object.

use crate::Key;

/// Why bytes did not become an object: which object, where, and what is wrong there.
///
/// Its own message never quotes the object, which may be secret; the source of [`Field`](Self::Field) may quote the
/// value that does not fit.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes are not one JSON object.
    #[error("{}: {problem} at byte {offset}", Subject(.key.as_ref()))]
    Syntax {
        /// The object, if its name was read before the trouble.
        key: Option<Key>,
        /// Where in the bytes as they came.
        offset: usize,
        /// What is wrong there.
        problem: SyntaxProblem,
    },

    /// A field that says who the object is stands there twice, so the object has no certain identity.
    #[error("{}: {field} appears twice, again at byte {offset}", Subject(.key.as_ref()))]
    DuplicateField {
        /// The object, as the first appearance names it.
        key: Option<Key>,
        /// The field's path.
        field: &'static str,
        /// Where in the bytes as they came.
        offset: usize,
    },

    /// A field of the metadata has a type that it must not have.
    #[error("{}: {field} must be {expected}, at byte {offset}", Subject(.key.as_ref()))]
    BadMetadata {
        /// The object, if its name was read before the trouble.
        key: Option<Key>,
        /// The field's path.
        field: &'static str,
        /// What it must be.
        expected: &'static str,
        /// Where in the bytes as they came.
        offset: usize,
    },

    /// The object has no name.
    #[error("object without metadata.name")]
    NoName,

    /// The object is of another kind than the one asked for.
    #[error("{key}: expected {expected}, found {found}")]
    WrongType {
        /// The object.
        key: Key,
        /// `apiVersion, Kind` that was asked for.
        expected: String,
        /// `apiVersion, Kind` that came.
        found: String,
    },

    /// A field does not fit the type it is decoded into.
    #[error("{key}: cannot decode {}", if path == "." { "the object" } else { path })]
    Field {
        /// The object.
        key: Key,
        /// The field's path, such as `spec.containers[0].image`; `.` for the object itself.
        ///
        /// serde decodes untagged and internally tagged enums, and flattened fields, from a copy of the JSON. If something in them
        /// does not fit, the path is that of the enum, or of the object with the flattened fields. For an adjacently tagged enum whose
        /// content stands before its tag, it is that of the tag.
        path: String,
        /// What does not fit, and where in [`Lazy::json`](crate::Lazy::json).
        source: serde_json::Error,
    },

    /// The transform that the user wants objects to go through failed, or panicked.
    #[error("{key}: the transform failed")]
    Transform {
        /// The object.
        key: Key,
        /// The user's reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },

    /// An [`Object`](crate::Object) of the user's own refused it, or panicked.
    #[error("{key}: refused")]
    Refused {
        /// The object.
        key: Key,
        /// The user's reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// What is wrong with the JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SyntaxProblem {
    /// It ends in the middle.
    #[error("JSON ends too early")]
    Truncated,
    /// Something else than a JSON object.
    #[error("expected a JSON object")]
    NotAnObject,
    /// A byte that cannot stand there.
    #[error("unexpected byte")]
    UnexpectedByte,
    /// Something follows the object.
    #[error("unexpected data after the object")]
    TrailingData,
    /// A number that JSON does not know.
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
    /// Objects and arrays within each other, deeper than any decoder accepts.
    #[error("nested deeper than {} levels", super::walk::MAX_DEPTH)]
    TooDeep,
}

impl DecodeError {
    /// The object that did not decode, if its name could be read.
    pub fn key(&self) -> Option<&Key> {
        match self {
            Self::Syntax { key, .. } | Self::DuplicateField { key, .. } | Self::BadMetadata { key, .. } => key.as_ref(),
            Self::NoName => None,
            Self::WrongType { key, .. }
            | Self::Field { key, .. }
            | Self::Transform { key, .. }
            | Self::Refused { key, .. } => Some(key),
        }
    }
}

/// The object an error message is about.
struct Subject<'a>(Option<&'a Key>);

impl std::fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(key) => key.fmt(f),
            None => f.write_str("object without a readable name"),
        }
    }
}

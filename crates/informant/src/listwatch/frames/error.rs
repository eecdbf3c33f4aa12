//! The errors of `ListCutter` and `LineCutter`.

use std::fmt;

/// Why a body could not be cut into items or lines, and at which byte.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// A byte that does not belong at its place.
    #[error("byte {offset} of the response is {found:?}; expected {expected}")]
    Unexpected {
        /// The position of the byte in the body.
        offset: u64,
        /// The byte, as a character if it is one.
        found: char,
        /// What was expected at this place.
        expected: &'static str,
    },

    /// The body ends too early.
    #[error("the response ends after {length} bytes, in the middle of {part}")]
    Truncated {
        /// The length of the body.
        length: u64,
        /// The part that is incomplete.
        part: FramePart,
    },

    /// A field of a list, or a line that is not a watch event, is larger than the limit.
    #[error(
        "{part} is larger than {limit} bytes (at byte {offset} of the response); raise `size_limit` if it is valid"
    )]
    TooLarge {
        /// The part that is too large.
        part: FramePart,
        /// The limit in bytes.
        limit: usize,
        /// The position of the part in the body.
        offset: u64,
    },

    /// A field appears twice, so that its value is ambiguous.
    #[error("{field} appears twice, again before byte {offset} of the response")]
    Duplicate {
        /// The field.
        field: &'static str,
        /// The position behind the second name in the body.
        offset: u64,
    },

    /// A field of the list, other than its items, is invalid.
    #[error("{field}, before byte {offset} of the response, cannot be parsed")]
    Field {
        /// The field.
        field: String,
        /// The position of its end in the body.
        offset: u64,
        /// Why it is invalid.
        source: serde_json::Error,
    },

    /// The response is not a list.
    #[error("the response is a {kind:?}, not a list")]
    NotAList {
        /// The kind of the response.
        kind: String,
    },

    /// A line is not a watch event.
    #[error("a line of {length} bytes is not a watch event: {problem}")]
    NotAnEvent {
        /// The length of the line.
        length: usize,
        /// Why it is not a watch event.
        problem: &'static str,
    },
}

impl FrameError {
    /// Copies the error. The cause of [`Field`](Self::Field) cannot be copied, so the copy has a cause with the same text.
    #[cfg(feature = "testing")]
    pub(crate) fn copy(&self) -> Self {
        match self {
            Self::Unexpected { offset, found, expected } => {
                Self::Unexpected { offset: *offset, found: *found, expected }
            }
            Self::Truncated { length, part } => Self::Truncated { length: *length, part: *part },
            Self::TooLarge { part, limit, offset } => Self::TooLarge { part: *part, limit: *limit, offset: *offset },
            Self::Duplicate { field, offset } => Self::Duplicate { field, offset: *offset },
            Self::Field { field, offset, source } => {
                let source = serde::de::Error::custom(source);
                Self::Field { field: field.clone(), offset: *offset, source }
            }
            Self::NotAList { kind } => Self::NotAList { kind: kind.clone() },
            Self::NotAnEvent { length, problem } => Self::NotAnEvent { length: *length, problem },
        }
    }
}

/// A part of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FramePart {
    /// The list itself.
    List,
    /// An item of a list.
    Item,
    /// A field of a list that is not its items.
    Field,
    /// A line of a watch.
    Line,
}

impl fmt::Display for FramePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::List => "the list",
            Self::Item => "an item of the list",
            Self::Field => "a field of the list",
            Self::Line => "a line of the watch",
        })
    }
}

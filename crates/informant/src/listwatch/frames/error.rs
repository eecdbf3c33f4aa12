//! Why a body could not be cut.

use std::fmt;

/// Why a body could not be cut: where, and what is wrong there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CutError {
    /// A byte that cannot stand there.
    #[error("byte {offset} of the answer is {found:?}, but {expected} should stand there")]
    Unexpected {
        /// Where in the body.
        offset: u64,
        /// The byte, as a character if it is one.
        found: char,
        /// What could.
        expected: &'static str,
    },

    /// The body ends in the middle.
    #[error("the answer ends after {length} bytes, in the middle of {part}")]
    Truncated {
        /// How long it was.
        length: u64,
        /// What is not complete.
        part: FramePart,
    },

    /// Something is larger than the limit.
    #[error(
        "{part} is larger than {limit} bytes, from byte {offset} of the answer on; raise the limit if that is right"
    )]
    TooLarge {
        /// What.
        part: FramePart,
        /// How large it may be.
        limit: usize,
        /// Where in the body it begins.
        offset: u64,
    },

    /// A field stands there twice, so that nobody knows which counts.
    #[error("{field} appears twice, again before byte {offset} of the answer")]
    Duplicate {
        /// The field.
        field: &'static str,
        /// Where in the body.
        offset: u64,
    },

    /// A field beside the items does not fit.
    #[error("{field}, before byte {offset} of the answer, cannot be read")]
    Field {
        /// The field.
        field: String,
        /// Where in the body it ends.
        offset: u64,
        /// What does not fit.
        source: serde_json::Error,
    },

    /// The answer is something else than a list.
    #[error("the answer is a {kind:?}, not a list")]
    NotAList {
        /// What it calls itself.
        kind: String,
    },

    /// A line is not a watch event.
    #[error("a line of {length} bytes is not a watch event: {problem}")]
    NotAnEvent {
        /// How long it is.
        length: usize,
        /// What is wrong with it.
        problem: &'static str,
    },
}

impl CutError {
    /// An equal error. The cause of [`Field`](Self::Field) cannot be copied: the copy has its text.
    pub(in crate::listwatch) fn copy(&self) -> Self {
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

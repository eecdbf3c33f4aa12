//! The errors of `ListCutter` and `LineCutter`.

use std::fmt;

/// Why a body could not be cut into items or lines, and at which byte.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The response is not a list or not a watch: a byte does not belong at its place, a field appears twice, is missing or invalid.
    #[error("{problem}")]
    Malformed {
        /// What is wrong, and at which byte.
        problem: String,
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

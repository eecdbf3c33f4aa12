//! Why a text is not a key, a label selector or the path of a field.

/// Why a text is not a [`Key`](crate::Key), a [`LabelSelector`](crate::store::LabelSelector) or a
/// [`FieldPath`](crate::object::FieldPath).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The text is not a key.
    #[error("{text:?} is not a key: {problem}")]
    Key {
        /// The text that was parsed.
        text: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The text is not a label selector.
    #[error("label selector {text:?} is invalid at byte {offset}: {problem}")]
    LabelSelector {
        /// The text that was parsed.
        text: String,
        /// The byte at which the problem is.
        offset: usize,
        /// What was expected there.
        problem: &'static str,
    },
    /// A selector of the Kubernetes API has a requirement with an unknown operator, or without the values that its operator needs.
    #[error("the requirement on label {key:?} has the {problem}")]
    Requirement {
        /// The label.
        key: String,
        /// The operator, and what is wrong with it.
        problem: String,
    },
    /// The text is not the path of a field.
    #[error("field path {path:?} {problem}")]
    FieldPath {
        /// The text that was parsed.
        path: String,
        /// What is wrong with it.
        problem: &'static str,
    },
}

//! Unknown fields of the objects that clients send, and what becomes of them (`fieldValidation`).
//!
//! - **In:** the paths of unknown fields.
//! - **Out:** warnings for the response, or an error.

use crate::{error::ApiError, registry::kind::Kind};

/// What a client wants to know about unknown fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// They are dropped.
    #[default]
    Ignore,
    /// They are dropped, and the response has a warning for each.
    Warn,
    /// The request fails.
    Strict,
}

/// The unknown fields of a request.
#[derive(Debug, Default)]
pub(crate) struct UnknownFields {
    validation: FieldValidation,
    messages: Vec<String>,
}

impl UnknownFields {
    pub(crate) fn new(validation: FieldValidation) -> Self {
        Self { validation, messages: Vec::new() }
    }

    pub(crate) fn note(&mut self, paths: Vec<String>) {
        self.messages.extend(paths.into_iter().map(|path| format!("unknown field {path:?}")));
    }

    /// The warnings for the response.
    pub(crate) fn warnings(&self) -> &[String] {
        match self.validation {
            FieldValidation::Warn => &self.messages,
            FieldValidation::Ignore | FieldValidation::Strict => &[],
        }
    }

    /// What is wrong with the request, if the client forbids unknown fields.
    pub(crate) fn problem(&self) -> Option<String> {
        let is_problem = self.validation == FieldValidation::Strict && !self.messages.is_empty();
        is_problem.then(|| format!("strict decoding error: {}", self.messages.join(", ")))
    }

    /// Refuses the body of a create or an update if it has fields that the client forbids.
    pub(crate) fn check(&self, kind: &Kind) -> Result<(), ApiError> {
        let Some(problem) = self.problem() else { return Ok(()) };
        let Kind { kind, version, .. } = kind;
        Err(ApiError::BadRequest(format!("{kind} in version {version:?} cannot be handled as a {kind}: {problem}")))
    }
}

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
    pub(crate) validation: FieldValidation,
    /// For the response.
    pub(crate) warnings: Vec<String>,
}

impl UnknownFields {
    pub(crate) fn new(validation: FieldValidation) -> Self {
        Self { validation, warnings: Vec::new() }
    }

    /// Notes unknown fields of an object; an error if the client forbids them.
    pub(crate) fn note(&mut self, kind: &Kind, paths: Vec<String>) -> Result<(), ApiError> {
        let messages = paths.into_iter().map(|path| format!("unknown field {path:?}"));
        match self.validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => self.warnings.extend(messages),
            FieldValidation::Strict => {
                let messages: Vec<_> = messages.collect();
                if !messages.is_empty() {
                    let (name, version) = (&kind.kind, &kind.version);
                    return Err(ApiError::BadRequest(format!(
                        "{name} in version {version:?} cannot be handled as a {name}: strict decoding error: {}",
                        messages.join(", ")
                    )));
                }
            }
        }
        Ok(())
    }
}

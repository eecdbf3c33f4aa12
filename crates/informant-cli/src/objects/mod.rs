//! What is said of an object: read from whatever form it is held in, without what is nobody's business.
//!
//! - **In:** objects of the cache.
//! - **Out:** their JSON, with the values of secrets hidden; what of it changed (`diff`), what a table shows of it
//!   (`columns`), what one of its fields has (`field`).
//! - **Knows nothing of:** where it is written to.

pub mod columns;
pub mod diff;
pub mod field;
mod form;
mod secrets;

use std::borrow::Cow;

use informant::Cached;
use informant::object::DecodeError;
use serde_json::Value;

pub use self::form::Form;
use crate::kinds::Kind;

/// Reads the objects of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    hides_secrets: bool,
}

impl Reader {
    /// Hides what secrets have in them, if these are secrets.
    pub fn new(kind: &Kind, shows_secrets: bool) -> Self {
        Self { hides_secrets: kind.is_secret() && !shows_secrets }
    }

    /// The object as a value.
    pub fn value<O: Form>(self, object: &Cached<O>) -> Result<Value, DecodeError> {
        let mut value = object.to_value()?;
        if self.hides_secrets {
            secrets::hide(&mut value);
        }
        Ok(value)
    }

    /// The object as a line of JSON.
    pub fn json<O: Form>(self, object: &Cached<O>) -> Result<Cow<'_, str>, DecodeError> {
        match self.hides_secrets {
            true => Ok(Cow::Owned(self.value(object)?.to_string())),
            false => Ok(object.to_json()),
        }
    }

    /// What changed between two states.
    pub fn changes<O: Form>(self, old: &Cached<O>, new: &Cached<O>) -> Result<Vec<diff::Change>, DecodeError> {
        let mut changes = diff::changes(&old.to_value()?, &new.to_value()?);
        if self.hides_secrets {
            changes.iter_mut().for_each(secrets::hide_change);
        }
        Ok(changes)
    }
}

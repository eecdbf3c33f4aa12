//! Reads cached objects for printing, with the values of Secrets hidden.
//!
//! - **In:** objects of the cache, of any object type.
//! - **Out:** their JSON; the differences between two states (`diff`), table cells (`columns`), the values of a field (`field`).
//! - **Knows nothing of:** stdout and output formats.

pub mod columns;
pub mod diff;
pub mod field;
mod printable;
mod secrets;

use informant::{Cached, error::DecodeError};
use serde_json::Value;

pub use self::printable::PrintableObject;
use crate::kinds::Kind;

/// Converts the objects of a kind to JSON, and hides the values of Secrets.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    hides_secrets: bool,
}

impl Reader {
    /// Hides values if the kind is Secret and `shows_secrets` is false.
    pub fn new(kind: &Kind, shows_secrets: bool) -> Self {
        Self { hides_secrets: kind.is_secret() && !shows_secrets }
    }

    /// Returns the object as a JSON value.
    pub fn value<O: PrintableObject>(self, object: &Cached<O>) -> Result<Value, DecodeError> {
        let mut value = object.to_value()?;
        if self.hides_secrets {
            secrets::hide(&mut value);
        }
        Ok(value)
    }

    /// Returns the object as one line of JSON.
    pub fn json<O: PrintableObject>(self, object: &Cached<O>) -> Result<String, DecodeError> {
        match self.hides_secrets {
            true => Ok(self.value(object)?.to_string()),
            false => object.to_json(),
        }
    }

    /// Returns the differences between two states.
    pub fn changes<O: PrintableObject>(
        self,
        old: &Cached<O>,
        new: &Cached<O>,
    ) -> Result<Vec<diff::Change>, DecodeError> {
        let mut changes = diff::changes(&old.to_value()?, &new.to_value()?);
        if self.hides_secrets {
            changes.iter_mut().for_each(secrets::hide_change);
        }
        Ok(changes)
    }
}

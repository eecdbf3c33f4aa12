//! How results are written: tables, colours, YAML, and the two ways out.
//!
//! - **In:** what is to be said.
//! - **Out:** results on stdout, everything else on stderr.
//! - **Knows nothing of:** objects, clusters, informers.

pub mod paint;
pub mod stderr;
pub mod stdout;
pub mod table;

use std::borrow::Cow;

use serde::Serialize;

pub use self::paint::Paint;
pub use self::stderr::say;
pub use self::stdout::Stdout;
pub use self::table::Table;

/// It cannot be written as YAML.
#[derive(Debug, thiserror::Error)]
#[error("it cannot be written as YAML; -o json can")]
pub struct YamlError(#[source] serde_saphyr::ser::Error);

/// As YAML, without anything around it.
pub fn yaml(value: &impl Serialize) -> Result<String, YamlError> {
    serde_saphyr::to_string(value).map_err(YamlError)
}

/// Text of others in one line, without what a terminal would obey.
pub fn harmless(text: &str) -> Cow<'_, str> {
    match text.contains(char::is_control) {
        true => {
            let without: String = text.chars().map(|one| if one.is_control() { ' ' } else { one }).collect();
            Cow::Owned(without.trim().to_owned())
        }
        false => Cow::Borrowed(text),
    }
}

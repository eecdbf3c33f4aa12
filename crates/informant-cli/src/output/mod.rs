//! How results are written: formats, tables, colours, and stdout itself.
//!
//! - **In:** what is to be said.
//! - **Out:** text on stdout; progress and trouble on stderr.
//! - **Knows nothing of:** where objects come from.

pub mod paint;
pub mod progress;
pub mod stdout;
pub mod table;

use std::borrow::Cow;

use serde::Serialize;

pub use self::paint::Paint;
pub use self::progress::Progress;
pub use self::stdout::Stdout;
pub use self::table::Table;

/// As YAML, without anything around it.
pub fn yaml(value: &impl Serialize) -> String {
    // What was read from JSON can be written as YAML.
    serde_saphyr::to_string(value).unwrap_or_else(|error| format!("# cannot be written as YAML: {error}\n"))
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

//! Writing to stdout and stderr: tables, colours and YAML.
//!
//! - **In:** texts and JSON values.
//! - **Out:** results on stdout, messages on stderr.
//! - **Knows nothing of:** objects, clusters, informers.

pub mod paint;
pub mod stderr;
pub mod stdout;
pub mod table;
pub mod terminal;

use std::borrow::Cow;

use serde_json::Value;

pub use self::{
    paint::Paint,
    stderr::{in_one_line, print_message},
    stdout::Stdout,
    table::Table,
};

/// A value has no YAML form.
#[derive(Debug, thiserror::Error)]
#[error("the object cannot be written as YAML; use -o json")]
pub struct YamlError(#[source] serde_saphyr::ser::Error);

/// Formats a value as YAML, without a document separator.
pub fn yaml(value: &Value) -> Result<String, YamlError> {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: !begins_with_tab(value) };
    serde_saphyr::to_string_with_options(value, options).map_err(YamlError)
}

/// Returns true if the value contains a multi-line string that begins with a tab. Not every parser can read that as a block.
fn begins_with_tab(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\n') && text.trim_start_matches(['\n', '\r', ' ']).starts_with('\t'),
        Value::Array(items) => items.iter().any(begins_with_tab),
        Value::Object(members) => members.values().any(begins_with_tab),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Makes text from a server or a file safe to print in one line: replaces control characters, line breaks and characters that
/// change the direction of writing with spaces.
pub fn sanitized(text: &str) -> Cow<'_, str> {
    match text.contains(is_unsafe_to_print) {
        true => {
            let without: String = text.chars().map(|one| if is_unsafe_to_print(one) { ' ' } else { one }).collect();
            Cow::Owned(without.trim().to_owned())
        }
        false => Cow::Borrowed(text),
    }
}

/// Control characters, line breaks, and characters that change the direction of writing.
fn is_unsafe_to_print(one: char) -> bool {
    let changes_direction =
        matches!(one, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    one.is_control() || changes_direction || matches!(one, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn characters_that_change_the_direction_of_writing_are_removed() {
        assert_eq!(sanitized("a\u{202e}b\u{2066}c\u{2028}d\u{9b}e"), "a b c d e");
        assert_eq!(sanitized("größe → 日本"), "größe → 日本");
    }

    #[test]
    fn a_block_never_begins_with_a_tab() {
        for text in ["\tx\ny\n", "\tb\nc", "\n\tx\n", "\t\n", "  \n\tx"] {
            let written = yaml(&json!({"v": [text]})).unwrap();
            assert_eq!(written.lines().count(), 2, "{written}");
            assert_eq!(serde_saphyr::from_str::<Value>(&written).unwrap(), json!({"v": [text]}));
        }
        assert!(yaml(&json!({"v": "x\n\ty\n"})).unwrap().contains("|"), "other texts are blocks");
    }
}

//! How results are written: tables, colours, YAML, and the two ways out.
//!
//! - **In:** what is to be said.
//! - **Out:** results on stdout, everything else on stderr.
//! - **Knows nothing of:** objects, clusters, informers.

pub mod paint;
pub mod stderr;
pub mod stdout;
pub mod table;
pub mod terminal;

use std::borrow::Cow;

use serde_json::Value;

pub use self::paint::Paint;
pub use self::stderr::in_one_line;
pub use self::stderr::say;
pub use self::stdout::Stdout;
pub use self::table::Table;

/// It cannot be written as YAML.
#[derive(Debug, thiserror::Error)]
#[error("it cannot be written as YAML; -o json can")]
pub struct YamlError(#[source] serde_saphyr::ser::Error);

/// As YAML, without anything around it.
pub fn yaml(value: &Value) -> Result<String, YamlError> {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: !begins_with_tab(value) };
    serde_saphyr::to_string_with_options(value, options).map_err(YamlError)
}

/// Whether a text of several lines begins with a tab: as a block, not every parser could read it.
fn begins_with_tab(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\n') && text.trim_start_matches(['\n', '\r', ' ']).starts_with('\t'),
        Value::Array(items) => items.iter().any(begins_with_tab),
        Value::Object(members) => members.values().any(begins_with_tab),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Text of others in one line, without what a terminal would obey, or what makes it look like another.
pub fn harmless(text: &str) -> Cow<'_, str> {
    match text.contains(is_harmful) {
        true => {
            let without: String = text.chars().map(|one| if is_harmful(one) { ' ' } else { one }).collect();
            Cow::Owned(without.trim().to_owned())
        }
        false => Cow::Borrowed(text),
    }
}

/// Controls, ends of lines, and what turns the direction of writing.
fn is_harmful(one: char) -> bool {
    let turns = matches!(one, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    one.is_control() || turns || matches!(one, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_turns_the_direction_of_writing_is_left_out() {
        assert_eq!(harmless("a\u{202e}b\u{2066}c\u{2028}d\u{9b}e"), "a b c d e");
        assert_eq!(harmless("größe → 日本"), "größe → 日本");
    }

    #[test]
    fn a_block_never_begins_with_a_tab() {
        for text in ["\tx\ny\n", "\tb\nc", "\n\tx\n", "\t\n", "  \n\tx"] {
            let written = yaml(&json!({"v": [text]})).unwrap();
            assert_eq!(written.lines().count(), 2, "{written}");
            assert_eq!(serde_saphyr::from_str::<Value>(&written).unwrap(), json!({"v": [text]}));
        }
        assert!(yaml(&json!({"v": "x\n\ty\n"})).unwrap().contains("|"), "others are blocks");
    }
}

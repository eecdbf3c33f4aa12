//! Finds the field at which the decoding of an object failed.
//!
//! - **In:** an object's JSON, the decode error, and a function that decodes a prefix of the JSON.
//! - **Out:** the field's path, such as `spec.containers[0].image`.
//! - **Knows nothing of:** the type that the object is decoded into; so this code is compiled once, not once for each type.
//!
//! serde_json reports where it stopped reading, which is not always where decoding failed. After a value that a type refuses, it may
//! read the next `}`, `]` or `,`. If an object stands where a string is expected, it stops before the `{`. If a type parses JSON that
//! is nested in a string (such as an annotation) and passes on that error, the position is one in the nested JSON.
//!
//! But decoding a prefix of the JSON shows whether the prefix includes the failing byte: if it does, the error is the same as for the
//! whole JSON; if not, the error is the unexpected end of the input. So this code decodes a few prefixes to find that byte, and then
//! walks to the value around it. Usually it decodes four prefixes. If the position is one in nested JSON, it needs a binary search over
//! the whole JSON: about log2(length) prefixes.

use super::walk::{MemberAction, Walk, Walked};

/// Decodes a prefix of an object's JSON and returns the error.
pub(super) type DecodePrefix<'a, 'f> = &'f dyn Fn(&'a str) -> Option<serde_json::Error>;

/// Finds the path of the field at which `decode` fails with `error`; `.` is the object itself.
///
/// serde decodes untagged and internally tagged enums, and flattened fields, from a copy of the JSON. If something in them does
/// not fit, this function returns the path of the enum, or of the object with the flattened fields. If the content of an adjacently
/// tagged enum comes before its tag, it returns the path of the tag.
pub(super) fn error_path<'a>(json: &'a str, error: &serde_json::Error, decode: DecodePrefix<'a, '_>) -> String {
    path_of_byte(json, failing_byte(json, error, decode))
}

/// Finds the first byte that makes `decode` fail with `error`.
fn failing_byte<'a>(json: &'a str, error: &serde_json::Error, decode: DecodePrefix<'a, '_>) -> usize {
    let expected = text_without_position(error);
    let fails = |length| {
        let error = decode(&json[..whole_length(json, length)]);
        error.is_some_and(|error| !error.is_eof() && text_without_position(&error) == expected)
    };
    // Compact JSON has one line, so the column is the number of bytes that serde_json has read.
    let read = error.column().min(json.len());
    let (mut too_short, mut long_enough) = (read.saturating_sub(2), (read + 1).min(json.len()));
    if fails(too_short) || !fails(long_enough) {
        // The position is one in nested JSON.
        (too_short, long_enough) = (0, json.len());
    }
    while long_enough - too_short > 1 {
        let length = usize::midpoint(too_short, long_enough);
        match fails(length) {
            true => long_enough = length,
            false => too_short = length,
        }
    }
    long_enough.saturating_sub(1)
}

/// Shortens a length so that no character or number of `json` is cut in two. The first digits of a number are another number, which
/// a type may refuse although it accepts the whole one.
fn whole_length(json: &str, length: usize) -> usize {
    let is_of_number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E');
    let splits_number = |length: usize| {
        let around = length.checked_sub(1).and_then(|before| json.as_bytes().get(before..=length));
        around.is_some_and(|around| around.iter().all(is_of_number))
    };
    let is_whole = |length: &usize| json.is_char_boundary(*length) && !splits_number(*length);
    (0..=length).rev().find(is_whole).unwrap_or(0)
}

/// Returns the text of an error without the position that serde_json appends to it.
fn text_without_position(error: &serde_json::Error) -> String {
    let mut text = error.to_string();
    text.truncate(text.rfind(" at line ").unwrap_or(text.len()));
    text
}

/// Finds the path of the value that a byte of `json` belongs to. The name of a member belongs to its value.
fn path_of_byte(json: &str, byte: usize) -> String {
    let mut path = String::new();
    match walk_to(byte, &mut Walk::new(json.as_bytes()), &mut path) {
        Ok(()) if !path.is_empty() => path,
        Ok(()) | Err(_) => ".".to_owned(),
    }
}

/// Walks over a value, and appends the steps from it to the innermost value around the byte.
fn walk_to(byte: usize, walk: &mut Walk<'_>, path: &mut String) -> Walked<()> {
    let mut take_step = |walk: &mut Walk<'_>, start: usize, step: &str| {
        let outer = path.len();
        path.push_str(step.strip_prefix('.').filter(|_| outer == 0).unwrap_or(step));
        walk_to(byte, walk, path)?;
        if !(start..walk.offset()).contains(&byte) {
            path.truncate(outer);
        }
        Ok(())
    };
    match walk.peek() {
        Some(b'{') => walk.members(|walk, name| {
            let step = format!(".{}", walk.resolve(&name)?);
            take_step(walk, name.start, &step)?;
            Ok(MemberAction::Keep)
        }),
        Some(b'[') => {
            let mut index = 0;
            walk.elements(|walk| {
                take_step(walk, walk.offset(), &format!("[{index}]"))?;
                index += 1;
                Ok(())
            })
        }
        Some(_) | None => walk.value(0),
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use proptest::prelude::*;
    use serde::de::Error;

    use super::*;
    use crate::random;

    #[derive(Clone, Debug)]
    enum Tree {
        Scalar(&'static str),
        Array(Vec<Tree>),
        Object(Vec<(&'static str, Tree)>),
    }

    /// JSON, with the range and path of each value; inner values before the values that enclose them.
    #[derive(Default)]
    struct Written {
        json: String,
        values: Vec<(Range<usize>, String)>,
    }

    impl Written {
        fn new(tree: &Tree) -> Self {
            let mut written = Self::default();
            written.write(tree, "", 0);
            written
        }

        fn write(&mut self, tree: &Tree, path: &str, start: usize) {
            match tree {
                Tree::Scalar(text) => self.json.push_str(text),
                Tree::Array(elements) => {
                    self.json.push('[');
                    for (index, element) in elements.iter().enumerate() {
                        self.json.push_str(if index > 0 { "," } else { "" });
                        self.write(element, &format!("{path}[{index}]"), self.json.len());
                    }
                    self.json.push(']');
                }
                Tree::Object(members) => {
                    self.json.push('{');
                    for (index, (name, value)) in members.iter().enumerate() {
                        self.json.push_str(if index > 0 { "," } else { "" });
                        let start = self.json.len();
                        let escaped = serde_json::Value::from(*name).to_string().replace('<', r"\u003c");
                        self.json.push_str(&format!("{escaped}:"));
                        let dot = if path.is_empty() { "" } else { "." };
                        self.write(value, &format!("{path}{dot}{name}"), start);
                    }
                    self.json.push('}');
                }
            }
            let path = if path.is_empty() { "." } else { path };
            self.values.push((start..self.json.len(), path.to_owned()));
        }

        fn path_of(&self, byte: usize) -> &str {
            let found = self.values.iter().find(|(range, _)| range.contains(&byte));
            found.map_or(".", |(_, path)| path)
        }
    }

    fn tree() -> impl Strategy<Value = Tree> {
        let scalars = ["0", "-12.5e3", "80", "true", "null", r#""""#, r#""\"]}1234\u00fc""#, r#""ünï𝄞12""#];
        let names = ["spec", "a.b", "ü<", "", "\"", "80", "[0]", "𝄞12"];
        let scalar = proptest::sample::select(scalars.to_vec()).prop_map(Tree::Scalar);
        scalar.prop_recursive(5, 40, 5, move |inner| {
            let members = (proptest::sample::select(names.to_vec()), inner.clone());
            prop_oneof![
                prop::collection::vec(inner, 0..5).prop_map(Tree::Array),
                prop::collection::vec(members, 0..5).prop_map(Tree::Object),
            ]
        })
    }

    fn positions() -> impl Strategy<Value = usize> {
        prop_oneof![8 => 0..200usize, 1 => any::<usize>()]
    }

    #[test]
    fn path_of_byte_is_the_path_of_the_innermost_value_around_the_byte() {
        random::check(2000, tree(), |tree| {
            let written = Written::new(&tree);

            for byte in 0..written.json.len() + 2 {
                assert_eq!(path_of_byte(&written.json, byte), written.path_of(byte), "byte {byte} of {}", written.json);
            }
        });
    }

    #[test]
    fn error_path_leads_to_the_byte_at_which_decoding_fails_for_every_reported_position() {
        let refused = |(line, column): (usize, usize)| {
            serde_json::Error::custom(format!("refused at line {line} column {column}"))
        };
        random::check(2000, (tree(), positions(), positions(), positions()), |(tree, byte, line, column)| {
            let written = Written::new(&tree);
            let byte = byte % written.json.len();
            // serde_json reports a position within two bytes of the failure, or one of another text.
            for column in [column, byte, byte + 1, byte + 2] {
                let decode = |beginning: &str| match beginning.len() > byte {
                    true => Some(refused((line, column))),
                    false => serde_json::from_str::<()>("").err(),
                };

                let path = error_path(&written.json, &refused((line, column)), &decode);

                assert_eq!(path, written.path_of(byte), "byte {byte}, column {column} of {}", written.json);
            }
        });
    }

    #[test]
    fn error_path_of_a_failure_that_cannot_be_reproduced_is_that_of_the_whole_object() {
        random::check(500, (tree(), positions()), |(tree, column)| {
            let written = Written::new(&tree);
            let error = serde_json::Error::custom(format!("refused at line 1 column {column}"));

            assert_eq!(error_path(&written.json, &error, &|_| None), ".", "column {column} of {}", written.json);
        });
    }
}

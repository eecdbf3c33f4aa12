//! Finds the end of a JSON value by its brackets and strings, without parsing it.

use crate::object::first_special;

/// The position within a value. Reading continues in the next chunk where it stopped.
#[derive(Clone, Copy, Debug)]
pub(super) enum Skim {
    /// In an object or array, at this nesting depth.
    Nested(usize),
    /// In a string, at this nesting depth; 0 if the value is the string.
    String(usize),
    /// At the byte after a backslash in a string.
    Escape(usize),
    /// In a number, `true`, `false` or `null`.
    Plain,
}

impl Skim {
    /// Begins with the first byte of a value; `None` if no value begins with it. Reading continues with the second byte.
    pub(super) fn begin(first: u8) -> Option<Self> {
        match first {
            b'{' | b'[' => Some(Self::Nested(1)),
            b'"' => Some(Self::String(0)),
            b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => Some(Self::Plain),
            _ => None,
        }
    }

    /// Reads more bytes. Returns how many of them belong to the value, if the value ends in them.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        loop {
            match *self {
                Self::Nested(mut depth) => loop {
                    let Some(byte) = bytes.get(at) else {
                        *self = Self::Nested(depth);
                        return None;
                    };
                    at += 1;
                    match byte {
                        b'"' => match end_of_string(bytes, at) {
                            Some(end) => at = end,
                            // The string has an escape, or continues in the next chunk.
                            None => {
                                *self = Self::String(depth);
                                break;
                            }
                        },
                        b'{' | b'[' => depth += 1,
                        b'}' | b']' if depth == 1 => return Some(at),
                        b'}' | b']' => depth -= 1,
                        _ => {}
                    }
                },
                Self::String(depth) => {
                    at += memchr::memchr2(b'"', b'\\', &bytes[at..])? + 1;
                    match (bytes[at - 1], depth) {
                        (b'\\', _) => *self = Self::Escape(depth),
                        (_, 0) => return Some(at),
                        (_, _) => *self = Self::Nested(depth),
                    }
                }
                Self::Escape(depth) => {
                    bytes.get(at)?;
                    at += 1;
                    *self = Self::String(depth);
                }
                Self::Plain => {
                    let ends = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\r' | b'\n');
                    return bytes.iter().position(ends);
                }
            }
        }
    }
}

/// Returns the position after the closing quote of a string whose content begins at `from`; `None` if the string has an escape, or fewer than eight
/// bytes are left.
///
/// Most strings are short, so a search of eight bytes at a time is faster than `memchr`, whose calls have a fixed cost.
fn end_of_string(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(eight) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        match first_special(*eight) {
            None => at += 8,
            Some(offset) => {
                at += offset;
                return (bytes[at] == b'"').then_some(at + 1);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the length of the value at the start of a text, read in chunks of this size.
    fn length(text: &str, chunk: usize) -> Option<usize> {
        let mut skim = Skim::begin(text.as_bytes()[0])?;
        let mut read = 1;
        for chunk in text.as_bytes()[1..].chunks(chunk) {
            match skim.read(chunk) {
                Some(end) => return Some(read + end),
                None => read += chunk.len(),
            }
        }
        None
    }

    #[test]
    fn skim_finds_the_end_of_a_value_for_every_chunk_size() {
        let values = [
            "{}",
            "[]",
            "\"\"",
            r#""a\"b\\""#,
            r#"{"a":[1,{"b":"}]"}],"c":"\\"}"#,
            "null",
            "-1.5e+7",
            "true",
            r#"["\u0022"]"#,
        ];
        for value in values {
            for rest in [",", "]", "}", " ", "\n"] {
                let text = format!("{value}{rest}{rest}");
                for chunk in 1..=text.len() {
                    assert_eq!(length(&text, chunk), Some(value.len()), "{text} in chunks of {chunk}");
                }
            }
        }
    }

    #[test]
    fn skim_finds_no_end_of_an_incomplete_value() {
        for text in ["{", r#"{"a"#, r#""a\"#, r#""a\""#, "[[]", "12"] {
            assert_eq!(length(text, 2), None, "{text}");
        }
        assert!(Skim::begin(b'x').is_none());
    }
}

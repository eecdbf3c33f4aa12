//! Finds where a JSON value ends, without reading what it says: brackets and strings are all that count.

use crate::object::first_special;

/// Where in a value the skim stands. Goes on in the next chunk where it stopped.
#[derive(Clone, Copy, Debug)]
pub(super) enum Skim {
    /// An object or array, so many levels deep.
    Nested(usize),
    /// A string at so many levels; none if the value is the string.
    String(usize),
    /// The byte after a backslash in a string.
    Escape(usize),
    /// A number, `true`, `false` or `null`.
    Plain,
}

impl Skim {
    /// Begins with the first byte of a value, which is then read.
    pub(super) fn begin(first: u8) -> Option<Self> {
        match first {
            b'{' | b'[' => Some(Self::Nested(1)),
            b'"' => Some(Self::String(0)),
            b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => Some(Self::Plain),
            _ => None,
        }
    }

    /// Reads on. Gives the number of bytes that belong to the value, if it ends in these.
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
                            // It has an escape or goes on in the next chunk.
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

/// Where a string ends whose first byte is here: behind its quote. None if that is not so simple to say.
///
/// Most strings are short, so eight bytes at a time are faster than a search that first has to get going.
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

    /// How long the value at the start of a text is, read in chunks of this size.
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
    fn a_value_ends_where_it_ends_however_it_is_chunked() {
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
    fn a_value_that_does_not_end_has_no_length() {
        for text in ["{", r#"{"a"#, r#""a\"#, r#""a\""#, "[[]", "12"] {
            assert_eq!(length(text, 2), None, "{text}");
        }
        assert!(Skim::begin(b'x').is_none());
    }
}

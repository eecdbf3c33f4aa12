//! Finds the end of a JSON value that may arrive in chunks, by its brackets and strings, without a check of its syntax.
//!
//! - **In:** chunks, the first of which begins with a value.
//! - **Out:** where the value ends.
//! - **Knows nothing of:** the content of the value.

use super::special_bytes::SpecialBytes;

/// A search for the end of a value: the state after the bytes that were read so far. The search continues in the next chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndSearch {
    /// The number of objects and arrays around the position.
    depth: usize,
    within: Within,
}

#[derive(Clone, Copy, Debug)]
enum Within {
    /// An object or array, or at the start of the value.
    Nested,
    String,
    /// A string, behind a backslash.
    Escape,
    /// A number, `true`, `false` or `null`.
    Scalar,
}

impl EndSearch {
    /// Begins the search at the first byte of a value; `None` if no value begins with it.
    pub(crate) fn begin(first: u8) -> Option<Self> {
        match first {
            b'{' | b'[' | b'"' => Some(Self { depth: 0, within: Within::Nested }),
            b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => Some(Self { depth: 0, within: Within::Scalar }),
            _ => None,
        }
    }

    /// Reads more bytes. Returns how many of them belong to the value, if the value ends in them.
    pub(crate) fn find(&mut self, bytes: &[u8]) -> Option<usize> {
        self.find_from(bytes, 0, &mut SpecialBytes::new())
    }

    /// Reads the bytes from a position on. Returns the position of the end of the value, if it ends in them.
    pub(super) fn find_from(&mut self, bytes: &[u8], from: usize, special_bytes: &mut SpecialBytes) -> Option<usize> {
        let mut at = from;
        loop {
            match self.within {
                Within::Nested => {
                    let byte = *bytes.get(at)?;
                    at += 1;
                    match byte {
                        b'"' => self.within = Within::String,
                        b'{' | b'[' => self.depth += 1,
                        b'}' | b']' if self.depth == 1 => return Some(at),
                        b'}' | b']' => self.depth -= 1,
                        _ => {}
                    }
                }
                Within::String => {
                    at = special_bytes.next(bytes, at);
                    let byte = *bytes.get(at)?;
                    at += 1;
                    match byte {
                        b'"' if self.depth == 0 => return Some(at),
                        b'"' => self.within = Within::Nested,
                        b'\\' => self.within = Within::Escape,
                        _ => {}
                    }
                }
                Within::Escape => {
                    bytes.get(at)?;
                    at += 1;
                    self.within = Within::String;
                }
                Within::Scalar => {
                    let is_end = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\r' | b'\n');
                    return bytes[at..].iter().position(is_end).map(|length| at + length);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the length of the value at the start of a text, read in chunks of this size.
    fn length(text: &str, chunk: usize) -> Option<usize> {
        let mut end = EndSearch::begin(text.as_bytes()[0])?;
        let mut read = 0;
        for chunk in text.as_bytes().chunks(chunk) {
            match end.find(chunk) {
                Some(length) => return Some(read + length),
                None => read += chunk.len(),
            }
        }
        None
    }

    #[test]
    fn value_end_finds_the_end_of_a_value_for_every_chunk_size() {
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
    fn value_end_finds_no_end_of_an_incomplete_value() {
        for text in ["{", r#"{"a"#, r#""a\"#, r#""a\""#, "[[]", "12"] {
            assert_eq!(length(text, 2), None, "{text}");
        }
        assert!(EndSearch::begin(b'x').is_none());
    }
}

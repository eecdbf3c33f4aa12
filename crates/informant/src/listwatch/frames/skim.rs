//! Finds where a JSON value ends, without reading what it says: brackets and strings are all that count.

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
                Self::Nested(depth) => {
                    let (found, byte) = next_structural(bytes, at)?;
                    at = found + 1;
                    match byte {
                        b'"' => *self = Self::String(depth),
                        b'{' | b'[' => *self = Self::Nested(depth + 1),
                        _ if depth == 1 => return Some(at),
                        _ => *self = Self::Nested(depth - 1),
                    }
                }
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

/// The next byte outside of a string that opens or closes something.
fn next_structural(bytes: &[u8], from: usize) -> Option<(usize, u8)> {
    let is_structural = |byte: &u8| matches!(byte, b'"' | b'{' | b'}' | b'[' | b']');
    let found = from + bytes[from..].iter().position(is_structural)?;
    Some((found, bytes[found]))
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

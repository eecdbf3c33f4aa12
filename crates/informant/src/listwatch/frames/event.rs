//! One line of a watch: what happened, and to which object.

use serde_json::Value;

use super::CutError;
use super::skim::Skim;

/// What a line of a watch tells of.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventType {
    /// `ADDED`
    Added,
    /// `MODIFIED`
    Modified,
    /// `DELETED`
    Deleted,
    /// `BOOKMARK`: no object, but how far the watch is.
    Bookmark,
    /// `ERROR`: no object, but a `Status`.
    Error,
    /// Something that this library does not know.
    Unknown(String),
}

/// A line of a watch, its object not looked at.
///
/// ```
/// use informant::listwatch::frames::{EventType, WatchEvent};
///
/// let event = WatchEvent::read(br#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#)?;
///
/// assert_eq!((event.kind, event.object), (EventType::Added, &br#"{"metadata":{"name":"a"}}"#[..]));
/// # Ok::<(), informant::listwatch::frames::CutError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchEvent<'a> {
    /// What happened.
    pub kind: EventType,
    /// The JSON of the object. What stands inside was not looked at.
    pub object: &'a [u8],
}

impl<'a> WatchEvent<'a> {
    /// Reads a line.
    ///
    /// # Errors
    ///
    /// If it is not an object with a type and an object, each once.
    pub fn read(line: &'a [u8]) -> Result<Self, CutError> {
        let refuse = |problem| CutError::NotAnEvent { length: line.len(), problem };
        let mut rest = Rest(line);
        let (mut kind, mut object) = (None, None);
        rest.expect(b'{').ok_or(refuse("it is not a JSON object"))?;
        if rest.expect(b'}').is_some() {
            return Err(refuse("it says nothing"));
        }
        loop {
            let name = rest.value().filter(|name| name.starts_with(b"\""));
            let name = name.and_then(text).ok_or(refuse("a field has no name"))?;
            rest.expect(b':').ok_or(refuse("a colon is missing"))?;
            let value = rest.value().ok_or(refuse("a value is not complete"))?;
            let is_twice = match name.as_str() {
                "type" => kind.replace(text(value).ok_or(refuse("its type is not a text"))?).is_some(),
                "object" => object.replace(value).is_some(),
                // What nobody reads must still be JSON, and UTF-8, which ignoring it would not check.
                _ => {
                    serde_json::from_slice::<Value>(value).map(|_| false).map_err(|_| refuse("a field is not JSON"))?
                }
            };
            if is_twice {
                return Err(refuse("a field appears twice"));
            }
            if rest.expect(b',').is_none() {
                break;
            }
        }
        rest.expect(b'}').ok_or(refuse("its end is missing"))?;
        if !rest.0.iter().all(|byte| is_space(*byte)) {
            return Err(refuse("something follows it"));
        }
        let kind = kind.ok_or(refuse("it has no type"))?;
        let object = object.ok_or(refuse("it has no object"))?;
        Ok(Self { kind: EventType::from(kind), object })
    }
}

impl From<String> for EventType {
    fn from(text: String) -> Self {
        match text.as_str() {
            "ADDED" => Self::Added,
            "MODIFIED" => Self::Modified,
            "DELETED" => Self::Deleted,
            "BOOKMARK" => Self::Bookmark,
            "ERROR" => Self::Error,
            _ => Self::Unknown(text),
        }
    }
}

/// What is left of a line.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn skip_space(&mut self) {
        let space = self.0.iter().take_while(|byte| is_space(**byte)).count();
        self.0 = &self.0[space..];
    }

    /// Takes this byte, if it is the next.
    fn expect(&mut self, byte: u8) -> Option<()> {
        self.skip_space();
        self.0 = self.0.strip_prefix(&[byte])?;
        Some(())
    }

    /// Takes the next value.
    fn value(&mut self) -> Option<&'a [u8]> {
        self.skip_space();
        let (first, others) = self.0.split_first()?;
        let end = Skim::begin(*first)?.read(others)?;
        let (value, rest) = self.0.split_at(1 + end);
        self.0 = rest;
        Some(value)
    }
}

/// What JSON takes for white space.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn text(json: &[u8]) -> Option<String> {
    serde_json::from_slice(json).ok()
}

//! One line of a watch: the type of the event, and the JSON of its object.
//!
//! - **In:** a line.
//! - **Out:** the event's type, and the bytes of its object.
//! - **Knows nothing of:** the content of the object.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::FrameError;
use crate::object::Walk;

/// The type of a watch event.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[non_exhaustive]
pub enum EventType {
    /// `ADDED`
    Added,
    /// `MODIFIED`
    Modified,
    /// `DELETED`
    Deleted,
    /// `BOOKMARK`: its object has only a version, up to which all events have been delivered.
    Bookmark,
    /// `ERROR`: its object is a `Status`.
    Error,
    /// A type that this library does not know.
    #[serde(untagged)]
    Unknown(String),
}

/// A line of a watch, with the bytes of its object.
///
/// ```
/// use informant::pipeline::{EventType, WatchEvent};
///
/// let event = WatchEvent::read(br#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#)?;
///
/// assert_eq!((event.kind, event.object), (EventType::Added, &br#"{"metadata":{"name":"a"}}"#[..]));
/// # Ok::<(), informant::pipeline::FrameError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchEvent<'a> {
    /// The type of the event.
    pub kind: EventType,
    /// The JSON of the object. Its content has not been checked.
    pub object: &'a [u8],
}

impl<'a> WatchEvent<'a> {
    /// Parses a line.
    ///
    /// # Errors
    ///
    /// If the line is not a JSON object with exactly one `type` and one `object`.
    pub fn read(line: &'a [u8]) -> Result<Self, FrameError> {
        let refuse = |problem: &str| FrameError::Malformed {
            problem: format!("a line of {} bytes is not a watch event: {problem}", line.len()),
        };
        let require = |is_met: bool, problem| is_met.then_some(()).ok_or_else(|| refuse(problem));
        let mut walk = Walk::new(line);
        let (mut kind, mut object) = (None, None);
        require(walk.read_if(b'{'), "it is not a JSON object")?;
        require(!walk.read_if(b'}'), "it has no fields")?;
        loop {
            let name = walk.unchecked_value().filter(|name| name.starts_with(b"\""));
            let name = name.and_then(text::<String>).ok_or_else(|| refuse("a field has no name"))?;
            require(walk.read_if(b':'), "a colon is missing")?;
            let value = walk.unchecked_value().ok_or_else(|| refuse("a value is not complete"))?;
            let is_twice = match name.as_str() {
                "type" => kind.replace(text(value).ok_or_else(|| refuse("its type is not a text"))?).is_some(),
                "object" => object.replace(value).is_some(),
                // An unused field must still be valid JSON and UTF-8; `IgnoredAny` would not check that.
                _ => {
                    serde_json::from_slice::<Value>(value).map(|_| false).map_err(|_| refuse("a field is not JSON"))?
                }
            };
            require(!is_twice, "a field appears twice")?;
            if !walk.read_if(b',') {
                break;
            }
        }
        require(walk.read_if(b'}'), "its end is missing")?;
        require(walk.is_at_end(), "something follows it")?;
        let kind = kind.ok_or_else(|| refuse("it has no type"))?;
        let object = object.ok_or_else(|| refuse("it has no object"))?;
        Ok(Self { kind, object })
    }
}

/// Decodes a name or a type.
fn text<T: DeserializeOwned>(json: &[u8]) -> Option<T> {
    serde_json::from_slice(json).ok()
}

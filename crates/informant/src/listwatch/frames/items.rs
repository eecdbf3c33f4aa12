//! Cuts the body of a list into its items.
//!
//! - **In:** chunks of the body.
//! - **Out:** the JSON of each item, and the list's metadata.
//! - **Knows nothing of:** the content of an item.

use bytes::Bytes;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{CutPart, FrameError, FramePart, body_buffer::BodyBuffer};
use crate::{ResourceVersion, object::EndSearch};

/// Cuts the body of a list into its items while it arrives, independent of its chunks.
///
/// The fields of a list may be in any order, so the kind and version of the list are known only at its end. Use the items only after
/// [`ListPart::End`] has been checked.
///
/// ```
/// use bytes::Bytes;
/// use informant::pipeline::{ListCutter, ListPart};
///
/// let body = br#"{"kind":"PodList","items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}],"metadata":{"resourceVersion":"7"}}"#;
/// let mut cutter = ListCutter::with_limit(64 << 20);
/// let mut items = Vec::new();
/// for chunk in body.chunks(10) {
///     cutter.push(Bytes::copy_from_slice(chunk));
///     while let Some(part) = cutter.next()? {
///         match part {
///             ListPart::Item(json) => items.push(json),
///             ListPart::ItemOutline(_) => panic!("no item is larger than the limit"),
///             ListPart::End(head) => assert_eq!(head.metadata.resource_version.as_str(), "7"),
///         }
///     }
/// }
/// cutter.finish()?;
/// assert_eq!(items, [r#"{"metadata":{"name":"a"}}"#, r#"{"metadata":{"name":"b"}}"#]);
/// # Ok::<(), informant::pipeline::FrameError>(())
/// ```
#[derive(Debug)]
pub struct ListCutter {
    body: BodyBuffer,
    place: Place,
    /// Within a name, a value or an item, which `place` expects: the search for its end.
    value_end: Option<EndSearch>,
    head: ListHead,
    /// The name of the last field.
    field: String,
    /// The fields of `FIELDS` that have been read.
    seen: Vec<&'static str>,
}

/// The fields of a list that are used. Each may appear only once.
const FIELDS: [&str; 4] = ["apiVersion", "kind", "metadata", "items"];

/// A part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListPart {
    /// The JSON of an item. Its content has not been checked.
    Item(Bytes),
    /// The outline of an item that is larger than the limit: JSON with its apiVersion, kind, name, namespace, uid and version. It is incomplete if
    /// the item is malformed, or has no identity of a usual size.
    ItemOutline(Bytes),
    /// The end of the list, with its kind and metadata.
    End(ListHead),
}

/// The fields of a list other than its items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListHead {
    /// The apiVersion, such as `v1`; empty if the list has none.
    pub api_version: String,
    /// The kind, such as `PodList`; empty if the list has none.
    pub kind: String,
    /// The version and the continue token.
    pub metadata: ListMetadata,
}

/// The metadata of a list.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct ListMetadata {
    /// The version of the list.
    #[serde(rename = "resourceVersion", deserialize_with = "null_as_default")]
    pub resource_version: ResourceVersion,
    /// The token with which the next page is requested; empty for the last page.
    #[serde(rename = "continue", deserialize_with = "null_as_default")]
    pub continue_token: String,
}

/// Which byte is expected next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Start,
    /// A name, or the end of an empty list.
    FirstName,
    Name,
    Colon,
    Value,
    /// A comma, or the end of the list.
    AfterValue,
    /// An item, or the end of no items.
    FirstItem,
    Item,
    /// A comma, or the end of the items.
    AfterItem,
    End,
    /// After an error. No further part is returned.
    Failed,
}

impl ListCutter {
    /// Creates a cutter for items, and other fields of a list, of up to `limit` bytes each.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            body: BodyBuffer::with_limit(limit),
            place: Place::Start,
            value_end: None,
            head: ListHead::default(),
            field: String::new(),
            seen: Vec::new(),
        }
    }

    /// Adds the next chunk of the body. Call [`next`](Self::next) until it returns `None` before: otherwise the remaining bytes are copied.
    pub fn push(&mut self, chunk: Bytes) {
        self.body.push(chunk);
    }

    /// Returns the next complete part.
    ///
    /// # Errors
    ///
    /// If the body is not a list, or a field other than the items is larger than the limit. Every later call fails as well.
    #[expect(clippy::should_implement_trait, reason = "more may come after None, and it can fail")]
    pub fn next(&mut self) -> Result<Option<ListPart>, FrameError> {
        self.next_unless(|_| None)
    }

    /// Like [`next`](Self::next), but offers the bytes from the start of each item, up to the limit, to `take` first, which returns the length of the item if it processed
    /// it. If it returns `None`, because the item is incomplete or invalid, the item is cut as usual.
    ///
    /// So one pass both reads an item and finds its end, with [`Scanner::scan_first`](crate::object::Scanner::scan_first).
    ///
    /// # Errors
    ///
    /// Those of `next`.
    pub fn next_unless(
        &mut self,
        mut take: impl FnMut(&[u8]) -> Option<usize>,
    ) -> Result<Option<ListPart>, FrameError> {
        let next = self.advance(&mut take);
        if next.is_err() {
            self.place = Place::Failed;
        }
        next
    }

    fn advance(&mut self, take: &mut dyn FnMut(&[u8]) -> Option<usize>) -> Result<Option<ListPart>, FrameError> {
        while self.place != Place::Failed {
            if let Some(value_end) = &mut self.value_end {
                let end = value_end.find(self.body.rest());
                let Some(value) = self.body.cut(end, self.part())? else { return Ok(None) };
                self.value_end = None;
                if let (CutPart::Whole(value), false) = (&value, self.is_at_item()) {
                    self.read_name_or_value(value)?;
                    continue;
                }
                self.place = Place::AfterItem;
                return Ok(Some(match value {
                    CutPart::Whole(item) => ListPart::Item(item),
                    CutPart::Outline(outline) => ListPart::ItemOutline(outline),
                }));
            }
            self.skip_space();
            let Some(byte) = self.body.rest().first().copied() else { return Ok(None) };
            if let Some(next) = self.next_place(byte)? {
                self.place = next;
                self.body.skip(1);
            } else if byte == b'{'
                && self.is_at_item()
                && let Some(length) = take(self.body.rest_within_limit())
            {
                self.body.skip(length.min(self.body.rest().len()));
                self.place = Place::AfterItem;
            } else {
                self.value_end = Some(EndSearch::begin(byte).ok_or_else(|| self.unexpected(byte, "a JSON value"))?);
            }
            if self.place == Place::End {
                return self.end().map(|head| Some(ListPart::End(head)));
            }
        }
        Ok(None)
    }

    /// Checks, at the end of the body, that the list was complete.
    ///
    /// # Errors
    ///
    /// If the list was not complete.
    pub fn finish(mut self) -> Result<(), FrameError> {
        self.skip_space();
        match self.body.rest().first() {
            _ if self.place != Place::End => Err(self.body.truncated(self.part())),
            Some(byte) => Err(self.unexpected(*byte, "the end of the response")),
            None => Ok(()),
        }
    }

    /// Returns true if an item is expected, or is being read.
    fn is_at_item(&self) -> bool {
        matches!(self.place, Place::FirstItem | Place::Item)
    }

    /// Returns the part of the list that is being read.
    fn part(&self) -> FramePart {
        match self.value_end {
            Some(_) if self.is_at_item() => FramePart::Item,
            Some(_) => FramePart::Field,
            None => FramePart::List,
        }
    }

    /// Returns the place after a byte outside of values; `None` if the byte begins a name, a value or an item.
    fn next_place(&self, byte: u8) -> Result<Option<Place>, FrameError> {
        let expected = match (self.place, byte) {
            (Place::Start, b'{') => return Ok(Some(Place::FirstName)),
            (Place::FirstName | Place::AfterValue, b'}') => return Ok(Some(Place::End)),
            (Place::FirstName | Place::Name, b'"') => return Ok(None),
            (Place::Colon, b':') => return Ok(Some(Place::Value)),
            (Place::Value, _) => match (self.field.as_str(), byte) {
                ("items", b'[') => return Ok(Some(Place::FirstItem)),
                // Go writes an empty array of items as null.
                ("items" | "metadata", b'n') | ("metadata", b'{') => return Ok(None),
                ("items", _) => "an array of items",
                ("metadata", _) => "the metadata of a list",
                _ => return Ok(None),
            },
            (Place::AfterValue, b',') => return Ok(Some(Place::Name)),
            (Place::FirstItem | Place::AfterItem, b']') => return Ok(Some(Place::AfterValue)),
            (Place::FirstItem | Place::Item, _) => return Ok(None),
            (Place::AfterItem, b',') => return Ok(Some(Place::Item)),
            (Place::Start, _) => "the start of an object",
            (Place::FirstName | Place::Name, _) => "the name of a field",
            (Place::Colon, _) => "a colon",
            (Place::AfterValue, _) => "a comma or the end of the list",
            (Place::AfterItem, _) => "a comma or the end of the items",
            (Place::End | Place::Failed, _) => "the end of the response",
        };
        Err(self.unexpected(byte, expected))
    }

    fn skip_space(&mut self) {
        let is_value = |byte: &u8| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        let rest = self.body.rest();
        self.body.skip(rest.iter().position(is_value).unwrap_or(rest.len()));
    }

    fn read_name_or_value(&mut self, value: &[u8]) -> Result<(), FrameError> {
        if self.place != Place::Value {
            self.place = Place::Colon;
            self.field = self.json("the name of a field", value)?;
            return self.note_field();
        }
        self.place = Place::AfterValue;
        match self.field.as_str() {
            "apiVersion" => self.head.api_version = self.json::<Option<_>>("apiVersion", value)?.unwrap_or_default(),
            "kind" => self.head.kind = self.json::<Option<_>>("kind", value)?.unwrap_or_default(),
            "metadata" => self.head.metadata = self.json::<Option<_>>("metadata", value)?.unwrap_or_default(),
            "items" => self.json::<()>("items", value)?,
            // An unused field must still be valid JSON.
            name => self.json::<Value>(name, value).map(drop)?,
        }
        Ok(())
    }

    /// Refuses a second field of the same name.
    fn note_field(&mut self) -> Result<(), FrameError> {
        let Some(field) = FIELDS.into_iter().find(|known| *known == self.field) else { return Ok(()) };
        if self.seen.contains(&field) {
            let offset = self.body.offset();
            let problem = format!("{field} appears twice, again before byte {offset} of the response");
            return Err(FrameError::Malformed { problem });
        }
        self.seen.push(field);
        Ok(())
    }

    fn json<'a, T: Deserialize<'a>>(&self, field: &str, value: &'a [u8]) -> Result<T, FrameError> {
        let offset = self.body.offset();
        let bad = |error| FrameError::Malformed {
            problem: format!("{field}, before byte {offset} of the response, cannot be parsed: {error}"),
        };
        // serde_json does not check strings that are ignored.
        let text = std::str::from_utf8(value).map_err(serde::de::Error::custom);
        text.and_then(serde_json::from_str).map_err(bad)
    }

    /// Returns the fields of the list; fails if the body was not a list.
    fn end(&mut self) -> Result<ListHead, FrameError> {
        let head = std::mem::take(&mut self.head);
        if self.seen.contains(&"items") || head.kind.ends_with("List") {
            return Ok(head);
        }
        Err(FrameError::Malformed { problem: format!("the response is a {:?}, not a list", head.kind) })
    }

    fn unexpected(&self, byte: u8, expected: &'static str) -> FrameError {
        let (offset, found) = (self.body.offset(), char::from(byte));
        FrameError::Malformed { problem: format!("byte {offset} of the response is {found:?}; expected {expected}") }
    }
}

/// Go writes an empty field as null.
fn null_as_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(field: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(field)?.unwrap_or_default())
}

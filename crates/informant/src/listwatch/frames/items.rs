//! Cuts the body of a list into its items.
//!
//! - **In:** chunks of the body.
//! - **Out:** the JSON of each item, and the list's metadata.
//! - **Knows nothing of:** the content of an item.

use bytes::{Buf, Bytes, BytesMut};
use serde::Deserialize;
use serde_json::Value;

use super::{DEFAULT_LIMIT, FrameError, FramePart, skim::Skim};
use crate::ResourceVersion;

/// Cuts the body of a list into its items while it arrives; see the [module's page](super) for an example.
///
/// The fields of a list may be in any order, so the kind and version of the list are known only at its end. Use the items only after
/// [`ListPart::End`] has been checked.
#[derive(Debug)]
pub struct ListCutter {
    limit: usize,
    place: Place,
    /// The part of the newest chunk that has not been cut.
    chunk: Bytes,
    /// How many bytes at the front of `chunk` have been examined: the first byte of a value that has just begun.
    skimmed: usize,
    /// The beginning of an incomplete value, which the chunk continues.
    held: BytesMut,
    /// The number of bytes of the body that have been read.
    read: u64,
    head: ListHead,
    seen: Seen,
}

/// A part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListPart {
    /// The JSON of an item. Its content has not been checked.
    Item(Bytes),
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListMetadata {
    /// The version of the list.
    pub resource_version: ResourceVersion,
    /// The token with which the next page is requested; empty for the last page.
    pub continue_token: String,
    /// The number of items on the following pages, if the server sent it.
    pub remaining: Option<u64>,
}

/// Which byte is expected next.
#[derive(Clone, Debug)]
enum Place {
    Start,
    /// A name, or the end of an empty list.
    FirstName,
    Name,
    Colon(Field),
    Value(Field),
    /// A comma, or the end of the list.
    AfterValue,
    /// An item, or the end of no items.
    FirstItem,
    Item,
    /// A comma, or the end of the items.
    AfterItem,
    /// Inside of a name, a value or an item.
    Within(Skim, Part),
    End,
    /// After an error. No further part is returned.
    Failed,
}

/// The part of the list that is being read.
#[derive(Clone, Debug)]
enum Part {
    Name,
    Value(Field),
    Item,
}

/// A field of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Field {
    ApiVersion,
    Kind,
    Metadata,
    Items,
    Other(String),
}

/// The fields that have been read.
#[derive(Debug, Default)]
struct Seen {
    api_version: bool,
    kind: bool,
    metadata: bool,
    items: bool,
}

impl ListCutter {
    /// Creates a cutter for items of up to [`DEFAULT_LIMIT`] bytes.
    pub fn new() -> Self {
        Self::with_limit(DEFAULT_LIMIT)
    }

    /// Creates a cutter for items, and other fields of a list, of up to `limit` bytes each.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            limit,
            place: Place::Start,
            chunk: Bytes::new(),
            skimmed: 0,
            held: BytesMut::new(),
            read: 0,
            head: ListHead::default(),
            seen: Seen::default(),
        }
    }

    /// Adds the next chunk of the body. Call [`next`](Self::next) until it returns `None` before: otherwise the remaining bytes are copied.
    pub fn push(&mut self, chunk: Bytes) {
        if self.chunk.is_empty() {
            self.chunk = chunk;
        } else {
            self.chunk = [&*self.chunk, &*chunk].concat().into();
        }
    }

    /// Returns the next complete part.
    ///
    /// # Errors
    ///
    /// If the body is not a list, or an item is larger than the limit. Every later call fails as well.
    #[expect(clippy::should_implement_trait, reason = "more may come after None, and it can fail")]
    pub fn next(&mut self) -> Result<Option<ListPart>, FrameError> {
        self.next_unless(|_| None)
    }

    /// Like [`next`](Self::next), but offers the bytes from the start of each item to `take` first, which returns the length of the item if it processed
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
        loop {
            match std::mem::replace(&mut self.place, Place::Failed) {
                Place::Failed => return Ok(None),
                Place::Within(mut skim, part) => {
                    let skimmed = std::mem::take(&mut self.skimmed);
                    let end = skim.read(&self.chunk[skimmed..]).map(|end| skimmed + end);
                    let Some(value) = self.take(end, &part)? else {
                        self.place = Place::Within(skim, part);
                        return Ok(None);
                    };
                    match part {
                        Part::Name => self.place = Place::Colon(self.field(&value)?),
                        Part::Value(field) => {
                            self.read_field(&field, &value)?;
                            self.place = Place::AfterValue;
                        }
                        Part::Item => {
                            self.place = Place::AfterItem;
                            return Ok(Some(ListPart::Item(value)));
                        }
                    }
                }
                between @ (Place::Start
                | Place::FirstName
                | Place::Name
                | Place::Colon(_)
                | Place::Value(_)
                | Place::AfterValue
                | Place::FirstItem
                | Place::Item
                | Place::AfterItem
                | Place::End) => {
                    self.place = between;
                    self.skip_space();
                    let Some(byte) = self.chunk.first().copied() else { return Ok(None) };
                    if byte == b'{'
                        && matches!(self.place, Place::FirstItem | Place::Item)
                        && let Some(length) = take(&self.chunk)
                    {
                        self.take(Some(length.min(self.chunk.len())), &Part::Item)?;
                        self.place = Place::AfterItem;
                        continue;
                    }
                    if self.step(byte)? {
                        return self.end().map(|head| Some(ListPart::End(head)));
                    }
                }
            }
        }
    }

    /// Checks, at the end of the body, that the list was complete.
    ///
    /// # Errors
    ///
    /// If the list was not complete.
    pub fn finish(mut self) -> Result<(), FrameError> {
        self.skip_space();
        let part = match (self.place.clone(), self.chunk.first()) {
            (Place::End, None) => return Ok(()),
            (Place::End, Some(byte)) => return Err(self.unexpected(*byte, "the end of the response")),
            (place, _) => place,
        };
        let part = match part {
            Place::Within(_, Part::Item) => FramePart::Item,
            Place::Within(_, Part::Name | Part::Value(_)) => FramePart::Field,
            Place::Start
            | Place::FirstName
            | Place::Name
            | Place::Colon(_)
            | Place::Value(_)
            | Place::AfterValue
            | Place::FirstItem
            | Place::Item
            | Place::AfterItem
            | Place::End
            | Place::Failed => FramePart::List,
        };
        Err(FrameError::Truncated { length: self.read + self.chunk.len() as u64, part })
    }

    /// Reads the chunk up to the end of the current value, or the whole chunk if the value does not end in it.
    fn take(&mut self, end: Option<usize>, part: &Part) -> Result<Option<Bytes>, FrameError> {
        let length = end.unwrap_or(self.chunk.len());
        let size = self.held.len() + length;
        if size > self.limit {
            let part = match part {
                Part::Item => FramePart::Item,
                Part::Name | Part::Value(_) => FramePart::Field,
            };
            let offset = self.read - self.held.len() as u64;
            return Err(FrameError::TooLarge { part, limit: self.limit, offset });
        }
        let taken = self.chunk.split_to(length);
        self.read += length as u64;
        if end.is_some() && self.held.is_empty() {
            return Ok(Some(taken));
        }
        self.held.extend_from_slice(&taken);
        Ok(end.map(|_| self.held.split().freeze()))
    }

    /// Reads a byte outside of values. Returns true if it ends the list.
    fn step(&mut self, byte: u8) -> Result<bool, FrameError> {
        let next = match (&self.place, byte) {
            (Place::Start, b'{') => Place::FirstName,
            (Place::Start, _) => return Err(self.unexpected(byte, "the start of an object")),
            (Place::FirstName | Place::AfterValue, b'}') => Place::End,
            (Place::FirstName | Place::Name, b'"') => return self.enter(byte, Part::Name),
            (Place::FirstName | Place::Name, _) => return Err(self.unexpected(byte, "the name of a field")),
            (Place::Colon(field), b':') => Place::Value(field.clone()),
            (Place::Colon(_), _) => return Err(self.unexpected(byte, "a colon")),
            (Place::Value(Field::Items), b'[') => Place::FirstItem,
            // Go writes an empty array of items as null.
            (Place::Value(Field::Items), b'n') => return self.enter(byte, Part::Value(Field::Items)),
            (Place::Value(Field::Items), _) => return Err(self.unexpected(byte, "an array of items")),
            (Place::Value(Field::Metadata), byte) if byte != b'{' && byte != b'n' => {
                return Err(self.unexpected(byte, "the metadata of a list"));
            }
            (Place::Value(field), _) => return self.enter(byte, Part::Value(field.clone())),
            (Place::AfterValue, b',') => Place::Name,
            (Place::AfterValue, _) => return Err(self.unexpected(byte, "a comma or the end of the list")),
            (Place::FirstItem | Place::AfterItem, b']') => Place::AfterValue,
            (Place::FirstItem | Place::Item, _) => return self.enter(byte, Part::Item),
            (Place::AfterItem, b',') => Place::Item,
            (Place::AfterItem, _) => return Err(self.unexpected(byte, "a comma or the end of the items")),
            (Place::End, _) => return Err(self.unexpected(byte, "the end of the response")),
            (Place::Within(..) | Place::Failed, _) => return Err(self.unexpected(byte, "the rest of a value")),
        };
        self.place = next;
        self.chunk.advance(1);
        self.read += 1;
        Ok(matches!(self.place, Place::End))
    }

    /// Begins a value. Its first byte stays in the chunk, so that the value can be a slice of it.
    fn enter(&mut self, first: u8, part: Part) -> Result<bool, FrameError> {
        let Some(skim) = Skim::begin(first) else { return Err(self.unexpected(first, "a JSON value")) };
        self.place = Place::Within(skim, part);
        self.skimmed = 1;
        Ok(false)
    }

    fn skip_space(&mut self) {
        let is_value = |byte: &u8| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        let space = self.chunk.iter().position(is_value).unwrap_or(self.chunk.len());
        self.chunk.advance(space);
        self.read += space as u64;
    }

    fn field(&mut self, name: &[u8]) -> Result<Field, FrameError> {
        let name: String = self.json("the name of a field", name)?;
        let (seen, field, text) = match name.as_str() {
            "apiVersion" => (&mut self.seen.api_version, Field::ApiVersion, "apiVersion"),
            "kind" => (&mut self.seen.kind, Field::Kind, "kind"),
            "metadata" => (&mut self.seen.metadata, Field::Metadata, "metadata"),
            "items" => (&mut self.seen.items, Field::Items, "items"),
            _ => return Ok(Field::Other(name)),
        };
        if std::mem::replace(seen, true) {
            return Err(FrameError::Duplicate { field: text, offset: self.read });
        }
        Ok(field)
    }

    fn read_field(&mut self, field: &Field, value: &[u8]) -> Result<(), FrameError> {
        match field {
            Field::ApiVersion => {
                self.head.api_version = self.json::<Option<_>>("apiVersion", value)?.unwrap_or_default();
            }
            Field::Kind => self.head.kind = self.json::<Option<_>>("kind", value)?.unwrap_or_default(),
            Field::Metadata => {
                let metadata: RawMetadata = self.json::<Option<_>>("metadata", value)?.unwrap_or_default();
                self.head.metadata = metadata.into();
            }
            Field::Items => self.json::<()>("items", value)?,
            // An unused field must still be valid JSON.
            Field::Other(name) => self.json::<Value>(name, value).map(drop)?,
        }
        Ok(())
    }

    fn json<'a, T: Deserialize<'a>>(&self, field: &str, value: &'a [u8]) -> Result<T, FrameError> {
        let bad = |source| FrameError::Field { field: field.into(), offset: self.read, source };
        // serde_json does not check strings that are ignored.
        let text = std::str::from_utf8(value).map_err(serde::de::Error::custom);
        text.and_then(serde_json::from_str).map_err(bad)
    }

    /// Returns the fields of the list; fails if the body was not a list.
    fn end(&mut self) -> Result<ListHead, FrameError> {
        let head = std::mem::take(&mut self.head);
        if self.seen.items || head.kind.ends_with("List") {
            return Ok(head);
        }
        Err(FrameError::NotAList { kind: head.kind })
    }

    fn unexpected(&self, byte: u8, expected: &'static str) -> FrameError {
        FrameError::Unexpected { offset: self.read, found: char::from(byte), expected }
    }
}

impl Default for ListCutter {
    fn default() -> Self {
        Self::new()
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawMetadata {
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    continue_token: Option<String>,
    remaining_item_count: Option<u64>,
}

impl From<RawMetadata> for ListMetadata {
    fn from(raw: RawMetadata) -> Self {
        Self {
            resource_version: ResourceVersion::new(raw.resource_version.unwrap_or_default()),
            continue_token: raw.continue_token.unwrap_or_default(),
            remaining: raw.remaining_item_count,
        }
    }
}

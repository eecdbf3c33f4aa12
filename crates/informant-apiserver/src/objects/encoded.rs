//! Objects encoded as JSON. Each state is encoded once, as the line of its watch event, which contains the object.
//!
//! - **In:** an [`Object`] and the change that produced it.
//! - **Out:** the same bytes for every list, get and watch; slices and other event types without encoding again.

use std::{ops::Range, sync::OnceLock};

use bytes::Bytes;
use serde_json::Value;

use crate::{objects::Object, registry::kind::Kind};

/// The type of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Added,
    Modified,
    Deleted,
}

/// The representation of objects that a client requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The whole object.
    Full,
    /// `PartialObjectMetadata`.
    Metadata,
}

/// One state of an object.
#[derive(Debug)]
pub(crate) struct Encoded {
    change: Change,
    /// The line of the watch event: `{"type":"ADDED","object":{…}}` and a line feed.
    line: Bytes,
    /// The position of the value of `metadata` in the line.
    metadata: Range<u32>,
    /// The position of the value of `managedFields`, the last field of `metadata`; empty if there are none.
    managed: Range<u32>,
    /// The other fields, and the positions of their values in the line.
    rest: Box<[(Box<str>, Range<u32>)]>,
    /// The same line with metadata only, encoded at the first request for it.
    metadata_line: OnceLock<Bytes>,
}

/// The JSON before the metadata of a `PartialObjectMetadata`.
pub(crate) const METADATA_HEAD: &str = r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":"#;

impl Encoded {
    pub(crate) fn new(kind: &Kind, change: Change, object: &Object) -> Self {
        let mut line =
            Vec::with_capacity(2048 + object.managed.len() + object.rest.values().map(Bytes::len).sum::<usize>());
        line.extend_from_slice(line_head(change).as_bytes());
        line.extend_from_slice(br#"{"kind":"#);
        write(&mut line, &Value::from(&*kind.kind));
        line.extend_from_slice(br#","apiVersion":"#);
        write(&mut line, &Value::from(kind.api_version()));
        line.extend_from_slice(br#","metadata":"#);
        let begin = position(&line);
        write(&mut line, &object.metadata);
        let mut managed = 0..0;
        if !object.managed.is_empty() {
            line.pop();
            line.extend_from_slice(if object.metadata.is_empty() { &MANAGED_FIELDS[1..] } else { MANAGED_FIELDS });
            managed.start = position(&line);
            line.extend_from_slice(&object.managed);
            managed.end = position(&line);
            line.push(b'}');
        }
        let metadata = begin..position(&line);
        let write_field = |(field, value): (&String, &Bytes)| {
            line.push(b',');
            write(&mut line, field);
            line.push(b':');
            let begin = position(&line);
            line.extend_from_slice(value);
            (field.as_str().into(), begin..position(&line))
        };
        let rest = object.rest.iter().map(write_field).collect();
        line.extend_from_slice(b"}}\n");
        line.shrink_to_fit();
        Self { change, line: line.into(), metadata, managed, rest, metadata_line: OnceLock::new() }
    }

    /// The number of JSON bytes that this state holds in memory.
    pub(crate) fn len(&self) -> usize {
        self.line.len()
    }

    /// The JSON of the object.
    pub(crate) fn object(&self) -> Bytes {
        self.line.slice(line_head(self.change).len()..self.line.len() - LINE_TAIL.len())
    }

    /// The value of `metadata`.
    pub(crate) fn metadata(&self) -> &[u8] {
        &self.line[self.metadata.start as usize..self.metadata.end as usize]
    }

    /// The JSON from `"metadata":` to the end, without `kind`, `apiVersion` and the opening brace, for items of lists of built-in kinds.
    pub(crate) fn untyped(&self) -> &[u8] {
        &self.line[self.metadata.start as usize - r#""metadata":"#.len()..self.line.len() - LINE_TAIL.len()]
    }

    /// The line of a watch event with this state and the given type.
    pub(crate) fn line(&self, change: Change, form: Form) -> Bytes {
        match form {
            Form::Full if change == self.change => self.line.clone(),
            Form::Full => [line_head(change).as_bytes(), &self.object(), LINE_TAIL].concat().into(),
            Form::Metadata if change == self.change => {
                self.metadata_line.get_or_init(|| self.line_of_metadata(change)).clone()
            }
            Form::Metadata => self.line_of_metadata(change),
        }
    }

    fn line_of_metadata(&self, change: Change) -> Bytes {
        let parts = [line_head(change).as_bytes(), METADATA_HEAD.as_bytes(), self.metadata(), b"}", LINE_TAIL];
        parts.concat().into()
    }

    /// Decodes the object.
    pub(crate) fn decode(&self) -> Object {
        let field = |(field, range): &(Box<str>, Range<u32>)| {
            (field.to_string(), self.line.slice(range.start as usize..range.end as usize))
        };
        let managed = self.line.slice(self.managed.start as usize..self.managed.end as usize);
        // `new` encoded the JSON, so decoding does not fail.
        let metadata = match managed.is_empty() {
            true => serde_json::from_slice(self.metadata()),
            false => {
                let own = self.metadata.start as usize..self.managed.start as usize;
                let own = self.line[own].strip_suffix(MANAGED_FIELDS).unwrap_or(b"{");
                serde_json::from_slice(&[own, b"}"].concat())
            }
        };
        let metadata = metadata.unwrap_or_default();
        Object { metadata, managed, rest: self.rest.iter().map(field).collect(), ..Object::default() }
    }
}

/// What precedes the managed fields.
const MANAGED_FIELDS: &[u8] = br#","managedFields":"#;

const LINE_TAIL: &[u8] = b"}\n";

fn line_head(change: Change) -> &'static str {
    match change {
        Change::Added => r#"{"type":"ADDED","object":"#,
        Change::Modified => r#"{"type":"MODIFIED","object":"#,
        Change::Deleted => r#"{"type":"DELETED","object":"#,
    }
}

fn position(line: &[u8]) -> u32 {
    // Bodies of requests are limited to a few megabytes, so the length fits.
    u32::try_from(line.len()).unwrap_or(u32::MAX)
}

/// Appends a value as JSON. Writing JSON values to memory does not fail.
fn write(line: &mut Vec<u8>, value: &impl serde::Serialize) {
    let written = serde_json::to_writer(line, value);
    debug_assert!(written.is_ok(), "JSON values can be written");
}

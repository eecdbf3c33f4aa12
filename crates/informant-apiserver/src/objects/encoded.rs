//! An object as bytes, written once: as the watch event that brought it, of which the object itself is a part.
//!
//! - **In:** an [`Object`] and the change that it comes with.
//! - **Out:** the same bytes for every list, get and watch; slices and other event types without encoding again.

use std::ops::Range;
use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::Value;

use crate::objects::Object;
use crate::registry::kind::Kind;

/// What happened to an object, in the words of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Added,
    Modified,
    Deleted,
}

/// How a client wants to see objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Whole.
    Full,
    /// `PartialObjectMetadata`.
    Metadata,
}

/// One state of an object.
#[derive(Debug)]
pub(crate) struct Encoded {
    change: Change,
    /// The whole line of a watch: `{"type":"ADDED","object":{…}}` and a line feed.
    line: Bytes,
    /// Where the value of `metadata` begins and ends in the line.
    metadata: Range<u32>,
    /// The other fields, and where their values are in the line.
    rest: Box<[(Box<str>, Range<u32>)]>,
    /// The same line with metadata only, if somebody has asked for it.
    metadata_line: OnceLock<Bytes>,
}

/// What stands before the metadata of a `PartialObjectMetadata`.
pub(crate) const METADATA_HEAD: &str = r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":"#;

impl Encoded {
    pub(crate) fn new(kind: &Kind, change: Change, object: &Object) -> Self {
        let mut line = Vec::with_capacity(2048 + object.rest.values().map(Bytes::len).sum::<usize>());
        line.extend_from_slice(line_head(change).as_bytes());
        line.extend_from_slice(br#"{"kind":"#);
        write(&mut line, &Value::from(&*kind.kind));
        line.extend_from_slice(br#","apiVersion":"#);
        write(&mut line, &Value::from(kind.api_version()));
        line.extend_from_slice(br#","metadata":"#);
        let begin = position(&line);
        write(&mut line, &object.metadata);
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
        Self { change, line: line.into(), metadata, rest, metadata_line: OnceLock::new() }
    }

    /// How many bytes of JSON this state takes in memory.
    pub(crate) fn len(&self) -> usize {
        self.line.len()
    }

    /// The object itself.
    pub(crate) fn object(&self) -> Bytes {
        self.line.slice(line_head(self.change).len()..self.line.len() - LINE_TAIL.len())
    }

    /// The value of `metadata`.
    pub(crate) fn metadata(&self) -> &[u8] {
        &self.line[self.metadata.start as usize..self.metadata.end as usize]
    }

    /// Everything from `"metadata":` on, without kind, apiVersion and the opening brace: list items of built-in kinds.
    pub(crate) fn untyped(&self) -> &[u8] {
        &self.line[self.metadata.start as usize - r#""metadata":"#.len()..self.line.len() - LINE_TAIL.len()]
    }

    /// The line of a watch that tells of this state as that change.
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

    /// The object, to be read or changed.
    pub(crate) fn decode(&self) -> Object {
        let field = |(field, range): &(Box<str>, Range<u32>)| {
            (field.to_string(), self.line.slice(range.start as usize..range.end as usize))
        };
        // What was written as JSON can be read as JSON.
        let metadata = serde_json::from_slice(self.metadata()).unwrap_or_default();
        Object { metadata, rest: self.rest.iter().map(field).collect() }
    }
}

const LINE_TAIL: &[u8] = b"}\n";

fn line_head(change: Change) -> &'static str {
    match change {
        Change::Added => r#"{"type":"ADDED","object":"#,
        Change::Modified => r#"{"type":"MODIFIED","object":"#,
        Change::Deleted => r#"{"type":"DELETED","object":"#,
    }
}

fn position(line: &[u8]) -> u32 {
    // A request's body is at most some megabytes.
    u32::try_from(line.len()).unwrap_or(u32::MAX)
}

/// Writes a value that always can be written: JSON to memory.
fn write(line: &mut Vec<u8>, value: &impl serde::Serialize) {
    let written = serde_json::to_writer(line, value);
    debug_assert!(written.is_ok(), "JSON values can be written");
}

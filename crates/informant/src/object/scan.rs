//! Reads the identity of an object from its bytes, in one walk over them.
//!
//! - **In:** bytes that begin with an object.
//! - **Out:** its identity and type, and its compact JSON: without white space and cut fields, and with the type at the front; noted values behind it.
//! - **Knows nothing of:** kinds, decoding.

use std::{borrow::Cow, mem, ops::Range};

use super::{
    DecodeError, Identity, SyntaxProblem, Uid,
    field_path::FieldTree,
    noted,
    walk::{MemberAction, Walk, Walked},
};
use crate::{Key, ResourceVersion};

/// The result of a scan.
pub(super) struct ScannedObject<'a> {
    pub(super) identity: Identity,
    pub(super) api_version: Option<Cow<'a, str>>,
    pub(super) kind: Option<Cow<'a, str>>,
    /// The range of the value of `metadata.labels` in the compact JSON; empty if there is none.
    pub(super) labels: Range<usize>,
    /// The number of bytes of the compact JSON, behind which the [noted values](noted) are.
    pub(super) json_length: usize,
    /// The number of bytes of the object.
    pub(super) length: usize,
}

/// The fields that are left out or noted.
#[derive(Default)]
pub(super) struct FieldRules {
    pub(super) keeps_managed_fields: bool,
    pub(super) tree: FieldTree,
    /// The number of fields that are noted.
    pub(super) noted: u8,
}

/// Scans the object at the start of `json`. Writes its compact JSON into `compact`, replacing its content, with
/// `type_members` instead of apiVersion and kind: JSON members such as `"kind":"Pod",`, from [`type_members`]. The [noted values](noted) follow.
/// The bytes after the object are not read.
pub(super) fn scan<'a>(
    json: &'a [u8],
    rules: &FieldRules,
    type_members: &str,
    compact: &mut String,
) -> Result<ScannedObject<'a>, DecodeError> {
    compact.clear();
    let mut walk = Walk::writing(json, mem::take(compact).into_bytes());
    let mut fields = Fields::default();
    let walked = fields.read_object(&mut walk, rules, type_members);
    let offset = walk.offset();
    let (mut output, notes) = walk.into_output();
    let found = fields.finish(walked, offset, output.len());
    match &found {
        Ok(_) => noted::append(&mut output, rules.noted, &notes),
        // The content is not needed; only the buffer is used again.
        Err(_) => output.clear(),
    }
    match String::from_utf8(output) {
        Ok(text) => {
            *compact = text;
            found
        }
        Err(_) => Err(invalid_utf8(&json[..offset])),
    }
}

/// Returns the error for bytes that are not UTF-8. The valid bytes at the front may still name the object.
pub(super) fn invalid_utf8(json: &[u8]) -> DecodeError {
    let offset = std::str::from_utf8(json).map_or_else(|error| error.valid_up_to(), str::len);
    let mut fields = Fields::default();
    // Always fails, because the JSON is incomplete; the fields before the failure are used.
    let _ = fields.read_object(&mut Walk::new(&json[..offset]), &FieldRules::default(), "");
    DecodeError::Syntax { key: fields.key(), offset, problem: SyntaxProblem::InvalidUtf8 }
}

/// Returns apiVersion and kind as JSON members, with a comma behind each; an empty one is left out.
pub(super) fn type_members(api_version: &str, kind: &str) -> String {
    let present = [("apiVersion", api_version), ("kind", kind)].into_iter().filter(|(_, value)| !value.is_empty());
    present.map(|(name, value)| format!("\"{name}\":{},", serde_json::Value::from(value))).collect()
}

impl ScannedObject<'_> {
    /// Writes the object's own apiVersion and kind at the front of its compact JSON, and returns their length. Only for an object that was
    /// scanned without type members.
    pub(super) fn insert_types(&mut self, compact: &mut String) -> usize {
        let (api_version, kind) = (self.api_version.as_deref(), self.kind.as_deref());
        let types = type_members(api_version.unwrap_or_default(), kind.unwrap_or_default());
        // The first byte is the brace.
        compact.insert_str(1, &types);
        self.labels = self.labels.start + types.len()..self.labels.end + types.len();
        self.json_length += types.len();
        types.len()
    }
}

/// The fields of the identity that were read so far. A `null` counts as read and empty.
#[derive(Default)]
struct Fields<'a> {
    api_version: Option<Cow<'a, str>>,
    kind: Option<Cow<'a, str>>,
    metadata: MetadataProgress,
    name: Option<Cow<'a, str>>,
    namespace: Option<Cow<'a, str>>,
    uid: Option<Cow<'a, str>>,
    version: Option<Cow<'a, str>>,
    labels: Option<Range<usize>>,
    reader: FieldReader,
}

#[derive(Default, PartialEq, Eq)]
enum MetadataProgress {
    #[default]
    NotSeen,
    Begun,
    Complete,
}

/// Reads single fields. Stores the first problem with a field that is valid JSON, and the offset of the field. The walk continues after
/// the problem, because the key may follow.
#[derive(Default)]
struct FieldReader(Option<(usize, Problem)>);

#[derive(Clone, Copy)]
enum Problem {
    Duplicate(Field),
    Expected(Field, &'static str),
}

/// The path of a field.
type Field = &'static str;

/// Where a string of the identity is stored.
type FieldSlot<'s, 'a> = &'s mut Option<Cow<'a, str>>;

/// The name of a JSON type, and the bytes with which its values begin.
type Shape = (&'static str, &'static [u8]);

const STRING: Shape = ("a string", b"\"");
const NUMBER: Shape = ("a number", b"-0123456789");
const ARRAY: Shape = ("an array", b"[");

/// The nesting depth of a nested object or array that is a member of the object (2) or a member of its metadata (3).
const IN_OBJECT: usize = 2;
const IN_METADATA: usize = 3;

impl<'a> Fields<'a> {
    /// Reads one object. The walk writes `type_members` instead of its apiVersion and kind.
    fn read_object(&mut self, walk: &mut Walk<'a>, rules: &FieldRules, type_members: &str) -> Walked<()> {
        walk.skip_space();
        match walk.peek() {
            Some(b'{') => walk.insert_members(type_members),
            Some(_) => return Err(SyntaxProblem::NotAnObject),
            None => return Err(SyntaxProblem::Truncated),
        }
        walk.members(|walk, name| {
            let name = walk.resolve(&name)?;
            let tree = rules.tree.below(name.as_bytes());
            match &*name {
                "apiVersion" => self.reader.read_text(walk, "apiVersion", IN_OBJECT, &mut self.api_version)?,
                "kind" => self.reader.read_text(walk, "kind", IN_OBJECT, &mut self.kind)?,
                "metadata" => self.read_metadata(walk, rules.keeps_managed_fields, tree)?,
                _ => walk.value_by_tree(IN_OBJECT, tree)?,
            }
            match &*name {
                "apiVersion" | "kind" => Ok(MemberAction::Cut),
                _ => Ok(MemberAction::of(tree)),
            }
        })
    }

    fn read_metadata(
        &mut self,
        walk: &mut Walk<'a>,
        keeps_managed_fields: bool,
        tree: Option<&FieldTree>,
    ) -> Walked<()> {
        let Self { metadata, name, namespace, uid, version, labels, reader, .. } = self;
        if *metadata != MetadataProgress::NotSeen {
            return reader.refuse(walk, Problem::Duplicate("metadata"), IN_OBJECT);
        }
        *metadata = MetadataProgress::Begun;
        if walk.peek() != Some(b'{') {
            return reader.refuse(walk, Problem::Expected("metadata", "an object"), IN_OBJECT);
        }
        walk.members(|walk, member| {
            let member = walk.resolve(&member)?;
            let tree = tree.and_then(|tree| tree.below(member.as_bytes()));
            let start = walk.output_len();
            match &*member {
                "name" => reader.read_name(walk, "metadata.name", name)?,
                "namespace" => reader.read_name(walk, "metadata.namespace", namespace)?,
                "uid" => reader.read_text(walk, "metadata.uid", IN_METADATA, uid)?,
                "resourceVersion" => reader.read_text(walk, "metadata.resourceVersion", IN_METADATA, version)?,
                "labels" if labels.is_some() => {
                    reader.refuse(walk, Problem::Duplicate("metadata.labels"), IN_METADATA)?;
                }
                "labels" => {
                    reader.read_texts(walk, "metadata.labels", tree)?;
                    *labels = Some(match MemberAction::of(tree) {
                        MemberAction::Keep => start..walk.output_len(),
                        MemberAction::Cut => 0..0,
                    });
                }
                "annotations" => reader.read_texts(walk, "metadata.annotations", tree)?,
                "generateName" => reader.read_shape(walk, "metadata.generateName", STRING, tree)?,
                "creationTimestamp" => reader.read_shape(walk, "metadata.creationTimestamp", STRING, tree)?,
                "deletionTimestamp" => reader.read_shape(walk, "metadata.deletionTimestamp", STRING, tree)?,
                "generation" => reader.read_shape(walk, "metadata.generation", NUMBER, tree)?,
                "ownerReferences" => reader.read_shape(walk, "metadata.ownerReferences", ARRAY, tree)?,
                "finalizers" => reader.read_shape(walk, "metadata.finalizers", ARRAY, tree)?,
                "managedFields" if !keeps_managed_fields => {
                    walk.value(IN_METADATA)?;
                    return Ok(MemberAction::Cut);
                }
                _ => walk.value_by_tree(IN_METADATA, tree)?,
            }
            // `value_by_tree` notes the other values.
            if let ("name" | "namespace" | "uid" | "resourceVersion", Some(tree)) = (&*member, tree) {
                walk.note(tree, start);
            }
            Ok(MemberAction::of(tree))
        })?;
        *metadata = MetadataProgress::Complete;
        Ok(())
    }

    /// Returns the key once it is certain: name and namespace were read; or the name was read, and the metadata is complete and has no
    /// namespace.
    fn key(&self) -> Option<Key> {
        let name = self.name.as_deref().filter(|name| !name.is_empty())?;
        match &self.namespace {
            Some(namespace) => Some(Key::namespaced(namespace, name)),
            None if self.metadata == MetadataProgress::Complete => Some(Key::cluster_scoped(name)),
            None => None,
        }
    }

    /// Returns the result of a walk that ended at this offset and wrote this many bytes of JSON.
    fn finish(self, walked: Walked<()>, offset: usize, json_length: usize) -> Result<ScannedObject<'a>, DecodeError> {
        let key = self.key();
        match (self.reader.0, walked) {
            (Some((offset, Problem::Duplicate(field))), _) => Err(DecodeError::DuplicateField { key, field, offset }),
            (Some((offset, Problem::Expected(field, expected))), _) => {
                Err(DecodeError::BadMetadata { key, field, expected, offset })
            }
            (None, Err(problem)) => Err(DecodeError::Syntax { key, offset, problem }),
            (None, Ok(())) => {
                let key = key.ok_or(DecodeError::NoName)?;
                let uid = Uid::new(self.uid.as_deref().unwrap_or_default());
                let version = ResourceVersion::new(self.version.as_deref().unwrap_or_default());
                Ok(ScannedObject {
                    identity: Identity { key, uid, version },
                    api_version: self.api_version.filter(|text| !text.is_empty()),
                    kind: self.kind.filter(|text| !text.is_empty()),
                    labels: self.labels.unwrap_or_default(),
                    json_length,
                    length: offset,
                })
            }
        }
    }
}

impl FieldReader {
    /// Reads the name of an object or namespace. A slash in it is refused: it would make two keys look alike.
    fn read_name<'a>(&mut self, walk: &mut Walk<'a>, field: Field, slot: FieldSlot<'_, 'a>) -> Walked<()> {
        let offset = walk.offset();
        self.read_text(walk, field, IN_METADATA, slot)?;
        if slot.as_ref().is_some_and(|name| name.contains('/')) {
            self.0.get_or_insert((offset, Problem::Expected(field, "a string without a slash")));
        }
        Ok(())
    }

    /// Reads a string of the identity, or `null`.
    fn read_text<'a>(
        &mut self,
        walk: &mut Walk<'a>,
        field: Field,
        depth: usize,
        slot: FieldSlot<'_, 'a>,
    ) -> Walked<()> {
        if slot.is_some() {
            return self.refuse(walk, Problem::Duplicate(field), depth);
        }
        let text = match walk.peek() {
            Some(b'"') => {
                let span = walk.string()?;
                walk.resolve(&span)?
            }
            Some(b'n') => walk.literal("null").map(|()| Cow::Borrowed(""))?,
            _ => return self.refuse(walk, Problem::Expected(field, "a string"), depth),
        };
        *slot = Some(text);
        Ok(())
    }

    /// Reads an object whose values are strings, or `null`.
    fn read_texts(&mut self, walk: &mut Walk<'_>, field: Field, tree: Option<&FieldTree>) -> Walked<()> {
        let expected = Problem::Expected(field, "an object of strings");
        match walk.peek() {
            Some(b'n') => walk.literal("null"),
            Some(b'{') => walk.members(|walk, name| {
                let start = walk.output_len();
                match walk.peek() {
                    Some(b'"') => walk.string().map(drop)?,
                    _ => self.refuse(walk, expected, IN_METADATA + 1)?,
                }
                let Some(tree) = tree.filter(|tree| !tree.is_cut) else { return Ok(MemberAction::Keep) };
                let tree = tree.below(&walk.resolve_name(&name)?).inspect(|tree| walk.note(tree, start));
                Ok(MemberAction::of(tree))
            }),
            _ => self.refuse(walk, expected, IN_METADATA),
        }
    }

    /// Reads a value whose first byte fits its type, or `null`.
    fn read_shape(&mut self, walk: &mut Walk<'_>, field: Field, shape: Shape, tree: Option<&FieldTree>) -> Walked<()> {
        let (expected, beginnings) = shape;
        match walk.peek() {
            Some(first) if first != b'n' && !beginnings.contains(&first) => {
                self.refuse(walk, Problem::Expected(field, expected), IN_METADATA)
            }
            _ => walk.value_by_tree(IN_METADATA, tree),
        }
    }

    /// Stores a problem with a value, unless there is an earlier one, and walks over the value.
    fn refuse(&mut self, walk: &mut Walk<'_>, problem: Problem, depth: usize) -> Walked<()> {
        let offset = walk.offset();
        walk.value(depth)?;
        self.0.get_or_insert((offset, problem));
        Ok(())
    }
}

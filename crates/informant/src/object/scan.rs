//! Reads who an object is from its text, in one walk over it.
//!
//! - **In:** the text of one object.
//! - **Out:** its identity and type, and the same object as compact JSON without `metadata.managedFields`.
//! - **Knows nothing of:** kinds, decoding.

use std::borrow::Cow;
use std::ops::Range;

use super::DecodeError;
use super::Identity;
use super::SyntaxProblem;
use super::Uid;
use super::walk::Member;
use super::walk::Walk;
use crate::Key;
use crate::ResourceVersion;

/// What was found.
pub(super) struct Found<'a> {
    pub(super) identity: Identity,
    pub(super) api_version: Option<Cow<'a, str>>,
    pub(super) kind: Option<Cow<'a, str>>,
    /// Where in the output the value of `metadata.labels` stands; empty if there is none.
    pub(super) labels: Range<usize>,
}

/// Scans `json` and writes its compact form to `compact`, in place of what was there.
pub(super) fn scan<'a>(
    json: &'a str,
    keeps_managed_fields: bool,
    compact: &mut String,
) -> Result<Found<'a>, DecodeError> {
    let mut walk = Walk::new(json, compact);
    let mut fields = Fields::default();
    let trouble = match fields.read_object(&mut walk, keeps_managed_fields) {
        Ok(()) => return fields.finish(),
        Err(trouble) => trouble,
    };
    let (key, offset) = (fields.key(), walk.offset());
    Err(match trouble {
        Trouble::Syntax(problem) => DecodeError::Syntax { key, offset, problem },
        Trouble::Duplicate(field) => DecodeError::DuplicateField { key, field, offset },
        Trouble::Expected(field, expected) => DecodeError::BadMetadata { key, field, expected, offset },
    })
}

/// The fields that say who the object is, as far as they were seen. A `null` counts as seen and empty.
#[derive(Default)]
struct Fields<'a> {
    api_version: Option<Cow<'a, str>>,
    kind: Option<Cow<'a, str>>,
    metadata: Progress,
    name: Option<Cow<'a, str>>,
    namespace: Option<Cow<'a, str>>,
    uid: Option<Cow<'a, str>>,
    version: Option<Cow<'a, str>>,
    labels: Option<Range<usize>>,
}

#[derive(Default, PartialEq, Eq)]
enum Progress {
    #[default]
    NotSeen,
    Begun,
    Complete,
}

/// What stopped the scan, at the place where the walk stands.
enum Trouble {
    Syntax(SyntaxProblem),
    Duplicate(&'static str),
    Expected(&'static str, &'static str),
}

type Scanned<T> = Result<T, Trouble>;

impl<'a> Fields<'a> {
    /// The whole text: one object and nothing else.
    fn read_object(&mut self, walk: &mut Walk<'a, '_>, keeps_managed_fields: bool) -> Scanned<()> {
        walk.skip_space();
        match walk.peek() {
            Some(b'{') => {}
            Some(_) => return Err(SyntaxProblem::NotAnObject.into()),
            None => return Err(SyntaxProblem::Truncated.into()),
        }
        walk.members(|walk, name| {
            match &*walk.resolve(&name)? {
                "apiVersion" => read_text(walk, "apiVersion", &mut self.api_version)?,
                "kind" => read_text(walk, "kind", &mut self.kind)?,
                "metadata" => self.read_metadata(walk, keeps_managed_fields)?,
                _ => walk.value(2)?,
            }
            Ok::<_, Trouble>(Member::Keep)
        })?;
        Ok(walk.finish()?)
    }

    fn read_metadata(&mut self, walk: &mut Walk<'a, '_>, keeps_managed_fields: bool) -> Scanned<()> {
        if self.metadata != Progress::NotSeen {
            return Err(Trouble::Duplicate("metadata"));
        }
        self.metadata = Progress::Begun;
        match walk.peek() {
            Some(b'{') => {}
            Some(_) => return Err(Trouble::Expected("metadata", "an object")),
            None => return Err(SyntaxProblem::Truncated.into()),
        }
        walk.members(|walk, name| {
            match &*walk.resolve(&name)? {
                "name" => read_text(walk, "metadata.name", &mut self.name)?,
                "namespace" => read_text(walk, "metadata.namespace", &mut self.namespace)?,
                "uid" => read_text(walk, "metadata.uid", &mut self.uid)?,
                "resourceVersion" => read_text(walk, "metadata.resourceVersion", &mut self.version)?,
                "labels" => self.read_labels(walk)?,
                "annotations" => read_texts(walk, "metadata.annotations")?,
                "managedFields" if !keeps_managed_fields => {
                    walk.value(3)?;
                    return Ok(Member::Cut);
                }
                _ => walk.value(3)?,
            }
            Ok::<_, Trouble>(Member::Keep)
        })?;
        self.metadata = Progress::Complete;
        Ok(())
    }

    fn read_labels(&mut self, walk: &mut Walk<'a, '_>) -> Scanned<()> {
        if self.labels.is_some() {
            return Err(Trouble::Duplicate("metadata.labels"));
        }
        let start = walk.output_len();
        read_texts(walk, "metadata.labels")?;
        self.labels = Some(start..walk.output_len());
        Ok(())
    }

    fn finish(mut self) -> Result<Found<'a>, DecodeError> {
        let key = self.key().ok_or(DecodeError::NoName)?;
        let uid = Uid::new(self.uid.as_deref().unwrap_or_default());
        let version = ResourceVersion::new(self.version.as_deref().unwrap_or_default());
        Ok(Found {
            identity: Identity { key, uid, version },
            api_version: self.api_version.take(),
            kind: self.kind.take(),
            labels: self.labels.unwrap_or_default(),
        })
    }

    /// The key, once it is certain: a name alone could still get a namespace.
    fn key(&self) -> Option<Key> {
        let name = self.name.as_deref().filter(|name| !name.is_empty())?;
        match &self.namespace {
            Some(namespace) => Some(Key::namespaced(namespace, name)),
            None if self.metadata == Progress::Complete => Some(Key::cluster(name)),
            None => None,
        }
    }
}

/// An object whose values are texts, or `null`.
fn read_texts(walk: &mut Walk<'_, '_>, field: &'static str) -> Scanned<()> {
    const EXPECTED: &str = "an object of strings";
    match walk.peek() {
        Some(b'n') => Ok(walk.literal("null")?),
        Some(b'{') => walk.members(|walk, _| match walk.peek() {
            Some(b'"') => Ok(walk.string().map(|_| Member::Keep)?),
            Some(_) => Err(Trouble::Expected(field, EXPECTED)),
            None => Err(SyntaxProblem::Truncated.into()),
        }),
        Some(_) => Err(Trouble::Expected(field, EXPECTED)),
        None => Err(SyntaxProblem::Truncated.into()),
    }
}

/// A text that says who the object is, or `null`.
fn read_text<'a>(walk: &mut Walk<'a, '_>, field: &'static str, slot: &mut Option<Cow<'a, str>>) -> Scanned<()> {
    if slot.is_some() {
        return Err(Trouble::Duplicate(field));
    }
    *slot = Some(match walk.peek() {
        Some(b'"') => {
            let span = walk.string()?;
            walk.resolve(&span)?
        }
        Some(b'n') => walk.literal("null").map(|()| Cow::Borrowed(""))?,
        Some(_) => return Err(Trouble::Expected(field, "a string")),
        None => return Err(SyntaxProblem::Truncated.into()),
    });
    Ok(())
}

impl From<SyntaxProblem> for Trouble {
    fn from(problem: SyntaxProblem) -> Self {
        Self::Syntax(problem)
    }
}

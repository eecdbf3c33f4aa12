//! An object's JSON after it was scanned and before it is decoded.
//!
//! - **In:** the bytes of one object, as the server sent them.
//! - **Out:** [`RawObject`]: identity and type, and compact JSON without `managedFields`, ready to be decoded.
//! - **Knows nothing of:** sources, the cache.

use std::{
    any::Any,
    hash::BuildHasher,
    ops::Range,
    sync::{Arc, LazyLock},
};

use hashbrown::DefaultHashBuilder;
use kube::core::TypeMeta;
use serde::Deserialize;

use super::{
    Cached, DecodeError, Erased, FieldPath, Identity, Object, ObjectMemory, Provenance, SyntaxProblem,
    error_path::{DecodePrefix, error_path},
    held_json::HeldJson,
    noted,
    scan::{self, FieldRules, type_members},
};
use crate::Key;

/// Reads the identity of an object from its bytes and makes its JSON compact, in one pass that decodes nothing.
///
/// It cuts `metadata.managedFields`, a third of a typical object. It adds `apiVersion` and `kind`, which the items of a list lack, so that
/// an object has the same JSON whether it was listed or watched.
///
/// ```
/// use informant::{Lazy, pipeline::Scanner};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let json = br#"{"metadata": {"namespace": "shop", "name": "web", "managedFields": [{"manager": "x"}]}}"#;
///
/// let mut scanner = Scanner::of_kind::<Pod>();
/// let pod = scanner.scan(json)?.decode::<Lazy<Pod>>()?;
///
/// assert_eq!(pod.key().as_str(), "shop/web");
/// assert_eq!(&*pod.json()?, r#"{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"web"}}"#);
/// # Ok::<(), informant::error::DecodeError>(())
/// ```
pub struct Scanner {
    provenance: Arc<Provenance>,
    /// The provenance of the last object, if it has a type that the scanner does not know. Usually the next object has the same one.
    last: Option<Arc<Provenance>>,
    /// `apiVersion` and `kind` as JSON members, written at the front of every object; list items lack them.
    types: String,
    rules: FieldRules,
    /// The compact JSON of the last object; a buffer that is reused.
    compact: String,
}

/// One object's JSON and its identity: the input of [`Object::decode`].
pub struct RawObject<'a> {
    identity: Identity,
    provenance: Arc<Provenance>,
    /// The JSON, and the [noted values](super::noted) behind it.
    text: &'a str,
    json_length: usize,
    /// Offset in the JSON of the first member after apiVersion and kind.
    body_start: usize,
    /// The range of the value of `metadata.labels` in the JSON; empty if there is none.
    labels: Range<usize>,
}

impl Scanner {
    /// A buffer that has grown beyond this is not reused.
    const KEPT: usize = 1 << 20;

    /// Accepts objects of this apiVersion and kind; if both are empty, objects of any kind.
    pub fn new(types: TypeMeta) -> Self {
        Self {
            types: type_members(&types.api_version, &types.kind),
            provenance: Arc::new(Provenance::new(types)),
            last: None,
            rules: FieldRules::default(),
            compact: String::new(),
        }
    }

    /// Accepts objects of a kind that is known at compile time; `PartialObjectMeta` of any kind included.
    pub fn of_kind<K: kube::Resource<DynamicType = ()>>() -> Self {
        Self::new(served_as::<K>())
    }

    /// Keeps `metadata.managedFields`. Default: cut.
    pub fn keep_managed_fields(mut self) -> Self {
        self.rules.keeps_managed_fields = true;
        self
    }

    /// Leaves these fields out, as if the server had not sent them. Their syntax is still checked. Default: only `metadata.managedFields`
    /// is left out.
    pub fn cut<'p>(mut self, fields: impl IntoIterator<Item = &'p FieldPath>) -> Self {
        fields.into_iter().for_each(|field| self.rules.tree.cut(field));
        self
    }

    /// Sets the [cluster](Cached::cluster) of the objects. Default: none.
    pub fn of_cluster(mut self, cluster: impl Into<Arc<str>>) -> Self {
        Arc::make_mut(&mut self.provenance).cluster = Some(cluster.into());
        self.last = None;
        self
    }

    /// Counts the bytes of the objects there.
    pub(crate) fn counted_in(mut self, memory: Arc<ObjectMemory>) -> Self {
        Arc::make_mut(&mut self.provenance).memory = Some(memory);
        self.last = None;
        self
    }

    /// Sets the history of the source to which the objects belong that are scanned from now on.
    pub(crate) fn begin_history(&mut self, history: u64) {
        Arc::make_mut(&mut self.provenance).history = history;
        self.last = None;
    }

    /// Reads the identity of the object and checks the syntax of all of it.
    ///
    /// # Errors
    ///
    /// When the bytes are not one JSON object, when the metadata has no certain identity, or when the object is of another kind. The error
    /// names the object if its name was found.
    pub fn scan(&mut self, json: &[u8]) -> Result<RawObject<'_>, DecodeError> {
        let error = match self.scan_first(json) {
            Ok((raw, length)) => match json[length..].iter().position(|byte| !b" \t\r\n".contains(byte)) {
                None => return Ok(raw),
                Some(space) => DecodeError::Syntax {
                    key: Some(raw.identity.key),
                    offset: length + space,
                    problem: SyntaxProblem::TrailingData,
                },
            },
            Err(error) => error,
        };
        // Invalid UTF-8 is reported first, because it may have caused the other error.
        Err(if std::str::from_utf8(json).is_err() { scan::invalid_utf8(json) } else { error })
    }

    /// As [`scan`](Self::scan), for the object at the start of the bytes; also returns the length of the object in bytes. The bytes after the
    /// object are not read, so one pass both scans an object and finds its end.
    ///
    /// # Errors
    ///
    /// As for `scan`, and when the object is not complete.
    pub fn scan_first(&mut self, json: &[u8]) -> Result<(RawObject<'_>, usize), DecodeError> {
        if self.compact.capacity() > Self::KEPT {
            self.compact = String::new();
        }
        noted::add_new(&mut self.rules);
        let mut found = scan::scan(json, &self.rules, &self.types, &mut self.compact)?;
        let provenance = Self::check_types(&self.provenance, &mut self.last, &found)?;
        let mut body_start = 1 + self.types.len();
        // A scanner that accepts any kind knows the type of the object only now.
        if !Arc::ptr_eq(&provenance, &self.provenance) {
            body_start += found.insert_types(&mut self.compact);
        }
        let raw = RawObject {
            identity: found.identity,
            provenance,
            text: &self.compact,
            json_length: found.json_length,
            body_start,
            labels: found.labels,
        };
        Ok((raw, found.length))
    }

    /// Returns the provenance of an object.
    fn check_types(
        provenance: &Arc<Provenance>,
        last: &mut Option<Arc<Provenance>>,
        found: &scan::ScannedObject<'_>,
    ) -> Result<Arc<Provenance>, DecodeError> {
        let types = &provenance.types;
        let api_version = found.api_version.as_deref().unwrap_or(&types.api_version);
        let kind = found.kind.as_deref().unwrap_or(&types.kind);
        if api_version == types.api_version && kind == types.kind {
            return Ok(Arc::clone(provenance));
        }
        if types.api_version.is_empty() && types.kind.is_empty() {
            let is_same = |last: &&Arc<Provenance>| last.types.api_version == api_version && last.types.kind == kind;
            if let Some(same) = last.as_ref().filter(is_same) {
                return Ok(Arc::clone(same));
            }
            let types = TypeMeta { api_version: api_version.to_owned(), kind: kind.to_owned() };
            let new = Arc::new(Provenance { types, ..Provenance::clone(provenance) });
            *last = Some(Arc::clone(&new));
            return Ok(new);
        }
        Err(DecodeError::wrong_type(found.identity.key.clone(), types, api_version, kind))
    }
}

impl<'a> RawObject<'a> {
    /// Key, uid and version.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// apiVersion and kind.
    pub fn types(&self) -> &TypeMeta {
        &self.provenance.types
    }

    /// The object as compact JSON.
    pub fn json(&self) -> &'a str {
        &self.text[..self.json_length]
    }

    /// The JSON as lazy objects hold it.
    pub(super) fn held_json(&self) -> Result<HeldJson, DecodeError> {
        HeldJson::new(&self.identity.key, self.text, self.json_length, &self.labels)
    }

    /// Decodes the fields that `T` names.
    ///
    /// # Errors
    ///
    /// When a field does not have the type that `T` expects; the error names it.
    pub fn fields<T: Deserialize<'a>>(&self) -> Result<T, DecodeError> {
        decode_fields(&self.identity.key, self.json())
    }

    /// Decodes the object and makes a handle of it.
    ///
    /// # Errors
    ///
    /// The error of [`Object::decode`].
    pub fn decode<O: Object>(self) -> Result<Cached<O>, DecodeError> {
        let object = O::decode(&self)?;
        Ok(self.into_cached(Box::new(object)).typed())
    }

    /// Makes the handle of an object that was decoded from this JSON.
    pub(crate) fn into_cached(self, object: Box<dyn Any + Send + Sync>) -> Cached<Erased> {
        let digest = self.digest();
        Cached::from_box(self.identity, self.provenance, digest, object)
    }

    /// A hash of the JSON without apiVersion and kind; never 0. Equal content has equal hashes within one run of the program.
    pub(crate) fn digest(&self) -> u32 {
        static HASHER: LazyLock<DefaultHashBuilder> = LazyLock::new(DefaultHashBuilder::default);
        let hash = HASHER.hash_one(&self.json()[self.body_start..]);
        ((hash ^ (hash >> 32)) as u32).max(1)
    }
}

/// The apiVersion and kind with which the server sends objects of a kind.
pub(super) fn served_as<K: kube::Resource<DynamicType = ()>>() -> TypeMeta {
    match K::metadata_api() {
        true => TypeMeta { api_version: "meta.k8s.io/v1".into(), kind: "PartialObjectMetadata".into() },
        false => TypeMeta::resource::<K>(),
    }
}

/// Decodes `T` from JSON; an error names the object and the field.
pub(super) fn decode_fields<'a, T: Deserialize<'a>>(key: &Key, json: &'a str) -> Result<T, DecodeError> {
    let decode = |json| serde_json::from_str::<T>(json);
    decode(json).map_err(|source| field_error(key, json, source, &|beginning| decode(beginning).err()))
}

#[cold]
fn field_error<'a>(key: &Key, json: &'a str, source: serde_json::Error, decode: DecodePrefix<'a, '_>) -> DecodeError {
    DecodeError::Field { key: key.clone(), path: error_path(json, &source, decode), source }
}

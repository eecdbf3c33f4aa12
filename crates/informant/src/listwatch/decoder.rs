//! Turns items into objects: scans them, reuses the cached object if it is the same state, or decodes and transforms them.
//!
//! - **In:** one item, as JSON or as a decoded object.
//! - **Out:** an object for the cache, or the reason why it is quarantined.
//! - **Knows nothing of:** lists and watches.

use std::{any::Any, sync::Arc};

use kube::core::TypeMeta;
use tokio::time::Instant;
use tracing::warn;

use super::{
    Item, Quarantined,
    heap_growth::HeapGrowth,
    rules::decoding_pace::{DecodingPace, SlowStep},
    source::ItemContent,
};
use crate::{
    Cached, Key, Object,
    known::KnownObjects,
    object::{DecodeError, Erased, IDENTITY, Identity, Outline, Provenance, RawObject, Scanner},
    panics,
};

/// Changes an object before it is shared, or returns why it cannot.
///
/// INV-I1: the object is not shared, and is of the transform's type: it was just made from an item of the same source.
pub(crate) type Transform = Box<dyn Fn(&mut Cached<Erased>) -> Result<(), BoxError> + Send + Sync>;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Decodes one object from its JSON.
pub(super) type Decode = fn(&RawObject<'_>) -> Result<AnyObject, DecodeError>;

type AnyObject = Box<dyn Any + Send + Sync>;

/// Turns the items of one source into objects.
pub(super) struct Decoder {
    scanner: Scanner,
    /// The largest JSON that is decoded.
    limit: usize,
    objects: ObjectMaker,
}

/// Makes objects of items. It does not hold the scanner, because a scanned item borrows the scanner's buffer.
struct ObjectMaker {
    decode: Decode,
    /// The apiVersion and kind that the JSON of an object must not contradict. `None` if the scanner checks the kind, or any kind is accepted.
    types: Option<TypeMeta>,
    transform: Option<Transform>,
    stamp: Stamp,
    /// The consumer's cache, if it is known.
    known: Option<Arc<dyn KnownObjects<Erased>>>,
    /// True if a cached object may be reused.
    reuses: bool,
    /// The number of objects that were reused from the cache.
    reused: usize,
    pace: DecodingPace,
    heap: HeapGrowth,
}

/// Sets the source's cluster and history on objects that the source has decoded. For JSON, the scanner sets them.
struct Stamp {
    cluster: Option<Arc<str>>,
    /// The number of changes of the source's history.
    history: u64,
    /// The last provenance, before and after it was stamped. Usually the next object has the same one.
    last: Option<(Arc<Provenance>, Arc<Provenance>)>,
}

/// The object of an item, or its entry in the quarantine.
pub(super) type DecodeResult = Result<Cached<Erased>, Box<Quarantined>>;

/// Decodes an object of type `O`.
pub(super) fn decode_as<O: Object>(raw: &RawObject<'_>) -> Result<AnyObject, DecodeError> {
    Ok(Box::new(O::decode(raw)?))
}

/// Refuses JSON: the decode function for sources of decoded objects.
pub(super) fn decode_nothing(raw: &RawObject<'_>) -> Result<AnyObject, DecodeError> {
    let source = "the source delivered JSON, but was registered as a source of decoded objects".into();
    Err(DecodeError::Refused { key: raw.identity().key.clone(), source })
}

/// Erases the object type of a transform.
pub(crate) fn transform_of<O: 'static, R: TransformResult>(
    transform: impl Fn(&mut O) -> R + Send + Sync + 'static,
) -> Transform {
    Box::new(move |object| transform(object.object_mut().expect("INV-I1")).into_result())
}

/// The result of a transform: `()`, or `Result<(), E>` if it can fail, with any error type.
pub trait TransformResult {
    #[doc(hidden)]
    fn into_result(self) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;
}

impl TransformResult for () {
    fn into_result(self) -> Result<(), BoxError> {
        Ok(())
    }
}

impl<E: Into<BoxError>> TransformResult for Result<(), E> {
    fn into_result(self) -> Result<(), BoxError> {
        self.map_err(Into::into)
    }
}

impl Decoder {
    pub(super) fn new(
        scanner: Scanner,
        limit: usize,
        decode: Decode,
        types: Option<TypeMeta>,
        transform: Option<Transform>,
        cluster: Option<Arc<str>>,
        known: Option<Arc<dyn KnownObjects<Erased>>>,
    ) -> Self {
        let stamp = Stamp { cluster, history: 0, last: None };
        let (pace, heap) = (DecodingPace::default(), HeapGrowth::default());
        let objects = ObjectMaker { decode, types, transform, stamp, known, reuses: false, reused: 0, pace, heap };
        Self { scanner, limit, objects }
    }

    /// Begins a list or a watch. `may_reuse` is true if an item is not decoded again whose state is cached. Each event of a watch has a new state.
    pub(super) fn begin(&mut self, may_reuse: bool) {
        (self.objects.reuses, self.objects.reused) = (may_reuse, 0);
    }

    /// Returns the number of objects of the last list that were reused from the cache.
    pub(super) fn reused(&self) -> usize {
        self.objects.reused
    }

    /// Returns the cached object of a key, if the cache is known.
    pub(super) fn cached(&self, key: &Key) -> Option<Cached<Erased>> {
        self.objects.known.as_ref()?.get(key)
    }

    /// Ends a group of objects, which was begun at this time. Logs a warning, at most once a minute, if decoding them was slow.
    pub(super) fn end_group(&mut self, begun: Instant) {
        let ObjectMaker { pace, transform, .. } = &mut self.objects;
        let count = pace.objects;
        if count == 0 {
            return;
        }
        let now = Instant::now();
        let elapsed_ms = (now - begun).as_millis();
        match pace.end_group(now - begun, transform.is_some(), now) {
            Some(SlowStep::Decode) => warn!(
                count,
                elapsed_ms, "decoding is slow, and changes wait for it; `Lazy` or a projection decodes less"
            ),
            Some(SlowStep::Transform) => {
                warn!(count, elapsed_ms, "the transform is slow, and changes wait for it; a transform must not block");
            }
            None => {}
        }
    }

    /// Notes that the source's history has changed. A cached object of the old history may differ from one with the same uid and version,
    /// so it is not reused.
    pub(super) fn begin_history(&mut self) {
        let stamp = &mut self.objects.stamp;
        stamp.history += 1;
        stamp.last = None;
        self.scanner.begin_history(stamp.history);
    }

    /// Marks an object that was read before the history changed, and is not shared yet, as one of the new history.
    pub(super) fn move_to_new_history(&mut self, object: &mut Cached<Erased>) {
        object.change_provenance(|provenance| self.objects.stamp.put_on(provenance));
    }

    /// Decodes an item, or reuses the cached object if it is the same state.
    pub(super) fn decode_item(&mut self, item: Item<Erased>) -> DecodeResult {
        match item.content {
            ItemContent::Json(json) if json.len() > self.limit => Err(self.refuse_large(&Outline::of(&json, IDENTITY))),
            ItemContent::Json(json) => self.decode_json(&json),
            ItemContent::Decoded(object) => self.objects.make_from_decoded(object),
        }
    }

    pub(super) fn decode_json(&mut self, json: &[u8]) -> DecodeResult {
        match self.scanner.scan(json) {
            Ok(raw) => self.objects.make_from_raw(raw, json),
            Err(error) => Err(Box::new(Quarantined::new(error, None, Some(json)))),
        }
    }

    /// Quarantines an object that is larger than the limit, by its outline.
    pub(super) fn refuse_large(&mut self, outline: &[u8]) -> Box<Quarantined> {
        let limit = self.limit;
        Box::new(match self.scanner.scan(outline) {
            Ok(raw) => {
                let error = DecodeError::TooLarge { key: Some(raw.identity().key.clone()), limit };
                Quarantined::new(error, Some(raw.identity()), None)
            }
            // The same as for an object of any size.
            Err(error @ (DecodeError::NoName | DecodeError::WrongType { .. })) => Quarantined::new(error, None, None),
            Err(error) => Quarantined::new(DecodeError::TooLarge { key: error.key().cloned(), limit }, None, None),
        })
    }

    /// Decodes the item at the start of the bytes, and returns its length; `None` if it is incomplete or invalid, or if `is_valid_rest` returns
    /// false for the bytes after it.
    pub(super) fn decode_first(
        &mut self,
        json: &[u8],
        is_valid_rest: impl FnOnce(&[u8]) -> bool,
    ) -> Option<(DecodeResult, usize)> {
        let (raw, length) = self.scanner.scan_first(json).ok()?;
        let (item, rest) = json.split_at(length);
        is_valid_rest(rest).then(|| (self.objects.make_from_raw(raw, item), length))
    }
}

impl ObjectMaker {
    /// Makes an object of an item that the scanner has read.
    fn make_from_raw(&mut self, raw: RawObject<'_>, json: &[u8]) -> DecodeResult {
        self.pace.objects += 1;
        if let Some(same) = self.reuse(raw.identity(), || raw.digest()) {
            return Ok(same);
        }
        self.heap.prepare(json.len());
        // If the user's `Object::decode` panics, the object is quarantined.
        let decode = || self.check_types(&raw).and_then(|()| (self.decode)(&raw));
        let decoded = panics::catch(decode).unwrap_or_else(|panic| {
            let source = panicked(&panic).into();
            Err(DecodeError::Refused { key: raw.identity().key.clone(), source })
        });
        match decoded {
            Ok(object) => {
                let length = raw.json().len();
                self.transform(raw.into_cached(object), Some(json)).inspect(|object| object.count(length))
            }
            Err(error) => Err(Box::new(Quarantined::new(error, Some(raw.identity()), Some(json)))),
        }
    }

    /// Refuses an object whose JSON states another kind than that of the object type.
    fn check_types(&self, raw: &RawObject<'_>) -> Result<(), DecodeError> {
        let Some(expected) = &self.types else { return Ok(()) };
        let found = raw.types();
        let fits = |found: &str, expected: &str| found.is_empty() || found == expected;
        if fits(&found.api_version, &expected.api_version) && fits(&found.kind, &expected.kind) {
            return Ok(());
        }
        Err(DecodeError::wrong_type(raw.identity().key.clone(), expected, &found.api_version, &found.kind))
    }

    /// Makes an object of an item that the source has decoded.
    fn make_from_decoded(&mut self, mut object: Cached<Erased>) -> DecodeResult {
        self.pace.objects += 1;
        if let Some(same) = self.reuse(object.identity(), || object.digest()) {
            return Ok(same);
        }
        object.change_provenance(|provenance| self.stamp.put_on(provenance));
        self.transform(object, None)
    }

    /// Returns the cached object if it is in this state.
    fn reuse(&mut self, identity: &Identity, digest: impl FnOnce() -> u32) -> Option<Cached<Erased>> {
        let known = self.known.as_ref().filter(|_| self.reuses)?;
        let same = known.get(&identity.key).filter(|known| known.has_state(identity, self.stamp.history, digest))?;
        self.reused += 1;
        Some(same)
    }

    /// Runs the transform on an object.
    fn transform(&mut self, mut object: Cached<Erased>, json: Option<&[u8]>) -> DecodeResult {
        let Some(transform) = &self.transform else { return Ok(object) };
        let begun = self.pace.in_transform.is_some().then(Instant::now);
        let outcome = panics::catch(|| transform(&mut object)).unwrap_or_else(|panic| Err(panicked(&panic).into()));
        if let Some(begun) = begun {
            self.pace.note_transform(begun.elapsed());
        }
        match outcome {
            Ok(()) => Ok(object),
            Err(source) => {
                let error = DecodeError::Transform { key: object.key().clone(), source };
                Err(Box::new(Quarantined::new(error, Some(object.identity()), json)))
            }
        }
    }
}

impl Stamp {
    fn put_on(&mut self, provenance: Arc<Provenance>) -> Arc<Provenance> {
        let cluster = self.cluster.as_ref().filter(|_| provenance.cluster.is_none());
        if cluster.is_none() && provenance.history == self.history {
            return provenance;
        }
        if let Some((without, with)) = &self.last
            && Arc::ptr_eq(without, &provenance)
        {
            return Arc::clone(with);
        }
        let mut with = Provenance { history: self.history, ..Provenance::clone(&provenance) };
        with.cluster = cluster.cloned().or(with.cluster);
        let with = Arc::new(with);
        self.last = Some((provenance, Arc::clone(&with)));
        with
    }
}

/// Returns the identity of an item, and a hash of its JSON (0 if the source has decoded it); `None` if the JSON is invalid.
pub(super) fn identify(scanner: &mut Scanner, item: &Item<Erased>) -> Option<(Identity, u32)> {
    match &item.content {
        ItemContent::Json(json) => scanner.scan(json).ok().map(|raw| (raw.identity().clone(), raw.digest())),
        ItemContent::Decoded(object) => Some((object.identity().clone(), object.digest())),
    }
}

fn panicked(message: &str) -> String {
    format!("panicked: {message}")
}

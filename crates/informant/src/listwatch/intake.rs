//! Items become objects: scanned, looked up, decoded and transformed, or set aside.
//!
//! - **In:** one item, as JSON or ready.
//! - **Out:** an object to be cached, or why it cannot be.
//! - **Knows nothing of:** lists, watches, versions to come.

use std::sync::Arc;

use super::Item;
use super::Quarantined;
use crate::Cached;
use crate::DecodeError;
use crate::Identity;
use crate::Key;
use crate::Provenance;
use crate::RawObject;
use crate::Scanner;
use crate::panics;

/// Changes an object before it is cached, or says why that is not possible.
pub(crate) type Transform<O> =
    Box<dyn Fn(&mut O) -> Result<(), Box<dyn std::error::Error + Send + Sync>> + Send + Sync>;

/// Makes an object of its JSON.
pub(super) type Decode<O> = fn(&RawObject<'_>) -> Result<O, DecodeError>;

/// Makes objects of items.
pub(super) struct Intake<O> {
    scanner: Scanner,
    decode: Decode<O>,
    transform: Option<Transform<O>>,
    stamp: Stamp,
    /// How many objects were taken from the cache.
    reused: usize,
}

/// Puts the name of the source's cluster on objects that come ready; what comes as JSON has it from the scanner.
struct Stamp {
    cluster: Option<Arc<str>>,
    /// That of the last object, without and with the name: most often it is that of the next one too.
    last: Option<(Arc<Provenance>, Arc<Provenance>)>,
}

/// What became of an item.
pub(super) type Taken<O> = Result<Arc<Cached<O>>, Box<Quarantined>>;

/// Finds the object that is cached under a key.
pub(super) type Known<'a, O> = &'a dyn Fn(&Key) -> Option<Arc<Cached<O>>>;

/// For sources whose objects are ready.
pub(super) fn decode_nothing<O>(raw: &RawObject<'_>) -> Result<O, DecodeError> {
    let source = "it came as JSON, but only objects that are ready were expected".into();
    Err(DecodeError::Refused { key: raw.identity().key.clone(), source })
}

impl<O> Intake<O> {
    pub(super) fn new(
        scanner: Scanner,
        decode: Decode<O>,
        transform: Option<Transform<O>>,
        cluster: Option<Arc<str>>,
    ) -> Self {
        Self { scanner, decode, transform, stamp: Stamp { cluster, last: None }, reused: 0 }
    }

    /// How many objects were taken from the cache since the last time that this was forgotten.
    pub(super) fn reused(&self) -> usize {
        self.reused
    }

    pub(super) fn forget_reused(&mut self) {
        self.reused = 0;
    }

    /// Takes an item. What is known in the same state is not decoded again.
    pub(super) fn take(&mut self, item: Item<O>, known: Known<'_, O>) -> Taken<O> {
        match item {
            Item::Json(json) => self.take_json(&json, known),
            Item::Ready(object) => self.take_ready(*object, known),
        }
    }

    pub(super) fn take_json(&mut self, json: &[u8], known: Known<'_, O>) -> Taken<O> {
        match self.scanner.scan(json) {
            Ok(raw) => make(raw, self.decode, self.transform.as_ref(), known, &mut self.reused, json),
            Err(error) => Err(Box::new(Quarantined::new(error, None, Some(json)))),
        }
    }

    /// Takes the item that stands at the start of the bytes, and says how long it is; `None` if it is not complete, or not
    /// as it should be.
    pub(super) fn take_first(&mut self, json: &[u8], known: Known<'_, O>) -> Option<(Taken<O>, usize)> {
        self.take_first_before(json, known, |_| true)
    }

    /// As [`take_first`](Self::take_first), if what follows the item is as it should be.
    pub(super) fn take_first_before(
        &mut self,
        json: &[u8],
        known: Known<'_, O>,
        is_right: impl FnOnce(&[u8]) -> bool,
    ) -> Option<(Taken<O>, usize)> {
        let (raw, length) = self.scanner.scan_first(json).ok()?;
        let (item, rest) = json.split_at(length);
        if !is_right(rest) {
            return None;
        }
        Some((make(raw, self.decode, self.transform.as_ref(), known, &mut self.reused, item), length))
    }

    fn take_ready(&mut self, mut object: Cached<O>, known: Known<'_, O>) -> Taken<O> {
        if let Some(same) = same_state(object.identity(), known) {
            self.reused += 1;
            return Ok(same);
        }
        object.change_provenance(|provenance| self.stamp.put_on(provenance));
        transformed(object, self.transform.as_ref(), None)
    }
}

impl Stamp {
    fn put_on(&mut self, provenance: Arc<Provenance>) -> Arc<Provenance> {
        let Some(cluster) = self.cluster.as_ref().filter(|_| provenance.cluster().is_none()) else {
            return provenance;
        };
        if let Some((without, with)) = &self.last
            && Arc::ptr_eq(without, &provenance)
        {
            return Arc::clone(with);
        }
        let with = Arc::new(Provenance::clone(&provenance).of_cluster(Arc::clone(cluster)));
        self.last = Some((provenance, Arc::clone(&with)));
        with
    }
}

fn make<O>(
    raw: RawObject<'_>,
    decoder: Decode<O>,
    transformer: Option<&Transform<O>>,
    known: Known<'_, O>,
    reused: &mut usize,
    json: &[u8],
) -> Taken<O> {
    if let Some(same) = same_state(raw.identity(), known) {
        *reused += 1;
        return Ok(same);
    }
    match decode(&raw, decoder) {
        Ok(object) => transformed(raw.into_cached(object), transformer, Some(json)),
        Err(error) => Err(Box::new(Quarantined::new(error, Some(raw.identity()), Some(json)))),
    }
}

/// Runs the transform on an object. If it fails, the object is dropped as a [`Cached`], which catches a panic of its destructor.
fn transformed<O>(mut object: Cached<O>, transform: Option<&Transform<O>>, json: Option<&[u8]>) -> Taken<O> {
    let Some(transform) = transform else { return Ok(Arc::new(object)) };
    let outcome = panics::catch(|| transform(object.object_mut())).unwrap_or_else(|panic| Err(panicked(&panic).into()));
    match outcome {
        Ok(()) => Ok(Arc::new(object)),
        Err(source) => {
            let error = DecodeError::Transform { key: object.key().clone(), source };
            Err(Box::new(Quarantined::new(error, Some(object.identity()), json)))
        }
    }
}

fn same_state<O>(identity: &Identity, known: Known<'_, O>) -> Option<Arc<Cached<O>>> {
    known(&identity.key).filter(|known| known.identity().is_same_state(identity))
}

/// A form of the user's own may panic; then the object is one that cannot be read.
fn decode<O>(raw: &RawObject<'_>, decoder: Decode<O>) -> Result<O, DecodeError> {
    panics::catch(|| decoder(raw)).unwrap_or_else(|panic| {
        let source = panicked(&panic).into();
        Err(DecodeError::Refused { key: raw.identity().key.clone(), source })
    })
}

fn panicked(message: &str) -> String {
    format!("panicked: {message}")
}

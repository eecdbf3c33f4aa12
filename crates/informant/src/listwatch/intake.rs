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

/// Puts the source's cluster and history on objects that come ready; objects that come as JSON have them from the scanner.
struct Stamp {
    cluster: Option<Arc<str>>,
    /// How often the source's history has changed.
    history: u64,
    /// The last provenance that was stamped, before and after: most often the next object has the same one.
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
        Self { scanner, decode, transform, stamp: Stamp { cluster, history: 0, last: None }, reused: 0 }
    }

    /// How many objects were taken from the cache since the last time that this was forgotten.
    pub(super) fn reused(&self) -> usize {
        self.reused
    }

    pub(super) fn forget_reused(&mut self) {
        self.reused = 0;
    }

    /// The source's history has changed: an object that is cached from before may differ from one of the same uid and version,
    /// so it is not used again.
    pub(super) fn begin_history(&mut self) {
        self.stamp.history += 1;
        self.stamp.last = None;
        self.scanner.begin_history(self.stamp.history);
    }

    /// Marks an object that was read before the history changed, and is not shared yet, as one of the new history.
    pub(super) fn move_to_new_history(&mut self, object: &mut Arc<Cached<O>>) {
        if let Some(object) = Arc::get_mut(object) {
            object.change_provenance(|provenance| self.stamp.put_on(provenance));
        }
    }

    /// Reads which state of which object an item is: its identity, and a hash of its JSON (0 if it came ready). `None` if it cannot
    /// be read.
    pub(super) fn identify(&mut self, item: &Item<O>) -> Option<(Identity, u64)> {
        match item {
            Item::Json(json) => self.scanner.scan(json).ok().map(|raw| (raw.identity().clone(), raw.digest())),
            Item::Ready(object) => Some((object.identity().clone(), object.digest())),
        }
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
            Ok(raw) => {
                make(raw, self.decode, self.transform.as_ref(), known, self.stamp.history, &mut self.reused, json)
            }
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
        let history = self.stamp.history;
        Some((make(raw, self.decode, self.transform.as_ref(), known, history, &mut self.reused, item), length))
    }

    fn take_ready(&mut self, mut object: Cached<O>, known: Known<'_, O>) -> Taken<O> {
        if let Some(same) = same_state(object.identity(), known, self.stamp.history, || object.digest()) {
            self.reused += 1;
            return Ok(same);
        }
        object.change_provenance(|provenance| self.stamp.put_on(provenance));
        transformed(object, self.transform.as_ref(), None)
    }
}

impl Stamp {
    fn put_on(&mut self, provenance: Arc<Provenance>) -> Arc<Provenance> {
        let cluster = self.cluster.as_ref().filter(|_| provenance.cluster().is_none());
        if cluster.is_none() && provenance.history() == self.history {
            return provenance;
        }
        if let Some((without, with)) = &self.last
            && Arc::ptr_eq(without, &provenance)
        {
            return Arc::clone(with);
        }
        let mut with = Provenance::clone(&provenance).of_history(self.history);
        if let Some(cluster) = cluster {
            with = with.of_cluster(Arc::clone(cluster));
        }
        let with = Arc::new(with);
        self.last = Some((provenance, Arc::clone(&with)));
        with
    }
}

fn make<O>(
    raw: RawObject<'_>,
    decoder: Decode<O>,
    transformer: Option<&Transform<O>>,
    known: Known<'_, O>,
    history: u64,
    reused: &mut usize,
    json: &[u8],
) -> Taken<O> {
    if let Some(same) = same_state(raw.identity(), known, history, || raw.digest()) {
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

/// The cached object, if it is in this state.
fn same_state<O>(
    identity: &Identity,
    known: Known<'_, O>,
    history: u64,
    digest: impl FnOnce() -> u64,
) -> Option<Arc<Cached<O>>> {
    known(&identity.key).filter(|known| known.has_state(identity, history, digest))
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

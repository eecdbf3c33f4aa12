//! Patches, and updates of the scale subresource.
//!
//! - **In:** a patch or a scale, and the key of the object.
//! - **Out:** the changed object, or the error that kube-apiserver sends.
//! - **Knows nothing of:** how a patch is applied (`objects::patch`).

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::{
    apply,
    apply::Author,
    error::{ApiError, Cause},
    objects::{Key, Object, encoded::Encoded, patch::Patch, rules, rules::Part, scale},
    registry::{Served, kind::Kind},
    world::{Run, Stored, World, check_name},
};

impl World {
    /// Applies a patch to the stored object, under the same lock as the update.
    pub(crate) fn patch(
        &mut self,
        served: &Served,
        key: Key,
        patch: &Patch,
        author: &Author,
        now: &str,
        run: Run,
    ) -> Result<Arc<Encoded>, ApiError> {
        let old = self.get(served, &key)?;
        // The server encoded the object, so decoding does not fail.
        let whole = serde_json::from_slice(&old.object()).unwrap_or_default();
        let before = old.decode();
        let read = |json: &[u8]| Object::read(&served.kind, json);
        let mut patched = patched(&served.kind, &key, patch, whole, read, author)?;
        rules::check_uid_is_kept(&served.kind, &before, &patched)?;
        if patched.text("resourceVersion").is_empty() && served.kind.updates_blindly {
            patched.set("resourceVersion", before.text("resourceVersion"));
        }
        patched.author = Some(author.clone());
        self.update(served, key, patched, Part::of(author.subresource), now, run).map(Stored::into_object)
    }

    /// Sets the replicas of an object to those of a scale.
    pub(crate) fn update_scale(
        &mut self,
        served: &Served,
        key: Key,
        scale: &Object,
        now: &str,
        run: Run,
    ) -> Result<Arc<Encoded>, ApiError> {
        let mut object = self.get(served, &key)?.decode();
        let before = scale::of(&object);
        scale::set(&mut object, scale)?;
        if let Some(author) = scale.author.as_ref().filter(|_| self.tracks_fields) {
            let states = (&before, &scale::of(&object));
            object.managed = apply::updated_by_scale(&served.kind, &object.managed, states, author);
        }
        self.update(served, key, object, Part::Main, now, run).map(Stored::into_object)
    }

    /// Applies a patch to the scale of an object, and sets its replicas to the result.
    pub(crate) fn patch_scale(
        &mut self,
        served: &Served,
        key: Key,
        patch: &Patch,
        author: &Author,
        now: &str,
        run: Run,
    ) -> Result<Arc<Encoded>, ApiError> {
        let scale = scale::of(&self.get(served, &key)?.decode());
        let mut scale = patched(&scale::kind(), &key, patch, scale, scale::read, author)?;
        scale.author = Some(author.clone());
        self.update_scale(served, key, &scale, now, run)
    }
}

/// Applies a patch to an object or a scale, and reads the result.
fn patched(
    kind: &Kind,
    key: &Key,
    patch: &Patch,
    whole: Map<String, Value>,
    read: impl FnOnce(&[u8]) -> Result<Object, ApiError>,
    author: &Author,
) -> Result<Object, ApiError> {
    let text = patch.apply(kind, whole)?.to_string();
    // kube-apiserver answers 422, not 400, because the request could be read and only its result is invalid.
    let invalid = |why: &str| {
        let cause = Cause::invalid("patch", &format!("{text:?}"), why);
        ApiError::invalid(kind, key.name(), cause)
    };
    let mut patched = read(text.as_bytes()).map_err(|error| invalid(&error.to_string()))?;
    let unknown = std::mem::take(&mut patched.unknown);
    if author.is_strict && !unknown.is_empty() {
        return Err(invalid(&format!("strict decoding error: {}", unknown.join(", "))));
    }
    check_name(&patched, key)?;
    Ok(patched)
}

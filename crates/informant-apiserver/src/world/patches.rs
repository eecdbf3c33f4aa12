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
    objects::{Key, Object, encoded::Encoded, patch::Patch, rules, rules::Part, scale, unknown::UnknownFields},
    registry::{Served, kind::Kind},
    world::{Run, Stored, World, check_name},
};

impl World {
    /// The stored object with a patch, for an update under the same lock. Notes unknown fields.
    pub(crate) fn patched(
        &self,
        served: &Served,
        key: &Key,
        patch: &Patch,
        unknown: &mut UnknownFields,
    ) -> Result<Object, ApiError> {
        let old = self.get(served, key)?;
        // The server encoded the object, so decoding does not fail.
        let whole = serde_json::from_slice(&old.object()).unwrap_or_default();
        let before = old.decode();
        let read = |json: &[u8], unknown: &mut UnknownFields| Object::read_noting(&served.kind, json, unknown);
        let mut patched = patched(&served.kind, key, patch, whole, read, unknown)?;
        rules::check_uid_is_kept(&served.kind, &before, &patched)?;
        if patched.text("resourceVersion").is_empty() && served.kind.updates_blindly {
            patched.set("resourceVersion", before.text("resourceVersion"));
        }
        Ok(patched)
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
        let before = scale::of(&served.kind, &object)?;
        scale::set(&served.kind, &mut object, scale)?;
        if let Some(author) = scale.author.as_ref().filter(|_| self.tracks_fields) {
            let states = (&before, &scale::of(&served.kind, &object)?);
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
        let scale = scale::of(&served.kind, &self.get(served, &key)?.decode())?;
        let mut unknown = UnknownFields::default();
        let mut scale = patched(&scale::kind(), &key, patch, scale, |json, _| scale::read(json), &mut unknown)?;
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
    read: impl FnOnce(&[u8], &mut UnknownFields) -> Result<Object, ApiError>,
    unknown: &mut UnknownFields,
) -> Result<Object, ApiError> {
    let text = patch.apply(kind, whole)?.to_string();
    // kube-apiserver answers 422, not 400, because the request could be read and only its result is invalid.
    let invalid = |why: &str| {
        let cause = Cause::invalid("patch", &format!("{text:?}"), why);
        ApiError::invalid(kind, key.name(), cause)
    };
    let patched = read(text.as_bytes(), unknown).map_err(|error| invalid(&error.to_string()))?;
    if let Some(problem) = unknown.problem() {
        return Err(invalid(&problem));
    }
    check_name(&patched, key)?;
    Ok(patched)
}

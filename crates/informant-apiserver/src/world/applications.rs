//! Server-side applies of objects and scales.
//!
//! - **In:** the fields that a client applies, and the key of the object.
//! - **Out:** the created or changed object, or the error that kube-apiserver sends.
//! - **Knows nothing of:** who owns which fields (`apply`).

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::{
    apply,
    apply::Application,
    error::ApiError,
    objects::{Key, Object, encoded::Encoded, rules, rules::Part, scale},
    registry::Served,
    world::{Run, Stored, World, check_name},
};

impl World {
    /// Applies fields to the object with this key, or creates it with them.
    pub(crate) fn apply(
        &mut self,
        served: &Served,
        key: Key,
        application: &Application<'_>,
        now: &str,
        run: Run,
    ) -> Result<Stored, ApiError> {
        let part = Part::of(application.author.subresource);
        let old = match self.get(served, &key) {
            Ok(old) => Some(old.clone()),
            Err(ApiError::NotFound { .. }) if part == Part::Main => None,
            Err(error) => return Err(error),
        };
        let stored = old.as_ref().map(|old| old.decode().managed).unwrap_or_default();
        let live = old.as_ref().map(|old| without_managed_fields(old)).unwrap_or_default();
        // Without tracking, an entry that cannot be read does no harm.
        let known = if self.tracks_fields { stored.clone() } else { Bytes::new() };
        let (merged, managed) = apply::apply(&served.kind, &live, &known, application)?;
        let mut object = Object::of_apply(&served.kind, Value::Object(merged))?;
        object.managed = if self.tracks_fields { managed } else { stored };
        rules::check_request_namespace(&served.kind, key.namespace(), &object)?;
        check_applied_name(&object, &key)?;
        if old.is_some() {
            return self.update(served, key, object, part, now, run);
        }
        if !object.text("uid").is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {}, and no existing object was found",
                object.text("uid")
            );
            return Err(ApiError::conflict(&served.kind, key.name(), why));
        }
        object.metadata.remove("resourceVersion");
        self.create(served, key.namespace(), object, now, run).map(Stored::Created)
    }

    /// Applies the replicas of a scale to its object.
    pub(crate) fn apply_scale(
        &mut self,
        served: &Served,
        key: Key,
        application: &Application<'_>,
        now: &str,
        run: Run,
    ) -> Result<Arc<Encoded>, ApiError> {
        let mut object = self.get(served, &key)?.decode();
        let live = scale::of(&served.kind, &object)?;
        let (merged, managed) = apply::apply_scale(&served.kind, &live, &object.managed, application)?;
        let scale = scale::read(merged.to_string().as_bytes())?;
        check_applied_name(&scale, &key)?;
        scale::set(&served.kind, &mut object, &scale)?;
        if self.tracks_fields {
            object.managed = managed;
        }
        self.update(served, key, object, Part::Main, now, run).map(Stored::into_object)
    }
}

/// The whole object as JSON, without its managed fields.
fn without_managed_fields(object: &Encoded) -> Map<String, Value> {
    // The server encoded the object, so decoding does not fail.
    let mut whole: Map<String, Value> = serde_json::from_slice(&object.object()).unwrap_or_default();
    if let Some(metadata) = whole.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    whole
}

/// Checks that the applied object has the name in the path.
fn check_applied_name(object: &Object, key: &Key) -> Result<(), ApiError> {
    if object.text("name").is_empty() {
        let name = key.name();
        return Err(ApiError::BadRequest(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )));
    }
    check_name(object, key)
}

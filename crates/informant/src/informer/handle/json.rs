//! Status types as JSON, for status pages: see [`InformerStatus`] for the fields.
//!
//! - **In:** [`InformerStatus`] and [`Problem`]. The types inside of them derive `Serialize`.
//! - **Out:** their `Serialize` implementations.
//! - **Knows nothing of:** how a status is collected.
//!
//! An instant is written as its age at the time of serialization, in seconds. An error is written as one line with its causes.

use serde::{
    Serialize, Serializer,
    ser::{SerializeMap, SerializeStruct},
};

use super::{InformerStatus, Problem};
use crate::listwatch::json::{error_line, seconds};

/// See [JSON](InformerStatus#json).
impl Serialize for InformerStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { name, namespace, state, is_synced, objects, version, queued, quarantined, .. } = self;
        let Self { bytes, bytes_are_estimated, audits, wrong_objects, source, crash, handlers, .. } = self;
        let mut json = serializer.serialize_struct("InformerStatus", 16)?;
        json.serialize_field("name", &**name)?;
        json.serialize_field("namespace", &namespace.as_deref())?;
        json.serialize_field("state", state)?;
        json.serialize_field("is_synced", is_synced)?;
        json.serialize_field("problem", &self.problem())?;
        json.serialize_field("objects", objects)?;
        json.serialize_field("version", version)?;
        json.serialize_field("bytes", bytes)?;
        json.serialize_field("bytes_are_estimated", bytes_are_estimated)?;
        json.serialize_field("queued", queued)?;
        json.serialize_field("quarantined", quarantined)?;
        json.serialize_field("audits", audits)?;
        json.serialize_field("wrong_objects", wrong_objects)?;
        json.serialize_field("source", source)?;
        json.serialize_field("crash", &crash.as_deref())?;
        json.serialize_field("handlers", handlers)?;
        json.end()
    }
}

/// Writes an object with the problem's `type`, its own fields, and its text as `message`: see [JSON](InformerStatus#json).
impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = match self {
            Self::NotStarted { .. } => "not_started",
            Self::Stopped { .. } => "stopped",
            Self::Gone { .. } => "gone",
            Self::Failing { .. } => "failing",
            Self::Pending { .. } => "pending",
            Self::Silent { .. } => "silent",
            Self::NotDerived { .. } => "not_derived",
            Self::MapStopped { .. } => "map_stopped",
            Self::MemoryExceeded { .. } => "memory_exceeded",
            Self::Syncing { .. } => "syncing",
        };
        let mut json = serializer.serialize_map(None)?;
        json.serialize_entry("type", name)?;
        let whose = if matches!(self, Self::NotDerived { .. } | Self::MapStopped { .. }) { "map" } else { "informer" };
        json.serialize_entry(whose, &**self.informer())?;
        match self {
            Self::NotStarted { informer: _ } | Self::Gone { informer: _ } | Self::MapStopped { map: _ } => {}
            Self::Stopped { informer: _, crash } => json.serialize_entry("crash", &crash.as_deref())?,
            Self::Failing { informer: _, duration, is_synced, reason } => {
                json.serialize_entry("failing_seconds", &seconds(*duration))?;
                json.serialize_entry("is_synced", is_synced)?;
                json.serialize_entry("code", &reason.source.code())?;
                json.serialize_entry("reason", &error_line(&**reason))?;
            }
            Self::Pending { informer: _, is_synced, request } => {
                json.serialize_entry("is_synced", is_synced)?;
                json.serialize_entry("request", request)?;
            }
            Self::Silent { informer: _, confirmed_age } => {
                json.serialize_entry("confirmed_age_seconds", &seconds(*confirmed_age))?;
            }
            Self::NotDerived { map: _, objects, key, panic } => {
                json.serialize_entry("objects", objects)?;
                json.serialize_entry("key", key)?;
                json.serialize_entry("panic", &**panic)?;
            }
            Self::MemoryExceeded { informer: _, bytes, used, budget } => {
                json.serialize_entry("bytes", bytes)?;
                json.serialize_entry("used", used)?;
                json.serialize_entry("budget", budget)?;
            }
            Self::Syncing { informer: _, objects } => json.serialize_entry("objects", objects)?,
        }
        json.serialize_entry("message", &self.to_string())?;
        json.end()
    }
}

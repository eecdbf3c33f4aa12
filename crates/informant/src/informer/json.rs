//! Status types as JSON, for status pages: see [`InformerStatus`] for the fields.
//!
//! - **In:** [`InformerStatus`], [`Problem`] and the types inside them, and [`Quarantined`].
//! - **Out:** their `Serialize` implementations.
//! - **Knows nothing of:** how a status is collected.
//!
//! An instant is written as its age at the time of serialization, in seconds. An error is written as one line with its causes.

use std::time::Duration;

use serde::{Serialize, Serializer, ser::SerializeStruct};
use tokio::time::Instant;

use super::{InformerState, InformerStatus, Problem};
use crate::{
    listwatch::{Activity, Chain, ListWatchError, Quarantined, ReflectorStatus},
    subscribers::HandlerStatus,
};

/// See [JSON](InformerStatus#json).
impl Serialize for InformerStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { name, state, is_synced, objects, version, queued, quarantined, source, crash, handlers } = self;
        let mut json = serializer.serialize_struct("InformerStatus", 11)?;
        json.serialize_field("name", &**name)?;
        json.serialize_field("state", state)?;
        json.serialize_field("is_synced", is_synced)?;
        json.serialize_field("problem", &self.problem())?;
        json.serialize_field("objects", objects)?;
        json.serialize_field("version", version)?;
        json.serialize_field("queued", queued)?;
        json.serialize_field("quarantined", quarantined)?;
        json.serialize_field("source", source)?;
        json.serialize_field("crash", &crash.as_deref())?;
        json.serialize_field("handlers", handlers)?;
        json.end()
    }
}

/// In lower case: `"running"`.
impl Serialize for InformerState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::New => "new",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
        })
    }
}

/// As an object with the problem's `type`, its own fields, and its text as `message`: see [JSON](InformerStatus#json).
impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (name, own_fields) = match self {
            Self::NotStarted { .. } => ("not_started", 0),
            Self::Stopped { .. } => ("stopped", 1),
            Self::Gone { .. } => ("gone", 0),
            Self::Failing { .. } => ("failing", 3),
            Self::Silent { .. } => ("silent", 1),
            Self::Syncing { .. } => ("syncing", 1),
        };
        let mut json = serializer.serialize_struct("Problem", 3 + own_fields)?;
        json.serialize_field("type", name)?;
        json.serialize_field("informer", &**self.informer())?;
        match self {
            Self::NotStarted { informer: _ } | Self::Gone { informer: _ } => {}
            Self::Stopped { informer: _, crash } => json.serialize_field("crash", &crash.as_deref())?,
            Self::Failing { informer: _, duration, is_synced, reason } => {
                json.serialize_field("failing_seconds", &seconds(*duration))?;
                json.serialize_field("is_synced", is_synced)?;
                json.serialize_field("reason", &line(reason))?;
            }
            Self::Silent { informer: _, confirmed_age } => {
                json.serialize_field("confirmed_age_seconds", &seconds(*confirmed_age))?;
            }
            Self::Syncing { informer: _, objects } => json.serialize_field("objects", objects)?,
        }
        json.serialize_field("message", &self.to_string())?;
        json.end()
    }
}

/// As part of an [`InformerStatus`].
impl Serialize for ReflectorStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut json = serializer.serialize_struct("ReflectorStatus", 13)?;
        json.serialize_field("activity", &self.activity)?;
        json.serialize_field("version", &self.version)?;
        json.serialize_field("last_event_age_seconds", &age(self.last_event))?;
        json.serialize_field("confirmed_age_seconds", &age(self.confirmed))?;
        json.serialize_field("unanswered_seconds", &age(self.unanswered_since))?;
        json.serialize_field("last_error", &self.last_error.as_deref().map(line))?;
        json.serialize_field("failing_seconds", &age(self.failing_since))?;
        json.serialize_field("is_gone", &self.is_gone)?;
        json.serialize_field("lists", &self.lists)?;
        json.serialize_field("watches", &self.watches)?;
        json.serialize_field("events", &self.events)?;
        json.serialize_field("history_changes", &self.history_changes)?;
        json.serialize_field("unchecked_outages", &self.unchecked_outages)?;
        json.end()
    }
}

/// As an object with the activity's `type`, such as `{"type": "watching"}` or `{"type": "listing", "objects": 500}`.
impl Serialize for Activity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (name, own_fields) = match self {
            Self::Idle => ("idle", 0),
            Self::Listing { .. } => ("listing", 1),
            Self::Streaming { .. } => ("streaming", 1),
            Self::CheckingHistory => ("checking_history", 0),
            Self::Opening => ("opening", 0),
            Self::Watching => ("watching", 0),
            Self::BackingOff { .. } => ("backing_off", 2),
            Self::Stopped => ("stopped", 0),
        };
        let mut json = serializer.serialize_struct("Activity", 1 + own_fields)?;
        json.serialize_field("type", name)?;
        match self {
            Self::Idle | Self::CheckingHistory | Self::Opening | Self::Watching | Self::Stopped => {}
            Self::Listing { objects } | Self::Streaming { objects } => json.serialize_field("objects", objects)?,
            Self::BackingOff { until, because } => {
                let delay = until.saturating_duration_since(Instant::now());
                json.serialize_field("retry_in_seconds", &seconds(delay))?;
                json.serialize_field("because", &line(because))?;
            }
        }
        json.end()
    }
}

/// As part of an [`InformerStatus`].
impl Serialize for HandlerStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { name, is_synced, backlog, delivered, coalesced, panics, resyncs_skipped } = self;
        let mut json = serializer.serialize_struct("HandlerStatus", 7)?;
        json.serialize_field("name", &**name)?;
        json.serialize_field("is_synced", is_synced)?;
        json.serialize_field("backlog", backlog)?;
        json.serialize_field("delivered", delivered)?;
        json.serialize_field("coalesced", coalesced)?;
        json.serialize_field("panics", panics)?;
        json.serialize_field("resyncs_skipped", resyncs_skipped)?;
        json.end()
    }
}

/// Without the bytes of the object: `{"key", "uid", "version", "error", "age_seconds"}`.
impl Serialize for Quarantined {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { key, uid, version, error, json: _, at } = self;
        let mut json = serializer.serialize_struct("Quarantined", 5)?;
        json.serialize_field("key", key)?;
        json.serialize_field("uid", uid.as_str())?;
        json.serialize_field("version", version)?;
        json.serialize_field("error", &Chain(&**error).to_string())?;
        json.serialize_field("age_seconds", &age(Some(*at)))?;
        json.end()
    }
}

/// The error in one line with its causes.
fn line(error: &ListWatchError) -> String {
    Chain(error).to_string()
}

fn age(instant: Option<Instant>) -> Option<f64> {
    instant.map(|instant| seconds(instant.elapsed()))
}

/// Seconds with three decimals.
fn seconds(duration: Duration) -> f64 {
    duration.as_millis() as f64 / 1000.0
}

//! Times and errors in the JSON of a status.
//!
//! - **In:** instants, durations and errors.
//! - **Out:** numbers of seconds with three decimals, and errors as one line with their causes.
//! - **Knows nothing of:** the status that contains them.

use std::{error::Error, fmt::Display, sync::Arc, time::Duration};

use serde::{Serialize, Serializer};
use tokio::time::Instant;

use super::ListWatchError;
use crate::error::Chain;

/// Returns seconds with three decimals.
pub(crate) fn seconds(duration: Duration) -> f64 {
    duration.as_millis() as f64 / 1000.0
}

/// Returns the error in one line with its causes.
pub(crate) fn error_line(error: &(impl Error + 'static)) -> String {
    Chain(error).to_string()
}

/// Writes an instant as its age.
pub(super) fn age<S: Serializer>(instant: &Option<Instant>, serializer: S) -> Result<S::Ok, S::Error> {
    instant.map(|instant| seconds(instant.elapsed())).serialize(serializer)
}

/// As [`age`], for a time that is always known.
pub(super) fn age_of<S: Serializer>(instant: &Instant, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(seconds(instant.elapsed()))
}

pub(super) fn text<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Writes an instant as the time until then.
pub(super) fn delay<S: Serializer>(until: &Instant, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(seconds(until.saturating_duration_since(Instant::now())))
}

pub(super) fn error<S: Serializer>(error: &Arc<impl Error + 'static>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&error_line(&**error))
}

pub(super) fn last_error<S: Serializer>(error: &Option<Arc<ListWatchError>>, serializer: S) -> Result<S::Ok, S::Error> {
    error.as_deref().map(error_line).serialize(serializer)
}

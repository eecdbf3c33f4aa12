//! Metrics of informers and handlers, recorded through the [`metrics`](https://docs.rs/metrics) facade.
//!
//! Install the recorder before you build informers, and then call [`describe`] to register the descriptions.
//!
//! | name | type | labels | description |
//! | --- | --- | --- | --- |
//! | `informant_queue_depth` | gauge | `informer` | Objects whose changes wait to be applied to the cache or are being applied. |
//! | `informant_batch_seconds` | histogram | `informer` | Time to apply one batch to the cache and to put its events into the buffers of all handlers. |
//! | `informant_events_total` | counter | `informer`, `type` (`added`, `updated`, `deleted`, `unchanged`) | Changes of the cache; `unchanged` counts objects of a relist that the cache had already. |
//! | `informant_cache_objects` | gauge | `informer` | Objects in the cache. |
//! | `informant_cache_bytes` | gauge | `informer` | Bytes that the objects and the tables of the cache take; an estimate, unless the objects are lazy. |
//! | `informant_cache_version` | gauge | `informer` | Resource version of the cache: its last 15 digits, as a number. |
//! | `informant_lists_total` | counter | `informer` | Completed lists, including streamed lists. All but the first are relists. |
//! | `informant_watches_total` | counter | `informer` | Opened watches. All but the first are restarts. |
//! | `informant_history_changes_total` | counter | `informer` | Changes of the server's history, for example by a restored backup. |
//! | `informant_audits_total` | counter | `informer` | [Audits](crate::InformerBuilder::audit_every) that ended. |
//! | `informant_wrong_objects_total` | counter | `informer` | Objects that audits found to be wrong in the cache: at most ten per audit. |
//! | `informant_failing` | gauge | `informer` | 1 while lists or watches fail, otherwise 0. |
//! | `informant_confirmed_timestamp_seconds` | gauge | `informer` | Unix time at which the server last confirmed that the cache is current. |
//! | `informant_quarantined_objects` | gauge | `informer` | Objects that exist on the server but cannot be decoded or transformed. |
//! | `informant_index_panics_total` | counter | `informer` | Panics of index functions while a change was applied. |
//! | `informant_handler_backlog` | gauge | `informer`, `handler` | Events that wait in the buffer of a handler or stream. |
//! | `informant_handler_seconds` | histogram | `informer`, `handler` | Time that a handler and its filter spent on one batch, or on up to 64 coalesced events. Not recorded for streams. |
//! | `informant_handler_panics_total` | counter | `informer`, `handler` | Panics of a handler or its filter. |
//! | `informant_handler_resyncs_skipped_total` | counter | `informer`, `handler` | Resyncs that were skipped because the handler had not received all events of the previous resync. |
//!
//! When an informer stops, its gauges are set to zero. If two handlers of an informer have the same name, a number is appended to the
//! second.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use metrics::{Counter, Gauge, Histogram, Unit};

use crate::ResourceVersion;

/// Registers the description and the unit of each metric with the installed recorder.
///
/// ```
/// // After the recorder was installed:
/// informant::metrics::describe();
/// ```
pub fn describe() {
    for (name, description) in [
        ("informant_queue_depth", "Objects or changes that wait to be applied to the cache or are being applied."),
        ("informant_cache_objects", "Objects in the cache."),
        (
            "informant_cache_bytes",
            "Bytes that the objects and the tables of the cache take; an estimate, unless the objects are lazy.",
        ),
        ("informant_cache_version", "Resource version of the cache: its last 15 digits."),
        ("informant_failing", "1 while lists or watches fail, otherwise 0."),
        ("informant_quarantined_objects", "Objects that exist on the server but cannot be decoded or transformed."),
        ("informant_handler_backlog", "Events that wait in the buffer of a handler or stream."),
    ] {
        metrics::describe_gauge!(name, description);
    }
    metrics::describe_gauge!(
        "informant_confirmed_timestamp_seconds",
        Unit::Seconds,
        "Unix time at which the server last confirmed that the cache is current."
    );
    metrics::describe_histogram!(
        "informant_batch_seconds",
        Unit::Seconds,
        "Time to apply a batch to the cache and to put its events into the buffers of all handlers."
    );
    metrics::describe_histogram!(
        "informant_handler_seconds",
        Unit::Seconds,
        "Time that a handler and its filter spent on a batch, or on up to 64 coalesced events."
    );
    for (name, description) in [
        ("informant_events_total", "Changes of the cache."),
        ("informant_lists_total", "Completed lists; all but the first are relists."),
        ("informant_watches_total", "Opened watches; all but the first are restarts."),
        ("informant_history_changes_total", "Changes of the server's history, for example by a restored backup."),
        ("informant_audits_total", "Audits that ended."),
        ("informant_wrong_objects_total", "Objects that audits found to be wrong in the cache: at most ten per audit."),
        ("informant_index_panics_total", "Panics of index functions while a change was applied."),
        ("informant_handler_panics_total", "Panics of a handler or its filter."),
        (
            "informant_handler_resyncs_skipped_total",
            "Resyncs that were skipped because the handler had not received all events of the previous resync.",
        ),
    ] {
        metrics::describe_counter!(name, description);
    }
}

/// The metrics of one informer.
pub(crate) struct InformerMetrics {
    pub(crate) queue_depth: Gauge,
    batch_seconds: Histogram,
    added: Counter,
    updated: Counter,
    deleted: Counter,
    unchanged: Counter,
    objects: Gauge,
    pub(crate) bytes: Gauge,
    version: Gauge,
    pub(crate) lists: Counter,
    pub(crate) watches: Counter,
    pub(crate) history_changes: Counter,
    pub(crate) audits: Counter,
    pub(crate) wrong_objects: Counter,
    pub(crate) failing: Gauge,
    confirmed: Gauge,
    pub(crate) quarantined: Gauge,
    index_panics: Counter,
}

/// The number of changes in a batch, by type.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) added: u64,
    pub(crate) updated: u64,
    pub(crate) deleted: u64,
    pub(crate) unchanged: u64,
}

/// The metrics of one handler.
pub(crate) struct HandlerMetrics {
    pub(crate) backlog: Gauge,
    pub(crate) seconds: Histogram,
    pub(crate) panics: Counter,
    pub(crate) resyncs_skipped: Counter,
}

impl InformerMetrics {
    pub(crate) fn new(informer: &Arc<str>) -> Self {
        let name = || Arc::clone(informer);
        let events =
            |kind: &'static str| metrics::counter!("informant_events_total", "informer" => name(), "type" => kind);
        Self {
            queue_depth: metrics::gauge!("informant_queue_depth", "informer" => name()),
            batch_seconds: metrics::histogram!("informant_batch_seconds", "informer" => name()),
            added: events("added"),
            updated: events("updated"),
            deleted: events("deleted"),
            unchanged: events("unchanged"),
            objects: metrics::gauge!("informant_cache_objects", "informer" => name()),
            bytes: metrics::gauge!("informant_cache_bytes", "informer" => name()),
            version: metrics::gauge!("informant_cache_version", "informer" => name()),
            lists: metrics::counter!("informant_lists_total", "informer" => name()),
            watches: metrics::counter!("informant_watches_total", "informer" => name()),
            history_changes: metrics::counter!("informant_history_changes_total", "informer" => name()),
            audits: metrics::counter!("informant_audits_total", "informer" => name()),
            wrong_objects: metrics::counter!("informant_wrong_objects_total", "informer" => name()),
            confirmed: metrics::gauge!("informant_confirmed_timestamp_seconds", "informer" => name()),
            failing: metrics::gauge!("informant_failing", "informer" => name()),
            quarantined: metrics::gauge!("informant_quarantined_objects", "informer" => name()),
            index_panics: metrics::counter!("informant_index_panics_total", "informer" => name()),
        }
    }

    /// Records a batch that was applied to the cache and distributed.
    pub(crate) fn record_batch(&self, took: Duration, tally: Tally, index_panics: usize) {
        self.batch_seconds.record(took.as_secs_f64());
        for (counter, count) in [
            (&self.added, tally.added),
            (&self.updated, tally.updated),
            (&self.deleted, tally.deleted),
            (&self.unchanged, tally.unchanged),
            (&self.index_panics, index_panics as u64),
        ] {
            if count > 0 {
                counter.increment(count);
            }
        }
    }

    /// Records the length of the queue, and the size and version of the cache.
    pub(crate) fn record_levels(&self, queued: usize, objects: usize, version: Option<&ResourceVersion>) {
        self.queue_depth.set(queued as f64);
        self.objects.set(objects as f64);
        if let Some(number) = version.and_then(as_number) {
            self.version.set(number);
        }
    }

    /// Records when the server last confirmed that the cache is current.
    pub(crate) fn record_confirmed(&self, age: Option<Duration>) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        if let (Some(age), Ok(now)) = (age, now) {
            self.confirmed.set(now.saturating_sub(age).as_secs_f64());
        }
    }

    /// Sets all gauges to zero, when the informer has stopped.
    pub(crate) fn reset(&self) {
        for gauge in [
            &self.queue_depth,
            &self.objects,
            &self.bytes,
            &self.version,
            &self.failing,
            &self.confirmed,
            &self.quarantined,
        ] {
            gauge.set(0.0);
        }
    }
}

impl HandlerMetrics {
    pub(crate) fn new(informer: &Arc<str>, handler: &Arc<str>) -> Self {
        let (informer, handler) = (|| Arc::clone(informer), || Arc::clone(handler));
        Self {
            backlog: metrics::gauge!("informant_handler_backlog", "informer" => informer(), "handler" => handler()),
            seconds: metrics::histogram!("informant_handler_seconds", "informer" => informer(), "handler" => handler()),
            panics: metrics::counter!("informant_handler_panics_total", "informer" => informer(), "handler" => handler()),
            resyncs_skipped: metrics::counter!("informant_handler_resyncs_skipped_total", "informer" => informer(), "handler" => handler()),
        }
    }
}

/// The last 15 digits of a version: as many as an `f64` can hold exactly.
fn as_number(version: &ResourceVersion) -> Option<f64> {
    let text = version.as_str();
    let digits = text.get(text.len().saturating_sub(15)..)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MX-03
    #[test]
    fn a_version_is_shown_by_its_last_fifteen_digits() {
        assert_eq!(as_number(&"42".into()), Some(42.0));
        assert_eq!(as_number(&"9123456789012345".into()), Some(123_456_789_012_345.0));
        assert_eq!(as_number(&"v7".into()), None);
        assert_eq!(as_number(&"".into()), None);
        assert_eq!(as_number(&"é23456789012345".into()), None);
    }
}

//! Figures for whichever recorder the user installs, through the `metrics` facade.
//!
//! | name | kind | labels | what |
//! | --- | --- | --- | --- |
//! | `informant_queue_depth` | gauge | informer | objects (or changes, in order) that are being applied, and afterwards those that wait |
//! | `informant_batch_seconds` | histogram | informer | time to apply one batch and hand it to all handlers |
//! | `informant_events_total` | counter | informer, type (`added`, `updated`, `deleted`, `unchanged`) | changes of the cache |
//! | `informant_cache_objects` | gauge | informer | objects in the cache |
//! | `informant_cache_version` | gauge | informer | the cache's resource version; its last 15 digits, as a number |
//! | `informant_lists_total` | counter | informer | lists that were completed, streamed ones included: all but the first are relists |
//! | `informant_watches_total` | counter | informer | watches that were opened: all but the first are restarts |
//! | `informant_history_changes_total` | counter | informer | times that the server's history changed, such as by a restored backup |
//! | `informant_failing` | gauge | informer | 1 while the source fails, else 0 |
//! | `informant_confirmed_timestamp_seconds` | gauge | informer | Unix time at which the server last confirmed that the cache is current |
//! | `informant_quarantined_objects` | gauge | informer | objects that exist but cannot be read |
//! | `informant_index_panics_total` | counter | informer | index functions that panicked on a change |
//! | `informant_handler_backlog` | gauge | informer, handler | events that wait for a handler |
//! | `informant_handler_seconds` | histogram | informer, handler | time that a handler and its filter spent on one batch, or on up to 64 coalesced events; who reads a stream is not timed |
//! | `informant_handler_panics_total` | counter | informer, handler | panics of a handler |
//! | `informant_handler_resyncs_skipped_total` | counter | informer, handler | resyncs that were skipped because the handler had not taken all events of the one before |
//!
//! The recorder must be installed before an informer is built; [`describe`] tells it what each figure is. Gauges of an informer that has stopped are zero. Handlers of one
//! name are told apart by a number. Of streams there is no time: what is done with their events is not known here.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::SystemTime;

use metrics::Counter;
use metrics::Gauge;
use metrics::Histogram;
use metrics::Unit;

use crate::ResourceVersion;

/// Tells the recorder what each figure is, for those who show it. It must be installed before.
///
/// ```
/// informant::metrics::describe();
/// ```
pub fn describe() {
    metrics::describe_gauge!("informant_queue_depth", "Objects or changes that are being applied, or wait for it.");
    metrics::describe_histogram!(
        "informant_batch_seconds",
        Unit::Seconds,
        "Time to apply a batch and hand it to all handlers."
    );
    metrics::describe_counter!("informant_events_total", "Changes of the cache.");
    metrics::describe_gauge!("informant_cache_objects", "Objects in the cache.");
    metrics::describe_gauge!("informant_cache_version", "The cache's resource version: its last 15 digits.");
    metrics::describe_counter!("informant_lists_total", "Lists that were completed: all but the first are relists.");
    metrics::describe_counter!("informant_watches_total", "Watches that were opened: all but the first are restarts.");
    metrics::describe_counter!(
        "informant_history_changes_total",
        "Times that the server's history changed, such as by a restored backup."
    );
    metrics::describe_gauge!("informant_failing", "1 while the source fails, else 0.");
    metrics::describe_gauge!(
        "informant_confirmed_timestamp_seconds",
        Unit::Seconds,
        "Unix time at which the server last confirmed that the cache is current."
    );
    metrics::describe_gauge!("informant_quarantined_objects", "Objects that exist but cannot be read.");
    metrics::describe_counter!("informant_index_panics_total", "Index functions that panicked on a change.");
    metrics::describe_gauge!("informant_handler_backlog", "Events that wait for a handler.");
    metrics::describe_histogram!(
        "informant_handler_seconds",
        Unit::Seconds,
        "Time that a handler spent on a batch, or on up to 64 coalesced events."
    );
    metrics::describe_counter!("informant_handler_panics_total", "Panics of a handler.");
    metrics::describe_counter!(
        "informant_handler_resyncs_skipped_total",
        "Resyncs that were skipped because the handler had not taken all events of the one before."
    );
}

/// Figures of one informer.
pub(crate) struct InformerMetrics {
    queue_depth: Gauge,
    batch_seconds: Histogram,
    added: Counter,
    updated: Counter,
    deleted: Counter,
    unchanged: Counter,
    objects: Gauge,
    version: Gauge,
    lists: Growing,
    watches: Growing,
    history_changes: Growing,
    failing: Gauge,
    confirmed: Gauge,
    quarantined: Gauge,
    index_panics: Counter,
}

/// How a source is doing.
pub(crate) struct SourceFigures {
    pub(crate) lists: u64,
    pub(crate) watches: u64,
    pub(crate) history_changes: u64,
    pub(crate) is_failing: bool,
    /// How long ago the server confirmed that the cache is current.
    pub(crate) confirmed_age: Option<Duration>,
    pub(crate) quarantined: usize,
}

/// How many of which kind a batch had.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) added: u64,
    pub(crate) updated: u64,
    pub(crate) deleted: u64,
    pub(crate) unchanged: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Self) {
        self.added += other.added;
        self.updated += other.updated;
        self.deleted += other.deleted;
        self.unchanged += other.unchanged;
    }
}

/// A counter that is told how far it is. Another informer of the same name counts on.
struct Growing {
    counter: Counter,
    reached: AtomicU64,
}

impl Growing {
    fn new(counter: Counter) -> Self {
        Self { counter, reached: AtomicU64::new(0) }
    }

    fn grow_to(&self, count: u64) {
        let before = self.reached.fetch_max(count, Ordering::Relaxed);
        if count > before {
            self.counter.increment(count - before);
        }
    }
}

/// Figures of one handler.
pub(crate) struct HandlerMetrics {
    backlog: Gauge,
    seconds: Histogram,
    panics: Counter,
    resyncs_skipped: Counter,
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
            version: metrics::gauge!("informant_cache_version", "informer" => name()),
            lists: Growing::new(metrics::counter!("informant_lists_total", "informer" => name())),
            watches: Growing::new(metrics::counter!("informant_watches_total", "informer" => name())),
            history_changes: Growing::new(metrics::counter!("informant_history_changes_total", "informer" => name())),
            confirmed: metrics::gauge!("informant_confirmed_timestamp_seconds", "informer" => name()),
            failing: metrics::gauge!("informant_failing", "informer" => name()),
            quarantined: metrics::gauge!("informant_quarantined_objects", "informer" => name()),
            index_panics: metrics::counter!("informant_index_panics_total", "informer" => name()),
        }
    }

    /// A batch was applied and handed on.
    pub(crate) fn batch(&self, took: Duration, tally: Tally, index_panics: usize) {
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

    /// So much is about to be applied.
    pub(crate) fn taken(&self, items: usize) {
        self.queue_depth.set(items as f64);
    }

    /// How much waits, and what the cache has.
    pub(crate) fn levels(&self, queued: usize, objects: usize, version: Option<&ResourceVersion>) {
        self.queue_depth.set(queued as f64);
        self.objects.set(objects as f64);
        if let Some(number) = version.and_then(as_number) {
            self.version.set(number);
        }
    }

    /// How the source is doing.
    pub(crate) fn source(&self, figures: &SourceFigures) {
        self.lists.grow_to(figures.lists);
        self.watches.grow_to(figures.watches);
        self.history_changes.grow_to(figures.history_changes);
        self.failing.set(f64::from(u8::from(figures.is_failing)));
        self.quarantined.set(figures.quarantined as f64);
        self.confirmed(figures.confirmed_age);
    }

    /// The server confirmed that the cache was current this long ago.
    pub(crate) fn confirmed(&self, age: Option<Duration>) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        if let (Some(age), Ok(now)) = (age, now) {
            self.confirmed.set(now.saturating_sub(age).as_secs_f64());
        }
    }

    /// The informer has stopped.
    pub(crate) fn stopped(&self) {
        for gauge in
            [&self.queue_depth, &self.objects, &self.version, &self.failing, &self.confirmed, &self.quarantined]
        {
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

    pub(crate) fn backlog(&self, waiting: usize) {
        self.backlog.set(waiting as f64);
    }

    /// A chunk was delivered.
    pub(crate) fn chunk(&self, took: Duration) {
        self.seconds.record(took.as_secs_f64());
    }

    pub(crate) fn panicked(&self, count: u64) {
        self.panics.increment(count);
    }

    pub(crate) fn resync_skipped(&self) {
        self.resyncs_skipped.increment(1);
    }
}

/// The last 15 digits of a version: as many as a number of this kind can hold exactly.
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

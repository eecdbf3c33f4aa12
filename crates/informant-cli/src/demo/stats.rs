//! A snapshot of all counters of the demo.

use informant::factory::{Activity, InformerStatus};
use serde::Serialize;

use super::{recorder::Counts, scenario::SubscribedHandler};

/// The state of the server, the informers and the handlers at one moment.
#[derive(Debug, Default, Serialize)]
pub struct DemoStats {
    pub seconds: f64,
    /// Whether the load changes objects.
    #[serde(skip)]
    pub is_loaded: bool,
    pub server_version: u64,
    pub server_pods: usize,
    pub informers: Vec<InformerStats>,
    pub handlers: Vec<HandlerStats>,
    pub busiest_node: Option<(String, usize)>,
    /// The faults that affect the newest request of each kind.
    pub active_faults: Vec<String>,
    /// The newest fault, active or past.
    pub last_fault: Option<String>,
    /// The faults of the last requests, newest first, each with its time.
    #[serde(skip)]
    pub fault_history: Vec<String>,
    pub problems: Vec<String>,
}

/// The state and counters of an informer.
#[derive(Debug, Serialize)]
pub struct InformerStats {
    pub name: String,
    pub activity: String,
    pub is_watching: bool,
    pub objects: usize,
    pub version: String,
    pub queued: usize,
    /// Number of lists after the first one.
    pub relists: u64,
    /// Number of watches after the first one.
    pub watch_restarts: u64,
    pub events: u64,
}

/// The state and counters of a handler.
#[derive(Debug, Serialize)]
pub struct HandlerStats {
    pub name: String,
    pub kind: &'static str,
    pub is_synced: bool,
    pub backlog: usize,
    /// Time between the last change that the handler received and its delivery.
    pub lag_ms: u128,
    pub coalesced: u64,
    pub counts: Counts,
}

impl InformerStats {
    pub fn of(status: &InformerStatus) -> Self {
        let activity = match &status.source.activity {
            Activity::Idle => "not started".to_owned(),
            Activity::Listing { objects } | Activity::Streaming { objects } => format!("listing ({objects})"),
            Activity::CheckingHistory => "checking the server's history".to_owned(),
            Activity::Opening => "opening a watch".to_owned(),
            Activity::Watching => "watching".to_owned(),
            Activity::BackingOff { because, .. } => match because.source.code() {
                Some(code) => format!("retrying: the server answered {code}"),
                None => format!("retrying: {}", because.source),
            },
            Activity::Stopped => "stopped".to_owned(),
            _ => "busy".to_owned(),
        };
        Self {
            name: status.name.to_string(),
            activity,
            is_watching: status.is_watching(),
            objects: status.objects,
            version: status.version.as_ref().map(ToString::to_string).unwrap_or_default(),
            queued: status.queued,
            relists: status.source.lists.saturating_sub(1),
            watch_restarts: status.source.watches.saturating_sub(1),
            events: status.source.events,
        }
    }
}

impl HandlerStats {
    pub fn of(handler: &SubscribedHandler) -> Self {
        let status = handler.registration.status();
        Self {
            name: status.name.to_string(),
            kind: handler.kind,
            is_synced: status.is_synced,
            backlog: status.backlog,
            lag_ms: handler.recorder.lag().as_millis(),
            coalesced: status.coalesced,
            counts: handler.recorder.counts(),
        }
    }
}

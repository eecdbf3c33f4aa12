//! All figures of a moment.

use informant::informer::InformerStatus;
use informant::listwatch::Activity;
use serde::Serialize;

use super::follower::Counts;
use super::world::Following;

/// Everything that can be seen at a moment.
#[derive(Debug, Serialize)]
pub struct Picture {
    pub seconds: f64,
    pub server_version: u64,
    pub server_pods: usize,
    pub informers: Vec<InformerFigures>,
    pub handlers: Vec<HandlerFigures>,
    pub busiest_node: Option<(String, usize)>,
    /// What the server does now to the newest request of each kind.
    pub active_faults: Vec<String>,
    /// The newest fault of all, also if it is over.
    pub last_fault: Option<String>,
    pub problems: Vec<String>,
}

/// How an informer is doing.
#[derive(Debug, Serialize)]
pub struct InformerFigures {
    pub name: String,
    pub doing: String,
    pub is_watching: bool,
    pub objects: usize,
    pub version: String,
    pub queued: usize,
    /// Lists after the first one.
    pub relists: u64,
    /// Watches after the first one.
    pub watch_restarts: u64,
    pub events: u64,
}

/// How a handler is doing.
#[derive(Debug, Serialize)]
pub struct HandlerFigures {
    pub name: String,
    pub kind: &'static str,
    pub is_synced: bool,
    pub backlog: usize,
    /// How long before it heard of it the last thing that it heard of had happened.
    pub lag_ms: u128,
    pub coalesced: u64,
    pub counts: Counts,
}

impl InformerFigures {
    pub fn of(status: &InformerStatus) -> Self {
        let doing = match &status.source.activity {
            Activity::Idle => "not started".to_owned(),
            Activity::Listing { objects } | Activity::Streaming { objects } => format!("listing ({objects})"),
            Activity::CheckingHistory => "checking the history".to_owned(),
            Activity::Opening => "opening a watch".to_owned(),
            Activity::Watching => "watching".to_owned(),
            Activity::BackingOff { because, .. } => match because.source.code() {
                Some(code) => format!("retrying: the server answered {code}"),
                None => format!("retrying: {}", because.source),
            },
            Activity::Stopped => "stopped".to_owned(),
            _ => "at work".to_owned(),
        };
        Self {
            name: status.name.to_string(),
            doing,
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

impl HandlerFigures {
    pub fn of(following: &Following) -> Self {
        let status = following.registration.status();
        Self {
            name: status.name.to_string(),
            kind: following.kind,
            is_synced: status.is_synced,
            backlog: status.backlog,
            lag_ms: following.follower.lag().as_millis(),
            coalesced: status.coalesced,
            counts: following.follower.counts(),
        }
    }
}

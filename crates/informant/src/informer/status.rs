//! How an informer is doing, all of it at one glance.

use std::sync::Arc;
use std::time::Duration;

use super::InformerState;
use super::SharedInformer;
use crate::ResourceVersion;
use crate::listwatch::Activity;
use crate::listwatch::ReflectorStatus;
use crate::subscribers::HandlerStatus;

/// How an informer is doing.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct InformerStatus {
    /// What it is called.
    pub name: Arc<str>,
    /// Whether it runs.
    pub state: InformerState,
    /// Whether the first complete list is in the cache.
    pub is_synced: bool,
    /// How many objects are in the cache.
    pub objects: usize,
    /// The version up to which the cache has everything.
    pub version: Option<ResourceVersion>,
    /// How many objects, or changes if they are kept in order, wait to be applied.
    pub queued: usize,
    /// How many objects exist but cannot be read.
    pub quarantined: usize,
    /// How the source is doing, and what failed last.
    pub source: ReflectorStatus,
    /// How those are doing who follow it.
    pub handlers: Vec<HandlerStatus>,
}

impl InformerStatus {
    /// Whether changes come in: a watch is open.
    pub fn is_watching(&self) -> bool {
        match self.source.activity {
            Activity::Watching => true,
            Activity::Idle
            | Activity::Listing { .. }
            | Activity::Streaming { .. }
            | Activity::Opening
            | Activity::BackingOff { .. }
            | Activity::Stopped => false,
        }
    }

    /// Whether the cache may lag behind the server for longer than it takes a change to arrive: it was never filled, the
    /// source fails or is gone, or the informer does not run.
    pub fn is_stale(&self) -> bool {
        !self.is_synced
            || self.source.failing_since.is_some()
            || self.source.is_gone
            || self.state != InformerState::Running
    }

    /// How long ago something came from the source: a list, an event or a bookmark.
    pub fn last_event_age(&self) -> Option<Duration> {
        self.source.last_event.map(|last| last.elapsed())
    }
}

impl<O: Send + Sync + 'static> SharedInformer<O> {
    /// How it is doing: for health checks, and for finding out why something does not happen.
    pub fn status(&self) -> InformerStatus {
        let core = self.core();
        let followers = core.roster();
        let handlers = followers.iter().filter(|listener| !listener.is_closed()).map(|listener| listener.status());
        InformerStatus {
            name: Arc::clone(&core.name),
            state: self.state(),
            is_synced: core.is_synced(),
            objects: core.lister.len(),
            version: core.version(),
            queued: core.queued(),
            quarantined: core.source.get().map_or(0, |source| source.reflector.quarantined_count()),
            source: core.source_status(),
            handlers: handlers.collect(),
        }
    }
}

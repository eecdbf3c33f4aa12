//! What a reflector is doing, for everybody to see.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use super::super::ListWatchError;
use super::super::Quarantined;
use super::super::quarantine::Quarantine;
use crate::Key;
use crate::ResourceVersion;

/// What a reflector is doing, and how it is.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ReflectorStatus {
    /// What it does now.
    pub activity: Activity,
    /// The newest version that it has seen; the consumer may not have come so far.
    pub version: Option<ResourceVersion>,
    /// When something came from the source last: a list, an event, a bookmark.
    pub last_event: Option<Instant>,
    /// When the source last showed that the watch works: by a list, an event, a bookmark, or by answering, when it was asked because the
    /// watch was silent, with the version that the watch has reached. Otherwise equal to `last_event`.
    pub confirmed: Option<Instant>,
    /// Since when the source, asked because the watch was silent, has not answered.
    pub unanswered_since: Option<Instant>,
    /// What failed last, if anything ever did.
    pub last_error: Option<Arc<ListWatchError>>,
    /// Since when it has been failing; `None` if all is well.
    pub failing_since: Option<Instant>,
    /// The source has no such kind any more, so all its objects are gone.
    pub is_gone: bool,
    /// How many lists it has brought to an end, streamed ones among them.
    pub lists: u64,
    /// How many watches it has opened.
    pub watches: u64,
    /// How many events came, bookmarks among them.
    pub events: u64,
    /// How often the server's history changed, as it does when a backup is restored.
    pub history_changes: u64,
    /// How many outages ended without a check of the server's history, because the server refused it.
    pub unchecked_outages: u64,
    /// Whether watches fail, so that a list that succeeds does not end the failure.
    pub(super) is_watch_failing: bool,
}

/// What a reflector does.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Activity {
    /// It has not begun.
    #[default]
    Idle,
    /// It gets a list.
    Listing {
        /// How many objects have come so far.
        objects: usize,
    },
    /// It gets a list as a stream.
    Streaming {
        /// How many objects have come so far.
        objects: usize,
    },
    /// It asks, after an outage, whether the server still has the history that was followed.
    CheckingHistory,
    /// It asks for a watch.
    Opening,
    /// It waits for changes.
    Watching,
    /// It waits before it tries again.
    BackingOff {
        /// Until when.
        until: Instant,
        /// Why.
        because: Arc<ListWatchError>,
    },
    /// It has stopped.
    Stopped,
}

impl Activity {
    /// How many objects of a list that is under way have come.
    pub(crate) fn objects_so_far(&self) -> usize {
        match self {
            Self::Listing { objects } | Self::Streaming { objects } => *objects,
            Self::Idle
            | Self::CheckingHistory
            | Self::Opening
            | Self::Watching
            | Self::BackingOff { .. }
            | Self::Stopped => 0,
        }
    }
}

/// Looks at a reflector that runs elsewhere. Clones look at the same one.
#[derive(Clone)]
pub struct ReflectorHandle {
    status: watch::Receiver<ReflectorStatus>,
    quarantine: Quarantine,
}

/// The reflector's side.
pub(super) struct StatusBoard {
    status: watch::Sender<ReflectorStatus>,
}

impl ReflectorHandle {
    /// How it is now.
    pub fn status(&self) -> ReflectorStatus {
        self.status.borrow().clone()
    }

    /// Waits until the activity or the error has changed since it was looked at this way. Events alone are no change.
    ///
    /// Cancel safe. Returns at once if the reflector is gone.
    pub async fn changed(&mut self) -> ReflectorStatus {
        // An error says that there is nobody to change it any more.
        let _ = self.status.changed().await;
        self.status.borrow_and_update().clone()
    }

    /// The status now; [`changed`](Self::changed) waits for changes after it.
    pub(super) fn seen(&mut self) -> ReflectorStatus {
        self.status.borrow_and_update().clone()
    }

    /// Looks without copying.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&ReflectorStatus) -> R) -> R {
        look(&self.status.borrow())
    }

    /// How many objects exist but could not be read.
    pub fn quarantined_count(&self) -> usize {
        self.quarantine.len()
    }

    /// The object of this key, if it exists but could not be read.
    pub fn quarantined_object(&self, key: &Key) -> Option<Quarantined> {
        self.quarantine.get(key)
    }

    /// The version at which one that could not be read last could be, or was gone.
    pub(crate) fn released(&self) -> Option<ResourceVersion> {
        self.quarantine.released()
    }

    /// The objects that exist but could not be read. What the cache has of them, if anything, is an older state.
    pub fn quarantined(&self) -> Vec<Quarantined> {
        self.quarantine.list()
    }
}

impl StatusBoard {
    pub(super) fn new(quarantine: Quarantine) -> (Self, ReflectorHandle) {
        let (sender, receiver) = watch::channel(ReflectorStatus::default());
        (Self { status: sender }, ReflectorHandle { status: receiver, quarantine })
    }

    pub(super) fn set(&self, activity: Activity) {
        self.update(|status| status.activity = activity);
    }

    /// Changes the status without waking waiting tasks, for changes that are too frequent.
    pub(super) fn note(&self, change: impl FnOnce(&mut ReflectorStatus)) {
        self.change(change, false);
    }

    pub(super) fn failing_since(&self) -> Option<Instant> {
        self.status.borrow().failing_since
    }

    /// Changes the status and wakes waiting tasks.
    pub(super) fn update(&self, change: impl FnOnce(&mut ReflectorStatus)) {
        self.change(change, true);
    }

    fn change(&self, change: impl FnOnce(&mut ReflectorStatus), wakes: bool) {
        let mut replaced = None;
        self.status.send_if_modified(|status| {
            // Copied, so that an error that `change` replaces is dropped after the lock is released: its destructor may be users' code.
            replaced = Some((status.last_error.clone(), status.activity.clone()));
            change(status);
            wakes
        });
        drop(replaced);
    }
}

/// A reflector that is gone has stopped, however it went.
impl Drop for StatusBoard {
    fn drop(&mut self) {
        self.set(Activity::Stopped);
    }
}

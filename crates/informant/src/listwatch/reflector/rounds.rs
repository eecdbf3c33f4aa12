//! The loop: everything, then the changes, until that fails; then wait and begin again.

use std::convert::Infallible;
use std::sync::Arc;

use tokio::time::Instant;
use tokio::time::sleep_until;
use tokio::time::timeout;
use tracing::debug;
use tracing::error;
use tracing::warn;

use super::super::Attempt;
use super::super::Destination;
use super::super::ListWatch;
use super::super::ListWatchError;
use super::super::Quarantined;
use super::super::Served;
use super::super::SourceError;
use super::super::error::Chain;
use super::super::intake::Intake;
use super::super::quarantine::Entries;
use super::super::quarantine::Quarantine;
use super::super::rules::delays::Delays;
use super::super::rules::meaning::Meaning;
use super::super::rules::resume::Listed;
use super::super::rules::resume::Resume;
use super::super::rules::watchdog::Watchdog;
use super::super::rules::window::RetryWindow;
use super::Settings;
use super::collected::Collected;
use super::status::Activity;
use super::status::StatusBoard;
use crate::Cached;
use crate::Key;
use crate::Relist;
use crate::ResourceVersion;
use crate::panics;

/// A reflector at work.
pub(super) struct Rounds<O, L, D> {
    pub(super) source: L,
    pub(super) destination: D,
    pub(super) intake: Intake<O>,
    pub(super) settings: Settings<O>,
    pub(super) quarantine: Quarantine,
    pub(super) status: StatusBoard,
    pub(super) resume: Resume,
    pub(super) delays: Delays,
    pub(super) watchdog: Watchdog,
    pub(super) window: RetryWindow,
    /// Whether a request may still be repeated at once in this round.
    pub(super) may_repeat: bool,
    reuse: Reuse,
    presence: Presence,
    /// Whether the last list had an item that may be any object of ours.
    was_damaged: bool,
    resource: Arc<str>,
}

/// Whether a known object of the same uid and version has the same content: not if the server went back, for then versions
/// come again with other contents.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reuse {
    Allowed,
    /// The server may have gone back: not until a list has been accepted.
    Suspended,
    /// The server has gone back. When the consumer's cache has nothing from before is not known here.
    Never,
}

/// Whether the source has the kind, as far as that is known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    Present,
    /// A list was not found.
    InDoubt,
    /// And the source says that it has no such kind.
    Denied,
    /// It is not there, and the destination knows.
    Gone,
}

/// How a round ended.
pub(super) struct Over {
    pub(super) error: Arc<ListWatchError>,
    /// Whether the error callback hears of it.
    pub(super) is_heard: bool,
}

impl<O, L, D> Rounds<O, L, D>
where
    O: Send + Sync + 'static,
    L: ListWatch<O>,
    D: Destination<O>,
{
    pub(super) fn new(
        source: L,
        destination: D,
        intake: Intake<O>,
        settings: Settings<O>,
        quarantine: Quarantine,
        status: StatusBoard,
    ) -> Self {
        Self {
            resume: Resume::new(settings.page_size),
            delays: Delays::new(settings.backoff),
            watchdog: Watchdog::default(),
            window: RetryWindow::new(settings.retries_server_errors_for),
            may_repeat: true,
            reuse: Reuse::Allowed,
            presence: Presence::Present,
            was_damaged: false,
            resource: source.name().into(),
            source,
            destination,
            intake,
            settings,
            quarantine,
            status,
        }
    }

    pub(super) async fn run(mut self) -> Infallible {
        loop {
            let Over { error, is_heard } = self.round().await;
            if is_heard {
                self.tell(&error);
            }
            self.wait(error).await;
        }
    }

    async fn round(&mut self) -> Over {
        self.may_repeat = true;
        if self.presence == Presence::InDoubt {
            self.look_for_kind().await;
        }
        let stream = match self.stream_or_list().await {
            Ok(stream) => stream,
            Err(over) => return over,
        };
        self.follow(stream).await
    }

    /// A list was not found: that may be an error on the way. Only if the source is sure that it has no such kind, its
    /// objects are gone.
    async fn look_for_kind(&mut self) {
        self.status.set(Activity::Listing { objects: 0 });
        match timeout(self.settings.patience, self.source.is_served()).await {
            Ok(Served::No) => self.presence = Presence::Denied,
            Ok(Served::Yes | Served::Unknown) | Err(_) => {}
        }
    }

    /// Another list was not found although, or because, the source says that it has no such kind: it is certain.
    fn lose_kind(&mut self) {
        self.presence = Presence::Gone;
        if !self.resume.has_observed() {
            return;
        }
        warn!(kind = %self.resource, "the source has no such kind any more; its objects are gone");
        let version = self.resume.watch();
        self.quarantine.replace(Entries::default(), &version);
        self.status.update(|status| status.is_gone = true);
        self.destination.replace(Relist { version, objects: Vec::new(), quarantined: Vec::new() });
    }

    /// A list has come: it becomes the new state.
    ///
    /// # Errors
    ///
    /// If it is not to be believed.
    pub(super) fn accept(
        &mut self,
        asked: &ResourceVersion,
        listed: Collected<O>,
        version: ResourceVersion,
        is_paged: bool,
    ) -> Result<(), SourceError> {
        // What the list lacks may be that very item, so it is not believed at once; but if it stays so, that is how it is.
        if let Some(damage) = listed.damage()
            && self.resume.has_observed()
            && !std::mem::replace(&mut self.was_damaged, true)
        {
            return Err(SourceError::Damaged { source: Arc::clone(damage) });
        }
        let went_back = || SourceError::WentBack { from: self.resume.watch(), to: version.clone() };
        match self.resume.judge(asked, &version) {
            Listed::Unversioned => return Err(SourceError::NoVersion),
            Listed::Doubted => {
                let error = went_back();
                self.suspend_reuse();
                self.resume.unavailable();
                return Err(error);
            }
            Listed::Rewound => {
                warn!(kind = %self.resource, rv = %version, "the server went back to an older version");
                self.reuse = Reuse::Never;
                // What was taken from the cache may have another content now, although the version is the same.
                if self.intake.reused() > 0 {
                    let error = went_back();
                    self.resume.unavailable();
                    return Err(error);
                }
                self.status.note(|status| status.rewinds += 1);
            }
            Listed::Accepted if self.reuse == Reuse::Suspended => self.reuse = Reuse::Allowed,
            Listed::Accepted => {}
        }
        self.resume.listed(asked, &version, is_paged);
        debug!(kind = %self.resource, rv = %version, count = listed.len(), "listed");
        let (relist, quarantined) = listed.into_relist(version.clone());
        for object in self.quarantine.replace(quarantined, &version) {
            self.tell_of_quarantined(&object);
        }
        self.destination.replace(relist);
        self.presence = Presence::Present;
        self.was_damaged = false;
        let now = Instant::now();
        self.delays.succeeded(now);
        self.status.update(|status| {
            status.version = Some(version);
            status.last_event = Some(now);
            status.lists += 1;
            // Whoever was refused a watch is not well before one opens: a list does not show that.
            let is_refused = status.last_error.as_ref().is_some_and(|error| error.attempt == Attempt::OpenWatch);
            status.failing_since = status.failing_since.filter(|_| is_refused);
            status.is_gone = false;
        });
        Ok(())
    }

    /// Whether objects may be taken from the cache.
    pub(super) fn may_reuse(&self) -> bool {
        self.reuse == Reuse::Allowed
    }

    /// The server has gone back.
    pub(super) fn end_reuse(&mut self) {
        self.reuse = Reuse::Never;
    }

    /// The server may have gone back.
    pub(super) fn suspend_reuse(&mut self) {
        if self.reuse == Reuse::Allowed {
            self.reuse = Reuse::Suspended;
        }
    }

    /// If the version that was asked for is not to be had, the newest state is asked for next.
    pub(super) fn note_unavailable(&mut self, meaning: Meaning) {
        if meaning == Meaning::TooLarge {
            self.suspend_reuse();
        }
        if let Meaning::Expired | Meaning::TooLarge = meaning {
            self.resume.unavailable();
        }
    }

    /// A watch begins.
    pub(super) fn watching(&mut self) {
        self.watchdog.opened();
        self.delays.succeeded(Instant::now());
        self.status.update(|status| {
            status.activity = Activity::Watching;
            status.watches += 1;
            status.failing_since = None;
        });
    }

    /// Something failed: everybody can see it.
    pub(super) fn failed(&mut self, attempt: Attempt, source: SourceError) -> Arc<ListWatchError> {
        let meaning = source.meaning();
        if let (Meaning::Refused | Meaning::Lost, Some(streaming)) = (meaning, &self.settings.streaming) {
            streaming.connection_lost();
        }
        if attempt == Attempt::List {
            match (self.presence, meaning == Meaning::NotFound) {
                (Presence::Present, true) => self.presence = Presence::InDoubt,
                (Presence::Denied, true) => self.lose_kind(),
                // What discovery said was said before this.
                (Presence::Denied, false) => self.presence = Presence::InDoubt,
                (Presence::InDoubt | Presence::Gone, _) | (Presence::Present, false) => {}
            }
        }
        let error = Arc::new(ListWatchError { attempt, resource: Arc::clone(&self.resource), source });
        debug!(kind = %self.resource, error = %Chain(&*error), "failed");
        self.status.update(|status| {
            status.last_error = Some(Arc::clone(&error));
            status.failing_since.get_or_insert_with(Instant::now);
        });
        error
    }

    /// Waits before the next attempt.
    pub(super) async fn wait(&mut self, because: Arc<ListWatchError>) {
        let now = Instant::now();
        let delay = self.delays.failed(now, because.source.retry_after());
        debug!(kind = %self.resource, delay_ms = delay.as_millis(), "waiting before the next attempt");
        let until = now + delay;
        self.status.set(Activity::BackingOff { until, because });
        sleep_until(until).await;
    }

    /// Tells the user, or the log.
    pub(super) fn tell(&self, failure: &ListWatchError) {
        if let Some(hear) = &self.settings.on_error {
            self.call("on_error", || hear(failure));
            return;
        }
        // A version that has expired is everyday life.
        match failure.source.meaning() == Meaning::Expired {
            true => debug!(kind = %self.resource, error = %Chain(failure), "beginning anew"),
            false => warn!(kind = %self.resource, error = %Chain(failure), "failed; trying again"),
        }
    }

    pub(super) fn tell_of_quarantined(&self, object: &Quarantined) {
        if let Some(hear) = &self.settings.on_quarantine {
            self.call("on_quarantine", || hear(object));
            return;
        }
        let key = object.key.as_ref().map(Key::as_str);
        warn!(kind = %self.resource, key, rv = %object.version, error = %Chain(&*object.error), "cannot be read; set aside");
    }

    /// Runs what the user gave us; if it panics, that is its own trouble.
    pub(super) fn call<R>(&self, name: &str, callback: impl FnOnce() -> R) -> Option<R> {
        let called = panics::catch(callback);
        called
            .inspect_err(|panic| error!(kind = %self.resource, callback = name, error = panic, "a callback panicked"))
            .ok()
    }

    pub(super) fn resource(&self) -> &str {
        &self.resource
    }
}

/// The cached object of a key, if it may be used again.
pub(super) fn known<O>(settings: &Settings<O>, reuses: bool) -> impl Fn(&Key) -> Option<Arc<Cached<O>>> {
    let known = settings.known.as_deref().filter(|_| reuses);
    move |key| known.and_then(|known| known.get(key))
}

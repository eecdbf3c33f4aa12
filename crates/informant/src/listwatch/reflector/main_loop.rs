//! The main loop of a reflector: lists, watches until that fails, waits, and begins again.

use std::{convert::Infallible, sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout},
};
use tracing::{debug, error, warn};

use super::{
    super::{
        Destination, ListWatchError, Operation, Quarantined, Served, SourceError,
        decoder::Decoder,
        error::Chain,
        health::{Prober, Waits},
        quarantine::{Entries, Quarantine},
        rules::{
            anchors::Anchors,
            delays::Delays,
            error_class::ErrorClass,
            resume::{ListVerdict, Resume},
            watchdog::Watchdog,
            window::RetryWindow,
        },
    },
    ReflectorSettings,
    collected::Collected,
    history::{Outage, Startup},
    report::Reporter,
    status::{Activity, StatusBoard},
};
use crate::{Cached, Key, ResourceVersion, delta::Relist, object::Erased, panics};

/// The state of a running reflector.
pub(super) struct ReflectorLoop {
    pub(super) destination: Box<dyn Destination<Erased>>,
    pub(super) decoder: Decoder,
    pub(super) settings: ReflectorSettings,
    pub(super) quarantine: Quarantine,
    pub(super) status: StatusBoard,
    reporter: Arc<Reporter>,
    pub(super) resume: Resume,
    pub(super) delays: Delays,
    pub(super) watchdog: Watchdog,
    pub(super) window: RetryWindow,
    /// True if a request may still be repeated at once in this round.
    pub(super) may_repeat: bool,
    /// The newest events, by which the server's history is recognised.
    pub(super) anchors: Anchors,
    pub(super) outage: Outage,
    /// How many changes of the server's history the reflectors of this client have found.
    pub(super) history_changes: watch::Receiver<u64>,
    /// How many of them this reflector has taken into account.
    pub(super) history_changes_seen: u64,
    /// True if the next list is the first one of another history.
    pub(super) has_history_changed: bool,
    /// `Some` while this reflector is the prober.
    prober: Option<Prober>,
    startup: Startup,
    /// How many requests in a row did not reach the server although it answered those of other reflectors.
    lone_failures: u32,
    /// True if the reflector has listed without a delay since a watch last [made progress](Self::note_progress).
    has_relisted_at_once: bool,
    /// Set when the server's history is in doubt, until a list is accepted: cached objects are not reused.
    is_reuse_suspended: bool,
    presence: Presence,
    /// True if the last list had an item that is too damaged to determine its object.
    was_damaged: bool,
    resource: Arc<str>,
}

/// Whether the source serves the kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    Present,
    /// A list failed with 404.
    InDoubt,
    /// A list failed with 404, and then the source answered that it does not serve the kind.
    Denied,
    /// The source does not serve the kind, and the destination has deleted its objects.
    Gone,
}

/// Within this time after the server can be reached again, all reflectors of a client retry.
const RECONNECT_SPREAD: Duration = Duration::from_secs(2);

/// The number of attempts with short delays if the server answers other reflectors but not this one.
const QUICK_LONE_FAILURES: u32 = 5;

/// Why a round (a list and the watches after it) ended.
pub(super) struct RoundFailure {
    pub(super) error: Arc<ListWatchError>,
    /// True if the error callback is called.
    pub(super) is_reported: bool,
}

impl ReflectorLoop {
    pub(super) fn new(
        destination: Box<dyn Destination<Erased>>,
        decoder: Decoder,
        settings: ReflectorSettings,
        quarantine: Quarantine,
        status: StatusBoard,
        reporter: Arc<Reporter>,
    ) -> Self {
        let history_changes = settings.health.history_changes();
        let history_changes_seen = *history_changes.borrow();
        Self {
            anchors: Anchors::default(),
            outage: Outage::none(Instant::now()),
            history_changes_seen,
            history_changes,
            has_history_changed: false,
            prober: None,
            startup: Startup::default(),
            lone_failures: 0,
            has_relisted_at_once: false,
            is_reuse_suspended: false,
            resume: Resume::new(settings.page_size),
            delays: Delays::new(settings.backoff),
            watchdog: Watchdog::default(),
            window: RetryWindow::new(settings.retries_server_errors_for),
            may_repeat: true,
            presence: Presence::Present,
            was_damaged: false,
            resource: settings.source.name().into(),
            destination,
            decoder,
            settings,
            quarantine,
            status,
            reporter,
        }
    }

    pub(super) async fn run(mut self) -> Infallible {
        loop {
            let RoundFailure { error, is_reported } = self.round().await;
            if is_reported {
                self.report(&error);
            }
            self.wait(error).await;
        }
    }

    async fn round(&mut self) -> RoundFailure {
        self.may_repeat = true;
        if self.presence == Presence::InDoubt {
            self.look_for_kind().await;
        }
        // A history change is noted in `self` for the next list. Any other result does not matter for a list.
        let _ = self.check_history_after_outage().await;
        let stream = match self.stream_or_list().await {
            Ok(stream) => stream,
            Err(failure) => return failure,
        };
        self.follow(stream).await
    }

    /// Asks the source whether it serves the kind, after a list failed with 404. A proxy may have sent the 404, so the objects are deleted only if
    /// the source answers that it does not.
    async fn look_for_kind(&mut self) {
        self.status.set(Activity::Listing { objects: 0 });
        match timeout(self.settings.idle_timeout, self.settings.source.is_served()).await {
            Ok(Served::No) => self.presence = Presence::Denied,
            Ok(Served::Yes | Served::Unknown) | Err(_) => {}
        }
    }

    /// Deletes all objects, after the source answered that it does not serve the kind and another list failed with 404.
    fn delete_all_objects(&mut self) {
        self.presence = Presence::Gone;
        if !self.resume.has_observed() {
            return;
        }
        warn!(informer = %self.resource, "the source no longer serves this kind; its objects count as deleted");
        let version = self.resume.watch();
        self.quarantine.replace(Entries::default(), &version);
        self.status.update(|status| status.is_gone = true);
        let relist = Relist { version, objects: Vec::new(), quarantined: Vec::new(), history_changed: false };
        self.destination.push(relist.into());
    }

    /// Passes a complete list to the destination.
    ///
    /// # Errors
    ///
    /// If the list is older than the reached version, has no version, or has a damaged item that may be any object.
    pub(super) fn accept(
        &mut self,
        asked: &ResourceVersion,
        listed: Collected,
        version: ResourceVersion,
        is_paged: bool,
    ) -> Result<(), SourceError> {
        // An object that seems to be missing may be the damaged item, so the first such list is refused. The next one is accepted.
        if let Some(damage) = listed.damage()
            && self.resume.has_observed()
            && !std::mem::replace(&mut self.was_damaged, true)
        {
            return Err(SourceError::Damaged { source: Arc::clone(damage) });
        }
        let mut listed = listed;
        match self.resume.judge(asked, &version) {
            ListVerdict::Unversioned => return Err(SourceError::NoVersion),
            ListVerdict::Stale => {
                let error = SourceError::OlderVersion { from: self.resume.newest(), to: version };
                self.suspend_reuse();
                self.resume.unavailable();
                return Err(error);
            }
            ListVerdict::HistoryChanged if !self.has_history_changed => {
                let error = self.begin_new_history();
                // Objects that were reused from the cache may differ from the server's, although uid and version are the same.
                if self.decoder.reused() > 0 {
                    return Err(error);
                }
                listed.for_each_mut(|object| self.decoder.move_to_new_history(object));
            }
            ListVerdict::HistoryChanged | ListVerdict::Accepted => {}
        }
        self.is_reuse_suspended = false;
        let history_changed = std::mem::take(&mut self.has_history_changed);
        if history_changed {
            let reached = self.resume.newest();
            warn!(informer = %self.resource, rv = %version, %reached, "the server's history changed; everything was listed again");
            self.status.note(|status| status.history_changes += 1);
        }
        self.anchors = listed.anchors(&version);
        self.resume.listed(asked, &version, is_paged);
        debug!(informer = %self.resource, rv = %version, count = listed.len(), "listed");
        let (relist, quarantined) = listed.into_relist(version.clone(), history_changed);
        for object in self.quarantine.replace(quarantined, &version) {
            self.report_quarantined(&object);
        }
        self.destination.push(relist.into());
        self.presence = Presence::Present;
        self.was_damaged = false;
        let now = Instant::now();
        self.delays.succeeded(now);
        self.server_answered();
        self.outage = Outage::none(now);
        self.status.update(|status| {
            status.version = Some(version);
            status.last_event = Some(now);
            status.confirmed = Some(now);
            status.lists += 1;
            // While watches fail, a list that succeeds does not end the failure.
            if !status.is_watch_failing {
                status.failing_since = None;
            }
            status.is_gone = false;
        });
        Ok(())
    }

    /// Returns true if cached objects may be reused instead of decoding the same state again.
    pub(super) fn may_reuse(&self) -> bool {
        !self.is_reuse_suspended
    }

    /// Stops the reuse of cached objects, because the server's history may have changed.
    pub(super) fn suspend_reuse(&mut self) {
        self.is_reuse_suspended = true;
    }

    /// Notes that the server answered a request, successfully or not.
    fn server_answered(&mut self) {
        let now = Instant::now();
        self.settings.health.note_reachable(now);
        self.startup.answered(now);
        self.prober = None;
        self.lone_failures = 0;
    }

    /// Returns true if the server may still be starting after an outage.
    pub(super) fn is_server_starting(&self) -> bool {
        self.startup.is_under_way(Instant::now())
    }

    /// Makes the next list request the newest state, if the error means that the server cannot serve the requested version.
    pub(super) fn note_unavailable(&mut self, class: ErrorClass) {
        if class == ErrorClass::TooLarge {
            self.suspend_reuse();
        }
        if let ErrorClass::Expired | ErrorClass::TooLarge = class {
            self.resume.unavailable();
        }
    }

    /// Notes that a watch was opened.
    pub(super) fn watching(&mut self) {
        self.watchdog.opened();
        self.delays.succeeded(Instant::now());
        self.server_answered();
        self.outage = Outage::none(Instant::now());
        self.status.update(|status| {
            status.activity = Activity::Watching;
            status.watches += 1;
            status.unanswered_since = None;
            status.is_watch_failing = false;
            status.failing_since = None;
        });
    }

    /// Notes a failed request, and publishes it in the status.
    pub(super) fn failed(&mut self, operation: Operation, source: SourceError) -> Arc<ListWatchError> {
        let class = source.class();
        if let (ErrorClass::Unreachable | ErrorClass::ConnectionLost, Some(streaming)) =
            (class, &self.settings.streaming)
        {
            streaming.connection_lost();
        }
        if operation == Operation::List {
            match (self.presence, class == ErrorClass::NotFound) {
                (Presence::Present, true) => self.presence = Presence::InDoubt,
                (Presence::Denied, true) => self.delete_all_objects(),
                // The kind may have been installed after the source's answer.
                (Presence::Denied, false) => self.presence = Presence::InDoubt,
                (Presence::InDoubt | Presence::Gone, _) | (Presence::Present, false) => {}
            }
        }
        let server_may_be_starting = self.is_server_starting();
        let error = Arc::new(ListWatchError {
            operation,
            resource: Arc::clone(&self.resource),
            source,
            server_may_be_starting,
        });
        debug!(informer = %self.resource, error = %Chain(&*error), "a list or watch failed");
        if operation != Operation::Watch {
            self.outage.attempt_failed(class);
            match error.is_unreachable() {
                true => self.startup.unreachable(Instant::now()),
                false => self.server_answered(),
            }
        }
        let is_watch = match operation {
            Operation::OpenWatch => true,
            Operation::StreamList => error.source.is_forbidden(),
            Operation::List | Operation::Watch | Operation::CheckHistory => false,
        };
        self.status.update(|status| {
            status.is_watch_failing |= is_watch;
            status.last_error = Some(Arc::clone(&error));
            status.failing_since.get_or_insert_with(Instant::now);
        });
        error
    }

    /// Waits before the next attempt.
    pub(super) async fn wait(&mut self, because: Arc<ListWatchError>) {
        let now = Instant::now();
        if because.is_unreachable() {
            return self.wait_until_reachable(now, because).await;
        }
        let delay = self.delay_after(now, &because);
        debug!(informer = %self.resource, delay_ms = delay.as_millis(), "waiting before the next attempt");
        let until = now + delay;
        self.status.set(Activity::BackingOff { until, because });
        sleep_until(until).await;
    }

    fn delay_after(&mut self, now: Instant, because: &ListWatchError) -> Duration {
        let second = Duration::from_secs(1);
        match because.source.class() {
            // Without a delay only once, until a watch has made progress.
            ErrorClass::HistoryChanged if !std::mem::replace(&mut self.has_relisted_at_once, true) => Duration::ZERO,
            ErrorClass::Expired if !std::mem::replace(&mut self.has_relisted_at_once, true) => {
                self.delays.between(Duration::ZERO, second)
            }
            ErrorClass::Expired
            | ErrorClass::HistoryChanged
            | ErrorClass::TooLarge
            | ErrorClass::OlderVersion
            | ErrorClass::Overloaded
            | ErrorClass::Unreachable
            | ErrorClass::ConnectionLost
            | ErrorClass::InvalidResponse
            | ErrorClass::ServerError
            | ErrorClass::NotFound
            | ErrorClass::Unsupported
            | ErrorClass::Other => {
                let retry_after = because.source.retry_after();
                let delay = self.delays.failed(now, retry_after);
                let is_lost = because.source.class() == ErrorClass::ConnectionLost && self.is_server_starting();
                match because.may_be_startup_error() || is_lost {
                    true => delay.min(self.delays.soon().max(retry_after.unwrap_or_default())),
                    false => delay,
                }
            }
        }
    }

    /// Waits before the next attempt on a server that cannot be reached: as the prober, or until the prober succeeds.
    async fn wait_until_reachable(&mut self, now: Instant, because: Arc<ListWatchError>) {
        let outage = self.settings.health.note_unreachable(now);
        let other = self.delays.failed(now, None);
        // If the server answers other reflectors, the cause is not an outage, so only the first attempts are made soon.
        let since = self.startup.unreachable_since().unwrap_or(now);
        self.lone_failures += u32::from(self.settings.health.has_answered_since(since));
        let probe = match self.lone_failures < QUICK_LONE_FAILURES {
            true => self.delays.until_probe(outage, other),
            false => other,
        };
        let spread = self.delays.between(Duration::ZERO, RECONNECT_SPREAD);
        let until = now + if self.prober.is_some() { probe } else { other };
        debug!(informer = %self.resource, delay_ms = (until - now).as_millis(), "waiting until the server can be reached");
        self.status.set(Activity::BackingOff { until, because });
        self.settings.health.wait(&mut self.prober, Waits { probe, other, spread }).await;
    }

    /// Resets the delays, after a watch delivered a newer version or was open for ten seconds.
    pub(super) fn note_progress(&mut self) {
        self.delays.restart();
        self.has_relisted_at_once = false;
    }

    /// Reports a failure to the user's callback, or to the log. Failures of an outage are reported once, when it has lasted
    /// [three seconds](super::report); before the first list, they are reported at once.
    pub(super) fn report(&self, failure: &ListWatchError) {
        let since = self.status.failing_since();
        // This is not an error of the server; the list that follows is reported if it fails.
        if failure.operation == Operation::CheckHistory && failure.source.class() == ErrorClass::Expired {
            return;
        }
        let is_outage = failure.is_unreachable() || failure.may_be_startup_error();
        let is_list = match failure.operation {
            Operation::List | Operation::StreamList => true,
            Operation::OpenWatch | Operation::Watch | Operation::CheckHistory => false,
        };
        let is_reported = self.reporter.has_reported(since) && failure.source.class() != ErrorClass::HistoryChanged;
        if (is_outage && self.resume.has_observed()) || (is_reported && (is_outage || !is_list)) {
            return;
        }
        self.reporter.report(failure, since);
    }

    /// Reports a quarantined object to the user's callback, or to the log.
    pub(super) fn report_quarantined(&self, object: &Quarantined) {
        if let Some(callback) = &self.settings.on_quarantine {
            self.call("on_quarantine", || callback(object));
            return;
        }
        let key = object.key.as_ref().map(Key::as_str);
        warn!(informer = %self.resource, key, rv = %object.version, error = %Chain(&*object.error), "quarantined an object that cannot be decoded or transformed");
    }

    /// As the function [`call`], with the name of this reflector's resource.
    pub(super) fn call<R>(&self, name: &str, callback: impl FnOnce() -> R) -> Option<R> {
        call(&self.resource, name, callback)
    }

    pub(super) fn resource(&self) -> &str {
        &self.resource
    }
}

/// Runs a callback of the user. A panic is caught and logged.
pub(super) fn call<R>(kind: &str, name: &str, callback: impl FnOnce() -> R) -> Option<R> {
    let called = panics::catch(callback);
    called
        .inspect_err(|panic| error!(informer = kind, callback = name, error = panic, "a user's callback panicked"))
        .ok()
}

/// Returns a function that finds the cached object of a key; if `reuses` is false, it finds none.
pub(super) fn known(settings: &ReflectorSettings, reuses: bool) -> impl Fn(&Key) -> Option<Cached<Erased>> {
    let known = settings.known.as_deref().filter(|_| reuses);
    move |key| known.and_then(|known| known.get(key))
}

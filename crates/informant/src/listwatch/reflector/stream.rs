//! Requests a streamed list: a watch that begins with all existing objects.

use std::time::Duration;

use hashbrown::HashSet;
use tokio::{
    task::coop::consume_budget,
    time::{Instant, timeout, timeout_at},
};
use tracing::{debug, info, warn};

use super::{
    super::{
        ListRequest, Operation, SourceError, WatchRequest,
        error::Chain,
        rules::state::{Input, WatchStats},
    },
    collected::{Collected, Snapshot},
    main_loop::{Failure, ReflectorLoop, known},
    reader::{DecodedEvent, EventReader},
    status::Activity,
};
use crate::{ResourceVersion, object::Identity};

/// Upper bound on the duration of a streamed list, as a multiple of its deadline.
const LONGEST_STREAM: u32 = 10;

/// How often the ordinary list is requested that a streamed list is compared with.
const VERIFYING_ATTEMPTS: u32 = 3;

/// How often a warning is logged while a streamed list delivers nothing.
const WARNS_EVERY: Duration = Duration::from_secs(10);

impl ReflectorLoop {
    /// Receives a streamed list, passes it to the destination, and stores the watch that continues it in `stream`.
    pub(super) async fn stream(&mut self, stream: &mut Option<EventReader>) -> Result<Input, Failure> {
        let may_try = self.settings.streaming.as_ref().is_some_and(|streaming| streaming.may_try(Instant::now()));
        if !may_try || !self.settings.source.can_stream_lists() {
            return Ok(Input::NotSupported);
        }
        let asked = self.resume.stream();
        self.status.set(Activity::Streaming { objects: 0 });
        let health = self.settings.health.clone();
        let permit = health.list_permit(self.is_server_starting()).await;
        let asked_at = Instant::now();
        let (mut reader, listed, version) = self.receive_stream(&asked).await?;
        drop(permit);
        let is_verified = self.settings.verifies_streams && !matches!(version.as_str(), "" | "0");
        if is_verified && !self.verify(&listed, &version).await {
            self.stop_streaming();
            return Ok(Input::NotSupported);
        }
        // The time of the verification does not count as silence.
        reader.last_byte_at = Instant::now();
        match self.accept(&asked, listed, version, false) {
            Ok(()) => {
                *stream = Some(reader);
                Ok(Input::Done)
            }
            Err(error) => Err(Failure::broken(Operation::StreamList, error, stats_since(asked_at, true))),
        }
    }

    /// Notes that the server does not support streamed lists of this kind.
    pub(super) fn stop_streaming(&self) {
        if let Some(streaming) = &self.settings.streaming {
            info!(
                informer = self.resource(),
                "the server does not support streamed lists of this kind; using ordinary lists"
            );
            streaming.refused(Instant::now());
        }
    }

    async fn receive_stream(
        &mut self,
        asked: &ResourceVersion,
    ) -> Result<(EventReader, Collected, ResourceVersion), Failure> {
        self.decoder.reset_reused();
        let asked_at = Instant::now();
        let request =
            WatchRequest { version: asked.clone(), sends_initial_events: true, timeout: self.random_watch_timeout() };
        let opened = self.open(request).await;
        let mut reader = opened.map_err(|error| Failure::refused(Operation::StreamList, error))?;
        let mut snapshot = Snapshot::new();
        let mut has_received = false;
        let version = self.read_snapshot(&mut reader, &mut snapshot, &mut has_received).await;
        let stats = stats_since(asked_at, has_received);
        match version {
            Ok(Some(version)) => Ok((reader, snapshot.into_collected(), version)),
            Ok(None) => Err(Failure {
                operation: Operation::StreamList,
                error: SourceError::EndedEarly,
                input: Input::Ended(stats),
            }),
            Err(error) => Err(Failure::broken(Operation::StreamList, error, stats)),
        }
    }

    /// Reads until the end of the list. Returns its version; `None` if the stream ends before.
    async fn read_snapshot(
        &mut self,
        reader: &mut EventReader,
        snapshot: &mut Snapshot,
        has_received: &mut bool,
    ) -> Result<Option<ResourceVersion>, SourceError> {
        let begun = Instant::now();
        let idle_timeout = self.settings.streaming_deadline;
        let mut last_new = Instant::now();
        let mut warned_at = Instant::now();
        loop {
            while let Some(incoming) = reader.next_here()? {
                let known = known(&self.settings, self.resume.may_reuse());
                match incoming.decode(&mut self.decoder, &known)? {
                    DecodedEvent::Added(taken) | DecodedEvent::Modified(taken) => {
                        if snapshot.upsert(taken) {
                            last_new = Instant::now();
                        }
                    }
                    DecodedEvent::Deleted(taken) => {
                        let key = taken.as_ref().map_or_else(|bad| bad.key.as_ref(), |object| Some(object.key()));
                        if let Some(key) = key {
                            snapshot.remove(key);
                        }
                    }
                    DecodedEvent::Bookmark { version, ends_initial_events: true } => return Ok(Some(version)),
                    DecodedEvent::Bookmark { .. } => {}
                    DecodedEvent::Unknown { kind, .. } => warn!(
                        informer = self.resource(),
                        event = kind,
                        "the streamed list delivered an event of an unknown type; skipped"
                    ),
                }
                *has_received = true;
            }
            // A source that is always ready must not keep other tasks from running.
            consume_budget().await;
            let objects = snapshot.len();
            self.status.note(|status| status.activity = Activity::Streaming { objects });

            // New objects extend the deadline, but only up to a bound: they may have been created after the list began.
            let deadline = (last_new + idle_timeout).min(begun + LONGEST_STREAM * idle_timeout);
            let next_warning = reader.last_byte_at.max(warned_at) + WARNS_EVERY;
            match timeout_at(deadline.min(next_warning), reader.wait()).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => return Ok(None),
                Ok(Err(error)) => return Err(error),
                Err(_) if Instant::now() >= deadline => {
                    let after = if deadline == last_new + idle_timeout { idle_timeout } else { begun.elapsed() };
                    return Err(SourceError::Endless { after });
                }
                Err(_) => {
                    warned_at = Instant::now();
                    let quiet_s = reader.last_byte_at.elapsed().as_secs();
                    let message = match *has_received {
                        false => "the streamed list has delivered nothing yet",
                        true => "the streamed list has delivered nothing more, and does not end",
                    };
                    warn!(informer = self.resource(), count = objects, quiet_s, message);
                }
            }
        }
    }

    /// Compares a streamed list with an ordinary list of the same version. Returns true if they are equal, or if the ordinary list fails.
    async fn verify(&mut self, streamed: &Collected, version: &ResourceVersion) -> bool {
        let request = ListRequest { version: version.clone(), is_exact: true, ..ListRequest::default() };
        let mut attempts = 1;
        let listed = loop {
            match self.list_pages(&request).await {
                Ok((listed, ..)) => break listed,
                Err(error) => {
                    let is_temporary = error.class().is_temporary();
                    let error = self.failed(Operation::List, error);
                    if !is_temporary || attempts == VERIFYING_ATTEMPTS {
                        debug!(informer = self.resource(), error = %Chain(&*error), "a streamed list could not be verified");
                        return true;
                    }
                    attempts += 1;
                    self.wait(error).await;
                }
            }
        };
        let states = |collected: &Collected| -> HashSet<String> {
            let shown = |identity: &Identity| format!("{} {} {}", identity.key, identity.uid, identity.version);
            collected.not_quarantined().map(|object| shown(object.identity())).collect()
        };
        let (listed, streamed) = (states(&listed), states(streamed));
        let missing = listed.difference(&streamed).count();
        let surplus = streamed.difference(&listed).count();
        if missing + surplus > 0 {
            let error = SourceError::Inconsistent { version: version.clone(), missing, surplus };
            let error = self.failed(Operation::StreamList, error);
            self.report(&error);
        }
        missing + surplus == 0
    }

    /// Opens a watch.
    pub(super) async fn open(&mut self, request: WatchRequest) -> Result<EventReader, SourceError> {
        let lasts = request.timeout;
        let idle_timeout = self.settings.idle_timeout;
        let stream = timeout(idle_timeout, self.settings.source.watch(request)).await;
        let stream = stream.map_err(|_| SourceError::Silent { after: idle_timeout })??;
        Ok(EventReader::new(stream, lasts, self.settings.size_limit))
    }

    /// Returns a random timeout, so that not all watches of a server end at the same time.
    pub(super) fn random_watch_timeout(&self) -> Duration {
        let least = self.settings.watch_timeout.as_secs();
        Duration::from_secs(fastrand::u64(least..least.saturating_mul(2)))
    }
}

/// Returns what a streamed list achieved that was requested at this time.
fn stats_since(asked_at: Instant, has_received: bool) -> WatchStats {
    WatchStats { has_moved: has_received, since_asked: asked_at.elapsed(), since_opened: asked_at.elapsed() }
}

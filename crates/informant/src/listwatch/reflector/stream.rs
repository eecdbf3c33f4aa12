//! Requests a streamed list: a watch that begins with all existing objects.
//!
//! - **In:** the events of a watch, up to the bookmark that ends the list.
//! - **Out:** a complete list, and the open watch.
//! - **Knows nothing of:** what follows the list.

use std::{sync::Arc, time::Duration};

use tokio::{
    task::coop::consume_budget,
    time::{Instant, timeout_at},
};
use tracing::{info, warn};

use super::{
    super::{
        Operation, SourceError, WatchRequest,
        frames::EventType,
        rules::state::{Input, WatchStats},
    },
    Reflector,
    main_loop::{Failure, cached_objects},
    reader::{DecodedEvent, EventReader},
    received::ReceivedStream,
    response::WATCH_WITHIN,
    status::Activity,
};
use crate::ResourceVersion;

/// Upper bound on the duration of a streamed list, as a multiple of its deadline.
const LONGEST_STREAM: u32 = 10;

/// How often a warning is logged while a streamed list delivers nothing.
const WARNS_EVERY: Duration = Duration::from_secs(10);

impl Reflector {
    /// Receives a streamed list, passes it to the destination, and stores the watch that continues it in `stream`.
    pub(super) async fn stream(&mut self, stream: &mut Option<EventReader>) -> Result<Input, Failure> {
        let may_try = self.settings.streaming.as_ref().is_some_and(|streaming| streaming.may_try(Instant::now()));
        if !may_try || !self.settings.source.can_stream_lists() {
            return Ok(Input::NotSupported);
        }
        let requested_version = self.resume.streamed_list_version();
        self.status.set(Activity::Streaming { objects: 0 });
        self.decoder.reset_reused();
        let health = self.settings.health.clone();
        let permit = health.list_permit(self.is_server_starting()).await;
        let asked_at = Instant::now();
        let operation = Operation::StreamList;
        let opened = self.open(requested_version.clone(), true).await;
        let mut reader = opened.map_err(|error| Failure::refused(operation, error))?;
        let mut received = ReceivedStream::default();
        let version = self.read_initial_events(&mut reader, &mut received).await;
        drop(permit);
        let since_asked = asked_at.elapsed();
        let stats = WatchStats { has_moved: received.has_events, since_asked, since_opened: since_asked };
        let broken = |error| Failure::broken(operation, error, stats);
        let Some(version) = version.map_err(broken)? else {
            return Err(Failure { operation, error: SourceError::EndedEarly, input: Input::Ended(stats) });
        };
        let listed = received.into_list();
        self.accept(&requested_version, listed, version, false).map_err(broken)?;
        *stream = Some(reader);
        Ok(Input::Done)
    }

    /// Notes that the server does not support streamed lists of this kind.
    pub(super) fn stop_streaming(&self) {
        if let Some(streaming) = &self.settings.streaming {
            info!(
                informer = %self.resource,
                "the server does not support streamed lists of this kind; using ordinary lists"
            );
            streaming.note_refusal(Instant::now());
        }
    }

    /// Reads until the end of the list. Returns its version; `None` if the stream ends before the list is complete.
    async fn read_initial_events(
        &mut self,
        reader: &mut EventReader,
        received: &mut ReceivedStream,
    ) -> Result<Option<ResourceVersion>, SourceError> {
        let begun = Instant::now();
        let idle_timeout = self.settings.streaming_deadline;
        let mut last_new = Instant::now();
        let mut warned_at = Instant::now();
        loop {
            let known = cached_objects(&self.settings, self.resume.may_reuse());
            let mut has_new = false;
            let decoding_since = Instant::now();
            while let Some(event) = reader.next(&mut self.decoder, &known)? {
                match event {
                    DecodedEvent::Delta(delta) if delta.is_deleted() => received.remove(delta.key()),
                    DecodedEvent::Undecodable { event: EventType::Deleted, object } => {
                        object.key.iter().for_each(|key| received.remove(key));
                    }
                    DecodedEvent::Delta(delta) => has_new |= received.upsert(Ok(delta.into_object())),
                    DecodedEvent::Undecodable { object, .. } => has_new |= received.upsert(Err(object)),
                    DecodedEvent::Bookmark { version, ends_initial_events: true } => return Ok(Some(version)),
                    DecodedEvent::Bookmark { .. } => {}
                    DecodedEvent::Unclear(event) => return Err(event),
                }
                received.has_events = true;
            }
            self.decoder.end_group(decoding_since, &self.resource);
            if has_new {
                last_new = Instant::now();
            }
            // A source that is always ready must not keep other tasks from running.
            consume_budget().await;
            let objects = received.len();
            self.status.update_silently(|status| status.activity = Activity::Streaming { objects });

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
                    let message = match received.has_events {
                        false => "the streamed list has delivered nothing yet",
                        true => "the streamed list has delivered nothing more, and does not end",
                    };
                    warn!(informer = %self.resource, count = objects, quiet_s, message);
                }
            }
        }
    }

    /// Requests a watch. Its timeout is random, so that not all watches of a server end at the same time.
    pub(super) async fn open(
        &mut self,
        version: ResourceVersion,
        sends_initial_events: bool,
    ) -> Result<EventReader, SourceError> {
        let least = self.settings.watch_timeout.as_secs();
        let watch_timeout = Duration::from_secs(fastrand::u64(least..least.saturating_mul(2)));
        let request = WatchRequest { version, sends_initial_events, timeout: watch_timeout };
        let asked_at = Instant::now();
        let source = Arc::clone(&self.settings.source);
        let operation = if sends_initial_events { Operation::StreamList } else { Operation::OpenWatch };
        let stream = self.response(operation, WATCH_WITHIN, || source.watch(request.clone())).await?;
        Ok(EventReader::new(stream, &request, asked_at, self.settings.size_limit))
    }
}

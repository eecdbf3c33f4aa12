//! Reads a streamed list: a watch that begins with all existing objects.
//!
//! - **In:** the events of a watch, up to the bookmark that ends the list.
//! - **Out:** a complete list.
//! - **Knows nothing of:** what follows the list.

use std::{future::poll_fn, time::Duration};

use tokio::{
    task::coop::consume_budget,
    time::{Instant, timeout_at},
};
use tracing::warn;

use super::{
    reader::{DecodedEvent, EventReader},
    received::ReceivedStream,
    report::Reporter,
    status::Activity,
};
use crate::{
    ResourceVersion,
    listwatch::{SourceError, decoder::Decoder, frames::EventType},
};

/// How long a streamed list may deliver no new object.
const NOTHING_NEW: Duration = Duration::from_secs(30);

/// How long a streamed list may take.
const LONGEST_STREAM: Duration = Duration::from_secs(300);

/// How often a warning is logged while a streamed list delivers nothing.
const WARNS_EVERY: Duration = Duration::from_secs(10);

/// Reads until the end of the list. Returns its version; `None` if the stream ends before the list is complete.
pub(super) async fn read_streamed_list(
    reader: &mut EventReader,
    decoder: &mut Decoder,
    received: &mut ReceivedStream,
    reporter: &Reporter,
) -> Result<Option<ResourceVersion>, SourceError> {
    let begun = Instant::now();
    let mut last_new = Instant::now();
    let mut warned_at = Instant::now();
    loop {
        let mut has_new = false;
        let decoding_since = Instant::now();
        while let Some(event) = reader.next(decoder)? {
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
        decoder.end_group(decoding_since);
        if has_new {
            last_new = Instant::now();
        }
        // A source that is always ready must not keep other tasks from running.
        consume_budget().await;
        let objects = received.len();
        reporter.update_silently(|status| status.activity = Activity::Streaming { objects });

        // New objects extend the deadline, but only up to a bound: they may have been created after the list began.
        let deadline = (last_new + NOTHING_NEW).min(begun + LONGEST_STREAM);
        let next_warning = reader.last_byte_at.max(warned_at) + WARNS_EVERY;
        match timeout_at(deadline.min(next_warning), poll_fn(|context| reader.poll_wait(context))).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => return Ok(None),
            Ok(Err(error)) => return Err(error),
            Err(_) if Instant::now() >= deadline => {
                let after = if deadline == last_new + NOTHING_NEW { NOTHING_NEW } else { begun.elapsed() };
                return Err(SourceError::Endless { after });
            }
            Err(_) => {
                warned_at = Instant::now();
                let quiet_s = reader.last_byte_at.elapsed().as_secs();
                let message = match received.has_events {
                    false => "the streamed list has delivered nothing yet",
                    true => "the streamed list has delivered nothing more, and does not end",
                };
                warn!(count = objects, quiet_s, message);
            }
        }
    }
}

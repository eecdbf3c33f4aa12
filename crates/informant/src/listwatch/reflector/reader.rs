//! Reads the events of a watch and decodes their objects.
//!
//! - **In:** the pieces of a watch.
//! - **Out:** one decoded event after the other.
//! - **Knows nothing of:** versions, and what the reflector does with an event.

use std::{
    sync::Arc,
    task::{Context, Poll, ready},
    time::{Duration, SystemTime},
};

use futures_util::StreamExt;
use kube::core::Status;
use serde_json::Value;
use tokio::time::Instant;

use super::super::{
    Quarantined, SourceError, SourceEvent, WatchPiece, WatchRequest, WatchStream,
    decoder::{DecodeResult, Decoder},
    frames::{CutPart, EventType, LineCutter, WatchEvent},
    quarantine::Damage,
    rules::outage::WatchLife,
};
use crate::{Deleted, ResourceVersion, delta::Delta, object::Erased};

/// Reads the events of one open watch.
pub(super) struct EventReader {
    stream: WatchStream<Erased>,
    /// The received bytes, if the source delivers bytes.
    lines: LineCutter,
    /// The last received event, if the source delivers events.
    event: Option<SourceEvent<Erased>>,
    /// The timeout that the watch was requested with.
    pub(super) timeout: Duration,
    /// True if the watch began with a streamed list.
    pub(super) is_streamed_list: bool,
    /// When the watch was requested.
    pub(super) asked_at: Instant,
    /// When the response began, by the monotonic clock and by the wall clock.
    opened_at: Instant,
    opened_at_wall: SystemTime,
    /// When the last piece arrived.
    pub(super) last_byte_at: Instant,
}

/// An event with its decoded object.
pub(super) enum DecodedEvent {
    /// A change of an object.
    Delta(Delta<Erased>),
    /// A change of an object that could not be decoded.
    Undecodable {
        event: EventType,
        object: Box<Quarantined>,
    },
    Bookmark {
        version: ResourceVersion,
        ends_initial_events: bool,
    },
    /// An event that may concern any object, as an error.
    Unclear(SourceError),
}

impl EventReader {
    /// Creates a reader of a watch that was requested at this time, and has just been opened.
    pub(super) fn new(stream: WatchStream<Erased>, request: &WatchRequest, asked_at: Instant, limit: usize) -> Self {
        let opened_at = Instant::now();
        Self {
            stream,
            lines: LineCutter::with_limit(limit),
            event: None,
            timeout: request.timeout,
            is_streamed_list: request.sends_initial_events,
            asked_at,
            opened_at,
            opened_at_wall: SystemTime::now(),
            last_byte_at: opened_at,
        }
    }

    /// Returns how long the watch has lived.
    pub(super) fn life(&self) -> WatchLife {
        // A wall clock that was set back counts as one that stood still.
        let wall = self.opened_at_wall.elapsed().unwrap_or_default();
        WatchLife { timeout: self.timeout, monotonic: self.opened_at.elapsed(), wall }
    }

    /// Waits for the next piece. Returns false if the watch has ended.
    pub(super) fn poll_wait(&mut self, context: &mut Context<'_>) -> Poll<Result<bool, SourceError>> {
        let Some(piece) = ready!(self.stream.poll_next_unpin(context)) else {
            let finished = self.lines.finish();
            return Poll::Ready(finished.map(|()| false).map_err(SourceError::from));
        };
        let piece = piece?;
        // The error that ends a watch is no sign of life of its server.
        self.last_byte_at = Instant::now();
        match piece {
            WatchPiece::Body(bytes) => self.lines.push(bytes),
            WatchPiece::Event(event) => self.event = Some(event),
        }
        Poll::Ready(Ok(true))
    }

    /// Decodes the next event that was received already.
    ///
    /// # Errors
    ///
    /// If it is an error event, not a watch event, or an event whose object cannot be identified: the reflector must receive it again.
    pub(super) fn next(&mut self, decoder: &mut Decoder) -> Result<Option<DecodedEvent>, SourceError> {
        let (event, object) = match self.event.take() {
            Some(SourceEvent::Added(item)) => (EventType::Added, decoder.decode_item(item)),
            Some(SourceEvent::Modified(item)) => (EventType::Modified, decoder.decode_item(item)),
            Some(SourceEvent::Deleted(item)) => (EventType::Deleted, decoder.decode_item(item)),
            Some(SourceEvent::Bookmark { version, ends_initial_events }) => {
                return Ok(Some(DecodedEvent::Bookmark { version, ends_initial_events }));
            }
            None => {
                let line = match self.lines.next()? {
                    None => return Ok(None),
                    Some(CutPart::Outline(outline)) => {
                        return decode_line(&outline, |object| Err(decoder.refuse_large(object))).map(Some);
                    }
                    Some(CutPart::Whole(line)) => line,
                };
                match fast_path(&line, decoder) {
                    Some(decoded) => decoded,
                    None => return decode_line(&line, |object| decoder.decode_json(object)).map(Some),
                }
            }
        };
        DecodedEvent::of_object(event, object).map(Some)
    }
}

impl DecodedEvent {
    /// Returns true if the event is the addition of an object.
    pub(super) fn is_added(&self) -> bool {
        matches!(self, Self::Delta(Delta::Added(_)) | Self::Undecodable { event: EventType::Added, .. })
    }

    fn of_object(event: EventType, object: DecodeResult) -> Result<Self, SourceError> {
        let object = match object {
            Ok(object) => object,
            Err(object) => {
                let damaged = SourceError::Damaged { source: Arc::clone(&object.error) };
                return match object.damage() {
                    Damage::None => Ok(Self::Undecodable { event, object }),
                    Damage::Transient => Err(damaged),
                    Damage::Lasting => Ok(Self::Unclear(damaged)),
                };
            }
        };
        Ok(Self::Delta(match event {
            EventType::Added => Delta::Added(object),
            EventType::Deleted => Delta::Deleted(Deleted::Observed(object)),
            // Events of the last three types are decoded without an object.
            EventType::Modified | EventType::Bookmark | EventType::Error | EventType::Unknown(_) => {
                Delta::Updated(object)
            }
        }))
    }
}

/// Decodes a line with the field order that API servers use, in one pass; `None` for any other line.
fn fast_path(line: &[u8], decoder: &mut Decoder) -> Option<(EventType, DecodeResult)> {
    let types: [(&[u8], EventType); 3] = [
        (br#"MODIFIED","object":"#, EventType::Modified),
        (br#"ADDED","object":"#, EventType::Added),
        (br#"DELETED","object":"#, EventType::Deleted),
    ];
    let rest = line.strip_prefix(br#"{"type":""#)?;
    let (object, event) = types.into_iter().find_map(|(prefix, event)| Some((rest.strip_prefix(prefix)?, event)))?;
    let (object, _) = decoder.decode_first(object, |rest| rest.trim_ascii() == b"}")?;
    Some((event, object))
}

/// Decodes any line, its object by `decode`.
fn decode_line(line: &[u8], decode: impl FnOnce(&[u8]) -> DecodeResult) -> Result<DecodedEvent, SourceError> {
    let event = match WatchEvent::read(line) {
        Ok(event) => event,
        // Some proxies and older servers send a `Status` that is not wrapped in an event.
        Err(error) => return Err(read_status(line).map_or(error.into(), SourceError::from)),
    };
    match event.kind {
        EventType::Added | EventType::Modified | EventType::Deleted => {
            DecodedEvent::of_object(event.kind, decode(event.object))
        }
        EventType::Bookmark => {
            let (version, ends_initial_events) = read_bookmark(event.object);
            Ok(DecodedEvent::Bookmark { version, ends_initial_events })
        }
        EventType::Error => Err(read_status(event.object).map_or(SourceError::UnreadableError, SourceError::from)),
        EventType::Unknown(event) => Ok(DecodedEvent::Unclear(SourceError::UnknownEvent { event })),
    }
}

/// Parses a `Status`; `None` for any other JSON.
fn read_status(json: &[u8]) -> Option<Status> {
    let status: Value = serde_json::from_slice(json).ok()?;
    (status["kind"] == "Status").then(|| serde_json::from_value(status).ok()).flatten()
}

/// Parses the version of an object, and whether it ends the initial events of a streamed list.
fn read_bookmark(json: &[u8]) -> (ResourceVersion, bool) {
    let object: Value = serde_json::from_slice(json).unwrap_or_default();
    let metadata = &object["metadata"];
    let ends_initial_events = metadata["annotations"]["k8s.io/initial-events-end"] == "true";
    (metadata["resourceVersion"].as_str().unwrap_or_default().into(), ends_initial_events)
}

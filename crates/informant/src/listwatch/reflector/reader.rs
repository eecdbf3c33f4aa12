//! Reads the events of a watch and decodes their objects.
//!
//! - **In:** the pieces of a watch.
//! - **Out:** one decoded event after the other.
//! - **Knows nothing of:** versions, and what the reflector does with an event.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::StreamExt;
use kube::core::Status;
use serde::Deserialize;
use tokio::time::Instant;

use super::super::{
    Item, SourceError, SourceEvent, WatchPiece, WatchStream,
    decoder::{DecodeResult, Decoder, Known},
    frames::{EventType, LineCutter, WatchEvent},
};
use crate::{ResourceVersion, object::Erased};

/// Reads the events of one open watch.
pub(super) struct EventReader {
    stream: WatchStream<Erased>,
    /// The received bytes, if the source delivers bytes.
    lines: LineCutter,
    /// The last received event, if the source delivers events.
    ready: Option<SourceEvent<Erased>>,
    /// The timeout that the watch was requested with.
    pub(super) timeout: Duration,
    /// When the last piece arrived.
    pub(super) last_byte_at: Instant,
}

impl DecodedEvent {
    /// Fails for an event whose object cannot be identified: the reflector must receive it again.
    fn require_identified(self) -> Result<Self, SourceError> {
        match &self {
            Self::Added(Err(bad)) | Self::Modified(Err(bad)) | Self::Deleted(Err(bad)) if bad.may_be_any() => {
                Err(SourceError::Damaged { source: Arc::clone(&bad.error) })
            }
            Self::Added(_) | Self::Modified(_) | Self::Deleted(_) | Self::Bookmark { .. } | Self::Unknown { .. } => {
                Ok(self)
            }
        }
    }
}

/// A received event that is not decoded.
pub(super) enum Incoming {
    Line(Bytes),
    Event(SourceEvent<Erased>),
}

/// An event with its decoded object.
pub(super) enum DecodedEvent {
    Added(DecodeResult),
    Modified(DecodeResult),
    Deleted(DecodeResult),
    Bookmark {
        version: ResourceVersion,
        ends_initial_events: bool,
    },
    /// An event of an unknown type. Only its version is used.
    Unknown {
        kind: String,
        version: ResourceVersion,
    },
}

impl EventReader {
    pub(super) fn new(stream: WatchStream<Erased>, timeout: Duration, limit: usize) -> Self {
        Self { stream, lines: LineCutter::with_limit(limit), ready: None, timeout, last_byte_at: Instant::now() }
    }

    /// Returns the next event that was received already.
    pub(super) fn next_here(&mut self) -> Result<Option<Incoming>, SourceError> {
        if let Some(event) = self.ready.take() {
            return Ok(Some(Incoming::Event(event)));
        }
        Ok(self.lines.next()?.map(Incoming::Line))
    }

    /// Waits for the next piece. Returns false if the watch has ended.
    ///
    /// Cancel safe.
    pub(super) async fn wait(&mut self) -> Result<bool, SourceError> {
        let Some(piece) = self.stream.next().await else {
            std::mem::take(&mut self.lines).finish()?;
            return Ok(false);
        };
        self.last_byte_at = Instant::now();
        match piece? {
            WatchPiece::Body(bytes) => self.lines.push(bytes),
            WatchPiece::Event(event) => self.ready = Some(event),
        }
        Ok(true)
    }
}

impl Incoming {
    /// Decodes the event.
    ///
    /// # Errors
    ///
    /// If it is an error event, not a watch event, or an event whose object cannot be identified.
    pub(super) fn decode(self, decoder: &mut Decoder, known: Known<'_>) -> Result<DecodedEvent, SourceError> {
        self.read(decoder, known)?.require_identified()
    }

    fn read(self, decoder: &mut Decoder, known: Known<'_>) -> Result<DecodedEvent, SourceError> {
        let line = match self {
            Self::Event(event) => return Ok(from_source(event, decoder, known)),
            Self::Line(line) => line,
        };
        if let Some(event) = fast_path(&line, decoder, known) {
            return Ok(event);
        }
        let event = match WatchEvent::read(&line) {
            Ok(event) => event,
            // Some proxies and older servers send a `Status` that is not wrapped in an event.
            Err(error) => return Err(read_status(&line).map_or(error.into(), SourceError::from)),
        };
        Ok(match event.kind {
            EventType::Added => DecodedEvent::Added(decoder.decode_json(event.object, known)),
            EventType::Modified => DecodedEvent::Modified(decoder.decode_json(event.object, known)),
            EventType::Deleted => DecodedEvent::Deleted(decoder.decode_json(event.object, known)),
            EventType::Bookmark => {
                let metadata = read_metadata(event.object);
                let mark = metadata.annotations.and_then(|annotations| annotations.initial_events_end);
                DecodedEvent::Bookmark {
                    version: metadata.resource_version.unwrap_or_default().as_str().into(),
                    ends_initial_events: mark.as_deref() == Some("true"),
                }
            }
            EventType::Error => {
                return Err(read_status(event.object).map_or(SourceError::UnreadableError, SourceError::from));
            }
            EventType::Unknown(kind) => {
                let version = read_metadata(event.object).resource_version.unwrap_or_default();
                DecodedEvent::Unknown { kind, version: version.as_str().into() }
            }
        })
    }
}

/// Decodes a line with the field order that API servers use, in one pass; `None` for any other line.
fn fast_path(line: &[u8], decoder: &mut Decoder, known: Known<'_>) -> Option<DecodedEvent> {
    type Wrap = fn(DecodeResult) -> DecodedEvent;
    let types: [(&[u8], Wrap); 3] = [
        (br#"MODIFIED","object":"#, DecodedEvent::Modified),
        (br#"ADDED","object":"#, DecodedEvent::Added),
        (br#"DELETED","object":"#, DecodedEvent::Deleted),
    ];
    let rest = line.strip_prefix(br#"{"type":""#)?;
    let (object, wrap) = types.iter().find_map(|(prefix, wrap)| Some((rest.strip_prefix(*prefix)?, wrap)))?;
    decoder.decode_first_before(object, known, |rest| rest.trim_ascii() == b"}").map(|(taken, _)| wrap(taken))
}

fn from_source(event: SourceEvent<Erased>, decoder: &mut Decoder, known: Known<'_>) -> DecodedEvent {
    let mut decode = |item: Item<Erased>| decoder.decode_item(item, known);
    match event {
        SourceEvent::Added(item) => DecodedEvent::Added(decode(item)),
        SourceEvent::Modified(item) => DecodedEvent::Modified(decode(item)),
        SourceEvent::Deleted(item) => DecodedEvent::Deleted(decode(item)),
        SourceEvent::Bookmark { version, ends_initial_events } => {
            DecodedEvent::Bookmark { version, ends_initial_events }
        }
    }
}

/// Parses a `Status`; `None` for any other JSON.
fn read_status(json: &[u8]) -> Option<Status> {
    #[derive(Deserialize)]
    struct Kind {
        kind: String,
    }
    let is_status = serde_json::from_slice::<Kind>(json).is_ok_and(|object| object.kind == "Status");
    is_status.then(|| serde_json::from_slice(json).ok()).flatten()
}

#[derive(Default, Deserialize)]
struct Versioned {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    resource_version: Option<String>,
    annotations: Option<Annotations>,
}

#[derive(Deserialize)]
struct Annotations {
    #[serde(rename = "k8s.io/initial-events-end")]
    initial_events_end: Option<String>,
}

/// Parses the metadata of an object; empty if it is invalid.
fn read_metadata(json: &[u8]) -> Metadata {
    serde_json::from_slice::<Versioned>(json).unwrap_or_default().metadata
}

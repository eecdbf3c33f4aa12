//! A watch as events: from pieces to what they say.
//!
//! - **In:** the pieces of a watch.
//! - **Out:** one event after the other, its object taken in.
//! - **Knows nothing of:** what an event means for the version, or for what comes next.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use kube::core::Status;
use serde::Deserialize;
use tokio::time::Instant;

use super::super::Item;
use super::super::SourceError;
use super::super::SourceEvent;
use super::super::WatchPiece;
use super::super::WatchStream;
use super::super::decoder::DecodeResult;
use super::super::decoder::Decoder;
use super::super::decoder::Known;
use super::super::frames::EventType;
use super::super::frames::LineCutter;
use super::super::frames::WatchEvent;
use crate::ResourceVersion;
use crate::object::Erased;

/// A watch that was opened.
pub(super) struct EventReader {
    stream: WatchStream<Erased>,
    lines: LineCutter,
    ready: Option<SourceEvent<Erased>>,
    /// How long it was asked to last.
    pub(super) timeout: Duration,
    /// When something came last.
    pub(super) last_byte_at: Instant,
}

impl DecodedEvent {
    /// An event of an object that cannot be told must come once more.
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

/// An event on its way: not yet looked at.
pub(super) enum Incoming {
    Line(Bytes),
    Event(SourceEvent<Erased>),
}

/// What an event says.
pub(super) enum DecodedEvent {
    Added(DecodeResult),
    Modified(DecodeResult),
    Deleted(DecodeResult),
    Bookmark {
        version: ResourceVersion,
        ends_initial_events: bool,
    },
    /// A type that this library does not know; its version counts.
    Unknown {
        kind: String,
        version: ResourceVersion,
    },
}

impl EventReader {
    pub(super) fn new(stream: WatchStream<Erased>, timeout: Duration, limit: usize) -> Self {
        Self { stream, lines: LineCutter::with_limit(limit), ready: None, timeout, last_byte_at: Instant::now() }
    }

    /// The next event that has come already.
    pub(super) fn next_here(&mut self) -> Result<Option<Incoming>, SourceError> {
        if let Some(event) = self.ready.take() {
            return Ok(Some(Incoming::Event(event)));
        }
        Ok(self.lines.next()?.map(Incoming::Line))
    }

    /// Waits until more has come; says whether the watch goes on.
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
    /// What it says.
    ///
    /// # Errors
    ///
    /// If it says that something failed, or makes no sense.
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
            // Some proxies and older servers answer a watch with the bare status.
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

/// A line as servers write it, read in one pass; `None` if it is anything else.
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

/// A status, if it is one.
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

/// As much of the metadata as can be read.
fn read_metadata(json: &[u8]) -> Metadata {
    serde_json::from_slice::<Versioned>(json).unwrap_or_default().metadata
}

//! What faults do to the bytes of an answer, without the stream: pieces in, pieces out.
//!
//! The pieces of a watch are whole lines until the last stages, which pack and split them.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use serde_json::json;

use crate::error::ApiError;
use crate::faults::After;
use crate::faults::Ending;
use crate::faults::Fault;

/// Something that happens on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Data(Bytes),
    /// What was sent so far travels before what follows.
    Flush,
    Stop(Stop),
}

/// How it ends before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Close,
    Reset,
    Silence,
}

impl From<Ending> for Stop {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Close => Self::Close,
            Ending::Reset => Self::Reset,
        }
    }
}

/// What a body consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Lines: a watch.
    Lines,
    /// One JSON document: everything else.
    Document,
}

/// The line of an ERROR event.
pub(crate) fn error_line(error: &ApiError) -> Bytes {
    format!("{}\n", json!({"type": "ERROR", "object": error.status()})).into()
}

/// All that happens to the bytes of one answer.
#[derive(Default)]
pub(crate) struct Wire {
    stages: Vec<Stage>,
}

enum Stage {
    ErrorEvent { after: usize, line: Bytes },
    Rewrite { rewrite: Rewrite, shape: Shape, held: Vec<u8> },
    Garbage { shape: Shape },
    HoldBack { last: Option<Bytes> },
    CutEvents { left: usize, stop: Stop },
    CutBytes { left: usize, stop: Stop },
    CutHalfLine { left: usize, stop: Stop },
    Gzip,
    Pack { lines: usize, held: Vec<Bytes> },
    Split { pieces: usize },
    ByteByByte,
}

enum Rewrite {
    WrongKind,
    BadItem { field: String, done: bool },
}

const HTML: &str = "<html><body><h1>502 Bad Gateway</h1></body></html>\n";

impl Wire {
    /// What these faults do to a body of this shape.
    pub(crate) fn new(faults: &[Fault], shape: Shape) -> Self {
        let mut stages = faults.iter().filter_map(|fault| Stage::of(fault, shape)).collect::<Vec<_>>();
        stages.sort_by_key(Stage::order);
        Self { stages }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    pub(crate) fn is_zipped(&self) -> bool {
        self.stages.iter().any(|stage| matches!(stage, Stage::Gzip))
    }

    pub(crate) fn is_garbage(&self) -> bool {
        self.stages.iter().any(|stage| matches!(stage, Stage::Garbage { shape: Shape::Document }))
    }

    /// What comes before anything else.
    pub(crate) fn start(&mut self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for stage in &mut self.stages {
            let mut out = Vec::new();
            stage.start(&mut out);
            pieces = stage.pass(pieces);
            out.append(&mut pieces);
            pieces = out;
        }
        pieces
    }

    pub(crate) fn feed(&mut self, data: Bytes) -> Vec<Piece> {
        self.stages.iter_mut().fold(vec![Piece::Data(data)], |pieces, stage| stage.pass(pieces))
    }

    /// What is held back for company goes out if none is coming.
    pub(crate) fn idle(&mut self) -> Vec<Piece> {
        self.drain(Stage::idle)
    }

    pub(crate) fn finish(&mut self) -> Vec<Piece> {
        self.drain(Stage::finish)
    }

    fn drain(&mut self, release: fn(&mut Stage, &mut Vec<Piece>)) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for stage in &mut self.stages {
            pieces = stage.pass(pieces);
            release(stage, &mut pieces);
        }
        pieces
    }
}

impl Stage {
    fn of(fault: &Fault, shape: Shape) -> Option<Self> {
        let rewrite = |rewrite| Some(Self::Rewrite { rewrite, shape, held: Vec::new() });
        match fault {
            Fault::ErrorEvent { code, after } if shape == Shape::Lines => {
                let message = format!("an error with code {code}, on command");
                let error = ApiError::Ordered { code: *code, message, retry_after: None };
                Some(Self::ErrorEvent { after: *after, line: error_line(&error) })
            }
            Fault::WrongKind => rewrite(Rewrite::WrongKind),
            Fault::BadItem { field } => rewrite(Rewrite::BadItem { field: field.clone(), done: false }),
            Fault::Garbage => Some(Self::Garbage { shape }),
            Fault::Truncate if shape == Shape::Lines => Some(Self::CutHalfLine { left: 0, stop: Stop::Close }),
            Fault::Truncate => Some(Self::HoldBack { last: None }),
            Fault::Cut { after, ending } => {
                let stop = Stop::from(*ending);
                Some(match *after {
                    After::Events(left) => Self::CutEvents { left, stop },
                    After::Bytes(left) => Self::CutBytes { left, stop },
                    After::HalfLine(left) => Self::CutHalfLine { left, stop },
                })
            }
            Fault::Freeze { after } => Some(Self::CutEvents { left: *after, stop: Stop::Silence }),
            Fault::Gzip(_) if shape == Shape::Lines => Some(Self::Gzip),
            Fault::Pack { lines } => Some(Self::Pack { lines: (*lines).max(1), held: Vec::new() }),
            Fault::Split { pieces } => Some(Self::Split { pieces: (*pieces).max(1) }),
            Fault::ByteByByte => Some(Self::ByteByByte),
            Fault::ErrorEvent { .. }
            | Fault::Gzip(_)
            | Fault::Refuse
            | Fault::Hang
            | Fault::Delay(_)
            | Fault::Status { .. }
            | Fault::NoBookmarks
            | Fault::WatchListRefused
            | Fault::WatchListFails
            | Fault::WatchListNeverEnds
            | Fault::ExpireToken
            | Fault::Stale { .. } => None,
        }
    }

    /// Content first, then cuts, then how it is packed.
    fn order(&self) -> u8 {
        match self {
            Self::Rewrite { .. } => 0,
            Self::ErrorEvent { .. } | Self::Garbage { .. } => 1,
            Self::HoldBack { .. } | Self::CutEvents { .. } | Self::CutBytes { .. } | Self::CutHalfLine { .. } => 2,
            Self::Gzip => 3,
            Self::Pack { .. } => 4,
            Self::Split { .. } => 5,
            Self::ByteByByte => 6,
        }
    }

    fn pass(&mut self, pieces: Vec<Piece>) -> Vec<Piece> {
        let mut out = Vec::with_capacity(pieces.len());
        for piece in pieces {
            match piece {
                Piece::Data(data) => self.feed(data, &mut out),
                Piece::Flush => out.push(Piece::Flush),
                Piece::Stop(stop) => {
                    self.idle(&mut out);
                    out.push(Piece::Stop(stop));
                }
            }
        }
        out
    }

    fn start(&mut self, out: &mut Vec<Piece>) {
        match self {
            Self::ErrorEvent { after: 0, line } => {
                out.extend([Piece::Data(line.clone()), Piece::Stop(Stop::Close)]);
            }
            Self::Garbage { .. } => out.push(Piece::Data(Bytes::from_static(HTML.as_bytes()))),
            Self::CutEvents { left: 0, stop } | Self::CutBytes { left: 0, stop } => out.push(Piece::Stop(*stop)),
            Self::ErrorEvent { .. }
            | Self::Rewrite { .. }
            | Self::HoldBack { .. }
            | Self::CutEvents { .. }
            | Self::CutBytes { .. }
            | Self::CutHalfLine { .. }
            | Self::Gzip
            | Self::Pack { .. }
            | Self::Split { .. }
            | Self::ByteByByte => {}
        }
    }

    fn feed(&mut self, data: Bytes, out: &mut Vec<Piece>) {
        match self {
            Self::ErrorEvent { after, line } => {
                out.push(Piece::Data(data));
                *after = after.saturating_sub(1);
                if *after == 0 {
                    out.extend([Piece::Data(line.clone()), Piece::Stop(Stop::Close)]);
                }
            }
            Self::Rewrite { rewrite, shape: Shape::Lines, .. } => out.push(Piece::Data(rewrite.line(data))),
            Self::Rewrite { shape: Shape::Document, held, .. } => held.extend_from_slice(&data),
            Self::Garbage { shape: Shape::Lines } => out.push(Piece::Data(data)),
            Self::Garbage { shape: Shape::Document } => {}
            Self::HoldBack { last } => out.extend(last.replace(data).map(Piece::Data)),
            Self::CutEvents { left, stop } => {
                out.push(Piece::Data(data));
                *left = left.saturating_sub(1);
                if *left == 0 {
                    out.push(Piece::Stop(*stop));
                }
            }
            Self::CutBytes { left, stop } => {
                let taken = data.len().min(*left);
                out.push(Piece::Data(data.slice(..taken)));
                *left -= taken;
                if *left == 0 {
                    out.push(Piece::Stop(*stop));
                }
            }
            Self::CutHalfLine { left: 0, stop } => {
                out.extend([Piece::Data(data.slice(..data.len() / 2)), Piece::Stop(*stop)]);
            }
            Self::CutHalfLine { left, .. } => {
                *left -= 1;
                out.push(Piece::Data(data));
            }
            Self::Gzip => out.push(Piece::Data(gzip(&data))),
            Self::Pack { lines, held } => {
                held.push(data);
                if held.len() == *lines {
                    out.push(Piece::Data(held.concat().into()));
                    held.clear();
                }
            }
            Self::Split { pieces } => {
                let size = data.len().div_ceil(*pieces).max(1);
                in_parts(&data, size, out);
            }
            Self::ByteByByte => in_parts(&data, 1, out),
        }
    }

    fn idle(&mut self, out: &mut Vec<Piece>) {
        match self {
            Self::Pack { held, .. } if !held.is_empty() => {
                out.push(Piece::Data(held.concat().into()));
                held.clear();
            }
            Self::Pack { .. }
            | Self::ErrorEvent { .. }
            | Self::Rewrite { .. }
            | Self::Garbage { .. }
            | Self::HoldBack { .. }
            | Self::CutEvents { .. }
            | Self::CutBytes { .. }
            | Self::CutHalfLine { .. }
            | Self::Gzip
            | Self::Split { .. }
            | Self::ByteByByte => {}
        }
    }

    fn finish(&mut self, out: &mut Vec<Piece>) {
        match self {
            Self::Rewrite { rewrite, shape: Shape::Document, held } => {
                out.push(Piece::Data(rewrite.document(&std::mem::take(held))));
            }
            Self::HoldBack { last } => {
                out.extend(last.take().map(|last| Piece::Data(last.slice(..last.len() / 2))));
            }
            Self::Pack { .. } => self.idle(out),
            Self::Rewrite { .. }
            | Self::ErrorEvent { .. }
            | Self::Garbage { .. }
            | Self::CutEvents { .. }
            | Self::CutBytes { .. }
            | Self::CutHalfLine { .. }
            | Self::Gzip
            | Self::Split { .. }
            | Self::ByteByByte => {}
        }
    }
}

fn in_parts(data: &Bytes, size: usize, out: &mut Vec<Piece>) {
    for begin in (0..data.len()).step_by(size) {
        out.push(Piece::Data(data.slice(begin..data.len().min(begin + size))));
        out.push(Piece::Flush);
    }
}

fn gzip(data: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory does not fail; if it did, the client would find out.
    encoder.write_all(data).and_then(|()| encoder.finish()).unwrap_or_default().into()
}

impl Rewrite {
    fn line(&mut self, line: Bytes) -> Bytes {
        let Ok(mut event) = serde_json::from_slice::<Value>(&line) else { return line };
        // Bookmarks and errors are no objects.
        if !matches!(event["type"].as_str(), Some("ADDED" | "MODIFIED" | "DELETED")) {
            return line;
        }
        self.object(&mut event["object"]);
        format!("{event}\n").into()
    }

    fn document(&mut self, document: &[u8]) -> Bytes {
        let Ok(mut document) = serde_json::from_slice::<Value>(document) else { return document.to_vec().into() };
        match document.get_mut("items").and_then(Value::as_array_mut) {
            None => self.object(&mut document),
            Some(items) => {
                items.iter_mut().for_each(|item| self.object(item));
                if let Self::WrongKind = self {
                    document["kind"] = json!("WrongList");
                    document["apiVersion"] = json!("example.com/v1");
                }
            }
        }
        document.to_string().into()
    }

    fn object(&mut self, object: &mut Value) {
        match self {
            Self::WrongKind => {
                object["kind"] = json!("Wrong");
                object["apiVersion"] = json!("example.com/v1");
            }
            Self::BadItem { done: true, .. } => {}
            Self::BadItem { field, done } => {
                let path = field.split('.').collect::<Vec<_>>();
                let (last, way) = path.split_last().unwrap_or((&"", &[]));
                let place = way.iter().try_fold(&mut *object, |value, part| value.get_mut(*part));
                if let Some(Value::Object(fields)) = place {
                    fields.insert((*last).into(), Value::Bool(false));
                }
                *done = true;
            }
        }
    }
}

//! The effects of faults on the bytes of a response, without the stream.
//!
//! - **In:** the pieces of a body. Those of a watch are whole lines.
//! - **Out:** the pieces to send. Each fault is a stage; the last stages compress, pack and split the lines.

mod content;
mod cuts;
mod packing;

use bytes::Bytes;

use crate::{
    error::ApiError,
    faults::{
        CutAfter, CutEnding, Fault,
        wire::{
            content::{Garbage, Insert, Rewrite, Rewriter},
            cuts::{CutBytes, CutEvents, CutHalfLine, Truncate},
            packing::{Pack, Split, Zip},
        },
    },
    watch::error_line,
};

/// One step of sending a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Data(Bytes),
    /// Sends the data so far before the next piece.
    Flush,
    /// Ends the body.
    Stop(CutEnding),
}

/// The structure of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Lines: a watch.
    Lines,
    /// One JSON document: everything else.
    Document,
}

/// The effect of one fault on the pieces of a body.
trait Stage: Send {
    /// Adds pieces before the first one.
    fn start(&mut self, _out: &mut Vec<Piece>) {}

    /// Handles a piece.
    fn feed(&mut self, data: Bytes, out: &mut Vec<Piece>);

    /// Releases held pieces, because the next one is not ready.
    fn idle(&mut self, _out: &mut Vec<Piece>) {}

    /// Releases held pieces at the end of the body.
    fn finish(&mut self, out: &mut Vec<Piece>) {
        self.idle(out);
    }
}

/// The stages of one response.
#[derive(Default)]
pub(crate) struct Wire {
    stages: Vec<Box<dyn Stage>>,
}

impl Wire {
    /// Creates the stages of these faults for a body of this shape.
    pub(crate) fn new(faults: &[Fault], shape: Shape) -> Self {
        let mut stages = faults.iter().filter_map(|fault| stage(fault, shape)).collect::<Vec<_>>();
        stages.sort_by_key(|(order, _)| *order);
        Self { stages: stages.into_iter().map(|(_, stage)| stage).collect() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    pub(crate) fn start(&mut self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for stage in &mut self.stages {
            let mut out = Vec::new();
            stage.start(&mut out);
            out.append(&mut pass(&mut **stage, pieces));
            pieces = out;
        }
        pieces
    }

    pub(crate) fn feed(&mut self, data: Bytes) -> Vec<Piece> {
        self.stages.iter_mut().fold(vec![Piece::Data(data)], |pieces, stage| pass(&mut **stage, pieces))
    }

    pub(crate) fn idle(&mut self) -> Vec<Piece> {
        self.drain(|stage, out| stage.idle(out))
    }

    pub(crate) fn finish(&mut self) -> Vec<Piece> {
        self.drain(|stage, out| stage.finish(out))
    }

    fn drain(&mut self, release: fn(&mut dyn Stage, &mut Vec<Piece>)) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for stage in &mut self.stages {
            pieces = pass(&mut **stage, pieces);
            release(&mut **stage, &mut pieces);
        }
        pieces
    }
}

fn pass(stage: &mut dyn Stage, pieces: Vec<Piece>) -> Vec<Piece> {
    let mut out = Vec::with_capacity(pieces.len());
    for piece in pieces {
        match piece {
            Piece::Data(data) => stage.feed(data, &mut out),
            Piece::Flush => out.push(Piece::Flush),
            Piece::Stop(ending) => {
                stage.idle(&mut out);
                out.push(Piece::Stop(ending));
            }
        }
    }
    out
}

/// The order of the stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    Content,
    Insertion,
    CutOfLines,
    Compression,
    CutOfBytes,
    Packing,
    Splitting,
}

/// The stage of a fault; `None` if the fault does not change the bytes.
fn stage(fault: &Fault, shape: Shape) -> Option<(Order, Box<dyn Stage>)> {
    let rewrite = |rewriter| Box::new(Rewrite::new(rewriter, shape));
    Some(match fault {
        // The response of a failed watch has no lines.
        Fault::ErrorEvent { .. } | Fault::ExtraLine { .. } if shape == Shape::Document => return None,
        Fault::WrongKind => (Order::Content, rewrite(Rewriter::WrongKind)),
        Fault::BadItem { field } => (Order::Content, rewrite(Rewriter::BadItem { field: field.clone(), done: false })),
        Fault::Garbage => (Order::Insertion, Box::new(Garbage { shape })),
        Fault::ErrorEvent { code, after } => {
            let line = error_line(&ApiError::injected(*code, None));
            (Order::Insertion, Box::new(Insert { after: *after, line, then: Some(CutEnding::Close) }))
        }
        Fault::ExtraLine { after, text } => {
            (Order::Insertion, Box::new(Insert { after: *after, line: text.clone().into(), then: None }))
        }
        Fault::Truncate => match shape {
            Shape::Lines => (Order::CutOfLines, Box::new(CutHalfLine { left: 0, ending: CutEnding::Close })),
            Shape::Document => (Order::CutOfLines, Box::new(Truncate::default())),
        },
        Fault::Cut { after, ending } => {
            let ending = *ending;
            match *after {
                CutAfter::Events(left) => (Order::CutOfLines, Box::new(CutEvents { left, ending })),
                CutAfter::HalfLine(left) => (Order::CutOfLines, Box::new(CutHalfLine { left, ending })),
                CutAfter::Bytes(left) => (Order::CutOfBytes, Box::new(CutBytes { left, ending })),
            }
        }
        Fault::Gzip(_) => (Order::Compression, Box::new(Zip)),
        Fault::Pack { lines } => (Order::Packing, Box::new(Pack::new(*lines))),
        Fault::Split { pieces } => (Order::Splitting, Box::new(Split::InParts((*pieces).max(1)))),
        Fault::ByteByByte => (Order::Splitting, Box::new(Split::InBytes)),
        Fault::Refuse
        | Fault::Drop
        | Fault::LoseResponse
        | Fault::Hang
        | Fault::Delay(_)
        | Fault::Status { .. }
        | Fault::Response(_)
        | Fault::NoBookmarks
        | Fault::WatchListRefused
        | Fault::WatchListFails
        | Fault::WatchListNeverEnds
        | Fault::ExpireToken
        | Fault::Stale { .. } => return None,
    })
}

//! Stages that change how the bytes are sent, but not the content.

use std::io::Write;

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};

use crate::faults::wire::{Piece, Stage};

/// Compresses each piece as a separate gzip member.
pub(super) struct Zip;

impl Stage for Zip {
    fn feed(&mut self, data: Bytes, out: &mut Vec<Piece>) {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        // Writing to memory does not fail.
        let zipped = encoder.write_all(&data).and_then(|()| encoder.finish()).unwrap_or_default();
        out.push(Piece::Data(zipped.into()));
    }
}

/// Sends lines together that are ready at the same time.
pub(super) struct Pack {
    lines: usize,
    held: Vec<Bytes>,
}

impl Pack {
    pub(super) fn new(lines: usize) -> Self {
        Self { lines: lines.max(1), held: Vec::new() }
    }
}

impl Stage for Pack {
    fn feed(&mut self, data: Bytes, out: &mut Vec<Piece>) {
        self.held.push(data);
        if self.held.len() == self.lines {
            self.idle(out);
        }
    }

    fn idle(&mut self, out: &mut Vec<Piece>) {
        if !self.held.is_empty() {
            out.push(Piece::Data(self.held.concat().into()));
            self.held.clear();
        }
    }
}

/// Sends each piece in smaller ones.
pub(super) enum Split {
    InParts(usize),
    InBytes,
}

impl Stage for Split {
    fn feed(&mut self, data: Bytes, out: &mut Vec<Piece>) {
        let size = match self {
            Self::InParts(parts) => data.len().div_ceil(*parts).max(1),
            Self::InBytes => 1,
        };
        for begin in (0..data.len()).step_by(size) {
            out.push(Piece::Data(data.slice(begin..data.len().min(begin + size))));
            out.push(Piece::Flush);
        }
    }
}

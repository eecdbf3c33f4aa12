//! Stages that end a response early.

use bytes::Bytes;

use crate::faults::{
    CutEnding,
    wire::{Piece, Stage},
};

/// Cuts after a number of lines, or of chunks of a document.
pub(super) struct CutEvents {
    pub(super) left: usize,
    pub(super) ending: CutEnding,
}

impl Stage for CutEvents {
    fn start(&mut self, out: &mut Vec<Piece>) {
        if self.left == 0 {
            out.push(Piece::Stop(self.ending));
        }
    }

    fn feed(&mut self, data: Bytes, out: &mut Vec<Piece>) {
        out.push(Piece::Data(data));
        self.left = self.left.saturating_sub(1);
        self.start(out);
    }
}

/// Cuts after a number of bytes.
pub(super) struct CutBytes {
    pub(super) left: usize,
    pub(super) ending: CutEnding,
}

impl Stage for CutBytes {
    fn start(&mut self, out: &mut Vec<Piece>) {
        if self.left == 0 {
            out.push(Piece::Stop(self.ending));
        }
    }

    fn feed(&mut self, data: Bytes, out: &mut Vec<Piece>) {
        let taken = data.len().min(self.left);
        out.push(Piece::Data(data.slice(..taken)));
        self.left -= taken;
        self.start(out);
    }
}

/// Cuts in the middle of the line that follows a number of lines.
pub(super) struct CutHalfLine {
    pub(super) left: usize,
    pub(super) ending: CutEnding,
}

impl Stage for CutHalfLine {
    fn feed(&mut self, data: Bytes, out: &mut Vec<Piece>) {
        if self.left == 0 {
            out.extend([Piece::Data(data.slice(..data.len() / 2)), Piece::Stop(self.ending)]);
        } else {
            self.left -= 1;
            out.push(Piece::Data(data));
        }
    }
}

/// Removes the second half of the last chunk of a document.
#[derive(Default)]
pub(super) struct Truncate {
    last: Option<Bytes>,
}

impl Stage for Truncate {
    fn feed(&mut self, data: Bytes, out: &mut Vec<Piece>) {
        out.extend(self.last.replace(data).map(Piece::Data));
    }

    fn finish(&mut self, out: &mut Vec<Piece>) {
        out.extend(self.last.take().map(|last| Piece::Data(last.slice(..last.len() / 2))));
    }
}

//! The bytes of a body that have been received and not been cut.
//!
//! - **In:** chunks of the body.
//! - **Out:** cut parts: slices of a chunk, or copies if a part spans two chunks; of a part above the limit, only its outline.
//! - **Knows nothing of:** where a part ends.

use bytes::{Buf, Bytes, BytesMut};

use super::{CutPart, FrameError, FramePart};
use crate::object::{IDENTITY, KeptMember, Outline};

/// The received part of a body. It copies only parts that span two chunks. It holds no more of a part than the limit.
#[derive(Debug)]
pub(super) struct BodyBuffer {
    limit: usize,
    /// The part of the newest chunk that has not been cut.
    chunk: Bytes,
    /// The beginning of an incomplete part, which the chunk continues.
    held: BytesMut,
    /// The outline of an incomplete part that is larger than the limit, which the chunk continues.
    large: Option<Outline>,
    /// The position of the current part in the body.
    part_start: u64,
    /// The number of bytes of the body that have been read.
    read: u64,
}

/// The members of a watch event that are kept if it is larger than the limit.
const EVENT: &[KeptMember] = &[KeptMember::whole("type"), KeptMember { name: "object", members: IDENTITY }];

impl BodyBuffer {
    pub(super) fn with_limit(limit: usize) -> Self {
        Self { limit, chunk: Bytes::new(), held: BytesMut::new(), large: None, part_start: 0, read: 0 }
    }

    /// Adds the next chunk. If bytes are left of the last chunk, both are copied.
    pub(super) fn push(&mut self, chunk: Bytes) {
        self.chunk = match self.chunk.is_empty() {
            true => chunk,
            false => [&*self.chunk, &*chunk].concat().into(),
        };
    }

    /// Returns the bytes that have not been read.
    pub(super) fn rest(&self) -> &[u8] {
        &self.chunk
    }

    /// Returns the bytes that have not been read, up to the limit.
    pub(super) fn rest_within_limit(&self) -> &[u8] {
        &self.chunk[..self.chunk.len().min(self.limit)]
    }

    /// Returns the number of bytes that have been read.
    pub(super) fn offset(&self) -> u64 {
        self.read
    }

    /// Reads bytes between parts.
    pub(super) fn skip(&mut self, count: usize) {
        self.chunk.advance(count);
        self.read += count as u64;
    }

    /// Cuts the current part at its end. If it does not end in this chunk, holds its beginning and returns `None`.
    ///
    /// # Errors
    ///
    /// If the part is larger than the limit, and is neither an item nor the line of a watch event.
    pub(super) fn cut(&mut self, end: Option<usize>, part: FramePart) -> Result<Option<CutPart>, FrameError> {
        if self.held.is_empty() && self.large.is_none() {
            self.part_start = self.read;
        }
        let length = end.unwrap_or(self.chunk.len());
        if self.large.is_none() && self.held.len() + length > self.limit {
            let kept = match part {
                FramePart::Item => IDENTITY,
                FramePart::Line => EVENT,
                FramePart::List | FramePart::Field => return Err(self.too_large(part)),
            };
            let mut outline = Outline::new(kept);
            outline.push(&std::mem::take(&mut self.held));
            self.large = Some(outline);
        }
        let cut = self.chunk.split_to(length);
        self.read += length as u64;
        if let Some(outline) = &mut self.large {
            outline.push(&cut);
            // Bytes that are not a watch event may have no end.
            if part == FramePart::Line && outline.is_broken() {
                return Err(self.too_large(part));
            }
            let complete = end.and_then(|_| self.large.take());
            return Ok(complete.map(|outline| CutPart::Outline(outline.into_json().into())));
        }
        if end.is_some() && self.held.is_empty() {
            return Ok(Some(CutPart::Whole(cut)));
        }
        self.held.extend_from_slice(&cut);
        Ok(end.map(|_| CutPart::Whole(self.held.split().freeze())))
    }

    /// Returns the error for the current part, if it is larger than the limit.
    pub(super) fn too_large(&self, part: FramePart) -> FrameError {
        FrameError::TooLarge { part, limit: self.limit, offset: self.part_start }
    }

    /// Returns the error for a body that ends here.
    pub(super) fn truncated(&self, part: FramePart) -> FrameError {
        FrameError::Truncated { length: self.read + self.chunk.len() as u64, part }
    }

    /// Returns true if only white space is left, and no part is incomplete.
    pub(super) fn is_blank(&self) -> bool {
        self.large.is_none() && self.held.iter().chain(&self.chunk).all(u8::is_ascii_whitespace)
    }
}

//! The bytes of a body that have been received and not been cut.
//!
//! - **In:** chunks of the body.
//! - **Out:** cut parts: slices of a chunk, or copies if a part spans two chunks.
//! - **Knows nothing of:** where a part ends.

use bytes::{Buf, Bytes, BytesMut};

use super::{FrameError, FramePart};

/// The received part of a body. It copies only parts that span two chunks, and refuses parts that are larger than the limit.
#[derive(Debug)]
pub(super) struct BodyBuffer {
    limit: usize,
    /// The part of the newest chunk that has not been cut.
    chunk: Bytes,
    /// The beginning of an incomplete part, which the chunk continues.
    held: BytesMut,
    /// The number of bytes of the body that have been read.
    read: u64,
}

impl BodyBuffer {
    pub(super) fn with_limit(limit: usize) -> Self {
        Self { limit, chunk: Bytes::new(), held: BytesMut::new(), read: 0 }
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
    pub(super) fn cut(&mut self, end: Option<usize>, part: FramePart) -> Result<Option<Bytes>, FrameError> {
        let length = end.unwrap_or(self.chunk.len());
        if self.held.len() + length > self.limit {
            let offset = self.read - self.held.len() as u64;
            return Err(FrameError::TooLarge { part, limit: self.limit, offset });
        }
        let cut = self.chunk.split_to(length);
        self.read += length as u64;
        if end.is_some() && self.held.is_empty() {
            return Ok(Some(cut));
        }
        self.held.extend_from_slice(&cut);
        Ok(end.map(|_| self.held.split().freeze()))
    }

    /// Returns the error for a body that ends here.
    pub(super) fn truncated(&self, part: FramePart) -> FrameError {
        FrameError::Truncated { length: self.read + self.chunk.len() as u64, part }
    }

    /// Returns true if only white space is left, and no part is incomplete.
    pub(super) fn is_blank(&self) -> bool {
        self.held.iter().chain(&self.chunk).all(u8::is_ascii_whitespace)
    }
}

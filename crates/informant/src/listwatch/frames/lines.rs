//! Cuts the body of a watch into lines.
//!
//! - **In:** chunks of the body.
//! - **Out:** complete lines.
//! - **Knows nothing of:** the content of a line.

use bytes::{Bytes, BytesMut};

use super::{DEFAULT_LIMIT, FrameError, FramePart};

/// Cuts a body into lines at each line feed.
///
/// ```
/// use bytes::Bytes;
/// use informant::listwatch::frames::LineCutter;
///
/// let mut cutter = LineCutter::new();
/// cutter.push(Bytes::from_static(b"first\nsec"));
/// assert_eq!(cutter.next()?.as_deref(), Some(&b"first"[..]));
/// assert_eq!(cutter.next()?, None);
/// cutter.push(Bytes::from_static(b"ond\n"));
/// assert_eq!(cutter.next()?.as_deref(), Some(&b"second"[..]));
/// cutter.finish()?;
/// # Ok::<(), informant::listwatch::frames::FrameError>(())
/// ```
#[derive(Debug)]
pub struct LineCutter {
    limit: usize,
    /// The part of the newest chunk that has not been read.
    chunk: Bytes,
    /// The beginning of an incomplete line, which the chunk continues.
    held: BytesMut,
    /// The number of bytes before the current line.
    cut: u64,
}

impl LineCutter {
    /// Creates a cutter for lines of up to [`DEFAULT_LIMIT`] bytes.
    pub fn new() -> Self {
        Self::with_limit(DEFAULT_LIMIT)
    }

    /// Creates a cutter for lines of up to `limit` bytes.
    pub fn with_limit(limit: usize) -> Self {
        Self { limit, chunk: Bytes::new(), held: BytesMut::new(), cut: 0 }
    }

    /// Adds the next chunk of the body. Call [`next`](Self::next) until it returns `None` before: otherwise the remaining bytes are copied.
    pub fn push(&mut self, chunk: Bytes) {
        if self.chunk.is_empty() {
            self.chunk = chunk;
        } else {
            self.chunk = [&*self.chunk, &*chunk].concat().into();
        }
    }

    /// Returns the next complete line, without its line feed. Skips blank lines.
    ///
    /// # Errors
    ///
    /// If a line is larger than the limit, even if it is not complete yet.
    #[expect(clippy::should_implement_trait, reason = "more may come after None, and it can fail")]
    pub fn next(&mut self) -> Result<Option<Bytes>, FrameError> {
        loop {
            let end = memchr::memchr(b'\n', &self.chunk);
            let length = self.held.len() + end.unwrap_or(self.chunk.len());
            if length > self.limit {
                return Err(FrameError::TooLarge { part: FramePart::Line, limit: self.limit, offset: self.cut });
            }
            let Some(end) = end else {
                self.held.extend_from_slice(&self.chunk);
                self.chunk.clear();
                return Ok(None);
            };
            let mut line = self.chunk.split_to(end + 1);
            line.truncate(end);
            self.cut += length as u64 + 1;
            if !self.held.is_empty() {
                self.held.extend_from_slice(&line);
                line = self.held.split().freeze();
            }
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Ok(Some(line));
            }
        }
    }

    /// Checks, at the end of the body, that the last line was complete.
    ///
    /// # Errors
    ///
    /// If the body ended in the middle of a line.
    pub fn finish(self) -> Result<(), FrameError> {
        let left = self.held.len() + self.chunk.len();
        let is_blank = self.held.iter().chain(&self.chunk).all(u8::is_ascii_whitespace);
        if is_blank {
            return Ok(());
        }
        Err(FrameError::Truncated { length: self.cut + left as u64, part: FramePart::Line })
    }
}

impl Default for LineCutter {
    fn default() -> Self {
        Self::new()
    }
}

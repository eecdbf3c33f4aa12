//! Cuts the body of a watch into lines.
//!
//! - **In:** chunks of the body.
//! - **Out:** complete lines.
//! - **Knows nothing of:** the content of a line.

use bytes::Bytes;

use super::{DEFAULT_LIMIT, FrameError, FramePart, body_buffer::BodyBuffer};

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
    body: BodyBuffer,
}

impl LineCutter {
    /// Creates a cutter for lines of up to [`DEFAULT_LIMIT`] bytes.
    pub fn new() -> Self {
        Self::with_limit(DEFAULT_LIMIT)
    }

    /// Creates a cutter for lines of up to `limit` bytes.
    pub fn with_limit(limit: usize) -> Self {
        Self { body: BodyBuffer::with_limit(limit) }
    }

    /// Adds the next chunk of the body. Call [`next`](Self::next) until it returns `None` before: otherwise the remaining bytes are copied.
    pub fn push(&mut self, chunk: Bytes) {
        self.body.push(chunk);
    }

    /// Returns the next complete line, without its line feed. Skips blank lines.
    ///
    /// # Errors
    ///
    /// If a line is larger than the limit, even if it is not complete yet.
    #[expect(clippy::should_implement_trait, reason = "more may come after None, and it can fail")]
    pub fn next(&mut self) -> Result<Option<Bytes>, FrameError> {
        loop {
            let end = memchr::memchr(b'\n', self.body.rest());
            let Some(line) = self.body.cut(end, FramePart::Line)? else { return Ok(None) };
            self.body.skip(1);
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
        match self.body.is_blank() {
            true => Ok(()),
            false => Err(self.body.truncated(FramePart::Line)),
        }
    }
}

impl Default for LineCutter {
    fn default() -> Self {
        Self::new()
    }
}

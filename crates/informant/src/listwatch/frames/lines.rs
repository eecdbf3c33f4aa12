//! Cuts a watch into lines.

use bytes::Bytes;
use bytes::BytesMut;

use super::CutError;
use super::DEFAULT_LIMIT;
use super::FramePart;

/// Cuts a stream of bytes at each line feed.
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
/// # Ok::<(), informant::listwatch::frames::CutError>(())
/// ```
#[derive(Debug)]
pub struct LineCutter {
    limit: usize,
    /// What is left of the newest chunk.
    chunk: Bytes,
    /// The beginning of a line whose end has not come yet; the chunk goes on with it.
    held: BytesMut,
    /// How many bytes of the body were cut off.
    cut: u64,
}

impl LineCutter {
    /// Takes lines of up to [`DEFAULT_LIMIT`] bytes.
    pub fn new() -> Self {
        Self::with_limit(DEFAULT_LIMIT)
    }

    /// Takes lines of up to so many bytes.
    pub fn with_limit(limit: usize) -> Self {
        Self { limit, chunk: Bytes::new(), held: BytesMut::new(), cut: 0 }
    }

    /// Takes the next chunk of the body. All lines of the one before should have been taken.
    pub fn push(&mut self, chunk: Bytes) {
        if self.chunk.is_empty() {
            self.chunk = chunk;
        } else {
            self.chunk = [&*self.chunk, &*chunk].concat().into();
        }
    }

    /// The next line that is complete, without its end; empty lines are left out.
    ///
    /// # Errors
    ///
    /// If a line is larger than the limit, also before its end is there.
    #[expect(clippy::should_implement_trait, reason = "more may come after None, and it can fail")]
    pub fn next(&mut self) -> Result<Option<Bytes>, CutError> {
        loop {
            let end = memchr::memchr(b'\n', &self.chunk);
            let length = self.held.len() + end.unwrap_or(self.chunk.len());
            if length > self.limit {
                return Err(CutError::TooLarge { part: FramePart::Line, limit: self.limit, offset: self.cut });
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

    /// The body has ended.
    ///
    /// # Errors
    ///
    /// If that was in the middle of a line.
    pub fn finish(self) -> Result<(), CutError> {
        let left = self.held.len() + self.chunk.len();
        let is_blank = self.held.iter().chain(&self.chunk).all(u8::is_ascii_whitespace);
        if is_blank {
            return Ok(());
        }
        Err(CutError::Truncated { length: self.cut + left as u64, part: FramePart::Line })
    }
}

impl Default for LineCutter {
    fn default() -> Self {
        Self::new()
    }
}

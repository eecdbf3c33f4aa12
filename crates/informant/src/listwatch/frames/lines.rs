//! Cuts the body of a watch into lines.
//!
//! - **In:** chunks of the body.
//! - **Out:** complete lines; of a line above the limit, its outline.
//! - **Knows nothing of:** the content of a line, unless it is above the limit.

use bytes::Bytes;

use super::{
    DEFAULT_LIMIT, FrameError, FramePart, WatchEvent,
    body_buffer::{BodyBuffer, CutPart},
};

/// Cuts a body into lines at each line feed.
///
/// ```
/// use bytes::Bytes;
/// use informant::pipeline::{Line, LineCutter};
///
/// let mut cutter = LineCutter::new();
/// cutter.push(Bytes::from_static(b"first\nsec"));
/// assert_eq!(cutter.next()?, Some(Line::Whole("first".into())));
/// assert_eq!(cutter.next()?, None);
/// cutter.push(Bytes::from_static(b"ond\n"));
/// assert_eq!(cutter.next()?, Some(Line::Whole("second".into())));
/// cutter.finish()?;
/// # Ok::<(), informant::pipeline::FrameError>(())
/// ```
#[derive(Debug)]
pub struct LineCutter {
    body: BodyBuffer,
}

/// A line of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// The line, without its line feed. Its content has not been checked.
    Whole(Bytes),
    /// The outline of a watch event that is larger than the limit: the event with its type, and with the apiVersion, kind, name, namespace,
    /// uid and version of its object.
    Outline(Bytes),
}

impl LineCutter {
    /// Creates a cutter for lines of up to 64 MiB.
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

    /// Returns the next complete line. Skips blank lines.
    ///
    /// # Errors
    ///
    /// If a line is larger than the limit, and is not a watch event.
    #[expect(clippy::should_implement_trait, reason = "more may come after None, and it can fail")]
    pub fn next(&mut self) -> Result<Option<Line>, FrameError> {
        loop {
            let end = memchr::memchr(b'\n', self.body.rest());
            let Some(line) = self.body.cut(end, FramePart::Line)? else { return Ok(None) };
            self.body.skip(1);
            match line {
                CutPart::Whole(line) if line.iter().all(u8::is_ascii_whitespace) => {}
                CutPart::Whole(line) => return Ok(Some(Line::Whole(line))),
                CutPart::Outline(outline) if WatchEvent::read(&outline).is_ok() => {
                    return Ok(Some(Line::Outline(outline)));
                }
                CutPart::Outline(_) => return Err(self.body.too_large(FramePart::Line)),
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

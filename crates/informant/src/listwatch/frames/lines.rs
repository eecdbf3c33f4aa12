//! Cuts the body of a watch into lines.
//!
//! - **In:** chunks of the body.
//! - **Out:** complete lines; of a line above the limit, its outline.
//! - **Knows nothing of:** the content of a line, unless it is above the limit.

use bytes::Bytes;

use super::{FrameError, FramePart, WatchEvent, body_buffer::BodyBuffer};

/// Cuts a body into lines at each line feed.
///
/// ```
/// use bytes::Bytes;
/// use informant::pipeline::{CutPart, LineCutter};
///
/// let mut cutter = LineCutter::with_limit(64 << 20);
/// cutter.push(Bytes::from_static(b"first\nsec"));
/// assert_eq!(cutter.next()?, Some(CutPart::Whole("first".into())));
/// assert_eq!(cutter.next()?, None);
/// cutter.push(Bytes::from_static(b"ond\n"));
/// assert_eq!(cutter.next()?, Some(CutPart::Whole("second".into())));
/// cutter.finish()?;
/// # Ok::<(), informant::pipeline::FrameError>(())
/// ```
#[derive(Debug)]
pub struct LineCutter {
    body: BodyBuffer,
}

/// A line of a watch, or an item of a list, that was cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CutPart {
    /// The line, without its line feed; or the item. Its content has not been checked.
    Whole(Bytes),
    /// The outline of a line or item that is larger than the limit: JSON with the apiVersion, kind, name, namespace, uid and version of the object;
    /// of a line, the watch event with its type and this object.
    Outline(Bytes),
}

impl LineCutter {
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
    pub fn next(&mut self) -> Result<Option<CutPart>, FrameError> {
        loop {
            let end = memchr::memchr(b'\n', self.body.rest());
            let Some(line) = self.body.cut(end, FramePart::Line)? else { return Ok(None) };
            self.body.skip(1);
            match &line {
                CutPart::Whole(text) if text.iter().all(u8::is_ascii_whitespace) => {}
                CutPart::Outline(outline) if WatchEvent::read(outline).is_err() => {
                    return Err(self.body.too_large(FramePart::Line));
                }
                CutPart::Whole(_) | CutPart::Outline(_) => return Ok(Some(line)),
            }
        }
    }

    /// Checks, at the end of the body, that the last line was complete.
    ///
    /// # Errors
    ///
    /// If the body ended in the middle of a line.
    pub fn finish(&self) -> Result<(), FrameError> {
        match self.body.is_blank() {
            true => Ok(()),
            false => Err(self.body.truncated(FramePart::Line)),
        }
    }
}

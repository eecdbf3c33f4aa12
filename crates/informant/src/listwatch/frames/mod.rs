//! Cuts the body of a response into list items or watch events while it arrives, independent of its chunks.
//!
//! - **In:** chunks of a body, pushed one by one.
//! - **Out:** the JSON of each item, or each line, as soon as it is complete: slices of the chunks where that is possible.
//! - **Knows nothing of:** HTTP, kinds, decoding. The content of an item is checked by
//!   [`Scanner`](crate::object::Scanner), so that one invalid item does not affect the others.
//!
//! A list of 600 MB needs only the memory of its largest item and one chunk. An item or a line above a limit is read to its end, but not kept:
//! only its outline is returned, the fields that identify its object.

mod body_buffer;
mod error;
mod event;
mod items;
mod lines;

pub use error::{FrameError, FramePart};
pub use event::{EventType, WatchEvent};
pub use items::{ListCutter, ListHead, ListMetadata, ListPart};
pub use lines::{CutPart, LineCutter};

/// The default limit on the size of an item or a line that is kept: far more than any API server stores.
pub const DEFAULT_LIMIT: usize = 64 << 20;

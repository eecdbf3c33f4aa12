//! Cuts the body of a response into list items or watch events while it arrives, independent of its chunks.
//!
//! - **In:** chunks of a body, pushed one by one.
//! - **Out:** the JSON of each item, or each line, as soon as it is complete: slices of the chunks where that is possible.
//! - **Knows nothing of:** HTTP, kinds, decoding. The content of an item is checked by
//!   [`Scanner`](crate::object::Scanner), so that one invalid item does not affect the others.
//!
//! A list of 600 MB needs only the memory of its largest item and one chunk. An item or a line above a limit is read to its end, but not kept:
//! only its outline is returned, the fields that identify its object.
//!
//! ```
//! use bytes::Bytes;
//! use informant::listwatch::frames::{ListCutter, ListPart};
//!
//! let body = br#"{"kind":"PodList","items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}],"metadata":{"resourceVersion":"7"}}"#;
//! let mut cutter = ListCutter::new();
//! let mut items = Vec::new();
//! for chunk in body.chunks(10) {
//!     cutter.push(Bytes::copy_from_slice(chunk));
//!     while let Some(part) = cutter.next()? {
//!         match part {
//!             ListPart::Item(json) => items.push(json),
//!             ListPart::ItemOutline(_) => panic!("no item is larger than the limit"),
//!             ListPart::End(head) => assert_eq!(head.metadata.resource_version.as_str(), "7"),
//!         }
//!     }
//! }
//! cutter.finish()?;
//! assert_eq!(items, [r#"{"metadata":{"name":"a"}}"#, r#"{"metadata":{"name":"b"}}"#]);
//! # Ok::<(), informant::listwatch::frames::FrameError>(())
//! ```

mod body_buffer;
mod error;
mod event;
mod items;
mod lines;

pub use error::{FrameError, FramePart};
pub use event::{EventType, WatchEvent};
pub use items::{ListCutter, ListHead, ListMetadata, ListPart};
pub use lines::{Line, LineCutter};

/// The default limit on the size of an item or a line that is kept: far more than any API server stores.
pub const DEFAULT_LIMIT: usize = 64 << 20;

//! Stage 1: lists and watches the objects of one source and passes every change to a queue.
//!
//! - **In:** the bytes that a server sends, or the objects that another [source](ListWatch) delivers.
//! - **Out:** changes, to a [`Destination`], such as the [queue](crate::queue).
//! - **Knows nothing of:** the queue, the store, handlers.
//!
//! A [`Reflector`] requests a list from a [source](ListWatch), such as [`KubeSource`], and then watches for changes. [`frames`] cuts the response
//! into items while it arrives; each item is scanned and decoded by itself. An item that cannot be decoded is [quarantined](Quarantined), and the
//! other items are not affected. After a failure the reflector resumes the watch, or lists again, with growing delays.

mod any_source; // a source without its object type
mod decoder; // items become objects
mod destination; // where a reflector sends its changes
pub(crate) mod frames; // cuts responses into items and lines
mod health; // what reflectors of one client know of the server
mod heap_growth; // makes the heap grow in large steps
mod inventory; // which objects a source has, without their content
pub(crate) mod json; // times and errors in the JSON of a status
mod kube_api; // `KubeSource`, the Kubernetes API as a source
mod quarantine; // objects that cannot be decoded
mod reflector; // lists, watches, and recovers from failures
mod rules; // decisions of the reflector, without I/O and clock
#[cfg(feature = "testing")]
mod scripted; // `ScriptedSource`, a source for tests
mod source; // `ListWatch`, the trait of sources
mod witness; // asks a source whether it still has an event

pub(crate) use crate::error::{ListWatchError, Operation, SourceError};
pub(crate) use any_source::KubeSelection;
pub use decoder::TransformResult;
pub(crate) use decoder::{Transform, transform_of};
pub use destination::Destination;
pub(crate) use health::SUSPICIOUS;
pub use health::ServerHealth;
pub(crate) use inventory::{Inventory, InventoryPage};
pub use kube_api::KubeSource;
pub(crate) use kube_api::{kind_name, scope_text};
pub use quarantine::Quarantined;
pub use reflector::{Activity, PendingRequest, Reflector, ReflectorBuilder, ReflectorHandle, ReflectorStatus};
pub(crate) use reflector::{Callback, ReflectorSettings};
pub use rules::delays::Backoff;
pub(crate) use rules::delays::Delays;
#[cfg(feature = "testing")]
pub use scripted::{ScriptedAnswer, ScriptedList, ScriptedSource, ScriptedWatch, SourceHandle};
pub use source::{
    Item, ListPiece, ListRequest, ListStream, ListWatch, LookupAnswer, LookupRequest, Served, SourceEvent, WatchPiece,
    WatchRequest, WatchStream,
};

//! Server-side apply, and the fields that each client owns (`metadata.managedFields`).
//!
//! - **In:** the stored object, and what a client writes or applies; its name.
//! - **Out:** the merged object with its managed fields, or a conflict.
//! - **Knows nothing of:** HTTP, storage, the rules of objects.
//!
//! `managers` are the entries, `set` and `element` the fields in them. `updates` and `applying` are the two ways to own fields; they
//! stand on `compare`, `merge` and `fields`, which walk values by their type (`view`). `reset` lists fields that an endpoint ignores.

mod applying;
mod compare;
mod element;
mod fields;
mod managers;
mod merge;
mod reset;
mod scale;
mod set;
mod typed;
mod updates;
mod view;

use crate::registry::subresource::Subresource;

pub(crate) use self::{
    applying::{Application, apply},
    managers::Managers,
    scale::{apply_scale, updated_by_scale},
    updates::updated,
};

/// The client that writes an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Author {
    /// The field manager.
    pub(crate) manager: String,
    /// The subresource that it writes; `None` for the object itself.
    pub(crate) subresource: Option<Subresource>,
    /// The time of the write.
    pub(crate) time: String,
}

impl Author {
    fn subresource(&self) -> &'static str {
        self.subresource.map_or("", Subresource::name)
    }
}

//! The names that most programs use, in one import: `use informant::prelude::*;`.
//!
//! It holds the factory, informers and views, the types that their methods return, the events, the traits whose methods are called on
//! other types, and the module of ready-made indexes.

pub use crate::{
    Cached, Deleted, Event, EventHandler, EventStream, Index, Key, Lazy, Lister, Object, Origin, Registration,
    ResourceVersion, SharedInformer, SharedInformerFactory, View, index,
};

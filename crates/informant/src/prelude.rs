//! The names that most programs use, in one import: `use informant::prelude::*;`.
//!
//! It holds the factory, informers and views, the types that their methods return, the events, and the traits whose methods are called on
//! other types.

pub use crate::{
    Cached, Deleted, Event, EventHandler, EventStream, Index, Key, Lazy, ListWatch, Lister, Object, Origin,
    Registration, SharedInformer, SharedInformerFactory, View,
};

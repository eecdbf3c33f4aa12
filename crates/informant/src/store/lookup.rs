//! [`Lookup`], a value in an index, which can be combined with values in other indexes.

use std::sync::Arc;

/// A value to look up in an index, for [lookups in several indexes at once](super::Lister::by_indexes). Created by [`Index::lookup`](super::Index::lookup), or
/// from the name of the index and the value, as text: `("node", "node-1").into()`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lookup {
    /// The name of the index.
    pub(super) index: Arc<str>,
    /// The value as text.
    pub(super) value: String,
}

impl Lookup {
    pub(super) fn new(index: Arc<str>, value: String) -> Self {
        Self { index, value }
    }

    /// Converts the arguments of a read. That may run users' code, so it is done before the table lock is taken.
    pub(crate) fn collect(lookups: impl IntoIterator<Item = impl Into<Self>>) -> Vec<Self> {
        lookups.into_iter().map(Into::into).collect()
    }
}

impl From<(&str, &str)> for Lookup {
    fn from((index, value): (&str, &str)) -> Self {
        Self::new(index.into(), value.into())
    }
}

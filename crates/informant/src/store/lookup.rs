//! [`Lookup`], one of several values that objects are looked up by at once.

use std::sync::Arc;

/// The lookup of a value in an index, to be combined with others: made by [`Index::lookup`](super::Index::lookup), or from the index's name and the
/// value.
///
/// ```
/// use informant::store::Lookup;
///
/// let lookup = Lookup::from(("node", "node-1"));
/// assert_eq!((lookup.index(), lookup.value()), ("node", "node-1"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lookup {
    index: Arc<str>,
    value: String,
}

impl Lookup {
    pub(super) fn new(index: Arc<str>, value: String) -> Self {
        Self { index, value }
    }

    /// The name of the index.
    pub fn index(&self) -> &str {
        &self.index
    }

    /// The value as text.
    pub fn value(&self) -> &str {
        &self.value
    }
}

impl From<(&str, &str)> for Lookup {
    fn from((index, value): (&str, &str)) -> Self {
        Self::new(index.into(), value.into())
    }
}

//! The keys of objects in their collection.

use std::fmt;

/// Namespace and name as one string, in the sort order of lists: `shop/web`, or `node-1` without a namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key(Box<str>);

impl Key {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        if namespace.is_empty() { Self(name.into()) } else { Self(format!("{namespace}/{name}").into()) }
    }

    /// Reads a key as in continue tokens and in calls of tests.
    pub(crate) fn from_text(text: &str) -> Self {
        Self(text.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn namespace(&self) -> &str {
        self.0.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    pub(crate) fn name(&self) -> &str {
        self.0.split_once('/').map_or(&*self.0, |(_, name)| name)
    }

    /// Returns true if the object is in this namespace; `""` means all namespaces.
    pub(crate) fn is_in(&self, namespace: &str) -> bool {
        namespace.is_empty() || self.namespace() == namespace
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

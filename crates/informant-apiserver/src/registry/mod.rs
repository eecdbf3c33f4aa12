//! The registry of the kinds that are served.
//!
//! - **In:** built-in kinds, and kinds that tests register or clients define.
//! - **Out:** the kind for a path or a name, with its collection; discovery documents.
//! - **Knows nothing of:** objects, versions, HTTP.

mod builtin;
pub(crate) mod definition;
pub(crate) mod discovery;
pub(crate) mod kind;
pub(crate) mod openapi;
pub(crate) mod selectable;
pub(crate) mod subresource;

use std::sync::Arc;

use crate::{registry::kind::Kind, storage::CollectionId};

/// The kinds that are served now.
#[derive(Default)]
pub(crate) struct Registry {
    /// In the order of registration. No two have the same group, version and plural.
    served: Vec<Served>,
}

/// A kind, and the collection of its objects.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub(crate) kind: Arc<Kind>,
    pub(crate) collection: CollectionId,
}

impl Registry {
    pub(crate) fn builtin_kinds() -> impl Iterator<Item = Kind> {
        builtin::kinds()
    }

    pub(crate) fn add(&mut self, kind: Kind, collection: CollectionId) {
        self.served.push(Served { kind: Arc::new(kind), collection });
    }

    /// The kind with this name: `pods`, `deployments.apps`. A plural without a group finds the first kind with that plural.
    pub(crate) fn find(&self, name: &str) -> Option<&Served> {
        let exact = self.served.iter().find(|served| served.kind.resource() == name);
        exact.or_else(|| self.served.iter().find(|served| served.kind.is_called(name)))
    }

    /// The kind with this group, version and plural.
    pub(crate) fn at(&self, group: &str, version: &str, plural: &str) -> Option<&Served> {
        self.served
            .iter()
            .find(|served| served.kind.group == group && served.kind.version == version && served.kind.plural == plural)
    }

    /// Removes all versions of the kind with this group and plural.
    pub(crate) fn remove_all_versions(&mut self, group: &str, plural: &str) -> Vec<Served> {
        self.served.extract_if(.., |served| served.kind.is_at(group, plural)).collect()
    }

    /// The kind with this group and plural, for changes.
    pub(crate) fn exactly(&mut self, group: &str, plural: &str) -> Option<&mut Served> {
        self.served.iter_mut().find(|served| served.kind.is_at(group, plural))
    }

    pub(crate) fn served(&self) -> impl Iterator<Item = &Served> {
        self.served.iter()
    }

    pub(crate) fn kinds(&self) -> impl Iterator<Item = &Kind> {
        self.served.iter().map(|served| &*served.kind)
    }
}

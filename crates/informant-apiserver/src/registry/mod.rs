//! Which kinds are served, under which names.
//!
//! - **In:** kinds from the table of built-in ones and from users, at any time.
//! - **Out:** the kind that a path or a user means, with the number of its collection; discovery documents.
//! - **Knows nothing of:** objects, versions, HTTP.

mod builtin;
pub(crate) mod definition;
pub(crate) mod discovery;
pub(crate) mod kind;
pub(crate) mod openapi;
pub(crate) mod selectable;
pub(crate) mod subresource;

use std::sync::Arc;

use crate::registry::kind::Kind;
use crate::storage::CollectionId;

/// The kinds that are served now.
#[derive(Default)]
pub(crate) struct Registry {
    /// In order of registration. No two have the same group, version and plural.
    served: Vec<Served>,
}

/// A kind and where its objects are.
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

    /// The kind that a user means: `pods`, `deployments.apps`, or `deployments` if that is the first kind with this plural.
    pub(crate) fn find(&self, name: &str) -> Option<&Served> {
        let exact = self.served.iter().find(|served| served.kind.resource() == name);
        exact.or_else(|| self.served.iter().find(|served| served.kind.is_called(name)))
    }

    /// The kind with exactly this place in the API.
    pub(crate) fn at(&self, group: &str, version: &str, plural: &str) -> Option<&Served> {
        self.served
            .iter()
            .find(|served| served.kind.group == group && served.kind.version == version && served.kind.plural == plural)
    }

    /// Removes all versions of the kind with this group and plural.
    pub(crate) fn remove_all_versions(&mut self, group: &str, plural: &str) -> Vec<Served> {
        self.served.extract_if(.., |served| served.kind.is_at(group, plural)).collect()
    }

    /// The kind with exactly this place, to be changed.
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

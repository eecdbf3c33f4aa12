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

use crate::{
    error::ApiError,
    registry::kind::{Kind, Origin, resource_name},
    storage::CollectionId,
};

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

    /// Checks a name that selects requests or watches: an unknown one would never match.
    ///
    /// A name with a group may be that of a kind that is served later, or was served before. The groups of built-in kinds get no
    /// other kinds.
    pub(crate) fn check_name(&self, name: &str) -> Result<(), ApiError> {
        let may_be_served_later = name.split_once('.').is_some_and(|(own, group)| {
            let mut of_group = self.kinds().filter(|kind| kind.group == group);
            of_group.all(|kind| kind.origin == Origin::Custom && !kind.is_misnamed(own))
        });
        match may_be_served_later || self.find(name).is_some() {
            true => Ok(()),
            false => Err(self.unknown(name)),
        }
    }

    /// The error for a name of no kind, with the name that was probably meant.
    pub(crate) fn unknown(&self, name: &str) -> ApiError {
        let (own, group) = name.split_once('.').map_or((name, None), |(own, group)| (own, Some(group)));
        let likeness = |kind: &Kind| match kind.is_misnamed(own) {
            true => 1.0,
            false => strsim::jaro_winkler(own, &kind.plural),
        };
        let of_group = self.kinds().filter(|kind| group.is_none_or(|group| kind.group == group));
        let similar = of_group.map(|kind| (likeness(kind), kind)).filter(|(likeness, _)| *likeness > 0.8);
        // Of equally similar kinds, the first one: core kinds come before others.
        let best = similar.reduce(|best, next| if next.0 > best.0 { next } else { best });
        let similar = best.map(|(_, kind)| resource_name(&kind.plural, group.unwrap_or_default()));
        ApiError::UnknownKind { name: name.to_owned(), similar }
    }

    /// The kind that is served with this group, version and plural.
    pub(crate) fn at(&self, group: &str, version: &str, plural: &str) -> Option<&Served> {
        self.served.iter().find(|served| {
            let kind = &served.kind;
            kind.group == group && kind.version == version && kind.plural == plural && kind.is_served
        })
    }

    /// All versions of the kind with this group and plural; of a custom kind, the version that is stored comes first.
    pub(crate) fn versions(&self, group: &str, plural: &str) -> impl Iterator<Item = &Served> {
        self.served.iter().filter(move |served| served.kind.is_at(group, plural))
    }

    /// Replaces all versions of a kind.
    pub(crate) fn replace(&mut self, group: &str, plural: &str, versions: Vec<(Kind, CollectionId)>) {
        let place = self.served.iter().position(|served| served.kind.is_at(group, plural)).unwrap_or(self.served.len());
        self.remove_all_versions(group, plural);
        let served = versions.into_iter().map(|(kind, collection)| Served { kind: Arc::new(kind), collection });
        self.served.splice(place..place, served);
    }

    /// Removes all versions of the kind with this group and plural.
    pub(crate) fn remove_all_versions(&mut self, group: &str, plural: &str) -> Vec<Served> {
        self.served.extract_if(.., |served| served.kind.is_at(group, plural)).collect()
    }

    pub(crate) fn served(&self) -> impl Iterator<Item = &Served> {
        self.served.iter()
    }

    /// The kinds that clients can use.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &Kind> {
        self.served.iter().map(|served| &*served.kind).filter(|kind| kind.is_served)
    }
}

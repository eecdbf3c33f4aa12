//! The untyped view behind every [`View`](super::View), compiled once.
//!
//! - **In:** informers of one kind.
//! - **Out:** their objects, read together.
//! - **Knows nothing of:** the type of the objects.

use std::sync::Arc;

use super::Address;
use crate::{
    Cached,
    error::{IndexError, RequestError},
    informer::AnyInformer,
    object::Erased,
    store::{AnyIndexFunction, Index, Lister, Lookup},
};

/// Several informers of one kind as one. Cheap to clone.
#[derive(Clone)]
pub(crate) struct AnyView {
    /// Sorted by [`place`](ViewMember::place), without duplicates.
    pub(super) members: Arc<[ViewMember]>,
    pub(super) name: Arc<str>,
}

/// An informer, and the cluster and namespace that it covers.
#[derive(Clone)]
pub(super) struct ViewMember {
    /// `None` if the view covers a single cluster.
    pub(super) cluster: Option<Arc<str>>,
    /// `None` if the informer covers all namespaces.
    pub(super) namespace: Option<Arc<str>>,
    pub(super) informer: AnyInformer,
}

impl ViewMember {
    fn of_one_cluster(informer: AnyInformer) -> Self {
        Self { cluster: None, namespace: informer.namespace().cloned(), informer }
    }

    /// Sort key: cluster, then namespace.
    fn place(&self) -> (Option<&str>, Option<&str>) {
        (self.cluster.as_deref(), self.namespace.as_deref())
    }
}

impl AnyView {
    pub(super) fn new(mut members: Vec<ViewMember>) -> Result<Self, RequestError> {
        members.sort_by(|one, other| one.place().cmp(&other.place()));
        let name = match &members[..] {
            [] => return Err(invalid("a view needs at least one informer".to_owned())),
            [only] => Arc::clone(only.informer.name()),
            [first, others @ ..] => format!("{} and {} more", first.informer.name(), others.len()).into(),
        };
        Ok(Self { members: members.into(), name })
    }

    /// Creates a view of informers of one cluster, each of a namespace of its own.
    pub(crate) fn of_namespaces(informers: Vec<AnyInformer>) -> Result<Self, RequestError> {
        Self::new(informers.into_iter().map(ViewMember::of_one_cluster).collect())
    }

    /// Creates a view of views, or informers, of different clusters.
    pub(super) fn of_clusters(views: impl Iterator<Item = Self>) -> Result<Self, RequestError> {
        let mut members: Vec<ViewMember> = Vec::new();
        for view in views {
            // All members of such a view belong to one cluster.
            let Some(first) = view.informers().next() else { continue };
            let name = first.name();
            let Some(cluster) = first.cluster() else {
                return Err(invalid(format!(
                    "the cluster of informer {name} has no name; set it with `of_cluster` of its factory or source"
                )));
            };
            if let Some(other) = members.iter().find(|member| member.cluster.as_ref() == Some(cluster)) {
                return Err(invalid(format!(
                    "informers {} and {name} both cover cluster {cluster:?}; give each cluster a name of its own",
                    other.informer.name()
                )));
            }
            let of_cluster = |member: &ViewMember| ViewMember { cluster: Some(Arc::clone(cluster)), ..member.clone() };
            members.extend(view.members.iter().map(of_cluster));
        }
        Self::new(members)
    }

    /// Returns the members of one cluster, as a view of that cluster.
    pub(super) fn cluster(&self, name: &str) -> Option<Self> {
        let of_cluster = self.members.iter().filter(|member| member.cluster.as_deref() == Some(name));
        Self::new(of_cluster.map(|member| ViewMember { cluster: None, ..member.clone() }).collect()).ok()
    }

    pub(super) fn informers(&self) -> impl ExactSizeIterator<Item = &AnyInformer> {
        self.members.iter().map(|member| &member.informer)
    }

    /// Returns the member that covers this address, whether or not the object exists.
    pub(super) fn informer_of(&self, address: &impl Address) -> Option<&AnyInformer> {
        let at = |namespace| {
            let place = (address.cluster().map(|cluster| &**cluster), namespace);
            self.members.binary_search_by(|member| member.place().cmp(&place)).ok()
        };
        let namespace = address.key().namespace();
        let position = namespace.and_then(|namespace| at(Some(namespace))).or_else(|| at(None))?;
        Some(&self.members[position].informer)
    }

    pub(super) fn listers(&self) -> impl Iterator<Item = &Lister<Erased>> {
        self.informers().map(AnyInformer::lister)
    }

    /// Returns the objects of one namespace, or all objects if its name is empty.
    pub(super) fn list_in(&self, namespace: &str) -> Vec<Cached<Erased>> {
        let may_have = |own: Option<&str>| namespace.is_empty() || own.is_none_or(|own| own == namespace);
        let members = self.members.iter().filter(|member| may_have(member.namespace.as_deref()));
        members.flat_map(|member| member.informer.lister().namespace(namespace).list()).collect()
    }

    pub(super) fn by_indexes(&self, lookups: &[Lookup]) -> Result<Vec<Cached<Erased>>, IndexError> {
        let mut found = Vec::new();
        for lister in self.listers() {
            found.extend(lister.by_indexes(lookups.iter().cloned())?);
        }
        Ok(found)
    }

    /// Adds an index to all members, unless one of them has another index of that name.
    pub(super) fn add_index(&self, function: &AnyIndexFunction) -> Result<Vec<Index<Erased>>, IndexError> {
        if self.listers().any(|lister| lister.has_other_index(function)) {
            return Err(IndexError::Exists { name: Arc::clone(&function.name) });
        }
        self.informers().map(|informer| informer.add_index(function.clone())).collect()
    }
}

fn invalid(problem: String) -> RequestError {
    RequestError::View { problem }
}

impl From<AnyInformer> for AnyView {
    fn from(informer: AnyInformer) -> Self {
        let name = Arc::clone(informer.name());
        Self { members: Arc::new([ViewMember::of_one_cluster(informer)]), name }
    }
}

//! Reading a view: the objects of all its members together, read through the listers of the members.
//!
//! - **In:** keys or cluster keys, namespaces, label selectors, index values.
//! - **Out:** shared objects of all members.
//! - **Knows nothing of:** how members are filled.

use std::sync::Arc;

use super::{Address, View};
use crate::{
    Cached,
    error::{IndexError, NotFound},
    object::Labelled,
    store::{Index, IndexFunction, IndexValue, IndexValues, LabelSelector, Lister, Lookup},
};

impl<O, A: Address> View<O, A> {
    /// The object with this address: a [`Key`](crate::Key) or, in a view of several clusters, a [`ClusterKey`](crate::ClusterKey).
    pub fn get(&self, address: &A) -> Option<Cached<O>> {
        self.view.informer_of(address)?.lister().get(address.key()).map(Cached::typed)
    }

    /// The object with this address, or an error that names it.
    ///
    /// # Errors
    ///
    /// When no member has the object.
    pub fn require(&self, address: &A) -> Result<Cached<O>, NotFound> {
        match self.view.informer_of(address) {
            Some(informer) => informer.lister().require(address.key()).map(Cached::typed),
            None => Err(NotFound {
                resource: Arc::clone(&self.view.name),
                cluster: address.cluster().cloned(),
                key: address.key().clone(),
                is_synced: true,
                has_stopped: false,
            }),
        }
    }

    /// The keys of all objects.
    pub fn keys(&self) -> Vec<A> {
        let keys = self.view.members.iter().flat_map(|member| {
            let keys = member.informer.lister().keys().into_iter();
            keys.map(|key| A::new(member.cluster.as_ref(), key))
        });
        keys.collect()
    }
}

impl<O, A> View<O, A> {
    /// All objects.
    pub fn list(&self) -> Vec<Cached<O>> {
        self.list_in("")
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.view.listers().map(Lister::len).sum()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.view.listers().all(Lister::is_empty)
    }

    /// The objects of one namespace, in all clusters. An empty name means all namespaces.
    pub fn list_in(&self, namespace: &str) -> Vec<Cached<O>> {
        Cached::all_typed(self.view.list_in(namespace))
    }

    /// The objects whose labels match; see [`Lister::select`].
    #[doc(alias = "list_matching")]
    pub fn select(&self, selector: LabelSelector) -> Vec<Cached<O>>
    where
        O: Labelled + 'static,
    {
        self.view.listers().flat_map(move |lister| lister.typed().select(selector.clone())).collect()
    }

    /// The index with this name, which all members must have.
    ///
    /// # Errors
    ///
    /// When a member has no such index.
    pub fn index(&self, name: &str) -> Result<Index<O>, IndexError> {
        let indexes: Vec<_> = self.view.listers().map(|lister| lister.index(name)).collect::<Result<_, _>>()?;
        Ok(Index::combine(&indexes))
    }

    /// The objects that have all of these values, each in its index; see [`Lister::by_indexes`].
    ///
    /// # Errors
    ///
    /// When a member has no such index.
    pub fn by_indexes(
        &self,
        lookups: impl IntoIterator<Item = impl Into<Lookup>>,
    ) -> Result<Vec<Cached<O>>, IndexError> {
        self.view.by_indexes(&Lookup::collect(lookups)).map(Cached::all_typed)
    }

    /// Adds an index to all members, at any time; see [`Indexer::add_index`](crate::store::Indexer::add_index).
    /// The function returns `Some(value)`, `None`, a `Vec`, or any other iterator of owned values; [`index::text`](crate::index::text)
    /// wraps one that returns a string borrowed from the object.
    ///
    /// # Errors
    ///
    /// When a member has an index with that name, and its function may be another one. Then the index is added to no member, unless another thread adds an index with the same
    /// name to a member at the same time.
    ///
    /// # Panics
    ///
    /// When it is called from an index function of one of the informers.
    pub fn add_index<V: IndexValue, I: IndexValues<Value = V>>(
        &self,
        name: &str,
        values: impl Fn(&Cached<O>) -> I + Send + Sync + 'static,
    ) -> Result<Index<O, V>, IndexError> {
        self.view.add_index(&IndexFunction::new(name, values).into_any()).map(|indexes| Index::combine(&indexes))
    }
}

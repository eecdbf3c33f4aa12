//! Reading a view: the objects of all its members together, read through the listers of the members.
//!
//! - **In:** keys or cluster keys, namespaces, label selectors, index values.
//! - **Out:** shared objects of all members.
//! - **Knows nothing of:** how members are filled.

use std::{fmt, marker::PhantomData, sync::Arc};

use super::{Address, View};
use crate::{
    Cached,
    object::{Erased, Labelled},
    store::{
        DuplicateIndex, Index, IndexFunction, IndexValue, IndexValues, LabelSelector, Lister, Lookup, LookupValue,
        NotFound, UnknownIndex,
    },
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
            None => Err(NotFound::outside_view(Arc::clone(&self.view.name), address.cluster(), address.key())),
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

    /// The objects of one namespace, in all clusters, whose labels match. An empty name means all namespaces.
    pub fn select_in(&self, namespace: &str, selector: LabelSelector) -> Vec<Cached<O>>
    where
        O: Labelled + 'static,
    {
        self.view.namespace_listers::<O>(namespace).flat_map(move |lister| lister.select(selector.clone())).collect()
    }

    /// The objects whose labels match; see [`Lister::select`].
    #[doc(alias = "list_matching")]
    pub fn select(&self, selector: LabelSelector) -> Vec<Cached<O>>
    where
        O: Labelled + 'static,
    {
        self.select_in("", selector)
    }

    /// The objects for which the index function returns this value. All members must have the index.
    ///
    /// # Errors
    ///
    /// When a member has no such index.
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<Cached<O>>, UnknownIndex> {
        self.by_indexes([(index, value)])
    }

    /// The values of all objects in an index, each once, sorted; empty if no member has such an index.
    pub fn index_values(&self, index: &str) -> Vec<Arc<str>> {
        each_once(self.view.listers().flat_map(|lister| lister.index_values(index)))
    }

    /// The objects that have all of these values, each in its index; see [`Lister::by_indexes`].
    ///
    /// # Errors
    ///
    /// When a member has no such index.
    pub fn by_indexes(
        &self,
        lookups: impl IntoIterator<Item = impl Into<Lookup>>,
    ) -> Result<Vec<Cached<O>>, UnknownIndex> {
        self.view.by_indexes(&Lookup::collect(lookups)).map(Cached::all_typed)
    }

    /// Adds an index to all members, at any time; see [`Indexer::add_index`](crate::store::Indexer::add_index).
    /// The function returns `Some(value)`, `None`, a `Vec`, or any other iterator of owned values; [`index::text`](crate::index::text)
    /// wraps one that returns a string borrowed from the object.
    ///
    /// # Errors
    ///
    /// When a member has an index with that name. Then the index is added to no member, unless another thread adds an index with the same
    /// name to a member at the same time.
    ///
    /// # Panics
    ///
    /// When it is called from an index function of one of the informers.
    pub fn add_index<V: IndexValue, I: IndexValues<Value = V>>(
        &self,
        name: &str,
        values: impl Fn(&Cached<O>) -> I + Send + Sync + 'static,
    ) -> Result<ViewIndex<O, V>, DuplicateIndex> {
        let indexes = self.view.add_index(&IndexFunction::new(name, values).into_any())?;
        Ok(ViewIndex { indexes, types: PhantomData })
    }
}

/// Finds the objects of a view by the values that an index function returns for them; see [`Index`]. Cheap to clone.
pub struct ViewIndex<O, V = String> {
    /// Not empty.
    indexes: Arc<[Index<Erased>]>,
    types: PhantomData<fn(V, O) -> O>,
}

impl<O, V> ViewIndex<O, V> {
    /// The objects for which the index function returns this value, in no order.
    pub fn get<Q: LookupValue<V> + ?Sized>(&self, value: &Q) -> Vec<Cached<O>> {
        let text = value.text();
        Cached::all_typed(self.indexes.iter().flat_map(|index| index.get(&*text)).collect())
    }

    /// The number of objects for which the index function returns this value.
    pub fn count<Q: LookupValue<V> + ?Sized>(&self, value: &Q) -> usize {
        let text = value.text();
        self.indexes.iter().map(|index| index.count(&*text)).sum()
    }

    /// The values of all objects, each once, as text, sorted.
    pub fn values(&self) -> Vec<Arc<str>> {
        each_once(self.indexes.iter().flat_map(Index::values))
    }

    /// Returns a lookup of a value, to be combined with lookups in other indexes; see [`View::by_indexes`].
    pub fn lookup<Q: LookupValue<V> + ?Sized>(&self, value: &Q) -> Lookup {
        Lookup::from((self.name(), &*value.text()))
    }

    /// The index's name.
    pub fn name(&self) -> &str {
        self.indexes.first().map_or("", Index::name)
    }
}

fn each_once(values: impl Iterator<Item = Arc<str>>) -> Vec<Arc<str>> {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable();
    values.dedup();
    values
}

impl<O, V> Clone for ViewIndex<O, V> {
    fn clone(&self) -> Self {
        Self { indexes: Arc::clone(&self.indexes), types: PhantomData }
    }
}

impl<O, V> fmt::Debug for ViewIndex<O, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.indexes.iter()).finish()
    }
}

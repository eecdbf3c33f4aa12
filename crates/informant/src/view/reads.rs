//! Reading a view: what its members have, together.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use kube::core::Selector;

use super::Address;
use super::Member;
use super::View;
use crate::Cached;
use crate::Labelled;
use crate::SharedInformer;
use crate::store::DuplicateIndex;
use crate::store::Index;
use crate::store::IndexValue;
use crate::store::Lister;
use crate::store::Lookup;
use crate::store::NamespaceLister;
use crate::store::NotFound;
use crate::store::UnknownIndex;

impl<O: Send + Sync + 'static, A: Address> View<O, A> {
    /// The object at an address.
    pub fn get(&self, address: &A) -> Option<Arc<Cached<O>>> {
        self.member_of(address)?.informer.lister().get(address.key())
    }

    /// The object at an address, or an error that names it.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn require(&self, address: &A) -> Result<Arc<Cached<O>>, NotFound> {
        match self.member_of(address) {
            Some(member) => member.informer.lister().require(address.key()),
            None => Err(NotFound::elsewhere(Arc::clone(&self.name), address.cluster(), address.key())),
        }
    }

    /// Where all objects are.
    pub fn keys(&self) -> Vec<A> {
        let of_member = |member: &Member<O>| {
            let cluster = member.cluster.clone();
            member.informer.lister().keys().into_iter().map(move |key| A::new(cluster.as_ref(), key))
        };
        self.members.iter().flat_map(of_member).collect()
    }
}

impl<O: Send + Sync + 'static, A> View<O, A> {
    fn listers(&self) -> impl Iterator<Item = Lister<O>> {
        self.informers().map(SharedInformer::lister)
    }

    /// All objects.
    pub fn list(&self) -> Vec<Arc<Cached<O>>> {
        self.listers().flat_map(|lister| lister.list()).collect()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.listers().map(|lister| lister.len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.listers().all(|lister| lister.is_empty())
    }

    /// The objects of one namespace, of all clusters. An empty name means all of them.
    pub fn list_in(&self, namespace: &str) -> Vec<Arc<Cached<O>>> {
        self.namespaces(namespace).flat_map(|lister| lister.list()).collect()
    }

    /// The objects of one namespace, of all clusters, whose labels match. An empty name means all of them.
    pub fn select_in(&self, namespace: &str, selector: &Selector) -> Vec<Arc<Cached<O>>>
    where
        O: Labelled,
    {
        self.namespaces(namespace).flat_map(|lister| lister.select(selector)).collect()
    }

    /// A namespace, of the members that may have it.
    fn namespaces(&self, namespace: &str) -> impl Iterator<Item = NamespaceLister<O>> {
        let may_have = move |own: Option<&str>| namespace.is_empty() || own.is_none_or(|own| own == namespace);
        let members = self.members.iter().filter(move |member| may_have(member.namespace.as_deref()));
        members.map(move |member| member.informer.lister().namespace(namespace))
    }

    /// The objects whose labels match.
    pub fn select(&self, selector: &Selector) -> Vec<Arc<Cached<O>>>
    where
        O: Labelled,
    {
        self.listers().flat_map(|lister| lister.select(selector)).collect()
    }

    /// The objects that have a value in an index that all members have.
    ///
    /// # Errors
    ///
    /// When one of them has no such index.
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<Arc<Cached<O>>>, UnknownIndex> {
        self.by_indexes([(index, value)])
    }

    /// All values that some object has in an index, each once, sorted; none if no member has such an index.
    pub fn index_values(&self, index: &str) -> Vec<Arc<str>> {
        each_once(self.listers().flat_map(|lister| lister.index_values(index)))
    }

    /// The objects that have all of these values, each in its index; see [`Lister::by_indexes`].
    ///
    /// # Errors
    ///
    /// When a member has no such index.
    pub fn by_indexes(
        &self,
        lookups: impl IntoIterator<Item = impl Into<Lookup>>,
    ) -> Result<Vec<Arc<Cached<O>>>, UnknownIndex> {
        let lookups: Vec<Lookup> = lookups.into_iter().map(Into::into).collect();
        let mut found = Vec::new();
        for lister in self.listers() {
            found.extend(lister.by_indexes(lookups.iter().cloned())?);
        }
        Ok(found)
    }

    /// Adds an index to all members, at any time.
    ///
    /// # Errors
    ///
    /// When a member has one of that name: then none is added, unless somebody adds one to a member at the same time.
    ///
    /// # Panics
    ///
    /// Inside an index function of one of the informers.
    pub fn add_index<V, I>(
        &self,
        name: &str,
        values: impl Fn(&Cached<O>) -> I + Send + Sync + 'static,
    ) -> Result<ViewIndex<O, V>, DuplicateIndex>
    where
        I: IntoIterator<Item = V>,
        V: IndexValue,
    {
        if self.listers().any(|lister| lister.index(name).is_ok()) {
            return Err(DuplicateIndex { name: name.into() });
        }
        let values = Arc::new(values);
        let add = |informer: &SharedInformer<O>| {
            let values = Arc::clone(&values);
            informer.add_index(name, move |object: &Cached<O>| values(object))
        };
        Ok(ViewIndex { indexes: self.informers().map(add).collect::<Result<_, _>>()? })
    }
}

/// Finds the objects of a view by what an index function said of them. Cheap to clone.
pub struct ViewIndex<O, V = String> {
    /// Not empty.
    indexes: Arc<[Index<O, V>]>,
}

impl<O, V> ViewIndex<O, V> {
    /// The objects that have a value, in no order.
    pub fn get<Q>(&self, value: &Q) -> Vec<Arc<Cached<O>>>
    where
        Q: IndexValue + ?Sized,
        V: Borrow<Q>,
    {
        self.indexes.iter().flat_map(|index| index.get(value)).collect()
    }

    /// How many objects have a value.
    pub fn count<Q>(&self, value: &Q) -> usize
    where
        Q: IndexValue + ?Sized,
        V: Borrow<Q>,
    {
        self.indexes.iter().map(|index| index.count(value)).sum()
    }

    /// All values that some object has, each once, as texts, sorted.
    pub fn values(&self) -> Vec<Arc<str>> {
        each_once(self.indexes.iter().flat_map(Index::values))
    }

    /// A value to be looked up together with those of other indexes; see [`View::by_indexes`].
    pub fn is<Q>(&self, value: &Q) -> Lookup
    where
        Q: IndexValue + ?Sized,
        V: Borrow<Q>,
    {
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
        Self { indexes: Arc::clone(&self.indexes) }
    }
}

impl<O, V> fmt::Debug for ViewIndex<O, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.indexes.iter()).finish()
    }
}

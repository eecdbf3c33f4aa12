//! [`Derive`], a map that is about to be registered.
//!
//! - **In:** a function, settings, and other informers that the function reads.
//! - **Out:** a [`DerivedMap`], registered with all its informers.
//! - **Knows nothing of:** events, and what becomes of the entries.

use std::{cmp::Ordering, hash::Hash, panic::Location, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tracing::error;

use super::{
    DerivedMap,
    engine::{Engine, Function, Mapping, Source},
    entries::Prefer,
    lingering::LingeringEntries,
    published::Published,
    state::MapState,
};
use crate::{
    Cached, Key, SharedInformer, View,
    error::RequestError,
    informer::{AnyInformer, add_batch_handlers},
    panics,
    subscribers::AnyHandler,
};

/// A map that is about to be registered; from [`SharedInformer::derive`] and [`View::derive`].
#[must_use = "nothing is derived until `register` is called"]
pub struct Derive<K, V> {
    name: Arc<str>,
    function: Function<K, V>,
    prefer: Option<Prefer<V>>,
    linger: Duration,
    linger_at_most: usize,
    /// Each informer once.
    informers: Vec<(AnyInformer, Source)>,
}

impl<O: 'static> SharedInformer<O> {
    /// Begins to derive a map from the objects of the cache: see [`derived`](crate::derived). `function` returns nothing, one or several pairs
    /// of a key and a value for an object.
    #[track_caller]
    pub fn derive<K, V, I>(&self, function: impl Fn(&Cached<O>) -> I + Send + 'static) -> Derive<K, V>
    where
        K: Clone + Eq + Hash + Send + Sync + 'static,
        V: PartialEq + Send + Sync + 'static,
        I: IntoIterator<Item = (K, V)>,
    {
        Derive::new(std::iter::once(&self.informer), function)
    }
}

impl<O: 'static, A> View<O, A> {
    /// As [`SharedInformer::derive`], from the objects of all members.
    #[track_caller]
    pub fn derive<K, V, I>(&self, function: impl Fn(&Cached<O>) -> I + Send + 'static) -> Derive<K, V>
    where
        K: Clone + Eq + Hash + Send + Sync + 'static,
        V: PartialEq + Send + Sync + 'static,
        I: IntoIterator<Item = (K, V)>,
    {
        Derive::new(self.informers().map(|member| &member.informer), function)
    }
}

impl<K, V> Derive<K, V>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    V: PartialEq + Send + Sync + 'static,
{
    #[track_caller]
    fn new<'a, O: 'static, I: IntoIterator<Item = (K, V)>>(
        informers: impl Iterator<Item = &'a AnyInformer>,
        function: impl Fn(&Cached<O>) -> I + Send + 'static,
    ) -> Self {
        let mut derive = Self {
            name: format!("map at {}", Location::caller()).into(),
            function: Box::new(move |object| function(object.typed_ref()).into_iter().collect()),
            prefer: None,
            linger: Duration::ZERO,
            linger_at_most: 10_000,
            informers: Vec::new(),
        };
        informers.for_each(|informer| derive.source(informer).is_own = true);
        derive
    }

    /// Adds an informer, if it is not there already: it has one handler, so that each of its batches is one commit.
    fn source(&mut self, informer: &AnyInformer) -> &mut Source {
        let known = self.informers.iter().position(|(other, _)| other.is_same(informer));
        let position = known.unwrap_or_else(|| {
            self.informers.push((informer.clone(), Source::default()));
            self.informers.len() - 1
        });
        &mut self.informers[position].1
    }

    /// Sets the name in logs and problems. Default: the place in the code that called `derive`.
    pub fn named(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }

    /// Decides which value of a key readers see if several objects have the key: the greatest one. Of equal ones, and without this setting, the value
    /// of the object that took the key last. Values at which `compare` panics are equal.
    pub fn prefer(mut self, compare: impl Fn(&V, &V) -> Ordering + Send + 'static) -> Self {
        self.prefer = Some(Box::new(compare));
        self
    }

    /// Names another informer or view that the function reads, through its [lister](SharedInformer::lister). When one of its objects changes,
    /// `mapping` is called with the old and the new state. The objects of the map whose keys it returns are derived again; other keys are ignored.
    /// If it panics, the panic is logged and all objects are derived again.
    ///
    /// The function is not called before all informers are synced.
    pub fn with<S: 'static, A, I: IntoIterator<Item = Key>>(
        mut self,
        informers: impl Into<View<S, A>>,
        mapping: impl Fn(&Cached<S>) -> I + Send + Sync + 'static,
    ) -> Self {
        let mapping: Mapping = Arc::new(move |object| mapping(object.typed_ref()).into_iter().collect());
        for member in informers.into().informers() {
            self.source(&member.informer).mappings.push(Arc::clone(&mapping));
        }
        self
    }

    /// Keeps entries for this time after they were removed, for [`DerivedMap::get_lingering`], up to a [number](Self::linger_at_most). Their memory is
    /// freed at the first event of an informer after that time. Default: they are not kept.
    pub fn linger(mut self, time: Duration) -> Self {
        self.linger = time;
        self
    }

    /// Limits the number of removed entries that [linger](Self::linger), to those that were removed last. A key that was removed several times counts
    /// each time. Default: 10,000.
    pub fn linger_at_most(mut self, entries: usize) -> Self {
        self.linger_at_most = entries;
        self
    }

    /// Registers the map with its informers. It is filled when all of them are synced.
    ///
    /// # Errors
    ///
    /// If an informer has stopped, or if called in one of its index functions.
    pub fn register(self) -> Result<DerivedMap<K, V>, RequestError> {
        let Self { name, function, prefer, linger, linger_at_most, informers } = self;
        let (informers, sources): (Vec<_>, Vec<_>) = informers.into_iter().unzip();
        let published = Published::new(LingeringEntries::new(linger, linger_at_most));
        let map = Arc::new(MapState::new(Arc::clone(&name), published));
        let map_name = Arc::clone(&name);
        let prefer = prefer.map(|compare| -> Prefer<V> {
            Box::new(move |one, other| {
                panics::catch(|| compare(one, other)).unwrap_or_else(|panic| {
                    error!(map = &*map_name, error = panic, "the preference of a derived map panicked");
                    Ordering::Equal
                })
            })
        });
        let engine = Engine::new(Arc::clone(&map), function, prefer, sources);
        // Never contended: the handlers are called one at a time.
        let engine = Arc::new(Mutex::new(engine));
        let handlers = (0..informers.len()).map(|source| {
            let (map, weak, engine) = (Arc::clone(&map), Arc::downgrade(&engine), Arc::clone(&engine));
            let callback = Box::new(move |events: &[_]| engine.lock().apply(source, events));
            // The closures go on while another informer runs: the worker that drops the last callback, and with it the engine, waits for them.
            let after = async move {
                if weak.strong_count() == 0 {
                    map.closures.closed().await;
                }
            };
            AnyHandler::OfBatches { callback, after: Some(Box::pin(after)) }
        });
        let registration = add_batch_handlers(&informers, handlers.collect(), &name)?;
        Ok(DerivedMap::new(map, registration, informers))
    }
}

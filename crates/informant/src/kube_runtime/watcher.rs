//! The events of an informer as a stream of kube-runtime's watcher events.
//!
//! - **In:** events of a subscription to an informer or a view.
//! - **Out:** [`Watcher`], which replaces kube-runtime's `watcher(api, config)`.
//! - **Knows nothing of:** lists, watches and retries, which are done by the informer.

use std::{
    collections::BTreeMap,
    hash::Hash,
    iter::once,
    pin::Pin,
    task::{Context, Poll},
};

use derive_where::derive_where;
use futures_util::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use kube::{
    Resource,
    runtime::{
        WatchStreamExt,
        reflector::{Store, store::Writer},
        watcher,
    },
};
use smallvec::{SmallVec, smallvec};

use super::Shared;
use crate::{Cached, Event, Key, error::RequestError, informer::Subscribe};

/// Events of an informer as kube-runtime's `watcher` returns them; from [`Subscribe::watcher`].
///
/// It is a stream of `watcher::Result<watcher::Event<Shared<O>>>`, so all of kube-runtime's adapters work on it: `reflect`,
/// `applied_objects`, `touched_objects`, `predicate_filter`. Dropping it ends the subscription.
///
/// | event of the informer | watcher event |
/// | --- | --- |
/// | the initial list, when it is complete | `Init`, then `InitApply` for each object in the order of their keys, then `InitDone` |
/// | [`Added`](Event::Added), [`Updated`](Event::Updated) | `Apply` with the new state |
/// | [`Resynced`](Event::Resynced) | `Apply` with the unchanged state, so that a resync triggers reconciliation; [`resync_every`](Subscribe::resync_every) with a period of zero turns it off |
/// | [`Deleted`](Event::Deleted), observed or missed | `Delete` with the last known state |
///
/// - `Init` comes once. After a relist, the informer compares the new list with its cache and sends only the differences: an object that was
///   deleted while the watch was down is a `Delete`, which kube-runtime's own watcher does not send in this case.
/// - There is never an `Err`: the informer retries, and its [status](crate::SharedInformer::status) shows the errors.
/// - The stream ends when the informer stops. If it stops before the initial list is complete, the stream ends without an event.
#[must_use = "a watcher does nothing unless it is polled"]
#[derive_where(Debug)]
pub struct Watcher<O> {
    #[derive_where(skip(Debug))]
    events: BoxStream<'static, WatcherEvent<O>>,
}

type WatcherEvent<O> = watcher::Event<Cached<O>>;

/// Objects of the initial list until the list is complete, then `None`.
///
/// A change or deletion before the list is complete changes this map: kube-runtime's store cannot remove an object between `Init` and `InitDone`.
type InitialList<O> = Option<BTreeMap<Key, Cached<O>>>;

impl<O: 'static> Subscribe<'_, O> {
    /// Registers a stream of kube-runtime's watcher events, in place of callbacks. Needs the feature `kube-runtime`; see
    /// [`informant::kube_runtime`](crate::kube_runtime) for examples.
    ///
    /// Views of several clusters have no such method: kube-runtime's stores cannot hold two objects with the same namespace and name.
    ///
    /// # Errors
    ///
    /// If the informer or a member of the view has stopped, or if called in one of its index functions.
    pub fn watcher(self) -> Result<Watcher<O>, RequestError> {
        Ok(Watcher::new(self.stream()?))
    }
}

impl<O: 'static> Watcher<O> {
    /// Changes the type of the objects. The conversion runs for each event, in the task that polls the stream.
    ///
    /// - `|pod| pod.object().clone()` gives plain `Pod`s, for a reconciler that must take `Arc<Pod>`. kube-runtime's store then has a copy
    ///   of each object: as much memory as the informer's cache, for each store.
    /// - `|pod| pod.metadata.clone().into_response_partial::<Pod>()` copies the metadata only. Use it for `Controller::owns_stream`, which takes
    ///   the metadata out of each object and so would copy the whole of a [`Shared`] object.
    /// - [Lazy](crate::Lazy) objects and projections do not implement `kube::Resource`; map them to a type that does, such as
    ///   `PartialObjectMeta<Pod>`, while the reconciler reads the rest from a [`Lister`](crate::Lister).
    pub fn map_objects<K, F>(
        self,
        convert: F,
    ) -> impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + Unpin + use<O, K, F>
    where
        F: Fn(&Cached<O>) -> K + Send + Unpin + 'static,
    {
        self.events.map(move |event| Ok(map_event(event, &convert)))
    }
}

impl<O> Watcher<O>
where
    O: Resource<DynamicType: Eq + Hash + Clone> + Clone + Send + Sync + 'static,
{
    /// Returns the arguments of kube-runtime's `Controller::for_stream`: the store, and a stream of the objects that trigger reconciliation. These are
    /// the objects of the initial list, and each object that is added or changed.
    ///
    /// The task that polls the stream writes the store: all objects of the initial list at once when the list is complete, later ones before
    /// the stream returns them. So a reconciler finds the state that triggered it, or a newer one. `Store::wait_until_ready` returns when the initial list is complete; if the informer stops before
    /// that, it fails. Deletes remove the object from the store and trigger nothing, as with `Controller::new`.
    ///
    /// It is short for `reflector::store()`, [`reflect`](WatchStreamExt::reflect) and
    /// [`applied_objects`](WatchStreamExt::applied_objects).
    pub fn for_controller(self) -> (Store<Shared<O>>, impl Stream<Item = watcher::Result<Shared<O>>> + Send + use<O>)
    where
        O::DynamicType: Default,
    {
        self.for_controller_with(O::DynamicType::default())
    }

    /// As [`for_controller`](Self::for_controller), for kinds that are known at run time; for `Controller::for_stream_with`.
    pub fn for_controller_with(
        self,
        dyntype: O::DynamicType,
    ) -> (Store<Shared<O>>, impl Stream<Item = watcher::Result<Shared<O>>> + Send + use<O>) {
        let writer = Writer::new(dyntype);
        (writer.as_reader(), self.reflect(writer).applied_objects())
    }
}

/// Returns the watcher events of one event: none while the initial list is not complete, then usually one.
fn translate<O>(initial: &mut InitialList<O>, event: Event<O>) -> SmallVec<[WatcherEvent<O>; 1]> {
    match (event, initial) {
        (Event::Added { object, .. } | Event::Updated { new: object, .. } | Event::Resynced(object), Some(initial)) => {
            initial.insert(object.key().clone(), object);
        }
        (Event::Added { object, .. } | Event::Updated { new: object, .. } | Event::Resynced(object), None) => {
            return smallvec![watcher::Event::Apply(object)];
        }
        (Event::Deleted(deleted), Some(initial)) => drop(initial.remove(deleted.key())),
        (Event::Deleted(deleted), None) => return smallvec![watcher::Event::Delete(deleted.object().clone())],
        (Event::Synced, initial) => {
            let Some(initial) = initial.take() else { return SmallVec::new() };
            let objects = initial.into_values().map(watcher::Event::InitApply);
            return once(watcher::Event::Init).chain(objects).chain(once(watcher::Event::InitDone)).collect();
        }
    }
    SmallVec::new()
}

fn map_event<T, K>(event: watcher::Event<T>, convert: impl Fn(&T) -> K) -> watcher::Event<K> {
    match event {
        watcher::Event::Apply(object) => watcher::Event::Apply(convert(&object)),
        watcher::Event::Delete(object) => watcher::Event::Delete(convert(&object)),
        watcher::Event::Init => watcher::Event::Init,
        watcher::Event::InitApply(object) => watcher::Event::InitApply(convert(&object)),
        watcher::Event::InitDone => watcher::Event::InitDone,
    }
}

impl<O: 'static> Watcher<O> {
    fn new(events: impl Stream<Item = Event<O>> + Send + 'static) -> Self {
        let mut initial = Some(BTreeMap::new());
        Self { events: events.flat_map(move |event| stream::iter(translate(&mut initial, event))).boxed() }
    }
}

impl<O> Stream for Watcher<O> {
    type Item = watcher::Result<watcher::Event<Shared<O>>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let share = |object: &Cached<O>| Shared::from(object.clone());
        self.events.poll_next_unpin(context).map(|event| Some(Ok(map_event(event?, share))))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::{
        Deleted, Origin, ResourceVersion,
        object::{Identity, Uid},
    };

    fn object(name: &str, version: &str) -> Cached<()> {
        let (key, uid) = (Key::cluster_scoped(name), Uid::from("u"));
        Cached::new(Identity { key, uid, version: ResourceVersion::new(version) }, ())
    }

    fn added(name: &str) -> Event<()> {
        Event::Added { object: object(name, "1"), origin: Origin::InitialList }
    }

    fn updated(name: &str) -> Event<()> {
        Event::Updated { old: object(name, "1"), new: object(name, "2") }
    }

    fn deleted(name: &str) -> Event<()> {
        Event::Deleted(Deleted::Missed { last_known: object(name, "2") })
    }

    fn translated(events: impl IntoIterator<Item = Event<()>>) -> Vec<String> {
        let mut initial = Some(BTreeMap::new());
        let events = events.into_iter().flat_map(|event| translate(&mut initial, event));
        events.map(|event| format!("{event:?}")).collect()
    }

    #[test]
    fn the_initial_list_is_returned_when_it_is_complete() {
        assert!(translated([added("b"), added("a")]).is_empty());
        let listed = translated([added("b"), added("a"), Event::Synced]);
        assert_eq!(listed, ["Init", "InitApply(a@1)", "InitApply(b@1)", "InitDone"]);
    }

    #[test]
    fn the_memory_of_the_initial_list_is_freed_when_it_was_returned() {
        let list = (0..1000).map(|name| added(&name.to_string())).chain([Event::Synced]);
        let mut watched = Watcher::new(stream::iter(list).chain(stream::pending()));

        let left = allocation_counter::measure(|| {
            let returned = std::iter::from_fn(|| watched.next().now_or_never().flatten());
            assert_eq!(returned.count(), 1002);
        });

        assert!(left.bytes_current < 1000, "{} bytes", left.bytes_current);
    }

    #[test]
    fn changes_and_deletions_before_the_end_of_the_initial_list_are_part_of_it() {
        let listed = translated([added("a"), added("b"), updated("a"), deleted("b"), added("c"), Event::Synced]);
        assert_eq!(listed, ["Init", "InitApply(a@2)", "InitApply(c@1)", "InitDone"]);
    }

    #[test]
    fn later_changes_resyncs_and_deletions_are_returned_one_by_one() {
        let events = [Event::Synced, added("a"), updated("a"), Event::Resynced(object("a", "2")), deleted("a")];
        let later = translated(events);
        assert_eq!(later, ["Init", "InitDone", "Apply(a@1)", "Apply(a@2)", "Apply(a@2)", "Delete(a@2)"]);
    }
}

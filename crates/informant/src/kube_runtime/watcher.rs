//! The events of an informer as a stream of kube-runtime's watcher events.
//!
//! - **In:** events of a subscription to an informer or a view.
//! - **Out:** [`Watcher`], which replaces kube-runtime's `watcher(api, config)`.
//! - **Knows nothing of:** lists, watches and retries, which are done by the informer.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    hash::Hash,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_util::{Stream, StreamExt, stream};
use kube::{
    Resource,
    runtime::{
        WatchStreamExt,
        reflector::{Store, store::Writer},
        watcher,
    },
};

use super::Shared;
use crate::{Cached, Event, EventStream, Key, error::RequestError, informer::Subscribe};

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
pub struct Watcher<O> {
    events: EventStream<O>,
    rules: EventTranslator<O>,
}

/// Translates events, without a stream.
struct EventTranslator<O> {
    /// Objects of the initial list until the list is complete, then `None`.
    ///
    /// A change or deletion before the list is complete changes this map: kube-runtime's store cannot remove an object between `Init` and `InitDone`.
    initial: Option<BTreeMap<Key, Cached<O>>>,
    /// Watcher events that the stream has not returned yet.
    pending: VecDeque<watcher::Event<Cached<O>>>,
}

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
        Ok(Watcher { events: self.stream()?, rules: EventTranslator::default() })
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
        mut self,
        convert: F,
    ) -> impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + Unpin + use<O, K, F>
    where
        F: Fn(&Cached<O>) -> K + Send + Unpin + 'static,
    {
        stream::poll_fn(move |context| self.poll_event(context).map(|event| Some(Ok(map_event(event?, &convert)))))
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

impl<O> EventTranslator<O> {
    fn take_pending(&mut self) -> Option<watcher::Event<Cached<O>>> {
        let event = self.pending.pop_front()?;
        if self.pending.is_empty() {
            // Frees the memory: the initial list may be long, and later one event waits at a time.
            self.pending.shrink_to(4);
        }
        Some(event)
    }

    fn apply(&mut self, event: Event<O>) {
        match event {
            Event::Added { object, .. } | Event::Updated { new: object, .. } | Event::Resynced(object) => {
                match &mut self.initial {
                    Some(initial) => drop(initial.insert(object.key().clone(), object)),
                    None => self.pending.push_back(watcher::Event::Apply(object)),
                }
            }
            Event::Deleted(deleted) => match &mut self.initial {
                Some(initial) => drop(initial.remove(deleted.key())),
                None => self.pending.push_back(watcher::Event::Delete(deleted.object().clone())),
            },
            Event::Synced => {
                let Some(initial) = self.initial.take() else { return };
                self.pending.push_back(watcher::Event::Init);
                self.pending.extend(initial.into_values().map(watcher::Event::InitApply));
                self.pending.push_back(watcher::Event::InitDone);
            }
        }
    }
}

impl<O> Default for EventTranslator<O> {
    fn default() -> Self {
        Self { initial: Some(BTreeMap::new()), pending: VecDeque::new() }
    }
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

impl<O> Watcher<O> {
    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<watcher::Event<Cached<O>>>> {
        loop {
            if let Some(event) = self.rules.take_pending() {
                return Poll::Ready(Some(event));
            }
            match ready!(self.events.poll_next_unpin(context)) {
                Some(event) => self.rules.apply(event),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl<O> Stream for Watcher<O> {
    type Item = watcher::Result<watcher::Event<Shared<O>>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let share = |object: &Cached<O>| Shared::from(object.clone());
        self.poll_event(context).map(|event| Some(Ok(map_event(event?, share))))
    }
}

impl<O> fmt::Debug for Watcher<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EventTranslator { initial, pending } = &self.rules;
        f.debug_struct("Watcher")
            .field("is_ready", &initial.is_none())
            .field("pending", &pending.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
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

    fn translate(events: impl IntoIterator<Item = Event<()>>) -> Vec<String> {
        let mut rules = EventTranslator::default();
        events.into_iter().for_each(|event| rules.apply(event));
        rules.pending.iter().map(|event| format!("{event:?}")).collect()
    }

    #[test]
    fn the_initial_list_is_returned_when_it_is_complete() {
        assert!(translate([added("b"), added("a")]).is_empty());
        let listed = translate([added("b"), added("a"), Event::Synced]);
        assert_eq!(listed, ["Init", "InitApply(a@1)", "InitApply(b@1)", "InitDone"]);
    }

    #[test]
    fn the_memory_of_the_initial_list_is_freed_when_it_was_returned() {
        let mut rules = EventTranslator::default();
        (0..1000).for_each(|name| rules.apply(added(&name.to_string())));
        rules.apply(Event::Synced);

        assert_eq!(std::iter::from_fn(|| rules.take_pending()).count(), 1002);

        assert!(rules.pending.capacity() < 100, "{}", rules.pending.capacity());
    }

    #[test]
    fn changes_and_deletions_before_the_end_of_the_initial_list_are_part_of_it() {
        let listed = translate([added("a"), added("b"), updated("a"), deleted("b"), added("c"), Event::Synced]);
        assert_eq!(listed, ["Init", "InitApply(a@2)", "InitApply(c@1)", "InitDone"]);
    }

    #[test]
    fn later_changes_resyncs_and_deletions_are_returned_one_by_one() {
        let events = [Event::Synced, added("a"), updated("a"), Event::Resynced(object("a", "2")), deleted("a")];
        let later = translate(events);
        assert_eq!(later, ["Init", "InitDone", "Apply(a@1)", "Apply(a@2)", "Apply(a@2)", "Delete(a@2)"]);
    }
}

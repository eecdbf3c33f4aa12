//! Following a view: one handler for all members.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use super::View;
use super::ViewStream;
use crate::Cached;
use crate::Deleted;
use crate::EventHandler;
use crate::EventStream;
use crate::Origin;
use crate::Registration;
use crate::SharedInformer;
use crate::informer::AddHandlerError;
use crate::informer::Subscribe;
use crate::subscribers::Place;
use crate::subscribers::Turn;

impl<O: Send + Sync + 'static, A> View<O, A> {
    /// Has a handler follow all members, with the settings that are usual; [`subscribe`](Self::subscribe) has others.
    ///
    /// It is called by one member at a time, and told once that all of them are synced; never, if one stops before. The order between
    /// objects of different members is open.
    ///
    /// # Errors
    ///
    /// When a member has stopped, or inside one of its index functions. Then it follows none.
    pub fn add_handler(&self, handler: impl EventHandler<O>) -> Result<Registration, AddHandlerError> {
        self.subscribe().handler(handler)
    }

    /// Events of all members as one stream, with the settings that are usual; [`subscribe`](Self::subscribe) has others.
    ///
    /// # Errors
    ///
    /// When a member has stopped, or inside one of its index functions.
    pub fn stream(&self) -> Result<ViewStream<O>, AddHandlerError> {
        self.subscribe().stream()
    }

    /// A handler or stream with settings: a filter, resyncs, what happens when it is slow, a name.
    pub fn subscribe(&self) -> Subscribe<'_, O, Self> {
        Subscribe::new(self)
    }
}

impl<O: Send + Sync + 'static, A> Subscribe<'_, O, View<O, A>> {
    /// Has a handler follow all members; see [`View::add_handler`].
    ///
    /// # Errors
    ///
    /// When a member has stopped, or inside one of its index functions. Then it follows none.
    pub fn handler(self, handler: impl EventHandler<O>) -> Result<Registration, AddHandlerError> {
        self.add_to_all(handler, Place::Task)
    }

    /// Has a handler follow all members, which may block: each member has a thread of its own for it, and they take turns.
    ///
    /// # Errors
    ///
    /// When a member has stopped, or inside one of its index functions. Then it follows none.
    pub fn blocking_handler(self, handler: impl EventHandler<O>) -> Result<Registration, AddHandlerError> {
        self.add_to_all(handler, Place::Thread)
    }

    /// Events of all members for whoever asks for them.
    ///
    /// # Errors
    ///
    /// When a member has stopped, or inside one of its index functions.
    pub fn stream(self) -> Result<ViewStream<O>, AddHandlerError> {
        // If one refuses, the streams of the others are dropped, and hear no more.
        let streams = self.members().map(Subscribe::<O, SharedInformer<O>>::stream).collect::<Result<Vec<_>, _>>()?;
        let parts = streams.iter().map(EventStream::registration).cloned().collect();
        Ok(ViewStream::new(streams, Registration::together(Arc::clone(&self.target.name), parts)))
    }

    fn add_to_all(self, handler: impl EventHandler<O>, place: Place) -> Result<Registration, AddHandlerError> {
        let members = self.target.informers().len();
        let shared = Arc::new(ForAll { handler, unsynced: AtomicUsize::new(members) });
        let turn = Turn::default();
        // Nobody is told before all have accepted: so whoever is refused has heard nothing.
        let held = turn.try_take();
        let mut parts = Vec::with_capacity(members);
        for member in self.members() {
            match member.add_as(Arc::clone(&shared), place, Some(turn.clone())) {
                Ok(registration) => parts.push(registration),
                Err(error) => {
                    parts.iter().for_each(Registration::remove);
                    return Err(error);
                }
            }
        }
        drop(held);
        Ok(Registration::together(Arc::clone(&self.target.name), parts))
    }

    fn members(&self) -> impl Iterator<Item = Subscribe<'_, O>> {
        self.target.informers().map(|target| Subscribe { target, wishes: self.wishes.clone() })
    }
}

/// A handler that several informers call, as if they were one. They take turns, so calls never meet.
struct ForAll<H> {
    handler: H,
    /// How many members have not told all of what was there at first.
    unsynced: AtomicUsize,
}

impl<O, H: EventHandler<O>> EventHandler<O> for ForAll<H> {
    fn on_add(&self, object: &Arc<Cached<O>>, origin: Origin) {
        self.handler.on_add(object, origin);
    }

    fn on_update(&self, old: &Arc<Cached<O>>, new: &Arc<Cached<O>>) {
        self.handler.on_update(old, new);
    }

    fn on_delete(&self, deleted: &Deleted<O>) {
        self.handler.on_delete(deleted);
    }

    fn on_resync(&self, object: &Arc<Cached<O>>) {
        self.handler.on_resync(object);
    }

    fn on_synced(&self) {
        if self.unsynced.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.handler.on_synced();
        }
    }

    fn name(&self) -> String {
        self.handler.name()
    }
}

//! Registers a handler or stream with an informer, or with all members of a view.
//!
//! - **In:** a handler whose object type is erased; the settings of a handler or stream.
//! - **Out:** a registration that covers all members.
//! - **Knows nothing of:** the type of the objects, and how events are delivered.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::warn;

use super::AnyInformer;
use crate::{
    Event,
    error::RequestError,
    informer::pipeline::{ApplyState, Core, InsideApplyLock},
    object::Erased,
    subscribers::{
        AnyHandler, BufferPolicy, CallLock, Clusters, Filter, Listener, ListenerStream, MemberStreams, Registration,
        Worker, WorkerKind,
    },
};

/// The informers that a handler or stream is registered with: one informer, or the members of a view.
pub(super) struct Members<'a> {
    /// The name of the informer or view.
    pub(super) name: &'a Arc<str>,
    /// Not empty.
    pub(super) informers: Vec<&'a AnyInformer>,
}

/// The settings of a handler or stream.
#[derive(Clone)]
pub(super) struct SubscribeOptions {
    pub(super) name: Arc<str>,
    pub(super) filter: Option<Filter>,
    /// `None` means the informer's period, zero means never.
    pub(super) resync: Option<Duration>,
    pub(super) policy: BufferPolicy,
}

impl Members<'_> {
    /// Registers a handler with all members, or with none if a member refuses it.
    pub(super) fn add_handler(
        &self,
        handler: AnyHandler,
        options: SubscribeOptions,
        kind: WorkerKind,
    ) -> Result<Registration, RequestError> {
        if let [only] = self.informers[..] {
            return only.add_handler(handler, options, kind, None);
        }
        let members = self.informers.len();
        let shared = Arc::new(SharedHandler { unsynced: AtomicUsize::new(members), handler: Mutex::new(handler) });
        let handlers = std::iter::repeat_with(|| Arc::clone(&shared).handler_of_member()).take(members).collect();
        self.add_handlers(handlers, &options, kind)
    }

    /// Registers a handler with each member, or none if a member refuses it. One of them is called at a time.
    pub(super) fn add_handlers(
        &self,
        handlers: Vec<AnyHandler>,
        options: &SubscribeOptions,
        kind: WorkerKind,
    ) -> Result<Registration, RequestError> {
        let call_lock = CallLock::default();
        // The handler is not called before all members have accepted it: if one refuses, it has received no event.
        let held = call_lock.try_lock();
        let mut parts = Vec::with_capacity(self.informers.len());
        for (member, handler) in self.informers.iter().zip(handlers) {
            match member.add_handler(handler, options.clone(), kind, Some(call_lock.clone())) {
                Ok(registration) => parts.push(registration),
                Err(error) => {
                    parts.iter().for_each(Registration::remove);
                    return Err(error);
                }
            }
        }
        drop(held);
        Ok(self.registration(&parts))
    }

    /// Registers one stream of the events of all members.
    pub(super) fn add_stream(&self, options: SubscribeOptions) -> Result<(MemberStreams, Registration), RequestError> {
        if let [only] = self.informers[..] {
            return only.add_stream(options).map(|(stream, registration)| (MemberStreams::One(stream), registration));
        }
        // If a member refuses, the streams of the other members are dropped, which unregisters them.
        let added = self.informers.iter().map(|member| member.add_stream(options.clone()));
        let (streams, parts): (Vec<_>, Vec<_>) = added.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        Ok((MemberStreams::several(streams), self.registration(&parts)))
    }

    /// Combines the registrations of all members.
    fn registration(&self, parts: &[Registration]) -> Registration {
        let mut clusters = self.informers.iter().map(|member| member.cluster());
        let first = clusters.next();
        let has_one = clusters.all(|cluster| Some(cluster) == first);
        let clusters = if has_one { Clusters::One } else { Clusters::Several };
        Registration::group(Arc::clone(self.name), clusters, parts)
    }
}

/// Registers a handler with each informer, or none if an informer refuses it. One of them is called at a time.
pub(crate) fn add_batch_handlers(
    informers: &[AnyInformer],
    handlers: Vec<AnyHandler>,
    name: &Arc<str>,
) -> Result<Registration, RequestError> {
    let names: Vec<_> = informers.iter().map(|informer| &**informer.name()).collect();
    let members = Members { name: &names.join(", ").into(), informers: informers.iter().collect() };
    let (filter, resync, policy) = (None, Some(Duration::ZERO), BufferPolicy::Unbounded);
    let options = SubscribeOptions { name: Arc::clone(name), filter, resync, policy };
    members.add_handlers(handlers, &options, WorkerKind::Task)
}

/// A handler that all members of a view share.
struct SharedHandler {
    /// Never contended: a worker calls the handler under the `CallLock`.
    handler: Mutex<AnyHandler>,
    /// The number of members that have not delivered their `Synced` event.
    unsynced: AtomicUsize,
}

impl SharedHandler {
    /// Returns the handler for one member.
    fn handler_of_member(self: Arc<Self>) -> AnyHandler {
        let is_of_events = matches!(*self.handler.lock(), AnyHandler::OfEvents(_));
        match is_of_events {
            true => AnyHandler::OfEvents(Box::new(move |event| match &mut *self.handler.lock() {
                AnyHandler::OfEvents(callback) if !self.hides(event) => callback(event),
                AnyHandler::OfEvents(_) | AnyHandler::OfBatches { .. } => None,
            })),
            false => {
                let callback = Box::new(move |events: &[Event<Erased>]| match &mut *self.handler.lock() {
                    // `Synced` is a batch of its own.
                    AnyHandler::OfBatches { callback, .. } if !events.iter().any(|event| self.hides(event)) => {
                        callback(events);
                    }
                    AnyHandler::OfEvents(_) | AnyHandler::OfBatches { .. } => {}
                });
                AnyHandler::OfBatches { callback, after: None }
            }
        }
    }

    /// Whether the handler does not receive the event: it receives `Synced` once, when the last member is synced.
    fn hides(&self, event: &Event<Erased>) -> bool {
        match event {
            Event::Synced => self.unsynced.fetch_sub(1, Ordering::AcqRel) > 1,
            Event::Added { .. } | Event::Updated { .. } | Event::Resynced(_) | Event::Deleted(_) => false,
        }
    }
}

impl AnyInformer {
    /// Registers a handler. `call_lock` is `Some` if the handler is registered with other informers too.
    fn add_handler(
        &self,
        handler: AnyHandler,
        mut options: SubscribeOptions,
        kind: WorkerKind,
        call_lock: Option<CallLock>,
    ) -> Result<Registration, RequestError> {
        let filter = options.filter.take();
        let make_worker = |listener| Some(Worker::new(listener, handler, filter, kind, call_lock));
        self.register_listener(options, make_worker).map(|(_, registration)| registration)
    }

    /// Registers a stream.
    fn add_stream(&self, mut options: SubscribeOptions) -> Result<(ListenerStream, Registration), RequestError> {
        let filter = options.filter.take();
        let (listener, registration) = self.register_listener(options, |_| None)?;
        Ok((ListenerStream::new(listener, filter), registration))
    }

    /// Registers the listener of a handler or stream. The worker or the stream has the filter, not the listener. `make_worker` returns `None` for
    /// a stream, which has no worker.
    fn register_listener(
        &self,
        options: SubscribeOptions,
        make_worker: impl FnOnce(Arc<Listener>) -> Option<Worker>,
    ) -> Result<(Arc<Listener>, Registration), RequestError> {
        let SubscribeOptions { name, resync, policy, .. } = options;
        let core = self.core();
        // Owned by this function: if the informer refuses the handler, it is dropped after the lock is released.
        let mut not_yet_registered = Some(make_worker);
        let registered = core.with_apply_lock(|ApplyState { processor, .. }| {
            if processor.is_closed() || core.phase.lock().is_stopping() {
                return None;
            }
            let make_worker = not_yet_registered.take()?;
            let make = |owner| Listener::new(owner, core.unique_name(name), Arc::clone(&core.name), policy);
            let (listener, resync_period) = processor.add_listener(make, resync, core.lister.list(), Instant::now());
            core.add_listener(Arc::clone(&listener), processor);
            // Still under the apply lock: otherwise the informer's start could miss this worker, or the worker could start after the stop.
            if let Some(worker) = make_worker(Arc::clone(&listener)) {
                listener.set_worker(worker);
            }
            if core.workers.has_started()
                && let Some(worker) = listener.take_worker()
            {
                core.workers.run(worker);
            }
            Some((listener, resync_period))
        });
        drop(not_yet_registered);
        // `listeners` also removes ended listeners from its list. That is the purpose of this call; its result is not needed.
        drop(core.listeners());
        let informer = || Arc::clone(&core.name);
        let (listener, resync_period) = match registered {
            Ok(Some(registered)) => registered,
            Ok(None) => return Err(RequestError::Stopped { informer: informer() }),
            Err(InsideApplyLock) => return Err(RequestError::InsideIndexFunction { informer: informer() }),
        };
        if let Some(requested) = resync.filter(|period| !period.is_zero())
            && resync_period.is_none_or(|granted| granted > requested)
        {
            let warning = match resync_period {
                None => {
                    "the informer does not resync, so the handler's resync period has no effect; set a period with \
                     `InformerBuilder::resync_every` or `FactoryBuilder::resync_every`"
                }
                Some(_) => {
                    "the handler's resync period is raised: it is at least a second, and not shorter than the period at which a \
                     running informer checks for resyncs"
                }
            };
            let granted = resync_period.map(tracing::field::debug);
            warn!(informer = &*core.name, handler = &**listener.name(), ?requested, granted, "{warning}");
        }
        let informer: Weak<Core> = Arc::downgrade(core);
        let registration = Registration::new(Arc::clone(&listener), informer, resync_period);
        Ok((listener, registration))
    }
}

//! What adding a handler gives, to one informer or to several: is it synced, how far behind is it, remove it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::TryFutureExt;
use futures_util::future::BoxFuture;
use futures_util::future::join_all;
use futures_util::future::try_join_all;

use super::Listener;
use super::calling;
use super::listener::Ended;

/// One handler or stream of one informer, or of all members of a view. Dropping it changes nothing: the handler stays.
#[derive(Clone)]
pub struct Registration {
    listener: Arc<dyn Control>,
    resync: Option<Duration>,
}

/// How a handler is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandlerStatus {
    /// What it is called.
    pub name: Arc<str>,
    /// Whether everything of the initial list was delivered.
    pub is_synced: bool,
    /// How many events wait for it.
    pub backlog: usize,
    /// How many events it was given, the end of the initial list among them.
    pub delivered: u64,
    /// How many events others stand for, because it was slow and wants them coalesced.
    pub coalesced: u64,
    /// How often it, its filter or one of its objects (when it was dropped) has panicked.
    pub panics: u64,
    /// How many resyncs were skipped because it had not taken all events of the one before: it is slower than its resync period.
    pub resyncs_skipped: u64,
}

/// Why a handler will never be synced.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotSynced {
    /// It was removed before.
    #[error("{handler} was removed from informer {informer} before all of the initial list was delivered")]
    Removed {
        /// Of which informer.
        informer: Arc<str>,
        /// Which handler.
        handler: Arc<str>,
    },
    /// The informer was stopped before.
    #[error("informer {informer} stopped before all of the initial list was delivered to {handler}")]
    Stopped {
        /// Which informer.
        informer: Arc<str>,
        /// Which handler.
        handler: Arc<str>,
    },
}

/// A callback waits for its own end: that would be for ever.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("{name} cannot be waited for from inside one of its own callbacks; remove it, or wait in another task")]
pub struct InsideCallback {
    /// What was to be waited for.
    pub name: Arc<str>,
}

/// A listener of one informer, or those of several.
trait Control: Send + Sync {
    fn status(&self) -> HandlerStatus;
    fn informer(&self) -> Arc<str>;
    fn remove(&self);
    fn is_removed(&self) -> bool;
    fn is_inside(&self) -> bool;
    fn is_synced(&self) -> bool;
    fn synced(&self) -> BoxFuture<'_, Result<(), Ended>>;
    fn ended(&self) -> BoxFuture<'_, ()>;
}

impl Registration {
    pub(crate) fn new(listener: Arc<Listener>, resync: Option<Duration>) -> Self {
        Self { listener, resync }
    }

    /// What the handler is called.
    pub fn name(&self) -> Arc<str> {
        self.status().name
    }

    /// How it is doing.
    pub fn status(&self) -> HandlerStatus {
        self.listener.status()
    }

    /// How many events wait for it.
    pub fn backlog(&self) -> usize {
        self.status().backlog
    }

    /// How often it is told of everything again, as it was granted when it was added; `None` is never.
    pub fn resync_period(&self) -> Option<Duration> {
        self.resync
    }

    /// Whether the informer is synced, and the handler's calls for all of the initial list have returned. Once true, it stays.
    pub fn is_synced(&self) -> bool {
        self.listener.is_synced()
    }

    /// Waits until [`is_synced`](Self::is_synced).
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// If the handler is removed, or the informer stopped, before that.
    pub async fn synced(&self) -> Result<(), NotSynced> {
        let (informer, handler) = (self.listener.informer(), self.name());
        self.listener.synced().await.map_err(|ended| match ended {
            Ended::Removed => NotSynced::Removed { informer, handler },
            Ended::Stopped => NotSynced::Stopped { informer, handler },
        })
    }

    /// Whether the handler hears nothing any more: it was removed, or the informer stopped (of a view, all of them).
    pub fn is_removed(&self) -> bool {
        self.listener.is_removed()
    }

    /// Removes the handler, also from inside its own callback; a second time it does nothing.
    ///
    /// Nothing is taken for delivery after this has returned; a call that has begun goes on. What waited is dropped.
    pub fn remove(&self) {
        self.listener.remove();
    }

    /// Removes the handler, and waits until its last call has returned.
    ///
    /// # Errors
    ///
    /// From inside one of the handler's own callbacks, which would wait for itself. It is removed all the same.
    pub async fn stop(&self) -> Result<(), InsideCallback> {
        self.remove();
        if self.listener.is_inside() {
            return Err(InsideCallback { name: self.name() });
        }
        self.listener.ended().await;
        Ok(())
    }
}

/// One handler of several informers: it is what all of its parts are.
struct Together {
    /// What the informers are called together.
    informer: Arc<str>,
    parts: Vec<Registration>,
}

impl Registration {
    /// One handler that follows several informers.
    pub(crate) fn together(informer: Arc<str>, parts: Vec<Registration>) -> Self {
        let resync = parts.iter().filter_map(|part| part.resync).max();
        Self { listener: Arc::new(Together { informer, parts }), resync }
    }
}

impl Control for Together {
    fn status(&self) -> HandlerStatus {
        let nothing = HandlerStatus {
            name: self.parts.first().map(Registration::name).unwrap_or_default(),
            is_synced: true,
            backlog: 0,
            delivered: 0,
            coalesced: 0,
            panics: 0,
            resyncs_skipped: 0,
        };
        self.parts.iter().map(Registration::status).fold(nothing, |sum, part| HandlerStatus {
            name: sum.name,
            is_synced: sum.is_synced && part.is_synced,
            backlog: sum.backlog + part.backlog,
            delivered: sum.delivered + part.delivered,
            coalesced: sum.coalesced + part.coalesced,
            panics: sum.panics + part.panics,
            resyncs_skipped: sum.resyncs_skipped + part.resyncs_skipped,
        })
    }

    fn informer(&self) -> Arc<str> {
        Arc::clone(&self.informer)
    }

    fn remove(&self) {
        self.parts.iter().for_each(Registration::remove);
    }

    fn is_removed(&self) -> bool {
        self.parts.iter().all(Registration::is_removed)
    }

    fn is_inside(&self) -> bool {
        self.parts.iter().any(|part| part.listener.is_inside())
    }

    fn is_synced(&self) -> bool {
        self.parts.iter().all(Registration::is_synced)
    }

    fn synced(&self) -> BoxFuture<'_, Result<(), Ended>> {
        try_join_all(self.parts.iter().map(|part| part.listener.synced())).map_ok(drop).boxed()
    }

    fn ended(&self) -> BoxFuture<'_, ()> {
        join_all(self.parts.iter().map(|part| part.listener.ended())).map(drop).boxed()
    }
}

impl Listener {
    pub(crate) fn status(&self) -> HandlerStatus {
        HandlerStatus {
            name: Arc::clone(&self.name),
            is_synced: self.is_synced(),
            backlog: self.backlog(),
            delivered: self.delivered(),
            coalesced: self.saved(),
            panics: self.panics(),
            resyncs_skipped: self.resyncs_skipped(),
        }
    }
}

impl Control for Listener {
    fn status(&self) -> HandlerStatus {
        Listener::status(self)
    }

    fn informer(&self) -> Arc<str> {
        Arc::clone(&self.informer)
    }

    fn remove(&self) {
        self.close(Ended::Removed);
    }

    fn is_removed(&self) -> bool {
        self.is_closed()
    }

    fn is_inside(&self) -> bool {
        calling::is_inside(self.caller)
    }

    fn is_synced(&self) -> bool {
        Listener::is_synced(self)
    }

    fn synced(&self) -> BoxFuture<'_, Result<(), Ended>> {
        Box::pin(Listener::synced(self))
    }

    fn ended(&self) -> BoxFuture<'_, ()> {
        Box::pin(Listener::ended(self))
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registration").field(&self.status()).finish()
    }
}

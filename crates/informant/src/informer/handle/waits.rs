//! Waits until the cache contains a version, an object or a deletion, so that a program can read its own writes; and until an object
//! satisfies a condition.
//!
//! - **In:** a version, a key and version, the identity of a deleted object, or a key and a condition; a time limit.
//! - **Out:** the cached object, or the reason why the wait ended without it.
//! - **Knows nothing of:** how a user's handle looks.

use std::{
    cmp::Ordering,
    sync::{Arc, atomic},
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio::time::timeout;

use super::{AnyInformer, WaitError, WaitTarget};
use crate::{
    Cached, Key, ResourceVersion, Uid,
    informer::pipeline::Core,
    listwatch::Quarantined,
    object::{Erased, Identity},
    subscribers::{NotReached, ReachedVersion},
};

impl AnyInformer {
    /// Waits until the cache contains all changes up to this version.
    pub(crate) async fn caught_up_to(&self, version: &ResourceVersion, within: Duration) -> Result<(), WaitError> {
        self.core().caught_up_to(version, within).await
    }

    /// Waits until the cache shows this version of an object, or a newer one.
    pub(crate) async fn wait_for(
        &self,
        key: &Key,
        version: &ResourceVersion,
        within: Duration,
    ) -> Result<Option<Cached<Erased>>, WaitError> {
        let core = self.core();
        let wait = Wait::new(core, WaitTarget::Object(key.clone(), version.clone()), within);
        wait.until(|| {
            // The cache will not show an object that cannot be decoded, unless it changes again.
            let unreadable = wait.unreadable(key);
            if let Some(bad) = &unreadable
                && (bad.version.is_empty() || wait.is_at_least(&bad.version, version)?)
            {
                return Err(wait.cannot_read(key, bad));
            }
            if let Some(object) = core.lister.get(key)
                && !object.version().is_empty()
                && wait.is_at_least(object.version(), version)?
            {
                return Ok(Some(Some(object)));
            }
            // The reached version is read first: the object that is read after it is at least as new.
            match (wait.has_reached(version)?, unreadable) {
                (true, Some(bad)) => Err(wait.cannot_read(key, &bad)),
                (true, None) if wait.is_certain()? => Ok(Some(core.lister.get(key))),
                (true, None) | (false, _) => Ok(None),
            }
        })
        .await
    }

    /// Waits until the cache shows that this incarnation of an object was deleted.
    pub(crate) async fn wait_until_gone(&self, deleted: &Identity, within: Duration) -> Result<(), WaitError> {
        let core = self.core();
        let wait = Wait::new(core, WaitTarget::Deletion(deleted.key.clone()), within);
        wait.until(|| {
            // A cache that has not reached the object's version cannot show its deletion either.
            if !deleted.version.is_empty() && !wait.has_reached(&deleted.version)? {
                return Ok(None);
            }
            let is_same_incarnation = |uid: &Uid| deleted.may_be_same_incarnation(uid);
            let is_cached = core.lister.get(&deleted.key).is_some_and(|object| is_same_incarnation(object.uid()));
            // A quarantined object still exists.
            let is_there = is_cached || wait.unreadable(&deleted.key).is_some_and(|bad| is_same_incarnation(&bad.uid));
            Ok((!is_there && wait.is_certain()?).then_some(()))
        })
        .await
    }

    /// Waits until the cached state of an object satisfies a condition; `None` is the state of an object that does not exist.
    pub(crate) async fn wait_until(
        &self,
        key: &Key,
        mut condition: impl FnMut(Option<&Cached<Erased>>) -> bool,
        within: Duration,
    ) -> Result<Option<Cached<Erased>>, WaitError> {
        let core = self.core();
        let wait = Wait::for_condition(core, key.clone(), within);
        let waited = wait.until(|| {
            if !core.is_synced() {
                return Ok(None);
            }
            let object = core.lister.get(key);
            // A quarantined object exists, although the cache may not have it.
            if object.is_none() && (wait.unreadable(key).is_some() || !wait.is_certain()?) {
                return Ok(None);
            }
            Ok(condition(object.as_ref()).then_some(object))
        });
        match (waited.await, wait.unreadable(key)) {
            // The object may have satisfied the condition on the server.
            (Err(WaitError::TimedOut { .. }), Some(bad)) => Err(wait.cannot_read(key, &bad)),
            (waited, _) => waited,
        }
    }
}

impl Core {
    async fn caught_up_to(&self, version: &ResourceVersion, within: Duration) -> Result<(), WaitError> {
        let wait = Wait::new(self, WaitTarget::Version(version.clone()), within);
        wait.until(|| Ok(wait.has_reached(version)?.then_some(()))).await
    }
}

impl ReachedVersion for Core {
    fn reached<'a>(&'a self, version: &'a ResourceVersion) -> BoxFuture<'a, Result<(), NotReached>> {
        Box::pin(async move {
            let reached = self.caught_up_to(version, Duration::MAX).await;
            // The version is visible before the events are distributed, while `apply_lock` is held. An error means that an index function waits.
            let _ = self.with_apply_lock(|_| ());
            reached.map_err(|error| match error {
                WaitError::HistoryChanged { .. } => NotReached::HistoryChanged,
                WaitError::NotComparable { source, .. } => NotReached::NotComparable(source),
                WaitError::Stopped { .. } => NotReached::Stopped,
                // A wait for a version has none of these errors, and the time limit is decades away.
                WaitError::TimedOut { .. }
                | WaitError::Quarantined { .. }
                | WaitError::MissingNameOrVersion { .. }
                | WaitError::OutsideView { .. } => NotReached::Stopped,
            })
        })
    }

    fn distributed(&self) -> ResourceVersion {
        let version = self.version().unwrap_or_default();
        let _ = self.with_apply_lock(|_| ());
        version
    }
}

/// One wait.
struct Wait<'a> {
    core: &'a Core,
    awaited: WaitTarget,
    within: Duration,
    /// The number of history changes when the wait began; `None` if the wait does not depend on the server's history.
    history_changes: Option<u64>,
}

impl<'a> Wait<'a> {
    fn new(core: &'a Core, awaited: WaitTarget, within: Duration) -> Self {
        let history_changes = Some(core.history_changes.load(atomic::Ordering::Acquire));
        Self { core, awaited, within, history_changes }
    }

    /// A wait that a history change does not end: a restored object can satisfy the condition, too.
    fn for_condition(core: &'a Core, key: Key, within: Duration) -> Self {
        Self { core, awaited: WaitTarget::Condition(key), within, history_changes: None }
    }

    /// Fails if the history has changed since the wait began.
    fn check_history(&self) -> Result<(), WaitError> {
        let changes = self.core.history_changes.load(atomic::Ordering::Acquire);
        if self.history_changes.is_none_or(|before| before == changes) {
            return Ok(());
        }
        Err(WaitError::HistoryChanged {
            informer: self.informer(),
            awaited: self.awaited.clone(),
            cache: self.core.version(),
        })
    }

    /// Calls `look` now and after every cache write, until it returns a value or an error, the informer stops, or the time limit passes.
    async fn until<R>(&self, mut look: impl FnMut() -> Result<Option<R>, WaitError>) -> Result<R, WaitError> {
        let mut look = || {
            self.check_history()?;
            let found = look()?;
            // The history may have changed between the first check and `look`.
            self.check_history()?;
            Ok(found)
        };
        let waited = timeout(self.within, self.core.wait_for_cache(|| look().transpose())).await;
        let (informer, awaited, cache) = (self.informer(), self.awaited.clone(), self.core.version());
        match waited {
            Ok(Some(found)) => found,
            Ok(None) => Err(WaitError::Stopped { informer, awaited, cache }),
            Err(_) => {
                let status = self.core.source_status();
                let reason = status.failing_since.and(status.last_error);
                Err(WaitError::TimedOut { informer, awaited, within: self.within, cache, reason })
            }
        }
    }

    fn informer(&self) -> Arc<str> {
        Arc::clone(&self.core.name)
    }

    /// Whether the cache contains all changes up to a version.
    fn has_reached(&self, version: &ResourceVersion) -> Result<bool, WaitError> {
        match self.core.version().filter(|reached| !reached.is_empty()) {
            Some(reached) => self.is_at_least(&reached, version),
            // There is no reached version yet. A version that cannot be compared with itself can never be compared: an error.
            None => self.is_at_least(version, version).map(|_| false),
        }
    }

    fn is_at_least(&self, reached: &ResourceVersion, version: &ResourceVersion) -> Result<bool, WaitError> {
        match reached.compare(version) {
            Ok(order) => Ok(order != Ordering::Less),
            Err(source) => Err(WaitError::NotComparable { informer: self.informer(), source }),
        }
    }

    /// The quarantined state of the object, if it is in quarantine.
    fn unreadable(&self, key: &Key) -> Option<Quarantined> {
        self.core.started.get()?.reflector.quarantined_object(key)
    }

    /// Whether the cache has reached the version at which objects were last released from quarantine. The source is ahead of the cache, so
    /// before that an object may be in neither of them.
    fn is_certain(&self) -> Result<bool, WaitError> {
        let released = self.core.started.get().and_then(|started| started.reflector.released());
        match released.filter(|released| !released.is_empty()) {
            Some(released) => self.has_reached(&released),
            None => Ok(true),
        }
    }

    fn cannot_read(&self, key: &Key, bad: &Quarantined) -> WaitError {
        WaitError::Quarantined { informer: self.informer(), key: key.clone(), source: Arc::clone(&bad.error) }
    }
}

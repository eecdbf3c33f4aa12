//! Waits until the cache contains a version, an object or a deletion, so that a program can read its own writes; and until an object
//! satisfies a condition.
//!
//! - **In:** a version, a key and version, the identity of a deleted object, or a key and a condition; a time limit.
//! - **Out:** the cached object, or the reason why the wait ended without it.
//! - **Knows nothing of:** the type of the objects.

use std::{
    cmp::Ordering,
    sync::{Arc, atomic},
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio::time::timeout;

use super::{AnyInformer, Written};
use crate::{
    Cached, Key, ResourceVersion, Uid,
    error::{ScopeMismatch, SyncError, WaitError, WaitTarget},
    informer::pipeline::Core,
    listwatch::Quarantined,
    object::{Erased, Identity},
    subscribers::CacheProgress,
};

impl AnyInformer {
    /// Waits until the cache shows an object as it was written, or in a newer state.
    ///
    /// An object that the selectors exclude can be in the cache, as it was before the write: then this waits for its removal.
    pub(crate) async fn wait_for_write(
        &self,
        written: &Written<'_>,
        within: Duration,
    ) -> Result<Option<Cached<Erased>>, WaitError> {
        let Identity { key, version, .. } = &written.identity;
        let (core, wait) =
            (self.core(), Wait::new(self.core(), WaitTarget::Object(key.clone(), version.clone()), within));
        let mismatch = core.selection.as_ref().and_then(|selection| written.mismatch(selection));
        let is_over = |mismatch: &ScopeMismatch| match mismatch {
            ScopeMismatch::Kind { .. } | ScopeMismatch::Namespace { .. } => true,
            ScopeMismatch::Labels { .. } | ScopeMismatch::Fields { .. } => {
                let is_known = core.lister.get(key).is_some() || wait.quarantined(key).is_some();
                // A cache that has reached the version may have removed the object already.
                !is_known && !matches!(wait.has_reached(version), Ok(true))
            }
        };
        match mismatch.filter(is_over) {
            Some(reason) => Err(self.outside_scope(key, reason)),
            None => self.wait_for(key, version, within).await,
        }
    }

    fn outside_scope(&self, key: &Key, reason: ScopeMismatch) -> WaitError {
        WaitError::OutsideScope { informer: Arc::clone(self.name()), key: key.clone(), reason }
    }

    /// Waits until the cache shows this version of an object, or a newer one.
    pub(crate) async fn wait_for(
        &self,
        key: &Key,
        version: &ResourceVersion,
        within: Duration,
    ) -> Result<Option<Cached<Erased>>, WaitError> {
        let core = self.core();
        if let Some(namespace) = core.namespace.as_ref().filter(|namespace| key.namespace() != Some(namespace)) {
            return Err(self.outside_scope(key, ScopeMismatch::Namespace { informer: Arc::clone(namespace) }));
        }
        let wait = Wait::new(core, WaitTarget::Object(key.clone(), version.clone()), within);
        wait.until(|| {
            // The cache will not show an object that cannot be decoded, unless it changes again.
            let quarantined = wait.quarantined(key);
            if let Some(object) = &quarantined
                && (object.version.is_empty() || wait.is_at_least(&object.version, version)?)
            {
                return Err(wait.quarantined_error(key, object));
            }
            if let Some(object) = core.lister.get(key)
                && !object.version().is_empty()
                && wait.is_at_least(object.version(), version)?
            {
                return Ok(Some(Some(object)));
            }
            // Checks the reached version, and reads the object again afterwards: its state then includes all changes up to `version`.
            match (wait.has_reached(version)?, quarantined) {
                (true, Some(object)) => Err(wait.quarantined_error(key, &object)),
                (true, None) if wait.has_applied_released_objects()? => Ok(Some(core.lister.get(key))),
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
            let exists = is_cached || wait.quarantined(&deleted.key).is_some_and(|it| is_same_incarnation(&it.uid));
            Ok((!exists && wait.has_applied_released_objects()?).then_some(()))
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
            if object.is_none() && (wait.quarantined(key).is_some() || !wait.has_applied_released_objects()?) {
                return Ok(None);
            }
            Ok(condition(object.as_ref()).then_some(object))
        });
        match (waited.await, wait.quarantined(key)) {
            // The object may have satisfied the condition on the server.
            (Err(WaitError::TimedOut { .. }), Some(object)) => Err(wait.quarantined_error(key, &object)),
            (waited, _) => waited,
        }
    }
}

impl Core {
    /// Waits until the cache contains all changes up to this version.
    pub(super) async fn caught_up_to(&self, version: &ResourceVersion, within: Duration) -> Result<(), WaitError> {
        let wait = Wait::new(self, WaitTarget::Version(version.clone()), within);
        wait.until(|| Ok(wait.has_reached(version)?.then_some(()))).await
    }
}

impl CacheProgress for Core {
    fn wait_until_distributed<'a>(&'a self, version: &'a ResourceVersion) -> BoxFuture<'a, Result<(), WaitError>> {
        Box::pin(async move {
            let reached = self.caught_up_to(version, Duration::MAX).await;
            // The cache shows the version before the events up to it are distributed; `apply_lock` is held until they are. Taking the lock waits
            // for that. It fails only inside an index function; then the call returns without waiting.
            let _ = self.with_apply_lock(|_| ());
            reached
        })
    }

    fn first_list_failed(&self) -> BoxFuture<'_, SyncError> {
        Box::pin(async {
            match self.first_list(self.fails_fast).await {
                Some(Err(reason)) => SyncError::Permanent { informer: Arc::clone(&self.name), reason },
                Some(Ok(())) | None => std::future::pending().await,
            }
        })
    }

    fn distributed_version(&self) -> ResourceVersion {
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

    /// Creates a wait that goes on after a history change: an object of the restored backup can satisfy the condition, too.
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
            handler: None,
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
            Ok(None) => Err(WaitError::Stopped { informer, handler: None, awaited, cache }),
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
            // There is no reached version yet. Comparing the version with itself returns the error at once if the version is not a number.
            None => self.is_at_least(version, version).map(|_| false),
        }
    }

    fn is_at_least(&self, reached: &ResourceVersion, version: &ResourceVersion) -> Result<bool, WaitError> {
        match reached.compare(version) {
            Some(order) => Ok(order != Ordering::Less),
            None => {
                let (informer, reached, awaited) = (self.informer(), reached.clone(), version.clone());
                Err(WaitError::NotComparable { informer, reached, awaited })
            }
        }
    }

    /// The quarantined state of the object, if it is in quarantine.
    fn quarantined(&self, key: &Key) -> Option<Quarantined> {
        self.core.started.get()?.reflector.quarantine.get(key)
    }

    /// Whether the cache has reached the version at which objects last left the quarantine. The reflector removes an object from the
    /// quarantine before the cache contains it. Until the cache has reached that version, an object may exist without being in the
    /// quarantine or the cache.
    fn has_applied_released_objects(&self) -> Result<bool, WaitError> {
        let released = self.core.started.get().and_then(|started| started.reflector.quarantine.released_version());
        match released.filter(|released| !released.is_empty()) {
            Some(released) => self.has_reached(&released),
            None => Ok(true),
        }
    }

    fn quarantined_error(&self, key: &Key, object: &Quarantined) -> WaitError {
        WaitError::Quarantined { informer: self.informer(), key: key.clone(), source: Arc::clone(&object.error) }
    }
}

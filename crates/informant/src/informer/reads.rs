//! Reading one's own writes: waiting until the cache has seen them.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::timeout;

use super::AnyInformer;
use super::Awaited;
use super::WaitError;
use super::core::Core;
use crate::Cached;
use crate::Key;
use crate::ResourceVersion;
use crate::Uid;
use crate::listwatch::Quarantined;
use crate::object::Erased;
use crate::object::Identity;
use crate::subscribers::NotReached;
use crate::subscribers::ReachedVersion;

impl AnyInformer {
    /// Waits until the cache has everything up to this version.
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
        let wait = Wait::new(core, Awaited::Object(key.clone(), version.clone()), within);
        wait.until(|| {
            // What cannot be read will not be shown, unless it changes again.
            let unreadable = wait.unreadable(key);
            if let Some(bad) = &unreadable
                && (bad.version.is_empty() || wait.is_at_least(&bad.version, version)?)
            {
                return Err(wait.cannot_read(key, bad).into());
            }
            if let Some(object) = core.lister.get(key)
                && !object.version().is_empty()
                && wait.is_at_least(object.version(), version)?
            {
                return Ok(Some(object));
            }
            // The version first: what is read after it is of that version at least.
            match (wait.has_reached(version)?, unreadable) {
                (true, Some(bad)) => Err(wait.cannot_read(key, &bad).into()),
                (true, None) if wait.is_certain()? => Ok(core.lister.get(key)),
                (true, None) | (false, _) => Err(Unseen),
            }
        })
        .await
    }

    /// Waits until the cache has seen that this incarnation of an object is over.
    pub(crate) async fn wait_until_gone(&self, deleted: &Identity, within: Duration) -> Result<(), WaitError> {
        let core = self.core();
        let wait = Wait::new(core, Awaited::Deletion(deleted.key.clone()), within);
        wait.until(|| {
            // A cache that has not seen the object yet has not seen its end either.
            if !deleted.version.is_empty() && !wait.has_reached(&deleted.version)? {
                return Err(Unseen);
            }
            let is_same_life = |uid: &Uid| deleted.may_be_same_life(uid);
            let is_cached = core.lister.get(&deleted.key).is_some_and(|object| is_same_life(object.uid()));
            // What cannot be read is there all the same.
            let is_there = is_cached || wait.unreadable(&deleted.key).is_some_and(|bad| is_same_life(&bad.uid));
            match !is_there && wait.is_certain()? {
                true => Ok(()),
                false => Err(Unseen),
            }
        })
        .await
    }
}

impl Core {
    async fn caught_up_to(&self, version: &ResourceVersion, within: Duration) -> Result<(), WaitError> {
        let wait = Wait::new(self, Awaited::Version(version.clone()), within);
        wait.until(|| wait.has_reached(version)?.then_some(()).ok_or(Unseen)).await
    }
}

impl ReachedVersion for Core {
    fn reached<'a>(&'a self, version: &'a ResourceVersion) -> BoxFuture<'a, Result<(), NotReached>> {
        Box::pin(async move {
            let reached = self.caught_up_to(version, Duration::MAX).await;
            // The version is visible before the events are distributed, within one turn. An error means that an index function waits.
            let _ = self.in_turn(|_| ());
            reached.map_err(|error| match error {
                WaitError::HistoryChanged { .. } => NotReached::HistoryChanged,
                WaitError::NotComparable { source, .. } => NotReached::NotComparable(source),
                WaitError::Stopped { .. } => NotReached::Stopped,
                // A wait for a version has none of these errors, and the time limit is decades away.
                WaitError::TimedOut { .. }
                | WaitError::Quarantined { .. }
                | WaitError::NotWritten { .. }
                | WaitError::Elsewhere { .. } => NotReached::Stopped,
            })
        })
    }
}

/// Somebody who waits.
struct Wait<'a> {
    core: &'a Core,
    awaited: Awaited,
    within: Duration,
    /// The number of history changes when the wait began.
    history_changes: u64,
}

/// Why the waiting goes on, or does not.
enum NotYet {
    Unseen,
    Never(WaitError),
}
use NotYet::Never;
use NotYet::Unseen;

impl From<WaitError> for NotYet {
    fn from(error: WaitError) -> Self {
        Never(error)
    }
}

impl<'a> Wait<'a> {
    fn new(core: &'a Core, awaited: Awaited, within: Duration) -> Self {
        Self { core, awaited, within, history_changes: core.history_changes.load(atomic::Ordering::Acquire) }
    }

    /// Looks whenever the cache has moved.
    async fn until<R>(&self, mut look: impl FnMut() -> Result<R, NotYet>) -> Result<R, WaitError> {
        let looking = async {
            loop {
                let moved = self.core.moved.notified();
                tokio::pin!(moved);
                // Enlisted before looking, so that no write can slip in between unnoticed.
                moved.as_mut().enable();
                if self.core.history_changes.load(atomic::Ordering::Acquire) != self.history_changes {
                    return Err(WaitError::HistoryChanged {
                        informer: self.informer(),
                        awaited: self.awaited.clone(),
                        cache: self.core.version(),
                    });
                }
                match look() {
                    Ok(result) => return Ok(result),
                    Err(Never(error)) => return Err(error),
                    Err(Unseen) => {}
                }
                if self.core.is_closed() {
                    return Err(WaitError::Stopped {
                        informer: self.informer(),
                        awaited: self.awaited.clone(),
                        cache: self.core.version(),
                    });
                }
                moved.await;
            }
        };
        timeout(self.within, looking).await.unwrap_or_else(|_| {
            let status = self.core.source_status();
            Err(WaitError::TimedOut {
                informer: self.informer(),
                awaited: self.awaited.clone(),
                within: self.within,
                cache: self.core.version(),
                reason: status.failing_since.and(status.last_error),
            })
        })
    }

    fn informer(&self) -> Arc<str> {
        Arc::clone(&self.core.name)
    }

    /// Whether the cache has everything up to a version.
    fn has_reached(&self, version: &ResourceVersion) -> Result<bool, WaitError> {
        match self.core.version().filter(|reached| !reached.is_empty()) {
            Some(reached) => self.is_at_least(&reached, version),
            // Nothing to compare with yet, but what cannot be compared with itself can be with nothing.
            None => self.is_at_least(version, version).map(|_| false),
        }
    }

    fn is_at_least(&self, reached: &ResourceVersion, version: &ResourceVersion) -> Result<bool, WaitError> {
        match reached.compare(version) {
            Ok(order) => Ok(order != Ordering::Less),
            Err(source) => Err(WaitError::NotComparable { informer: self.informer(), source }),
        }
    }

    /// The object, if it is there in a state that cannot be read.
    fn unreadable(&self, key: &Key) -> Option<Quarantined> {
        self.core.source.get()?.reflector.quarantined_object(key)
    }

    /// Whether the cache has come as far as what is said of objects that cannot be read: the source, which says it, is ahead.
    fn is_certain(&self) -> Result<bool, WaitError> {
        let released = self.core.source.get().and_then(|source| source.reflector.released());
        match released.filter(|released| !released.is_empty()) {
            Some(released) => self.has_reached(&released),
            None => Ok(true),
        }
    }

    fn cannot_read(&self, key: &Key, bad: &Quarantined) -> WaitError {
        WaitError::Quarantined { informer: self.informer(), key: key.clone(), source: Arc::clone(&bad.error) }
    }
}

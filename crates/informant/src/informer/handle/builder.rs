//! The settings of a shared informer.

use std::{marker::PhantomData, sync::Arc, time::Duration};

use tracing::warn;

use super::{AnyInformer, SharedInformer};
#[cfg(feature = "packing")]
use crate::object::{MemoryBudget, Packing};
use crate::{
    informer::{
        audit::{LONGEST_PERIOD, SHORTEST_PERIOD},
        pipeline::{Core, Unstarted},
    },
    listwatch::{ListWatchError, Quarantined, ReflectorBuilder, ReflectorSettings, ServerHealth, TransformResult},
    object::{FieldPath, ObjectMemory},
};

/// A builder for a [`SharedInformer`]; [`SharedInformer::builder`] returns it.
#[must_use = "call `build` to create the informer"]
pub struct InformerBuilder<O> {
    builder: AnyInformerBuilder,
    object_type: PhantomData<fn(O) -> O>,
}

/// The settings of an informer whose object type is erased.
pub(crate) struct AnyInformerBuilder {
    pub(crate) reflector: ReflectorSettings,
    pub(crate) resync: Option<Duration>,
    pub(crate) fails_fast: bool,
    pub(crate) audit: Option<Duration>,
    pub(crate) name: Option<Arc<str>>,
    /// What all informers of the factory may take together; `None` if there is no limit.
    #[cfg(feature = "packing")]
    pub(crate) memory_budget: Option<Arc<MemoryBudget>>,
}

impl<O: Send + Sync + 'static> InformerBuilder<O> {
    /// Adds the object type to settings without one.
    pub(crate) fn from_any(builder: AnyInformerBuilder) -> Self {
        Self { builder, object_type: PhantomData }
    }

    /// Erases the object type.
    pub(crate) fn into_any(self) -> AnyInformerBuilder {
        self.builder
    }

    /// Sets the name of the informer in logs, errors and metrics. Default: the name of the source, such as `pods`.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.builder.name = Some(name.into());
        self
    }

    /// Replays the whole cache to each handler once per `period`. A handler can set its own period. The shortest period is one second; a
    /// shorter one is raised, with a warning. A resync sends no request to the server. A handler that has not received all events of its last resync skips the next one; see
    /// [`Subscribe::resync_every`](super::Subscribe::resync_every). Zero means never. Default: never; then the periods that handlers set
    /// have no effect.
    pub fn resync_every(mut self, period: Duration) -> Self {
        self.builder.resync = Some(period);
        self
    }

    /// Makes [`synced`](SharedInformer::synced) return an error instead of waiting, if a list fails because of missing permissions, an unknown kind or a refused
    /// connection; see [`ListWatchError::is_transient`]. The informer goes on retrying. Default: `synced` waits until a list succeeds.
    pub fn fail_fast(mut self) -> Self {
        self.builder.fails_fast = true;
        self
    }

    /// Compares the cache with the server once per `period`, 10 % earlier or later, and lists again if the cache is wrong. So it bounds how long a
    /// wrong cache can last, whatever made it wrong. Zero means never. Default: never, except for one audit about ten minutes after the server's
    /// history changed, as by a restored backup. The shortest period is five minutes; a shorter one is raised, with a warning.
    ///
    /// An audit requests the metadata of all objects in pages of 500, ten pages a second at most, and compares uid and version. It cannot find a
    /// different content with the same uid and version. Up to ten objects that differ are looked up one by one. If that confirms a difference, the informer
    /// reports [`SourceError::CacheDiffers`](crate::listwatch::SourceError::CacheDiffers) as a failure, and lists everything again. An
    /// audit that fails is repeated after five minutes, then less often, up to once an hour; the log has a warning.
    ///
    /// Choose a period of an hour or more for large caches: an audit costs the server about as much as a list of metadata. It needs
    /// about 100 bytes of memory for each object while it runs. One informer of a client is audited at a time. A source without comparable versions, or without
    /// [lookups](crate::listwatch::ListWatch::look_up), is not audited; the log has a warning then.
    pub fn audit_every(mut self, period: Duration) -> Self {
        self.builder.audit = Some(period);
        self
    }

    /// Removes these fields from every object before it is decoded; see [`ReflectorBuilder::cut`].
    pub fn cut(self, fields: impl IntoIterator<Item = FieldPath>) -> Self {
        self.reflector(|reflector| reflector.cut(fields))
    }

    /// Calls `transform` with each object once, before it is cached; see [`ReflectorBuilder::transform`].
    pub fn transform<R: TransformResult>(self, transform: impl Fn(&mut O) -> R + Send + Sync + 'static) -> Self {
        self.reflector(|reflector| reflector.transform(transform))
    }

    /// Calls `callback` once for each cause of an outage that lasts five seconds;
    /// [`ReflectorBuilder::on_error`] has the exact rules. Default: failures are logged as warnings.
    pub fn on_error(self, callback: impl Fn(&ListWatchError) + Send + Sync + 'static) -> Self {
        self.reflector(|reflector| reflector.on_error(callback))
    }

    /// Calls `callback` with each object that is put into quarantine; see [`ReflectorBuilder::on_quarantine`].
    pub fn on_quarantine(self, callback: impl Fn(&Quarantined) + Send + Sync + 'static) -> Self {
        self.reflector(|reflector| reflector.on_quarantine(callback))
    }

    /// Shares the reachability of the server with other informers of the same client; see [`ServerHealth`].
    pub fn server_health(self, health: ServerHealth) -> Self {
        self.reflector(|reflector| reflector.server_health(health))
    }

    /// Changes settings of the reflector, such as page size, delays or time limits. Do not set `known_objects` or
    /// `resync_every` here: the informer overwrites both. Return the builder that `change` receives: another builder would replace the
    /// source and the settings of the factory.
    pub fn reflector(mut self, change: impl FnOnce(ReflectorBuilder<O>) -> ReflectorBuilder<O>) -> Self {
        self.builder.reflector = change(ReflectorBuilder::from_any(self.builder.reflector)).settings;
        self
    }

    /// Creates the informer. It does nothing until it is [started](SharedInformer::start).
    pub fn build(self) -> SharedInformer<O> {
        let (resync, audit) = (self.builder.resync, self.builder.audit);
        let informer = self.builder.build();
        informer.warn_if_periods_are_raised(resync, audit);
        SharedInformer::from_any(informer)
    }
}

impl AnyInformerBuilder {
    pub(crate) fn new(reflector: ReflectorSettings) -> Self {
        Self {
            reflector,
            resync: None,
            fails_fast: false,
            audit: None,
            name: None,
            #[cfg(feature = "packing")]
            memory_budget: None,
        }
    }

    pub(crate) fn build(self) -> AnyInformer {
        let Self { mut reflector, resync, fails_fast, audit, name, .. } = self;
        let memory = ObjectMemory::new(reflector.memory_of);
        #[cfg(feature = "packing")]
        let memory = memory.with_packing(self.memory_budget.map(Packing::new));
        let memory = Arc::new(memory);
        reflector.memory = Some(Arc::clone(&memory));
        let name = name.unwrap_or_else(|| reflector.source.name().into());
        let audit =
            audit.filter(|period| !period.is_zero()).map(|period| period.clamp(SHORTEST_PERIOD, LONGEST_PERIOD));
        AnyInformer::new(Core::new(name, Unstarted { reflector, audit }, memory, resync, fails_fast))
    }
}

impl AnyInformer {
    /// Logs a warning if the periods of resyncs or audits are longer than the requested ones. Call it on a new informer, without a lock.
    pub(crate) fn warn_if_periods_are_raised(&self, resync: Option<Duration>, audit: Option<Duration>) {
        let audit = audit.filter(|period| !period.is_zero());
        let granted = self.core().check_period();
        for (requested, granted, warning) in [
            (audit, Some(SHORTEST_PERIOD), "the period of audits is raised: it is at least five minutes"),
            (resync, granted, "the informer's resync period is raised: it is at least a second"),
        ] {
            if let (Some(requested), Some(granted)) = (requested, granted)
                && granted > requested
            {
                warn!(informer = &**self.name(), ?requested, ?granted, "{warning}");
            }
        }
    }
}

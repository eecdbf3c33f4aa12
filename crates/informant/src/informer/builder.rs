//! Settings of a shared informer.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use super::AnyInformer;
use super::SharedInformer;
use super::apply::Rules;
use super::core::Core;
use super::core::Plan;
use super::life::Unstarted;
use crate::listwatch::ListWatchError;
use crate::listwatch::Quarantined;
use crate::listwatch::ReflectorBuilder;
use crate::listwatch::ReflectorSettings;
use crate::listwatch::ServerHealth;
use crate::listwatch::TransformResult;
use crate::object::FieldPath;
use crate::store::Indexer;
use crate::subscribers::SharedProcessor;

/// Settings of a [`SharedInformer`].
#[must_use = "an informer is there when it is built"]
pub struct InformerBuilder<O> {
    builder: AnyInformerBuilder,
    object_type: PhantomData<fn(O) -> O>,
}

/// Settings of an informer whose object type is erased.
pub(crate) struct AnyInformerBuilder {
    pub(crate) reflector: ReflectorSettings,
    pub(crate) resync: Option<Duration>,
    pub(crate) fails_fast: bool,
    name: Option<Arc<str>>,
    queue: QueueKind,
    rules: Rules,
}

/// How changes wait.
#[derive(Clone, Copy, Debug)]
pub(super) enum QueueKind {
    Grouped,
    InOrder,
}

impl<O: Send + Sync + 'static> InformerBuilder<O> {
    /// Gives settings an object type.
    pub(crate) fn from_any(builder: AnyInformerBuilder) -> Self {
        Self { builder, object_type: PhantomData }
    }

    /// Erases the object type.
    pub(crate) fn into_any(self) -> AnyInformerBuilder {
        self.builder
    }

    /// What it is called in logs, errors and metrics. Default: what the source is called, such as `pods`.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.builder.name = Some(name.into());
        self
    }

    /// Replays the whole cache this often, at least a second apart, to every handler that does not choose another period. The server
    /// gets no request. A handler that has not taken all events of its last replay skips one; see
    /// [`Subscribe::resync_every`](super::Subscribe::resync_every). Zero is never. Default: never, and then no handler can ask
    /// for it either.
    pub fn resync_every(mut self, period: Duration) -> Self {
        self.builder.resync = Some(period);
        self
    }

    /// Has [`synced`](SharedInformer::synced) err as soon as a list fails so that waiting will not help: no permission, no such
    /// kind, nobody there; see [`ListWatchError::may_pass`]. It goes on trying all the same. Default: `synced` waits until it
    /// succeeds.
    pub fn fail_fast(mut self) -> Self {
        self.builder.fails_fast = true;
        self
    }

    /// Leaves these fields out of every object before anything is decoded; see [`ReflectorBuilder::cut`].
    pub fn cut(self, fields: impl IntoIterator<Item = FieldPath>) -> Self {
        self.reflector(|reflector| reflector.cut(fields))
    }

    /// Queues every change in the server's order, instead of grouping what waits by object. Both give the same cache and the
    /// same order for each object; this one also keeps the order between objects. Default: grouped.
    pub fn in_order(mut self) -> Self {
        self.builder.queue = QueueKind::InOrder;
        self
    }

    /// Tells handlers of an object that was deleted and created again while the watch was down as one update, as client-go
    /// does. Default: a delete of the old one, then an add of the new one.
    pub fn recreated_as_update(mut self) -> Self {
        self.builder.rules.recreated_as_update = true;
        self
    }

    /// Decodes everything again that a list repeats, and tells handlers of it as an update: for servers that change an object
    /// without changing its version. Default: what has the uid and version of the cached one is the cached one.
    pub fn distrust_versions(mut self) -> Self {
        self.builder.rules.trusts_versions = false;
        self
    }

    /// Calls `transform` with each object once, before it is cached; see [`ReflectorBuilder::transform`].
    pub fn transform<R: TransformResult>(self, transform: impl Fn(&mut O) -> R + Send + Sync + 'static) -> Self {
        self.reflector(|reflector| reflector.transform(transform))
    }

    /// Calls `callback` once for each outage that lasts three seconds, and each time the server answers a list with an error;
    /// [`ReflectorBuilder::on_error`] has the exact rules. Default: failures are logged as warnings.
    pub fn on_error(self, callback: impl Fn(&ListWatchError) + Send + Sync + 'static) -> Self {
        self.reflector(|reflector| reflector.on_error(callback))
    }

    /// Hears of objects that cannot be read; see [`ReflectorBuilder::on_quarantine`].
    pub fn on_quarantine(self, hear: impl Fn(&Quarantined) + Send + Sync + 'static) -> Self {
        self.reflector(|reflector| reflector.on_quarantine(hear))
    }

    /// Shares what is known of the server with other informers of the same client; see [`ServerHealth`].
    pub fn server_health(self, health: ServerHealth) -> Self {
        self.reflector(|reflector| reflector.server_health(health))
    }

    /// Changes settings of the reflector, such as page size, delays or time limits. Its known objects and resyncs are the
    /// informer's own: what is set of those does not count. Return the builder that you are given: another one would replace the source,
    /// and settings such as those of the factory.
    pub fn reflector(mut self, change: impl FnOnce(ReflectorBuilder<O>) -> ReflectorBuilder<O>) -> Self {
        self.builder.reflector = change(ReflectorBuilder::from_any(self.builder.reflector)).into_any();
        self
    }

    /// Makes the informer. It does nothing until it is [started](SharedInformer::start).
    pub fn build(self) -> SharedInformer<O> {
        SharedInformer::from_any(self.builder.build())
    }
}

impl AnyInformerBuilder {
    pub(crate) fn new(reflector: ReflectorSettings) -> Self {
        let rules = Rules { recreated_as_update: false, trusts_versions: true };
        Self { reflector, resync: None, fails_fast: false, name: None, queue: QueueKind::Grouped, rules }
    }

    /// Gives it another name, made of the one that it was given, if it was, and of what its source is called.
    pub(crate) fn rename(mut self, name: impl FnOnce(Option<&str>, String) -> String) -> Self {
        self.name = Some(name(self.name.as_deref(), self.reflector.resource()).into());
        self
    }

    pub(crate) fn build(self) -> AnyInformer {
        let Self { reflector, resync, fails_fast, name, queue, rules } = self;
        let name = name.unwrap_or_else(|| reflector.resource().into());
        let indexer = Indexer::builder().resource(Arc::clone(&name)).build();
        let plan = Plan { name, cluster: reflector.cluster(), namespace: reflector.namespace(), fails_fast };
        let core = Core::new(plan, indexer, SharedProcessor::new(resync));
        AnyInformer::new(core, Unstarted { reflector, queue, rules })
    }
}

impl<O> fmt::Debug for InformerBuilder<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerBuilder")
            .field("name", &self.builder.name)
            .field("resync", &self.builder.resync)
            .finish_non_exhaustive()
    }
}

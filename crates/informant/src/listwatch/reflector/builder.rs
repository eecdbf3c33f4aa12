//! The builder of a reflector, with an object type.
//!
//! - **In:** a source, and the user's settings.
//! - **Out:** a [`Reflector`].
//! - **Knows nothing of:** what the settings do.

use std::{marker::PhantomData, sync::Arc, time::Duration};

use super::{Reflector, settings::ReflectorSettings};
use crate::{
    Cached, Key,
    known::KnownObjects,
    listwatch::{
        Backoff, Destination, ListWatchError, Quarantined, ServerHealth,
        decoder::{TransformResult, transform_of},
        destination::ErasedDestination,
    },
    object::{Erased, FieldPath},
};

/// Settings of a [`Reflector`] whose objects are of type `O`.
#[must_use = "a builder does nothing until `build` is called"]
pub struct ReflectorBuilder<O> {
    pub(crate) settings: ReflectorSettings,
    object_type: PhantomData<fn(O) -> O>,
}

/// Upper bound on configured durations: practically for ever, and small enough that adding it to an `Instant` does not overflow.
const FOR_EVER: Duration = Duration::from_secs(366 * 24 * 3600);

impl<O: Send + Sync + 'static> ReflectorBuilder<O> {
    /// Reuses objects of the consumer's cache: a listed object with the uid and version of the cached object is not decoded again, which makes
    /// relists several times cheaper. Default: every object is decoded.
    ///
    /// Do not use it with servers that change an object without changing its version.
    pub fn known_objects(mut self, known: Arc<dyn KnownObjects<O>>) -> Self {
        self.settings.known = Some(Arc::new(ErasedKnownObjects(known)));
        self
    }

    /// Calls `transform` with each object once, after decoding and before the object is cached: for example to drop fields that the program
    /// does not need. It cannot change the object's identity. If it returns an error, the object is quarantined, like one that cannot be
    /// decoded. Default: objects are cached as they were decoded.
    ///
    /// ```
    /// use informant::pipeline::{KubeSource, Reflector};
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let server = informant_apiserver::ApiServer::new();
    /// # let client = server.client();
    /// // A transform that cannot fail returns nothing.
    /// let pods = Reflector::builder::<Pod>(KubeSource::of_kind::<Pod>(client.clone())).transform(|pod| pod.status = None);
    ///
    /// // One that can returns a `Result`, with any error.
    /// let pods = Reflector::builder::<Pod>(KubeSource::of_kind::<Pod>(client)).transform(|pod| {
    ///     pod.spec.as_mut().map(|spec| spec.volumes = None).ok_or("a pod without spec")
    /// });
    /// # }
    /// ```
    pub fn transform<R: TransformResult>(mut self, transform: impl Fn(&mut O) -> R + Send + Sync + 'static) -> Self {
        self.settings.transform = Some(transform_of(transform));
        self
    }

    /// Keeps `metadata.managedFields`, a third of a typical object. Default: cut.
    pub fn keep_managed_fields(mut self) -> Self {
        self.settings.keeps_managed_fields = true;
        self
    }

    /// Removes these fields from every object before it is decoded, in addition to fields of earlier calls; see
    /// [`Scanner::cut`](crate::object::Scanner::cut). Default: only `metadata.managedFields`.
    pub fn cut(mut self, fields: impl IntoIterator<Item = FieldPath>) -> Self {
        self.settings.cut.extend(fields);
        self
    }

    /// Requests all lists in pages of this size. Default: pages of 500. A relist that asks for a given version is then requested in one piece, unless the
    /// first list came in several pages.
    pub fn page_size(mut self, items: u32) -> Self {
        self.settings.page_size = Some(items.max(1));
        self
    }

    /// Makes the first list show everything that was written before it was requested: the server reads its storage, which costs it more.
    /// Default: an ordinary first list (not a streamed one) may come from a server's cache that lags behind. Later lists are never
    /// older than what the informer has received.
    pub fn consistent_first_list(mut self) -> Self {
        self.settings.begins_with_newest = true;
        self
    }

    /// Sets the largest accepted object, in bytes of JSON. A larger one is read to its end without being kept, and quarantined. Objects that
    /// the source has decoded have no size. Default: 64 MiB.
    pub fn size_limit(mut self, bytes: usize) -> Self {
        self.settings.size_limit = bytes;
        self
    }

    /// Sets the delays after failures. Default: those of [`Backoff::default`].
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.settings.backoff = backoff;
        self
    }

    /// Never requests streamed lists. Default: requested if the source supports them, until the server refuses.
    pub fn without_streaming(mut self) -> Self {
        self.settings.never_streams = true;
        self
    }

    /// While a watch is open, asks the destination for a resync once per `period`. Default: never.
    pub fn resync_every(mut self, period: Duration) -> Self {
        self.settings.resync_every = (!period.is_zero()).then(|| period.min(FOR_EVER));
        self
    }

    /// Calls `callback` with failures, in addition to the [status](super::ReflectorStatus):
    ///
    /// - once for each outage, after five seconds of failures; if no list has succeeded yet, after the first failed attempt;
    /// - when the cause of an outage changes, at most once in ten seconds;
    /// - when the watch is silent and the server does not answer a question for its version;
    /// - when the server's history changed;
    /// - when an [audit](crate::InformerBuilder::audit_every) found a wrong cache.
    ///
    /// Other failures that are over within five seconds are not reported. Default: a warning in the log. In both cases the
    /// log has a line when an outage of more than five seconds is over: how long it lasted, and whether the watch was resumed or
    /// everything was listed again.
    pub fn on_error(mut self, callback: impl Fn(&ListWatchError) + Send + Sync + 'static) -> Self {
        self.settings.on_error = Some(Box::new(callback));
        self
    }

    /// Shares the state of the server with other reflectors of the same client: while the server is unreachable only one of them retries, and if the
    /// server's history changes, every one of them lists again; and those of one kind remember together that the server refuses streamed lists. Default: not
    /// shared.
    pub fn server_health(mut self, health: ServerHealth) -> Self {
        self.settings.health = health;
        self
    }

    /// Calls `callback` with each object that is quarantined because it cannot be decoded or transformed. Default: a warning in the log.
    pub fn on_quarantine(mut self, callback: impl Fn(&Quarantined) + Send + Sync + 'static) -> Self {
        self.settings.on_quarantine = Some(Box::new(callback));
        self
    }

    /// Creates a reflector that delivers to `destination`. It makes no request until [`run`](Reflector::run).
    pub fn build(self, destination: impl Destination<O>) -> Reflector {
        self.settings.build(Box::new(ErasedDestination { destination, object_type: PhantomData }))
    }

    /// Gives settings an object type.
    pub(crate) fn from_any(settings: ReflectorSettings) -> Self {
        Self { settings, object_type: PhantomData }
    }
}

/// Adapts a `KnownObjects<O>` to the erased objects of the reflector.
struct ErasedKnownObjects<O>(Arc<dyn KnownObjects<O>>);

impl<O> KnownObjects<Erased> for ErasedKnownObjects<O> {
    fn get(&self, key: &Key) -> Option<Cached<Erased>> {
        self.0.get(key).map(Cached::erase)
    }

    fn list(&self) -> Vec<Cached<Erased>> {
        self.0.list().into_iter().map(Cached::erase).collect()
    }
}

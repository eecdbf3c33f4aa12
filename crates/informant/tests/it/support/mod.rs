//! Builds the values that tests of all subjects use, shows them as text, and captures logs.

mod fold;
pub(crate) mod informers;
pub(crate) mod probe;
pub(crate) mod reflector;
pub(crate) mod servers;

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{Arc, LazyLock, Mutex, Weak},
    task::Poll,
};

use informant::{
    Cached, Deleted, Identity, Key, OfKind, RawObject, Uid,
    error::DecodeError,
    pipeline::{Delta, Deltas, Indexer, KnownObjects, ObjectChanges, Relist},
};
use tracing::Dispatch;

/// An object without content; its version identifies its state.
pub(crate) type Object = Cached<()>;

pub(crate) fn key(text: &str) -> Key {
    text.parse().unwrap()
}

/// An object at a version, in its first incarnation.
pub(crate) fn object(name: &str, version: u64) -> Object {
    object_of_incarnation(name, version, "u1")
}

/// An object at a version, in the incarnation with this uid.
pub(crate) fn object_of_incarnation(name: &str, version: u64, uid: &str) -> Object {
    let identity = Identity { key: key(name), uid: Uid::new(uid), version: version.to_string().as_str().into() };
    Cached::new(identity, ())
}

/// A deletion with the final state.
pub(crate) fn observed(name: &str, version: u64) -> Deleted<()> {
    Deleted::Observed(object(name, version))
}

/// A list at a version, of objects at versions.
pub(crate) fn list<const N: usize>(version: u64, objects: [(&str, u64); N]) -> Relist<()> {
    Relist {
        version: version.to_string().as_str().into(),
        objects: objects.into_iter().map(|(name, version)| object(name, version)).collect(),
        quarantined: Vec::new(),
        history_changed: false,
    }
}

/// A cache that holds these objects.
pub(crate) fn cache_of<const N: usize>(objects: [(&str, u64); N]) -> Arc<Indexer<()>> {
    let cache = Indexer::new();
    for (name, version) in objects {
        cache.upsert(object(name, version));
    }
    Arc::new(cache)
}

/// The known objects of a queue.
pub(crate) fn known<const N: usize>(objects: [(&str, u64); N]) -> Arc<dyn KnownObjects<()>> {
    Arc::new(cache_of(objects).lister())
}

/// `Added x@1`, `Missed x@1` …
pub(crate) fn show_delta<O>(delta: &Delta<O>) -> String {
    let kind = match delta {
        Delta::Added(_) => "Added",
        Delta::Updated(_) => "Updated",
        Delta::Deleted(Deleted::Observed(_)) => "Deleted",
        Delta::Deleted(Deleted::Missed { .. }) => "Missed",
        Delta::Replaced(_) => "Replaced",
        Delta::Sync(_) => "Sync",
    };
    format!("{kind} {:?}", delta.object())
}

/// `Added x@1, Updated x@2`
pub(crate) fn show_deltas<O>(deltas: &Deltas<O>) -> String {
    deltas.iter().map(show_delta).collect::<Vec<_>>().join(", ")
}

/// The deltas of each object of a batch, one line per object.
pub(crate) fn show_object_changes<O>(items: &[ObjectChanges<O>]) -> Vec<String> {
    items.iter().map(|taken| show_deltas(taken.deltas())).collect()
}

/// Sorted names and versions of objects: `x@1`.
pub(crate) fn show_objects<O>(objects: impl IntoIterator<Item = Cached<O>>) -> Vec<String> {
    let mut shown: Vec<_> = objects.into_iter().map(|object| format!("{object:?}")).collect();
    shown.sort();
    shown
}

/// An object with a token that shows whether a handle of the object exists.
pub(crate) struct Tracked<O> {
    pub(crate) object: O,
    token: Arc<()>,
}

impl<O> Tracked<O> {
    pub(crate) fn new(object: O) -> Self {
        Self { object, token: Arc::default() }
    }

    /// Can be upgraded as long as a handle of the object exists.
    pub(crate) fn watch(&self) -> Weak<()> {
        Arc::downgrade(&self.token)
    }
}

impl<O: informant::Object> informant::Object for Tracked<O> {
    fn decode(raw: &RawObject<'_>) -> Result<Self, DecodeError> {
        O::decode(raw).map(Self::new)
    }
}

impl<O: OfKind> OfKind for Tracked<O> {
    type Kind = O::Kind;
}

/// Polls a future once; `None` if it is pending.
pub(crate) async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    poll_fn(|context| match Pin::new(&mut *future).poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Captures the log lines of this thread, of level INFO and above, until it is dropped.
pub(crate) struct Logs {
    lines: Arc<Mutex<Vec<u8>>>,
    _guard: tracing::subscriber::DefaultGuard,
}

impl Logs {
    pub(crate) fn capture() -> Self {
        Self::capture_from(tracing::Level::INFO)
    }

    /// Captures lines of this level and above.
    pub(crate) fn capture_from(level: tracing::Level) -> Self {
        // With one subscriber in the process, tracing caches for each log statement whether the thread that reaches it first has a
        // subscriber, and that may be the thread of another test. A second subscriber disables this cache.
        static SECOND: LazyLock<Dispatch> =
            LazyLock::new(|| tracing_subscriber::fmt().with_writer(std::io::sink).finish().into());
        LazyLock::force(&SECOND);
        let lines = Arc::new(Mutex::new(Vec::new()));
        let writer = Writer(Arc::clone(&lines));
        let subscriber = tracing_subscriber::fmt().with_max_level(level).without_time().with_ansi(false);
        let subscriber = subscriber.with_writer(move || writer.clone());
        Self { lines, _guard: tracing::subscriber::set_default(subscriber.finish()) }
    }

    /// The log lines since the last call.
    pub(crate) fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.lines.lock().unwrap())).unwrap()
    }
}

#[derive(Clone)]
struct Writer(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

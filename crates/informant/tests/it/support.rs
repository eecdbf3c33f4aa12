//! Short names for the values that tests are made of.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::Mutex;
use std::sync::Weak;
use std::task::Poll;

use informant::Cached;
use informant::Deleted;
use informant::Key;
use informant::Uid;
use informant::delta::Change;
use informant::delta::Delta;
use informant::delta::Deltas;
use informant::delta::Relist;
use informant::object::DecodeError;
use informant::object::Identity;
use informant::object::OfKind;
use informant::object::RawObject;
use informant::queue::InOrderChange;
use informant::queue::KnownObjects;
use informant::queue::ObjectChanges;
use informant::store::Indexer;
use tracing::Dispatch;

/// What most tests hold: the content does not matter, the version says which state it is.
pub(crate) type Object = Cached<()>;

pub(crate) fn key(text: &str) -> Key {
    text.parse().unwrap()
}

/// An object at a version, in its first life.
pub(crate) fn object(name: &str, version: u64) -> Object {
    object_of_life(name, version, "u1")
}

pub(crate) fn object_of_life(name: &str, version: u64, uid: &str) -> Object {
    let identity = Identity { key: key(name), uid: Uid::new(uid), version: version.to_string().as_str().into() };
    Cached::new(identity, ())
}

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

pub(crate) fn show_taken<O>(items: &[ObjectChanges<O>]) -> Vec<String> {
    items.iter().map(|taken| show_deltas(taken.deltas())).collect()
}

/// As for deltas; `Lost x`, `ReplacedAll@9 [x@8 y@2]`, `SyncAll`, `Bookmark@9`.
pub(crate) fn show_change<O>(change: &Change<O>) -> String {
    match change {
        Change::One(delta) => show_delta(delta),
        Change::Lost(key) => format!("Lost {key}"),
        Change::ReplacedAll(relist) => {
            let objects: Vec<_> = relist.objects.iter().map(|object| format!("{object:?}")).collect();
            format!("ReplacedAll@{} [{}]", relist.version, objects.join(" "))
        }
        Change::SyncAll => "SyncAll".to_owned(),
        Change::Bookmark(version) => format!("Bookmark@{version}"),
    }
}

pub(crate) fn show_changes<O>(items: &[InOrderChange<O>]) -> Vec<String> {
    items.iter().map(|taken| show_change(taken.change())).collect()
}

/// Sorted names and versions of objects: `x@1`.
pub(crate) fn show_objects<O>(objects: impl IntoIterator<Item = Cached<O>>) -> Vec<String> {
    let mut shown: Vec<_> = objects.into_iter().map(|object| format!("{object:?}")).collect();
    shown.sort();
    shown
}

/// An object beside a token, by which a test finds out whether a handle of the object is left.
pub(crate) struct Tracked<O> {
    pub(crate) object: O,
    token: Arc<()>,
}

impl<O> Tracked<O> {
    pub(crate) fn new(object: O) -> Self {
        Self { object, token: Arc::default() }
    }

    /// Can be upgraded as long as a handle of the object is left.
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

/// Gives a future one chance; `None` if it is not ready yet.
pub(crate) async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    poll_fn(|context| match Pin::new(&mut *future).poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Everything that is logged on this thread while the guard lives.
pub(crate) struct Logs {
    lines: Arc<Mutex<Vec<u8>>>,
    _guard: tracing::subscriber::DefaultGuard,
}

impl Logs {
    pub(crate) fn capture() -> Self {
        // With a single subscriber in the process, tracing asks only the thread that logs a line first whether it is wanted, and that may
        // be the thread of another test.
        static SECOND: LazyLock<Dispatch> =
            LazyLock::new(|| tracing_subscriber::fmt().with_writer(std::io::sink).finish().into());
        LazyLock::force(&SECOND);
        let lines = Arc::new(Mutex::new(Vec::new()));
        let writer = Writer(Arc::clone(&lines));
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).without_time().with_ansi(false);
        Self { lines, _guard: tracing::subscriber::set_default(subscriber.finish()) }
    }

    /// What was logged since the last look.
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

pub(crate) mod informers;
pub(crate) mod probe;
pub(crate) mod servers;

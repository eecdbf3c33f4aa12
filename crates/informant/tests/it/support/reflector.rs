//! Runs a reflector in a task and records the calls that its destination receives.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::BoxFuture;
use informant::{
    Cached, Identity, Key,
    error::SourceError,
    pipeline::{
        Backoff, Change, Delta, DeltaFifo, Destination, Item, KnownObjects, Reflector, ReflectorBuilder,
        ReflectorHandle, Relist,
    },
    testing::{ScriptedList, ScriptedSource, ScriptedWatch},
};
use informant_apiserver::{ApiServer, LoggedRequest, Verb};
use kube::core::Status;
use serde_json::{Value, json};
use tokio::{
    sync::{Notify, oneshot},
    task::JoinHandle,
};

/// A destination that records each call as a line: `Replaced@10 [a@1]`, `Added b@11`, `Bookmark@12` …
pub(crate) struct Recorder<O> {
    shared: Arc<Shared<O>>,
}

struct Shared<O> {
    recorded: Mutex<Recorded<O>>,
    changed: Notify,
}

struct Recorded<O> {
    lines: Vec<String>,
    /// The objects that a cache would hold after these calls.
    state: std::collections::BTreeMap<Key, Cached<O>>,
}

/// A reflector that runs in a task.
pub(crate) struct Running<O> {
    pub(crate) recorder: Recorder<O>,
    pub(crate) handle: ReflectorHandle,
    pub(crate) errors: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
    stop: oneshot::Sender<()>,
}

/// Counts the lists of all objects; lookups of one object, and of the version alone, do not count.
pub(crate) fn full_lists(server: &ApiServer, kind: &str) -> usize {
    let of_kind = server.requests().into_iter().filter(|request| request.resource == kind);
    of_kind.filter(|request| request.verb == Verb::List && !is_lookup(request)).count()
}

/// Returns true if the request asks for one object, or for the version alone.
pub(crate) fn is_lookup(request: &LoggedRequest) -> bool {
    request.verb == Verb::List && (request.limit == 1 || request.field_selector.contains("metadata.name="))
}

/// Runs a reflector over decoded objects, with default settings.
pub(crate) fn run(source: &ScriptedSource<()>) -> Running<()> {
    run_with(source, |builder| builder)
}

pub(crate) type ScriptedBuilder = ReflectorBuilder<()>;

/// Runs a reflector over decoded objects, with these settings.
pub(crate) fn run_with(
    source: &ScriptedSource<()>,
    settings: impl FnOnce(ScriptedBuilder) -> ScriptedBuilder,
) -> Running<()> {
    let recorder = Recorder::new();
    start(settings(Reflector::of_decoded_objects(source.clone())), recorder)
}

/// As [`run`], with delays of exactly 0.8 s, 1.6 s …
pub(crate) fn run_without_jitter(source: &ScriptedSource<()>) -> Running<()> {
    run_with(source, |builder| builder.backoff(backoff_without_jitter()))
}

/// A watch that delivers nothing and does not end.
pub(crate) fn open_watch() -> ScriptedWatch<()> {
    ScriptedWatch::new().stays_open()
}

/// Runs a reflector over objects of any type.
pub(crate) fn start<O: Send + Sync + 'static>(builder: ReflectorBuilder<O>, recorder: Recorder<O>) -> Running<O> {
    let errors = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&errors);
    let builder = builder.on_error(move |error| recorded.lock().unwrap().push(show_error(error)));
    let reflector = builder.build(recorder.clone());
    let handle = reflector.handle();
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(reflector.run(async { stopped.await.unwrap_or_default() }));
    Running { recorder, handle, errors, task, stop }
}

/// Backoff without random delays, for tests that compare delays.
pub(crate) fn backoff_without_jitter() -> Backoff {
    Backoff::new(Duration::from_millis(800), Duration::from_secs(30)).without_jitter()
}

/// An error and its sources, in one line.
pub(crate) fn show_error(error: &dyn std::error::Error) -> String {
    match error.source() {
        None => error.to_string(),
        Some(source) => format!("{error}: {}", show_error(source)),
    }
}

/// Waits until no task can run: paused time advances only when all tasks wait.
pub(crate) async fn wait_until_idle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// Sleeps; with paused time, this returns as soon as no task can run before that time.
pub(crate) async fn sleep_seconds(seconds: f64) {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
}

impl<O: Send + Sync + 'static> Running<O> {
    /// The calls that the destination has received so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.recorder.lines()
    }

    /// The errors that the `on_error` callback has received.
    pub(crate) fn errors(&self) -> Vec<String> {
        self.errors.lock().unwrap().clone()
    }

    /// The last error in the status, with its sources.
    pub(crate) fn last_error(&self) -> String {
        self.handle.status().last_error.map(|error| show_error(&*error)).unwrap_or_default()
    }

    /// Waits until the destination has received this call.
    pub(crate) async fn wait_for_line(&self, line: &str) {
        self.recorder.wait_until(|lines, _| lines.iter().any(|recorded| recorded == line)).await;
    }

    pub(crate) async fn stop(self) -> Recorder<O> {
        let _ = self.stop.send(());
        // Only a reflector that hangs needs five seconds, also in the tests that run on real time.
        tokio::time::timeout(Duration::from_secs(5), self.task).await.expect("the reflector stops").unwrap();
        self.recorder
    }
}

impl<O> Recorder<O> {
    pub(crate) fn new() -> Self {
        let recorded = Recorded { lines: Vec::new(), state: std::collections::BTreeMap::new() };
        Self { shared: Arc::new(Shared { recorded: Mutex::new(recorded), changed: Notify::new() }) }
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.shared.recorded.lock().unwrap().lines.clone()
    }

    /// The objects that a cache would hold now: `a@1`.
    pub(crate) fn state(&self) -> Vec<String> {
        self.shared.recorded.lock().unwrap().state.values().map(|object| format!("{object:?}")).collect()
    }

    pub(crate) fn object(&self, key: &str) -> Option<Cached<O>> {
        self.shared.recorded.lock().unwrap().state.get(&key.parse().unwrap()).cloned()
    }

    /// Removes an object from the recorder's state; the reflector does not notice it.
    pub(crate) fn remove(&self, key: &str) -> Option<Cached<O>> {
        self.shared.recorded.lock().unwrap().state.remove(&key.parse().unwrap())
    }

    /// Waits until the condition holds for the lines and the state. The limit only turns a hang into a failure.
    pub(crate) async fn wait_until(&self, mut condition: impl FnMut(&[String], &[String]) -> bool) {
        let wait = async {
            loop {
                let changed = self.shared.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if condition(&self.lines(), &self.state()) {
                    return;
                }
                changed.await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(3000), wait).await;
        assert!(waited.is_ok(), "the condition never held; the destination received {:#?}", self.lines());
    }

    fn write(&self, line: String, change: impl FnOnce(&mut Recorded<O>)) {
        let mut recorded = self.shared.recorded.lock().unwrap();
        recorded.lines.push(line);
        change(&mut recorded);
        drop(recorded);
        self.shared.changed.notify_waiters();
    }
}

impl<O: Send + Sync + 'static> Destination<O> for Recorder<O> {
    fn push(&self, change: Change<O>) {
        match change {
            Change::Delta(Delta::Added(object)) | Change::Existing(object) => {
                let line = format!("Added {object:?}");
                self.write(line, |recorded| drop(recorded.state.insert(object.key().clone(), object)));
            }
            Change::Delta(Delta::Updated(object)) => {
                let line = format!("Updated {object:?}");
                self.write(line, |recorded| drop(recorded.state.insert(object.key().clone(), object)));
            }
            Change::Delta(Delta::Deleted(deleted)) => {
                let line = format!("Deleted {:?}", deleted.object());
                self.write(line, |recorded| drop(recorded.state.remove(deleted.key())));
            }
            Change::Delta(Delta::Replaced(object) | Delta::Sync(object)) => {
                panic!("a reflector pushes no such delta, but pushed one of {object:?}");
            }
            Change::DeletedUnread { key, version } => {
                let version = version.map(|version| format!("@{version}")).unwrap_or_default();
                self.write(format!("Lost {key}{version}"), |recorded| drop(recorded.state.remove(&key)));
            }
            Change::Relist(relist) => self.replace(&relist),
            Change::Bookmark(version) => self.write(format!("Bookmark@{version}"), |_| {}),
            Change::Resync => self.write("Resync".into(), |_| {}),
        }
    }
}

impl<O> Recorder<O> {
    fn replace(&self, relist: &Relist<O>) {
        let mut objects: Vec<_> = relist.objects.iter().map(|object| format!("{object:?}")).collect();
        objects.sort();
        let mut bad: Vec<_> = relist.quarantined.iter().map(|(key, _)| key.to_string()).collect();
        bad.sort();
        let bad = if bad.is_empty() { String::new() } else { format!(" without {}", bad.join(" ")) };
        self.write(format!("Replaced@{} [{}]{bad}", relist.version, objects.join(" ")), |recorded| {
            let kept = |key: &Key, old: &Cached<O>| {
                relist.quarantined.iter().any(|(bad, uid)| bad == key && old.identity().may_be_same_incarnation(uid))
            };
            recorded.state.retain(|key, old| kept(key, old));
            recorded.state.extend(relist.objects.iter().map(|object| (object.key().clone(), object.clone())));
        });
    }
}

/// The recorder's state serves as the known objects of the reflector.
impl<O: Send + Sync> KnownObjects<O> for Recorder<O> {
    fn get(&self, key: &Key) -> Option<Cached<O>> {
        self.shared.recorded.lock().unwrap().state.get(key).cloned()
    }

    fn list(&self) -> Vec<Cached<O>> {
        self.shared.recorded.lock().unwrap().state.values().cloned().collect()
    }
}

impl<O> Clone for Recorder<O> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

/// A decoded object in its first incarnation.
pub(crate) fn item(name: &str, version: u64) -> Item<()> {
    Item::new(
        Identity { key: Key::cluster_scoped(name), uid: "u1".into(), version: version.to_string().as_str().into() },
        (),
    )
}

/// A list at a version, of objects at versions.
pub(crate) fn list(version: &str, objects: &[(&str, u64)]) -> ScriptedList<()> {
    objects.iter().fold(ScriptedList::at(version), |list, (name, version)| list.object(item(name, *version)))
}

/// A `Status` that the server answers with.
pub(crate) fn status_error(code: u16, reason: &str) -> SourceError {
    Status::failure("the scripted status", reason).with_code(code).into()
}

/// The error of a connection that no server accepts.
pub(crate) fn connection_refused() -> SourceError {
    SourceError::Refused { source: "no server listens there".into() }
}

/// The error of a connection that breaks.
pub(crate) fn connection_lost() -> SourceError {
    SourceError::Connection { source: "the connection was reset".into() }
}

/// The seconds from each request to the next.
pub(crate) fn seconds_between_requests(source: &ScriptedSource<()>) -> Vec<f64> {
    let times = source.times();
    times.windows(2).map(|pair| ((pair[1] - pair[0]).as_secs_f64() * 10.0).round() / 10.0).collect()
}

/// A server whose first object has version 11.
pub(crate) fn server_at_10() -> ApiServer {
    let server = ApiServer::new();
    server.skip_to_version(10);
    server
}

/// A config map, for the embedded server.
pub(crate) fn config_map(name: &str, text: &str) -> Value {
    json!({"metadata": {"namespace": "shop", "name": name}, "data": {"text": text}})
}

/// A destination with room for four waiting objects.
#[derive(Clone, Default)]
pub(crate) struct SmallQueue {
    pub(crate) queue: DeltaFifo<()>,
    /// To be notified when objects were taken.
    pub(crate) taken: Arc<Notify>,
}

impl Destination<()> for SmallQueue {
    fn push(&self, change: Change<()>) {
        self.queue.push(change);
    }

    fn room(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            while self.queue.len() >= 4 {
                self.taken.notified().await;
            }
        })
    }
}

//! A reflector that runs, and somebody who writes down what it says.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use informant::Cached;
use informant::Key;
use informant::ResourceVersion;
use informant::delta::Relist;
use informant::listwatch::Backoff;
use informant::listwatch::Destination;
use informant::listwatch::Item;
use informant::listwatch::Reflector;
use informant::listwatch::ReflectorBuilder;
use informant::listwatch::ReflectorHandle;
use informant::listwatch::ScriptedList;
use informant::listwatch::ScriptedSource;
use informant::listwatch::ScriptedWatch;
use informant::listwatch::SourceError;
use informant::object::Identity;
use informant::queue::KnownObjects;
use informant_apiserver::ApiServer;
use informant_apiserver::LoggedRequest;
use informant_apiserver::Verb;
use kube::core::Status;
use serde_json::Value;
use serde_json::json;
use tokio::sync::Notify;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Writes down what a reflector says: `Replaced@10 [a@1]`, `Added b@11`, `Bookmark@12` …
pub(crate) struct Recorder<O> {
    shared: Arc<Shared<O>>,
}

struct Shared<O> {
    told: Mutex<Told<O>>,
    changed: Notify,
}

struct Told<O> {
    lines: Vec<String>,
    /// What a consumer would have.
    state: std::collections::BTreeMap<Key, Cached<O>>,
}

/// A reflector at work.
pub(crate) struct Running<O> {
    pub(crate) recorder: Recorder<O>,
    pub(crate) handle: ReflectorHandle,
    pub(crate) errors: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
    stop: oneshot::Sender<()>,
}

/// How many times everything was listed; lookups of one object, and of the version alone, do not count.
pub(crate) fn full_lists(server: &ApiServer, kind: &str) -> usize {
    let of_kind = server.requests().into_iter().filter(|request| request.resource == kind);
    of_kind.filter(|request| request.verb == Verb::List && !is_lookup(request)).count()
}

/// Whether it asks for one object, or for the version alone.
pub(crate) fn is_lookup(request: &LoggedRequest) -> bool {
    request.verb == Verb::List && (request.limit == 1 || request.field_selector.contains("metadata.name="))
}

/// Runs a reflector of ready objects.
pub(crate) fn run(source: &ScriptedSource<()>) -> Running<()> {
    run_with(source, |builder| builder)
}

pub(crate) type ScriptedBuilder = ReflectorBuilder<()>;

pub(crate) fn run_with(
    source: &ScriptedSource<()>,
    settings: impl FnOnce(ScriptedBuilder) -> ScriptedBuilder,
) -> Running<()> {
    let recorder = Recorder::new();
    start(settings(Reflector::of_decoded_objects(source.clone())), recorder)
}

/// As [`run`], with exact delays: 0.8 s, 1.6 s …
pub(crate) fn run_exactly(source: &ScriptedSource<()>) -> Running<()> {
    run_with(source, |builder| builder.backoff(exact()))
}

/// A watch that says nothing, and does not end.
pub(crate) fn open_watch() -> ScriptedWatch<()> {
    ScriptedWatch::new().stays_open()
}

/// Runs a reflector of any kind.
pub(crate) fn start<O: Send + Sync + 'static>(builder: ReflectorBuilder<O>, recorder: Recorder<O>) -> Running<O> {
    let errors = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&errors);
    let builder = builder.on_error(move |error| heard.lock().unwrap().push(show_error(error)));
    let reflector = builder.build(recorder.clone());
    let handle = reflector.handle();
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(reflector.run(async { stopped.await.unwrap_or_default() }));
    Running { recorder, handle, errors, task, stop }
}

/// Exact delays, for tests that count them.
pub(crate) fn exact() -> Backoff {
    Backoff::new(Duration::from_millis(800), Duration::from_secs(30)).without_jitter()
}

/// An error and what stands behind it, in one line.
pub(crate) fn show_error(error: &dyn std::error::Error) -> String {
    match error.source() {
        None => error.to_string(),
        Some(source) => format!("{error}: {}", show_error(source)),
    }
}

/// Lets everything happen that can happen now.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

pub(crate) async fn seconds(seconds: f64) {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
}

impl<O: Send + Sync + 'static> Running<O> {
    /// What was said so far.
    pub(crate) fn told(&self) -> Vec<String> {
        self.recorder.lines()
    }

    /// The errors that the callback heard.
    pub(crate) fn errors(&self) -> Vec<String> {
        self.errors.lock().unwrap().clone()
    }

    /// What failed last, by whatever way it is seen.
    pub(crate) fn last_error(&self) -> String {
        self.handle.status().last_error.map(|error| show_error(&*error)).unwrap_or_default()
    }

    /// Waits until something was said.
    pub(crate) async fn until(&self, line: &str) {
        self.recorder.until(|lines, _| lines.iter().any(|told| told == line)).await;
    }

    pub(crate) async fn stop(self) -> Recorder<O> {
        let _ = self.stop.send(());
        tokio::time::timeout(Duration::from_secs(5), self.task).await.expect("it stops").unwrap();
        self.recorder
    }
}

impl<O> Recorder<O> {
    pub(crate) fn new() -> Self {
        let told = Told { lines: Vec::new(), state: std::collections::BTreeMap::new() };
        Self { shared: Arc::new(Shared { told: Mutex::new(told), changed: Notify::new() }) }
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.shared.told.lock().unwrap().lines.clone()
    }

    /// What a consumer would have now.
    pub(crate) fn state(&self) -> Vec<String> {
        self.shared.told.lock().unwrap().state.values().map(|object| format!("{object:?}")).collect()
    }

    pub(crate) fn object(&self, key: &str) -> Option<Cached<O>> {
        self.shared.told.lock().unwrap().state.get(&key.parse().unwrap()).cloned()
    }

    /// Takes an object from the consumer, without telling the reflector.
    pub(crate) fn forget(&self, key: &str) -> Option<Cached<O>> {
        self.shared.told.lock().unwrap().state.remove(&key.parse().unwrap())
    }

    /// Waits until it is so, but not for ever: paused time passes quickly.
    pub(crate) async fn until(&self, mut is_so: impl FnMut(&[String], &[String]) -> bool) {
        let wait = async {
            loop {
                let changed = self.shared.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if is_so(&self.lines(), &self.state()) {
                    return;
                }
                changed.await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(3000), wait).await;
        assert!(waited.is_ok(), "it never came to that; told: {:#?}", self.lines());
    }

    fn write(&self, line: String, change: impl FnOnce(&mut Told<O>)) {
        let mut told = self.shared.told.lock().unwrap();
        told.lines.push(line);
        change(&mut told);
        drop(told);
        self.shared.changed.notify_waiters();
    }
}

impl<O: Send + Sync + 'static> Destination<O> for Recorder<O> {
    fn add(&self, object: Cached<O>) {
        self.write(format!("Added {object:?}"), |told| drop(told.state.insert(object.key().clone(), object)));
    }

    fn update(&self, object: Cached<O>) {
        self.write(format!("Updated {object:?}"), |told| drop(told.state.insert(object.key().clone(), object)));
    }

    fn delete(&self, object: Cached<O>) {
        self.write(format!("Deleted {object:?}"), |told| drop(told.state.remove(object.key())));
    }

    fn delete_unread(&self, key: &Key, version: Option<ResourceVersion>) {
        let version = version.map(|version| format!("@{version}")).unwrap_or_default();
        self.write(format!("Lost {key}{version}"), |told| drop(told.state.remove(key)));
    }

    fn replace(&self, relist: Relist<O>) {
        let mut objects: Vec<_> = relist.objects.iter().map(|object| format!("{object:?}")).collect();
        objects.sort();
        let mut bad: Vec<_> = relist.quarantined.iter().map(|(key, _)| key.to_string()).collect();
        bad.sort();
        let bad = if bad.is_empty() { String::new() } else { format!(" without {}", bad.join(" ")) };
        self.write(format!("Replaced@{} [{}]{bad}", relist.version, objects.join(" ")), |told| {
            let kept = |key: &Key, old: &Cached<O>| {
                relist.quarantined.iter().any(|(bad, uid)| bad == key && old.identity().may_be_same_incarnation(uid))
            };
            told.state.retain(|key, old| kept(key, old));
            told.state.extend(relist.objects.iter().map(|object| (object.key().clone(), object.clone())));
        });
    }

    fn bookmark(&self, version: ResourceVersion) {
        self.write(format!("Bookmark@{version}"), |_| {});
    }

    fn resync(&self) {
        self.write("Resync".into(), |_| {});
    }
}

/// The consumer's state as known objects.
impl<O: Send + Sync> KnownObjects<O> for Recorder<O> {
    fn get(&self, key: &Key) -> Option<Cached<O>> {
        self.shared.told.lock().unwrap().state.get(key).cloned()
    }

    fn list(&self) -> Vec<Cached<O>> {
        self.shared.told.lock().unwrap().state.values().cloned().collect()
    }
}

impl<O> Clone for Recorder<O> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

/// An object that is ready, in its first life.
pub(crate) fn ready(name: &str, version: u64) -> Item<()> {
    Item::new(
        Identity { key: Key::cluster_scoped(name), uid: "u1".into(), version: version.to_string().as_str().into() },
        (),
    )
}

/// A list at a version, of objects at versions.
pub(crate) fn list(version: &str, objects: &[(&str, u64)]) -> ScriptedList<()> {
    objects.iter().fold(ScriptedList::at(version), |list, (name, version)| list.object(ready(name, *version)))
}

/// What a server says.
pub(crate) fn says(code: u16, reason: &str) -> SourceError {
    Status::failure("so it is", reason).with_code(code).into()
}

pub(crate) fn refused() -> SourceError {
    SourceError::Refused { source: "nobody is there".into() }
}

pub(crate) fn lost() -> SourceError {
    SourceError::Connection { source: "the line is dead".into() }
}

/// How long it was from each request to the next, in seconds.
pub(crate) fn pauses(source: &ScriptedSource<()>) -> Vec<f64> {
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

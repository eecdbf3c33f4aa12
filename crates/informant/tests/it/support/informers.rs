//! Builds informers over scripted sources, checks that no task is leaked, and waits for conditions.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use informant::{
    EventHandler, Identity, InformerBuilder, Key, Registration, SharedInformer,
    factory::InformerState,
    pipeline::Item,
    testing::{ScriptedSource, ScriptedWatch},
};
use tokio::runtime::Runtime;

pub(crate) use super::{
    probe::{Probe, ProbeHandler},
    reflector::{
        backoff_without_jitter, connection_refused, item, list, open_watch, show_error, sleep_seconds, status_error,
        wait_until_idle,
    },
};

pub(crate) type Source = ScriptedSource<()>;
pub(crate) type Builder = InformerBuilder<()>;

/// A source that answers the first list with these objects, and the first watch with `watch`.
pub(crate) fn source(version: &str, objects: &[(&str, u64)], watch: ScriptedWatch<()>) -> Source {
    let source = ScriptedSource::new();
    source.on_list(list(version, objects));
    source.on_watch(watch);
    source
}

/// An informer with delays without jitter, so that tests can compare them.
pub(crate) fn informer(source: &Source) -> SharedInformer<()> {
    informer_with(source, |builder| builder)
}

/// As [`informer`], with more settings.
pub(crate) fn informer_with(source: &Source, settings: impl FnOnce(Builder) -> Builder) -> SharedInformer<()> {
    let builder = SharedInformer::of_decoded_objects(source.clone()).name("things");
    settings(builder.reflector(|reflector| reflector.backoff(backoff_without_jitter()))).build()
}

/// Counts the tasks of the runtime, to check that none is leaked. A task waits for the thread of each blocking handler, so threads count too.
pub(crate) struct Leaks {
    tasks: usize,
}

impl Leaks {
    /// Counts the tasks that run before the test.
    pub(crate) fn watch() -> Self {
        Self { tasks: tasks() }
    }

    /// Stops the informer, and checks that no task of it is left.
    pub(crate) async fn stop<O: Send + Sync + 'static>(&self, informer: &SharedInformer<O>) {
        informer.stop().await.unwrap();
        assert_eq!(informer.state(), InformerState::Stopped);
        self.check();
    }

    /// As [`check`](Self::check), on a runtime with many threads, which counts ended tasks for a short time.
    pub(crate) async fn check_soon(&self) {
        wait_until(|| tasks() == self.tasks).await;
    }

    /// P9: checks that no task is left.
    pub(crate) fn check(&self) {
        assert_eq!(tasks(), self.tasks, "no task is left");
    }
}

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// A decoded object in the incarnation with this uid.
pub(crate) fn item_of_incarnation(name: &str, version: u64, uid: &str) -> Item<()> {
    let identity =
        Identity { key: Key::cluster_scoped(name), uid: uid.into(), version: version.to_string().as_str().into() };
    Item::new(identity, ())
}

/// The objects of the cache, sorted: `x@1`.
pub(crate) fn cached<O: Send + Sync + 'static>(informer: &SharedInformer<O>) -> Vec<String> {
    super::show_objects(informer.lister().list())
}

/// Waits until the condition holds, on the real or the paused clock. The condition may have no signal, so this polls.
pub(crate) async fn wait_until(mut condition: impl FnMut() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.expect("the condition holds within a minute");
}

/// Awaits a future for at most 3000 seconds, for tests with paused time: a lost event fails the test instead of hanging it.
pub(crate) async fn within_limit<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(3000), future).await.expect("the future completes")
}

/// Adds a blocking handler named "stuck" whose calls wait for a message. Returns the sender, which ends all waits when it is dropped, and the
/// number of running calls.
pub(crate) fn add_stuck_handler<O: Send + Sync + 'static>(
    informer: &SharedInformer<O>,
) -> (Registration, mpsc::Sender<()>, Arc<AtomicUsize>) {
    let (open, gate) = mpsc::channel::<()>();
    let (gate, running) = (Mutex::new(gate), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&running);
    (
        informer
            .subscribe()
            .named("stuck")
            .on_add(move |_, _| {
                count.fetch_add(1, Ordering::SeqCst);
                // An error means that the sender was dropped.
                let _ = gate.lock().unwrap().recv();
                count.fetch_sub(1, Ordering::SeqCst);
            })
            .register_blocking()
            .unwrap(),
        open,
        running,
    )
}

pub(crate) const fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) fn one_thread() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

pub(crate) fn many_threads() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap()
}

/// Runs a function in a thread of its own, and fails if it does not return within a minute.
pub(crate) fn without_deadlock(run: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        run();
        let _ = done.send(());
    });
    match is_done.recv_timeout(LONG) {
        Ok(()) => {}
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the function hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => std::panic::resume_unwind(thread.join().unwrap_err()),
    }
}

/// Does nothing with a value. A closure that calls it captures the value.
pub(crate) fn keep<T>(_: &T) {}

/// Calls a function when it is dropped.
pub(crate) struct OnDrop(Box<dyn Fn() + Send + Sync>);

impl OnDrop {
    pub(crate) fn new(act: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Box::new(act))
    }
}

impl EventHandler<()> for OnDrop {}

impl Drop for OnDrop {
    fn drop(&mut self) {
        (self.0)();
    }
}

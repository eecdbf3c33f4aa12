//! An informer that runs, and a check that nothing is left.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use informant::informer::{InformerBuilder, InformerState};
use informant::listwatch::{Item, ScriptedSource, ScriptedWatch};
use informant::object::Identity;
use informant::{Handler, Key, Registration, SharedInformer};
use tokio::runtime::Runtime;

pub(crate) use crate::probe::{Probe, ProbeHandler};
pub(crate) use crate::reflector::support::{
    exact, list, open_watch, ready, refused, says, seconds, settle, show_error,
};

pub(crate) type Source = ScriptedSource<()>;
pub(crate) type Builder = InformerBuilder<()>;

/// A source that lists these objects and watches what is given.
pub(crate) fn source(version: &str, objects: &[(&str, u64)], watch: ScriptedWatch<()>) -> Source {
    let source = ScriptedSource::new();
    source.on_list(list(version, objects));
    source.on_watch(watch);
    source
}

/// Settings under which tests can count: exact delays, ordinary lists.
pub(crate) fn informer(source: &Source) -> SharedInformer<()> {
    informer_with(source, |builder| builder)
}

pub(crate) fn informer_with(source: &Source, settings: impl FnOnce(Builder) -> Builder) -> SharedInformer<()> {
    let builder = SharedInformer::of_decoded_objects(source.clone()).name("things");
    settings(builder.reflector(|reflector| reflector.backoff(exact()))).build()
}

/// Both queues, for what must hold with either.
pub(crate) const QUEUES: [fn(Builder) -> Builder; 2] = [|builder| builder, |builder: Builder| builder.in_order()];

/// Counts tasks, to see that none is left. Each thread of a blocking handler has a task that waits for its end.
pub(crate) struct Leaks {
    tasks: usize,
}

impl Leaks {
    /// What runs now is there before the test.
    pub(crate) fn watch() -> Self {
        Self { tasks: tasks() }
    }

    /// Stops the informer; nothing of it may be left.
    pub(crate) async fn stop<O: Send + Sync + 'static>(&self, informer: &SharedInformer<O>) {
        informer.stop().await.unwrap();
        assert_eq!(informer.state(), InformerState::Stopped);
        self.check();
    }

    /// As [`check`](Self::check), where tasks that have ended are counted a little longer: on many threads.
    pub(crate) async fn check_soon(&self) {
        until(|| tasks() == self.tasks).await;
    }

    /// P9
    pub(crate) fn check(&self) {
        assert_eq!(tasks(), self.tasks, "no task is left");
    }
}

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// An object in another life.
pub(crate) fn reborn(name: &str, version: u64, uid: &str) -> Item<()> {
    let identity =
        Identity { key: Key::cluster_scoped(name), uid: uid.into(), version: version.to_string().as_str().into() };
    Item::new(identity, ())
}

/// What the cache has, sorted: `x@1`.
pub(crate) fn cached<O: Send + Sync + 'static>(informer: &SharedInformer<O>) -> Vec<String> {
    crate::support::show_objects(informer.lister().list())
}

/// Waits until it is so, on whichever clock there is.
pub(crate) async fn until(mut is_so: impl FnMut() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.expect("it comes to that");
}

/// A blocking handler called "stuck" that waits at a gate; gives the gate, which opens when it is dropped, and how many of its
/// calls are running.
pub(crate) fn stuck<O: Send + Sync + 'static>(
    informer: &SharedInformer<O>,
) -> (Registration, mpsc::Sender<()>, Arc<AtomicUsize>) {
    let (open, gate) = mpsc::channel::<()>();
    let (gate, running) = (Mutex::new(gate), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&running);
    let handler = Handler::<O>::new().on_add(move |_, _| {
        count.fetch_add(1, Ordering::SeqCst);
        // An error says that the gate is open for good.
        let _ = gate.lock().unwrap().recv();
        count.fetch_sub(1, Ordering::SeqCst);
    });
    (informer.subscribe().named("stuck").blocking_handler(handler).unwrap(), open, running)
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

/// Runs in a thread of its own; what hangs fails.
pub(crate) fn without_deadlock(run: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        run();
        let _ = done.send(());
    });
    match is_done.recv_timeout(LONG) {
        Ok(()) => {}
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => std::panic::resume_unwind(thread.join().unwrap_err()),
    }
}

/// Has whoever calls it hold something.
pub(crate) fn keep<T>(_: &T) {}

/// Does something when it is dropped.
pub(crate) struct OnDrop(Box<dyn Fn() + Send + Sync>);

impl OnDrop {
    pub(crate) fn new(act: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Box::new(act))
    }

    /// A handler that holds it.
    pub(crate) fn held(self) -> Handler<()> {
        Handler::<()>::new().on_synced(move || keep(&self))
    }
}

impl Drop for OnDrop {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A payload of a panic that panics when it is dropped.
pub(crate) struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        std::panic::resume_unwind(Box::new("and again"));
    }
}

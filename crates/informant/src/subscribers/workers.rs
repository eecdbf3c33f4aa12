//! The tasks and threads that empty the listeners' buffers: all of them are owned here, and waited for.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tracing::Instrument;
use tracing::error;

use super::EventHandler;
use super::Listener;
use super::delivery;

/// Tasks and threads, from the start of an informer to its end.
#[derive(Default)]
pub(crate) struct Workers {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Where they run, once that is known.
    runtime: Option<Handle>,
    waiting: Vec<Worker>,
    running: JoinSet<()>,
}

struct Worker {
    name: Arc<str>,
    is_over: Box<dyn Fn() -> bool + Send>,
    kind: WorkerKind,
    work: BoxFuture<'static, ()>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkerKind {
    Task,
    Thread,
}

impl Workers {
    /// Calls a handler, from the start on, until its listener is closed.
    pub(crate) fn add<O, H>(&self, listener: Arc<Listener<O>>, handler: H, kind: WorkerKind)
    where
        O: Send + Sync + 'static,
        H: EventHandler<O>,
    {
        let name = Arc::clone(listener.name());
        let followed = Arc::clone(&listener);
        let span = tracing::info_span!("handler", kind = &*listener.informer, handler = &*name);
        let work = Box::pin(delivery::run(listener, handler).instrument(span));
        let worker = Worker { name, is_over: Box::new(move || followed.is_closed()), kind, work };
        let mut state = self.state.lock();
        match state.runtime.clone() {
            Some(runtime) => state.run(worker, &runtime),
            None => state.waiting.push(worker),
        }
        // Those who have left before the start. Dropping a handler is the user's code.
        let left: Vec<_> = state.waiting.extract_if(.., |worker| (worker.is_over)()).collect();
        drop(state);
        drop(left);
    }

    /// Those that were added before begin to work, and those that come later do so at once.
    pub(crate) fn start(&self, runtime: &Handle) {
        let mut state = self.state.lock();
        state.runtime = Some(runtime.clone());
        for worker in std::mem::take(&mut state.waiting) {
            state.run(worker, runtime);
        }
    }

    /// Waits until all have ended. Nobody may be added meanwhile.
    pub(crate) async fn ended(&self) {
        let (mut running, waiting) = {
            let mut state = self.state.lock();
            (std::mem::take(&mut state.running), std::mem::take(&mut state.waiting))
        };
        drop(waiting);
        while running.join_next().await.is_some() {}
    }
}

impl State {
    fn run(&mut self, worker: Worker, runtime: &Handle) {
        // Those who have left.
        while self.running.try_join_next().is_some() {}
        let Worker { name, is_over: _, kind, work } = worker;
        match kind {
            WorkerKind::Task => {
                self.running.spawn_on(work, runtime);
            }
            WorkerKind::Thread => match run_in_thread(&name, work, runtime) {
                Ok(ended) => {
                    self.running.spawn_on(ended, runtime);
                }
                // Its listener is closed by that: nothing piles up for it.
                Err(source) => error!(handler = &*name, error = %source, "no thread for a blocking handler"),
            },
        }
    }
}

/// Gives what waits for the end of the thread.
fn run_in_thread(
    name: &str,
    work: Pin<Box<dyn Future<Output = ()> + Send>>,
    runtime: &Handle,
) -> std::io::Result<impl Future<Output = ()> + Send + use<>> {
    let (ended, has_ended) = tokio::sync::oneshot::channel::<()>();
    let runtime = runtime.clone();
    // A name must have no zero byte, and Linux shows its first 15 bytes.
    let name: String = name.chars().filter(|character| *character != '\0').collect();
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        let _ended = ended;
        runtime.block_on(work);
    })?;
    Ok(async move {
        // Dropped at the thread's end, however it ends.
        let _ = has_ended.await;
        // The thread has nothing more to do than to end.
        let _ = thread.join();
    })
}

//! Owns the tasks and threads that call handlers, and waits for their end.
//!
//! - **In:** the future that calls one handler until its listener is closed.
//! - **Out:** a task or a thread that runs it.
//! - **Knows nothing of:** events.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Wake, Waker},
    thread::Thread,
};

use futures_util::{FutureExt, future::BoxFuture};
use parking_lot::Mutex;
use tokio::{runtime::Handle, task::JoinSet};
use tracing::{Instrument, error};

use super::{AnyHandler, Filter, Listener, call_lock::CallLock, calling::as_work_of, delivery::deliver};
use crate::panics;

/// The tasks and threads of one informer's handlers.
#[derive(Default)]
pub(crate) struct Workers {
    /// The runtime of the informer, once it has started.
    runtime: OnceLock<Handle>,
    running: Mutex<JoinSet<()>>,
}

/// The future that calls one handler. If it is dropped, the listener ends.
pub(crate) struct Worker {
    name: Arc<str>,
    kind: WorkerKind,
    future: BoxFuture<'static, ()>,
}

/// Where a handler is called and its futures run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkerKind {
    Task,
    Thread,
}

impl Worker {
    /// Creates a worker, which calls a handler until its listener is closed. If workers of other informers call the same handler, each holds
    /// `call_lock` during a call.
    pub(crate) fn new(
        listener: Arc<Listener>,
        handler: AnyHandler,
        filter: Option<Filter>,
        kind: WorkerKind,
        call_lock: Option<CallLock>,
    ) -> Self {
        let (name, owner) = (Arc::clone(listener.name()), listener.owner);
        let span = tracing::error_span!("handler", informer = &*listener.informer, handler = &*name);
        let delivering = AssertUnwindSafe(as_work_of(owner, deliver(listener, handler, filter, call_lock)));
        // Panics of callbacks are caught where they are called, so only a destructor can panic here.
        let future = delivering.catch_unwind().map(|ended| {
            if let Err(payload) = ended {
                error!(error = panics::message(&*payload), "a destructor panicked; the handler is removed");
            }
        });
        let future = future.instrument(span);
        Self { name, kind, future: Box::pin(future) }
    }
}

impl Workers {
    /// Sets the runtime; from now on, workers can be run.
    pub(crate) fn start(&self, runtime: &Handle) {
        // An informer starts only once, so this is the first value.
        let _ = self.runtime.set(runtime.clone());
    }

    pub(crate) fn has_started(&self) -> bool {
        self.runtime.get().is_some()
    }

    /// Runs a worker. Call it after [`start`](Self::start).
    pub(crate) fn run(&self, Worker { name, kind, future }: Worker) {
        let Some(runtime) = self.runtime.get() else { return };
        let started = match kind {
            WorkerKind::Task => Some(future),
            WorkerKind::Thread => run_in_thread(&name, future, runtime),
        };
        let Some(future) = started else { return };
        let mut running = self.running.lock();
        while running.try_join_next().is_some() {}
        running.spawn_on(future, runtime);
    }

    /// Waits until all workers have ended. No worker may be added meanwhile.
    pub(crate) async fn ended(&self) {
        let mut running = std::mem::take(&mut *self.running.lock());
        while running.join_next().await.is_some() {}
    }
}

/// Starts a thread that runs the future. Returns a future that waits for the end of the thread; `None` if the thread cannot be started.
fn run_in_thread(name: &str, future: BoxFuture<'static, ()>, runtime: &Handle) -> Option<BoxFuture<'static, ()>> {
    let (ended, has_ended) = tokio::sync::oneshot::channel::<()>();
    let context = runtime.clone();
    let spawned = std::thread::Builder::new()
        // A name must have no zero byte, and Linux shows its first 15 bytes.
        .name(name.replace('\0', ""))
        .spawn(move || {
            let _ended = ended;
            // The runtime's context makes timers work. The thread does not run inside the runtime, so callbacks may block.
            let _context = context.enter();
            block_on(future);
        });
    match spawned {
        Ok(thread) => Some(Box::pin(async move {
            // The sender is dropped when the thread ends.
            let _ = has_ended.await;
            // Does not block for long: the thread is about to exit. The future has caught all panics.
            let _ = thread.join();
        })),
        Err(source) => {
            error!(handler = name, error = %source, "the thread of a blocking handler could not be started; the handler is removed");
            None
        }
    }
}

/// Runs a future on this thread. The thread is parked while the future is pending.
fn block_on(mut work: BoxFuture<'static, ()>) {
    let wakeup = Arc::new(ThreadWaker { thread: std::thread::current(), is_woken: AtomicBool::new(false) });
    let waker = Waker::from(Arc::clone(&wakeup));
    let mut context = Context::from_waker(&waker);
    while work.as_mut().poll(&mut context).is_pending() {
        while !wakeup.is_woken.swap(false, Ordering::AcqRel) {
            std::thread::park();
        }
    }
}

/// Wakes a thread. Users' code may park the thread, too, and so consume our `unpark`; so a flag records the wake-up.
struct ThreadWaker {
    thread: Thread,
    is_woken: AtomicBool,
}

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

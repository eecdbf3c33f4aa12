//! Owns the tasks and threads that call handlers, and waits for their end.
//!
//! - **In:** the future that calls one handler until its listener is closed.
//! - **Out:** a task or a thread that runs it.
//! - **Knows nothing of:** events.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Wake, Waker},
    thread::Thread,
};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    task::{JoinError, JoinSet},
};
use tracing::{Instrument, error};

use super::{AnyHandler, Listener, calling::as_work_of, delivery::deliver, turn::Turn};
use crate::panics;

/// The tasks and threads of one informer's handlers.
#[derive(Default)]
pub(crate) struct Workers {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The runtime of the informer; `None` before the start.
    runtime: Option<Handle>,
    running: JoinSet<()>,
}

/// The future that calls one handler. If it is dropped, the listener ends.
pub(crate) struct Work {
    name: Arc<str>,
    place: Place,
    future: BoxFuture<'static, ()>,
}

/// Where a handler is called and its futures run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Task,
    Thread,
}

impl Work {
    /// Calls a handler until its listener is closed; in turns, if workers of other informers call it too.
    pub(crate) fn new(listener: Arc<Listener>, handler: AnyHandler, place: Place, turn: Option<Turn>) -> Self {
        let (name, caller) = (Arc::clone(listener.name()), listener.caller);
        let span = tracing::info_span!("handler", informer = &*listener.informer, handler = &*name);
        let future = as_work_of(caller, deliver(listener, handler, turn)).instrument(span);
        Self { name, place, future: Box::pin(future) }
    }
}

impl Workers {
    /// Sets the runtime; from now on, handlers can be run.
    pub(crate) fn start(&self, runtime: &Handle) {
        self.state.lock().runtime = Some(runtime.clone());
    }

    pub(crate) fn has_started(&self) -> bool {
        self.state.lock().runtime.is_some()
    }

    /// Runs a handler, after the start.
    pub(crate) fn run(&self, work: Work) {
        let mut state = self.state.lock();
        // Workers that have ended.
        let left: Vec<_> = std::iter::from_fn(|| state.running.try_join_next()).collect();
        let refused = match state.runtime.clone() {
            Some(runtime) => state.run(work, &runtime),
            None => Some(work.future),
        };
        drop(state);
        panics::drop_catching(refused, |panic| error!(error = panic, "a handler panicked when it was dropped"));
        left.into_iter().for_each(note_end);
    }

    /// Waits until all workers have ended. No worker may be added meanwhile.
    pub(crate) async fn ended(&self) {
        let mut running = std::mem::take(&mut self.state.lock().running);
        while let Some(ended) = running.join_next().await {
            note_end(ended);
        }
    }
}

/// Panics of handlers are caught where they are called, so only a destructor can have panicked.
fn note_end(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && let Ok(panic) = error.try_into_panic()
    {
        error!(error = panics::message(panic), "a handler panicked when its worker ended");
    }
}

impl State {
    /// Returns the future if it could not be started.
    fn run(&mut self, work: Work, runtime: &Handle) -> Option<BoxFuture<'static, ()>> {
        let Work { name, place, future } = work;
        match place {
            Place::Task => {
                self.running.spawn_on(future, runtime);
            }
            Place::Thread => match run_in_thread(&name, future, runtime) {
                Ok(ended) => {
                    self.running.spawn_on(ended, runtime);
                }
                Err((source, work)) => {
                    error!(handler = &*name, error = %source, "the thread of a blocking handler could not be started; the handler is removed");
                    return work;
                }
            },
        }
        None
    }
}

/// Starts a thread that runs the future. Returns a future that waits for the end of the thread.
fn run_in_thread(
    name: &str,
    work: BoxFuture<'static, ()>,
    runtime: &Handle,
) -> Result<impl Future<Output = ()> + Send + use<>, (std::io::Error, Option<BoxFuture<'static, ()>>)> {
    let (ended, has_ended) = tokio::sync::oneshot::channel::<()>();
    let runtime = runtime.clone();
    // A name must have no zero byte, and Linux shows its first 15 bytes.
    let name: String = name.chars().filter(|character| *character != '\0').collect();
    // Passed in a slot, so that it can be taken back if the thread cannot be started.
    let slot = Arc::new(Mutex::new(Some(work)));
    let taken = Arc::clone(&slot);
    let spawned = std::thread::Builder::new().name(name).spawn(move || {
        let _ended = ended;
        // The runtime's context makes timers work. The thread does not run inside the runtime, so callbacks may block.
        let _context = runtime.enter();
        let work = taken.lock().take();
        if let Some(work) = work {
            block_on(work);
        }
    });
    let thread = match spawned {
        Ok(thread) => thread,
        Err(error) => return Err((error, slot.lock().take())),
    };
    Ok(async move {
        // The sender is dropped when the thread ends, also by a panic.
        let _ = has_ended.await;
        // Does not block for long: the thread is about to exit.
        if let Err(panic) = thread.join() {
            error!(error = panics::message(panic), "a handler's thread panicked");
        }
    })
}

/// Runs a future on this thread. The thread is parked while the future is pending.
fn block_on(mut work: Pin<Box<dyn Future<Output = ()> + Send>>) {
    let wakeup = Arc::new(ThreadWaker { thread: std::thread::current(), is_woken: AtomicBool::new(false) });
    let waker = Waker::from(Arc::clone(&wakeup));
    let mut context = Context::from_waker(&waker);
    while work.as_mut().poll(&mut context).is_pending() {
        while !wakeup.is_woken.swap(false, Ordering::AcqRel) {
            std::thread::park();
        }
    }
}

/// Wakes a thread. Users' code may park the thread too and use up our `unpark`, so a flag records the wake-up.
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

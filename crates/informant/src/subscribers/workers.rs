//! The tasks and threads that empty the listeners' buffers: all of them are owned here, and waited for.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::task::Context;
use std::task::Wake;
use std::task::Waker;
use std::thread::Thread;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::JoinError;
use tokio::task::JoinSet;
use tracing::Instrument;
use tracing::error;

use super::AnyHandler;
use super::Listener;
use super::calling::as_work_of;
use super::delivery::deliver;
use super::turn::Turn;
use crate::panics;

/// Tasks and threads, from the start of an informer to its end.
#[derive(Default)]
pub(crate) struct Workers {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Where they run, once that is known.
    runtime: Option<Handle>,
    running: JoinSet<()>,
}

/// What empties a listener's buffer. If it is dropped, its listener ends.
pub(crate) struct Work {
    name: Arc<str>,
    place: Place,
    future: BoxFuture<'static, ()>,
}

/// Where a handler is called.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Task,
    Thread,
}

impl Work {
    /// Calls a handler until its listener is closed; by turns, if others call it too.
    pub(crate) fn new(listener: Arc<Listener>, handler: AnyHandler, place: Place, turn: Option<Turn>) -> Self {
        let (name, caller) = (Arc::clone(listener.name()), listener.caller);
        let span = tracing::info_span!("handler", kind = &*listener.informer, handler = &*name);
        let future = as_work_of(caller, deliver(listener, handler, turn)).instrument(span);
        Self { name, place, future: Box::pin(future) }
    }
}

impl Workers {
    /// From now on, work can be done.
    pub(crate) fn start(&self, runtime: &Handle) {
        self.state.lock().runtime = Some(runtime.clone());
    }

    pub(crate) fn has_started(&self) -> bool {
        self.state.lock().runtime.is_some()
    }

    /// Begins work, after the start.
    pub(crate) fn run(&self, work: Work) {
        let mut state = self.state.lock();
        // Those who have left.
        let left: Vec<_> = std::iter::from_fn(|| state.running.try_join_next()).collect();
        let refused = match state.runtime.clone() {
            Some(runtime) => state.run(work, &runtime),
            None => Some(work.future),
        };
        drop(state);
        panics::drop_catching(refused, |panic| error!(error = panic, "a handler panicked when it was dropped"));
        left.into_iter().for_each(note_end);
    }

    /// Waits until all have ended. Nobody may be added meanwhile.
    pub(crate) async fn ended(&self) {
        let mut running = std::mem::take(&mut self.state.lock().running);
        while let Some(ended) = running.join_next().await {
            note_end(ended);
        }
    }
}

/// Panics of handlers are caught where they are called, so this is about their last moments.
fn note_end(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && let Ok(panic) = error.try_into_panic()
    {
        error!(error = panics::said(panic), "a handler panicked at its end");
    }
}

impl State {
    /// Gives back what could not be begun.
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
                    error!(handler = &*name, error = %source, "no thread for a blocking handler; it is removed");
                    return work;
                }
            },
        }
        None
    }
}

/// Gives what waits for the end of the thread.
fn run_in_thread(
    name: &str,
    work: BoxFuture<'static, ()>,
    runtime: &Handle,
) -> Result<impl Future<Output = ()> + Send + use<>, (std::io::Error, Option<BoxFuture<'static, ()>>)> {
    let (ended, has_ended) = tokio::sync::oneshot::channel::<()>();
    let runtime = runtime.clone();
    // A name must have no zero byte, and Linux shows its first 15 bytes.
    let name: String = name.chars().filter(|character| *character != '\0').collect();
    // Handed over in a slot, so that it can be taken back if there is no thread.
    let slot = Arc::new(Mutex::new(Some(work)));
    let taken = Arc::clone(&slot);
    let spawned = std::thread::Builder::new().name(name).spawn(move || {
        let _ended = ended;
        // It has the runtime's context, for timers, but does not block inside it: so callbacks may.
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
        // Dropped at the thread's end, however it ends.
        let _ = has_ended.await;
        // The thread has nothing more to do than to end.
        if let Err(panic) = thread.join() {
            error!(error = panics::said(panic), "a handler's thread panicked");
        }
    })
}

/// Runs a future on this thread, which sleeps while there is nothing to do.
fn block_on(mut work: Pin<Box<dyn Future<Output = ()> + Send>>) {
    let alarm = Arc::new(Alarm { thread: std::thread::current(), rings: AtomicBool::new(false) });
    let waker = Waker::from(Arc::clone(&alarm));
    let mut context = Context::from_waker(&waker);
    while work.as_mut().poll(&mut context).is_pending() {
        while !alarm.rings.swap(false, Ordering::AcqRel) {
            std::thread::park();
        }
    }
}

/// Wakes a thread. Users' code may park too, and wake up by what was meant for us: so it is also written down.
struct Alarm {
    thread: Thread,
    rings: AtomicBool,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.rings.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

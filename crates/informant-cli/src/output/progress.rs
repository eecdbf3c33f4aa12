//! How an informer comes along, on stderr: redrawn in place in a terminal, elsewhere a line now and then; and what goes wrong
//! afterwards.

use std::io;
use std::io::IsTerminal;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

use informant::SharedInformerFactory;
use informant::informer::InformerStatus;
use informant::informer::Problem;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio::time::interval;

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// How often it is told where nothing can be redrawn.
const TELL: Duration = Duration::from_secs(5);

/// A task that tells how a factory's informers come along; it ends with this.
pub struct Progress {
    task: JoinHandle<()>,
    line: Arc<Line>,
}

impl Progress {
    pub fn of(factory: SharedInformerFactory) -> Self {
        let line = Arc::new(Line::default());
        Self { task: tokio::spawn(follow(factory, Arc::clone(&line))), line }
    }

    /// Makes room: results come now.
    pub fn make_room(&self) {
        self.line.end();
    }

    /// No more of it.
    pub async fn stop(mut self) {
        self.task.abort();
        // It was asked to end, so its end is no news.
        let _ = (&mut self.task).await;
        self.line.end();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The line in a terminal that is redrawn, until there are results.
#[derive(Default)]
struct Line {
    has_ended: AtomicBool,
}

impl Line {
    /// One line, over the one before.
    fn redraw(&self, line: &str) {
        let shown: String = line.chars().filter(|one| !one.is_control()).take(79).collect();
        let mut stderr = io::stderr().lock();
        // Looked at under the lock, so that nothing is drawn after the end.
        if !self.has_ended.load(Ordering::Relaxed) {
            // There is nobody to tell that it failed.
            let _ = write!(stderr, "\r\x1b[K{shown}").and_then(|()| stderr.flush());
        }
    }

    /// The terminal is left clean.
    fn end(&self) {
        let mut stderr = io::stderr().lock();
        if stderr.is_terminal() && !self.has_ended.swap(true, Ordering::Relaxed) {
            // There is nobody to tell that it failed.
            let _ = write!(stderr, "\r\x1b[K").and_then(|()| stderr.flush());
        }
    }
}

async fn follow(factory: SharedInformerFactory, line: Arc<Line>) {
    let is_terminal = io::stderr().is_terminal();
    let mut looks = interval(LOOK);
    // At once there is nothing to tell yet.
    looks.tick().await;
    let mut told = Instant::now();
    let mut was_synced = false;
    let mut trouble = false;
    loop {
        looks.tick().await;
        let status = factory.status();
        let problems: Vec<_> = status.iter().filter_map(InformerStatus::problem).collect();
        if !was_synced {
            was_synced = factory.is_synced();
            let told_now = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            match (was_synced, is_terminal) {
                (true, _) => line.end(),
                (false, true) => line.redraw(&told_now),
                (false, false) if told.elapsed() >= TELL => {
                    eprintln!("informant: {told_now}");
                    told = Instant::now();
                }
                (false, false) => {}
            }
            continue;
        }
        // Once it was synced: what has gone wrong since, and that it is over.
        let worst = problems.iter().find(|problem| is_trouble(problem));
        match (worst, trouble) {
            (Some(problem), false) => eprintln!("informant: {problem}; it goes on trying"),
            (None, true) => eprintln!("informant: it is up to date again"),
            (Some(_), true) | (None, false) => {}
        }
        trouble = worst.is_some();
    }
}

/// What people want to hear of: that changes do not come any more.
fn is_trouble(problem: &Problem) -> bool {
    matches!(problem, Problem::Failing { .. } | Problem::Gone { .. })
}

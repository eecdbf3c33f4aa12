//! How informers come along, told on stderr: in a terminal as a line that is redrawn until there are results, elsewhere a line now
//! and then; and afterwards what goes wrong, and that it is over.
//!
//! [`Story`] has the rules of what is told when; the task around it looks, and writes.

use std::io;
use std::io::Write;
use std::mem::Discriminant;
use std::mem::discriminant;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

use informant::SharedInformerFactory;
use informant::informer::InformerStatus;
use informant::informer::Problem;
use informant::listwatch::ListWatchError;
use informant::listwatch::SourceError;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio::time::MissedTickBehavior;
use tokio::time::interval;
use tracing_subscriber::filter::LevelFilter;

use crate::output::harmless;
use crate::output::say;
use crate::output::terminal;

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// The shortest time between two lines if stderr is not redrawn.
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
        self.line.end();
    }
}

async fn follow(factory: SharedInformerFactory, line: Arc<Line>) {
    // The log does not know of a line that is redrawn.
    let redraws = terminal::of(&io::stderr()).is_some() && LevelFilter::current() == LevelFilter::OFF;
    let mut story = Story { redraws, ..Story::default() };
    let begun = Instant::now();
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // At once there is nothing to tell yet.
    looks.tick().await;
    loop {
        looks.tick().await;
        let problems: Vec<_> = factory.status().iter().filter_map(InformerStatus::problem).collect();
        match story.look(&problems, factory.is_synced(), begun.elapsed()) {
            Telling::Nothing => {}
            Telling::Redraw(text) => line.redraw(&text),
            Telling::End => line.end(),
            Telling::Line(text) => say(&text),
        }
    }
}

/// What was told so far.
#[derive(Debug, Default)]
struct Story {
    /// Whether a line can be drawn over.
    redraws: bool,
    was_synced: bool,
    /// The problem that was printed last, until it is solved.
    reported: Option<ReportedProblem>,
    told: Duration,
}

/// A problem of a synced informer that was printed.
#[derive(Debug)]
struct ReportedProblem {
    informer: Arc<str>,
    cause: ProblemCause,
}

/// The parts of a problem that are compared: a new line is printed only if one of them changes.
#[derive(Debug, PartialEq, Eq)]
struct ProblemCause {
    problem: Discriminant<Problem>,
    source: Option<Discriminant<SourceError>>,
    /// The code of the server's answer.
    code: Option<u16>,
    server_may_be_starting: bool,
    /// Only for requests without an answer: it differs between a wrong certificate and a server that is down.
    advice: Option<&'static str>,
}

impl ProblemCause {
    fn of(problem: &Problem) -> Self {
        let reason = if let Problem::Failing { reason, .. } = problem { Some(&**reason) } else { None };
        let code = reason.and_then(|reason| reason.source.code());
        Self {
            problem: discriminant(problem),
            source: reason.map(|reason| discriminant(&reason.source)),
            code,
            server_may_be_starting: code.is_some() && reason.is_some_and(|reason| reason.server_may_be_starting),
            advice: reason.filter(|_| code.is_none()).and_then(ListWatchError::advice),
        }
    }
}

/// What is told now.
#[derive(Debug, PartialEq, Eq)]
enum Telling {
    Nothing,
    /// Over the line before.
    Redraw(String),
    /// The line that was redrawn goes.
    End,
    Line(String),
}

impl Story {
    fn look(&mut self, problems: &[Problem], is_synced: bool, passed: Duration) -> Telling {
        if self.was_synced {
            return self.look_after_sync(problems, passed);
        }
        self.was_synced = is_synced;
        let all = || problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        match (is_synced, self.redraws) {
            (true, _) => Telling::End,
            (false, true) => Telling::Redraw(all()),
            (false, false) if passed - self.told >= TELL => {
                self.told = passed;
                Telling::Line(all())
            }
            (false, false) => Telling::Nothing,
        }
    }

    /// After the first sync: prints a problem each time its cause changes, and a line when it is solved.
    fn look_after_sync(&mut self, problems: &[Problem], passed: Duration) -> Telling {
        let problem = match problems.first() {
            Some(Problem::Stopped { .. } | Problem::NotStarted { .. }) => return Telling::Nothing,
            Some(problem) => problem,
            None => {
                let over = self.reported.take();
                let line = over.map(|problem| format!("informer {} is up to date again", problem.informer));
                return line.map_or(Telling::Nothing, Telling::Line);
            }
        };
        let cause = ProblemCause::of(problem);
        // Two causes can alternate with each attempt; print at most one line every 5 s.
        let is_news = self.reported.as_ref().is_none_or(|last| last.cause != cause && passed - self.told >= TELL);
        if !is_news {
            return Telling::Nothing;
        }
        self.told = passed;
        self.reported = Some(ReportedProblem { informer: Arc::clone(problem.informer()), cause });
        Telling::Line(format!("{problem}; retrying"))
    }
}

/// The line in a terminal that is redrawn, until there are results.
#[derive(Default)]
struct Line {
    has_ended: AtomicBool,
}

impl Line {
    /// One line, over the one before.
    fn redraw(&self, text: &str) {
        let mut stderr = io::stderr().lock();
        let Some(size) = terminal::of(&stderr) else { return };
        let shown: String = harmless(text).chars().take(size.room().columns).collect();
        // Looked at under the lock, so that nothing is drawn after the end.
        if !self.has_ended.load(Ordering::Relaxed) {
            // There is nobody to tell that it failed.
            let _ = write!(stderr, "{}{shown}", terminal::OVER).and_then(|()| stderr.flush());
        }
    }

    /// The terminal is left clean.
    fn end(&self) {
        let mut stderr = io::stderr().lock();
        if !self.has_ended.swap(true, Ordering::Relaxed) && terminal::of(&stderr).is_some() {
            // There is nobody to tell that it failed.
            let _ = write!(stderr, "{}", terminal::OVER).and_then(|()| stderr.flush());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn syncing(objects: usize) -> [Problem; 1] {
        [Problem::Syncing { informer: "pods".into(), objects }]
    }

    fn gone() -> [Problem; 1] {
        [Problem::Gone { informer: "pods".into() }]
    }

    #[test]
    fn a_terminal_sees_each_look_until_it_is_synced() {
        let mut story = Story { redraws: true, ..Story::default() };

        let told = story.look(&syncing(7), false, LOOK);
        assert_eq!(told, Telling::Redraw("informer pods is syncing: 7 objects so far".into()));
        assert_eq!(story.look(&[], true, LOOK), Telling::End);
        assert_eq!(story.look(&[], true, LOOK), Telling::Nothing);
    }

    #[test]
    fn others_get_a_line_now_and_then() {
        let mut story = Story::default();

        assert_eq!(story.look(&syncing(7), false, Duration::from_secs(4)), Telling::Nothing);
        assert!(matches!(story.look(&syncing(7), false, Duration::from_secs(5)), Telling::Line(_)));
        assert_eq!(story.look(&syncing(8), false, Duration::from_secs(9)), Telling::Nothing);
        assert!(matches!(story.look(&syncing(8), false, Duration::from_secs(10)), Telling::Line(_)));
    }

    #[test]
    fn trouble_is_told_once_and_so_is_its_end() {
        let mut story = Story { was_synced: true, ..Story::default() };

        let Telling::Line(told) = story.look(&gone(), true, LOOK) else { panic!("it is told") };
        assert!(told.ends_with("; retrying"), "{told}");
        assert_eq!(story.look(&gone(), true, LOOK), Telling::Nothing);
        assert_eq!(story.look(&gone(), true, TELL * 10), Telling::Nothing);
        assert_eq!(story.look(&[], true, TELL * 10), Telling::Line("informer pods is up to date again".into()));
        assert_eq!(story.look(&[], true, TELL * 10), Telling::Nothing);
    }

    #[test]
    fn a_changed_cause_is_printed_but_not_more_often_than_every_five_seconds() {
        let silent =
            |seconds| [Problem::Silent { informer: "pods".into(), confirmed_age: Duration::from_secs(seconds) }];
        let mut story = Story { was_synced: true, ..Story::default() };
        assert!(matches!(story.look(&gone(), true, LOOK), Telling::Line(_)));

        assert_eq!(story.look(&silent(1), true, LOOK * 2), Telling::Nothing, "so soon");
        let Telling::Line(told) = story.look(&silent(6), true, LOOK + TELL) else { panic!("the cause is another one") };
        assert!(told.contains("its watch is silent"), "{told}");
        assert_eq!(story.look(&silent(60), true, TELL * 9), Telling::Nothing, "it lasts longer, and that is all");
        assert!(matches!(story.look(&gone(), true, TELL * 9), Telling::Line(_)), "the first cause is back");
    }
}

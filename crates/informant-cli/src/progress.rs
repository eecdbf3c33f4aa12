//! Progress of informers on stderr: until the first sync, a redrawn line in a terminal or a line every 5 s elsewhere; after that, a
//! line for each problem and one when it is solved.
//!
//! [`ProgressRules`] decides when to print what; the task around it polls the factory and writes.

use std::{
    io,
    io::Write,
    mem::{Discriminant, discriminant},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use informant::{
    SharedInformerFactory,
    error::{ListWatchError, SourceError},
    factory::{InformerStatus, Problem},
};
use tokio::{
    task::JoinHandle,
    time::{Instant, MissedTickBehavior, interval},
};
use tracing_subscriber::filter::LevelFilter;

use crate::output::{print_message, sanitized, terminal};

/// How often the status of the informers is polled.
const POLL_EVERY: Duration = Duration::from_millis(200);

/// The shortest time between two lines if stderr is not redrawn.
const PRINT_EVERY: Duration = Duration::from_secs(5);

/// A task that prints the progress of a factory's informers; dropping this aborts it.
pub struct Progress {
    task: JoinHandle<()>,
    line: Arc<StatusLine>,
}

impl Progress {
    pub fn of(factory: SharedInformerFactory) -> Self {
        let line = Arc::new(StatusLine::default());
        Self { task: tokio::spawn(print_progress(factory, Arc::clone(&line))), line }
    }

    /// Removes the redrawn line, before results are printed.
    pub fn clear(&self) {
        self.line.end();
    }

    /// Stops the task and removes the redrawn line.
    pub async fn stop(mut self) {
        self.task.abort();
        // The task was aborted, so its result is known.
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

async fn print_progress(factory: SharedInformerFactory, line: Arc<StatusLine>) {
    // Log lines would mix with a redrawn line.
    let redraws = terminal::of(&io::stderr()).is_some() && LevelFilter::current() == LevelFilter::OFF;
    let mut rules = ProgressRules { redraws, ..ProgressRules::default() };
    let started = Instant::now();
    let mut polls = interval(POLL_EVERY);
    polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick completes at once, when there is no progress yet.
    polls.tick().await;
    loop {
        polls.tick().await;
        let problems: Vec<_> = factory.status().iter().filter_map(InformerStatus::problem).collect();
        match rules.poll(&problems, factory.is_synced(), started.elapsed()) {
            Printed::Nothing => {}
            Printed::Redraw(text) => line.redraw(&text),
            Printed::Clear => line.end(),
            Printed::Line(text) => print_message(&text),
        }
    }
}

/// What has been printed so far.
#[derive(Debug, Default)]
struct ProgressRules {
    /// Whether the progress line can be redrawn.
    redraws: bool,
    was_synced: bool,
    /// The problem that was printed last, until it is solved.
    reported: Option<ReportedProblem>,
    /// When the last line was printed, since the start.
    printed_at: Duration,
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

/// What to print now.
#[derive(Debug, PartialEq, Eq)]
enum Printed {
    Nothing,
    /// Replaces the progress line.
    Redraw(String),
    /// Removes the progress line.
    Clear,
    Line(String),
}

impl ProgressRules {
    fn poll(&mut self, problems: &[Problem], is_synced: bool, passed: Duration) -> Printed {
        if self.was_synced {
            return self.poll_after_sync(problems, passed);
        }
        self.was_synced = is_synced;
        let all = || problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        match (is_synced, self.redraws) {
            (true, _) => Printed::Clear,
            (false, true) => Printed::Redraw(all()),
            (false, false) if passed - self.printed_at >= PRINT_EVERY => {
                self.printed_at = passed;
                Printed::Line(all())
            }
            (false, false) => Printed::Nothing,
        }
    }

    /// After the first sync: prints a problem each time its cause changes, and a line when it is solved.
    fn poll_after_sync(&mut self, problems: &[Problem], passed: Duration) -> Printed {
        let problem = match problems.first() {
            Some(Problem::Stopped { .. } | Problem::NotStarted { .. }) => return Printed::Nothing,
            Some(problem) => problem,
            None => {
                let solved = self.reported.take();
                let line = solved.map(|problem| format!("informer {} is up to date again", problem.informer));
                return line.map_or(Printed::Nothing, Printed::Line);
            }
        };
        let cause = ProblemCause::of(problem);
        // Two causes can alternate with each attempt; print at most one line every 5 s.
        let is_new =
            self.reported.as_ref().is_none_or(|last| last.cause != cause && passed - self.printed_at >= PRINT_EVERY);
        if !is_new {
            return Printed::Nothing;
        }
        self.printed_at = passed;
        self.reported = Some(ReportedProblem { informer: Arc::clone(problem.informer()), cause });
        Printed::Line(format!("{problem}; retrying"))
    }
}

/// The progress line in a terminal, which is redrawn until results are printed.
#[derive(Default)]
struct StatusLine {
    has_ended: AtomicBool,
}

impl StatusLine {
    /// Replaces the line; does nothing after [`end`](Self::end).
    fn redraw(&self, text: &str) {
        let mut stderr = io::stderr().lock();
        let Some(size) = terminal::of(&stderr) else { return };
        let shown: String = sanitized(text).chars().take(size.drawable().columns).collect();
        // Read under the lock of stderr, so that nothing is drawn after the end.
        if !self.has_ended.load(Ordering::Relaxed) {
            // If it fails, there is nowhere to report it.
            let _ = write!(stderr, "{}{shown}", terminal::CLEAR_LINE).and_then(|()| stderr.flush());
        }
    }

    /// Clears the line, for good.
    fn end(&self) {
        let mut stderr = io::stderr().lock();
        if !self.has_ended.swap(true, Ordering::Relaxed) && terminal::of(&stderr).is_some() {
            // If it fails, there is nowhere to report it.
            let _ = write!(stderr, "{}", terminal::CLEAR_LINE).and_then(|()| stderr.flush());
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
    fn a_terminal_gets_a_redrawn_line_at_each_poll_until_the_informers_are_synced() {
        let mut rules = ProgressRules { redraws: true, ..ProgressRules::default() };

        let printed = rules.poll(&syncing(7), false, POLL_EVERY);
        assert_eq!(printed, Printed::Redraw("informer pods is syncing: 7 objects so far".into()));
        assert_eq!(rules.poll(&[], true, POLL_EVERY), Printed::Clear);
        assert_eq!(rules.poll(&[], true, POLL_EVERY), Printed::Nothing);
    }

    #[test]
    fn without_a_terminal_a_progress_line_is_printed_every_five_seconds() {
        let mut rules = ProgressRules::default();

        assert_eq!(rules.poll(&syncing(7), false, Duration::from_secs(4)), Printed::Nothing);
        assert!(matches!(rules.poll(&syncing(7), false, Duration::from_secs(5)), Printed::Line(_)));
        assert_eq!(rules.poll(&syncing(8), false, Duration::from_secs(9)), Printed::Nothing);
        assert!(matches!(rules.poll(&syncing(8), false, Duration::from_secs(10)), Printed::Line(_)));
    }

    #[test]
    fn a_problem_is_printed_once_and_so_is_its_solution() {
        let mut rules = ProgressRules { was_synced: true, ..ProgressRules::default() };

        let Printed::Line(line) = rules.poll(&gone(), true, POLL_EVERY) else { panic!("the problem is printed") };
        assert!(line.ends_with("; retrying"), "{line}");
        assert_eq!(rules.poll(&gone(), true, POLL_EVERY), Printed::Nothing);
        assert_eq!(rules.poll(&gone(), true, PRINT_EVERY * 10), Printed::Nothing);
        assert_eq!(rules.poll(&[], true, PRINT_EVERY * 10), Printed::Line("informer pods is up to date again".into()));
        assert_eq!(rules.poll(&[], true, PRINT_EVERY * 10), Printed::Nothing);
    }

    #[test]
    fn a_changed_cause_is_printed_but_not_more_often_than_every_five_seconds() {
        let silent =
            |seconds| [Problem::Silent { informer: "pods".into(), confirmed_age: Duration::from_secs(seconds) }];
        let mut rules = ProgressRules { was_synced: true, ..ProgressRules::default() };
        assert!(matches!(rules.poll(&gone(), true, POLL_EVERY), Printed::Line(_)));

        assert_eq!(rules.poll(&silent(1), true, POLL_EVERY * 2), Printed::Nothing, "less than 5 s later");
        let Printed::Line(line) = rules.poll(&silent(6), true, POLL_EVERY + PRINT_EVERY) else {
            panic!("the cause has changed")
        };
        assert!(line.contains("its watch is silent"), "{line}");
        assert_eq!(rules.poll(&silent(60), true, PRINT_EVERY * 9), Printed::Nothing, "only the duration has changed");
        assert!(matches!(rules.poll(&gone(), true, PRINT_EVERY * 9), Printed::Line(_)), "the first cause is back");
    }
}

//! The cases: each is a fault, and the time within which the client must be right again.

mod answers;
mod credentials;
mod definitions;
mod lost_events;
mod relists;
mod restarts;
mod restores;
mod stops;

use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::stage::{Failure, Stage};

/// A named fault.
pub struct Case {
    pub name: &'static str,
    /// What happens, for `--list`.
    pub what: &'static str,
    /// The time from the end of the fault until the client is right, for 19 of 20 recoveries.
    pub bar: Duration,
    /// Whether a backup is restored, so that versions can go backwards.
    pub changes_history: bool,
    /// Whether the client's log or its problems must name the history change.
    pub names_change: bool,
    /// Whether `--quick` runs it.
    pub is_quick: bool,
    run: Run,
}

type Run = for<'a> fn(&'a mut Stage) -> BoxFuture<'a, Result<(), Failure>>;

impl Case {
    pub async fn run(&self, stage: &mut Stage) -> Result<(), Failure> {
        (self.run)(stage).await
    }

    const fn new(name: &'static str, what: &'static str, bar_s: u64, run: Run) -> Self {
        Self {
            name,
            what,
            bar: Duration::from_secs(bar_s),
            changes_history: false,
            names_change: false,
            is_quick: false,
            run,
        }
    }

    const fn changing_history(mut self) -> Self {
        self.changes_history = true;
        self.names_change = true;
        self
    }

    /// The client cannot know that the history changed.
    const fn unnamed(mut self) -> Self {
        self.names_change = false;
        self
    }

    /// `--quick` runs the case, too.
    const fn quick(mut self) -> Self {
        self.is_quick = true;
        self
    }
}

/// Makes a [`Run`] of an async function.
macro_rules! run {
    ($function:path $(, $argument:expr)*) => {
        |stage| Box::pin($function(stage $(, $argument)*))
    };
}
use run;

/// All cases, in the order in which they run.
pub fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(restarts::cases());
    cases.extend(stops::cases());
    cases.extend(restores::cases());
    cases.extend(answers::cases());
    cases.extend(credentials::cases());
    cases.extend(definitions::cases());
    cases.extend(relists::cases());
    cases.extend(lost_events::cases());
    cases
}

//! The phase of an informer: new, running, stopping, closed or stopped, with the reason for the stop.
//!
//! - **In:** the start, a request to stop, a crash, the last write to the cache, the end of the informer's task.
//! - **Out:** the next phase, and the settings of a new informer at its start.
//! - **Knows nothing of:** locks, tasks and wake-ups, for which [`core`](super::core) is responsible.
//!
//! The inputs are methods, in the order of the columns: `close` is called after the last write to the cache, and `end` when the informer's task has
//! ended. "Asked" and "crashed" are the reason. An informer that is stopped before its start has no task; the call that stops it closes and ends it.
//!
//! | phase | `start` | `ask_to_stop` | `crash` | `close` | `end` |
//! | --- | --- | --- | --- | --- | --- |
//! | `New` | `Running` | `Stopping`, asked | | | |
//! | `Running` | | `Stopping`, asked | `Stopping`, crashed | | |
//! | `Stopping` | | | | `Closed` | |
//! | `Closed` | | | | | `Stopped` |
//! | `Stopped` | | | | | |
//!
//! Where the table is empty, the phase does not change: an informer starts once, and the first reason to stop is kept.

use std::sync::Arc;

use super::run::Unstarted;
use crate::informer::InformerState;

/// The phase of an informer.
pub(crate) enum Phase {
    /// The informer was neither started nor stopped. Its settings can be changed.
    New(Box<Unstarted>),
    /// The informer's task was started.
    Running,
    /// The informer's task is about to end. A batch that it is applying may still be written to the cache.
    Stopping(StopReason),
    /// No further write to the cache can happen, and no further callback begins. Callbacks may still be running.
    Closed(StopReason),
    /// The informer's task has ended.
    Stopped(StopReason),
}

/// The reason why an informer stops or has stopped.
#[derive(Clone)]
pub(crate) enum StopReason {
    /// A handle asked for the stop, or the last handle was dropped.
    Asked,
    /// The informer stopped by itself, such as after a panic; with the cause.
    Crashed(Arc<str>),
}

impl Phase {
    /// Starts a new informer and returns its settings; `None` if it was started or stopped before.
    pub(crate) fn start(&mut self) -> Option<Box<Unstarted>> {
        self.leave_new(Self::Running)
    }

    /// Asks the informer to stop. Returns the settings of a new informer: it has no task, so the caller closes and ends it.
    pub(crate) fn ask_to_stop(&mut self) -> Option<Box<Unstarted>> {
        if let Self::Running = self {
            *self = Self::Stopping(StopReason::Asked);
        }
        self.leave_new(Self::Stopping(StopReason::Asked))
    }

    /// Stops a running informer that was not asked to stop.
    pub(crate) fn crash(&mut self, cause: Arc<str>) {
        if let Self::Running = self {
            *self = Self::Stopping(StopReason::Crashed(cause));
        }
    }

    /// Ends the writes to the cache; returns true if they had not ended before.
    pub(crate) fn close(&mut self) -> bool {
        let Self::Stopping(reason) = self else { return false };
        *self = Self::Closed(reason.clone());
        true
    }

    /// Records that the informer's task has ended.
    pub(crate) fn end(&mut self) {
        if let Self::Closed(reason) = self {
            *self = Self::Stopped(reason.clone());
        }
    }

    /// Returns the settings of a new informer.
    pub(crate) fn settings(&mut self) -> Option<&mut Unstarted> {
        let Self::New(settings) = self else { return None };
        Some(settings)
    }

    /// Returns true once the informer was asked to stop or has crashed.
    pub(crate) fn is_stopping(&self) -> bool {
        matches!(self, Self::Stopping(_) | Self::Closed(_) | Self::Stopped(_))
    }

    /// Returns true once no further write to the cache can happen.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self, Self::Closed(_) | Self::Stopped(_))
    }

    /// Returns the phase as users see it.
    pub(crate) fn state(&self) -> InformerState {
        match self {
            Self::New(_) => InformerState::New,
            Self::Running => InformerState::Running,
            Self::Stopping(_) | Self::Closed(_) => InformerState::Stopping,
            Self::Stopped(_) => InformerState::Stopped,
        }
    }

    /// Returns the cause if the informer stopped by itself.
    pub(crate) fn crash_cause(&self) -> Option<&Arc<str>> {
        match self {
            Self::Stopping(reason) | Self::Closed(reason) | Self::Stopped(reason) => match reason {
                StopReason::Asked => None,
                StopReason::Crashed(cause) => Some(cause),
            },
            Self::New(_) | Self::Running => None,
        }
    }

    /// Moves a new informer to another phase and returns its settings.
    fn leave_new(&mut self, next: Self) -> Option<Box<Unstarted>> {
        match std::mem::replace(self, next) {
            Self::New(settings) => Some(settings),
            other @ (Self::Running | Self::Stopping(_) | Self::Closed(_) | Self::Stopped(_)) => {
                *self = other;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::listwatch::{Reflector, ScriptedSource};

    fn new() -> Phase {
        let (source, _) = ScriptedSource::live();
        let reflector = Reflector::builder::<ConfigMap>(source).settings;
        Phase::New(Box::new(Unstarted { reflector, audit: None }))
    }

    /// The name of the phase and the reason of the stop, as one row of the module's table has them.
    fn name(phase: &Phase) -> String {
        let reason = |reason: &StopReason| match reason {
            StopReason::Asked => "asked".to_owned(),
            StopReason::Crashed(cause) => format!("crashed: {cause}"),
        };
        match phase {
            Phase::New(_) => "new".to_owned(),
            Phase::Running => "running".to_owned(),
            Phase::Stopping(why) => format!("stopping, {}", reason(why)),
            Phase::Closed(why) => format!("closed, {}", reason(why)),
            Phase::Stopped(why) => format!("stopped, {}", reason(why)),
        }
    }

    /// Checks one row: the phases after `start`, `ask_to_stop`, `crash`, `close` and `end`.
    fn check_row(phase: impl Fn() -> Phase, after: [&str; 5]) {
        let transitions: [fn(&mut Phase); 5] = [
            |phase| drop(phase.start()),
            |phase| drop(phase.ask_to_stop()),
            |phase| phase.crash("panicked".into()),
            |phase| {
                phase.close();
            },
            Phase::end,
        ];
        let reached = transitions.map(|transition| {
            let mut phase = phase();
            transition(&mut phase);
            name(&phase)
        });
        assert_eq!(reached, after, "from {}", name(&phase()));
    }

    fn reasons() -> [(StopReason, &'static str); 2] {
        [(StopReason::Asked, "asked"), (StopReason::Crashed("no memory".into()), "crashed: no memory")]
    }

    #[test]
    fn the_phase_of_a_new_informer_changes_at_the_start_and_at_a_stop_before_it() {
        check_row(new, ["running", "stopping, asked", "new", "new", "new"]);
    }

    #[test]
    fn the_phase_of_a_running_informer_changes_at_a_stop_and_a_crash() {
        let after = ["running", "stopping, asked", "stopping, crashed: panicked", "running", "running"];
        check_row(|| Phase::Running, after);
    }

    #[test]
    fn the_phase_of_a_stopping_informer_keeps_its_first_reason_and_changes_when_the_cache_closes() {
        for (reason, text) in reasons() {
            let stopping = format!("stopping, {text}");
            let after = [&*stopping, &*stopping, &*stopping, &*format!("closed, {text}"), &*stopping];
            check_row(|| Phase::Stopping(reason.clone()), after);
        }
    }

    #[test]
    fn the_phase_of_a_closed_informer_changes_when_its_task_ends() {
        for (reason, text) in reasons() {
            let closed = format!("closed, {text}");
            check_row(
                || Phase::Closed(reason.clone()),
                [&*closed, &*closed, &*closed, &*closed, &*format!("stopped, {text}")],
            );
        }
    }

    #[test]
    fn the_phase_of_a_stopped_informer_does_not_change() {
        for (reason, text) in reasons() {
            check_row(|| Phase::Stopped(reason.clone()), [&*format!("stopped, {text}"); 5]);
        }
    }

    #[test]
    fn the_settings_leave_the_phase_once_at_the_start_or_at_a_stop_before_it() {
        let mut started = new();
        assert!(started.settings().is_some());
        assert!(started.start().is_some());
        assert!(started.settings().is_none());
        assert!(started.start().is_none() && started.ask_to_stop().is_none());

        let mut stopped = new();
        assert!(stopped.ask_to_stop().is_some());
        assert!(stopped.settings().is_none() && stopped.start().is_none());
    }

    #[test]
    fn state_crash_and_closing_are_derived_from_the_phase() {
        let crashed = || StopReason::Crashed("no memory".into());
        let rows = [
            (new(), InformerState::New, false, false),
            (Phase::Running, InformerState::Running, false, false),
            (Phase::Stopping(crashed()), InformerState::Stopping, true, false),
            (Phase::Closed(crashed()), InformerState::Stopping, true, true),
            (Phase::Stopped(crashed()), InformerState::Stopped, true, true),
        ];
        for (phase, state, is_stopping, is_closed) in rows {
            assert_eq!(phase.state(), state);
            assert_eq!((phase.is_stopping(), phase.is_closed()), (is_stopping, is_closed), "{state:?}");
            assert_eq!(phase.crash_cause().is_some(), is_stopping, "{state:?}");
        }
        assert!(Phase::Stopped(StopReason::Asked).crash_cause().is_none());
    }

    #[test]
    fn only_the_first_close_of_a_phase_returns_true() {
        let mut phase = Phase::Stopping(StopReason::Asked);
        assert!(phase.close());
        assert!(!phase.close());
    }
}

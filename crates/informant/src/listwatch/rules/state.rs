//! The states of a reflector, and the one function that moves it from state to state.
//!
//! - **In:** how the request of a state ended.
//! - **Out:** the next state; what to do about a failure.
//! - **Knows nothing of:** requests, the clock, tasks. The reflector performs the request that the state names, and passes the result back.
//!
//! The tables below are the specification: the tests of this file read them and compare each row with the code. If several rows fit, the first one
//! applies.
//!
//! - The words in parentheses are the request that follows the backoff. The reflector waits only in the states "backoff" and "kind gone", as long
//!   as [`failure_delays`](super::failure_delays) says.
//! - *Done*: the request succeeded. *Earlier*: the watch must begin at an earlier version. *Not supported*: the source cannot do it, or does not serve the kind. *End*: a watch ended without an error.
//!   *Refused*: the server sent an error instead of the list or watch, or nothing. *Broken*: the list or watch began, and then failed. *Error*: both. The errors are the
//!   classes of [`ErrorClass`]. A row with *any* also covers inputs that cannot occur in its state.
//! - The column "failure" is the [`FailureAction`]. *Publish*: the status shows the failure.
//!
//! | state | input | if | next state | failure |
//! | --- | --- | --- | --- | --- |
//! | checking kind | any | | checking history | |
//! | checking history | any | | streamed list | |
//! | checking watch | done, not supported | | watch | |
//! | checking watch | earlier | | opening watch | |
//! | checking watch | any | no version | backoff (list) | publish |
//! | checking watch | end, error: expired, history changed | | backoff (list) | publish |
//! | checking watch | error: not found, other | | backoff (watch) | publish |
//! | checking watch | any | fifth failure, old list | backoff (list) | publish |
//! | checking watch | any | | backoff (watch) | publish |
//! | streamed list | done, earlier | | watch | |
//! | streamed list | not supported | | list | |
//! | streamed list | end | third failure | list | publish |
//! | streamed list | end | progress | backoff (streamed list) | publish |
//! | streamed list | end | | list | publish |
//! | streamed list | error: unreachable, overloaded | | backoff (streamed list) | publish |
//! | streamed list | error: expired, too large, older version, history changed | no repetition | streamed list | publish |
//! | streamed list | error: expired, too large, older version, history changed, connection lost | third failure | list | publish |
//! | streamed list | error: expired, too large, older version, history changed, connection lost | | backoff (streamed list) | publish |
//! | streamed list | error: invalid response | | list | publish |
//! | streamed list | refused: server error, not found, other | | list | publish |
//! | streamed list | error: server error, not found, unsupported, other | | list | stop streaming |
//! | list | done, not supported, earlier | | opening watch | |
//! | list | error: expired, too large, older version | version requested, no repetition | list | publish |
//! | list | error: not found | kind denied | kind gone | delete objects |
//! | list | any | kind gone | kind gone | publish |
//! | list | any | | backoff (list) | publish |
//! | opening watch | done, not supported, earlier | | checking watch | |
//! | opening watch | any | no version | backoff (list) | publish |
//! | opening watch | error: unreachable, overloaded | | backoff (watch) | publish |
//! | opening watch | error: connection lost, server error, other | fifth failure, old list | backoff (list) | publish |
//! | opening watch | error: connection lost, server error, other | | backoff (watch) | publish |
//! | opening watch | error: not found | new list, not found before | backoff (watch) | publish |
//! | opening watch | any | | backoff (list) | publish |
//! | watch | done, not supported | | watch | |
//! | watch | earlier | | opening watch | |
//! | watch | any | no version | backoff (list) | publish |
//! | watch | end | progress | opening watch | |
//! | watch | error: connection lost | progress | opening watch | publish |
//! | watch | error: unreachable, overloaded | | backoff (watch) | publish |
//! | watch | error: connection lost, invalid response | fifth failure | backoff (list) | publish |
//! | watch | error: connection lost, invalid response | | backoff (watch) | publish |
//! | watch | any | | backoff (list) | publish |
//! | backoff (list) | any | kind in doubt | checking kind | |
//! | backoff (list), kind gone | any | | checking history | |
//! | backoff (streamed list) | any | | streamed list | |
//! | backoff (watch) | any | | opening watch | |
//!
//! The column "if" means:
//!
//! | word | meaning |
//! | --- | --- |
//! | no version | the list had no version, so that a watch cannot be resumed: changes between two watches would be lost |
//! | version requested | the list asked for a version, so that it can be repeated for the newest state |
//! | no repetition | no request was repeated without a delay since the last backoff before a list |
//! | progress | the response delivered a newer version or lasted a second ([`WatchStats`]) |
//! | old list, new list | no list has succeeded in the last minute; a list has |
//! | not found before | the request for a watch before this one failed with 404, too |
//! | third failure, fifth failure | this is the third streamed list, or the fifth watch or check of the history, in a row that failed |
//! | kind … | whether the source serves the kind, from the table below |
//!
//! # Whether the source serves the kind
//!
//! A proxy may have sent the 404 of a list, so the objects are deleted only if the source then answers that it
//! does not serve the kind, and the next list fails with 404 again:
//!
//! | kind | state | input | next kind |
//! | --- | --- | --- | --- |
//! | any | list, streamed list | done | present |
//! | present | list | error: not found | in doubt |
//! | in doubt | checking kind | not supported | denied |
//! | denied | list | error: not found | gone |
//! | denied | list | error: any | in doubt |

use std::time::Duration;

use tokio::time::Instant;

use self::{ErrorClass as E, FailureAction as Action, Input::*, ReflectorState::*};
use super::{error_class::ErrorClass, resume::Resume};

/// What a reflector does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReflectorState {
    /// It asks the source whether it serves the kind, because a list failed with 404.
    CheckingKind,
    /// It checks before a list whether the server still has the history that the reflector followed, if there was an outage.
    CheckingHistory,
    /// It requests a streamed list.
    StreamedList,
    /// It requests an ordinary list.
    List,
    /// It opens a watch.
    OpeningWatch,
    /// As `CheckingHistory`, after it opened a watch: so nothing that happens to the server before the watch can follow the check.
    CheckingWatch,
    /// It reads the events of a watch.
    Watch,
    /// It waits after a failure.
    Backoff { before: Request },
    /// It waits after a failure. The source does not serve the kind, and all its objects count as deleted.
    KindGone,
}

/// The request that follows a backoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    List,
    StreamedList,
    Watch,
}

/// How the request of a state ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Input {
    /// It succeeded: the list was accepted, the check passed, the delay is over.
    Done,
    /// The history was checked only up to an earlier version: the watch must begin there.
    Earlier,
    /// The source does not serve the kind, or does not support streamed lists.
    NotSupported,
    /// The server ended the response without an error.
    Ended(WatchStats),
    /// It failed: the response is broken, or there was none (`None`), because the request was refused.
    Failed(ErrorClass, Option<WatchStats>),
}

/// What the reflector does about a failure before it enters the next state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureAction {
    /// Nothing: there was no failure.
    Nothing,
    /// Shows it in the status.
    Publish,
    /// As `Publish`, and remembers that the server does not support streamed lists.
    StopStreaming,
    /// As `Publish`, and deletes all objects.
    DeleteObjects,
}

/// What a watch or streamed list achieved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WatchStats {
    /// True if it delivered a newer version.
    pub(crate) has_moved: bool,
    /// The time from the request to the end.
    pub(crate) since_asked: Duration,
    /// The time from the response to the end.
    pub(crate) since_opened: Duration,
}

/// Whether the source serves the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KindPresence {
    Present,
    /// A list failed with 404.
    InDoubt,
    /// A list failed with 404, and then the source answered that it does not serve the kind.
    Denied,
    /// The source does not serve the kind.
    Gone,
}

/// The state of a reflector, and what it remembers from earlier states.
#[derive(Debug)]
pub(crate) struct StateMachine {
    state: ReflectorState,
    kind: KindPresence,
    /// True if a request may still be repeated at once.
    may_repeat: bool,
    /// The number of streamed lists in a row, or of watches and checks in a row, that failed.
    failures: u32,
    /// When a list last succeeded.
    last_list: Option<Instant>,
    /// True if the last request for a watch failed with 404.
    was_not_found: bool,
}

/// The next state, and what to do about the failure, if there was one.
type Transition = (ReflectorState, FailureAction);

/// A response that lasted this long made progress, even if it delivered nothing.
const SHORT: Duration = Duration::from_secs(1);

/// After this number of failed watches in a row, the reflector lists: lists may still work.
const WATCHES_BEFORE_LIST: u32 = 5;

/// While watches fail, the reflector lists at most once in this time.
const LIST_EVERY: Duration = Duration::from_secs(60);

/// After this number of failed streamed lists in a row, the reflector requests an ordinary list.
const STREAMS_BEFORE_LIST: u32 = 3;

const RELIST: Transition = (Backoff { before: Request::List }, Action::Publish);
const RESTREAM: Transition = (Backoff { before: Request::StreamedList }, Action::Publish);
const REWATCH: Transition = (Backoff { before: Request::Watch }, Action::Publish);

impl StateMachine {
    pub(crate) fn new() -> Self {
        let (state, kind) = (CheckingHistory, KindPresence::Present);
        Self { state, kind, may_repeat: true, failures: 0, last_list: None, was_not_found: false }
    }

    pub(crate) fn state(&self) -> ReflectorState {
        self.state
    }

    /// Enters the next state. Returns what to do about the failure, if the input is one.
    pub(crate) fn next(&mut self, input: Input, resume: &mut Resume, now: Instant) -> FailureAction {
        self.failures = self.count_failures(input);
        let kind = self.next_kind(input);
        let (state, action) = match self.state {
            CheckingKind => done(CheckingHistory),
            CheckingHistory => done(StreamedList),
            StreamedList => self.after_streamed_list(input),
            List => self.after_list(input, resume, kind),
            OpeningWatch => self.after_opening_watch(input, resume, now),
            CheckingWatch => self.after_checking_watch(input, resume, now),
            Watch => self.after_watch(input, resume),
            Backoff { before: Request::StreamedList } => done(StreamedList),
            Backoff { before: Request::Watch } => done(OpeningWatch),
            Backoff { before: Request::List } if self.kind == KindPresence::InDoubt => done(CheckingKind),
            Backoff { before: Request::List } | KindGone => done(CheckingHistory),
        };
        match self.state {
            StreamedList | List => match input {
                Failed(class, _) => resume.note_failed_list(class),
                Done => self.last_list = Some(now),
                Earlier | NotSupported | Ended(_) => {}
            },
            OpeningWatch => self.was_not_found = matches!(input, Failed(E::NotFound, _)),
            Backoff { before: Request::List } | KindGone => self.may_repeat = true,
            CheckingKind | CheckingHistory | CheckingWatch | Watch | Backoff { .. } => {}
        }
        (self.state, self.kind) = (state, kind);
        action
    }

    fn after_streamed_list(&mut self, input: Input) -> Transition {
        let restream_or_list = if self.failures < STREAMS_BEFORE_LIST { RESTREAM } else { (List, Action::Publish) };
        match input {
            Done | Earlier => done(Watch),
            NotSupported => done(List),
            Ended(_) if input.made_progress() => restream_or_list,
            Ended(_) | Failed(E::InvalidResponse, _) => (List, Action::Publish),
            Failed(E::Unreachable | E::Overloaded, _) => RESTREAM,
            Failed(E::Expired | E::TooLarge | E::OlderVersion | E::HistoryChanged, _)
                if std::mem::take(&mut self.may_repeat) =>
            {
                (StreamedList, Action::Publish)
            }
            Failed(E::Expired | E::TooLarge | E::OlderVersion | E::HistoryChanged | E::ConnectionLost, _) => {
                restream_or_list
            }
            Failed(E::ServerError | E::NotFound | E::Other, None) => (List, Action::Publish),
            Failed(E::ServerError | E::NotFound | E::Other | E::Unsupported, _) => (List, Action::StopStreaming),
        }
    }

    fn after_list(&mut self, input: Input, resume: &Resume, next_kind: KindPresence) -> Transition {
        match input {
            Done | NotSupported | Earlier => done(OpeningWatch),
            Failed(E::Expired | E::TooLarge | E::OlderVersion, _)
                if !resume.asks_for_newest() && std::mem::take(&mut self.may_repeat) =>
            {
                (List, Action::Publish)
            }
            Ended(_) | Failed(..) => match (self.kind, next_kind) {
                (KindPresence::Gone, _) => (KindGone, Action::Publish),
                (_, KindPresence::Gone) => (KindGone, Action::DeleteObjects),
                (_, KindPresence::Present | KindPresence::InDoubt | KindPresence::Denied) => RELIST,
            },
        }
    }

    fn after_opening_watch(&self, input: Input, resume: &Resume, now: Instant) -> Transition {
        match input {
            Done | NotSupported | Earlier => done(CheckingWatch),
            Ended(_) | Failed(..) if !resume.is_versioned() => RELIST,
            Failed(E::Unreachable | E::Overloaded, _) => REWATCH,
            // Lists may still work, but each one is expensive.
            Failed(E::ConnectionLost | E::ServerError | E::Other, _) if self.has_new_list(now) => REWATCH,
            Failed(E::ConnectionLost | E::ServerError | E::Other, _) => self.rewatch_or_list(),
            // A list after the same error has shown that the source serves the kind.
            Failed(E::NotFound, _) if self.has_new_list(now) && self.was_not_found => REWATCH,
            Ended(_) | Failed(..) => RELIST,
        }
    }

    fn after_checking_watch(&self, input: Input, resume: &Resume, now: Instant) -> Transition {
        match input {
            Done | NotSupported => done(Watch),
            Earlier => done(OpeningWatch),
            Ended(_) | Failed(..) if !resume.is_versioned() => RELIST,
            Ended(_) | Failed(E::Expired | E::HistoryChanged, _) => RELIST,
            // A starting server refuses the check, and would refuse a list as well.
            Failed(E::NotFound | E::Other, _) => REWATCH,
            // If the server cannot be asked for long, perhaps lists still work.
            Failed(..) if self.has_new_list(now) => REWATCH,
            Failed(..) => self.rewatch_or_list(),
        }
    }

    fn after_watch(&self, input: Input, resume: &Resume) -> Transition {
        match input {
            Done | NotSupported => done(Watch),
            Earlier => done(OpeningWatch),
            Ended(_) | Failed(..) if !resume.is_versioned() => RELIST,
            Ended(_) if input.made_progress() => done(OpeningWatch),
            Failed(E::ConnectionLost, _) if input.made_progress() => (OpeningWatch, Action::Publish),
            Failed(E::Unreachable | E::Overloaded, _) => REWATCH,
            Failed(E::ConnectionLost | E::InvalidResponse, _) => self.rewatch_or_list(),
            Ended(_) | Failed(..) => RELIST,
        }
    }

    fn rewatch_or_list(&self) -> Transition {
        if self.failures < WATCHES_BEFORE_LIST { REWATCH } else { RELIST }
    }

    fn has_new_list(&self, now: Instant) -> bool {
        self.last_list.is_some_and(|last| now - last < LIST_EVERY)
    }

    /// Returns the number of failures in a row, after this input.
    fn count_failures(&self, input: Input) -> u32 {
        let is_failure = matches!(input, Ended(_) | Failed(..));
        // Whether a server that cannot be reached or is overloaded supports watches is unknown.
        let is_unclear = matches!(input, Failed(E::Unreachable | E::Overloaded, _));
        match self.state {
            OpeningWatch | Watch | CheckingWatch => match input.made_progress() {
                true => 0,
                false => self.failures + u32::from(is_failure && !is_unclear),
            },
            StreamedList if is_failure => self.failures + 1,
            Backoff { before: Request::StreamedList | Request::Watch } => self.failures,
            StreamedList | List | CheckingKind | CheckingHistory | Backoff { before: Request::List } | KindGone => 0,
        }
    }

    fn next_kind(&self, input: Input) -> KindPresence {
        match (self.kind, self.state, input) {
            (_, List | StreamedList, Done) => KindPresence::Present,
            (KindPresence::Present, List, Failed(E::NotFound, _)) => KindPresence::InDoubt,
            (KindPresence::InDoubt, CheckingKind, NotSupported) => KindPresence::Denied,
            (KindPresence::Denied, List, Failed(E::NotFound, _)) => KindPresence::Gone,
            // The kind may have been installed after the source's answer.
            (KindPresence::Denied, List, Failed(..)) => KindPresence::InDoubt,
            (kind, ..) => kind,
        }
    }

    /// Notes that a page of a list expired. Returns true if the list may be repeated without pages.
    pub(crate) fn page_expired(&mut self) -> bool {
        self.kind = self.next_kind(Failed(E::Expired, None));
        std::mem::take(&mut self.may_repeat)
    }
}

fn done(state: ReflectorState) -> Transition {
    (state, Action::Nothing)
}

impl Input {
    /// Returns true if a watch or streamed list delivered a newer version or lasted for a second, so that another one may be opened at once.
    fn made_progress(&self) -> bool {
        match *self {
            Done | Earlier | NotSupported | Failed(_, None) => false,
            Ended(stats) => stats.has_moved || stats.since_asked >= SHORT,
            // The duration does not count: an invalid response may arrive slowly.
            Failed(E::InvalidResponse, Some(stats)) => stats.has_moved,
            // The time that the server took to open the watch does not count.
            Failed(_, Some(stats)) => stats.has_moved || stats.since_opened >= SHORT,
        }
    }
}

#[cfg(test)]
pub(super) mod tests;

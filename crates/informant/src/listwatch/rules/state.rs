//! The states of a reflector, and the one function that moves it from state to state.
//!
//! - **In:** how the request of a state ended.
//! - **Out:** the next state; what to do about a failure; how long a backoff lasts.
//! - **Knows nothing of:** requests, the clock, tasks. The reflector performs the request that the state names, and passes the result back.
//!
//! The tables below are the specification: the tests of this file read them and compare each row with the code. If several rows fit, the first one
//! applies.
//!
//! - The words in parentheses are the request that follows the backoff. The reflector waits only in the states "backoff" and "kind gone"; the last table
//!   has the delays.
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
//! | checking watch | any | fifth failure | backoff (list) | publish |
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
//! | old list | no list has succeeded in the last minute |
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
//!
//! # How long a backoff lasts
//!
//! "Backoff" is the next delay of [`Delays`]. "First" means the first time since a watch delivered a newer version or was
//! open for ten seconds. While the server cannot be reached or refuses requests, [`RetryRule`](super::error_class::RetryRule) decides instead.
//!
//! | error | if | delay |
//! | --- | --- | --- |
//! | history changed | no other change in the last minute | none |
//! | history changed | | 1 s, then 2 s, 4 s, 5 s, 5 s … |
//! | expired | first | 0 to 1 s |
//! | expired | server starting | 0.5 to 1 s |
//! | any | server starting | backoff, at most 0.5 to 2 s |
//! | any | | backoff |

use std::time::Duration;

use tokio::time::Instant;

use super::{
    delays::{Backoff, Delays, obeyed},
    error_class::ErrorClass,
    resume::Resume,
};

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
    pub(crate) delays: Delays,
    /// True if the reflector has listed at once after an expired version since a watch last delivered a newer version or was open for ten seconds.
    has_relisted_at_once: bool,
    /// When the history last changed, and how often it did within a minute of the change before.
    last_history_change: Option<(Instant, u32)>,
}

/// A response that lasted this long made progress, even if it delivered nothing.
const SHORT: Duration = Duration::from_secs(1);

/// A watch that was open for this long resets the delays, even if nothing changed.
const STEADY: Duration = Duration::from_secs(10);

/// After this number of failed watches in a row, the reflector lists: lists may still work.
const WATCHES_BEFORE_LIST: u32 = 5;

/// While watches fail, the reflector lists at most once in this time.
const LIST_EVERY: Duration = Duration::from_secs(60);

/// After this number of failed streamed lists in a row, the reflector requests an ordinary list.
const STREAMS_BEFORE_LIST: u32 = 3;

/// The longest delay of the first list after a version expired.
const LONGEST_RELIST_DELAY: Duration = Duration::from_secs(1);

/// History changes that follow each other within this time delay the lists.
const FREQUENT_HISTORY_CHANGES: Duration = Duration::from_secs(60);

impl StateMachine {
    pub(crate) fn new(backoff: Backoff) -> Self {
        Self {
            state: ReflectorState::CheckingHistory,
            kind: KindPresence::Present,
            may_repeat: true,
            failures: 0,
            last_list: None,
            delays: Delays::new(backoff),
            has_relisted_at_once: false,
            last_history_change: None,
        }
    }

    pub(crate) fn state(&self) -> ReflectorState {
        self.state
    }

    /// Enters the next state. Returns what to do about the failure, if the input is one.
    pub(crate) fn next(&mut self, input: Input, resume: &mut Resume, now: Instant) -> FailureAction {
        use self::{ErrorClass as E, FailureAction as Action, Input::*, ReflectorState::*, Request as Before};

        if let (Watch, Ended(stats) | Failed(_, Some(stats))) = (self.state, input)
            && (stats.has_moved || stats.since_opened >= STEADY)
        {
            self.delays.restart();
            self.has_relisted_at_once = false;
        }
        self.failures = self.count_failures(input);
        let may_watch = self.failures < WATCHES_BEFORE_LIST;
        let may_stream = self.failures < STREAMS_BEFORE_LIST;
        let made_progress = input.made_progress();
        let can_resume = resume.is_versioned();
        let has_new_list = self.last_list.is_some_and(|last| now - last < LIST_EVERY);
        let done = |state| (state, Action::Nothing);
        let rewatch = (Backoff { before: Before::Watch }, Action::Publish);
        let restream = (Backoff { before: Before::StreamedList }, Action::Publish);
        let relist = (Backoff { before: Before::List }, Action::Publish);

        let (state, action) = match (self.state, input) {
            (CheckingKind, _) => done(CheckingHistory),

            (CheckingHistory, _) => done(StreamedList),
            (CheckingWatch, Done | NotSupported) => done(Watch),
            (CheckingWatch, Earlier) => done(OpeningWatch),
            (CheckingWatch, Ended(_) | Failed(E::Expired | E::HistoryChanged, _)) => relist,
            // A starting server refuses the check, and would refuse a list as well.
            (CheckingWatch, Failed(E::NotFound | E::Other, _)) if can_resume => rewatch,
            (CheckingWatch, Failed(..)) if can_resume && may_watch => rewatch,
            // The server cannot be asked now; perhaps lists still work.
            (CheckingWatch, Failed(..)) => relist,

            (StreamedList, Done | Earlier) => done(Watch),
            (StreamedList, NotSupported) => done(List),
            (StreamedList, Ended(_)) if made_progress && may_stream => restream,
            (StreamedList, Ended(_) | Failed(E::InvalidResponse, _)) => (List, Action::Publish),
            (StreamedList, Failed(E::Unreachable | E::Overloaded, _)) => restream,
            (StreamedList, Failed(E::Expired | E::TooLarge | E::OlderVersion | E::HistoryChanged, _))
                if self.may_repeat =>
            {
                self.may_repeat = false;
                (StreamedList, Action::Publish)
            }
            (
                StreamedList,
                Failed(E::Expired | E::TooLarge | E::OlderVersion | E::HistoryChanged | E::ConnectionLost, _),
            ) => match may_stream {
                true => restream,
                false => (List, Action::Publish),
            },
            (StreamedList, Failed(E::ServerError | E::NotFound | E::Other, None)) => (List, Action::Publish),
            (StreamedList, Failed(E::ServerError | E::NotFound | E::Other | E::Unsupported, _)) => {
                (List, Action::StopStreaming)
            }

            (List, Done | NotSupported | Earlier) => done(OpeningWatch),
            (List, Failed(E::Expired | E::TooLarge | E::OlderVersion, _))
                if self.may_repeat && !resume.asks_for_newest() =>
            {
                self.may_repeat = false;
                (List, Action::Publish)
            }
            (List, Ended(_) | Failed(..)) => match (self.kind, self.next_kind(input)) {
                (KindPresence::Denied, KindPresence::Gone) => (KindGone, Action::DeleteObjects),
                (KindPresence::Gone, _) => (KindGone, Action::Publish),
                (KindPresence::Present | KindPresence::InDoubt | KindPresence::Denied, _) => relist,
            },

            (OpeningWatch, Done | NotSupported | Earlier) => done(CheckingWatch),
            (OpeningWatch, Failed(E::Unreachable | E::Overloaded, _)) if can_resume => rewatch,
            // Lists may still work, but each one is expensive.
            (OpeningWatch, Failed(E::ConnectionLost | E::ServerError | E::Other, _))
                if can_resume && (may_watch || has_new_list) =>
            {
                rewatch
            }
            (OpeningWatch, Ended(_) | Failed(..)) => relist,

            (Watch, Done | NotSupported) => done(Watch),
            (Watch, Earlier) => done(OpeningWatch),
            (Watch, Ended(_)) if can_resume && made_progress => done(OpeningWatch),
            (Watch, Failed(E::ConnectionLost, _)) if can_resume && made_progress => (OpeningWatch, Action::Publish),
            (Watch, Failed(E::Unreachable | E::Overloaded, _)) if can_resume => rewatch,
            (Watch, Failed(E::ConnectionLost | E::InvalidResponse, _)) if can_resume && may_watch => rewatch,
            (Watch, Ended(_) | Failed(..)) => relist,

            (Backoff { before: Before::List }, _) if self.kind == KindPresence::InDoubt => done(CheckingKind),
            (Backoff { before: Before::List } | KindGone, _) => done(CheckingHistory),
            (Backoff { before: Before::StreamedList }, _) => done(StreamedList),
            (Backoff { before: Before::Watch }, _) => done(OpeningWatch),
        };
        match (self.state, input) {
            (StreamedList | List, Failed(class, _)) => resume.note_failed_list(class),
            (StreamedList | List, Done) => self.last_list = Some(now),
            (Backoff { before: Before::List } | KindGone, _) => self.may_repeat = true,
            (
                StreamedList
                | List
                | CheckingKind
                | CheckingHistory
                | OpeningWatch
                | CheckingWatch
                | Watch
                | Backoff { .. },
                _,
            ) => {}
        }
        self.kind = self.next_kind(input);
        self.state = state;
        action
    }

    /// Returns the number of failures in a row, after this input.
    fn count_failures(&self, input: Input) -> u32 {
        let is_failure = match input {
            Input::Ended(_) | Input::Failed(..) => true,
            Input::Done | Input::Earlier | Input::NotSupported => false,
        };
        // Whether a server that cannot be reached or is overloaded supports watches is unknown.
        let is_unclear = matches!(input, Input::Failed(ErrorClass::Unreachable | ErrorClass::Overloaded, _));
        match self.state {
            ReflectorState::OpeningWatch | ReflectorState::Watch | ReflectorState::CheckingWatch => {
                match input.made_progress() {
                    true => 0,
                    false => self.failures + u32::from(is_failure && !is_unclear),
                }
            }
            ReflectorState::StreamedList if is_failure => self.failures + 1,
            ReflectorState::Backoff { before: Request::StreamedList | Request::Watch } => self.failures,
            ReflectorState::StreamedList
            | ReflectorState::List
            | ReflectorState::CheckingKind
            | ReflectorState::CheckingHistory
            | ReflectorState::Backoff { before: Request::List }
            | ReflectorState::KindGone => 0,
        }
    }

    fn next_kind(&self, input: Input) -> KindPresence {
        match (self.kind, self.state, input) {
            (_, ReflectorState::List | ReflectorState::StreamedList, Input::Done) => KindPresence::Present,
            (KindPresence::Present, ReflectorState::List, Input::Failed(ErrorClass::NotFound, _)) => {
                KindPresence::InDoubt
            }
            (KindPresence::InDoubt, ReflectorState::CheckingKind, Input::NotSupported) => KindPresence::Denied,
            (KindPresence::Denied, ReflectorState::List, Input::Failed(ErrorClass::NotFound, _)) => KindPresence::Gone,
            // The kind may have been installed after the source's answer.
            (KindPresence::Denied, ReflectorState::List, Input::Failed(..)) => KindPresence::InDoubt,
            (kind, ..) => kind,
        }
    }

    /// Notes that a page of a list expired. Returns true if the list may be repeated without pages.
    pub(crate) fn page_expired(&mut self) -> bool {
        self.kind = self.next_kind(Input::Failed(ErrorClass::Expired, None));
        std::mem::take(&mut self.may_repeat)
    }

    /// Returns how long the backoff after a failure lasts. `is_startup_error` means that a starting server may have caused the failure;
    /// `retry_after` is the least delay that the server asks for.
    pub(crate) fn delay(
        &mut self,
        class: ErrorClass,
        is_startup_error: bool,
        retry_after: Option<Duration>,
        now: Instant,
    ) -> Duration {
        if class == ErrorClass::HistoryChanged {
            return self.after_history_change(now);
        }
        if class == ErrorClass::Expired {
            if !std::mem::replace(&mut self.has_relisted_at_once, true) {
                return self.delays.between(Duration::ZERO, LONGEST_RELIST_DELAY);
            }
            if is_startup_error {
                return self.delays.between(LONGEST_RELIST_DELAY / 2, LONGEST_RELIST_DELAY);
            }
        }
        let delay = self.delays.after_failure(now, retry_after);
        match is_startup_error {
            true => delay.min(self.delays.short().max(obeyed(retry_after))),
            false => delay,
        }
    }

    /// Returns how long to wait after a history change. A proxy that alternates between two servers can change the history with each request, and each
    /// change makes all informers of the client list.
    fn after_history_change(&mut self, now: Instant) -> Duration {
        let last = self.last_history_change.filter(|(last, _)| now - *last < FREQUENT_HISTORY_CHANGES);
        let changes = last.map_or(0, |(_, changes)| changes + 1);
        self.last_history_change = Some((now, changes));
        match changes {
            0 => Duration::ZERO,
            1..=3 => Duration::from_secs(1 << (changes - 1)),
            4.. => Duration::from_secs(5),
        }
    }
}

impl Input {
    /// Returns true if a watch or streamed list delivered a newer version or lasted for a second, so that another one may be opened at once.
    fn made_progress(&self) -> bool {
        match self {
            Self::Done | Self::Earlier | Self::NotSupported | Self::Failed(_, None) => false,
            Self::Ended(stats) => stats.has_moved || stats.since_asked >= SHORT,
            // The duration does not count: an invalid response may arrive slowly.
            Self::Failed(ErrorClass::InvalidResponse, Some(stats)) => stats.has_moved,
            // The time that the server took to open the watch does not count.
            Self::Failed(_, Some(stats)) => stats.has_moved || stats.since_opened >= SHORT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRESS: bool = true;
    const NO_PROGRESS: bool = false;

    const CLASSES: [(&str, ErrorClass); 12] = [
        ("expired", ErrorClass::Expired),
        ("too large", ErrorClass::TooLarge),
        ("older version", ErrorClass::OlderVersion),
        ("history changed", ErrorClass::HistoryChanged),
        ("overloaded", ErrorClass::Overloaded),
        ("unreachable", ErrorClass::Unreachable),
        ("connection lost", ErrorClass::ConnectionLost),
        ("invalid response", ErrorClass::InvalidResponse),
        ("server error", ErrorClass::ServerError),
        ("not found", ErrorClass::NotFound),
        ("unsupported", ErrorClass::Unsupported),
        ("other", ErrorClass::Other),
    ];

    const STATES: [(&str, ReflectorState); 10] = [
        ("checking kind", ReflectorState::CheckingKind),
        ("checking history", ReflectorState::CheckingHistory),
        ("checking watch", ReflectorState::CheckingWatch),
        ("streamed list", ReflectorState::StreamedList),
        ("list", ReflectorState::List),
        ("opening watch", ReflectorState::OpeningWatch),
        ("watch", ReflectorState::Watch),
        ("backoff (list)", ReflectorState::Backoff { before: Request::List }),
        ("backoff (streamed list)", ReflectorState::Backoff { before: Request::StreamedList }),
        ("backoff (watch)", ReflectorState::Backoff { before: Request::Watch }),
    ];

    const KINDS: [(&str, KindPresence); 4] = [
        ("present", KindPresence::Present),
        ("in doubt", KindPresence::InDoubt),
        ("denied", KindPresence::Denied),
        ("gone", KindPresence::Gone),
    ];

    const ACTIONS: [(&str, FailureAction); 4] = [
        ("", FailureAction::Nothing),
        ("publish", FailureAction::Publish),
        ("stop streaming", FailureAction::StopStreaming),
        ("delete objects", FailureAction::DeleteObjects),
    ];

    /// Returns the value of a word in one of the tables.
    fn value<T: Copy>(words: &[(&str, T)], word: &str) -> T {
        words.iter().find(|(known, _)| *known == word).unwrap_or_else(|| panic!("unknown word: {word:?}")).1
    }

    /// Returns the word of a value in one of the tables.
    fn word<T: PartialEq>(words: &[(&'static str, T)], value: &T) -> &'static str {
        words.iter().find(|(_, known)| known == value).expect("each value has a word").0
    }

    /// Reads the rows of the table of this file's docs that has this header.
    fn rows(header: &str) -> Vec<Vec<&'static str>> {
        let lines = include_str!("state.rs").lines().map(|line| line.trim_start_matches("//!").trim());
        let table = lines.skip_while(|line| *line != header).skip(2).take_while(|line| line.starts_with('|'));
        table.map(|line| line[1..line.len() - 1].split('|').map(str::trim).collect()).collect()
    }

    /// A situation in which an input arrives.
    #[derive(Clone, Copy, Debug)]
    struct Case {
        state: ReflectorState,
        input: Input,
        kind: KindPresence,
        /// The number of failures in a row before this input.
        failures: u32,
        may_repeat: bool,
        /// The version of the last list.
        version: &'static str,
        is_newest_requested: bool,
        has_old_list: bool,
    }

    impl Case {
        fn new(state: ReflectorState, input: Input) -> Self {
            let (kind, failures, may_repeat) = (KindPresence::Present, 0, true);
            Self {
                state,
                input,
                kind,
                failures,
                may_repeat,
                version: "10",
                is_newest_requested: false,
                has_old_list: true,
            }
        }

        /// Returns the same state and input in all situations.
        fn situations(self) -> Vec<Self> {
            let both = [false, true];
            let mut cases = KINDS.map(|(_, kind)| Self { kind, ..self }).to_vec();
            let mut vary =
                |variants: &dyn Fn(Self) -> Vec<Self>| cases = cases.iter().copied().flat_map(variants).collect();
            vary(&|case| [0, 2, 4].map(|failures| Self { failures, ..case }).into());
            vary(&|case| both.map(|may_repeat| Self { may_repeat, ..case }).into());
            vary(&|case| ["", "0", "10"].map(|version| Self { version, ..case }).into());
            vary(&|case| both.map(|is_newest_requested| Self { is_newest_requested, ..case }).into());
            vary(&|case| both.map(|has_old_list| Self { has_old_list, ..case }).into());
            cases
        }

        fn resume(&self) -> Resume {
            let mut resume = Resume::default();
            resume.note_accepted_list(&"0".into(), &self.version.into(), false);
            if self.is_newest_requested {
                resume.note_failed_list(ErrorClass::Expired);
            }
            resume
        }

        fn machine(&self) -> StateMachine {
            let mut machine = StateMachine::new(Backoff::default().without_jitter());
            machine.state = self.state;
            machine.kind = self.kind;
            machine.failures = self.failures;
            machine.may_repeat = self.may_repeat;
            machine.last_list = (!self.has_old_list).then(Instant::now);
            machine
        }

        /// Returns the next state, the action and the next kind.
        fn run(&self) -> (ReflectorState, FailureAction, KindPresence) {
            let mut machine = self.machine();
            let action = machine.next(self.input, &mut self.resume(), Instant::now());
            (machine.state, action, machine.kind)
        }

        fn fits_state(&self, words: &str) -> bool {
            words.split(", ").any(|word| self.state == state(word))
        }

        /// Returns true if this case's input is among the words: `any`, `done, end, error: expired, other`.
        fn fits_input(&self, words: &str) -> bool {
            let (plain, failed) =
                words.split_once(": ").map_or((words, None), |(plain, classes)| (plain, Some(classes)));
            let is_class = |class| {
                let classes = failed.expect("classes of errors");
                classes == "any" || classes.split(", ").any(|word| value(&CLASSES, word) == class)
            };
            plain.split(", ").any(|word| match (word, self.input) {
                ("any", _) | ("done", Input::Done) | ("not supported", Input::NotSupported) => true,
                ("end", Input::Ended(_)) | ("earlier", Input::Earlier) => true,
                ("error", Input::Failed(class, _))
                | ("refused", Input::Failed(class, None))
                | ("broken", Input::Failed(class, Some(_))) => is_class(class),
                ("done" | "earlier" | "not supported" | "end" | "error" | "refused" | "broken", _) => false,
                (unknown, _) => panic!("unknown input: {unknown:?}"),
            })
        }

        fn fits_condition(&self, words: &str) -> bool {
            let is_ignored = matches!(self.input, Input::Failed(ErrorClass::Unreachable | ErrorClass::Overloaded, _));
            let is_watch = matches!(
                self.state,
                ReflectorState::OpeningWatch | ReflectorState::Watch | ReflectorState::CheckingWatch
            );
            let failures = match self.input.made_progress() {
                true if is_watch => 0,
                true | false => self.failures + u32::from(!(is_watch && is_ignored)),
            };
            words.split(", ").all(|word| match word {
                "" => true,
                "no version" => !matches!(self.version, "10"),
                "version requested" => !self.resume().list_request().version.is_empty(),
                "no repetition" => self.may_repeat,
                "progress" => self.input.made_progress(),
                "third failure" => failures >= 3,
                "fifth failure" => failures >= 5,
                "old list" => self.has_old_list,
                kind => self.kind == value(&KINDS, kind.strip_prefix("kind ").expect("a condition")),
            })
        }
    }

    fn state(word: &str) -> ReflectorState {
        if word == "kind gone" { ReflectorState::KindGone } else { value(&STATES, word) }
    }

    fn stats(has_moved: bool, asked: u64, opened: u64) -> WatchStats {
        let [since_asked, since_opened] = [asked, opened].map(Duration::from_millis);
        WatchStats { has_moved, since_asked, since_opened }
    }

    fn inputs() -> Vec<Input> {
        let responses = [stats(false, 0, 0), stats(true, 0, 0), stats(false, 5000, 500), stats(false, 5000, 5000)];
        let mut inputs = vec![Input::Done, Input::Earlier, Input::NotSupported];
        inputs.extend(responses.map(Input::Ended));
        for (_, class) in CLASSES {
            inputs.push(Input::Failed(class, None));
            inputs.extend(responses.map(|stats| Input::Failed(class, Some(stats))));
        }
        inputs
    }

    #[test]
    fn each_row_of_the_state_table_is_what_the_state_machine_does() {
        let rows = rows("| state | input | if | next state | failure |");
        let mut uses = vec![0; rows.len()];
        let states = STATES.map(|(_, state)| state).into_iter().chain([ReflectorState::KindGone]);
        let inputs = states.flat_map(|state| inputs().into_iter().map(move |input| Case::new(state, input)));

        for input in inputs {
            let is_of_input = |row: &Vec<&str>| input.fits_state(row[0]) && input.fits_input(row[1]);
            let candidates: Vec<_> = (0..rows.len()).filter(|row| is_of_input(&rows[*row])).collect();
            for case in input.situations() {
                let fits = |row: &&usize| case.fits_condition(rows[**row][2]);
                let row = *candidates.iter().find(fits).unwrap_or_else(|| panic!("no row for {case:?}"));
                uses[row] += 1;
                let (next, action, _) = case.run();
                let expected = (state(rows[row][3]), value(&ACTIONS, rows[row][4]));
                assert_eq!((next, action), expected, "{:?}\n{case:?}", rows[row]);
            }
        }

        assert!(rows.len() > 40, "the table was not found");
        let unused: Vec<_> = rows.iter().zip(uses).filter(|(_, uses)| *uses == 0).collect();
        assert!(unused.is_empty(), "rows that never apply: {unused:?}");
    }

    #[test]
    fn each_row_of_the_kind_table_is_what_the_state_machine_does() {
        let rows = rows("| kind | state | input | next kind |");
        let mut uses = vec![0; rows.len()];

        let states = STATES.map(|(_, state)| state).into_iter().chain([ReflectorState::KindGone]);
        let inputs = states.flat_map(|state| inputs().into_iter().map(move |input| Case::new(state, input)));
        for case in inputs.flat_map(|input| KINDS.map(|(_, kind)| Case { kind, ..input })) {
            let is_kind = |word: &str| word == "any" || value(&KINDS, word) == case.kind;
            let fits = |row: &Vec<&str>| is_kind(row[0]) && case.fits_state(row[1]) && case.fits_input(row[2]);
            let position = rows.iter().position(fits);
            let expected = position.map_or(case.kind, |position| value(&KINDS, rows[position][3]));
            position.into_iter().for_each(|position| uses[position] += 1);
            let (.., kind) = case.run();
            assert_eq!(word(&KINDS, &kind), word(&KINDS, &expected), "{case:?}");
        }

        assert!(rows.len() > 4 && uses.iter().all(|uses| *uses > 0), "rows that never apply: {uses:?}");
    }

    #[test]
    fn each_row_of_the_delay_table_is_what_the_state_machine_does() {
        let rows = rows("| error | if | delay |");
        // Without jitter, a random delay is the mean.
        let delays = [
            ("none", [0, 0]),
            ("1 s, then 2 s, 4 s, 5 s, 5 s …", [1000, 2000]),
            ("0 to 1 s", [500, 500]),
            ("0.5 to 1 s", [750, 750]),
            ("backoff, at most 0.5 to 2 s", [800, 1250]),
            ("backoff", [800, 1600]),
        ];
        let mut uses = vec![0; rows.len()];

        for (name, class) in CLASSES {
            for (is_first, is_starting) in [(false, false), (false, true), (true, false), (true, true)] {
                let fits = |row: &Vec<&str>| {
                    let is_condition = match row[1] {
                        "" => true,
                        "first" | "no other change in the last minute" => is_first,
                        "server starting" => is_starting,
                        unknown => panic!("unknown condition: {unknown:?}"),
                    };
                    is_condition && (row[0] == "any" || row[0] == name)
                };
                let position = rows.iter().position(fits).expect("a row for each error");
                uses[position] += 1;
                let mut machine = Case::new(ReflectorState::List, Input::Done).machine();
                let now = Instant::now();
                machine.last_history_change = Some((now, 0));
                let delay = [(); 2].map(|()| {
                    machine.has_relisted_at_once = !is_first;
                    machine.last_history_change.take_if(|_| is_first);
                    machine.delay(class, is_starting, None, now).as_millis()
                });
                assert_eq!(delay, value(&delays, rows[position][2]), "{:?}: {name}", rows[position]);
            }
        }

        assert!(rows.len() > 3 && uses.iter().all(|uses| *uses > 0), "rows that never apply: {uses:?}");
    }

    #[test]
    fn a_list_at_once_after_an_expired_version_happens_once_until_a_watch_was_open_for_ten_seconds_or_delivered_a_newer_version()
     {
        for (response, is_reset) in
            [(stats(false, 9999, 9999), false), (stats(false, 10_000, 10_000), true), (stats(true, 0, 0), true)]
        {
            let case = Case::new(ReflectorState::Watch, Input::Failed(ErrorClass::Expired, Some(response)));
            let mut machine = case.machine();
            let is_at_once = |machine: &mut StateMachine| {
                machine.delay(ErrorClass::Expired, false, None, Instant::now()) < Duration::from_millis(501)
            };
            let first = is_at_once(&mut machine);
            machine.next(case.input, &mut case.resume(), Instant::now());
            assert_eq!((first, is_at_once(&mut machine)), (true, is_reset), "{response:?}");
        }
    }

    #[test]
    fn lists_wait_longer_after_each_history_change_within_a_minute_of_the_one_before() {
        let mut machine = Case::new(ReflectorState::List, Input::Done).machine();
        let mut now = Instant::now();
        let table = [(0, 0), (59, 1), (59, 2), (0, 4), (59, 5), (59, 5), (60, 0), (1, 1)];
        for (pause, delay) in table {
            now += Duration::from_secs(pause);
            let found = machine.delay(ErrorClass::HistoryChanged, true, None, now);
            assert_eq!(found, Duration::from_secs(delay), "after {pause} s");
        }
    }

    #[test]
    fn a_backoff_lasts_at_least_as_long_as_the_server_asks_for() {
        let retry_after = Some(Duration::from_secs(5));
        for is_starting in [false, true] {
            let mut machine = Case::new(ReflectorState::List, Input::Done).machine();
            let delay = machine.delay(ErrorClass::Overloaded, is_starting, retry_after, Instant::now());
            assert_eq!(delay, Duration::from_secs(5), "{is_starting}");
        }
    }

    const REOPEN: ReflectorState = ReflectorState::OpeningWatch;
    const REOPEN_LATER: ReflectorState = ReflectorState::Backoff { before: Request::Watch };
    const RELIST: ReflectorState = ReflectorState::Backoff { before: Request::List };
    const STREAM_LATER: ReflectorState = ReflectorState::Backoff { before: Request::StreamedList };

    fn response(made_progress: bool) -> WatchStats {
        stats(made_progress, 0, 0)
    }

    fn refused(class: ErrorClass) -> Input {
        Input::Failed(class, None)
    }

    fn broken(class: ErrorClass, made_progress: bool) -> Input {
        Input::Failed(class, Some(response(made_progress)))
    }

    /// Returns what follows an input, which is the failure of this number in a row if it is one.
    fn after(state: ReflectorState, input: Input, failures: u32) -> ReflectorState {
        Case { failures: failures.saturating_sub(1), ..Case::new(state, input) }.run().0
    }

    fn after_watch(input: Input) -> ReflectorState {
        after(ReflectorState::Watch, input, 1)
    }

    /// RE-35, RE-36
    #[test]
    fn a_watch_that_ends_cleanly_is_reopened_at_once_if_it_made_progress_and_followed_by_a_list_otherwise() {
        assert_eq!(after_watch(Input::Ended(response(PROGRESS))), REOPEN);
        assert_eq!(after_watch(Input::Ended(response(NO_PROGRESS))), RELIST);
    }

    /// RE-38, RE-39, RE-40, RE-41, RE-44
    #[test]
    fn a_watch_is_reopened_after_errors_that_do_not_concern_its_version() {
        let table = [
            (ErrorClass::Unreachable, REOPEN_LATER, REOPEN_LATER),
            (ErrorClass::Overloaded, REOPEN_LATER, REOPEN_LATER),
            (ErrorClass::ConnectionLost, REOPEN_LATER, REOPEN_LATER),
            (ErrorClass::ServerError, REOPEN_LATER, RELIST),
            (ErrorClass::InvalidResponse, RELIST, REOPEN_LATER),
            (ErrorClass::Expired, RELIST, RELIST),
            (ErrorClass::TooLarge, RELIST, RELIST),
            (ErrorClass::OlderVersion, RELIST, RELIST),
            (ErrorClass::HistoryChanged, RELIST, RELIST),
            (ErrorClass::NotFound, RELIST, RELIST),
            (ErrorClass::Unsupported, RELIST, RELIST),
            (ErrorClass::Other, REOPEN_LATER, RELIST),
        ];
        for (class, unopened, failed) in table {
            assert_eq!(after(ReflectorState::OpeningWatch, refused(class), 1), unopened, "opening: {class:?}");
            assert_eq!(after_watch(broken(class, NO_PROGRESS)), failed, "following: {class:?}");
        }
        assert_eq!(after_watch(broken(ErrorClass::ConnectionLost, PROGRESS)), REOPEN);
        assert_eq!(after_watch(broken(ErrorClass::InvalidResponse, PROGRESS)), REOPEN_LATER);
    }

    #[test]
    fn refused_watches_in_a_row_lead_to_a_list_once_a_minute_unless_the_server_is_unreachable_or_overloaded() {
        for class in [ErrorClass::ConnectionLost, ErrorClass::ServerError, ErrorClass::Other] {
            let after = |failures: u32, has_old_list| {
                let case = Case::new(ReflectorState::OpeningWatch, refused(class));
                Case { failures: failures - 1, has_old_list, ..case }.run().0
            };
            assert_eq!((after(4, true), after(5, true)), (REOPEN_LATER, RELIST), "{class:?}");
            assert_eq!(after(1000, false), REOPEN_LATER, "{class:?}");
        }
        for class in [ErrorClass::Unreachable, ErrorClass::Overloaded] {
            assert_eq!(after(ReflectorState::OpeningWatch, refused(class), 1000), REOPEN_LATER, "{class:?}");
        }
    }

    #[test]
    fn a_history_check_that_keeps_failing_leads_to_a_list() {
        let check = ReflectorState::CheckingWatch;
        let after = |class, failures| after(check, refused(class), failures);
        assert_eq!(after(ErrorClass::HistoryChanged, 0), RELIST);
        assert_eq!(after(ErrorClass::Expired, 0), RELIST);
        assert_eq!((after(ErrorClass::ServerError, 4), after(ErrorClass::ServerError, 5)), (REOPEN_LATER, RELIST));
        assert_eq!(after(ErrorClass::Unreachable, 0), REOPEN_LATER, "a refused connection does not count");
        assert_eq!(after(ErrorClass::Other, 9), REOPEN_LATER, "403 of a starting server");
    }

    /// RE-35, RE-36, RE-37
    #[test]
    fn a_watch_made_progress_if_it_delivered_a_newer_version_or_lasted_a_second() {
        let lost = |stats| Input::Failed(ErrorClass::ConnectionLost, Some(stats));
        let garbled = |stats| Input::Failed(ErrorClass::InvalidResponse, Some(stats));
        let table = [
            (Input::Ended(stats(false, 999, 999)), NO_PROGRESS),
            (Input::Ended(stats(false, 1000, 0)), PROGRESS),
            (Input::Ended(stats(true, 0, 0)), PROGRESS),
            (lost(stats(false, 5000, 999)), NO_PROGRESS),
            (lost(stats(false, 5000, 1000)), PROGRESS),
            (lost(stats(true, 0, 0)), PROGRESS),
            (garbled(stats(false, 5000, 5000)), NO_PROGRESS),
            (garbled(stats(true, 0, 0)), PROGRESS),
            (refused(ErrorClass::ConnectionLost), NO_PROGRESS),
        ];
        for (input, made_progress) in table {
            assert_eq!(input.made_progress(), made_progress, "{input:?}");
        }
    }

    #[test]
    fn failures_in_a_row_do_not_count_an_unreachable_or_overloaded_server() {
        let mut machine = Case::new(ReflectorState::Watch, Input::Done).machine();
        let table = [
            (refused(ErrorClass::ServerError), 1),
            (refused(ErrorClass::Unreachable), 1),
            (broken(ErrorClass::Overloaded, NO_PROGRESS), 1),
            (broken(ErrorClass::ConnectionLost, NO_PROGRESS), 2),
            (Input::Ended(response(NO_PROGRESS)), 3),
            (broken(ErrorClass::Overloaded, PROGRESS), 0),
            (broken(ErrorClass::InvalidResponse, NO_PROGRESS), 1),
            (Input::Ended(response(PROGRESS)), 0),
        ];
        for (input, count) in table {
            machine.failures = machine.count_failures(input);
            assert_eq!(machine.failures, count, "{input:?}");
        }
    }

    /// RE-56 to RE-60
    #[test]
    fn a_streamed_list_falls_back_to_a_list_and_permanently_if_the_server_does_not_support_it() {
        const LIST: (ReflectorState, FailureAction) = (ReflectorState::List, FailureAction::Publish);
        const LIST_FROM_NOW_ON: (ReflectorState, FailureAction) = (ReflectorState::List, FailureAction::StopStreaming);
        const LATER: (ReflectorState, FailureAction) = (STREAM_LATER, FailureAction::Publish);
        const ASK_NEWEST: (ReflectorState, FailureAction) = (ReflectorState::StreamedList, FailureAction::Publish);
        let after = |input, failures: u32, may_repeat| {
            let case = Case { failures: failures - 1, may_repeat, ..Case::new(ReflectorState::StreamedList, input) };
            let (next, action, _) = case.run();
            (next, action)
        };
        let table = [
            (ErrorClass::Unreachable, LATER, LATER),
            (ErrorClass::Overloaded, LATER, LATER),
            (ErrorClass::Expired, ASK_NEWEST, ASK_NEWEST),
            (ErrorClass::TooLarge, ASK_NEWEST, ASK_NEWEST),
            (ErrorClass::OlderVersion, ASK_NEWEST, ASK_NEWEST),
            (ErrorClass::HistoryChanged, ASK_NEWEST, ASK_NEWEST),
            (ErrorClass::ConnectionLost, LATER, LATER),
            (ErrorClass::InvalidResponse, LIST, LIST),
            (ErrorClass::ServerError, LIST, LIST_FROM_NOW_ON),
            (ErrorClass::NotFound, LIST, LIST_FROM_NOW_ON),
            (ErrorClass::Unsupported, LIST_FROM_NOW_ON, LIST_FROM_NOW_ON),
            (ErrorClass::Other, LIST, LIST_FROM_NOW_ON),
        ];
        for (class, unopened, failed) in table {
            assert_eq!(after(refused(class), 1, true), unopened, "opening: {class:?}");
            assert_eq!(after(broken(class, PROGRESS), 1, true), failed, "following: {class:?}");
        }
        let expired = |failures| after(broken(ErrorClass::Expired, NO_PROGRESS), failures, false);
        assert_eq!(expired(1), LATER, "a request is repeated at most once in a round");
        assert_eq!(expired(3), LIST, "after three failures in a row");

        let cleanly = |made_progress, failures| after(Input::Ended(response(made_progress)), failures, true);
        assert_eq!(cleanly(NO_PROGRESS, 1), LIST);
        assert_eq!((cleanly(PROGRESS, 1), cleanly(PROGRESS, 3)), (LATER, LIST));
    }
}

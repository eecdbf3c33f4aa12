//! Compares the tables in the docs of the state machine with the code.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    ErrorClass, FailureAction, Input, KindPresence, ReflectorState, Request, Resume, StateMachine, WatchStats,
};

const FILE: &str = include_str!("../state.rs");
const PROGRESS: bool = true;
const NO_PROGRESS: bool = false;

pub(crate) const CLASSES: [(&str, ErrorClass); 12] = [
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
pub(crate) fn value<T: Copy>(words: &[(&str, T)], word: &str) -> T {
    words.iter().find(|(known, _)| *known == word).unwrap_or_else(|| panic!("unknown word: {word:?}")).1
}

/// Returns the word of a value in one of the tables.
fn word<T: PartialEq>(words: &[(&'static str, T)], value: &T) -> &'static str {
    words.iter().find(|(_, known)| known == value).expect("each value has a word").0
}

/// Reads the rows of the table of a file's docs that has this header.
pub(crate) fn rows(file: &'static str, header: &str) -> Vec<Vec<&'static str>> {
    let lines = file.lines().map(|line| line.trim_start_matches("//!").trim());
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
    was_not_found: bool,
}

impl Case {
    fn new(state: ReflectorState, input: Input) -> Self {
        let (kind, failures, may_repeat) = (KindPresence::Present, 0, true);
        let (version, is_newest_requested, has_old_list, was_not_found) = ("10", false, true, false);
        Self { state, input, kind, failures, may_repeat, version, is_newest_requested, has_old_list, was_not_found }
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
        vary(&|case| both.map(|was_not_found| Self { was_not_found, ..case }).into());
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
        let mut machine = StateMachine::new();
        machine.state = self.state;
        machine.kind = self.kind;
        machine.failures = self.failures;
        machine.may_repeat = self.may_repeat;
        machine.last_list = (!self.has_old_list).then(Instant::now);
        machine.was_not_found = self.was_not_found;
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
        let (plain, failed) = words.split_once(": ").map_or((words, None), |(plain, classes)| (plain, Some(classes)));
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
        let is_watch =
            matches!(self.state, ReflectorState::OpeningWatch | ReflectorState::Watch | ReflectorState::CheckingWatch);
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
            "new list" => !self.has_old_list,
            "not found before" => self.was_not_found,
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
    let rows = rows(FILE, "| state | input | if | next state | failure |");
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
    let rows = rows(FILE, "| kind | state | input | next kind |");
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

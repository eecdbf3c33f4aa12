//! Decides what the reflector does after a watch or a streamed list has ended.
//!
//! - **In:** how it ended, what it achieved, and how many failed in a row.
//! - **Out:** whether to open another one now, later, or to list everything again.
//! - **Knows nothing of:** requests and delays.

use std::time::Duration;

use super::error_class::ErrorClass;

/// What the reflector does after a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterWatch {
    /// Opens another watch at once, at the reached version.
    Reopen,
    /// Opens another watch at the reached version, after a delay.
    ReopenLater,
    /// Lists everything, after a delay.
    Relist,
}

/// What the reflector does after a streamed list that is not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterStreaming {
    /// Requests another streamed list at once, of the newest state.
    AskNewest,
    /// Requests another streamed list after a delay.
    Later,
    /// Requests an ordinary list at once.
    List,
    /// Requests an ordinary list at once, and no streamed lists from now on.
    ListFromNowOn,
}

/// How a watch or streamed list ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The server ended the response without an error.
    Cleanly,
    /// The request itself failed, so there was no response to read.
    Unopened(ErrorClass),
    /// The response ended with an error.
    Failed(ErrorClass),
}

/// What a watch achieved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WatchStats {
    /// True if it delivered a newer version.
    pub(crate) has_moved: bool,
    /// The time from the request to the end.
    pub(crate) since_asked: Duration,
    /// The time from the response to the end.
    pub(crate) since_opened: Duration,
}

impl WatchStats {
    /// Returns true if the watch delivered a newer version or lasted for a second, so that another one may be opened at once.
    pub(crate) fn made_progress(&self, ending: Ending) -> bool {
        match ending {
            Ending::Unopened(_) => false,
            Ending::Cleanly => self.has_moved || self.since_asked >= SHORT,
            // The duration does not count: an invalid response may arrive slowly.
            Ending::Failed(ErrorClass::InvalidResponse) => self.has_moved,
            // The time that the server took to open the watch does not count.
            Ending::Failed(_) => self.has_moved || self.since_opened >= SHORT,
        }
    }
}

/// The number of watches in a row that made no progress.
#[derive(Debug, Default)]
pub(crate) struct Streak(u32);

impl Streak {
    /// Counts one more watch, and returns the number.
    pub(crate) fn count(&mut self, ending: Ending, made_progress: bool) -> u32 {
        self.0 = match ending {
            Ending::Cleanly | Ending::Failed(_) | Ending::Unopened(_) if made_progress => 0,
            // A server that cannot be reached, or is overloaded, does not show whether watches work, so the number stays.
            Ending::Unopened(ErrorClass::Unreachable | ErrorClass::Overloaded)
            | Ending::Failed(ErrorClass::Unreachable | ErrorClass::Overloaded) => self.0,
            Ending::Cleanly | Ending::Failed(_) | Ending::Unopened(_) => self.0 + 1,
        };
        self.0
    }
}

/// A watch that lasted this long made progress, even if it delivered nothing.
pub(crate) const SHORT: Duration = Duration::from_secs(1);

/// After this number of failed watches in a row, the reflector lists: lists may still work.
const FAILURES_BEFORE_LIST: u32 = 5;

/// After this number of failed streamed lists in a row, the reflector requests an ordinary list.
const STREAMS_BEFORE_LIST: u32 = 3;

/// Decides what follows a watch. `failures` is the number of watches in a row, including this one, that did not
/// [make progress](WatchStats::made_progress). `is_temporary` is called for an error of the server (5xx), and returns true if it may be retried
/// without a list.
pub(crate) fn after_watch(
    ending: Ending,
    made_progress: bool,
    failures: u32,
    is_temporary: impl FnOnce() -> bool,
) -> AfterWatch {
    let later_if = |holds: bool| if holds { AfterWatch::ReopenLater } else { AfterWatch::Relist };
    let may_retry = failures < FAILURES_BEFORE_LIST;
    match ending {
        Ending::Cleanly | Ending::Failed(ErrorClass::ConnectionLost) if made_progress => AfterWatch::Reopen,
        Ending::Cleanly => AfterWatch::Relist,
        Ending::Unopened(ErrorClass::Unreachable | ErrorClass::Overloaded)
        | Ending::Failed(ErrorClass::Unreachable | ErrorClass::Overloaded) => AfterWatch::ReopenLater,
        Ending::Unopened(ErrorClass::ConnectionLost | ErrorClass::ServerError)
        | Ending::Failed(ErrorClass::ConnectionLost | ErrorClass::InvalidResponse) => later_if(may_retry),
        Ending::Failed(ErrorClass::ServerError) => later_if(is_temporary()),
        Ending::Unopened(
            ErrorClass::Expired
            | ErrorClass::TooLarge
            | ErrorClass::OlderVersion
            | ErrorClass::HistoryChanged
            | ErrorClass::InvalidResponse
            | ErrorClass::NotFound
            | ErrorClass::Unsupported
            | ErrorClass::Other,
        )
        | Ending::Failed(
            ErrorClass::Expired
            | ErrorClass::TooLarge
            | ErrorClass::OlderVersion
            | ErrorClass::HistoryChanged
            | ErrorClass::NotFound
            | ErrorClass::Unsupported
            | ErrorClass::Other,
        ) => AfterWatch::Relist,
    }
}

/// Decides what follows a check of the server's history after which the watch could not be resumed. `failures` is the number of attempts in
/// a row that failed.
pub(crate) fn after_check(ending: Ending, failures: u32) -> AfterWatch {
    match ending {
        Ending::Unopened(ErrorClass::HistoryChanged | ErrorClass::Expired) | Ending::Cleanly => AfterWatch::Relist,
        // A starting server refuses the check, and would refuse a list as well.
        Ending::Unopened(ErrorClass::NotFound | ErrorClass::Other) => AfterWatch::ReopenLater,
        // The server cannot be asked now; perhaps lists still work.
        Ending::Unopened(_) | Ending::Failed(_) => match failures < FAILURES_BEFORE_LIST {
            true => AfterWatch::ReopenLater,
            false => AfterWatch::Relist,
        },
    }
}

/// Decides what follows a streamed list that is not complete. `made_progress` is true if it delivered an event or lasted a second; `failures` is
/// the number of streamed lists in a row that failed, including this one; `may_repeat` is true if a request may be repeated at once.
pub(crate) fn after_streaming(ending: Ending, made_progress: bool, failures: u32, may_repeat: bool) -> AfterStreaming {
    let may_retry = failures < STREAMS_BEFORE_LIST;
    let later_if = |holds: bool| if holds { AfterStreaming::Later } else { AfterStreaming::List };
    match ending {
        Ending::Cleanly => later_if(made_progress && may_retry),
        Ending::Unopened(ErrorClass::Unreachable | ErrorClass::Overloaded)
        | Ending::Failed(ErrorClass::Unreachable | ErrorClass::Overloaded) => AfterStreaming::Later,
        Ending::Unopened(
            ErrorClass::Expired | ErrorClass::TooLarge | ErrorClass::OlderVersion | ErrorClass::HistoryChanged,
        )
        | Ending::Failed(
            ErrorClass::Expired | ErrorClass::TooLarge | ErrorClass::OlderVersion | ErrorClass::HistoryChanged,
        ) => match may_repeat {
            true => AfterStreaming::AskNewest,
            false => later_if(may_retry),
        },
        Ending::Unopened(ErrorClass::ConnectionLost) | Ending::Failed(ErrorClass::ConnectionLost) => {
            later_if(may_retry)
        }
        Ending::Unopened(
            ErrorClass::ServerError | ErrorClass::NotFound | ErrorClass::InvalidResponse | ErrorClass::Other,
        )
        | Ending::Failed(ErrorClass::InvalidResponse) => AfterStreaming::List,
        Ending::Unopened(ErrorClass::Unsupported)
        | Ending::Failed(
            ErrorClass::ServerError | ErrorClass::NotFound | ErrorClass::Unsupported | ErrorClass::Other,
        ) => AfterStreaming::ListFromNowOn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRESS: bool = true;
    const NO_PROGRESS: bool = false;

    fn watch(ending: Ending, made_progress: bool) -> AfterWatch {
        after_watch(ending, made_progress, 1, || false)
    }

    /// RE-35, RE-36
    #[test]
    fn a_watch_that_ends_cleanly_is_reopened_at_once_if_it_made_progress_and_followed_by_a_list_otherwise() {
        assert_eq!(watch(Ending::Cleanly, PROGRESS), AfterWatch::Reopen);
        assert_eq!(watch(Ending::Cleanly, NO_PROGRESS), AfterWatch::Relist);
    }

    /// RE-38, RE-39, RE-40, RE-41, RE-44
    #[test]
    fn a_watch_is_reopened_after_errors_that_do_not_concern_its_version() {
        let table = [
            (ErrorClass::Unreachable, AfterWatch::ReopenLater, AfterWatch::ReopenLater),
            (ErrorClass::Overloaded, AfterWatch::ReopenLater, AfterWatch::ReopenLater),
            (ErrorClass::ConnectionLost, AfterWatch::ReopenLater, AfterWatch::ReopenLater),
            (ErrorClass::ServerError, AfterWatch::ReopenLater, AfterWatch::Relist),
            (ErrorClass::InvalidResponse, AfterWatch::Relist, AfterWatch::ReopenLater),
            (ErrorClass::Expired, AfterWatch::Relist, AfterWatch::Relist),
            (ErrorClass::TooLarge, AfterWatch::Relist, AfterWatch::Relist),
            (ErrorClass::OlderVersion, AfterWatch::Relist, AfterWatch::Relist),
            (ErrorClass::HistoryChanged, AfterWatch::Relist, AfterWatch::Relist),
            (ErrorClass::NotFound, AfterWatch::Relist, AfterWatch::Relist),
            (ErrorClass::Unsupported, AfterWatch::Relist, AfterWatch::Relist),
            (ErrorClass::Other, AfterWatch::Relist, AfterWatch::Relist),
        ];
        for (class, unopened, failed) in table {
            assert_eq!(watch(Ending::Unopened(class), NO_PROGRESS), unopened, "opening: {class:?}");
            assert_eq!(watch(Ending::Failed(class), NO_PROGRESS), failed, "following: {class:?}");
        }
        assert_eq!(watch(Ending::Failed(ErrorClass::ConnectionLost), PROGRESS), AfterWatch::Reopen);
        assert_eq!(watch(Ending::Failed(ErrorClass::InvalidResponse), PROGRESS), AfterWatch::ReopenLater);
    }

    /// RE-42
    #[test]
    fn a_server_error_in_a_watch_is_retried_only_within_the_retry_window() {
        let after = |is_temporary| after_watch(Ending::Failed(ErrorClass::ServerError), PROGRESS, 1, || is_temporary);
        assert_eq!((after(false), after(true)), (AfterWatch::Relist, AfterWatch::ReopenLater));
    }

    #[test]
    fn failed_watches_in_a_row_lead_to_a_list_unless_the_server_is_unreachable_or_overloaded() {
        for class in [ErrorClass::ConnectionLost, ErrorClass::ServerError] {
            let after = |failures| after_watch(Ending::Unopened(class), NO_PROGRESS, failures, || false);
            assert_eq!((after(4), after(5)), (AfterWatch::ReopenLater, AfterWatch::Relist), "{class:?}");
        }
        for class in [ErrorClass::Unreachable, ErrorClass::Overloaded] {
            let after = after_watch(Ending::Unopened(class), NO_PROGRESS, 1000, || false);
            assert_eq!(after, AfterWatch::ReopenLater, "{class:?}");
        }
    }

    #[test]
    fn a_history_check_that_keeps_failing_leads_to_a_list() {
        let after = |class, failures| after_check(Ending::Unopened(class), failures);
        assert_eq!(after(ErrorClass::HistoryChanged, 0), AfterWatch::Relist);
        assert_eq!(after(ErrorClass::Expired, 0), AfterWatch::Relist);
        assert_eq!(
            (after(ErrorClass::ServerError, 4), after(ErrorClass::ServerError, 5)),
            (AfterWatch::ReopenLater, AfterWatch::Relist)
        );
        assert_eq!(after(ErrorClass::Unreachable, 0), AfterWatch::ReopenLater, "a refused connection does not count");
        assert_eq!(after(ErrorClass::Other, 9), AfterWatch::ReopenLater, "403 of a starting server");
    }

    /// RE-35, RE-36, RE-37
    #[test]
    fn a_watch_made_progress_if_it_delivered_a_newer_version_or_lasted_a_second() {
        let stats = |has_moved, asked, opened| WatchStats {
            has_moved,
            since_asked: Duration::from_millis(asked),
            since_opened: Duration::from_millis(opened),
        };
        let lost = Ending::Failed(ErrorClass::ConnectionLost);
        let garbled = Ending::Failed(ErrorClass::InvalidResponse);
        let table = [
            (stats(false, 999, 999), Ending::Cleanly, NO_PROGRESS),
            (stats(false, 1000, 0), Ending::Cleanly, PROGRESS),
            (stats(true, 0, 0), Ending::Cleanly, PROGRESS),
            (stats(false, 5000, 999), lost, NO_PROGRESS),
            (stats(false, 5000, 1000), lost, PROGRESS),
            (stats(true, 0, 0), lost, PROGRESS),
            (stats(false, 5000, 5000), garbled, NO_PROGRESS),
            (stats(true, 0, 0), garbled, PROGRESS),
            (stats(true, 5000, 5000), Ending::Unopened(ErrorClass::ConnectionLost), NO_PROGRESS),
        ];
        for (stats, ending, made_progress) in table {
            assert_eq!(stats.made_progress(ending), made_progress, "{stats:?}, {ending:?}");
        }
    }

    #[test]
    fn a_streak_does_not_count_an_unreachable_or_overloaded_server() {
        let mut streak = Streak::default();
        let table = [
            (Ending::Unopened(ErrorClass::ServerError), NO_PROGRESS, 1),
            (Ending::Unopened(ErrorClass::Unreachable), NO_PROGRESS, 1),
            (Ending::Failed(ErrorClass::Overloaded), NO_PROGRESS, 1),
            (Ending::Failed(ErrorClass::ConnectionLost), NO_PROGRESS, 2),
            (Ending::Cleanly, NO_PROGRESS, 3),
            (Ending::Failed(ErrorClass::Overloaded), PROGRESS, 0),
            (Ending::Failed(ErrorClass::InvalidResponse), NO_PROGRESS, 1),
            (Ending::Cleanly, PROGRESS, 0),
        ];
        for (ending, made_progress, count) in table {
            assert_eq!(streak.count(ending, made_progress), count, "{ending:?}");
        }
    }

    /// RE-56 to RE-60
    #[test]
    fn a_streamed_list_falls_back_to_a_list_and_permanently_if_the_server_does_not_support_it() {
        let table = [
            (ErrorClass::Unreachable, AfterStreaming::Later, AfterStreaming::Later),
            (ErrorClass::Overloaded, AfterStreaming::Later, AfterStreaming::Later),
            (ErrorClass::Expired, AfterStreaming::AskNewest, AfterStreaming::AskNewest),
            (ErrorClass::TooLarge, AfterStreaming::AskNewest, AfterStreaming::AskNewest),
            (ErrorClass::OlderVersion, AfterStreaming::AskNewest, AfterStreaming::AskNewest),
            (ErrorClass::HistoryChanged, AfterStreaming::AskNewest, AfterStreaming::AskNewest),
            (ErrorClass::ConnectionLost, AfterStreaming::Later, AfterStreaming::Later),
            (ErrorClass::InvalidResponse, AfterStreaming::List, AfterStreaming::List),
            (ErrorClass::ServerError, AfterStreaming::List, AfterStreaming::ListFromNowOn),
            (ErrorClass::NotFound, AfterStreaming::List, AfterStreaming::ListFromNowOn),
            (ErrorClass::Unsupported, AfterStreaming::ListFromNowOn, AfterStreaming::ListFromNowOn),
            (ErrorClass::Other, AfterStreaming::List, AfterStreaming::ListFromNowOn),
        ];
        for (class, unopened, failed) in table {
            assert_eq!(after_streaming(Ending::Unopened(class), NO_PROGRESS, 1, true), unopened, "opening: {class:?}");
            assert_eq!(after_streaming(Ending::Failed(class), PROGRESS, 1, true), failed, "following: {class:?}");
        }
        let expired = after_streaming(Ending::Failed(ErrorClass::Expired), NO_PROGRESS, 1, false);
        assert_eq!(expired, AfterStreaming::Later, "a request is repeated at most once in a round");
        let expired = after_streaming(Ending::Failed(ErrorClass::Expired), NO_PROGRESS, 3, false);
        assert_eq!(expired, AfterStreaming::List, "after three failures in a row");

        let cleanly = |made_progress, failures| after_streaming(Ending::Cleanly, made_progress, failures, true);
        assert_eq!(cleanly(NO_PROGRESS, 1), AfterStreaming::List);
        assert_eq!((cleanly(PROGRESS, 1), cleanly(PROGRESS, 3)), (AfterStreaming::Later, AfterStreaming::List));
    }
}

//! What an ending means: try again now, later, or begin anew.

use std::time::Duration;

use super::meaning::Meaning;

/// What comes after a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterWatch {
    /// Another one, at once, from where it ended.
    Reopen,
    /// Another one from where it ended, after a delay.
    ReopenLater,
    /// A list, after a delay.
    Relist,
}

/// What comes after a streamed list that did not reach its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterStreaming {
    /// Another one at once, for the newest state.
    AskNewest,
    /// Another one after a delay.
    Later,
    /// A list at once.
    List,
    /// A list at once, and lists only from now on.
    ListFromNowOn,
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// As if all was said.
    Cleanly,
    /// The request itself failed, so there was no stream.
    Unopened(Meaning),
    /// With an error.
    Failed(Meaning),
}

/// What a watch has come to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Life {
    /// Whether it has moved the version.
    pub(crate) has_moved: bool,
    /// How long it was since it was asked for.
    pub(crate) since_asked: Duration,
    /// How long it was since it was opened.
    pub(crate) since_opened: Duration,
}

impl Life {
    /// Whether it was worth opening: then another one is as well, at once.
    pub(crate) fn was_of_use(&self, ending: Ending) -> bool {
        match ending {
            Ending::Unopened(_) => false,
            Ending::Cleanly => self.has_moved || self.since_asked >= SHORT,
            // However long it took to come to that.
            Ending::Failed(Meaning::Garbled) => self.has_moved,
            // How long it takes to open a watch that then fails says nothing of its use.
            Ending::Failed(_) => self.has_moved || self.since_opened >= SHORT,
        }
    }
}

/// How many watches in a row came to nothing.
#[derive(Debug, Default)]
pub(crate) struct Streak(u32);

impl Streak {
    /// Counts one more, and gives their number.
    pub(crate) fn count(&mut self, ending: Ending, was_of_use: bool) -> u32 {
        self.0 = match ending {
            Ending::Cleanly | Ending::Failed(_) | Ending::Unopened(_) if was_of_use => 0,
            // Who is not there, or too busy, says nothing of whether watches work.
            Ending::Unopened(Meaning::Refused | Meaning::Overloaded)
            | Ending::Failed(Meaning::Refused | Meaning::Overloaded) => self.0,
            Ending::Cleanly | Ending::Failed(_) | Ending::Unopened(_) => self.0 + 1,
        };
        self.0
    }
}

/// A watch that lasted so long is worth opening again at once, even if it said nothing.
pub(crate) const SHORT: Duration = Duration::from_secs(1);

/// So many streams may fail in a row before everything is listed anew: perhaps lists still work.
const FAILURES_BEFORE_LIST: u32 = 5;

/// So many streamed lists may fail in a row before an ordinary one is tried.
const STREAMS_BEFORE_LIST: u32 = 3;

/// After a watch: how it ended, whether it [was of use](Life::was_of_use), how many failed in a row (this one
/// included), and whether errors of the server may be taken as passing.
pub(crate) fn after_watch(
    ending: Ending,
    was_of_use: bool,
    failures: u32,
    is_passing: impl FnOnce() -> bool,
) -> AfterWatch {
    let later_if = |holds: bool| if holds { AfterWatch::ReopenLater } else { AfterWatch::Relist };
    let has_hope = failures < FAILURES_BEFORE_LIST;
    match ending {
        Ending::Cleanly | Ending::Failed(Meaning::Lost) if was_of_use => AfterWatch::Reopen,
        Ending::Cleanly => AfterWatch::Relist,
        Ending::Unopened(Meaning::Refused | Meaning::Overloaded)
        | Ending::Failed(Meaning::Refused | Meaning::Overloaded) => AfterWatch::ReopenLater,
        Ending::Unopened(Meaning::Lost | Meaning::Trouble) | Ending::Failed(Meaning::Lost | Meaning::Garbled) => {
            later_if(has_hope)
        }
        Ending::Failed(Meaning::Trouble) => later_if(is_passing()),
        Ending::Unopened(
            Meaning::Expired
            | Meaning::TooLarge
            | Meaning::OlderVersion
            | Meaning::HistoryChanged
            | Meaning::Garbled
            | Meaning::NotFound
            | Meaning::Unsupported
            | Meaning::Other,
        )
        | Ending::Failed(
            Meaning::Expired
            | Meaning::TooLarge
            | Meaning::OlderVersion
            | Meaning::HistoryChanged
            | Meaning::NotFound
            | Meaning::Unsupported
            | Meaning::Other,
        ) => AfterWatch::Relist,
    }
}

/// After a check of the server's history that did not allow to resume the watch, and how many attempts failed in a row.
pub(crate) fn after_check(ending: Ending, failures: u32) -> AfterWatch {
    match ending {
        Ending::Unopened(Meaning::HistoryChanged | Meaning::Expired) | Ending::Cleanly => AfterWatch::Relist,
        // A starting server refuses; a list would be refused as well.
        Ending::Unopened(Meaning::NotFound | Meaning::Other) => AfterWatch::ReopenLater,
        // The server cannot be asked now; perhaps lists still work.
        Ending::Unopened(_) | Ending::Failed(_) => match failures < FAILURES_BEFORE_LIST {
            true => AfterWatch::ReopenLater,
            false => AfterWatch::Relist,
        },
    }
}

/// After a streamed list that did not reach its end: how it ended, whether anything had come or it had lasted a second, how
/// many failed in a row (this one included), and whether a request may be repeated at once.
pub(crate) fn after_streaming(ending: Ending, was_of_use: bool, failures: u32, may_repeat: bool) -> AfterStreaming {
    let has_hope = failures < STREAMS_BEFORE_LIST;
    let later_if = |holds: bool| if holds { AfterStreaming::Later } else { AfterStreaming::List };
    match ending {
        Ending::Cleanly => later_if(was_of_use && has_hope),
        Ending::Unopened(Meaning::Refused | Meaning::Overloaded)
        | Ending::Failed(Meaning::Refused | Meaning::Overloaded) => AfterStreaming::Later,
        Ending::Unopened(Meaning::Expired | Meaning::TooLarge | Meaning::OlderVersion | Meaning::HistoryChanged)
        | Ending::Failed(Meaning::Expired | Meaning::TooLarge | Meaning::OlderVersion | Meaning::HistoryChanged) => {
            match may_repeat {
                true => AfterStreaming::AskNewest,
                false => later_if(has_hope),
            }
        }
        Ending::Unopened(Meaning::Lost) | Ending::Failed(Meaning::Lost) => later_if(has_hope),
        Ending::Unopened(Meaning::Trouble | Meaning::NotFound | Meaning::Garbled | Meaning::Other)
        | Ending::Failed(Meaning::Garbled) => AfterStreaming::List,
        Ending::Unopened(Meaning::Unsupported)
        | Ending::Failed(Meaning::Trouble | Meaning::NotFound | Meaning::Unsupported | Meaning::Other) => {
            AfterStreaming::ListFromNowOn
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USEFUL: bool = true;
    const USELESS: bool = false;

    fn watch(ending: Ending, was_of_use: bool) -> AfterWatch {
        after_watch(ending, was_of_use, 1, || false)
    }

    /// RE-35, RE-36
    #[test]
    fn a_watch_that_ends_cleanly_goes_on_at_once_if_it_was_of_use_and_is_listed_anew_if_not() {
        assert_eq!(watch(Ending::Cleanly, USEFUL), AfterWatch::Reopen);
        assert_eq!(watch(Ending::Cleanly, USELESS), AfterWatch::Relist);
    }

    /// RE-38, RE-39, RE-40, RE-41, RE-44
    #[test]
    fn a_watch_goes_on_where_its_version_is_not_in_doubt() {
        let table = [
            (Meaning::Refused, AfterWatch::ReopenLater, AfterWatch::ReopenLater),
            (Meaning::Overloaded, AfterWatch::ReopenLater, AfterWatch::ReopenLater),
            (Meaning::Lost, AfterWatch::ReopenLater, AfterWatch::ReopenLater),
            (Meaning::Trouble, AfterWatch::ReopenLater, AfterWatch::Relist),
            (Meaning::Garbled, AfterWatch::Relist, AfterWatch::ReopenLater),
            (Meaning::Expired, AfterWatch::Relist, AfterWatch::Relist),
            (Meaning::TooLarge, AfterWatch::Relist, AfterWatch::Relist),
            (Meaning::OlderVersion, AfterWatch::Relist, AfterWatch::Relist),
            (Meaning::HistoryChanged, AfterWatch::Relist, AfterWatch::Relist),
            (Meaning::NotFound, AfterWatch::Relist, AfterWatch::Relist),
            (Meaning::Unsupported, AfterWatch::Relist, AfterWatch::Relist),
            (Meaning::Other, AfterWatch::Relist, AfterWatch::Relist),
        ];
        for (meaning, unopened, failed) in table {
            assert_eq!(watch(Ending::Unopened(meaning), USELESS), unopened, "opening: {meaning:?}");
            assert_eq!(watch(Ending::Failed(meaning), USELESS), failed, "following: {meaning:?}");
        }
        assert_eq!(watch(Ending::Failed(Meaning::Lost), USEFUL), AfterWatch::Reopen);
        assert_eq!(watch(Ending::Failed(Meaning::Garbled), USEFUL), AfterWatch::ReopenLater);
    }

    /// RE-42
    #[test]
    fn an_error_of_the_server_is_passing_only_if_somebody_says_so() {
        let after = |is_passing| after_watch(Ending::Failed(Meaning::Trouble), USEFUL, 1, || is_passing);
        assert_eq!((after(false), after(true)), (AfterWatch::Relist, AfterWatch::ReopenLater));
    }

    #[test]
    fn failures_in_a_row_lead_to_a_list_unless_nobody_is_there_to_answer_it() {
        for meaning in [Meaning::Lost, Meaning::Trouble] {
            let after = |failures| after_watch(Ending::Unopened(meaning), USELESS, failures, || false);
            assert_eq!((after(4), after(5)), (AfterWatch::ReopenLater, AfterWatch::Relist), "{meaning:?}");
        }
        for meaning in [Meaning::Refused, Meaning::Overloaded] {
            let after = after_watch(Ending::Unopened(meaning), USELESS, 1000, || false);
            assert_eq!(after, AfterWatch::ReopenLater, "{meaning:?}");
        }
    }

    #[test]
    fn a_check_that_keeps_failing_leads_to_a_list() {
        let after = |meaning, failures| after_check(Ending::Unopened(meaning), failures);
        assert_eq!(after(Meaning::HistoryChanged, 0), AfterWatch::Relist);
        assert_eq!(after(Meaning::Expired, 0), AfterWatch::Relist);
        assert_eq!(
            (after(Meaning::Trouble, 4), after(Meaning::Trouble, 5)),
            (AfterWatch::ReopenLater, AfterWatch::Relist)
        );
        assert_eq!(after(Meaning::Refused, 0), AfterWatch::ReopenLater, "a refused connection does not count");
        assert_eq!(after(Meaning::Other, 9), AfterWatch::ReopenLater, "403 of a starting server");
    }

    /// RE-35, RE-36, RE-37
    #[test]
    fn a_watch_was_of_use_if_it_moved_the_version_or_lasted_a_second() {
        let life = |has_moved, asked, opened| Life {
            has_moved,
            since_asked: Duration::from_millis(asked),
            since_opened: Duration::from_millis(opened),
        };
        let lost = Ending::Failed(Meaning::Lost);
        let garbled = Ending::Failed(Meaning::Garbled);
        let table = [
            (life(false, 999, 999), Ending::Cleanly, USELESS),
            (life(false, 1000, 0), Ending::Cleanly, USEFUL),
            (life(true, 0, 0), Ending::Cleanly, USEFUL),
            (life(false, 5000, 999), lost, USELESS),
            (life(false, 5000, 1000), lost, USEFUL),
            (life(true, 0, 0), lost, USEFUL),
            (life(false, 5000, 5000), garbled, USELESS),
            (life(true, 0, 0), garbled, USEFUL),
            (life(true, 5000, 5000), Ending::Unopened(Meaning::Lost), USELESS),
        ];
        for (life, ending, was_of_use) in table {
            assert_eq!(life.was_of_use(ending), was_of_use, "{life:?}, {ending:?}");
        }
    }

    #[test]
    fn who_is_not_there_or_too_busy_is_not_counted() {
        let mut streak = Streak::default();
        let table = [
            (Ending::Unopened(Meaning::Trouble), USELESS, 1),
            (Ending::Unopened(Meaning::Refused), USELESS, 1),
            (Ending::Failed(Meaning::Overloaded), USELESS, 1),
            (Ending::Failed(Meaning::Lost), USELESS, 2),
            (Ending::Cleanly, USELESS, 3),
            (Ending::Failed(Meaning::Overloaded), USEFUL, 0),
            (Ending::Failed(Meaning::Garbled), USELESS, 1),
            (Ending::Cleanly, USEFUL, 0),
        ];
        for (ending, was_of_use, count) in table {
            assert_eq!(streak.count(ending, was_of_use), count, "{ending:?}");
        }
    }

    /// RE-56 to RE-60
    #[test]
    fn a_streamed_list_falls_back_to_a_list_and_for_good_if_the_server_does_not_do_it() {
        let table = [
            (Meaning::Refused, AfterStreaming::Later, AfterStreaming::Later),
            (Meaning::Overloaded, AfterStreaming::Later, AfterStreaming::Later),
            (Meaning::Expired, AfterStreaming::AskNewest, AfterStreaming::AskNewest),
            (Meaning::TooLarge, AfterStreaming::AskNewest, AfterStreaming::AskNewest),
            (Meaning::OlderVersion, AfterStreaming::AskNewest, AfterStreaming::AskNewest),
            (Meaning::HistoryChanged, AfterStreaming::AskNewest, AfterStreaming::AskNewest),
            (Meaning::Lost, AfterStreaming::Later, AfterStreaming::Later),
            (Meaning::Garbled, AfterStreaming::List, AfterStreaming::List),
            (Meaning::Trouble, AfterStreaming::List, AfterStreaming::ListFromNowOn),
            (Meaning::NotFound, AfterStreaming::List, AfterStreaming::ListFromNowOn),
            (Meaning::Unsupported, AfterStreaming::ListFromNowOn, AfterStreaming::ListFromNowOn),
            (Meaning::Other, AfterStreaming::List, AfterStreaming::ListFromNowOn),
        ];
        for (meaning, unopened, failed) in table {
            assert_eq!(after_streaming(Ending::Unopened(meaning), USELESS, 1, true), unopened, "opening: {meaning:?}");
            assert_eq!(after_streaming(Ending::Failed(meaning), USEFUL, 1, true), failed, "following: {meaning:?}");
        }
        let expired = after_streaming(Ending::Failed(Meaning::Expired), USELESS, 1, false);
        assert_eq!(expired, AfterStreaming::Later, "once in a round is enough");
        let expired = after_streaming(Ending::Failed(Meaning::Expired), USELESS, 3, false);
        assert_eq!(expired, AfterStreaming::List, "and so are three");

        let cleanly = |was_of_use, failures| after_streaming(Ending::Cleanly, was_of_use, failures, true);
        assert_eq!(cleanly(USELESS, 1), AfterStreaming::List);
        assert_eq!((cleanly(USEFUL, 1), cleanly(USEFUL, 3)), (AfterStreaming::Later, AfterStreaming::List));
    }
}

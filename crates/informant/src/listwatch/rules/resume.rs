//! Which version to ask for next.

use std::cmp::Ordering;

use crate::ResourceVersion;
use crate::listwatch::ListRequest;

/// What was seen so far, and what follows from it for the next request.
#[derive(Debug, Default)]
pub(crate) struct Resume {
    /// The version of the last event or list: the next watch begins there.
    observed: Option<ResourceVersion>,
    /// The newest version that the server has shown in its present history, if it is newer than `observed`.
    shown: Option<ResourceVersion>,
    /// The version that was reached before the watch was resumed at an earlier event, until the watch gets there.
    reached: Option<ResourceVersion>,
    /// The server could not serve it: until a list succeeds, ask for the newest state instead.
    is_unavailable: bool,
    page_size: Option<u32>,
    /// The very first list came in pages although it needed none: this server has no cache to answer from, so pages are
    /// worth asking for at any version.
    prefers_pages: bool,
}

/// What a complete list means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listed {
    /// It is the new state.
    Accepted,
    /// It is the newest state although it is older than what was seen before: the server's history changed.
    HistoryChanged,
    /// It is older than what was seen before, perhaps because whoever answered lags behind: ask for the newest state.
    Doubted,
    /// It has no version, although what was seen before had one: it is no list to believe.
    Unversioned,
}

/// What the version of an event means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// It is newer.
    Forward,
    /// It is the same as before, or there is none.
    Nowhere,
    /// It is older.
    Back,
}

/// Any version will do.
const ANY: &str = "0";
const PAGE: u32 = 500;

impl Resume {
    pub(crate) fn new(page_size: Option<u32>) -> Self {
        Self { page_size, ..Self::default() }
    }

    /// The first page of the next list.
    pub(crate) fn list(&self) -> ListRequest {
        let version = match &self.observed {
            Some(_) | None if self.is_unavailable => ResourceVersion::default(),
            Some(observed) => observed.clone(),
            None => ANY.into(),
        };
        let is_of_a_version = !version.is_empty() && version.as_str() != ANY;
        // A limit beside a version means that very version, which may be gone; without one, any newer will do.
        let limit = self.page_size.or((!is_of_a_version || self.prefers_pages).then_some(PAGE));
        ListRequest { version, limit, ..ListRequest::default() }
    }

    /// The version of the next streamed list.
    pub(crate) fn stream(&self) -> ResourceVersion {
        match &self.observed {
            Some(observed) if !self.is_unavailable => observed.clone(),
            Some(_) | None => ResourceVersion::default(),
        }
    }

    /// The version of the next watch.
    pub(crate) fn watch(&self) -> ResourceVersion {
        self.observed.clone().unwrap_or_default()
    }

    /// Whether a watch can go on from what was seen: it has a version, and one that says something.
    pub(crate) fn is_versioned(&self) -> bool {
        self.observed.as_ref().is_some_and(|observed| !matches!(observed.as_str(), "" | "0"))
    }

    /// Whether anything was seen.
    pub(crate) fn has_observed(&self) -> bool {
        self.observed.is_some()
    }

    /// The version that was asked for is too old or too new.
    pub(crate) fn unavailable(&mut self) {
        self.is_unavailable = true;
    }

    /// A list has come, streamed or not: what to make of it.
    pub(crate) fn judge(&self, asked: &ResourceVersion, version: &ResourceVersion) -> Listed {
        if matches!(version.as_str(), "" | ANY) && self.is_versioned() {
            return Listed::Unversioned;
        }
        match self.is_older_than_shown(version) {
            true if asked.is_empty() => return Listed::HistoryChanged,
            true => return Listed::Doubted,
            false => {}
        }
        match self.moved(version) {
            Moved::Forward | Moved::Nowhere => Listed::Accepted,
            Moved::Back if asked.is_empty() => Listed::HistoryChanged,
            Moved::Back => Listed::Doubted,
        }
    }

    /// A list became the new state.
    pub(crate) fn listed(&mut self, asked: &ResourceVersion, version: &ResourceVersion, is_paged: bool) {
        self.is_unavailable = false;
        self.observed = Some(version.clone());
        (self.shown, self.reached) = (None, None);
        self.prefers_pages |= is_paged && asked.as_str() == ANY;
    }

    /// Notes the version of the server's newest state. `Moved::Back` means that its history changed, since it has shown newer
    /// versions before.
    pub(crate) fn note_newest_version(&mut self, version: &ResourceVersion) -> Moved {
        let moved = if self.is_older_than_shown(version) { Moved::Back } else { self.moved(version) };
        if moved == Moved::Forward {
            self.shown = Some(version.clone());
        }
        moved
    }

    /// The version up to which everything has been delivered.
    pub(crate) fn reached(&self) -> ResourceVersion {
        self.reached.clone().unwrap_or_else(|| self.watch())
    }

    /// The newest version that the server has shown.
    pub(crate) fn newest(&self) -> ResourceVersion {
        self.shown.clone().unwrap_or_else(|| self.watch())
    }

    /// The next watch begins at this version, which is that of an event that the server is known to have.
    pub(crate) fn resume_from(&mut self, version: &ResourceVersion) {
        let reached = self.reached();
        if reached != *version {
            self.reached = Some(reached.clone());
            self.shown.get_or_insert(reached);
        }
        self.observed = Some(version.clone());
    }

    fn is_older_than_shown(&self, version: &ResourceVersion) -> bool {
        self.shown.as_ref().is_some_and(|shown| version.compare(shown) == Ok(Ordering::Less))
    }

    /// An event has this version; it counts unless it is older.
    pub(crate) fn observe(&mut self, version: &ResourceVersion) -> Moved {
        let moved = self.moved(version);
        if moved == Moved::Forward {
            self.observed = Some(version.clone());
            self.reached.take_if(|reached| version.compare(reached) != Ok(Ordering::Less));
        }
        moved
    }

    fn moved(&self, version: &ResourceVersion) -> Moved {
        let Some(observed) = &self.observed else { return Moved::Forward };
        if version.is_empty() || version == observed {
            return Moved::Nowhere;
        }
        match version.compare(observed) {
            Ok(Ordering::Less) => Moved::Back,
            // What has no order can only be believed.
            Ok(Ordering::Equal | Ordering::Greater) | Err(_) => Moved::Forward,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> ResourceVersion {
        text.into()
    }

    fn observed(text: &str) -> Resume {
        let mut resume = Resume::default();
        assert_eq!(resume.judge(&version("0"), &version(text)), Listed::Accepted);
        resume.listed(&version("0"), &version(text), false);
        resume
    }

    /// RE-08, RE-09, RE-14, RE-15, RE-52
    #[test]
    fn the_next_request_follows_from_what_was_seen() {
        let mut resume = Resume::default();
        assert_eq!((resume.list().to_string().as_str(), resume.stream().as_str()), ("L(0, 500)", ""));
        resume.unavailable();
        assert_eq!(resume.list().to_string(), "L(\"\", 500)");

        let mut resume = observed("10");
        assert_eq!(resume.list().to_string(), "L(10, no limit)");
        assert_eq!((resume.stream().as_str(), resume.watch().as_str()), ("10", "10"));

        resume.unavailable();
        assert_eq!(resume.list().to_string(), "L(\"\", 500)");
        assert_eq!((resume.stream().as_str(), resume.watch().as_str()), ("", "10"));

        resume.listed(&version(""), &version("12"), true);
        assert_eq!(resume.list().to_string(), "L(12, no limit)", "pages of another list than the first do not count");
    }

    /// RE-09, RE-10, HC-23
    #[test]
    fn pages_are_asked_for_where_they_help() {
        let mut resume = Resume::default();
        resume.listed(&version("0"), &version("10"), true);
        assert_eq!(resume.list().to_string(), "L(10, 500)");

        let mut resume = Resume::new(Some(20));
        assert_eq!(resume.list().to_string(), "L(0, 20)");
        resume.listed(&version("0"), &version("10"), false);
        assert_eq!(resume.list().to_string(), "L(10, 20)");
    }

    #[test]
    fn an_older_list_is_doubted_once_and_believed_if_it_is_the_newest_state() {
        let mut resume = observed("100");

        assert_eq!(resume.judge(&version("100"), &version("60")), Listed::Doubted);
        resume.unavailable();
        assert_eq!(resume.list().to_string(), "L(\"\", 500)");
        assert_eq!(resume.watch().as_str(), "100", "nothing has changed yet");

        assert_eq!(resume.judge(&version(""), &version("61")), Listed::HistoryChanged);
        resume.listed(&version(""), &version("61"), false);
        assert_eq!(resume.list().to_string(), "L(61, no limit)");
    }

    #[test]
    fn a_list_without_a_version_is_believed_only_if_none_had_one() {
        assert_eq!(Resume::default().judge(&version("0"), &version("")), Listed::Accepted);
        assert_eq!(observed("10").judge(&version("10"), &version("")), Listed::Unversioned);
        assert_eq!(observed("10").judge(&version(""), &version("0")), Listed::Unversioned);
        let mut resume = Resume::default();
        resume.listed(&version("0"), &version(""), false);
        assert_eq!(resume.judge(&version(""), &version("")), Listed::Accepted);
        assert!(!resume.is_versioned() && observed("10").is_versioned());
    }

    #[test]
    fn a_newest_state_that_is_older_than_one_before_shows_that_the_history_changed() {
        let mut resume = observed("100");
        let table = [("100", Moved::Nowhere), ("120", Moved::Forward), ("119", Moved::Back)];
        for (newest, moved) in table {
            assert_eq!(resume.note_newest_version(&version(newest)), moved, "{newest}");
        }
        assert_eq!(resume.judge(&version(""), &version("119")), Listed::HistoryChanged);
        assert_eq!(resume.judge(&version("100"), &version("119")), Listed::Doubted, "a replica may lag behind");
        assert_eq!(resume.watch().as_str(), "100", "the events up to 120 have not come");
    }

    #[test]
    fn a_watch_can_begin_at_an_earlier_event_and_the_newest_version_is_remembered() {
        let mut resume = observed("100");
        resume.resume_from(&version("90"));
        assert_eq!((resume.watch().as_str(), resume.note_newest_version(&version("99"))), ("90", Moved::Back));
        assert_eq!(resume.observe(&version("95")), Moved::Forward);
        assert_eq!((resume.watch().as_str(), resume.reached().as_str()), ("95", "100"));
        assert_eq!((resume.observe(&version("101")), resume.reached().as_str()), (Moved::Forward, "101"));
        assert_eq!(resume.note_newest_version(&version("102")), Moved::Forward);

        resume.listed(&version(""), &version("97"), false);
        assert_eq!(resume.note_newest_version(&version("98")), Moved::Forward, "a list resets the newest version");
    }

    /// RE-27 as we want it.
    #[test]
    fn an_event_moves_the_version_forward_only() {
        let mut resume = observed("10");
        let table = [
            ("11", Moved::Forward, "11"),
            ("11", Moved::Nowhere, "11"),
            ("", Moved::Nowhere, "11"),
            ("9", Moved::Back, "11"),
            ("v2", Moved::Forward, "v2"),
            ("v1", Moved::Forward, "v1"),
        ];
        for (event, moved, after) in table {
            assert_eq!((resume.observe(&version(event)), resume.watch().as_str()), (moved, after), "{event}");
        }
    }
}

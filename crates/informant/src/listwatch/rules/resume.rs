//! Decides which version the next request asks for, and what the version of a list or event means.
//!
//! - **In:** the versions of lists and events, and errors about versions.
//! - **Out:** the version of the next list, streamed list or watch.
//! - **Knows nothing of:** objects, and how requests are made.

use std::cmp::Ordering;

use super::error_class::ErrorClass;
use crate::{ResourceVersion, listwatch::ListRequest};

/// The versions that the reflector has received, from which the next request follows.
#[derive(Debug, Default)]
pub(crate) struct Resume {
    /// The version of the last event or list: the next watch begins there.
    observed: Option<ResourceVersion>,
    /// The newest version that the server has shown in its present history, if it is newer than `observed`.
    shown: Option<ResourceVersion>,
    /// The version that was reached before the watch was resumed at an earlier event, until the watch reaches that version again.
    reached: Option<ResourceVersion>,
    /// True if the server could not serve `observed`. Until a list succeeds, the newest state is requested instead.
    is_unavailable: bool,
    /// True if the first list asks for the newest state, and not for any state that the server has in its cache.
    begins_with_newest: bool,
    /// The configured page size, if there is one.
    page_size: Option<u32>,
    /// True if the server paged the first list, whose version was "0". A server with a watch cache does not do that. This one
    /// reads from storage, so pages are requested for all versions.
    prefers_pages: bool,
    history: History,
    /// True if the last list was refused because of a damaged item.
    refused_damage: bool,
}

/// Whether the server has the history that the reflector followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum History {
    #[default]
    Same,
    /// It is in doubt, until a list is accepted: cached objects are not reused.
    InDoubt,
    /// It changed: the next accepted list is the first one of another history.
    Changed,
}

/// What the version of a complete list means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListVerdict {
    /// The list is the new state.
    Accepted,
    /// The list is older than the observed version although the newest state was requested: the server's history changed.
    HistoryChanged,
    /// The list is older than the observed version, perhaps because a lagging replica answered: the newest state must be requested.
    Stale,
    /// The list has no version, although an earlier list or event had one: the list is refused.
    Unversioned,
}

/// Requests any state that the server has in its cache.
const ANY: &str = "0";

/// The default page size.
const PAGE: u32 = 500;

impl Resume {
    pub(crate) fn new(page_size: Option<u32>, begins_with_newest: bool) -> Self {
        Self { page_size, begins_with_newest, ..Self::default() }
    }

    /// Returns the request for the first page of the next list. It asks for the newest version that the server has shown: a cache of the server
    /// that lags behind could answer with an older version, and that list would be refused.
    pub(crate) fn list_request(&self) -> ListRequest {
        let version = match &self.observed {
            Some(_) | None if self.is_unavailable => ResourceVersion::default(),
            Some(_) => self.newest(),
            None if self.begins_with_newest => ResourceVersion::default(),
            None => ANY.into(),
        };
        let names_version = !version.is_empty() && version.as_str() != ANY;
        // With a limit, the server reads exactly this version, which may be compacted; without one, it may answer with a newer version.
        let limit = self.page_size.or((!names_version || self.prefers_pages).then_some(PAGE));
        ListRequest { version, limit, ..ListRequest::default() }
    }

    /// Returns the version that the next streamed list asks for, as for [`list_request`](Self::list_request).
    pub(crate) fn streamed_list_version(&self) -> ResourceVersion {
        match &self.observed {
            Some(_) if !self.is_unavailable => self.newest(),
            Some(_) | None => ResourceVersion::default(),
        }
    }

    /// Returns the version at which the next watch begins.
    pub(crate) fn watch_version(&self) -> ResourceVersion {
        self.observed.clone().unwrap_or_default()
    }

    /// Returns true if a watch can be resumed: the observed version is neither empty nor "0".
    pub(crate) fn is_versioned(&self) -> bool {
        self.observed.as_ref().is_some_and(|observed| !matches!(observed.as_str(), "" | "0"))
    }

    /// Returns true if a list or event was received.
    pub(crate) fn has_observed(&self) -> bool {
        self.observed.is_some()
    }

    /// Returns true if the next list asks for the newest state, and not for a version.
    pub(crate) fn asks_for_newest(&self) -> bool {
        self.is_unavailable || self.observed.as_ref().map_or(self.begins_with_newest, ResourceVersion::is_empty)
    }

    /// Notes the failure of a list or streamed list. If the server cannot serve the requested version, because it is too old or too new, or served
    /// an older one, the next list asks for the newest state.
    pub(crate) fn note_failed_list(&mut self, class: ErrorClass) {
        if let ErrorClass::TooLarge | ErrorClass::OlderVersion = class {
            self.distrust_cache();
        }
        if class == ErrorClass::Expired {
            self.is_unavailable = true;
        }
    }

    /// Notes that the server's history changed.
    pub(crate) fn note_history_change(&mut self) {
        self.history = History::Changed;
        self.is_unavailable = true;
    }

    /// Notes that the cache differs from the server: the next list asks for the newest state, and no cached object is reused.
    pub(crate) fn distrust_cache(&mut self) {
        self.doubt_history();
        self.is_unavailable = true;
    }

    /// Returns true if the next accepted list is the first one of another history.
    pub(crate) fn has_history_changed(&self) -> bool {
        self.history == History::Changed
    }

    /// Returns true if cached objects may be reused instead of decoding the same state again.
    pub(crate) fn may_reuse(&self) -> bool {
        self.history == History::Same
    }

    fn doubt_history(&mut self) {
        if self.history == History::Same {
            self.history = History::InDoubt;
        }
    }

    /// Returns true if a list with an item that may be any object is refused: an object that seems to be missing may be that item. After a refused
    /// list, the next one is not refused.
    pub(crate) fn refuses_damage(&mut self) -> bool {
        self.has_observed() && !std::mem::replace(&mut self.refused_damage, true)
    }

    /// Decides what a complete list means, streamed or not. `asked` is the version that was requested. After a history change, an older list of the
    /// newest state is accepted.
    pub(crate) fn judge(&self, asked: &ResourceVersion, version: &ResourceVersion) -> ListVerdict {
        if matches!(version.as_str(), "" | ANY) && self.is_versioned() {
            return ListVerdict::Unversioned;
        }
        match self.is_older_than_shown(version) || self.compare(version) == Ordering::Less {
            false => ListVerdict::Accepted,
            true if !asked.is_empty() => ListVerdict::Stale,
            true if self.has_history_changed() => ListVerdict::Accepted,
            true => ListVerdict::HistoryChanged,
        }
    }

    /// Notes that a list became the new state.
    pub(crate) fn note_accepted_list(&mut self, asked: &ResourceVersion, version: &ResourceVersion, is_paged: bool) {
        (self.is_unavailable, self.refused_damage, self.history) = (false, false, History::Same);
        self.observed = Some(version.clone());
        (self.shown, self.reached) = (None, None);
        self.prefers_pages |= is_paged && asked.as_str() == ANY;
    }

    /// Notes the version of the server's newest state. `Ordering::Less` means that its history changed, since it has shown newer
    /// versions before.
    pub(crate) fn note_newest_version(&mut self, version: &ResourceVersion) -> Ordering {
        let order = if self.is_older_than_shown(version) { Ordering::Less } else { self.compare(version) };
        if order == Ordering::Greater {
            self.shown = Some(version.clone());
        }
        order
    }

    /// Returns the version up to which everything has been delivered.
    pub(crate) fn reached(&self) -> ResourceVersion {
        self.reached.clone().unwrap_or_else(|| self.watch_version())
    }

    /// Returns the newest version that the server has shown.
    pub(crate) fn newest(&self) -> ResourceVersion {
        self.shown.clone().unwrap_or_else(|| self.watch_version())
    }

    /// Makes the next watch begin at this version: the version of an event that the server is known to have.
    pub(crate) fn resume_from(&mut self, version: &ResourceVersion) {
        let reached = self.reached();
        if reached != *version {
            self.reached = Some(reached.clone());
            self.shown.get_or_insert(reached);
        }
        self.observed = Some(version.clone());
    }

    fn is_older_than_shown(&self, version: &ResourceVersion) -> bool {
        self.shown.as_ref().is_some_and(|shown| version.compare(shown) == Some(Ordering::Less))
    }

    /// Notes the version of an event. If it is older than the observed version, the server's history is in doubt.
    pub(crate) fn observe(&mut self, version: &ResourceVersion) -> Ordering {
        let order = self.compare(version);
        match order {
            Ordering::Greater => {
                self.observed = Some(version.clone());
                let is_passed = |earlier: &mut ResourceVersion| version.compare(earlier) != Some(Ordering::Less);
                self.reached.take_if(is_passed);
                self.shown.take_if(is_passed);
            }
            Ordering::Equal => {}
            Ordering::Less => self.doubt_history(),
        }
        order
    }

    /// Compares a version with the observed version. An empty version counts as equal. Versions that are not numbers cannot be compared; any change counts as
    /// progress.
    fn compare(&self, version: &ResourceVersion) -> Ordering {
        let Some(observed) = &self.observed else { return Ordering::Greater };
        match version.is_empty() || version == observed {
            true => Ordering::Equal,
            false if version.compare(observed) == Some(Ordering::Less) => Ordering::Less,
            false => Ordering::Greater,
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
        assert_eq!(resume.judge(&version("0"), &version(text)), ListVerdict::Accepted);
        resume.note_accepted_list(&version("0"), &version(text), false);
        resume
    }

    /// RE-08, RE-09, RE-14, RE-15, RE-52
    #[test]
    fn the_version_of_the_next_request_is_the_observed_one_or_the_newest_if_that_is_unavailable() {
        let mut resume = Resume::default();
        assert_eq!(
            (resume.list_request().to_string().as_str(), resume.streamed_list_version().as_str()),
            ("L(0, 500)", "")
        );
        resume.note_failed_list(ErrorClass::Expired);
        assert_eq!(resume.list_request().to_string(), "L(\"\", 500)");

        let mut resume = observed("10");
        assert_eq!(resume.list_request().to_string(), "L(10, no limit)");
        assert_eq!((resume.streamed_list_version().as_str(), resume.watch_version().as_str()), ("10", "10"));

        resume.note_failed_list(ErrorClass::Expired);
        assert_eq!(resume.list_request().to_string(), "L(\"\", 500)");
        assert_eq!((resume.streamed_list_version().as_str(), resume.watch_version().as_str()), ("", "10"));

        resume.note_accepted_list(&version(""), &version("12"), true);
        assert_eq!(
            resume.list_request().to_string(),
            "L(12, no limit)",
            "pages of another list than the first do not count"
        );
    }

    #[test]
    fn a_consistent_first_list_asks_for_the_newest_state_and_the_next_list_for_the_observed_version() {
        let mut resume = Resume::new(None, true);
        assert_eq!((resume.list_request().to_string().as_str(), resume.asks_for_newest()), ("L(\"\", 500)", true));

        resume.note_accepted_list(&version(""), &version("10"), true);
        assert_eq!((resume.list_request().to_string().as_str(), resume.asks_for_newest()), ("L(10, no limit)", false));
    }

    /// RE-09, RE-10, HC-23
    #[test]
    fn pages_are_requested_if_the_server_paged_the_first_list_or_a_page_size_is_set() {
        let mut resume = Resume::default();
        resume.note_accepted_list(&version("0"), &version("10"), true);
        assert_eq!(resume.list_request().to_string(), "L(10, 500)");

        let mut resume = Resume::new(Some(20), false);
        assert_eq!(resume.list_request().to_string(), "L(0, 20)");
        resume.note_accepted_list(&version("0"), &version("10"), false);
        assert_eq!(resume.list_request().to_string(), "L(10, 20)");
    }

    #[test]
    fn an_older_list_is_stale_first_and_a_history_change_if_it_is_the_newest_state() {
        let mut resume = observed("100");

        assert_eq!(resume.judge(&version("100"), &version("60")), ListVerdict::Stale);
        resume.note_failed_list(ErrorClass::Expired);
        assert_eq!(resume.list_request().to_string(), "L(\"\", 500)");
        assert_eq!(resume.watch_version().as_str(), "100", "nothing has changed yet");

        assert_eq!(resume.judge(&version(""), &version("61")), ListVerdict::HistoryChanged);
        resume.note_accepted_list(&version(""), &version("61"), false);
        assert_eq!(resume.list_request().to_string(), "L(61, no limit)");
    }

    #[test]
    fn a_list_without_a_version_is_accepted_only_if_no_version_was_observed() {
        assert_eq!(Resume::default().judge(&version("0"), &version("")), ListVerdict::Accepted);
        assert_eq!(observed("10").judge(&version("10"), &version("")), ListVerdict::Unversioned);
        assert_eq!(observed("10").judge(&version(""), &version("0")), ListVerdict::Unversioned);
        let mut resume = Resume::default();
        resume.note_accepted_list(&version("0"), &version(""), false);
        assert_eq!(resume.judge(&version(""), &version("")), ListVerdict::Accepted);
        assert!(!resume.is_versioned() && observed("10").is_versioned());
    }

    #[test]
    fn a_newest_version_that_is_older_than_an_earlier_one_is_a_history_change() {
        let mut resume = observed("100");
        let table = [("100", Ordering::Equal), ("120", Ordering::Greater), ("119", Ordering::Less)];
        for (newest, order) in table {
            assert_eq!(resume.note_newest_version(&version(newest)), order, "{newest}");
        }
        assert_eq!(resume.judge(&version(""), &version("119")), ListVerdict::HistoryChanged);
        assert_eq!(resume.judge(&version("100"), &version("119")), ListVerdict::Stale, "a replica may lag behind");
        assert_eq!(resume.watch_version().as_str(), "100", "the events up to 120 were not received");
    }

    #[test]
    fn the_next_list_asks_for_the_newest_version_that_the_server_has_shown() {
        let mut resume = observed("100");
        resume.note_newest_version(&version("120"));
        let asked = |resume: &Resume| (resume.list_request().to_string(), resume.streamed_list_version().to_string());
        assert_eq!(asked(&resume), ("L(120, no limit)".into(), "120".into()));

        resume.observe(&version("110"));
        assert_eq!(asked(&resume), ("L(120, no limit)".into(), "120".into()));

        resume.observe(&version("121"));
        assert_eq!(asked(&resume), ("L(121, no limit)".into(), "121".into()));
    }

    #[test]
    fn a_watch_can_resume_at_an_earlier_event_and_the_newest_version_is_kept() {
        let mut resume = observed("100");
        resume.resume_from(&version("90"));
        assert_eq!(
            (resume.watch_version().as_str(), resume.note_newest_version(&version("99"))),
            ("90", Ordering::Less)
        );
        assert_eq!(resume.observe(&version("95")), Ordering::Greater);
        assert_eq!((resume.watch_version().as_str(), resume.reached().as_str()), ("95", "100"));
        assert_eq!((resume.observe(&version("101")), resume.reached().as_str()), (Ordering::Greater, "101"));
        assert_eq!(resume.note_newest_version(&version("102")), Ordering::Greater);

        resume.note_accepted_list(&version(""), &version("97"), false);
        assert_eq!(resume.note_newest_version(&version("98")), Ordering::Greater, "a list resets the newest version");
    }

    /// Differs from RE-27.
    #[test]
    fn an_event_moves_the_observed_version_only_forward() {
        let mut resume = observed("10");
        let table = [
            ("11", Ordering::Greater, "11"),
            ("11", Ordering::Equal, "11"),
            ("", Ordering::Equal, "11"),
            ("9", Ordering::Less, "11"),
            ("v2", Ordering::Greater, "v2"),
            ("v1", Ordering::Greater, "v1"),
        ];
        for (event, order, after) in table {
            assert_eq!((resume.observe(&version(event)), resume.watch_version().as_str()), (order, after), "{event}");
        }
    }
}

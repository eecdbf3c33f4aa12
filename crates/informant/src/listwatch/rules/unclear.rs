//! Decides when to list because of watch events that may concern any object.
//!
//! - **In:** such events, and lists that were accepted.
//! - **Out:** when a list is due, and because of which event.
//! - **Knows nothing of:** requests, and what is unclear about an event.
//!
//! Such an event has an unknown type, or an object above the size limit whose identity cannot be read. It can neither be applied nor be skipped:
//! the cache would lack its change until the next list. If the watch were opened again before it, the server would send it again, and
//! all later events would have to wait. So the watch goes on, and a list follows: at once, or a minute after the last such list, because a server
//! may send many such events. The event does not advance the version; later events do. The list stays due when the watch
//! ends, so a resumed watch does not skip the event for good.

use std::time::Duration;

use tokio::time::Instant;

use crate::listwatch::SourceError;

/// The unclear events since the last list.
#[derive(Default)]
pub(crate) struct UnclearEvents {
    /// The first of them, and when the list is due.
    pending: Option<(SourceError, Instant)>,
    /// When such events last led to a list.
    last_list: Option<Instant>,
}

/// The least time between two lists because of unclear events.
const BETWEEN_LISTS: Duration = Duration::from_secs(60);

impl UnclearEvents {
    /// Notes an event. Returns true if it is the first one since the last list.
    pub(crate) fn note(&mut self, event: SourceError, now: Instant) -> bool {
        let is_first = self.pending.is_none();
        let earliest = self.last_list.map_or(now, |last| last + BETWEEN_LISTS);
        self.pending.get_or_insert((event, earliest.max(now)));
        is_first
    }

    /// Returns when the list is due, if there is an event.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        self.pending.as_ref().map(|(_, due)| *due)
    }

    /// Returns the event because of which a list must be requested now.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<SourceError> {
        let (event, _) = self.pending.take_if(|(_, due)| *due <= now)?;
        self.last_list = Some(now);
        Some(event)
    }

    /// Notes that a list was accepted: it contains the changes of all events before it.
    pub(crate) fn note_accepted_list(&mut self) {
        self.pending = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_because_of_unclear_events_are_a_minute_apart() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let event = || SourceError::UnknownEvent { event: "NEW".into() };
        let mut events = UnclearEvents::default();
        assert_eq!(events.due_at(), None);

        assert!(events.note(event(), at(5)));
        assert!(!events.note(event(), at(6)), "one list is enough for both");
        assert_eq!(events.due_at(), Some(at(5)));
        assert!(events.take_due(at(7)).is_some());
        assert!(events.take_due(at(7)).is_none());

        assert!(events.note(event(), at(20)));
        assert_eq!(events.due_at(), Some(at(67)));
        assert!(events.take_due(at(66)).is_none());
        events.note_accepted_list();
        assert_eq!(events.due_at(), None, "the list has the change");

        events.note(event(), at(200));
        assert_eq!(events.due_at(), Some(at(200)));
    }
}

//! Remembers whether the server supports streamed lists. The reflector tries one; the server's version is not examined.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// Whether a server refused to stream the list of a kind. Cheap to clone; all clones share one memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamingSupport {
    refused_at: Arc<Mutex<Option<Instant>>>,
}

/// How long a refusal counts; the server may have been upgraded since.
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(3600);

impl StreamingSupport {
    /// Returns true if no refusal is remembered.
    pub(crate) fn may_try(&self, now: Instant) -> bool {
        self.refused_at.lock().is_none_or(|refused_at| now - refused_at >= ASKED_AGAIN_AFTER)
    }

    /// Notes that the server refused a streamed list.
    pub(crate) fn note_refusal(&self, now: Instant) {
        *self.refused_at.lock() = Some(now);
    }

    /// Forgets the refusal. Called when the connection is lost: the next connection may be to another server.
    pub(crate) fn forget_refusal(&self) {
        *self.refused_at.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_remembered_for_an_hour_or_until_the_connection_is_lost() {
        let support = StreamingSupport::default();
        let now = Instant::now();
        assert!(support.may_try(now));

        support.note_refusal(now);
        assert!(!support.clone().may_try(now + Duration::from_secs(3599)));
        assert!(support.may_try(now + Duration::from_secs(3600)));

        support.forget_refusal();
        assert!(support.may_try(now));
    }
}

//! Whether lists can be streamed: tried, not concluded from a server's version.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// What is remembered of a server's refusal to stream the list of a kind. Clones share it: give all reflectors of one client
/// and kind the same one.
#[derive(Clone, Debug, Default)]
pub struct StreamingSupport {
    memory: Arc<Mutex<Memory>>,
}

#[derive(Debug, Default)]
struct Memory {
    refused_at: Option<Instant>,
}

/// When to ask again: the server may have been upgraded.
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(3600);

impl StreamingSupport {
    /// Nothing is known, so it will be tried.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether it is worth trying.
    pub(crate) fn may_try(&self, now: Instant) -> bool {
        self.memory.lock().may_try(now)
    }

    /// The server does not do it.
    pub(crate) fn refused(&self, now: Instant) {
        self.memory.lock().refused_at = Some(now);
    }

    /// Who answers next may be another server.
    pub(crate) fn connection_lost(&self) {
        self.memory.lock().refused_at = None;
    }
}

impl Memory {
    fn may_try(&self, now: Instant) -> bool {
        self.refused_at.is_none_or(|refused_at| now - refused_at >= ASKED_AGAIN_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_remembered_for_an_hour_or_until_the_connection_is_lost() {
        let support = StreamingSupport::new();
        let now = Instant::now();
        assert!(support.may_try(now));

        support.refused(now);
        assert!(!support.clone().may_try(now + Duration::from_secs(3599)));
        assert!(support.may_try(now + Duration::from_secs(3600)));

        support.connection_lost();
        assert!(support.may_try(now));
    }
}

//! What the faults of one request come to before it has an answer: each is looked at once, here or in
//! [`wire`](crate::faults::wire).

use std::time::Duration;

use crate::error::ApiError;
use crate::faults::Fault;

/// What is to be done to a request, beside what happens to the bytes of its answer.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    pub(crate) delay: Duration,
    pub(crate) hang: bool,
    pub(crate) refuse: bool,
    /// The answer in place of the true one.
    pub(crate) error: Option<ApiError>,
    pub(crate) no_bookmarks: bool,
    pub(crate) watch_list: WatchList,
    pub(crate) expire_token: bool,
    /// How many versions behind the answer is.
    pub(crate) lag: u64,
}

/// How a streaming list is treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WatchList {
    #[default]
    Served,
    Refused,
    Fails,
    NeverEnds,
}

impl Orders {
    pub(crate) fn new(faults: &[Fault]) -> Self {
        let mut orders = Self::default();
        for fault in faults {
            orders.add(fault);
        }
        orders
    }

    fn add(&mut self, fault: &Fault) {
        match fault {
            Fault::Delay(time) => self.delay += *time,
            Fault::Hang => self.hang = true,
            Fault::Refuse => self.refuse = true,
            // The first counts, as with every other rule.
            Fault::Status { code, retry_after } => {
                let message = format!("an error with code {code}, on command");
                let error = ApiError::Ordered { code: *code, message, retry_after: *retry_after };
                self.error.get_or_insert(error);
            }
            Fault::NoBookmarks => self.no_bookmarks = true,
            Fault::WatchListRefused => self.watch_list = WatchList::Refused,
            Fault::WatchListFails => self.watch_list = WatchList::Fails,
            Fault::WatchListNeverEnds => self.watch_list = WatchList::NeverEnds,
            Fault::ExpireToken => self.expire_token = true,
            Fault::Stale { versions } => self.lag = self.lag.max(*versions),
            Fault::ErrorEvent { .. }
            | Fault::WrongKind
            | Fault::BadItem { .. }
            | Fault::Garbage
            | Fault::Truncate
            | Fault::Cut { .. }
            | Fault::Freeze { .. }
            | Fault::ByteByByte
            | Fault::Split { .. }
            | Fault::Pack { .. }
            | Fault::Gzip(_) => {}
        }
    }
}

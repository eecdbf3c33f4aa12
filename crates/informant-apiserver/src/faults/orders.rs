//! What the faults of one request come to before it has an answer: each is looked at once, here or in
//! [`wire`](crate::faults::wire).

use std::io;
use std::time::Duration;

use crate::error::ApiError;
use crate::faults::Canned;
use crate::faults::Ending;
use crate::faults::Fault;

/// What is to be done to a request, beside what happens to the bytes of its answer.
#[derive(Default)]
pub(crate) struct Orders {
    pub(crate) delay: Duration,
    pub(crate) hang: bool,
    /// The connection ends without an answer, and so the call fails in-process.
    pub(crate) end: Option<io::ErrorKind>,
    /// The request is carried out, then the connection ends without an answer.
    pub(crate) lose_answer: bool,
    /// The answer in place of the true one.
    pub(crate) instead: Option<Instead>,
    pub(crate) no_bookmarks: bool,
    pub(crate) watch_list: WatchList,
    pub(crate) expire_token: bool,
    /// How many versions behind the answer is.
    pub(crate) lag: u64,
    /// The stream will stop without an end, so it is not to be ended for being stuck.
    pub(crate) goes_silent: bool,
}

/// An answer that is not the true one.
pub(crate) enum Instead {
    Error(ApiError),
    Canned(Canned),
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
            Fault::Refuse => self.end = self.end.or(Some(io::ErrorKind::ConnectionRefused)),
            Fault::Drop => self.end = self.end.or(Some(io::ErrorKind::UnexpectedEof)),
            Fault::LoseAnswer => self.lose_answer = true,
            // The first counts, as with every other rule.
            Fault::Status { code, retry_after } => {
                self.instead.get_or_insert(Instead::Error(ApiError::injected(*code, *retry_after)));
            }
            Fault::Answer(canned) => {
                self.instead.get_or_insert(Instead::Canned(canned.clone()));
            }
            Fault::NoBookmarks => self.no_bookmarks = true,
            Fault::WatchListRefused => self.watch_list = WatchList::Refused,
            Fault::WatchListFails => self.watch_list = WatchList::Fails,
            Fault::WatchListNeverEnds => self.watch_list = WatchList::NeverEnds,
            Fault::ExpireToken => self.expire_token = true,
            Fault::Stale { versions } => self.lag = self.lag.max(*versions),
            Fault::Cut { ending, .. } => self.goes_silent |= *ending == Ending::Silence,
            Fault::Line { .. }
            | Fault::ErrorEvent { .. }
            | Fault::WrongKind
            | Fault::BadItem { .. }
            | Fault::Garbage
            | Fault::Truncate
            | Fault::ByteByByte
            | Fault::Split { .. }
            | Fault::Pack { .. }
            | Fault::Gzip(_) => {}
        }
    }
}

//! The effects of a request's faults other than those on the bytes of its response, which are in
//! [`wire`](crate::faults::wire).
//!
//! - **In:** the faults that hit one request.
//! - **Out:** one [`Orders`], which the HTTP service follows.

use std::{io, time::Duration};

use crate::{
    error::ApiError,
    faults::{CannedResponse, CutEnding, Fault},
};

/// What the HTTP service does with one request because of its faults.
#[derive(Default)]
pub(crate) struct Orders {
    pub(crate) delay: Duration,
    pub(crate) hang: bool,
    /// The connection ends without a response; an in-process call fails with this error.
    pub(crate) end: Option<io::ErrorKind>,
    /// The request is carried out, then the connection ends without a response.
    pub(crate) lose_answer: bool,
    /// The response that is sent without carrying out the request.
    pub(crate) instead: Option<Instead>,
    pub(crate) no_bookmarks: bool,
    pub(crate) watch_list: WatchList,
    pub(crate) expire_token: bool,
    /// The number of versions that the response is behind.
    pub(crate) lag: u64,
    /// The response goes silent without an end, so the listener must not close the connection of a client that stops reading.
    pub(crate) goes_silent: bool,
}

/// The response of a request that is not carried out.
pub(crate) enum Instead {
    Error(ApiError),
    Canned(CannedResponse),
}

/// How the server treats a streaming list.
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
            Fault::LoseResponse => self.lose_answer = true,
            // The first rule wins if several replace the response.
            Fault::Status { code, retry_after } => {
                self.instead.get_or_insert(Instead::Error(ApiError::injected(*code, *retry_after)));
            }
            Fault::Response(canned) => {
                self.instead.get_or_insert(Instead::Canned(canned.clone()));
            }
            Fault::NoBookmarks => self.no_bookmarks = true,
            Fault::WatchListRefused => self.watch_list = WatchList::Refused,
            Fault::WatchListFails => self.watch_list = WatchList::Fails,
            Fault::WatchListNeverEnds => self.watch_list = WatchList::NeverEnds,
            Fault::ExpireToken => self.expire_token = true,
            Fault::Stale { versions } => self.lag = self.lag.max(*versions),
            Fault::Cut { ending, .. } => self.goes_silent |= *ending == CutEnding::Silence,
            Fault::ExtraLine { .. }
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

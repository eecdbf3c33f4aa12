//! The stream of a watch: waits for changes, sends bookmarks and ends at its deadline.
//!
//! - **In:** an open [`Watch`], wake-ups after changes, tokio's clock.
//! - **Out:** lines.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use tokio::{
    sync::watch::Receiver,
    time::{Instant, sleep_until},
};

use crate::{
    shared::Shared,
    storage::CollectionId,
    watch::{End, Next, Watch},
};

/// Streams the lines of a watch. It makes progress only when it is polled.
pub(crate) struct WatchStream {
    shared: Arc<Shared>,
    watch: Watch,
    changed: Receiver<u64>,
    lines: VecDeque<Bytes>,
    bookmarks: Option<Bookmarks>,
    place: Arc<WatchPlace>,
    is_over: bool,
}

/// The position of a watch, shared with its connection. The watch counts as open until this is dropped.
pub(crate) struct WatchPlace {
    shared: Arc<Shared>,
    collection: CollectionId,
    cuts: u32,
    sent_version: AtomicU64,
    /// The number of reads from the stream.
    reads: AtomicU64,
    deadline: Instant,
}

struct Bookmarks {
    every: Duration,
    next: Instant,
}

/// The longest timeout. It is short enough to be added to any `Instant`.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

impl WatchPlace {
    /// The caller has counted the watch as open; dropping the place ends that.
    pub(crate) fn new(shared: Arc<Shared>, collection: CollectionId, watch: &Watch, timeout: Duration) -> Self {
        let deadline = Instant::now() + timeout.min(FOREVER);
        let (sent_version, reads) = (AtomicU64::new(watch.sent_version()), AtomicU64::new(0));
        Self { shared, collection, cuts: watch.cuts(), sent_version, reads, deadline }
    }

    /// The number of reads so far, if the watch should end. If the number stays the same, the client does not read.
    pub(crate) fn overdue_reads(&self) -> Option<u64> {
        let sent_version = self.sent_version.load(Ordering::Relaxed);
        let world = self.shared.world.read();
        let collection = world.storage.collection(self.collection);
        let is_lost = collection.is_none_or(|collection| {
            collection.has_ended() || sent_version < collection.forgotten() || collection.last_cut > self.cuts
        });
        let is_overdue = is_lost || Instant::now() >= self.deadline;
        is_overdue.then(|| self.reads.load(Ordering::Relaxed))
    }
}

impl Drop for WatchPlace {
    fn drop(&mut self) {
        self.shared.watch_ended(self.collection);
    }
}

impl WatchStream {
    pub(crate) fn new(shared: Arc<Shared>, watch: Watch, bookmarks: Option<Duration>, place: Arc<WatchPlace>) -> Self {
        let changed = shared.changed.subscribe();
        let bookmarks = bookmarks.map(|every| every.min(FOREVER));
        let bookmarks = bookmarks.map(|every| Bookmarks { every, next: Instant::now() + every });
        Self { shared, watch, changed, lines: VecDeque::new(), bookmarks, place, is_over: false }
    }

    pub(crate) fn into_stream(self) -> impl Stream<Item = io::Result<Bytes>> + Send {
        stream::unfold(self, async |mut watch| {
            let next = watch.next().await?;
            Some((next, watch))
        })
        // Some clients poll again after the end.
        .fuse()
    }

    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        self.place.reads.fetch_add(1, Ordering::Relaxed);
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Some(Ok(line));
            }
            if self.is_over {
                return None;
            }
            // Must come before reading the state: a change after it wakes the stream again.
            self.changed.borrow_and_update();
            let next = self.watch.advance(&self.shared.world.read().storage);
            self.place.sent_version.store(self.watch.sent_version(), Ordering::Relaxed);
            match next {
                // Before the deadline, which may have passed since the connection broke.
                Next::End(End::Broken) => {
                    self.is_over = true;
                    return Some(Err(io::Error::from(io::ErrorKind::ConnectionReset)));
                }
                Next::End(End::KindRemoved | End::TooSlow) => return None,
                Next::Lines(_) | Next::Nothing if Instant::now() >= self.place.deadline => return None,
                Next::Lines(lines) => self.lines.extend(lines),
                Next::Nothing => self.wait().await,
            }
        }
    }

    /// Waits for a change, the next bookmark or the deadline.
    async fn wait(&mut self) {
        let deadline = self.place.deadline;
        let bookmark = self.bookmarks.as_ref().map(|bookmarks| bookmarks.next).filter(|next| *next < deadline);
        tokio::select! {
            // Biased, so that changes are always sent before the bookmark with their version.
            biased;
            // Does not fail: `self.shared` keeps the sender.
            _ = self.changed.changed() => {}
            () = sleep_until(bookmark.unwrap_or(deadline)) => {
                if let Some(bookmarks) = self.bookmarks.as_mut().filter(|_| bookmark.is_some()) {
                    bookmarks.next = Instant::now() + bookmarks.every;
                    self.lines.extend(self.watch.progress(&self.shared.world.read().storage));
                }
            }
        }
    }
}

//! The stream of a watch: waits for changes, sends bookmarks, ends in time.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::StreamExt;
use futures_util::stream;
use tokio::sync::watch::Receiver;
use tokio::time::Instant;
use tokio::time::sleep_until;

use crate::shared::Shared;
use crate::storage::CollectionId;
use crate::watch::End;
use crate::watch::Next;
use crate::watch::Watch;

/// A watch and what drives it. Each read takes what is there; nothing runs while nobody reads.
pub(crate) struct WatchStream {
    shared: Arc<Shared>,
    watch: Watch,
    changed: Receiver<u64>,
    lines: VecDeque<Bytes>,
    bookmarks: Option<Bookmarks>,
    place: Arc<WatchPlace>,
    is_over: bool,
}

/// Where a watch stands; counted among those of its collection as long as it exists.
pub(crate) struct WatchPlace {
    shared: Arc<Shared>,
    collection: CollectionId,
    cuts: u32,
    told: AtomicU64,
    /// How often somebody read from the stream.
    reads: AtomicU64,
    deadline: Instant,
}

struct Bookmarks {
    every: Duration,
    next: Instant,
}

/// Longer than any test, and short enough to be added to any time.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

impl WatchPlace {
    /// The caller has counted the watch; this counts it out.
    pub(crate) fn new(shared: Arc<Shared>, collection: CollectionId, watch: &Watch, timeout: Duration) -> Self {
        let deadline = Instant::now() + timeout.min(FOREVER);
        let (told, reads) = (AtomicU64::new(watch.told()), AtomicU64::new(0));
        Self { shared, collection, cuts: watch.cuts(), told, reads, deadline }
    }

    /// How often it was read, if it has a reason to end: a number that stays the same is that of a client that does not read.
    pub(crate) fn overdue_reads(&self) -> Option<u64> {
        let told = self.told.load(Ordering::Relaxed);
        let world = self.shared.world.read();
        let collection = world.storage.collection(self.collection);
        let is_lost = collection.is_none_or(|collection| {
            collection.has_ended() || told < collection.forgotten() || collection.last_cut > self.cuts
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
        // Some clients ask again after the end.
        .fuse()
    }

    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        self.place.reads.fetch_add(1, Ordering::Relaxed);
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Some(Ok(line));
            }
            if self.is_over || Instant::now() >= self.place.deadline {
                return None;
            }
            // Seen before the state is read, so that no change falls between.
            self.changed.borrow_and_update();
            let next = self.watch.advance(&self.shared.world.read().storage);
            self.place.told.store(self.watch.told(), Ordering::Relaxed);
            match next {
                Next::Lines(lines) => self.lines.extend(lines),
                Next::End(End::KindRemoved | End::TooSlow) => return None,
                Next::End(End::Broken) => {
                    self.is_over = true;
                    return Some(Err(io::Error::from(io::ErrorKind::ConnectionReset)));
                }
                Next::Nothing => self.wait().await,
            }
        }
    }

    /// Waits until something may have changed, or a bookmark is due, or the time is up.
    async fn wait(&mut self) {
        let deadline = self.place.deadline;
        let bookmark = self.bookmarks.as_ref().map(|bookmarks| bookmarks.next).filter(|next| *next < deadline);
        tokio::select! {
            // Changes come before the bookmark that speaks of them, every time.
            biased;
            // The server lives as long as this stream, so its sender does.
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

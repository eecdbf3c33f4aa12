//! The stream of a watch: waits for changes, sends bookmarks, ends in time.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream;
use tokio::sync::watch::Receiver;
use tokio::time::Instant;
use tokio::time::sleep_until;

use crate::server::Shared;
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
    deadline: Instant,
}

struct Bookmarks {
    every: Duration,
    next: Instant,
}

impl WatchStream {
    /// Takes a watch that is counted among those of its collection.
    pub(crate) fn new(shared: Arc<Shared>, watch: Watch, bookmarks: Option<Duration>, timeout: Duration) -> Self {
        let changed = shared.changed.subscribe();
        let now = Instant::now();
        Self {
            shared,
            watch,
            changed,
            lines: VecDeque::new(),
            bookmarks: bookmarks.map(|every| Bookmarks { every, next: now + every }),
            deadline: now + timeout,
        }
    }

    pub(crate) fn into_stream(self) -> impl Stream<Item = io::Result<Bytes>> + Send {
        stream::unfold(self, async |mut watch| {
            let next = watch.next().await?;
            Some((next, watch))
        })
    }

    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Some(Ok(line));
            }
            if Instant::now() >= self.deadline {
                return None;
            }
            // Seen before the state is read, so that no change falls between.
            self.changed.borrow_and_update();
            let next = self.watch.advance(&self.shared.world.read().storage);
            match next {
                Next::Lines(lines) => self.lines.extend(lines),
                Next::End(End::KindRemoved | End::TooSlow) => return None,
                Next::End(End::Restored) => return Some(Err(io::Error::from(io::ErrorKind::ConnectionReset))),
                Next::Nothing => self.wait().await,
            }
        }
    }

    /// Waits until something may have changed, or a bookmark is due, or the time is up.
    async fn wait(&mut self) {
        let bookmark = self.bookmarks.as_ref().map_or(self.deadline, |bookmarks| bookmarks.next.min(self.deadline));
        tokio::select! {
            // The server lives as long as this stream, so its sender does.
            _ = self.changed.changed() => {}
            () = sleep_until(bookmark) => {
                if let Some(bookmarks) = &mut self.bookmarks {
                    bookmarks.next = Instant::now() + bookmarks.every;
                    self.lines.extend(self.watch.progress(&self.shared.world.read().storage));
                }
            }
        }
    }
}

impl Drop for WatchStream {
    fn drop(&mut self) {
        self.shared.watch_ended(self.watch.collection());
    }
}

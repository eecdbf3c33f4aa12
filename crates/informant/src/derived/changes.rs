//! The changes of a map, for readers that follow it.
//!
//! - **In:** the transitions of each commit.
//! - **Out:** streams of changes, in which the waiting changes of a key are one.
//! - **Knows nothing of:** objects and informers.

use std::{
    collections::BTreeMap,
    fmt,
    hash::Hash,
    pin::{Pin, pin},
    sync::{Arc, Weak},
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use derive_where::derive_where;
use futures_util::{Stream, StreamExt};
use hashbrown::{HashMap, hash_map::Entry};
use parking_lot::Mutex;
use tokio::{
    task::coop::consume_budget,
    time::{Sleep, sleep},
};

use super::entries::Transition;

/// A change of one entry of a [`DerivedMap`](super::DerivedMap).
#[derive(Debug, PartialEq, Eq)]
#[derive_where(Clone; K)]
pub enum Change<K, V> {
    /// The key has a value now.
    Added {
        /// The key.
        key: K,
        /// Its value.
        value: Arc<V>,
    },
    /// The key has another value.
    Changed {
        /// The key.
        key: K,
        /// The value that this reader received last.
        old: Arc<V>,
        /// The new value.
        new: Arc<V>,
    },
    /// The key has no value any more.
    Removed {
        /// The key.
        key: K,
        /// The value that this reader received last.
        value: Arc<V>,
    },
}

/// The waiting changes of one stream: at most one for each key.
#[derive_where(Default)]
struct Inbox<K, V> {
    /// The keys by the position of their oldest waiting change.
    order: BTreeMap<u64, K>,
    changes: HashMap<K, (u64, Transition<V>)>,
    /// The position of the next change.
    next: u64,
    is_closed: bool,
    /// Whether the reader pauses: changes do not wake it, only the end does.
    is_paused: bool,
    waker: Option<Waker>,
}

impl<K: Clone + Eq + Hash, V> Inbox<K, V> {
    fn push(&mut self, key: &K, transition: Transition<V>) {
        match self.changes.entry(key.clone()) {
            Entry::Occupied(mut waiting) => {
                let (position, waiting_transition) = waiting.get_mut();
                waiting_transition.after = transition.after;
                // The reader has not received the key, so it need not receive its removal.
                if waiting_transition.before.is_none() && waiting_transition.after.is_none() {
                    self.order.remove(position);
                    waiting.remove();
                }
            }
            Entry::Vacant(vacant) => {
                vacant.insert((self.next, transition));
                self.order.insert(self.next, key.clone());
                self.next += 1;
            }
        }
    }

    /// Takes the oldest change, if its position is before `end`.
    fn pop_before(&mut self, end: u64) -> Option<(K, Transition<V>)> {
        let oldest = self.order.first_entry().filter(|oldest| *oldest.key() < end)?;
        let key = oldest.remove();
        let (_, transition) = self.changes.remove(&key)?;
        Some((key, transition))
    }

    fn close(&mut self) {
        (self.is_closed, self.is_paused) = (true, false);
        self.order.clear();
        self.changes.clear();
    }
}

/// Changes an inbox. Returns the waker of its reader, unless it pauses.
fn update<K, V>(inbox: &Mutex<Inbox<K, V>>, change: impl FnOnce(&mut Inbox<K, V>)) -> Option<Waker> {
    let mut inbox = inbox.lock();
    change(&mut inbox);
    if inbox.is_paused { None } else { inbox.waker.take() }
}

/// The changes of a [`DerivedMap`](super::DerivedMap), one after the other: first an [`Added`](Change::Added) for each entry, then what changes.
///
/// A reader that is slow holds at most one change for each key: from the value that it received last to the newest one. The stream ends when the
/// map is stopped or dropped, or when all its informers have stopped; changes that wait then are dropped.
#[must_use = "a stream that is dropped receives no changes"]
pub struct ChangeStream<K, V> {
    inbox: Arc<Mutex<Inbox<K, V>>>,
    /// The shortest time between two groups of changes.
    period: Duration,
    /// When the next group may begin.
    pause: Option<Pin<Box<Sleep>>>,
    /// The position after the last change of the group.
    group_end: u64,
}

impl<K, V> ChangeStream<K, V>
where
    K: Clone + Eq + Hash,
    V: PartialEq,
{
    /// Delivers changes in groups, and waits at least this long after the beginning of a group. Changes of one key that come meanwhile are
    /// combined.
    pub fn at_most_every(mut self, period: Duration) -> Self {
        self.period = period;
        self
    }

    /// Waits for the next change; `None` when the stream has ended.
    ///
    /// Cancel safe.
    #[expect(clippy::should_implement_trait, reason = "it returns a future, as `StreamExt::next` does")]
    pub fn next(&mut self) -> impl Future<Output = Option<Change<K, V>>> + Unpin + '_ {
        StreamExt::next(self)
    }

    /// Takes the next change of the group; `None` if there is none.
    fn pop(&mut self) -> Option<Change<K, V>> {
        loop {
            let (key, transition) = self.inbox.lock().pop_before(self.group_end)?;
            // Changes that waited may have cancelled each other.
            if !transition.is_visible() {
                continue;
            }
            match transition {
                Transition { before: None, after: Some(value) } => return Some(Change::Added { key, value }),
                Transition { before: Some(value), after: None } => return Some(Change::Removed { key, value }),
                Transition { before: Some(old), after: Some(new) } => return Some(Change::Changed { key, old, new }),
                Transition { before: None, after: None } => {}
            }
        }
    }
}

impl<K, V> Stream for ChangeStream<K, V>
where
    K: Clone + Eq + Hash,
    V: PartialEq,
{
    type Item = Change<K, V>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Change<K, V>>> {
        // Other tasks must be able to run, also if there is always a change to read.
        ready!(pin!(consume_budget()).poll(context));
        let this = &mut *self;
        loop {
            if let Some(change) = this.pop() {
                if this.pause.is_none() && !this.period.is_zero() {
                    this.pause = Some(Box::pin(sleep(this.period)));
                }
                return Poll::Ready(Some(change));
            }
            this.pause.take_if(|pause| pause.as_mut().poll(context).is_ready());
            let mut inbox = this.inbox.lock();
            if inbox.is_closed {
                return Poll::Ready(None);
            }
            inbox.is_paused = this.pause.is_some();
            if inbox.is_paused || inbox.order.is_empty() {
                inbox.waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            this.group_end = inbox.next;
        }
    }
}

impl<K, V> fmt::Debug for ChangeStream<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.inbox.lock().order.len();
        f.debug_struct("ChangeStream").field("waiting", &waiting).finish_non_exhaustive()
    }
}

/// The streams that follow a map.
#[derive_where(Default)]
pub(super) struct Followers<K, V> {
    inboxes: Vec<Weak<Mutex<Inbox<K, V>>>>,
    is_closed: bool,
}

impl<K: Clone + Eq + Hash, V> Followers<K, V> {
    /// Adds a stream that begins with these entries.
    pub(super) fn add<'t>(&mut self, entries: impl Iterator<Item = (&'t K, Arc<V>)>) -> ChangeStream<K, V>
    where
        K: 't,
    {
        let mut inbox = Inbox { is_closed: self.is_closed, ..Inbox::default() };
        if !self.is_closed {
            entries.for_each(|(key, value)| inbox.push(key, Transition { before: None, after: Some(value) }));
        }
        let inbox = Arc::new(Mutex::new(inbox));
        self.inboxes.retain(|inbox| inbox.strong_count() > 0);
        self.inboxes.push(Arc::downgrade(&inbox));
        ChangeStream { inbox, period: Duration::ZERO, pause: None, group_end: 0 }
    }

    /// Adds changes. Returns the wakers of the readers.
    pub(super) fn push(&mut self, transitions: &[(K, Transition<V>)]) -> Vec<Waker> {
        let mut wakers = Vec::new();
        self.inboxes.retain(|inbox| {
            let Some(inbox) = inbox.upgrade() else { return false };
            wakers.extend(update(&inbox, |inbox| {
                transitions.iter().for_each(|(key, transition)| inbox.push(key, transition.clone()));
            }));
            true
        });
        wakers
    }

    /// Ends all streams. Returns the wakers of the readers.
    pub(super) fn close(&mut self) -> Vec<Waker> {
        self.is_closed = true;
        self.inboxes.drain(..).filter_map(|inbox| update(&*inbox.upgrade()?, Inbox::close)).collect()
    }
}

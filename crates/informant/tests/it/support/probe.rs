//! [`Probe`]: a handler that records the events it receives, and checks that they follow the promises of `EventHandler`.
//!
//! The informer gets a [`ProbeHandler`], and the test keeps the [`Probe`]. An informer catches the panics of its handlers, so the handler
//! never panics: it records each violation, and the test's own `Probe` panics with all of them, whenever the test reads the recorded
//! lines and when the `Probe` is dropped at the end of the test.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use informant::{Cached, Deleted, Event, EventHandler, Origin};
use tokio::{sync::Notify, time::Instant};

use super::fold::Fold;

/// The test's part of a recording handler. Records one line per event: `A(x@1, initial)`, `A(x@2)`, `U(x 1→2)`, `R(x@2)`, `D(x@5)`,
/// `T(x, last@2)`, `synced`.
pub(crate) struct Probe<O> {
    shared: Arc<Shared<O>>,
}

/// The informer's part of a [`Probe`]. Dropping it checks nothing, because the informer would catch the panic.
pub(crate) struct ProbeHandler<O> {
    shared: Arc<Shared<O>>,
}

struct Shared<O> {
    record: Mutex<Record<O>>,
    /// Notified after each recorded event.
    changed: Notify,
}

/// The recorded events, and the state that they add up to.
struct Record<O> {
    lines: Vec<(Instant, String)>,
    fold: Fold<O>,
}

impl<O> Probe<O> {
    pub(crate) fn new() -> Self {
        Self::with_history_that_may_change(false)
    }

    /// Returns a probe for a source whose history changes: versions may go backwards, which is a violation otherwise.
    pub(crate) fn of_changing_history() -> Self {
        Self::with_history_that_may_change(true)
    }

    fn with_history_that_may_change(history_may_change: bool) -> Self {
        let record = Record { lines: Vec::new(), fold: Fold::new(history_may_change) };
        Self { shared: Arc::new(Shared { record: Mutex::new(record), changed: Notify::new() }) }
    }

    /// Returns a handler that records into this probe.
    pub(crate) fn handler(&self) -> ProbeHandler<O> {
        ProbeHandler { shared: Arc::clone(&self.shared) }
    }

    /// Records an event of a stream.
    pub(crate) fn receive(&self, event: &Event<O>) {
        self.handler().receive(event);
    }

    /// Returns all recorded lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.checked().lines.iter().map(|(_, line)| line.clone()).collect()
    }

    /// Removes and returns all recorded lines.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.checked().lines).into_iter().map(|(_, line)| line).collect()
    }

    /// Returns all recorded lines with their times, in whole milliseconds after `start`.
    pub(crate) fn times(&self, start: Instant) -> Vec<(u128, String)> {
        self.checked().lines.iter().map(|(at, line)| ((*at - start).as_millis(), line.clone())).collect()
    }

    /// Returns the objects that the recorded events add up to: `x@1`.
    pub(crate) fn known(&self) -> Vec<String> {
        self.checked().fold.known().map(|object| format!("{object:?}")).collect()
    }

    /// Waits until a line is recorded.
    pub(crate) async fn until(&self, line: &str) {
        self.until_lines(|lines| lines.iter().any(|recorded| recorded == line)).await;
    }

    /// Waits until the recorded lines match.
    pub(crate) async fn until_lines(&self, mut matches: impl FnMut(&[String]) -> bool) {
        let wait = async {
            loop {
                let changed = self.shared.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if matches(&self.lines()) {
                    return;
                }
                changed.await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(3000), wait).await;
        assert!(waited.is_ok(), "the probe never recorded the awaited lines; recorded: {:#?}", self.lines());
    }

    /// Locks the record, and panics if it has violations. The lock is released before the panic, so that it is not poisoned.
    fn checked(&self) -> MutexGuard<'_, Record<O>> {
        let record = self.shared.lock();
        if record.fold.violations().is_empty() {
            return record;
        }
        let violations = record.fold.violations().to_vec();
        let lines: Vec<_> = record.lines.iter().map(|(_, line)| line.clone()).collect();
        drop(record);
        panic!("the events of a handler break P2 or P4: {violations:#?}; recorded: {lines:#?}");
    }
}

impl<O> Drop for Probe<O> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            drop(self.checked());
        }
    }
}

impl<O> Shared<O> {
    fn lock(&self) -> MutexGuard<'_, Record<O>> {
        self.record.lock().unwrap()
    }
}

impl<O> ProbeHandler<O> {
    /// Records an event.
    pub(crate) fn receive(&self, event: &Event<O>) {
        let mut record = self.shared.lock();
        record.fold.receive(event);
        record.lines.push((Instant::now(), line(event)));
        drop(record);
        self.shared.changed.notify_waiters();
    }
}

impl<O> Clone for ProbeHandler<O> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<O: Send + Sync + 'static> EventHandler<O> for ProbeHandler<O> {
    fn on_add(&self, object: &Cached<O>, origin: Origin) {
        self.receive(&Event::Added { object: object.clone(), origin });
    }

    fn on_update(&self, old: &Cached<O>, new: &Cached<O>) {
        self.receive(&Event::Updated { old: old.clone(), new: new.clone() });
    }

    fn on_delete(&self, deleted: &Deleted<O>) {
        self.receive(&Event::Deleted(deleted.clone()));
    }

    fn on_resync(&self, object: &Cached<O>) {
        self.receive(&Event::Resynced(object.clone()));
    }

    fn on_synced(&self) {
        self.receive(&Event::Synced);
    }

    fn name(&self) -> String {
        "probe".into()
    }
}

/// The line of an event.
fn line<O>(event: &Event<O>) -> String {
    match event {
        Event::Added { object, origin: Origin::InitialList } => format!("A({object:?}, initial)"),
        Event::Added { object, origin: Origin::Live } => format!("A({object:?})"),
        Event::Updated { old, new } => format!("U({} {}→{})", new.key(), old.version(), new.version()),
        Event::Resynced(object) => format!("R({object:?})"),
        Event::Deleted(Deleted::Observed(object)) => format!("D({object:?})"),
        Event::Deleted(Deleted::Missed { last_known }) => {
            format!("T({}, last@{})", last_known.key(), last_known.version())
        }
        Event::Synced => "synced".into(),
    }
}

mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use informant::{
        Deleted,
        Event::{self, Added, Resynced, Synced, Updated},
        Origin::{InitialList, Live},
    };

    use super::{
        super::{Object, object, object_of_incarnation},
        Probe,
    };

    /// Returns true if a probe fails both when its lines are read and when it is dropped; fails if only one of the two holds.
    fn fails(probe: Probe<()>, events: &[Event<()>]) -> bool {
        let handler = probe.handler();
        events.iter().for_each(|event| handler.receive(event));
        drop(handler);
        let fails_at_lines = catch_unwind(AssertUnwindSafe(|| probe.lines())).is_err();
        let fails_at_drop = catch_unwind(AssertUnwindSafe(|| drop(probe))).is_err();
        assert_eq!(fails_at_lines, fails_at_drop);
        fails_at_lines
    }

    fn add(object: &Object) -> Event<()> {
        Added { object: object.clone(), origin: Live }
    }

    fn update(old: &Object, new: &Object) -> Event<()> {
        Updated { old: old.clone(), new: new.clone() }
    }

    fn delete(object: &Object) -> Event<()> {
        Event::Deleted(Deleted::Observed(object.clone()))
    }

    #[test]
    fn a_probe_accepts_a_well_formed_history() {
        let [first, second, last] = [1, 2, 3].map(|version| object("a", version));
        let missed = Event::Deleted(Deleted::Missed { last_known: object_of_incarnation("a", 4, "u2") });
        let events = [
            Added { object: first.clone(), origin: InitialList },
            Synced,
            update(&first, &second),
            Resynced(second),
            delete(&last),
            add(&object_of_incarnation("a", 4, "u2")),
            missed,
        ];

        assert!(!fails(Probe::new(), &events));
    }

    #[test]
    fn a_probe_fails_at_each_violation() {
        let [first, second, third] = [1, 2, 3].map(|version| object("a", version));
        let initial = Added { object: first.clone(), origin: InitialList };
        let violations: [(&str, &[Event<()>]); 14] = [
            ("an add of a known object", &[add(&first), add(&second)]),
            ("an add that is older than the delete", &[add(&second), delete(&third), add(&first)]),
            ("an initial add after synced", &[Synced, initial]),
            ("an update of an unknown object", &[update(&first, &second)]),
            ("an update of another old state", &[add(&first), update(&second, &third)]),
            ("an update of an equal copy of the old state", &[add(&first), update(&object("a", 1), &second)]),
            ("an update to the same state", &[add(&first), update(&first, &first)]),
            ("an update to an older version", &[add(&second), update(&second, &first)]),
            ("a delete of an unknown object", &[add(&first), delete(&second), delete(&second)]),
            ("a delete with an older state", &[add(&second), delete(&first)]),
            ("a delete of another incarnation", &[add(&first), delete(&object_of_incarnation("a", 2, "u2"))]),
            ("a resync of an unknown object", &[add(&first), delete(&second), Resynced(first.clone())]),
            ("a resync with another state", &[add(&first), Resynced(second.clone())]),
            ("a second synced", &[Synced, Synced]),
        ];

        for (violation, events) in violations {
            assert!(fails(Probe::new(), events), "{violation}");
        }
    }

    #[test]
    fn a_probe_of_a_changing_history_accepts_versions_that_go_backwards() {
        let [first, second] = [1, 2].map(|version| object("a", version));
        let events = [add(&second), update(&second, &first)];

        assert!(!fails(Probe::of_changing_history(), &events));
    }
}

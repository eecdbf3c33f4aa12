//! Objects that never reach the cache, or leave the queue early, with destructors that read the informer.
//!
//! Each path is a script of a source; it ends at version 99.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use informant::{
    Identity, Key, SharedInformer,
    error::{RequestError, SourceError},
    factory::InformerState,
    pipeline::Item,
    testing::{ScriptedList, ScriptedSource, ScriptedWatch},
};
use tokio::runtime::Runtime;

use crate::support::informers::{
    LONG, Leaks, OnDrop, backoff_without_jitter, milliseconds, status_error, wait_until_idle, without_deadlock,
};

/// An object with a destructor; the transform refuses some of them.
struct Content {
    is_refused: bool,
    _on_drop: OnDrop,
}

/// Makes objects that run the same function when they are dropped, and counts the dropped ones.
#[derive(Clone)]
struct Make {
    act: Arc<dyn Fn() + Send + Sync>,
    dropped: Arc<AtomicUsize>,
}

type Source = ScriptedSource<Content>;
type Informer = SharedInformer<Content>;

/// A script, and how many objects it drops before the informer stops.
type Path = fn(&Make, &Source) -> usize;

impl Make {
    fn new(act: impl Fn() + Send + Sync + 'static) -> Self {
        Self { act: Arc::new(act), dropped: Arc::default() }
    }

    fn object(&self, name: &str, version: u64) -> Item<Content> {
        let (act, dropped) = (Arc::clone(&self.act), Arc::clone(&self.dropped));
        let on_drop = OnDrop::new(move || {
            dropped.fetch_add(1, Ordering::SeqCst);
            act();
        });
        let version = version.to_string().as_str().into();
        let identity = Identity { key: Key::cluster_scoped(name), uid: "u".into(), version };
        Item::new(identity, Content { is_refused: name.starts_with("refused"), _on_drop: on_drop })
    }

    fn list(&self, version: &str, objects: &[(&str, u64)]) -> ScriptedList<Content> {
        objects.iter().fold(ScriptedList::at(version), |list, (name, version)| list.object(self.object(name, *version)))
    }

    fn dropped(&self) -> usize {
        self.dropped.load(Ordering::SeqCst)
    }
}

fn watch() -> ScriptedWatch<Content> {
    ScriptedWatch::new()
}

/// Appends the event at whose version each path ends.
fn last(watch: ScriptedWatch<Content>) -> ScriptedWatch<Content> {
    watch.bookmark("99").stays_open()
}

fn expires(watch: ScriptedWatch<Content>) -> ScriptedWatch<Content> {
    watch.breaks(SourceError::expired())
}

const PATHS: [(&str, Path); 14] = [
    ("the transform fails in a list", |make, source| {
        source.on_list(make.list("10", &[("refused-1", 1), ("refused-2", 2)]));
        source.on_watch(last(watch()));
        2
    }),
    ("the transform fails in a watch", |make, source| {
        source.on_list(make.list("10", &[]));
        let events = watch().added(make.object("refused", 11)).modified(make.object("refused", 12));
        source.on_watch(last(events.deleted(make.object("refused", 13))));
        3
    }),
    ("a relist has objects unchanged", |make, source| {
        source.on_list(make.list("10", &[("a", 1), ("b", 2)]));
        source.on_watch(expires(watch()));
        source.on_list(make.list("20", &[("a", 1), ("b", 2)]));
        source.on_watch(last(watch()));
        2
    }),
    ("a list breaks off", |make, source| {
        source.on_list(make.list("10", &[("a", 1), ("b", 2)]).breaks(status_error(500, "InternalError")));
        source.on_list(make.list("10", &[]));
        source.on_watch(last(watch()));
        2
    }),
    ("a list is older than the last one", |make, source| {
        source.on_list(make.list("10", &[]));
        source.on_watch(expires(watch()));
        source.on_list(make.list("5", &[("a", 1), ("b", 2)]));
        source.on_list(make.list("20", &[]));
        source.on_watch(last(watch()));
        2
    }),
    ("a page expires", |make, source| {
        source.on_list(make.list("10", &[("a", 1), ("b", 2)]).more("next"));
        source.on_list(ScriptedList::fails(SourceError::expired()));
        source.on_list(make.list("10", &[]));
        source.on_watch(last(watch()));
        2
    }),
    ("a list has an object twice", |make, source| {
        source.on_list(make.list("10", &[("a", 1), ("a", 2)]));
        source.on_watch(last(watch()));
        1
    }),
    ("a streamed list has an object superseded", |make, source| {
        let events = watch().added(make.object("a", 1)).modified(make.object("a", 2)).added(make.object("b", 3));
        source.on_stream(last(events.deleted(make.object("b", 4)).list_ends("10")));
        3
    }),
    ("a streamed list breaks off", |make, source| {
        let events = watch().added(make.object("a", 1)).added(make.object("b", 2));
        source.on_stream(events.breaks(status_error(500, "InternalError")));
        source.on_stream(last(watch().list_ends("10")));
        source.on_list(make.list("10", &[]));
        source.on_watch(last(watch()));
        2
    }),
    ("an event has a smaller version", |make, source| {
        source.on_list(make.list("10", &[]));
        source.on_watch(watch().added(make.object("a", 5)).stays_open());
        source.on_list(make.list("20", &[]));
        source.on_watch(last(watch()));
        1
    }),
    ("unknown objects are deleted", |make, source| {
        source.on_list(make.list("10", &[]));
        source.on_watch(last(watch().deleted(make.object("a", 11)).deleted(make.object("b", 12))));
        2
    }),
    ("an object is deleted twice", |make, source| {
        source.on_list(make.list("10", &[("a", 1)]));
        source.on_watch(last(watch().deleted(make.object("a", 11)).deleted(make.object("a", 12))));
        3
    }),
    ("changes are superseded in the queue", |make, source| {
        source.on_list(make.list("10", &[("a", 1)]));
        let events = watch().modified(make.object("a", 11)).modified(make.object("a", 12));
        source.on_watch(last(events.modified(make.object("a", 13))));
        3
    }),
    ("a relist replaces everything", |make, source| {
        source.on_list(make.list("10", &[("a", 1), ("b", 2)]));
        source.on_watch(expires(watch()));
        source.on_list(make.list("20", &[("a", 11), ("c", 12)]));
        source.on_watch(last(watch()));
        2
    }),
];

fn informer(source: &Source) -> Informer {
    let refuse = |content: &mut Content| if content.is_refused { Err("refused") } else { Ok(()) };
    let builder = SharedInformer::of_decoded_objects(source.clone()).name("things").transform(refuse);
    let builder = builder.reflector(|reflector| reflector.backoff(backoff_without_jitter()));
    builder.build()
}

/// Runs each path.
fn on_each_path(act: impl Fn(&Informer) + Clone + Send + Sync + 'static) {
    for (name, path) in PATHS {
        let slot = Arc::new(OnceLock::<Informer>::new());
        let (seen, act) = (Arc::clone(&slot), act.clone());
        let make = Make::new(move || seen.get().into_iter().for_each(&act));
        let source = Source::new();
        let expected = path(&make, &source);
        let informer = informer(&source);
        slot.set(informer.clone()).ok().unwrap();
        paused().block_on(async {
            let leaks = Leaks::watch();
            informer.start();
            let reached = informer.caught_up_to(&"99".into(), LONG).await;
            let status = informer.status();
            assert!(reached.is_ok(), "{name}: {reached:?}, {:?}", status.crash);
            wait_until_idle().await;
            assert_eq!(make.dropped(), expected, "{name}");
            assert_eq!(informer.state(), InformerState::Running, "{name}");
            leaks.stop(&informer).await;
        });
    }
}

fn paused() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

/// Decision 7
#[test]
fn an_object_may_read_the_informer_on_every_path_that_drops_it() {
    without_deadlock(|| {
        on_each_path(|informer| {
            let status = informer.status();
            let _ = (status.queued, informer.lister().list(), informer.quarantined(), informer.state());
        });
    });
}

/// Decision 7: no object is dropped under the apply lock.
#[test]
fn an_object_may_add_a_handler_on_every_path_that_drops_it() {
    without_deadlock(|| {
        let refused = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&refused);
        on_each_path(move |informer| match informer.subscribe().register() {
            // Objects that are dropped with the informer cannot add a handler any more.
            Ok(_) | Err(RequestError::Stopped { .. }) => {}
            Err(_) => drop(count.fetch_add(1, Ordering::SeqCst)),
        });
        assert_eq!(refused.load(Ordering::SeqCst), 0);
    });
}

/// Decision 7, decision 10: the last references to some states are those of events that wait for a slow handler.
#[test]
fn an_object_of_a_coalesced_event_may_add_a_handler_when_it_is_dropped() {
    without_deadlock(|| {
        let (slot, refused) = (Arc::new(OnceLock::<Informer>::new()), Arc::new(AtomicUsize::new(0)));
        let (seen, count) = (Arc::clone(&slot), Arc::clone(&refused));
        let make = Make::new(move || match seen.get().map(|informer| informer.subscribe().register()) {
            None | Some(Ok(_) | Err(RequestError::Stopped { .. })) => {}
            Some(Err(_)) => drop(count.fetch_add(1, Ordering::SeqCst)),
        });
        let source = Source::new();
        source.on_list(make.list("10", &[("a", 1)]));
        let changes =
            (11..20).fold(watch(), |watch, version| watch.modified(make.object("a", version)).wait(milliseconds(1)));
        source.on_watch(last(changes));
        let informer = informer(&source);
        slot.set(informer.clone()).ok().unwrap();
        paused().block_on(async {
            let slow = informer.subscribe().coalesce_above(6).on_add_async(|_, _| tokio::time::sleep(LONG));
            let slow = slow.register().unwrap();
            informer.start();
            informer.caught_up_to(&"99".into(), LONG).await.unwrap();

            assert!(slow.status().coalesced > 3 && make.dropped() > 3, "{:?}", slow.status());
            assert_eq!(refused.load(Ordering::SeqCst), 0);
            informer.stop().await.unwrap();
        });
    });
}

/// P9: objects of a list that is not complete, and of changes that were not taken.
#[test]
fn objects_that_are_dropped_with_a_stopped_informer_may_read_it() {
    let slot = Arc::new(OnceLock::<Informer>::new());
    let seen = Arc::clone(&slot);
    let make = Make::new(move || {
        let _ = seen.get().map(|informer| (informer.status(), informer.lister().list()));
    });
    let source = Source::new();
    source.on_stream(watch().added(make.object("a", 1)).added(make.object("b", 2)).stays_open());
    let informer = informer(&source);
    slot.set(informer.clone()).ok().unwrap();
    paused().block_on(async {
        let leaks = Leaks::watch();
        informer.start();
        wait_until_idle().await;
        assert_eq!(make.dropped(), 0);
        leaks.stop(&informer).await;
        assert_eq!(make.dropped(), 2);
        assert!(informer.status().crash.is_none());
    });
}

/// An error that reads the informer when it is dropped.
struct ReadingError {
    _on_drop: OnDrop,
}

impl std::fmt::Debug for ReadingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReadingError")
    }
}

impl std::fmt::Display for ReadingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a reason")
    }
}

impl std::error::Error for ReadingError {}

/// Decision 7: the error of a quarantined object, and that of a failed list.
#[test]
fn an_error_may_read_the_informer_when_it_is_dropped() {
    without_deadlock(|| {
        let slot = Arc::new(OnceLock::<Informer>::new());
        let dropped = Arc::new(AtomicUsize::new(0));
        let (seen, count) = (Arc::clone(&slot), Arc::clone(&dropped));
        let error = move || {
            let (seen, count) = (Arc::clone(&seen), Arc::clone(&count));
            let on_drop = OnDrop::new(move || {
                let _ = seen.get().map(|informer| (informer.status(), informer.quarantined()));
                count.fetch_add(1, Ordering::SeqCst);
            });
            ReadingError { _on_drop: on_drop }
        };
        let make = Make::new(|| {});
        let source = Source::new();
        // The last error of the source is replaced by the next one.
        source.on_list(ScriptedList::fails(SourceError::other(error())));
        source.on_list(ScriptedList::fails(SourceError::other(error())));
        source.on_list(make.list("10", &[("refused-1", 1), ("refused-2", 2), ("refused-3", 3)]));
        // The transform refuses one object again; one object is deleted; the relist has one object that is refused again, and lacks another.
        let events = watch().modified(make.object("refused-1", 11)).deleted(make.object("refused-2", 12));
        source.on_watch(expires(events));
        source.on_list(make.list("20", &[("refused-1", 13)]));
        source.on_watch(last(watch()));
        let transform_error = error.clone();
        let refuse = move |content: &mut Content| if content.is_refused { Err(transform_error()) } else { Ok(()) };
        let builder = SharedInformer::of_decoded_objects(source.clone()).transform(refuse);
        let informer = builder.reflector(|reflector| reflector.backoff(backoff_without_jitter())).build();
        slot.set(informer.clone()).ok().unwrap();
        paused().block_on(async {
            informer.start();
            informer.caught_up_to(&"99".into(), LONG).await.unwrap();
            assert_eq!(informer.quarantined().len(), 1);
            // Two errors of lists: the second replaces the first, and the end of the watch replaces the second. Of six
            // errors of refused objects, one is current.
            assert_eq!(dropped.load(Ordering::SeqCst), 2 + 5);
            informer.stop().await.unwrap();
        });
    });
}

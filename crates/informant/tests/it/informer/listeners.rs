//! Handlers that are slow, panic or fall behind: each harms only itself.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use informant::Cached;
use informant::Event;
use informant::EventHandler;
use informant::Handler;
use informant::Origin;
use informant::SharedInformer;
use informant::listwatch::Item;
use informant::listwatch::ScriptedList;
use informant::listwatch::ScriptedSource;
use informant::listwatch::ScriptedWatch;
use informant::object::Identity;
use tokio::time::Instant;

use super::support::Leaks;
use super::support::Probe;
use super::support::QUEUES;
use super::support::informer;
use super::support::informer_with;
use super::support::open_watch;
use super::support::ready;
use super::support::seconds;
use super::support::source;
use crate::support::Logs;
use crate::support::Tracked;

/// Panics at objects whose name begins with "bad", after it has written them down.
struct Fragile {
    probe: Probe<()>,
}

impl EventHandler<()> for Fragile {
    fn on_add(&self, object: &Cached<()>, origin: Origin) {
        self.probe.on_add(object, origin);
        if object.key().name().starts_with("bad") {
            std::panic::resume_unwind(Box::new("it is bad"));
        }
    }

    fn on_synced(&self) {
        self.probe.on_synced();
    }

    fn name(&self) -> String {
        "fragile".into()
    }
}

/// HC-18, PL-07, PL-08, CT-05, as we want them: P8
#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_goes_on_a_second_later_becomes_synced_and_harms_nobody() {
    for queue in QUEUES {
        let logs = Logs::capture();
        let leaks = Leaks::watch();
        let informer = informer_with(&source("10", &[("bad", 1), ("good", 2)], open_watch()), queue);
        let (fragile, sound) = (Probe::new(), Probe::new());
        let shaken = informer.add_handler(Fragile { probe: fragile.clone() }).unwrap();
        let calm = informer.add_handler(sound.clone()).unwrap();
        let start = Instant::now();
        informer.start();

        calm.synced().await.unwrap();
        assert!(start.elapsed() < Duration::from_millis(500) && !shaken.is_synced());
        shaken.synced().await.unwrap();

        let heard = fragile.times(start);
        let lines: Vec<_> = heard.iter().map(|(_, line)| line.as_str()).collect();
        assert_eq!(lines, ["A(bad@1, initial)", "A(good@2, initial)", "synced"]);
        assert!(heard[1].0 - heard[0].0 >= 1000, "a second later: {heard:?}");
        let log = logs.take();
        assert_eq!(log.matches("a handler panicked").count(), 1, "{log}");
        assert!(
            log.contains("handler=\"fragile\"") && log.contains("key=\"bad\"") && log.contains("it is bad"),
            "{log}"
        );
        let status = shaken.status();
        assert_eq!((status.panics, status.delivered, status.backlog), (1, 3, 0));
        assert!(informer.is_synced());
        leaks.stop(&informer).await;
    }
}

/// HC-18
#[tokio::test(start_paused = true)]
async fn five_panics_take_four_seconds() {
    let _logs = Logs::capture();
    let leaks = Leaks::watch();
    let objects = [("bad1", 1), ("bad2", 2), ("bad3", 3), ("bad4", 4), ("bad5", 5)];
    let informer = informer(&source("10", &objects, open_watch()));
    let probe = Probe::new();
    let registration = informer.add_handler(Fragile { probe: probe.clone() }).unwrap();
    let start = Instant::now();
    informer.start();

    registration.synced().await.unwrap();

    let fifth = probe.times(start)[4].0;
    assert!((4000..5000).contains(&fifth), "{fifth}");
    leaks.stop(&informer).await;
}

/// P9: the rest after a panic does not hold up the end.
#[tokio::test(start_paused = true)]
async fn a_handler_that_rests_after_a_panic_is_stopped_at_once() {
    let _logs = Logs::capture();
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("bad", 1), ("good", 2)], open_watch()));
    let probe = Probe::new();
    let registration = informer.add_handler(Fragile { probe: probe.clone() }).unwrap();
    informer.start();
    probe.until("A(bad@1, initial)").await;
    let start = Instant::now();

    registration.stop().await.unwrap();

    assert!(start.elapsed() < Duration::from_millis(10));
    leaks.stop(&informer).await;
    assert_eq!(probe.take(), ["A(bad@1, initial)"]);
}

/// HC-15, PL-01, PL-02, PL-03, SI-33
#[tokio::test]
async fn a_slow_handler_delays_neither_the_cache_nor_other_handlers_and_hears_everything_in_order() {
    const EVENTS: u64 = 5000;
    for queue in QUEUES {
        let leaks = Leaks::watch();
        let mut watch = ScriptedWatch::new();
        for version in 11..11 + EVENTS {
            watch = watch.modified(ready(&format!("o{}", version % 50), version));
        }
        let informer = informer_with(&source("10", &[], watch.stays_open()), queue);
        let (gate, wait) = std::sync::mpsc::channel::<()>();
        let (wait, slow, quick) = (Mutex::new(wait), Probe::new(), Probe::new());
        let writing = slow.clone();
        let slow_one = Handler::<()>::new()
            .on_add({
                let writing = writing.clone();
                move |object, origin| {
                    // Until the gate is open for good.
                    let _ = wait.lock().unwrap().recv();
                    writing.on_add(object, origin);
                }
            })
            .on_update(move |old, new| writing.on_update(old, new));
        let slow_one = informer.subscribe().blocking_handler(slow_one).unwrap();
        informer.add_handler(quick.clone()).unwrap();
        informer.start();

        quick.until_lines(|lines| lines.len() > EVENTS as usize).await;
        assert_eq!(informer.lister().len(), 50);
        assert_eq!(informer.last_version(), Some((10 + EVENTS).to_string().as_str().into()));
        assert_eq!(slow.lines().len(), 0);
        assert!(slow_one.backlog() >= EVENTS as usize - 1, "{}", slow_one.backlog());

        drop(gate);
        slow.until_lines(|lines| lines.len() == EVENTS as usize).await;
        let mut heard = quick.lines();
        heard.retain(|line| line != "synced");
        assert!(slow.lines() == heard, "the same in the same order");
        leaks.stop(&informer).await;
    }
}

/// PL-09
#[tokio::test]
async fn a_slow_call_with_a_long_backlog_is_logged_with_the_handlers_name_once_in_a_while() {
    let logs = Logs::capture();
    let leaks = Leaks::watch();
    let names: Vec<_> = (0..2000).map(|number| format!("o{number}")).collect();
    let objects: Vec<_> = names.iter().map(|name| (name.as_str(), 1)).collect();
    let informer = informer(&source("10", &objects, open_watch()));
    let calls = AtomicUsize::new(0);
    let handler = Handler::<()>::new().on_add(move |_, _| {
        // Long enough by a real clock, which is what a call that blocks takes.
        if calls.fetch_add(1, Ordering::SeqCst) < 3 {
            std::thread::sleep(Duration::from_millis(110));
        }
    });
    let registration = informer.subscribe().named("sloth").handler(handler).unwrap();
    informer.start();

    registration.synced().await.unwrap();

    let log = logs.take();
    assert_eq!(log.matches("the handler is slow").count(), 1, "{log}");
    assert!(log.contains("handler=\"sloth\"") && log.contains("waiting=2000"), "{log}");
    leaks.stop(&informer).await;
}

/// PL-09: few wait, so nobody needs to know.
#[tokio::test]
async fn a_slow_call_with_a_short_backlog_is_not_worth_a_word() {
    let logs = Logs::capture();
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("a", 1), ("b", 2)], open_watch()));
    let handler = Handler::<()>::new().on_add(|_, _| std::thread::sleep(Duration::from_millis(110)));
    let registration = informer.add_handler(handler).unwrap();
    informer.start();

    registration.synced().await.unwrap();

    assert!(!logs.take().contains("the handler is slow"));
    leaks.stop(&informer).await;
}

/// Many updates of few objects, then a quiet watch.
fn busy(events: u64, objects: u64) -> ScriptedWatch<()> {
    busy_with(events, objects, ready)
}

fn busy_with<O>(events: u64, objects: u64, item: impl Fn(&str, u64) -> Item<O>) -> ScriptedWatch<O> {
    let mut watch = ScriptedWatch::new().wait(Duration::from_secs(1));
    for version in 11..11 + events {
        watch = watch.modified(item(&format!("o{}", version % objects), version));
        if version % 97 == 0 {
            watch = watch.wait(Duration::from_millis(1));
        }
    }
    watch.stays_open()
}

/// Decision 10: at most two for each object, and the last state is what is told. PL-04, B11 of the past: nobody waits for one
/// who does not read.
#[tokio::test(start_paused = true)]
async fn what_waits_too_long_is_merged_and_gives_the_same_in_the_end() {
    for queue in QUEUES {
        let leaks = Leaks::watch();
        let informer = informer_with(&source("10", &[("o1", 1)], busy(5000, 20)), queue);
        let mut merging = informer.subscribe().coalesce_above(100).stream().unwrap();
        let keeping = informer.subscribe().stream().unwrap();
        informer.start();
        seconds(60.0).await;

        let backlog = merging.registration().backlog();
        assert!(backlog <= 100, "{backlog}");
        assert!(keeping.registration().backlog() >= 5000);
        let probe = Probe::new();
        for _ in 0..backlog {
            probe.hear(&merging.next().await.unwrap());
        }
        let mut known = probe.known();
        known.sort();
        assert_eq!(known, super::support::cached(&informer));
        let status = merging.registration().status();
        assert!(status.coalesced + status.delivered >= 5002, "{status:?}");
        drop((merging, keeping));
        leaks.stop(&informer).await;
    }
}

/// Decision 10: below the bound nothing is coalesced.
#[tokio::test(start_paused = true)]
async fn who_keeps_up_hears_of_every_change_also_if_it_may_be_merged() {
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[], busy(1000, 5)));
    let probe = Probe::new();
    let registration = informer.subscribe().coalesce_above(200).handler(probe.clone()).unwrap();
    informer.start();
    probe.until("U(o0 1005→1010)").await;

    assert_eq!(registration.status().coalesced, 0);
    assert_eq!(probe.lines().len(), 1001);
    leaks.stop(&informer).await;
}

/// Decision 10: the end of the initial list is reached in any case.
#[tokio::test(start_paused = true)]
async fn merging_everything_away_does_not_lose_the_end_of_the_initial_list() {
    let leaks = Leaks::watch();
    let second = Duration::from_secs(1);
    let watch = ScriptedWatch::new().wait(second).deleted(ready("a", 11)).deleted(ready("b", 12)).stays_open();
    let informer = informer(&source("10", &[("a", 1), ("b", 2)], watch));
    let mut stream = informer.subscribe().coalesce_above(0).stream().unwrap();
    informer.start();
    seconds(10.0).await;
    assert_eq!(stream.registration().backlog(), 1);

    assert!(matches!(stream.next().await, Some(Event::Synced)));

    assert!(stream.registration().is_synced());
    drop(stream);
    leaks.stop(&informer).await;
}

/// Decision 10: one survivor does not keep a whole batch alive.
#[tokio::test(start_paused = true)]
async fn objects_that_were_merged_away_are_freed() {
    let leaks = Leaks::watch();
    let tracked = |name: &str, version: u64| {
        let version = version.to_string().as_str().into();
        let identity = Identity { key: informant::Key::cluster_scoped(name), uid: "u1".into(), version };
        Item::new(identity, Tracked::new(()))
    };
    let source = ScriptedSource::new();
    source.on_list(ScriptedList::at("10").object(tracked("o1", 1)));
    source.on_watch(busy_with(2000, 10, tracked));
    let informer = SharedInformer::of_decoded_objects(source).build();
    let stream = informer.subscribe().coalesce_above(10).stream().unwrap();
    informer.start();
    informer.synced().await.unwrap();
    let first = informer.lister().get(&informant::Key::cluster_scoped("o1")).unwrap().watch();
    seconds(1.5).await;
    let early = informer.lister().list()[0].watch();

    seconds(60.0).await;

    assert!(early.upgrade().is_none() || informer.lister().list().iter().any(|now| now.watch().ptr_eq(&early)));
    assert!(first.upgrade().is_none(), "its add was coalesced into a newer one");
    drop(stream);
    leaks.stop(&informer).await;
}

/// PL-15, PL-16
#[tokio::test(start_paused = true)]
async fn a_handler_is_called_what_it_calls_itself_or_after_its_type_or_after_its_place() {
    struct Nameless;
    impl EventHandler<()> for Nameless {}
    let informer = informer(&source("10", &[], open_watch()));

    let names = [
        informer.add_handler(Probe::new()).unwrap().name(),
        informer.add_handler(Nameless).unwrap().name(),
        informer.add_handler(Arc::new(Nameless)).unwrap().name(),
        informer.add_handler(Box::new(Nameless)).unwrap().name(),
        informer.add_handler(Handler::new()).unwrap().name(),
        informer.subscribe().named("given").handler(Probe::new()).unwrap().name(),
    ];

    assert_eq!(&*names[0], "probe");
    assert!(names[1].ends_with("::Nameless"), "{names:?}");
    // Those of one name are told apart.
    assert_eq!([&*names[2], &*names[3]], [format!("{} (2)", names[1]), format!("{} (3)", names[1])]);
    assert!(names[4].starts_with("handler at ") && names[4].contains("listeners.rs:"), "{names:?}");
    assert_eq!(&*names[5], "given");
}

/// CT-25: each may be left out.
#[tokio::test(start_paused = true)]
async fn a_handler_of_closures_hears_what_it_has_a_closure_for() {
    let leaks = Leaks::watch();
    let watch = ScriptedWatch::new().wait(Duration::from_millis(1500)).modified(ready("a", 11)).deleted(ready("a", 12));
    let informer = informer_with(&source("10", &[("a", 1)], watch.stays_open()), |builder| {
        builder.resync_every(Duration::from_secs(1))
    });
    let heard = Arc::new(Mutex::new(Vec::new()));
    let write = |what: &'static str| {
        let heard = Arc::clone(&heard);
        move || heard.lock().unwrap().push(what)
    };
    informer.add_handler(Handler::new()).unwrap();
    let add = write("add");
    informer.add_handler(Handler::<()>::new().on_add(move |_, _| add())).unwrap();
    let (update, delete, synced) = (write("update"), write("delete"), write("synced"));
    let handler = Handler::<()>::new().on_update(move |_, _| update()).on_delete(move |_| delete());
    informer.add_handler(handler.on_synced(synced)).unwrap();
    let resync = write("resync");
    informer.add_handler(Handler::<()>::new().on_resync(move |_| resync())).unwrap();
    informer.start();
    seconds(5.0).await;

    let mut heard = heard.lock().unwrap().clone();
    heard.sort_unstable();
    // The update comes twice: once more for the resync at the first second, which has no closure of its own.
    assert_eq!(heard, ["add", "delete", "resync", "synced", "update", "update"]);
    leaks.stop(&informer).await;
}

/// A blocking handler has a thread of its own, which ends with it.
#[tokio::test]
async fn a_blocking_handler_is_called_by_one_thread_of_its_own() {
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("a", 1), ("b", 2), ("c", 3)], open_watch()));
    let threads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&threads);
    let handler = Handler::<()>::new().on_add(move |_, _| {
        let thread = std::thread::current();
        seen.lock().unwrap().push((thread.id(), thread.name().map(str::to_owned)));
    });
    let registration = informer.subscribe().named("blocker").blocking_handler(handler).unwrap();
    informer.start();

    registration.synced().await.unwrap();

    let mut seen = threads.lock().unwrap().clone();
    seen.dedup();
    assert_eq!(seen.len(), 1);
    assert_ne!(seen[0].0, std::thread::current().id());
    assert_eq!(seen[0].1.as_deref(), Some("blocker"));
    leaks.stop(&informer).await;
}

/// A name is free again when its handler has left.
#[tokio::test(start_paused = true)]
async fn a_name_is_given_back() {
    let informer = informer(&source("10", &[], open_watch()));
    let first = informer.add_handler(Probe::new()).unwrap();
    assert_eq!(&*informer.add_handler(Probe::new()).unwrap().name(), "probe (2)");

    first.remove();

    assert_eq!(&*informer.add_handler(Probe::new()).unwrap().name(), "probe");
    assert_eq!(&*informer.add_handler(Probe::new()).unwrap().name(), "probe (3)");
}

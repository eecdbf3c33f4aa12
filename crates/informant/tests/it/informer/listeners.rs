//! Handlers that are slow, panic or fall behind affect no other handler.

use std::{
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use informant::{
    Cached, Event, EventHandler, Identity, Origin, Registration, SharedInformer,
    pipeline::Item,
    testing::{ScriptedList, ScriptedSource, ScriptedWatch},
};
use tokio::time::Instant;

use crate::support::{
    Logs, Tracked,
    informers::{
        Leaks, Probe, ProbeHandler, informer, informer_with, item, open_watch, sleep_seconds, source, wait_until,
    },
};

/// A handler that panics at objects whose name begins with "bad", after it has recorded them.
struct Fragile {
    probe: ProbeHandler<()>,
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

/// HC-18, PL-07, PL-08, CT-05 (differs from client-go), P8
#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_continues_a_second_later_becomes_synced_and_affects_no_other_handler() {
    let logs = Logs::capture();
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("bad", 1), ("good", 2)], open_watch()));
    let (fragile, sound) = (Probe::new(), Probe::new());
    let shaken = informer.subscribe().handler(Fragile { probe: fragile.handler() }).unwrap();
    let calm = informer.subscribe().handler(sound.handler()).unwrap();
    let start = Instant::now();
    informer.start();

    calm.synced().await.unwrap();
    assert!(start.elapsed() < Duration::from_millis(500) && !shaken.is_synced());
    shaken.synced().await.unwrap();

    let received = fragile.times(start);
    let lines: Vec<_> = received.iter().map(|(_, line)| line.as_str()).collect();
    assert_eq!(lines, ["A(bad@1, initial)", "A(good@2, initial)", "synced"]);
    assert!(received[1].0 - received[0].0 >= 1000, "a second later: {received:?}");
    let log = logs.take();
    assert_eq!(log.matches("a handler panicked").count(), 1, "{log}");
    assert!(log.contains("handler=\"fragile\"") && log.contains("key=\"bad\"") && log.contains("it is bad"), "{log}");
    let status = shaken.status();
    assert_eq!((status.panics, status.delivered, status.backlog), (1, 3, 0));
    assert!(informer.is_synced());
    leaks.stop(&informer).await;
}

/// HC-18
#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_five_times_pauses_four_seconds() {
    let _logs = Logs::capture();
    let leaks = Leaks::watch();
    let objects = [("bad1", 1), ("bad2", 2), ("bad3", 3), ("bad4", 4), ("bad5", 5)];
    let informer = informer(&source("10", &objects, open_watch()));
    let probe = Probe::new();
    let registration = informer.subscribe().handler(Fragile { probe: probe.handler() }).unwrap();
    let start = Instant::now();
    informer.start();

    registration.synced().await.unwrap();

    let fifth = probe.times(start)[4].0;
    assert!((4000..5000).contains(&fifth), "{fifth}");
    leaks.stop(&informer).await;
}

/// P9: the pause after a panic does not delay the stop.
#[tokio::test(start_paused = true)]
async fn a_handler_that_pauses_after_a_panic_is_stopped_at_once() {
    let _logs = Logs::capture();
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("bad", 1), ("good", 2)], open_watch()));
    let probe = Probe::new();
    let registration = informer.subscribe().handler(Fragile { probe: probe.handler() }).unwrap();
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
async fn a_slow_handler_delays_neither_the_cache_nor_other_handlers_and_receives_all_events_in_order() {
    const EVENTS: u64 = 5000;
    let leaks = Leaks::watch();
    let mut watch = ScriptedWatch::new();
    for version in 11..11 + EVENTS {
        watch = watch.modified(item(&format!("o{}", version % 50), version));
    }
    let informer = informer(&source("10", &[], watch.stays_open()));
    let (gate, wait) = std::sync::mpsc::channel::<()>();
    let (wait, slow, quick) = (Mutex::new(wait), Probe::new(), Probe::new());
    let writing = slow.handler();
    let slow_one = informer
        .subscribe()
        .on_add({
            let writing = writing.clone();
            move |object, origin| {
                // Waits until the test drops the sender.
                let _ = wait.lock().unwrap().recv();
                writing.on_add(object, origin);
            }
        })
        .on_update(move |old, new| writing.on_update(old, new))
        .register_blocking()
        .unwrap();
    informer.subscribe().handler(quick.handler()).unwrap();
    informer.start();

    quick.until_lines(|lines| lines.len() > EVENTS as usize).await;
    assert_eq!(informer.lister().len(), 50);
    assert_eq!(informer.last_version(), Some((10 + EVENTS).to_string().as_str().into()));
    assert_eq!(slow.lines().len(), 0);
    assert!(slow_one.backlog() >= EVENTS as usize - 1, "{}", slow_one.backlog());

    drop(gate);
    slow.until_lines(|lines| lines.len() == EVENTS as usize).await;
    let mut received = quick.lines();
    received.retain(|line| line != "synced");
    assert!(slow.lines() == received, "the same events in the same order");
    leaks.stop(&informer).await;
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
    let registration = informer
        .subscribe()
        .named("sloth")
        .on_add(move |_, _| {
            // The sleep is real: the library measures the duration of a call with the real clock.
            if calls.fetch_add(1, Ordering::SeqCst) < 3 {
                std::thread::sleep(Duration::from_millis(110));
            }
        })
        .register()
        .unwrap();
    informer.start();

    registration.synced().await.unwrap();

    let log = logs.take();
    assert_eq!(log.matches("the handler is slow").count(), 1, "{log}");
    assert!(log.contains("handler=\"sloth\"") && log.contains("waiting=2000"), "{log}");
    leaks.stop(&informer).await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_or_stream_whose_oldest_event_has_waited_for_ten_seconds_is_logged_once_a_minute() {
    let logs = Logs::capture();
    let leaks = Leaks::watch();
    let mut watch = ScriptedWatch::new();
    for version in 11..100 {
        watch = watch.wait(Duration::from_secs(1)).modified(item("a", version));
    }
    let informer = informer(&source("10", &[("a", 1)], watch.stays_open()));
    let update_takes = |seconds: f64| move |_: Cached<()>, _: Cached<()>| sleep_seconds(seconds);
    for (name, seconds) in [("quick", 0.1), ("sloth", 5.0), ("stuck", 3600.0)] {
        informer.subscribe().named(name).on_update_async(update_takes(seconds)).register().unwrap();
    }
    let unread = informer.subscribe().named("unread").stream().unwrap();
    informer.start();
    let late = || {
        let log = logs.take();
        let lines = log.lines().filter(|line| line.contains("an event has waited too long"));
        let name = |line: &str| line.split("handler=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
        lines.map(name).collect::<Vec<_>>()
    };

    sleep_seconds(10.5).await;
    assert!(late().is_empty());
    sleep_seconds(15.0).await;
    let mut names = late();
    names.sort();
    assert_eq!(names, ["sloth", "stuck", "unread"]);
    sleep_seconds(40.0).await;
    assert!(late().is_empty());
    sleep_seconds(24.0).await;
    assert_eq!(late().len(), 3, "a minute later");
    drop(unread);
    informer.stop_within(Duration::from_secs(4000)).await.unwrap();
    leaks.check();
}

/// PL-09
#[tokio::test]
async fn a_slow_call_with_a_short_backlog_is_not_logged() {
    let logs = Logs::capture();
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("a", 1), ("b", 2)], open_watch()));
    // The sleep is real: the library measures the duration of a call with the real clock.
    let registration =
        informer.subscribe().on_add(|_, _| std::thread::sleep(Duration::from_millis(110))).register().unwrap();
    informer.start();

    registration.synced().await.unwrap();

    assert!(!logs.take().contains("the handler is slow"));
    leaks.stop(&informer).await;
}

/// A watch with many updates of few objects that stays open.
fn many_updates(events: u64, objects: u64) -> ScriptedWatch<()> {
    many_updates_of(events, objects, item)
}

fn many_updates_of<O>(events: u64, objects: u64, item: impl Fn(&str, u64) -> Item<O>) -> ScriptedWatch<O> {
    let mut watch = ScriptedWatch::new().wait(Duration::from_secs(1));
    for version in 11..11 + events {
        watch = watch.modified(item(&format!("o{}", version % objects), version));
        if version % 97 == 0 {
            watch = watch.wait(Duration::from_millis(1));
        }
    }
    watch.stays_open()
}

/// Decision 10, PL-04: at most two events of each object wait, the last one has the newest state, and the informer does not wait for
/// a stream that is not read.
#[tokio::test(start_paused = true)]
async fn coalesced_events_of_a_slow_stream_add_up_to_the_cache() {
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("o1", 1)], many_updates(5000, 20)));
    let mut coalescing = informer.subscribe().coalesce_above(100).stream().unwrap();
    let keeping = informer.subscribe().stream().unwrap();
    informer.start();
    sleep_seconds(60.0).await;

    let backlog = coalescing.registration().backlog();
    assert!(backlog <= 100, "{backlog}");
    assert!(keeping.registration().backlog() >= 5000);
    let probe = Probe::new();
    for _ in 0..backlog {
        probe.receive(&coalescing.next().await.unwrap());
    }
    let mut known = probe.known();
    known.sort();
    assert_eq!(known, crate::support::informers::cached(&informer));
    let status = coalescing.registration().status();
    assert!(status.coalesced + status.delivered >= 5002, "{status:?}");
    drop((coalescing, keeping));
    leaks.stop(&informer).await;
}

/// Decision 10: below the bound no event is coalesced.
#[tokio::test(start_paused = true)]
async fn a_handler_that_keeps_up_receives_every_change_although_coalescing_is_on() {
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[], many_updates(1000, 5)));
    let probe = Probe::new();
    let registration = informer.subscribe().coalesce_above(200).handler(probe.handler()).unwrap();
    informer.start();
    probe.until("U(o0 1005→1010)").await;

    assert_eq!(registration.status().coalesced, 0);
    assert_eq!(probe.lines().len(), 1001);
    leaks.stop(&informer).await;
}

/// Decision 10: `synced` is never coalesced.
#[tokio::test(start_paused = true)]
async fn coalescing_every_event_does_not_lose_synced() {
    let leaks = Leaks::watch();
    let second = Duration::from_secs(1);
    let watch = ScriptedWatch::new().wait(second).deleted(item("a", 11)).deleted(item("b", 12)).stays_open();
    let informer = informer(&source("10", &[("a", 1), ("b", 2)], watch));
    let mut stream = informer.subscribe().coalesce_above(0).stream().unwrap();
    informer.start();
    sleep_seconds(10.0).await;
    assert_eq!(stream.registration().backlog(), 1);

    assert!(matches!(stream.next().await, Some(Event::Synced)));

    assert!(stream.registration().is_synced());
    drop(stream);
    leaks.stop(&informer).await;
}

/// Decision 10: one remaining event does not keep a whole batch in memory.
#[tokio::test(start_paused = true)]
async fn objects_of_coalesced_events_are_freed() {
    let leaks = Leaks::watch();
    let tracked = |name: &str, version: u64| {
        let version = version.to_string().as_str().into();
        let identity = Identity { key: informant::Key::cluster_scoped(name), uid: "u1".into(), version };
        Item::new(identity, Tracked::new(()))
    };
    let source = ScriptedSource::new();
    source.on_list(ScriptedList::at("10").object(tracked("o1", 1)));
    source.on_watch(many_updates_of(2000, 10, tracked));
    let informer = SharedInformer::of_decoded_objects(source).build();
    let stream = informer.subscribe().coalesce_above(10).stream().unwrap();
    informer.start();
    informer.synced().await.unwrap();
    let first = informer.lister().get(&informant::Key::cluster_scoped("o1")).unwrap().watch();
    sleep_seconds(1.5).await;
    let early = informer.lister().list()[0].watch();

    sleep_seconds(60.0).await;

    assert!(early.upgrade().is_none() || informer.lister().list().iter().any(|now| now.watch().ptr_eq(&early)));
    assert!(first.upgrade().is_none(), "its add was coalesced into a newer one");
    drop(stream);
    leaks.stop(&informer).await;
}

/// PL-15, PL-16
#[tokio::test(start_paused = true)]
async fn the_name_of_a_handler_is_its_own_name_or_its_type_or_its_place_in_the_code() {
    let (probe, named_probe) = (Probe::new(), Probe::new());
    struct Nameless;
    impl EventHandler<()> for Nameless {}
    let informer = informer(&source("10", &[], open_watch()));

    let names = [
        informer.subscribe().handler(probe.handler()).unwrap().name(),
        informer.subscribe().handler(Nameless).unwrap().name(),
        informer.subscribe().handler(Arc::new(Nameless)).unwrap().name(),
        informer.subscribe().handler(Nameless).unwrap().name(),
        informer.subscribe().register().unwrap().name(),
        informer.subscribe().named("given").handler(named_probe.handler()).unwrap().name(),
    ];

    assert_eq!(&*names[0], "probe");
    assert!(names[1].ends_with("::Nameless"), "{names:?}");
    // Handlers of the same name get a number.
    assert_eq!([&*names[2], &*names[3]], [format!("{} (2)", names[1]), format!("{} (3)", names[1])]);
    assert!(names[4].starts_with("handler at ") && names[4].contains("listeners.rs:"), "{names:?}");
    assert_eq!(&*names[5], "given");
}

/// CT-25: each closure is optional.
#[tokio::test(start_paused = true)]
async fn a_handler_of_closures_receives_the_events_that_it_has_a_closure_for() {
    let leaks = Leaks::watch();
    let watch = ScriptedWatch::new().wait(Duration::from_millis(1500)).modified(item("a", 11)).deleted(item("a", 12));
    let informer = informer_with(&source("10", &[("a", 1)], watch.stays_open()), |builder| {
        builder.resync_every(Duration::from_secs(1))
    });
    let received = Arc::new(Mutex::new(Vec::new()));
    let write = |what: &'static str| {
        let received = Arc::clone(&received);
        move || received.lock().unwrap().push(what)
    };
    informer.subscribe().register().unwrap();
    let add = write("add");
    informer.subscribe().on_add(move |_, _| add()).register().unwrap();
    let (update, delete, synced) = (write("update"), write("delete"), write("synced"));
    let subscribe = informer.subscribe().on_update(move |_, _| update()).on_delete(move |_| delete());
    subscribe.on_synced(synced).register().unwrap();
    informer.start();
    sleep_seconds(5.0).await;

    let mut received = received.lock().unwrap().clone();
    received.sort_unstable();
    // The update closure is called twice: the second call is the resync after one second, which has no closure of its own.
    assert_eq!(received, ["add", "delete", "synced", "update", "update"]);
    leaks.stop(&informer).await;
}

/// The thread of a blocking handler ends with the handler.
#[tokio::test]
async fn a_blocking_handler_is_called_by_one_thread_of_its_own() {
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("a", 1), ("b", 2), ("c", 3)], open_watch()));
    let threads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&threads);
    let registration = informer
        .subscribe()
        .named("blocker")
        .on_add(move |_, _| {
            let thread = std::thread::current();
            seen.lock().unwrap().push((thread.id(), thread.name().map(str::to_owned)));
        })
        .register_blocking()
        .unwrap();
    informer.start();

    registration.synced().await.unwrap();

    let mut seen = threads.lock().unwrap().clone();
    seen.dedup();
    assert_eq!(seen.len(), 1);
    assert_ne!(seen[0].0, std::thread::current().id());
    assert_eq!(seen[0].1.as_deref(), Some("blocker"));
    leaks.stop(&informer).await;
}

/// A handler that is added later gets the name of a removed one.
#[tokio::test(start_paused = true)]
async fn the_name_of_a_removed_handler_is_used_again() {
    let informer = informer(&source("10", &[], open_watch()));
    let [first_probe, second_probe, third_probe, fourth_probe] = std::array::from_fn(|_| Probe::new());
    let first = informer.subscribe().handler(first_probe.handler()).unwrap();
    assert_eq!(&*informer.subscribe().handler(second_probe.handler()).unwrap().name(), "probe (2)");

    first.remove();

    assert_eq!(&*informer.subscribe().handler(third_probe.handler()).unwrap().name(), "probe");
    assert_eq!(&*informer.subscribe().handler(fourth_probe.handler()).unwrap().name(), "probe (3)");
}

/// PL-05, P9: the filter is users' code that may take long, or remove the handler itself.
#[tokio::test(start_paused = true)]
async fn a_handler_that_is_removed_while_its_filter_runs_is_not_called() {
    for is_async in [false, true] {
        let leaks = Leaks::watch();
        let informer = informer(&source("10", &[("a", 1), ("b", 2)], open_watch()));
        let (calls, slot) = (Arc::new(AtomicUsize::new(0)), Arc::new(OnceLock::<Registration>::new()));
        let (count, own) = (Arc::clone(&calls), Arc::clone(&slot));
        let subscribe = informer.subscribe().filter(move |_| {
            own.get().unwrap().remove();
            true
        });
        let call = move || {
            count.fetch_add(1, Ordering::SeqCst);
        };
        let callbacks = match is_async {
            false => subscribe.on_add(move |_, _| call()),
            true => subscribe.on_add_async(move |_, _| {
                call();
                std::future::ready(())
            }),
        };
        let registration = callbacks.register().unwrap();
        slot.set(registration.clone()).unwrap();
        informer.start();

        wait_until(|| registration.is_removed()).await;
        registration.stop().await.unwrap();

        assert_eq!((calls.load(Ordering::SeqCst), registration.status().delivered), (0, 0));
        leaks.stop(&informer).await;
    }
}

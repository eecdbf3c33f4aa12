//! Filters of handlers, streams and views.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use futures_util::{FutureExt, Stream, StreamExt};
use informant::{
    Cached, Event, EventStream, SharedInformer, View,
    testing::{ScriptedList, ScriptedSource, ScriptedWatch},
};

use crate::support::{
    Logs,
    informers::{
        Leaks, Probe, informer, informer_with, item, item_of_incarnation, list, open_watch, sleep_seconds, source,
        status_error,
    },
};

const SECOND: Duration = Duration::from_secs(1);

/// A filter whose answer the test changes. It stands for one that reads another cache.
#[derive(Clone, Default)]
struct Answer(Arc<AtomicU8>);

impl Answer {
    const NO: u8 = 0;
    const YES: u8 = 1;
    const PANIC: u8 = 2;

    fn set(&self, answer: u8) {
        self.0.store(answer, Ordering::SeqCst);
    }

    fn passes(&self) -> bool {
        match self.0.load(Ordering::SeqCst) {
            Self::PANIC => std::panic::resume_unwind(Box::new("no answer")),
            answer => answer == Self::YES,
        }
    }
}

/// A handler and a stream of an informer, and of a view, with one filter. The events that they receive must be the same.
struct Followers {
    handlers: [Probe<()>; 2],
    stream: EventStream<()>,
    view_stream: EventStream<()>,
    streams: [Probe<()>; 2],
}

impl Followers {
    fn add(informer: &SharedInformer<()>, answer: &Answer) -> Self {
        let filter = || {
            let answer = answer.clone();
            move |_: &Cached<()>| answer.passes()
        };
        let view = View::from(informer.clone());
        let handlers = [Probe::new(), Probe::new()];
        informer.subscribe().filter(filter()).handler(handlers[0].handler()).unwrap();
        view.subscribe().filter(filter()).handler(handlers[1].handler()).unwrap();
        Self {
            handlers,
            stream: informer.subscribe().filter(filter()).stream().unwrap(),
            view_stream: view.subscribe().filter(filter()).stream().unwrap(),
            streams: [Probe::new(), Probe::new()],
        }
    }

    /// Waits for a time, and returns the events that each follower received in it.
    async fn after(&mut self, seconds: f64) -> Vec<String> {
        sleep_seconds(seconds).await;
        read_all(&mut self.stream, &self.streams[0]);
        read_all(&mut self.view_stream, &self.streams[1]);
        let mut lines: Vec<_> = self.handlers.iter().chain(&self.streams).map(Probe::take).collect();
        assert!(lines.iter().all(|other| *other == lines[0]), "{lines:#?}");
        lines.remove(0)
    }
}

fn read_all(stream: &mut (impl Stream<Item = Event<()>> + Unpin), probe: &Probe<()>) {
    while let Some(Some(event)) = stream.next().now_or_never() {
        probe.receive(&event);
    }
}

/// P4, P5: the filter is not asked about a delete, observed or missed.
#[tokio::test(start_paused = true)]
async fn the_delete_of_a_received_object_is_delivered_although_the_filter_has_changed_its_answer() {
    let leaks = Leaks::watch();
    let watch = ScriptedWatch::new().wait(SECOND).deleted(item("a", 11)).breaks(status_error(410, "Expired"));
    let source = source("10", &[("a", 1), ("b", 2)], watch);
    source.on_list(list("20", &[]));
    source.on_watch(open_watch());
    let (informer, answer) = (informer(&source), Answer::default());
    answer.set(Answer::YES);
    let mut followers = Followers::add(&informer, &answer);
    informer.start();
    assert_eq!(followers.after(0.5).await, ["A(a@1, initial)", "A(b@2, initial)", "synced"]);

    answer.set(Answer::NO);

    assert_eq!(followers.after(10.0).await, ["D(a@11)", "T(b, last@2)"]);
    leaks.stop(&informer).await;
}

/// P4
#[tokio::test(start_paused = true)]
async fn an_object_that_did_not_pass_is_added_by_its_next_change_and_its_delete_is_hidden_without_one() {
    let leaks = Leaks::watch();
    let watch = ScriptedWatch::new().wait(SECOND).deleted(item("a", 11)).modified(item("b", 12)).stays_open();
    let informer = informer(&source("10", &[("a", 1), ("b", 2)], watch));
    let answer = Answer::default();
    let mut followers = Followers::add(&informer, &answer);
    informer.start();
    assert_eq!(followers.after(0.5).await, ["synced"]);

    answer.set(Answer::YES);

    assert_eq!(followers.after(1.0).await, ["A(b@12)"]);
    leaks.stop(&informer).await;
}

/// P4, P8
#[tokio::test(start_paused = true)]
async fn a_filter_that_panics_once_hides_the_object_until_its_next_change() {
    let _logs = Logs::capture();
    let leaks = Leaks::watch();
    let mut watch = ScriptedWatch::new();
    for version in 11..=14 {
        watch = watch.wait(SECOND).modified(item("a", version));
    }
    let informer = informer(&source("10", &[("a", 1)], watch.stays_open()));
    let answer = Answer::default();
    let mut followers = Followers::add(&informer, &answer);
    informer.start();

    for (now, received) in [
        (Answer::PANIC, ["synced"].as_slice()),
        (Answer::YES, &["A(a@11)"]),
        (Answer::YES, &["U(a 11→12)"]),
        (Answer::PANIC, &["D(a@12)"]),
        (Answer::YES, &["A(a@14)"]),
    ] {
        answer.set(now);
        let seconds = if received == ["synced"] { 0.5 } else { 1.0 };
        assert_eq!(followers.after(seconds).await, received);
    }
    leaks.stop(&informer).await;
}

#[tokio::test(start_paused = true)]
async fn a_resync_asks_the_filter_again() {
    let _logs = Logs::capture();
    let leaks = Leaks::watch();
    let source = source("10", &[("a", 1)], open_watch());
    let informer = informer_with(&source, |builder| builder.resync_every(SECOND));
    let answer = Answer::default();
    let mut followers = Followers::add(&informer, &answer);
    informer.start();
    assert_eq!(followers.after(0.5).await, ["synced"]);

    for (now, received) in [
        (Answer::NO, [].as_slice()),
        (Answer::YES, &["A(a@1)"]),
        (Answer::YES, &["R(a@1)"]),
        (Answer::PANIC, &["D(a@1)"]),
        (Answer::NO, &[]),
        (Answer::YES, &["A(a@1)"]),
    ] {
        answer.set(now);
        assert_eq!(followers.after(1.0).await, received);
    }
    leaks.stop(&informer).await;
}

/// P4, P5
#[tokio::test(start_paused = true)]
async fn of_a_recreated_object_the_old_incarnation_is_deleted_if_it_was_received_and_the_new_one_is_filtered() {
    for (old, new, received) in [
        (Answer::YES, Answer::YES, ["T(a, last@1)", "A(a@18)"].as_slice()),
        (Answer::YES, Answer::NO, &["T(a, last@1)"]),
        (Answer::NO, Answer::YES, &["A(a@18)"]),
        (Answer::NO, Answer::NO, &[]),
    ] {
        let leaks = Leaks::watch();
        let source = ScriptedSource::new();
        source.on_list(list("10", &[("a", 1)]));
        source.on_watch(ScriptedWatch::new().wait(SECOND).breaks(status_error(410, "Expired")));
        source.on_list(ScriptedList::at("20").object(item_of_incarnation("a", 18, "u2")));
        source.on_watch(open_watch());
        let (informer, answer) = (informer(&source), Answer::default());
        answer.set(old);
        let mut followers = Followers::add(&informer, &answer);
        informer.start();
        followers.after(0.5).await;

        answer.set(new);

        assert_eq!(followers.after(10.0).await, received);
        leaks.stop(&informer).await;
    }
}

/// The cache is replayed through the filter.
#[tokio::test(start_paused = true)]
async fn each_handler_has_its_own_record_of_the_objects_that_passed() {
    let leaks = Leaks::watch();
    let watch = ScriptedWatch::new().wait(SECOND).modified(item("a", 11)).stays_open();
    let informer = informer(&source("10", &[("a", 1)], watch));
    let answer = Answer::default();
    let mut early = Followers::add(&informer, &answer);
    informer.start();
    assert_eq!(early.after(0.4).await, ["synced"]);
    answer.set(Answer::YES);
    let mut late = Followers::add(&informer, &answer);
    assert_eq!(late.after(0.4).await, ["A(a@1, initial)", "synced"]);

    assert_eq!(early.after(1.0).await, ["A(a@11)"]);
    assert_eq!(late.after(0.0).await, ["U(a 1→11)"]);
    leaks.stop(&informer).await;
}

/// CT-26
#[tokio::test(start_paused = true)]
async fn a_filter_delivers_objects_that_begin_to_pass_as_adds_and_that_stop_passing_as_deletes() {
    let leaks = Leaks::watch();
    // Even versions pass.
    let mut watch = ScriptedWatch::new().wait(Duration::from_secs(1));
    for version in [12, 14, 15, 17, 18] {
        watch = watch.modified(item("a", version));
    }
    let watch = watch.deleted(item("a", 19)).added(item("b", 21)).deleted(item("b", 22)).stays_open();
    let informer = informer(&source("10", &[("a", 1), ("c", 2)], watch));
    let is_even = |version: &str| version.parse::<u64>().unwrap() % 2 == 0;
    let probe = Probe::new();
    let stream = Probe::new();
    let passes = move |object: &Cached<()>| is_even(object.version().as_str());
    informer.subscribe().filter(passes).handler(probe.handler()).unwrap();
    let mut events = informer.subscribe().filter(passes).stream().unwrap();
    informer.start();
    sleep_seconds(5.0).await;
    while let Some(Some(event)) = events.next().now_or_never() {
        stream.receive(&event);
    }

    // The last delete is delivered although its final state does not pass, because the delivered state before it did.
    let expected = ["A(c@2, initial)", "synced", "A(a@12)", "U(a 12→14)", "D(a@14)", "A(a@18)", "D(a@19)"];
    assert_eq!(probe.take(), expected);
    assert_eq!(stream.take(), expected);
    leaks.stop(&informer).await;
}

/// P8
#[tokio::test(start_paused = true)]
async fn an_object_at_which_a_filter_panics_does_not_pass() {
    let logs = Logs::capture();
    let leaks = Leaks::watch();
    let informer = informer_with(&source("10", &[("a", 1), ("bad", 2), ("c", 3)], open_watch()), |builder| builder);
    let passes = |object: &Cached<()>| match object.key().name() {
        "bad" => std::panic::resume_unwind(Box::new("so bad")),
        _ => true,
    };
    let probe = Probe::new();
    let handler = informer.subscribe().filter(passes).handler(probe.handler()).unwrap();
    let mut stream = informer.subscribe().named("reader").filter(passes).stream().unwrap();
    informer.start();
    handler.synced().await.unwrap();
    let read = Probe::new();
    while !stream.registration().is_synced() {
        read.receive(&stream.next().await.unwrap());
    }

    assert_eq!(probe.take(), ["A(a@1, initial)", "A(c@3, initial)", "synced"]);
    assert_eq!(read.take(), ["A(a@1, initial)", "A(c@3, initial)", "synced"]);
    assert_eq!((handler.status().panics, stream.registration().status().panics), (1, 1));
    assert!(logs.take().contains("a filter panicked"));
    leaks.stop(&informer).await;
}

/// P4, P8: a state at which the filter panics does not pass, as old state and as new state.
#[tokio::test(start_paused = true)]
async fn a_filter_that_panics_at_one_state_gives_a_well_formed_history() {
    let _logs = Logs::capture();
    let leaks = Leaks::watch();
    let second = Duration::from_secs(1);
    let watch = ScriptedWatch::new().wait(second).modified(item("a", 12)).wait(second).modified(item("a", 13));
    let watch = watch.wait(second).modified(item("a", 14)).wait(second).deleted(item("a", 15)).stays_open();
    let informer = informer(&source("10", &[("a", 1)], watch));
    let passes = |object: &Cached<()>| match object.version().as_str() {
        "1" | "14" => std::panic::resume_unwind(Box::new("no label")),
        _ => true,
    };
    let probe = Probe::new();
    let registration = informer.subscribe().filter(passes).handler(probe.handler()).unwrap();
    informer.start();
    sleep_seconds(20.0).await;

    assert_eq!(probe.take(), ["synced", "A(a@12)", "U(a 12→13)", "D(a@13)"]);
    let status = registration.status();
    assert_eq!(status.delivered, 4, "hidden events do not count as delivered");
    assert!(status.panics >= 2, "{status:?}");
    leaks.stop(&informer).await;
}

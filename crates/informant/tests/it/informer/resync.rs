//! Resyncs: which handlers receive unchanged objects again, and when.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::FutureExt;
use informant::{
    Cached, EventStream, SharedInformer,
    testing::{ScriptedSource, ScriptedWatch},
};
use tokio::time::Instant;

use crate::support::{
    Logs,
    informers::{
        Builder, Leaks, Probe, Source, informer_with, item, list, open_watch, sleep_seconds, source, status_error,
    },
};

const SECOND: Duration = Duration::from_secs(1);

fn resyncing(every: Duration) -> impl Fn(Builder) -> Builder {
    move |builder| builder.resync_every(every)
}

/// The number of resyncs that the probe received in each second after `start`.
fn resyncs_by_second(probe: &Probe<()>, start: Instant) -> Vec<(u128, usize)> {
    let mut seconds: Vec<(u128, usize)> = Vec::new();
    for (at, line) in probe.times(start) {
        if !line.starts_with('R') {
            continue;
        }
        match seconds.last_mut() {
            Some((second, count)) if *second == at / 1000 => *count += 1,
            Some(_) | None => seconds.push((at / 1000, 1)),
        }
    }
    seconds
}

/// HC-11, SI-22, PL-10, PL-14, CT-15
#[tokio::test(start_paused = true)]
async fn each_handler_is_resynced_at_its_own_period() {
    let leaks = Leaks::watch();
    let source = source("10", &[("a", 1), ("b", 2)], open_watch());
    let informer = informer_with(&source, |builder| builder.resync_every(SECOND));
    let (never, two, three) = (Probe::new(), Probe::new(), Probe::new());
    informer.subscribe().resync_every(Duration::ZERO).handler(never.handler()).unwrap();
    informer.subscribe().resync_every(2 * SECOND).handler(two.handler()).unwrap();
    informer.subscribe().resync_every(3 * SECOND).handler(three.handler()).unwrap();
    let start = Instant::now();
    informer.start();
    sleep_seconds(6.5).await;

    assert_eq!(resyncs_by_second(&two, start), [(2, 2), (4, 2), (6, 2)]);
    assert_eq!(resyncs_by_second(&three, start), [(3, 2), (6, 2)]);
    assert_eq!(never.take().len(), 3, "two adds and the end of the initial list");
    leaks.stop(&informer).await;
}

/// P4: the probe fails if a resync has an object whose delete it has received.
#[tokio::test(start_paused = true)]
async fn a_resync_has_no_deleted_object_after_observed_and_missed_deletes() {
    let leaks = Leaks::watch();
    let watch = ScriptedWatch::new().wait(SECOND * 3 / 2).deleted(item("a", 11)).wait(SECOND);
    let source = source("10", &[("a", 1), ("b", 2), ("c", 3)], watch.breaks(status_error(410, "Expired")));
    source.on_list(list("20", &[("c", 3)]));
    source.on_watch(open_watch());
    let informer = informer_with(&source, |builder| builder.resync_every(SECOND));
    let (early, late) = (Probe::new(), Probe::new());
    informer.subscribe().handler(early.handler()).unwrap();
    informer.start();
    sleep_seconds(2.2).await;
    informer.subscribe().handler(late.handler()).unwrap();
    sleep_seconds(10.0).await;

    for (probe, deletes) in [(early, vec!["D(a@11)", "T(b, last@2)"]), (late, vec!["T(b, last@2)"])] {
        let lines = probe.take();
        let found: Vec<_> = lines.iter().filter(|line| line.starts_with(['D', 'T'])).collect();
        assert_eq!(found, deletes);
        let missed = lines.iter().position(|line| line == "T(b, last@2)").unwrap();
        assert!(lines.len() > missed + 5 && lines[missed + 1..].iter().all(|line| line == "R(c@3)"), "{lines:?}");
    }
    leaks.stop(&informer).await;
}

/// HC-12, SI-18, SI-19, SI-20, SI-21
#[tokio::test(start_paused = true)]
async fn resync_periods_are_negotiated_until_the_start() {
    let logs = Logs::capture();
    let leaks = Leaks::watch();
    let add = |informer: &SharedInformer<()>, period: Duration| {
        informer.subscribe().resync_every(period).register().unwrap().resync_period()
    };
    let source = source("10", &[], open_watch());
    let informer = informer_with(&source, resyncing(3600 * SECOND));
    assert_eq!(informer.subscribe().register().unwrap().resync_period(), Some(3600 * SECOND));
    assert_eq!(informer.resync_check_period(), Some(3600 * SECOND));
    assert_eq!(add(&informer, Duration::from_millis(200)), Some(SECOND));
    assert_eq!(informer.resync_check_period(), Some(SECOND));
    assert_eq!(add(&informer, Duration::ZERO), None);

    let informer = informer_with(&source, resyncing(10 * SECOND));
    informer.start();
    assert_eq!(add(&informer, 3 * SECOND), Some(10 * SECOND));
    assert_eq!(add(&informer, 15 * SECOND), Some(15 * SECOND));
    assert_eq!(informer.resync_check_period(), Some(10 * SECOND));
    leaks.stop(&informer).await;

    let informer = informer_with(&source, |builder| builder);
    assert_eq!(add(&informer, 3 * SECOND), None);
    assert_eq!(informer.resync_check_period(), None);
    let logs = logs.take();
    assert!(
        logs.contains("the informer does not resync, so the handler's resync period has no effect; set a period with"),
        "{logs}"
    );
    assert!(logs.contains("`InformerBuilder::resync_every` or `FactoryBuilder::resync_every`"), "{logs}");
    assert_eq!(logs.matches("has no effect").count(), 1, "once: {logs}");
    let raised: Vec<_> = logs.lines().filter(|line| line.contains("the handler's resync period is raised")).collect();
    assert_eq!(raised.len(), 2, "{logs}");
    assert!(raised[0].contains("requested=200ms granted=1s"), "{logs}");
    assert!(raised[1].contains("requested=3s granted=10s"), "{logs}");
}

fn unchanged_relist(delay: Duration) -> Source {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[("a", 1)]));
    source.on_watch(ScriptedWatch::new().wait(delay).breaks(status_error(410, "Expired")));
    source.on_list(list("20", &[("a", 1), ("b", 15)]));
    source.on_watch(open_watch());
    source
}

/// HC-09, SI-23, SI-24 (differs from client-go)
#[tokio::test(start_paused = true)]
async fn an_unchanged_object_of_a_relist_reaches_only_handlers_with_a_resync_period() {
    for resync in [None, Some(12 * 3600 * SECOND)] {
        let leaks = Leaks::watch();
        let informer = informer_with(&unchanged_relist(SECOND), |builder| match resync {
            None => builder,
            Some(period) => builder.resync_every(period),
        });
        let (never, resynced) = (Probe::new(), Probe::new());
        informer.subscribe().resync_every(Duration::ZERO).handler(never.handler()).unwrap();
        informer.subscribe().handler(resynced.handler()).unwrap();
        informer.start();
        sleep_seconds(10.0).await;

        assert_eq!(never.take(), ["A(a@1, initial)", "synced", "A(b@15)"]);
        let expected: &[&str] = match resync {
            None => &["A(a@1, initial)", "synced", "A(b@15)"],
            Some(_) => &["A(a@1, initial)", "synced", "R(a@1)", "A(b@15)"],
        };
        assert_eq!(resynced.take(), expected);
        leaks.stop(&informer).await;
    }
}

/// CT-15: an update between two resyncs does not delay them.
#[tokio::test(start_paused = true)]
async fn a_resync_delivers_the_newest_state_as_an_update_of_the_object_to_itself() {
    let leaks = Leaks::watch();
    let watch = ScriptedWatch::new().wait(Duration::from_millis(1500)).modified(item("a", 11)).stays_open();
    let informer = informer_with(&source("10", &[("a", 1)], watch), resyncing(SECOND));
    let received = Arc::new(Mutex::new(Vec::new()));
    let writing = Arc::clone(&received);
    // The handler has no closure for resyncs, so it receives them as updates.
    informer
        .subscribe()
        .on_update(move |old, new| {
            writing.lock().unwrap().push((format!("{old:?}→{new:?}"), Cached::ptr_eq(old, new)));
        })
        .register()
        .unwrap();
    informer.start();
    sleep_seconds(2.5).await;

    let received = received.lock().unwrap().clone();
    let expected = [("a@1→a@1", true), ("a@1→a@11", false), ("a@11→a@11", true)];
    assert_eq!(received, expected.map(|(line, is_same)| (line.to_owned(), is_same)));
    leaks.stop(&informer).await;
}

/// No object is resynced before the first list, and the missed ticks do not cause several resyncs.
#[tokio::test(start_paused = true)]
async fn resyncs_begin_when_the_informer_is_synced() {
    let leaks = Leaks::watch();
    let source = ScriptedSource::new();
    source.on_list(list("10", &[("a", 1)]).after(Duration::from_millis(5500)));
    source.on_watch(open_watch());
    let informer = informer_with(&source, resyncing(SECOND));
    let probe = Probe::new();
    informer.subscribe().handler(probe.handler()).unwrap();
    let start = Instant::now();
    informer.start();
    sleep_seconds(8.2).await;

    assert_eq!(resyncs_by_second(&probe, start), [(6, 1), (7, 1), (8, 1)]);
    leaks.stop(&informer).await;
}

/// SI-22, PL-10
#[tokio::test(start_paused = true)]
async fn a_handler_that_joins_late_is_resynced_a_period_after_it_joined() {
    let leaks = Leaks::watch();
    let informer = informer_with(&source("10", &[("a", 1)], open_watch()), resyncing(SECOND));
    let start = Instant::now();
    informer.start();
    sleep_seconds(2.5).await;
    let probe = Probe::new();
    informer.subscribe().resync_every(3 * SECOND).handler(probe.handler()).unwrap();
    sleep_seconds(8.0).await;

    assert_eq!(resyncs_by_second(&probe, start), [(6, 1), (9, 1)]);
    leaks.stop(&informer).await;
}

/// The queue is never empty.
#[tokio::test(start_paused = true)]
async fn constant_changes_do_not_delay_resyncs() {
    let leaks = Leaks::watch();
    let mut watch = ScriptedWatch::new();
    for version in 11..5000 {
        watch = watch.modified(item("busy", version)).wait(Duration::from_millis(1));
    }
    let informer = informer_with(&source("10", &[("a", 1), ("busy", 2)], watch.stays_open()), resyncing(SECOND));
    let probe = Probe::new();
    informer.subscribe().handler(probe.handler()).unwrap();
    let start = Instant::now();
    informer.start();
    sleep_seconds(3.5).await;

    assert_eq!(resyncs_by_second(&probe, start), [(1, 2), (2, 2), (3, 2)]);
    leaks.stop(&informer).await;
}

/// SI-22, PL-10
#[tokio::test(start_paused = true)]
async fn a_late_resync_tick_does_not_skip_the_next_one() {
    let leaks = Leaks::watch();
    let informer = informer_with(&source("10", &[("a", 1)], open_watch()), resyncing(10 * SECOND));
    let probe = Probe::new();
    informer.subscribe().handler(probe.handler()).unwrap();
    let start = Instant::now();
    informer.start();
    informer.synced().await.unwrap();
    // The apply loop runs half a second after the tick at ten seconds.
    tokio::time::advance(Duration::from_millis(10_500)).await;
    sleep_seconds(34.0).await;

    assert_eq!(resyncs_by_second(&probe, start), [(10, 1), (20, 1), (30, 1), (40, 1)]);
    leaks.stop(&informer).await;
}

/// Changes `a` after so many seconds.
fn changed_after(wait: u64) -> Source {
    let watch = ScriptedWatch::new().wait(Duration::from_secs(wait)).modified(item("a", 11)).stays_open();
    source("10", &[("a", 1), ("b", 2)], watch)
}

/// Reads all events that wait.
fn read_all(stream: &mut EventStream<()>) -> Vec<String> {
    let probe = Probe::new();
    while let Some(event) = stream.next().now_or_never() {
        probe.receive(&event.unwrap());
    }
    probe.take()
}

#[tokio::test(start_paused = true)]
async fn a_slow_stream_has_at_most_one_replay_waiting() {
    let leaks = Leaks::watch();
    let informer = informer_with(&changed_after(50), |builder| builder.resync_every(SECOND));
    let mut stream = informer.subscribe().stream().unwrap();
    informer.start();
    sleep_seconds(100.5).await;

    let status = stream.registration().status();
    assert_eq!((status.backlog, status.resyncs_skipped), (6, 99), "{status:?}");
    assert_eq!(informer.status().handlers, [status]);
    let (adds, rest) = (["A(a@1, initial)", "A(b@2, initial)", "synced"], ["R(a@1)", "R(b@2)", "U(a 1→11)"]);
    let mut received = read_all(&mut stream);
    received.sort();
    let mut expected = [adds, rest].concat();
    expected.sort_unstable();
    assert_eq!(received, expected);

    sleep_seconds(1.0).await;
    assert_eq!(stream.registration().backlog(), 2, "the next replay is due a period later");
    drop(stream);
    leaks.stop(&informer).await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_stream_that_coalesces_has_at_most_one_replay_waiting() {
    for above in [0, 3, 1000] {
        let leaks = Leaks::watch();
        let informer = informer_with(&changed_after(50), resyncing(SECOND));
        let mut stream = informer.subscribe().coalesce_above(above).stream().unwrap();
        informer.start();
        sleep_seconds(3.5).await;
        let before = stream.registration().status();
        read_all(&mut stream);
        sleep_seconds(96.0).await;

        let status = stream.registration().status();
        assert!(status.backlog <= 3, "{status:?}");
        match above {
            // The first resync was coalesced into the pending adds.
            0 | 3 => assert_eq!((before.backlog, before.resyncs_skipped), (3, 2), "{before:?}"),
            _ => assert_eq!((before.backlog, before.resyncs_skipped), (5, 2), "{before:?}"),
        }
        assert_eq!(status.resyncs_skipped, before.resyncs_skipped + 95, "{status:?}");
        assert_eq!(
            status.coalesced - before.coalesced,
            u64::from(above == 0),
            "the change stands for a resync: {status:?}"
        );
        drop(stream);
        leaks.stop(&informer).await;
    }
}

#[tokio::test(start_paused = true)]
async fn relists_without_changes_do_not_pile_up_for_a_slow_stream() {
    let leaks = Leaks::watch();
    let source = ScriptedSource::new();
    for _ in 0..20 {
        source.on_list(list("10", &[("a", 1), ("b", 2)]));
        source.on_watch(ScriptedWatch::new().wait(SECOND).breaks(status_error(410, "Expired")));
    }
    source.on_list(list("20", &[("a", 1), ("b", 15)]));
    source.on_watch(open_watch());
    let informer = informer_with(&source, resyncing(12 * 3600 * SECOND));
    let mut stream = informer.subscribe().stream().unwrap();
    informer.start();
    sleep_seconds(3000.0).await;

    let status = stream.registration().status();
    assert_eq!((status.backlog, status.resyncs_skipped), (6, 19), "{status:?}");
    assert_eq!(read_all(&mut stream).last().unwrap(), "U(b 2→15)");
    drop(stream);
    leaks.stop(&informer).await;
}

#[tokio::test(start_paused = true)]
async fn events_that_a_filter_hides_do_not_delay_resyncs() {
    let leaks = Leaks::watch();
    let informer = informer_with(&source("10", &[("a", 1), ("b", 2)], open_watch()), resyncing(SECOND));
    let probe = Probe::new();
    let registration =
        informer.subscribe().filter(|object| object.key().name() == "a").handler(probe.handler()).unwrap();
    let start = Instant::now();
    informer.start();
    sleep_seconds(3.5).await;

    assert_eq!(resyncs_by_second(&probe, start), [(1, 1), (2, 1), (3, 1)]);
    assert_eq!(registration.status().resyncs_skipped, 0);
    leaks.stop(&informer).await;
}

/// Several missed ticks cause one resync.
#[tokio::test(start_paused = true)]
async fn missed_resync_ticks_do_not_pile_up() {
    let leaks = Leaks::watch();
    let informer = informer_with(&source("10", &[("a", 1)], open_watch()), resyncing(10 * SECOND));
    let probe = Probe::new();
    informer.subscribe().handler(probe.handler()).unwrap();
    let start = Instant::now();
    informer.start();
    informer.synced().await.unwrap();
    tokio::time::advance(Duration::from_secs(55)).await;
    sleep_seconds(10.0).await;

    assert_eq!(resyncs_by_second(&probe, start), [(55, 1), (60, 1)]);
    leaks.stop(&informer).await;
}

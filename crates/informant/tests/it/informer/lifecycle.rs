//! The phases of an informer, the calls that are allowed in each, and the absence of leaked tasks after the stop.

use std::{
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use informant::{
    Cached, Registration, SharedInformer,
    factory::InformerState,
    pipeline::{ListRequest, ListStream, ListWatch, Served, WatchRequest, WatchStream},
    testing::{ScriptedSource, ScriptedWatch},
};

use crate::support::{
    Logs,
    informers::{
        Leaks, Probe, add_stuck_handler, informer, item, open_watch, show_error, sleep_seconds, source, wait_until,
        wait_until_idle,
    },
    poll_once,
};

/// SI-01
#[tokio::test(start_paused = true)]
async fn an_informer_is_new_then_running_then_stopped_and_starts_only_once() {
    let logs = Logs::capture();
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[], open_watch()));
    assert_eq!(informer.state(), InformerState::New);

    assert!(informer.start());
    assert_eq!(informer.state(), InformerState::Running);
    assert!(!informer.start(), "a second start does nothing");
    assert!(logs.take().contains("so `start` does nothing"));
    informer.synced().await.unwrap();
    leaks.stop(&informer).await;

    assert_eq!(informer.state(), InformerState::Stopped);
    assert!(!informer.start(), "nor does a start after the stop");
    informer.stop().await.unwrap();
}

/// SI-02
#[tokio::test(start_paused = true)]
async fn the_transform_and_the_error_callback_are_set_before_the_start_and_the_last_one_is_used() {
    let leaks = Leaks::watch();
    let source = ScriptedSource::new();
    source.on_list(informant::testing::ScriptedList::fails(crate::support::informers::connection_refused()));
    source.on_list(crate::support::informers::list("10", &[("a", 1)]));
    source.on_watch(open_watch());
    let informer = informer(&source);
    let (first, last) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for count in [&first, &last] {
        let (transformed, failed) = (Arc::clone(count), Arc::clone(count));
        let transform = move |_: &mut ()| {
            transformed.fetch_add(1, Ordering::SeqCst);
            Ok::<_, std::convert::Infallible>(())
        };
        informer.set_transform(transform).unwrap();
        let count_error = move |_: &informant::error::ListWatchError| {
            failed.fetch_add(10, Ordering::SeqCst);
        };
        informer.set_on_error(count_error).unwrap();
    }
    informer.start();
    informer.synced().await.unwrap();

    assert_eq!((first.load(Ordering::SeqCst), last.load(Ordering::SeqCst)), (0, 11));
    let error = informer.set_transform(|_| Ok::<_, std::convert::Infallible>(())).unwrap_err();
    assert_eq!(error.to_string(), "informer things has already started; set its transform before `start`");
    assert!(informer.set_on_error(|_| {}).is_err());
    leaks.stop(&informer).await;
}

/// SI-03
#[tokio::test(start_paused = true)]
async fn a_synced_informer_stays_synced_after_stop() {
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("a", 1)], open_watch()));
    let probe = Probe::new();
    let registration = informer.subscribe().handler(probe.handler()).unwrap();
    informer.start();
    registration.synced().await.unwrap();

    leaks.stop(&informer).await;

    assert!(informer.is_synced() && registration.is_synced());
    informer.synced().await.unwrap();
    registration.synced().await.unwrap();
}

/// SI-03, SI-16, SI-28
#[tokio::test(start_paused = true)]
async fn an_informer_that_never_started_stops_at_once_and_never_syncs() {
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("a", 1)], open_watch()));
    let probe = Probe::new();
    let registration = informer.subscribe().handler(probe.handler()).unwrap();
    let other = informer.subscribe().handler(probe.handler()).unwrap();
    other.stop().await.unwrap();

    informer.stop().await.unwrap();

    assert!(!informer.is_synced());
    let error = informer.synced().await.unwrap_err();
    assert_eq!(show_error(&error), "informer things stopped before it was synced");
    let error = registration.synced().await.unwrap_err();
    assert_eq!(error.to_string(), "informer things stopped before all of the initial list was delivered to probe");
    let error = other.synced().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "probe (2) was removed from informer things before all of the initial list was delivered"
    );
    registration.stop().await.unwrap();
    assert!(probe.take().is_empty());
    leaks.check();
}

/// A source that stops its informer while the informer starts.
struct StopsAtStart(Arc<OnceLock<SharedInformer<()>>>);

impl ListWatch<()> for StopsAtStart {
    async fn list(&self, _: ListRequest) -> Result<ListStream<()>, informant::error::SourceError> {
        unreachable!("the informer is stopped before it lists")
    }

    async fn watch(&self, _: WatchRequest) -> Result<WatchStream<()>, informant::error::SourceError> {
        unreachable!("the informer is stopped before it lists")
    }

    fn types(&self) -> kube::core::TypeMeta {
        let informer = self.0.get().unwrap();
        assert_eq!(informer.state(), InformerState::Running);
        assert!(!informer.start(), "the start is in progress");
        assert!(informer.set_transform(|()| ()).is_err());
        assert!(informer.stop().now_or_never().is_none(), "`stop` waits for the end of the start");
        assert_eq!(informer.state(), InformerState::Stopping);
        kube::core::TypeMeta::default()
    }
}

/// P9: an informer holds no lock while it calls its source, and its task ends if it is stopped before the task begins.
#[tokio::test(start_paused = true)]
async fn an_informer_that_is_stopped_during_its_start_stops_without_a_list_and_leaves_no_task() {
    let leaks = Leaks::watch();
    let slot = Arc::new(OnceLock::new());
    let informer = SharedInformer::of_decoded_objects(StopsAtStart(Arc::clone(&slot))).name("things").build();
    slot.set(informer.clone()).unwrap();

    assert!(informer.start());

    leaks.stop(&informer).await;
    let error = informer.synced().await.unwrap_err();
    assert_eq!(show_error(&error), "informer things stopped before it was synced");
}

/// SI-13, SI-14, PL-05
#[tokio::test(start_paused = true)]
async fn a_removed_handler_receives_no_more_events_and_other_handlers_do() {
    let leaks = Leaks::watch();
    let second = Duration::from_secs(1);
    let watch = ScriptedWatch::new().wait(second).added(item("b", 11)).wait(second).added(item("c", 12));
    let informer = informer(&source("10", &[("a", 1)], watch.stays_open()));
    let (leaves, stays) = (Probe::new(), Probe::new());
    let leaving = informer.subscribe().handler(leaves.handler()).unwrap();
    informer.subscribe().handler(stays.handler()).unwrap();
    informer.start();
    stays.until("A(b@11)").await;

    leaving.remove();
    stays.until("A(c@12)").await;

    assert_eq!(leaves.take(), ["A(a@1, initial)", "synced", "A(b@11)"]);
    assert_eq!(informer.status().handlers.len(), 1);
    leaks.stop(&informer).await;
    leaving.remove();
}

/// PL-05: of fifty pending events, none is delivered after the removal.
#[tokio::test(start_paused = true)]
async fn pending_events_of_a_removed_handler_are_never_delivered() {
    let leaks = Leaks::watch();
    let names: Vec<_> = (1..=50).map(|number| format!("o{number:02}")).collect();
    let objects: Vec<_> = names.iter().zip(1..).map(|(name, version)| (name.as_str(), version)).collect();
    let informer = informer(&source("100", &objects, open_watch()));
    let received = Arc::new(AtomicUsize::new(0));
    let slot = Arc::new(OnceLock::<Registration>::new());
    let (counting, own) = (Arc::clone(&received), Arc::clone(&slot));
    slot.set(
        informer
            .subscribe()
            .on_add(move |_, _| {
                // SI-17: the handler is removed inside its own callback.
                if counting.fetch_add(1, Ordering::SeqCst) == 3 {
                    own.get().unwrap().remove();
                }
            })
            .register()
            .unwrap(),
    )
    .unwrap();
    informer.start();
    informer.synced().await.unwrap();
    sleep_seconds(10.0).await;

    assert_eq!(received.load(Ordering::SeqCst), 4);
    assert_eq!(slot.get().unwrap().backlog(), 0);
    leaks.stop(&informer).await;
}

/// SI-16, SI-28, PL-06, P9
#[tokio::test]
async fn stop_of_a_handler_and_of_the_informer_wait_for_the_running_callback() {
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("a", 1), ("b", 2)], open_watch()));
    let (registration, open, running) = add_stuck_handler(&informer);
    informer.start();
    wait_until(|| running.load(Ordering::SeqCst) == 1).await;

    let (mut shutting, mut stopping) = (Box::pin(registration.stop()), Box::pin(informer.stop()));
    assert!(poll_once(&mut shutting).await.is_none() && poll_once(&mut stopping).await.is_none());
    assert_eq!(informer.state(), InformerState::Stopping);

    drop(open);
    shutting.await.unwrap();
    stopping.await.unwrap();
    assert_eq!(
        (running.load(Ordering::SeqCst), registration.status().delivered),
        (0, 1),
        "the second event was dropped"
    );
    leaks.check();
}

/// P9, SI-15
#[tokio::test]
async fn a_stop_with_a_time_limit_names_the_handlers_that_are_still_running() {
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("a", 1)], open_watch()));
    let (registration, open, calls) = add_stuck_handler(&informer);
    let probe = Probe::new();
    informer.subscribe().handler(probe.handler()).unwrap();
    informer.start();
    wait_until(|| calls.load(Ordering::SeqCst) == 1).await;
    registration.remove();

    let error = informer.stop_within(Duration::from_millis(50)).await.unwrap_err();

    assert_eq!(error.to_string(), "informer things has not stopped within 50ms: callbacks of stuck have not returned");
    drop(open);
    informer.stop_within(Duration::from_secs(60)).await.unwrap();
    leaks.check();
}

/// SI-17: a callback that waits for its own end gets an error, not a deadlock.
#[tokio::test(start_paused = true)]
async fn stop_inside_a_callback_of_the_same_handler_is_an_error() {
    let leaks = Leaks::watch();
    let errors = Arc::new(Mutex::new(Vec::new()));
    let informer = informer(&source("10", &[("a", 1)], open_watch()));
    let slot = Arc::new(OnceLock::<Registration>::new());
    let (own, recorded, whole) = (Arc::clone(&slot), Arc::clone(&errors), informer.clone());
    slot.set(
        informer
            .subscribe()
            .named("self")
            .on_add(move |_, _| {
                let error = own.get().unwrap().stop().now_or_never();
                recorded.lock().unwrap().push(error.expect("at once").unwrap_err().to_string());
                let error = whole.stop().now_or_never();
                recorded.lock().unwrap().push(error.expect("at once").unwrap_err().to_string());
            })
            .register()
            .unwrap(),
    )
    .unwrap();
    informer.start();
    wait_until(|| informer.state() == InformerState::Stopped).await;

    let errors = errors.lock().unwrap().clone();
    assert_eq!(
        errors,
        [
            "self of informer things cannot wait in one of its own callbacks for their end; wait in another task",
            "a callback of informer things cannot wait for the informer to stop; it stops when the callback returns",
        ]
    );
    drop(slot);
    leaks.check();
}

/// Decision 16
#[tokio::test(start_paused = true)]
async fn an_informer_stops_when_its_last_handle_is_dropped() {
    let leaks = Leaks::watch();
    let source = source("10", &[("a", 1)], open_watch());
    let informer = informer(&source);
    let probe = Probe::new();
    let registration = informer.subscribe().handler(probe.handler()).unwrap();
    let lister = informer.lister();
    let another = informer.clone();
    informer.start();
    registration.synced().await.unwrap();

    drop(informer);
    wait_until_idle().await;
    assert!(!registration.is_removed(), "another handle exists");
    drop(another);
    wait_until_idle().await;

    assert!(registration.is_removed());
    assert_eq!((lister.len(), source.open_watches()), (1, 0));
    leaks.check();
}

/// Decision 16
#[test]
fn an_informer_whose_runtime_ends_is_stopped_and_its_handlers_are_removed() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (probe, blocking_probe) = (Probe::new(), Probe::new());
    let (informer, registration, blocking) = runtime.block_on(async {
        let informer = informer(&source("10", &[("a", 1)], open_watch()));
        let registration = informer.subscribe().handler(probe.handler()).unwrap();
        let blocking = informer.subscribe().blocking_handler(blocking_probe.handler()).unwrap();
        informer.start();
        registration.synced().await.unwrap();
        (informer, registration, blocking)
    });

    drop(runtime);

    assert!(registration.is_removed() && blocking.is_removed());
    // The thread of the blocking handler ends without another call.
    let another = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    another.block_on(informer.stop()).unwrap();
    assert_eq!(informer.state(), InformerState::Stopped);
}

/// CT-01, CT-02, HC-29 (e): the current batch is applied, and no other is taken.
#[tokio::test]
async fn stop_waits_for_a_blocked_index_function_and_takes_no_other_batch() {
    let watch = ScriptedWatch::new().wait(Duration::from_millis(1)).added(item("b", 11)).stays_open();
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let (gate, indexed) = (Mutex::new(gate), Arc::new(Mutex::new(Vec::new())));
    let source = source("10", &[("a", 1)], watch);
    let informer = informer(&source);
    let seen = Arc::clone(&indexed);
    informer
        .add_index("gate", move |object: &Cached<()>| {
            seen.lock().unwrap().push(object.key().to_string());
            let _ = gate.lock().unwrap().recv();
            None::<String>
        })
        .unwrap();
    let probe = Probe::new();
    informer.subscribe().handler(probe.handler()).unwrap();
    // The informer has a runtime of its own, because an index function blocks its thread.
    let running = informer.clone();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            running.start();
            running.synced().await.unwrap_or_default();
            running.stop().await.unwrap();
            assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
        });
    });
    wait_until(|| !indexed.lock().unwrap().is_empty()).await;
    let stopping = informer.clone();
    let stopping = tokio::spawn(async move { stopping.stop().await });
    wait_until(|| informer.state() == InformerState::Stopping).await;
    let error = informer.stop_within(Duration::from_millis(20)).await.unwrap_err().to_string();
    assert!(error.ends_with("an index function or a callback of the reflector is still running"), "{error}");
    assert!(!stopping.is_finished());

    drop(open);
    stopping.await.unwrap().unwrap();
    thread.join().unwrap();

    assert_eq!(*indexed.lock().unwrap(), ["a"], "no other batch was taken");
    assert_eq!(source.open_watches(), 0);
}

/// A source that panics.
struct Panicking;

impl ListWatch<()> for Panicking {
    async fn list(&self, _: ListRequest) -> Result<ListStream<()>, informant::error::SourceError> {
        std::panic::resume_unwind(Box::new("no such luck"))
    }

    async fn watch(&self, _: WatchRequest) -> Result<WatchStream<()>, informant::error::SourceError> {
        unreachable!("the list panics first")
    }

    async fn is_served(&self) -> Served {
        Served::Unknown
    }

    fn types(&self) -> kube::core::TypeMeta {
        kube::core::TypeMeta::default()
    }

    fn name(&self) -> String {
        "trouble".into()
    }
}

/// The error of the stopped informer and of its handlers contains the panic.
#[tokio::test(start_paused = true)]
async fn a_source_that_panics_stops_the_informer_and_its_errors_contain_the_panic() {
    let logs = Logs::capture();
    let leaks = Leaks::watch();
    let informer = SharedInformer::of_decoded_objects(Panicking).build();
    let probe = Probe::new();
    let registration = informer.subscribe().handler(probe.handler()).unwrap();
    informer.start();

    let error = informer.synced().await.unwrap_err();

    let said = "informer trouble stopped before it was synced: panicked: no such luck";
    assert_eq!(show_error(&error), said);
    assert!(registration.synced().await.is_err());
    wait_until(|| informer.state() == InformerState::Stopped).await;
    assert!(logs.take().contains("the informer stops because of an internal error"));
    leaks.check();
}

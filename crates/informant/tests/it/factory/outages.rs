//! Outages: how soon caches equal the server again, which errors are reported, and which requests are sent meanwhile.

use std::{sync::Arc, time::Duration};

use informant::{
    SharedInformer, SharedInformerFactory,
    error::{ListWatchError, Operation},
    factory::Problem,
    pipeline::Backoff,
};
use informant_apiserver::{ApiServer, Fault, On, Verb};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::support::{
    reflector::{full_lists, sleep_seconds},
    servers::{Leaks, Logs, SECOND, backoff_without_jitter, client, config, stop_factory},
};

const NAMESPACES: usize = 10;

/// Ten informers of one client, synced.
struct Client {
    server: ApiServer,
    factory: SharedInformerFactory,
    informers: Vec<SharedInformer<ConfigMap>>,
    /// The times and errors of the calls of `on_error`.
    errors: Arc<Mutex<Vec<(Instant, String)>>>,
    leaks: Leaks,
}

impl Client {
    async fn new() -> Self {
        Self::with_backoff(Backoff::default()).await
    }

    async fn with_backoff(backoff: Backoff) -> Self {
        let server = ApiServer::new();
        let namespaces: Vec<_> = (0..NAMESPACES).map(|number| format!("n{number}")).collect();
        for namespace in &namespaces {
            server.put("configmaps", config(&format!("{namespace}/a"))).unwrap();
        }
        let errors = Arc::<Mutex<Vec<_>>>::default();
        let recorded = Arc::clone(&errors);
        let callback = move |error: &ListWatchError| recorded.lock().push((Instant::now(), error.source.to_string()));
        let factory = SharedInformerFactory::builder(client(&server))
            .on_error(callback)
            .configure::<ConfigMap>(move |builder| builder.reflector(|reflector| reflector.backoff(backoff)))
            .build();
        let leaks = Leaks::watch();
        let request = |namespace| factory.request::<ConfigMap>().in_namespace(namespace).informer().unwrap();
        let informers = namespaces.into_iter().map(request).collect();
        factory.start();
        factory.synced().await.unwrap();
        server.wait_for_watches("configmaps", NAMESPACES).await;
        // Each informer receives an event, so that its watch can be resumed.
        for number in 0..NAMESPACES {
            let mut changed = config(&format!("n{number}/a"));
            changed["data"]["text"] = "changed".into();
            server.put("configmaps", changed).unwrap();
        }
        sleep_seconds(0.1).await;
        Self { server, factory, informers, errors, leaks }
    }

    /// All connections break, and no new one is accepted for this long; then objects are changed.
    async fn outage(&self, length: Duration) {
        let outage = self.server.inject(On::any(), Fault::Refuse);
        self.server.cut_all_watches();
        tokio::time::sleep(length).await;
        self.server.remove_fault(outage);
        self.change();
    }

    /// Creates an object for each informer.
    fn change(&self) {
        for number in 0..NAMESPACES {
            self.server.put("configmaps", config(&format!("n{number}/{}", self.server.version()))).unwrap();
        }
    }

    /// Waits until the server receives a request.
    async fn reached(&self) {
        self.server.clear_requests();
        while self.server.requests().is_empty() {
            sleep_seconds(0.01).await;
        }
    }

    /// Waits until all caches equal the server, and returns how long that took.
    async fn caught_up(&self) -> Duration {
        let begun = Instant::now();
        let objects = || -> usize { self.informers.iter().map(|informer| informer.lister().len()).sum() };
        while objects() != self.server.count("configmaps").unwrap() {
            assert!(begun.elapsed() < 1000 * SECOND, "the caches never equal the server");
            sleep_seconds(0.01).await;
        }
        begun.elapsed()
    }

    async fn stop(self) {
        stop_factory(&self.factory, &self.leaks).await;
        drop(self);
        // Waits for the end of the client's own task.
        sleep_seconds(0.1).await;
    }
}

/// P10; RE-03 and HC-25 differ from client-go
#[tokio::test(start_paused = true)]
async fn all_caches_equal_the_server_within_five_seconds_after_each_outage() {
    let client = Client::new().await;
    for length in [5, 10, 7, 60, 3, 60] {
        client.outage(Duration::from_secs(length)).await;

        let took = client.caught_up().await;

        assert!(took <= 5 * SECOND, "{took:?} after {length} s");
        sleep_seconds(20.0).await;
    }
    assert_eq!(
        full_lists(&client.server, "configmaps"),
        0,
        "the first lists were streamed, and nothing was listed again"
    );
    client.stop().await;
}

/// A server in a crash loop: each time it is up for three seconds, without an event, and has another history or has compacted the old one. While it is
/// down, connections are refused, or a load balancer answers 503.
#[tokio::test(start_paused = true)]
async fn all_caches_equal_the_server_within_seconds_after_a_crash_loop() {
    let down = [Fault::Refuse, Fault::status(503)];
    for (is_restored, fault) in
        [false, true].into_iter().flat_map(|is_restored| down.each_ref().map(|it| (is_restored, it)))
    {
        let client = Client::new().await;
        let backup = client.server.backup();
        let crash = async || {
            let outage = client.server.inject(On::any(), fault.clone());
            match is_restored {
                true => client.server.restore(&backup),
                false => {
                    client.server.cut_all_watches();
                    client.server.compact();
                }
            }
            sleep_seconds(25.0).await;
            client.server.remove_fault(outage);
        };
        for _ in 0..4 {
            crash().await;
            sleep_seconds(3.0).await;
        }
        crash().await;
        client.change();

        let took = client.caught_up().await;

        // From the second history change within a minute on, lists wait up to five seconds.
        let limit = if is_restored { 10 * SECOND } else { 5 * SECOND };
        assert!(took <= limit, "{took:?}, restored: {is_restored}, {fault:?}");
        client.stop().await;
    }
}

/// What broke the watches is not what refused them before.
#[tokio::test(start_paused = true)]
async fn watches_that_break_soon_after_they_were_refused_are_opened_again_soon() {
    for code in [401, 403, 404, 429, 503] {
        let client = Client::new().await;
        let refusal = client.server.inject(On::any(), Fault::status(code));
        client.server.cut_all_watches();
        sleep_seconds(50.0).await;
        client.server.remove_fault(refusal);
        while client.server.open_watches("configmaps") < NAMESPACES {
            sleep_seconds(0.1).await;
        }
        client.server.cut_all_watches();
        client.change();

        let took = client.caught_up().await;

        assert!(took <= 5 * SECOND, "{took:?} after {code}");
        client.stop().await;
    }
}

/// Requests that no server answers any more, because their connections are lost.
#[tokio::test(start_paused = true)]
async fn requests_that_were_made_just_before_a_silent_server_answers_again_are_repeated_soon() {
    for length in [31.0, 35.0, 38.0, 100.0, 115.0] {
        let client = Client::new().await;
        let hang = client.server.inject(On::any(), Fault::Hang);
        client.server.cut_all_watches();
        sleep_seconds(length).await;
        client.server.remove_fault(hang);
        client.change();

        let took = client.caught_up().await;

        assert!(took <= 15 * SECOND, "{took:?} after {length} s");
        client.stop().await;
    }
}

/// P10: ten informers send no more requests than one.
#[tokio::test(start_paused = true)]
async fn during_an_outage_only_one_informer_of_a_client_tries_to_connect() {
    let client = Client::new().await;
    client.server.clear_requests();

    client.outage(60 * SECOND).await;

    let refused = client.server.requests().len();
    assert!(
        (30 + NAMESPACES..75 + NAMESPACES).contains(&refused),
        "{refused}: one every 0.8 to 2 s, and the first of each"
    );
    client.stop().await;
}

/// A starting kube-apiserver sends these answers before it has loaded its permissions.
#[tokio::test(start_paused = true)]
async fn requests_that_a_starting_server_refuses_are_retried_within_two_seconds() {
    for fault in [Fault::status(403), Fault::status(500), Fault::status(429)] {
        for down in [5, 1200] {
            let client = Client::new().await;
            let starting = client.server.inject(On::any(), fault.clone());
            client.outage(down * SECOND).await;
            // In a long outage, the attempts are far apart.
            client.reached().await;
            sleep_seconds(10.0).await;
            client.server.remove_fault(starting);

            let took = client.caught_up().await;

            assert!(took <= 5 * SECOND, "{took:?}: {fault:?} after {down} s");
            client.stop().await;
        }
    }
}

/// A kind that has failed for long, for reasons of its own, does not delay the others after an outage.
#[tokio::test(start_paused = true)]
async fn all_caches_equal_the_server_within_five_seconds_although_another_kind_fails_alone() {
    let outages = [(Fault::Drop, Fault::Refuse, 26.0), (Fault::status(500), Fault::status(503), 58.0)];
    for (alone, general, length) in outages {
        let client = Client::with_backoff(backoff_without_jitter()).await;
        let _secrets = client.factory.informer::<Secret>();
        client.factory.start();
        client.factory.synced().await.unwrap();
        client.server.inject(On::any().of("secrets"), alone.clone());
        client.server.cut_all_watches();
        sleep_seconds(600.0).await;
        let outage = client.server.inject(On::any().of("configmaps"), general.clone());
        client.server.cut_all_watches();
        sleep_seconds(length).await;
        client.server.remove_fault(outage);
        client.change();

        let took = client.caught_up().await;

        assert!(took <= 5 * SECOND, "{took:?}: {alone:?}, {general:?}");
        client.server.clear_faults();
        client.stop().await;
    }
}

/// P10: the short delays apply only after an outage.
#[tokio::test(start_paused = true)]
async fn while_the_server_refuses_all_requests_one_informer_of_a_client_asks_every_second_and_less_often_after_a_minute()
 {
    for code in [401, 429, 503] {
        let client = Client::new().await;
        client.server.inject(On::any(), Fault::status(code));
        client.server.cut_all_watches();
        let asked_within = async |seconds| {
            client.server.clear_requests();
            sleep_seconds(seconds).await;
            client.server.requests().len()
        };

        let (first, later) = (asked_within(60.0).await, asked_within(600.0).await);

        let once_each = NAMESPACES;
        assert!((30..75 + once_each).contains(&first), "{code}: {first}: one every 0.8 to 2 s, and the first of each");
        assert!(later < 60 * NAMESPACES, "{code}: {later} in ten minutes");
        client.server.clear_faults();
        client.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn all_caches_equal_the_server_within_five_seconds_after_a_minute_of_refusals() {
    for code in [401, 403, 429, 500, 503] {
        for verb in [On::any(), On::watch()] {
            let client = Client::new().await;
            let refusal = client.server.inject(verb.clone(), Fault::status(code));
            client.server.cut_all_watches();
            sleep_seconds(60.0).await;
            client.change();
            client.server.remove_fault(refusal);

            let took = client.caught_up().await;

            assert!(took <= 5 * SECOND, "{took:?}: {code} for {verb:?}");
            client.stop().await;
        }
    }
}

/// A server that cannot look up objects by name does not prove its history, but its watches work again.
#[tokio::test(start_paused = true)]
async fn all_caches_equal_the_server_within_five_seconds_after_refusals_if_lookups_are_refused_as_well() {
    for code in [400, 403] {
        let client = Client::new().await;
        client.server.inject(On::list(), Fault::status(code));
        let refusal = client.server.inject(On::watch(), Fault::status(503));
        client.server.cut_all_watches();
        sleep_seconds(40.0).await;
        client.change();
        client.server.remove_fault(refusal);

        let took = client.caught_up().await;

        assert!(took <= 5 * SECOND, "{took:?}: {code}");
        client.stop().await;
    }
}

/// A list is requested at most once a minute while watches are refused.
#[tokio::test(start_paused = true)]
async fn while_only_watches_are_refused_each_informer_lists_once_a_minute() {
    for code in [403, 404] {
        let client = Client::new().await;
        client.server.inject(On::watch(), Fault::status(code));
        client.server.cut_all_watches();
        client.server.clear_requests();

        sleep_seconds(190.0).await;

        let lists = full_lists(&client.server, "configmaps");
        assert!((2 * NAMESPACES..=4 * NAMESPACES).contains(&lists), "{code}: {lists}");
        client.change();
        sleep_seconds(90.0).await;
        assert!(client.caught_up().await < SECOND, "the lists keep the caches at most a minute behind: {code}");
        client.server.clear_faults();
        client.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_retry_after_of_an_overloaded_server_is_obeyed_by_all_informers() {
    let client = Client::new().await;
    client.server.clear_requests();
    let begun = Instant::now();
    client.server.inject(On::any().times(NAMESPACES), Fault::Status { code: 429, retry_after: Some(20) });
    client.server.cut_all_watches();
    client.change();

    client.caught_up().await;

    assert!(begun.elapsed() >= 20 * SECOND, "{:?}", begun.elapsed());
    assert!(client.server.requests().len() <= 6 * NAMESPACES, "{}", client.server.requests().len());
    client.stop().await;
}

/// RE-06 and HC-27 (differ from client-go)
#[tokio::test(start_paused = true)]
async fn an_outage_is_reported_once_by_each_informer_after_five_seconds_and_its_end_is_logged() {
    let logs = Logs::capture();
    let client = Client::new().await;
    logs.take();
    let begun = Instant::now();

    client.outage(60 * SECOND).await;
    client.caught_up().await;
    sleep_seconds(5.0).await;

    let errors = client.errors.lock().clone();
    assert_eq!(errors.len(), NAMESPACES, "{errors:?}");
    for (at, error) in errors {
        assert_eq!(((at - begun).as_secs(), error.as_str()), (5, "the connection was refused"));
    }
    let lines = logs.take();
    let ends: Vec<_> = lines.lines().filter(|line| line.contains("lists and watches succeed again")).collect();
    assert_eq!(ends.len(), NAMESPACES, "{lines}");
    assert!(ends.iter().all(|line| line.contains("INFO") && line.contains("outcome=\"resumed\"")), "{lines}");
    client.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_a_callback_an_outage_is_one_warning_that_names_the_cause() {
    let logs = Logs::capture();
    let server = ApiServer::new();
    let factory = SharedInformerFactory::new(client(&server));
    let leaks = Leaks::watch();
    factory.informer::<ConfigMap>();
    factory.start();
    factory.synced().await.unwrap();
    server.wait_for_watches("configmaps", 1).await;
    logs.take();

    let outage = server.inject(On::any(), Fault::Refuse);
    server.cut_all_watches();
    sleep_seconds(120.0).await;
    server.remove_fault(outage);
    sleep_seconds(10.0).await;

    let lines = logs.take();
    let warnings: Vec<_> = lines.lines().filter(|line| line.contains("WARN")).collect();
    assert_eq!(warnings.len(), 1, "{lines}");
    assert!(warnings[0].contains("the connection was refused"), "{lines}");
    assert_eq!(lines.lines().count(), 2, "{lines}");
    stop_factory(&factory, &leaks).await;
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_less_than_five_seconds_is_not_reported() {
    let logs = Logs::capture();
    // One informer tries after 0.8 s, and the others follow a second later.
    let client = Client::with_backoff(backoff_without_jitter()).await;
    logs.take();

    let outage = client.server.inject(On::any(), Fault::Refuse);
    client.server.cut_all_watches();
    sleep_seconds(0.5).await;
    client.server.remove_fault(outage);
    sleep_seconds(10.0).await;

    assert!(client.errors.lock().is_empty(), "{:?}", client.errors.lock());
    assert_eq!(logs.take(), "");
    client.stop().await;
}

/// A stopped server, or a connection that a firewall dropped: no data arrives, and no request fails.
#[tokio::test(start_paused = true)]
async fn a_silent_server_is_reported_after_36_seconds_and_watched_again_when_it_answers() {
    let client = Client::new().await;
    sleep_seconds(10.0).await;
    client.server.inject(On::watch(), Fault::freeze_after_events(0));
    client.server.cut_all_watches();
    sleep_seconds(5.0).await;
    assert!(client.factory.problems().is_empty());
    client.server.clear_faults();
    client.server.inject(On::list(), Fault::Hang);
    client.server.clear_requests();
    sleep_seconds(29.0).await;
    assert!(client.factory.problems().is_empty());
    sleep_seconds(2.0).await;
    assert_eq!(client.server.requests().len(), 2, "one informer asks for all: its own kind, and then another one");
    sleep_seconds(6.0).await;
    assert_eq!(client.errors.lock().len(), NAMESPACES, "each informer reports it");
    let text = client.errors.lock()[0].1.clone();
    assert!(text.contains("the connection was silent for 3"), "{text}");
    sleep_seconds(30.0).await;
    assert_eq!(client.errors.lock().len(), NAMESPACES, "once");

    let problems = client.factory.problems();
    assert_eq!(problems.len(), NAMESPACES);
    let Problem::Silent { confirmed_age, .. } = &problems[0] else { panic!("{problems:?}") };
    assert!(*confirmed_age >= 60 * SECOND, "{confirmed_age:?}");
    let text = problems[0].to_string();
    assert!(text.contains("its watch is silent, and the server does not answer"), "{text}");

    client.server.clear_faults();
    client.server.put("configmaps", config("n0/b")).unwrap();
    sleep_seconds(20.0).await;
    assert!(client.factory.problems().is_empty(), "{:?}", client.factory.problems());
    assert_eq!(client.informers[0].lister().len(), 2);
    client.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_reported_although_it_refused_questions_before() {
    for code in [401, 403, 404] {
        let client = Client::new().await;
        client.server.inject(On::watch(), Fault::NoBookmarks);
        client.server.cut_all_watches();
        let refusal = client.server.inject(On::list(), Fault::status(code));
        sleep_seconds(75.0).await;
        client.server.remove_fault(refusal);
        client.server.inject(On::any(), Fault::Hang);

        sleep_seconds(40.0).await;

        let problems = client.factory.problems();
        let silent = problems.iter().filter(|problem| matches!(problem, Problem::Silent { .. })).count();
        assert_eq!(silent, NAMESPACES, "{code}: {problems:?}");
        client.server.clear_faults();
        client.stop().await;
    }
}

/// The server answers, but the watch delivers nothing.
#[tokio::test(start_paused = true)]
async fn a_watch_that_does_not_deliver_the_servers_changes_is_opened_again() {
    let client = Client::new().await;
    client.server.inject(On::watch().times(NAMESPACES), Fault::freeze_after_events(0));
    client.server.cut_all_watches();
    sleep_seconds(5.0).await;
    client.server.put("configmaps", config("n0/b")).unwrap();

    sleep_seconds(60.0).await;
    assert_eq!(client.informers[0].lister().len(), 1, "not yet");
    sleep_seconds(90.0).await;

    assert_eq!(client.informers[0].lister().len(), 2);
    client.stop().await;
}

/// A request that is never answered costs 20 s, and less if the server did not answer at all and then does.
#[tokio::test(start_paused = true)]
async fn a_hanging_request_is_shown_after_ten_seconds_and_given_up() {
    let client = Client::new().await;
    client.server.inject(On::watch().times(NAMESPACES), Fault::Hang);
    client.server.cut_all_watches();
    sleep_seconds(16.0).await;
    let problems = client.factory.problems();
    let [Problem::Pending { request, .. }, ..] = &problems[..] else { panic!("{problems:?}") };
    assert_eq!((problems.len(), request.server_answers), (NAMESPACES, Some(true)));
    let text = problems[0].to_string();
    assert!(
        text.contains("opening a watch of configmaps in n0 has got no response from the server for 16 s"),
        "{text}"
    );
    assert!(text.ends_with("; it answers other requests"), "{text}");
    client.change();
    assert!(client.caught_up().await <= 10 * SECOND);

    let hanging = client.server.inject(On::any(), Fault::Hang);
    client.server.cut_all_watches();
    sleep_seconds(100.0).await;
    let text = client.factory.problems()[0].to_string();
    assert!(text.ends_with("; it does not answer other requests either"), "{text}");
    client.server.remove_fault(hanging);
    client.change();
    let took = client.caught_up().await;
    assert!(took <= 20 * SECOND, "{took:?}");
    client.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_hanging_check_of_the_history_is_shown_after_ten_seconds_and_given_up() {
    let client = Client::new().await;
    let hanging = client.server.inject(On::list().of("configmaps"), Fault::Hang);
    client.server.cut_all_watches();
    sleep_seconds(20.0).await;
    let problems = client.factory.problems();
    let [Problem::Pending { request, .. }, ..] = &problems[..] else { panic!("{problems:?}") };
    assert_eq!((problems.len(), request.operation), (NAMESPACES, Operation::CheckHistory));
    client.server.remove_fault(hanging);
    client.change();
    assert!(client.caught_up().await <= 40 * SECOND);
    assert!(client.factory.problems().is_empty());
    client.stop().await;
}

#[tokio::test(start_paused = true)]
async fn each_change_of_the_cause_of_an_outage_is_reported_once() {
    let client = Client::new().await;
    let reported = async |on: On, fault: Fault, seconds: f64| {
        let fault = client.server.inject(on, fault);
        client.server.cut_all_watches();
        sleep_seconds(seconds).await;
        client.server.remove_fault(fault);
        let errors = std::mem::take(&mut *client.errors.lock());
        errors.len()
    };
    assert_eq!(reported(On::any(), Fault::Refuse, 1.0).await, 0);
    sleep_seconds(30.0).await;
    assert_eq!(client.errors.lock().len(), 0);
    assert_eq!(reported(On::any(), Fault::Refuse, 20.0).await, NAMESPACES);
    assert_eq!(reported(On::any(), Fault::status(503), 100.0).await, NAMESPACES);
    assert_eq!(reported(On::watch(), Fault::status(403), 100.0).await, NAMESPACES);
    client.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_status_shows_when_the_cache_was_last_confirmed_to_be_current() {
    let client = Client::new().await;
    // The object of this informer was written last, so its cache has the server's version.
    let newest = client.informers.last().unwrap().clone();
    client.server.inject(On::watch(), Fault::NoBookmarks);
    client.server.cut_all_watches();
    sleep_seconds(25.0).await;
    let status = newest.status();
    assert_eq!(status.confirmed_age().unwrap().as_secs(), 25);

    sleep_seconds(45.0).await;
    let status = newest.status();
    assert!(
        status.confirmed_age().unwrap() < 45 * SECOND,
        "the informer asked the server: {:?}",
        status.confirmed_age()
    );
    assert!(status.source.last_event.unwrap().elapsed() >= 65 * SECOND, "no event has arrived");
    drop(newest);
    client.stop().await;
}

/// All bookmarks of this client come at the same time, once a minute.
#[tokio::test(start_paused = true)]
async fn a_quiet_server_is_asked_for_its_version_by_one_informer_of_a_client_twice_a_minute_at_most() {
    let client = Client::new().await;
    client.server.clear_requests();

    sleep_seconds(3600.0).await;

    let requests = client.server.requests();
    let questions = requests.iter().filter(|request| request.verb != Verb::Watch).count();
    assert!((1..=120).contains(&questions), "{questions}");
    client.stop().await;
}

/// Lists succeed and watches are refused: the failure lasts since the first refusal.
#[tokio::test(start_paused = true)]
async fn the_problem_of_an_informer_that_may_not_watch_dates_from_the_first_refusal_and_advises_to_grant_watch() {
    let server = ApiServer::new();
    server.put("configmaps", config("shop/a")).unwrap();
    server.inject(On::watch(), Fault::status(403));
    server.inject(On::watch_list(), Fault::status(403));
    let factory = SharedInformerFactory::builder(client(&server)).on_error(|_| {}).build();
    let leaks = Leaks::watch();
    factory.informer::<ConfigMap>();
    factory.start();
    factory.synced().await.unwrap();

    for minute in 1..5 {
        sleep_seconds(60.0).await;
        let problems = factory.problems();
        let [Problem::Failing { duration, .. }] = &problems[..] else { panic!("{problems:?}") };
        assert!(duration.as_secs() >= 60 * minute, "{duration:?}");
        let text = problems[0].to_string();
        assert!(text.contains("(grant the client's user `watch` on it)"), "{text}");
    }
    stop_factory(&factory, &leaks).await;
}

/// No permission was revoked: the server has only just started.
#[tokio::test(start_paused = true)]
async fn a_refusal_just_after_an_outage_is_not_reported_as_a_missing_permission() {
    let client = Client::new().await;
    client.server.inject(On::any(), Fault::status(403));
    client.outage(5 * SECOND).await;
    // One informer tries within two seconds, and the others within two more.
    sleep_seconds(5.0).await;

    let text = client.factory.problems()[0].to_string();

    assert!(text.contains("may still be starting") && !text.contains("grant"), "{text}");
    client.server.clear_faults();
    client.caught_up().await;
    client.stop().await;
}

//! The reflector over a TCP socket. These tests run on real time, since paused time would advance while a socket is read; they wait for
//! signals, and their backoff is a few milliseconds.

use std::{sync::Arc, time::Duration};

use informant::{
    Lazy,
    pipeline::{Backoff, KubeSource, Reflector},
};
use informant_apiserver::{ApiServer, CutAfter, CutEnding, Fault, Load, On};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};

use crate::support::reflector::{Recorder, Running, config_map, server_at_10, show_error, start};

fn client(address: std::net::SocketAddr, scheme: &str) -> kube::Client {
    let mut config = kube::Config::new(format!("{scheme}://{address}").parse().unwrap());
    // Retries of the client would hide those of the reflector, which are under test.
    config.default_retry = false;
    config.accept_invalid_certs = true;
    kube::Client::try_from(config).unwrap()
}

fn short_backoff() -> Backoff {
    Backoff::new(Duration::from_millis(5), Duration::from_millis(50))
}

async fn run_reflector(server: &ApiServer) -> (Running<Lazy<ConfigMap>>, informant_apiserver::Listening) {
    let listening = server.listen(([127, 0, 0, 1], 0)).await.unwrap();
    let recorder = Recorder::new();
    let source = KubeSource::of_kind::<ConfigMap>(client(listening.address(), "http"));
    (start(Reflector::builder(source).backoff(short_backoff()), recorder), listening)
}

#[tokio::test]
async fn a_reflector_lists_and_watches_over_a_socket() {
    let server = server_at_10();
    server.put("configmaps", config_map("a", "1")).unwrap();
    let (running, listening) = run_reflector(&server).await;
    running.wait_for_line("Replaced@11 [shop/a@11]").await;

    server.put("configmaps", config_map("b", "1")).unwrap();
    server.delete("configmaps", "shop/a").unwrap();
    running.wait_for_line("Deleted shop/a@13").await;
    assert_eq!(running.lines()[1..], ["Added shop/b@12", "Deleted shop/a@13"]);

    running.stop().await;
    server.wait_for_watches("configmaps", 0).await;
    listening.stop().await;
}

#[tokio::test]
async fn a_reflector_reconnects_after_broken_connections_and_loses_no_event() {
    let server = server_at_10();
    server.put("configmaps", config_map("a", "1")).unwrap();
    let endings = [
        Fault::Drop,
        Fault::cut_after_events(3),
        Fault::Cut { after: CutAfter::HalfLine(1), ending: CutEnding::Reset },
        Fault::Cut { after: CutAfter::Bytes(700), ending: CutEnding::Close },
        Fault::status(503),
        Fault::Garbage,
        Fault::ByteByByte,
    ];
    for (number, ending) in endings.into_iter().enumerate() {
        server.inject(On::watch().of("configmaps").skip(number).once(), ending);
    }
    let (running, listening) = run_reflector(&server).await;
    for number in 0..40 {
        server.put("configmaps", config_map(&format!("c{}", number % 7), &number.to_string())).unwrap();
        tokio::task::yield_now().await;
    }
    let expected = server.list("configmaps").unwrap().len();
    let last = format!("shop/c4@{}", server.version());
    running.recorder.wait_until(|_, state| state.len() == expected && state.contains(&last)).await;

    running.stop().await;
    listening.stop().await;
}

/// The server stops and listens again at the same address.
#[tokio::test]
async fn a_watch_resumes_after_a_restart_of_the_server() {
    let server = server_at_10();
    server.put("configmaps", config_map("a", "1")).unwrap();
    let (running, listening) = run_reflector(&server).await;
    running.wait_for_line("Replaced@11 [shop/a@11]").await;
    let address = listening.address();

    listening.stop().await;
    server.put("configmaps", config_map("b", "1")).unwrap();
    let mut handle = running.handle.clone();
    while !handle.changed().await.last_error.is_some_and(|error| show_error(&*error).contains("was refused")) {}
    let listening = server.listen(address).await.unwrap();
    running.wait_for_line("Added shop/b@12").await;
    assert_eq!(running.handle.status().lists, 1, "the reflector does not relist");

    running.stop().await;
    listening.stop().await;
}

/// The client uses TLS, the server does not.
#[tokio::test]
async fn a_tls_failure_is_reported() {
    let server = server_at_10();
    let listening = server.listen(([127, 0, 0, 1], 0)).await.unwrap();
    let recorder = Recorder::<ConfigMap>::new();
    let source = KubeSource::of_kind::<ConfigMap>(client(listening.address(), "https"));
    let builder = Reflector::builder(source).backoff(short_backoff()).without_streaming();
    let running = start(builder, recorder);
    let mut handle = running.handle.clone();
    while handle.changed().await.last_error.is_none() {}

    let error = running.last_error();
    assert!(error.starts_with("listing configmaps failed: the server cannot be reached: "), "{error}");
    assert!(error.to_lowercase().contains("tls") || error.contains("InvalidContentType"), "{error}");
    running.stop().await;
    listening.stop().await;
}

/// The responses arrive in chunks of any size.
#[tokio::test]
async fn a_list_and_a_streamed_list_of_two_thousand_pods_arrive_over_a_socket() {
    let server = ApiServer::new();
    let _load = Load::of("pods", 2000).seed(7).fill(&server).await.unwrap();
    let listening = server.listen(([127, 0, 0, 1], 0)).await.unwrap();
    let mut expected: Vec<_> = server
        .list("pods")
        .unwrap()
        .iter()
        .map(|pod| {
            let text = |field: &str| pod["metadata"][field].as_str().unwrap().to_owned();
            format!("{}/{}@{}", text("namespace"), text("name"), text("resourceVersion"))
        })
        .collect();
    expected.sort();
    for streams in [true, false] {
        let recorder = Recorder::<Pod>::new();
        let source = KubeSource::of_kind::<Pod>(client(listening.address(), "http"));
        let builder = Reflector::builder(source).known_objects(Arc::new(recorder.clone()));
        let running = start(if streams { builder } else { builder.without_streaming() }, recorder);
        running.recorder.wait_until(|_, state| state.len() == 2000).await;

        let mut state = running.recorder.state();
        state.sort();
        assert_eq!(state, expected);
        assert!(running.errors().is_empty() && running.handle.quarantined().is_empty());
        running.stop().await;
    }
    listening.stop().await;
}

//! Every fault from the view of a client, in-process and through a socket.

use std::time::Duration;

use flate2::read::MultiGzDecoder;
use http::Method;
use informant_apiserver::{ApiServer, CannedResponse, CutAfter, CutEnding, Fault, GzipMode, On, Verb};
use serde_json::{Value, json};
use std::io::Read;

use crate::support::{Lines, Web, both_ways, short};

const PATH: &str = "/api/v1/namespaces/shop/configmaps";

async fn in_process(promise: impl AsyncFnOnce(Web, ApiServer)) {
    let server = ApiServer::builder().allow_missing_namespaces().build();
    promise(Web::in_process(&server), server).await;
}

async fn through_a_socket(promise: impl AsyncFnOnce(Web, ApiServer)) {
    let server = ApiServer::builder().allow_missing_namespaces().build();
    let listening = server.listen(([127, 0, 0, 1], 0)).await.unwrap();
    promise(Web::at(&listening.url()), server).await;
    listening.stop().await;
}

both_ways! {
    a_refused_request_gets_no_answer
    a_dropped_request_gets_no_answer
    a_write_whose_answer_is_lost_has_happened
    a_request_that_hangs_gets_no_answer_and_no_end
    a_delayed_answer_comes_later
    an_error_of_any_code_is_answered_and_nothing_is_done
    an_error_event_ends_a_watch
    an_answer_is_whatever_a_test_wants
    a_line_is_whatever_a_test_wants
    faults_strike_one_after_the_other
    requests_that_are_not_understood_count_too
    a_watch_is_cut_after_events
    a_stream_is_cut_after_bytes
    a_watch_is_cut_in_the_middle_of_a_line
    a_list_is_cut
    a_frozen_watch_says_nothing_more_and_does_not_end
    every_byte_travels_alone
    a_line_travels_in_pieces
    lines_travel_together
    a_watch_is_compressed_event_by_event
    a_compressed_watch_is_for_those_who_accept_it
    garbage_comes_in_place_of_an_answer
    a_truncated_answer_ends_cleanly
    an_answer_is_of_the_wrong_kind
    one_item_does_not_decode
    a_streaming_list_is_refused
    a_streaming_list_fails_inside_of_its_stream
    a_streaming_list_never_marks_its_end
    a_continue_token_expires
    a_replica_lags_behind
    faults_add_up
    a_fault_strikes_one_namespace_or_one_object
}

/// Three objects: a, b and c.
fn seed(server: &ApiServer) -> u64 {
    let start = server.version();
    for name in ["a", "b", "c"] {
        put(server, name, "red");
    }
    start
}

fn put(server: &ApiServer, name: &str, colour: &str) {
    let object = json!({"metadata": {"namespace": "shop", "name": name}, "data": {"colour": colour}});
    server.put("configmaps", object).unwrap();
}

/// All complete lines of a stream, and true if it ended cleanly.
async fn drain(lines: &mut Lines) -> (Vec<String>, bool) {
    let mut seen = Vec::new();
    loop {
        match lines.try_next().await {
            Ok(Some(event)) => seen.push(short(&event)),
            Ok(None) => return (seen, true),
            Err(_) => return (seen, false),
        }
    }
}

/// Checks that nothing arrives before the timeout.
async fn assert_silent(lines: &mut Lines) {
    let next = tokio::time::timeout(Duration::from_millis(50), lines.try_next()).await;
    assert!(next.is_err(), "{next:?}");
}

async fn a_refused_request_gets_no_answer(web: Web, server: ApiServer) {
    server.inject(On::list().times(1), Fault::Refuse);

    assert!(web.try_get(PATH).await.is_err());
    assert_eq!(web.get(PATH).await.code, 200);
}

async fn a_dropped_request_gets_no_answer(web: Web, server: ApiServer) {
    server.inject(On::writes().once(), Fault::Drop);

    let sent = web.respond(Method::POST, PATH, r#"{"metadata":{"name":"a"}}"#.into(), &[]).await;

    assert!(sent.is_err());
    assert_eq!(server.list("configmaps").unwrap().len(), 0, "the request is not carried out");
}

async fn a_write_whose_answer_is_lost_has_happened(web: Web, server: ApiServer) {
    let rule = server.inject(On::writes().of("configmaps").times(3), Fault::LoseResponse);
    let place = format!("{PATH}/a");
    let object = |colour: &str| json!({"metadata": {"name": "a"}, "data": {"colour": colour}}).to_string();

    assert!(web.respond(Method::POST, PATH, object("red"), &[]).await.is_err());
    assert_eq!(server.get("configmaps", "shop/a").unwrap()["data"]["colour"], "red");
    assert!(web.respond(Method::PUT, &place, object("blue"), &[]).await.is_err());
    assert_eq!(server.get("configmaps", "shop/a").unwrap()["data"]["colour"], "blue");
    assert!(web.respond(Method::DELETE, &place, String::new(), &[]).await.is_err());
    assert_eq!(server.count("configmaps").unwrap(), 0);
    assert_eq!(server.fault_hits(rule), Some(3));
    assert_eq!(web.get(PATH).await.code, 200);
}

async fn a_request_that_hangs_gets_no_answer_and_no_end(web: Web, server: ApiServer) {
    server.inject(On::list().once(), Fault::Hang);

    let hangs = tokio::time::timeout(Duration::from_millis(50), web.try_get(PATH)).await;

    assert!(hangs.is_err(), "{hangs:?}");
    assert_eq!(web.get(PATH).await.code, 200);
}

async fn a_delayed_answer_comes_later(web: Web, server: ApiServer) {
    server.inject(On::list().once(), Fault::Delay(Duration::from_millis(30)));
    let start = tokio::time::Instant::now();

    assert_eq!(web.get(PATH).await.code, 200);

    assert!(start.elapsed() >= Duration::from_millis(30));
}

async fn an_error_of_any_code_is_answered_and_nothing_is_done(web: Web, server: ApiServer) {
    let reasons = [
        (401, "Unauthorized"),
        (403, "Forbidden"),
        (404, "NotFound"),
        (410, "Expired"),
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (503, "ServiceUnavailable"),
    ];
    for (code, reason) in reasons {
        server.inject(On::writes().once(), Fault::status(code));
        let refused = web.post(PATH, &json!({"metadata": {"name": "a"}})).await;

        assert_eq!(refused.failure(), (code, reason));
        assert_eq!(refused.headers.get("retry-after"), None);
    }
    assert_eq!(server.list("configmaps").unwrap(), Vec::<Value>::new());

    server.inject(On::any().once(), Fault::too_many_requests(Duration::from_secs(7)));
    let throttled = web.get(&format!("{PATH}?watch=true")).await;
    assert_eq!(throttled.failure(), (429, "TooManyRequests"));
    assert_eq!(throttled.headers["retry-after"], "7");
    assert_eq!(throttled.body["details"]["retryAfterSeconds"], 7);
}

async fn an_error_event_ends_a_watch(web: Web, server: ApiServer) {
    let start = seed(&server);
    for (code, after) in [(410, 0), (500, 2), (429, 1)] {
        server.inject(On::watch().once(), Fault::ErrorEvent { code, after });
        let mut watch = web.watch(PATH, &format!("resourceVersion={start}")).await;

        for _ in 0..after {
            assert_eq!(watch.next().await.unwrap()["type"], "ADDED");
        }
        let error = watch.next().await.unwrap();
        assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(code)));
        assert_eq!(error["object"]["kind"], "Status");
        assert_eq!(watch.next().await, None);
    }
}

async fn an_answer_is_whatever_a_test_wants(web: Web, server: ApiServer) {
    let body = json!({"kind": "Status", "message": "Too large resource version: 7", "code": 504}).to_string();
    server.inject(On::list().once(), Fault::Response(CannedResponse::new(504, body)));
    let elsewhere = CannedResponse::new(302, "").header("location", "/elsewhere").header("content-type", "text/plain");
    server.inject(On::watch().once(), Fault::Response(elsewhere));

    let timeout = web.get(PATH).await;
    assert_eq!((timeout.code, timeout.text("/message")), (504, "Too large resource version: 7"));
    let moved = web.get(&format!("{PATH}?watch=true")).await;
    assert_eq!((moved.code, &moved.headers["location"]), (302, &"/elsewhere".parse().unwrap()));
    assert_eq!(moved.headers.get_all("content-type").iter().count(), 1);
}

async fn a_line_is_whatever_a_test_wants(web: Web, server: ApiServer) {
    seed(&server);
    server.inject(On::watch(), Fault::ExtraLine { after: 1, text: "{\"type\":\"STRANGE\",\"object\":{}}\n".into() });
    server.inject(On::watch(), Fault::ExtraLine { after: 4, text: "half".into() });

    let mut watch = web.watch(PATH, "resourceVersion=0&timeoutSeconds=1").await;

    assert_eq!(watch.take(4).await, ["ADDED a", "STRANGE -", "ADDED b", "ADDED c"]);
    assert_eq!(watch.next().await, None);
    assert_eq!(watch.unfinished(), b"half");
}

async fn faults_strike_one_after_the_other(web: Web, server: ApiServer) {
    server.inject_each(&On::list(), [500, 503, 429].map(Fault::status));

    let mut codes = Vec::new();
    for _ in 0..4 {
        codes.push(web.get(PATH).await.code);
    }

    assert_eq!(codes, [500, 503, 429, 200]);
    server.inject_each(&On::list().skip(1), [500, 503].map(Fault::status));
    let skipped = [web.get(PATH).await.code, web.get(PATH).await.code, web.get(PATH).await.code];
    assert_eq!(skipped, [200, 500, 503]);
}

async fn requests_that_are_not_understood_count_too(web: Web, server: ApiServer) {
    server.inject(On::any().once(), Fault::status(503));

    let posted = web.post(&format!("{PATH}/a"), &json!({})).await;
    let again = web.post(&format!("{PATH}/a"), &json!({})).await;

    assert_eq!((posted.code, again.code), (503, 405));
    let requests = server.requests();
    assert_eq!((requests.len(), requests[0].verb), (2, Verb::Other));
    assert!(requests[0].to_string().starts_with("POST "), "{}", requests[0]);
}

async fn a_watch_is_cut_after_events(web: Web, server: ApiServer) {
    let start = seed(&server);
    for (events, ending) in [(0, CutEnding::Close), (2, CutEnding::Close), (0, CutEnding::Reset), (2, CutEnding::Reset)]
    {
        server.inject(On::watch().once(), Fault::Cut { after: CutAfter::Events(events), ending });
        let mut watch = web.watch(PATH, &format!("resourceVersion={start}")).await;

        let (seen, is_complete) = drain(&mut watch).await;

        assert_eq!(seen, ["ADDED a", "ADDED b"][..events]);
        assert_eq!(is_complete, ending == CutEnding::Close);
    }
    // The watch closes when its stream is cut.
    assert_eq!(server.open_watches("configmaps"), 0);
}

async fn a_stream_is_cut_after_bytes(web: Web, server: ApiServer) {
    let start = seed(&server);
    for bytes in [0, 1, 40, 500] {
        server.inject(On::watch().once(), Fault::Cut { after: CutAfter::Bytes(bytes), ending: CutEnding::Close });
        let mut watch = web.watch(PATH, &format!("resourceVersion={start}")).await;

        let mut read = 0;
        while let Some(piece) = watch.piece().await {
            read += piece.unwrap().len();
        }
        assert_eq!(read, bytes);
    }
}

async fn a_watch_is_cut_in_the_middle_of_a_line(web: Web, server: ApiServer) {
    let start = seed(&server);
    for ending in [CutEnding::Close, CutEnding::Reset] {
        server.inject(On::watch().once(), Fault::Cut { after: CutAfter::HalfLine(1), ending });
        let mut watch = web.watch(PATH, &format!("resourceVersion={start}")).await;

        let (seen, is_complete) = drain(&mut watch).await;

        assert_eq!((seen, is_complete), (vec!["ADDED a".to_owned()], ending == CutEnding::Close));
        assert!(watch.unfinished().starts_with(br#"{"type":"ADDED","object":{"kind":"ConfigMap""#));
    }
}

async fn a_list_is_cut(web: Web, server: ApiServer) {
    seed(&server);
    server.inject(On::list().once(), Fault::Cut { after: CutAfter::Bytes(100), ending: CutEnding::Reset });

    assert!(web.try_get(PATH).await.is_err());
    assert_eq!(web.get(PATH).await.names(), ["a", "b", "c"]);
}

async fn a_frozen_watch_says_nothing_more_and_does_not_end(web: Web, server: ApiServer) {
    let start = seed(&server);
    server.inject(On::watch().once(), Fault::freeze_after_events(2));
    let mut watch = web.watch(PATH, &format!("resourceVersion={start}")).await;

    assert_eq!(watch.take(2).await, ["ADDED a", "ADDED b"]);
    put(&server, "d", "red");

    assert_silent(&mut watch).await;
    assert_eq!(server.open_watches("configmaps"), 1, "the watch counts as open until the client disconnects");
    drop(watch);
    server.wait_for_watches("configmaps", 0).await;
}

async fn every_byte_travels_alone(web: Web, server: ApiServer) {
    seed(&server);
    server.inject(On::any(), Fault::ByteByByte);

    assert_eq!(web.get(PATH).await.names(), ["a", "b", "c"]);

    let mut watch = web.watch(PATH, "resourceVersion=0").await;
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        let piece = watch.piece().await.unwrap().unwrap();
        assert_eq!(piece.len(), 1);
        line.extend_from_slice(&piece);
    }
    assert_eq!(short(&serde_json::from_slice(&line).unwrap()), "ADDED a");
}

async fn a_line_travels_in_pieces(web: Web, server: ApiServer) {
    seed(&server);
    server.inject(On::watch(), Fault::Split { pieces: 5 });

    let mut watch = web.watch(PATH, "resourceVersion=0").await;
    let mut pieces = Vec::new();
    for _ in 0..5 {
        pieces.push(watch.piece().await.unwrap().unwrap());
    }

    assert!(pieces[..4].iter().all(|piece| !piece.contains(&b'\n')));
    assert_eq!(short(&serde_json::from_slice(&pieces.concat()).unwrap()), "ADDED a");
    assert_eq!(watch.take(2).await, ["ADDED b", "ADDED c"]);
}

async fn lines_travel_together(web: Web, server: ApiServer) {
    seed(&server);
    server.inject(On::watch(), Fault::Pack { lines: 2 });

    let mut watch = web.watch(PATH, "resourceVersion=0").await;
    let count = |piece: &[u8]| piece.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(count(&watch.piece().await.unwrap().unwrap()), 2);
    assert_eq!(count(&watch.piece().await.unwrap().unwrap()), 1, "the last line is sent alone");

    put(&server, "d", "red");
    assert_eq!(watch.next_short().await, "ADDED d");
}

async fn a_watch_is_compressed_event_by_event(web: Web, server: ApiServer) {
    seed(&server);
    server.inject(On::watch(), Fault::Gzip(GzipMode::Always));
    server.inject(On::watch(), Fault::Cut { after: CutAfter::Events(3), ending: CutEnding::Close });

    let mut watch = web.watch(PATH, "resourceVersion=0").await;
    assert_eq!(watch.headers["content-encoding"], "gzip");
    let mut zipped = Vec::new();
    while let Some(piece) = watch.piece().await {
        let piece = piece.unwrap();
        assert!(piece.starts_with(&[0x1f, 0x8b]), "each event is a separate gzip member");
        zipped.extend_from_slice(&piece);
    }

    let mut text = String::new();
    MultiGzDecoder::new(&*zipped).read_to_string(&mut text).unwrap();
    let events = text.lines().map(|line| short(&serde_json::from_str(line).unwrap())).collect::<Vec<_>>();
    assert_eq!(events, ["ADDED a", "ADDED b", "ADDED c"]);
}

async fn a_compressed_watch_is_for_those_who_accept_it(web: Web, server: ApiServer) {
    seed(&server);
    server.inject(On::watch(), Fault::Gzip(GzipMode::IfAccepted));

    let plain = web.watch_with(PATH, "resourceVersion=0", &[("accept-encoding", "identity")]).await;
    let zipped = web.watch_with(PATH, "resourceVersion=0", &[("accept-encoding", "gzip, br")]).await;

    assert_eq!(plain.headers.get("content-encoding"), None);
    assert_eq!(zipped.headers["content-encoding"], "gzip");
}

async fn garbage_comes_in_place_of_an_answer(web: Web, server: ApiServer) {
    seed(&server);
    server.inject(On::any(), Fault::Garbage);

    let list = web.get(PATH).await;
    assert_eq!((list.code, &list.headers["content-type"]), (200, &"text/html".parse().unwrap()));
    assert!(list.body.as_str().unwrap().starts_with("<html>"));

    let mut watch = web.watch(PATH, "resourceVersion=0").await;
    assert!(watch.next().await.unwrap().as_str().unwrap().starts_with("<html>"));
    assert_eq!(watch.next_short().await, "ADDED a");
}

async fn a_truncated_answer_ends_cleanly(web: Web, server: ApiServer) {
    seed(&server);
    server.inject(On::any(), Fault::Truncate);

    let list = web.get(PATH).await;
    assert!(list.body.as_str().unwrap().starts_with(r#"{"kind":"ConfigMapList""#), "the truncated body is not JSON");

    let mut watch = web.watch(PATH, "resourceVersion=0").await;
    assert_eq!(drain(&mut watch).await, (vec![], true));
    assert!(watch.unfinished().starts_with(br#"{"type":"ADDED""#));
}

async fn an_answer_is_of_the_wrong_kind(web: Web, server: ApiServer) {
    seed(&server);
    server.inject(On::any(), Fault::WrongKind);

    let list = web.get(PATH).await;
    assert_eq!((list.text("/kind"), list.text("/apiVersion")), ("WrongList", "example.com/v1"));
    assert_eq!((list.text("/items/0/kind"), list.text("/items/0/apiVersion")), ("Wrong", "example.com/v1"));
    assert_eq!(list.names(), ["a", "b", "c"]);
    assert_eq!(web.get(&format!("{PATH}/a")).await.text("/kind"), "Wrong");

    let mut watch = web.watch(PATH, "resourceVersion=0").await;
    let event = watch.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["kind"]), (&json!("ADDED"), &json!("Wrong")));
}

async fn one_item_does_not_decode(web: Web, server: ApiServer) {
    seed(&server);
    server.inject(On::any(), Fault::BadItem { field: "metadata.labels".into() });
    server.inject(On::any(), Fault::BadItem { field: "spec.containers".into() });

    let list = web.get(PATH).await;
    let bad = |item: &Value| (item["metadata"]["labels"] == false, item["spec"]["containers"] == false);
    let items = list.body["items"].as_array().unwrap().iter().map(bad).collect::<Vec<_>>();
    assert_eq!(items, [(true, true), (false, false), (false, false)]);
    assert_eq!(list.names(), ["a", "b", "c"], "the damaged object still has its name");

    let mut watch = web.watch(PATH, "resourceVersion=0").await;
    assert_eq!(bad(&watch.next().await.unwrap()["object"]), (true, true));
    assert_eq!(bad(&watch.next().await.unwrap()["object"]), (false, false));
}

const STREAMING: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

async fn a_streaming_list_is_refused(web: Web, server: ApiServer) {
    seed(&server);
    server.inject(On::any(), Fault::WatchListRefused);

    let refused = web.get(&format!("{PATH}?watch=true&{STREAMING}")).await;
    assert_eq!(refused.failure(), (422, "Invalid"));
    assert_eq!(refused.text("/details/causes/0/field"), "sendInitialEvents");
    let why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
    assert_eq!(refused.text("/details/causes/0/message"), format!("Forbidden: {why}"));

    let mut plain = web.watch(PATH, "resourceVersion=0").await;
    assert_eq!(plain.next_short().await, "ADDED a", "other watches work");
}

async fn a_streaming_list_fails_inside_of_its_stream(web: Web, server: ApiServer) {
    seed(&server);
    server.inject(On::any(), Fault::WatchListFails);

    let mut watch = web.watch(PATH, STREAMING).await;
    let error = watch.next().await.unwrap();
    assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(500)));
    assert_eq!(watch.next().await, None);

    let mut plain = web.watch(PATH, "resourceVersion=0").await;
    assert_eq!(plain.next_short().await, "ADDED a", "other watches work");
}

async fn a_streaming_list_never_marks_its_end(web: Web, server: ApiServer) {
    seed(&server);
    server.inject(On::any(), Fault::WatchListNeverEnds);

    let mut watch = web.watch(PATH, STREAMING).await;
    assert_eq!(watch.take(3).await, ["ADDED a", "ADDED b", "ADDED c"]);
    assert_silent(&mut watch).await;
    put(&server, "d", "red");
    assert_eq!(watch.next_short().await, "ADDED d");
}

async fn a_continue_token_expires(web: Web, server: ApiServer) {
    seed(&server);
    server.inject(On::list().once(), Fault::ExpireToken);

    let first = web.get(&format!("{PATH}?limit=1")).await;
    let token = first.text("/metadata/continue");
    let expired = web.get(&format!("{PATH}?limit=1&continue={token}")).await;

    assert_eq!(expired.failure(), (410, "Expired"));
    let rest = web.get(&format!("{PATH}?limit=5&continue={}", expired.text("/metadata/continue"))).await;
    assert_eq!(rest.names(), ["b", "c"], "the token in the error continues at the newest version");
}

async fn a_replica_lags_behind(web: Web, server: ApiServer) {
    let set = |replicas: u32| json!({"metadata": {"namespace": "shop", "name": "web"}, "spec": {"replicas": replicas}});
    server.put("replicasets", set(1)).unwrap();
    server.put("replicasets", set(2)).unwrap();
    let rule = server.inject(On::any(), Fault::Stale { versions: 1 });
    let scale = web.get("/apis/apps/v1/namespaces/shop/replicasets/web/scale?resourceVersion=0").await;
    assert_eq!(scale.body["spec"]["replicas"], 1, "a scale is stale too: {scale:?}");
    server.remove_fault(rule);
    seed(&server);
    let now = server.version();
    let rule = server.inject(On::any(), Fault::Stale { versions: 2 });

    let any = web.get(&format!("{PATH}?resourceVersion=0")).await;
    assert_eq!((any.names(), any.version()), (vec!["a"], now - 2));
    let newest = web.get(PATH).await;
    assert_eq!(
        (newest.names(), newest.version()),
        (vec!["a", "b", "c"], now),
        "a read of the newest state is not stale"
    );
    assert_eq!(web.get(&format!("{PATH}?resourceVersion={now}")).await.failure(), (504, "Timeout"));
    assert_eq!(web.get(&format!("{PATH}/c?resourceVersion=0")).await.code, 404);
    assert_eq!(web.get(&format!("{PATH}/c")).await.code, 200);

    let mut watch = web.watch(PATH, &format!("resourceVersion={}", now - 2)).await;
    put(&server, "d", "red");
    assert_eq!(watch.next_short().await, "ADDED b", "later events lag as well");
    assert_silent(&mut watch).await;
    server.remove_fault(rule);
    assert_eq!(web.get(&format!("{PATH}?resourceVersion=0")).await.names().len(), 4);
}

async fn faults_add_up(web: Web, server: ApiServer) {
    let start = seed(&server);
    server.inject(On::watch(), Fault::Delay(Duration::from_millis(10)));
    server.inject(On::watch(), Fault::Split { pieces: 3 });
    server.inject(On::watch(), Fault::Cut { after: CutAfter::Events(2), ending: CutEnding::Close });
    server.inject(On::watch(), Fault::BadItem { field: "data".into() });

    let mut watch = web.watch(PATH, &format!("resourceVersion={start}")).await;
    assert!(!watch.piece().await.unwrap().unwrap().contains(&b'\n'));
    let mut watch = web.watch(PATH, &format!("resourceVersion={start}")).await;

    assert_eq!(watch.next().await.unwrap()["object"]["data"], false);
    assert_eq!(drain(&mut watch).await, (vec!["ADDED b".to_owned()], true));
    assert_eq!(web.send(Method::GET, PATH, None, &[]).await.names().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_stop_on_command() {
    let server = ApiServer::new();
    seed(&server);
    server.inject(On::watch(), Fault::NoBookmarks);
    let mut watch = Web::in_process(&server).watch(PATH, &format!("{STREAMING}&timeoutSeconds=600")).await;

    let (seen, _) = drain(&mut watch).await;

    assert_eq!(
        seen,
        ["ADDED a", "ADDED b", "ADDED c", "BOOKMARK -"],
        "the bookmark after the initial objects is still sent"
    );
}

#[tokio::test(start_paused = true)]
async fn a_frozen_watch_outlasts_its_own_time() {
    let server = ApiServer::new();
    let start = seed(&server);
    server.inject(On::watch(), Fault::freeze_after_events(3));
    let mut watch = Web::in_process(&server).watch(PATH, &format!("resourceVersion={start}&timeoutSeconds=10")).await;
    watch.take(3).await;

    let next = tokio::time::timeout(Duration::from_secs(1_000_000), watch.try_next()).await;

    assert!(next.is_err(), "{next:?}");
}

/// A list of several chunks; one chunk has 64 KiB.
fn large(server: &ApiServer) {
    for number in 0..50 {
        put(server, &format!("map-{number:02}"), &"x".repeat(10_000));
    }
}

#[tokio::test]
async fn a_long_list_travels_in_pieces_and_is_cut_truncated_and_rewritten_as_a_whole() {
    let server = ApiServer::new();
    large(&server);
    let web = Web::in_process(&server);
    let pieces = async || {
        let response = web.respond(Method::GET, PATH, String::new(), &[]).await.unwrap();
        let mut body = Lines::from(response);
        let mut pieces = Vec::new();
        while let Some(Ok(piece)) = body.piece().await {
            pieces.push(piece.len());
        }
        pieces
    };
    let whole = pieces().await;
    assert!(whole.len() > 5 && whole.iter().all(|piece| *piece < 100_000), "{whole:?}");

    server.inject(On::list().once(), Fault::Truncate);
    let truncated = pieces().await;
    let (last, others) = whole.split_last().unwrap();
    assert_eq!(truncated, [others, &[last / 2]].concat(), "half of the last chunk is missing");

    server.inject(On::list().once(), Fault::Cut { after: CutAfter::Bytes(200_000), ending: CutEnding::Close });
    assert_eq!(pieces().await.iter().sum::<usize>(), 200_000);

    server.inject(On::list().once(), Fault::BadItem { field: "data".into() });
    let list = web.get(PATH).await;
    assert_eq!((&list.body["items"][0]["data"], list.names().len()), (&json!(false), 50));

    server.inject(On::list().once(), Fault::Gzip(GzipMode::Always));
    let zipped = web.respond(Method::GET, PATH, String::new(), &[]).await.unwrap();
    assert_eq!(zipped.headers()["content-encoding"], "gzip");
    let mut text = String::new();
    let body = http_body_util::BodyExt::collect(zipped.into_body()).await.unwrap().to_bytes();
    MultiGzDecoder::new(&*body).read_to_string(&mut text).unwrap();
    assert_eq!(text.len(), whole.iter().sum::<usize>());
}

#[tokio::test(start_paused = true)]
async fn a_hanging_request_outlasts_every_patience() {
    let server = ApiServer::new();
    server.inject(On::any(), Fault::Hang);

    let hangs = tokio::time::timeout(Duration::from_secs(1_000_000), Web::in_process(&server).try_get(PATH)).await;

    assert!(hangs.is_err());
}

#[tokio::test]
async fn chance_is_repeated_by_the_seed_of_the_server() {
    let run = async |seed| {
        let server = ApiServer::builder().seed(seed).build();
        server.inject(On::list().with_probability(0.5), Fault::status(500));
        let web = Web::in_process(&server);
        let mut codes = Vec::new();
        for _ in 0..40 {
            codes.push(web.get(PATH).await.code);
        }
        codes
    };

    let first = run(7).await;
    assert_eq!(first, run(7).await);
    assert_ne!(first, run(8).await);
    assert!(first.contains(&200) && first.contains(&500));
}

#[tokio::test]
async fn faults_are_counted_removed_and_healed() {
    let server = ApiServer::new();
    let web = Web::in_process(&server);
    let first = server.inject(On::list().of("configmaps"), Fault::status(500));
    let second = server.inject(On::list().of("configmaps"), Fault::status(503));

    assert_eq!(web.get(PATH).await.code, 500, "the first rule wins");
    assert_eq!((server.fault_hits(first), server.fault_hits(second)), (Some(1), Some(1)));
    server.remove_fault(first);
    assert_eq!(web.get(PATH).await.code, 503);
    assert_eq!((server.fault_hits(first), server.fault_hits(second)), (None, Some(2)));
    server.clear_faults();
    assert_eq!(web.get(PATH).await.code, 200);
    assert_eq!(server.requests()[1].faults, [Fault::status(503)]);
}

async fn a_fault_strikes_one_namespace_or_one_object(web: Web, server: ApiServer) {
    for namespace in ["bank", "shop"] {
        server.put("configmaps", json!({"metadata": {"namespace": namespace, "name": "a"}})).unwrap();
        server.put("configmaps", json!({"metadata": {"namespace": namespace, "name": "b"}})).unwrap();
    }
    let path = |namespace: &str| format!("/api/v1/namespaces/{namespace}/configmaps");
    server.inject(On::list().of("configmaps").in_namespace("bank"), Fault::forbidden());
    server.inject(On::any().of("configmaps").named("b"), Fault::status(503));

    assert_eq!(web.get(&path("bank")).await.code, 403);
    assert_eq!(web.get(&path("shop")).await.code, 200);
    assert_eq!(web.get("/api/v1/configmaps").await.code, 200);
    assert_eq!(web.get(&format!("{}/a", path("bank"))).await.code, 200);
    assert_eq!(web.get(&format!("{}/b", path("shop"))).await.code, 503);
    assert_eq!(web.get(&format!("{}?fieldSelector=metadata.name%3Db", path("shop"))).await.code, 503);
}

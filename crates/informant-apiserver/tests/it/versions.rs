//! Versions and history: compaction, limits and restored backups, and their effects on watches.

use std::time::Duration;

use informant_apiserver::{ApiServer, Kind};
use serde_json::json;

use crate::support::Web;

const PATH: &str = "/api/v1/namespaces/shop/configmaps";

fn put(server: &ApiServer, name: &str, colour: &str) -> u64 {
    let object = json!({"metadata": {"namespace": "shop", "name": name}, "data": {"colour": colour}});
    crate::support::version(&server.put("configmaps", object).unwrap())
}

fn server_with_three() -> (ApiServer, Web) {
    let server = ApiServer::new();
    for name in ["a", "b", "c"] {
        put(&server, name, "red");
    }
    let web = Web::in_process(&server);
    (server, web)
}

#[tokio::test]
async fn a_compacted_version_has_expired_for_lists_and_tokens() {
    let (server, web) = server_with_three();
    let then = server.version();
    let page = web.get(&format!("{PATH}?limit=1")).await;
    put(&server, "d", "red");
    server.compact();

    let exact = web.get(&format!("{PATH}?resourceVersion={then}&resourceVersionMatch=Exact")).await;
    let next = web.get(&format!("{PATH}?limit=1&continue={}", page.text("/metadata/continue"))).await;

    assert_eq!(exact.failure(), (410, "Expired"));
    assert_eq!(next.failure(), (410, "Expired"));
    assert_eq!(web.get(&format!("{PATH}?resourceVersion={then}")).await.names(), ["a", "b", "c", "d"], "newer is fine");
    let rest = web.get(&format!("{PATH}?continue={}", next.text("/metadata/continue"))).await;
    assert_eq!((rest.names(), rest.version()), (vec!["b", "c", "d"], server.version()));
}

#[tokio::test]
async fn compaction_does_not_touch_open_watches() {
    let (server, web) = server_with_three();
    let mut watch = web.watch(PATH, &format!("resourceVersion={}", server.version())).await;

    put(&server, "d", "red");
    server.compact();
    put(&server, "e", "red");

    assert_eq!(watch.take(2).await, ["ADDED d", "ADDED e"]);
}

#[tokio::test]
async fn a_watch_can_start_at_the_compacted_version_itself() {
    let (server, web) = server_with_three();
    server.compact();
    let version = server.version();
    put(&server, "d", "red");

    let mut watch = web.watch(PATH, &format!("resourceVersion={version}")).await;
    assert_eq!(watch.next_short().await, "ADDED d");
    let mut older = web.watch(PATH, &format!("resourceVersion={}", version - 1)).await;
    assert_eq!(older.next().await.unwrap()["object"]["code"], 410);
}

#[tokio::test]
async fn history_is_bounded_for_each_kind() {
    let server = ApiServer::builder().history(3).build();
    let web = Web::in_process(&server);
    let versions = ["a", "b", "c", "d", "e"].map(|name| put(&server, name, "red"));
    server.put("secrets", json!({"metadata": {"namespace": "shop", "name": "s"}})).unwrap();

    let mut forgotten = web.watch(PATH, &format!("resourceVersion={}", versions[0])).await;
    let mut remembered = web.watch(PATH, &format!("resourceVersion={}", versions[1])).await;

    assert_eq!(forgotten.next().await.unwrap()["object"]["code"], 410);
    assert_eq!(remembered.take(3).await, ["ADDED c", "ADDED d", "ADDED e"]);
}

#[tokio::test]
async fn the_history_of_a_kind_is_bounded_by_the_bytes_of_its_older_states() {
    let server = ApiServer::builder().history_bytes(10_000).build();
    let web = Web::in_process(&server);
    let padding = "x".repeat(3000);
    let versions: Vec<_> = (0..10).map(|number| put(&server, "a", &format!("{number}{padding}"))).collect();

    // Three older states of about 3,200 bytes fit.
    let (kept, dropped) = (versions[6], versions[5]);

    assert_eq!(web.watch(PATH, &format!("resourceVersion={kept}")).await.take(3).await, ["MODIFIED a"; 3]);
    let mut too_old = web.watch(PATH, &format!("resourceVersion={dropped}")).await;
    assert_eq!(too_old.next().await.unwrap()["object"]["code"], 410);
    let exactly =
        async |version| web.get(&format!("{PATH}?resourceVersion={version}&resourceVersionMatch=Exact")).await;
    assert_eq!(exactly(kept).await.text("/items/0/data/colour")[..1], *"6");
    assert_eq!(exactly(dropped).await.failure(), (410, "Expired"));
}

#[tokio::test]
async fn a_watch_that_reads_every_change_gets_it_however_small_the_history_is() {
    let server = ApiServer::builder().history_bytes(0).build();
    let web = Web::in_process(&server);
    let mut watch = web.watch(PATH, &format!("resourceVersion={}", server.version())).await;

    for colour in ["red", "blue"] {
        put(&server, "a", colour);
        assert_eq!(watch.next().await.unwrap()["object"]["data"]["colour"], colour);
    }
    server.delete("configmaps", "shop/a").unwrap();
    assert_eq!(watch.next_short().await, "DELETED a");
}

#[test]
fn the_history_of_large_objects_takes_no_more_memory_than_its_limit() {
    let (state, limit) = (100_000, 1_000_000);
    let server = ApiServer::builder().history_bytes(limit).build();
    let padding = "x".repeat(state);

    let taken = allocation_counter::measure(|| {
        for round in 0..50 {
            put(&server, "a", &format!("{round}{padding}"));
            put(&server, "a", &format!("changed in {round}{padding}"));
            server.delete("configmaps", "shop/a").unwrap();
        }
    });

    let held = usize::try_from(taken.bytes_current).unwrap();
    assert!(held < limit + state, "{held} bytes are held, of about {}", 150 * state);
    assert!(held > limit - 3 * state, "{held} bytes are held: no state is counted twice");
}

#[tokio::test]
async fn a_watch_that_does_not_read_is_cut_off() {
    let server = ApiServer::builder().history(10).build();
    let web = Web::in_process(&server);
    let start = server.version();
    let mut slow = web.watch(PATH, &format!("resourceVersion={start}")).await;
    put(&server, "a", "red");
    assert_eq!(slow.next_short().await, "ADDED a");

    for colour in 0..20 {
        put(&server, "a", &colour.to_string());
    }

    assert_eq!(slow.next().await, None, "the history no longer has its next event");
    assert_eq!(server.open_watches("configmaps"), 0);
}

#[tokio::test]
async fn a_watch_that_does_not_read_its_socket_is_cut_off() {
    let server = ApiServer::builder().history(10).build();
    let listening = server.listen(([127, 0, 0, 1], 0)).await.unwrap();
    let web = Web::at(&listening.url());
    let mut slow = web.watch(PATH, &format!("resourceVersion={}", server.version())).await;

    // Far more than the buffers of a socket can hold.
    let large = "x".repeat(100_000);
    for number in 0..500 {
        put(&server, "a", &format!("{number}{large}"));
        tokio::task::yield_now().await;
    }

    let mut seen = 0;
    while let Ok(Some(event)) = slow.try_next().await {
        assert_ne!(event["type"], "ERROR");
        seen += 1;
    }
    assert!(seen < 500, "the watch ended early");
    listening.stop().await;
}

#[tokio::test]
async fn a_watch_that_never_reads_its_socket_is_cut_off() {
    let server = ApiServer::builder().history(10).build();
    let listening = server.listen(([127, 0, 0, 1], 0)).await.unwrap();
    let web = Web::at(&listening.url());
    let start = server.version();
    let overrun = web.watch(PATH, &format!("resourceVersion={start}")).await;
    let late = web.watch(PATH, &format!("resourceVersion={start}&timeoutSeconds=1")).await;
    server.wait_for_watches("configmaps", 2).await;

    let large = "x".repeat(100_000);
    for number in 0..500 {
        put(&server, "a", &format!("{number}{large}"));
        tokio::task::yield_now().await;
    }

    server.wait_for_watches("configmaps", 0).await;
    drop((overrun, late));
    listening.stop().await;
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_on_time_also_when_nothing_happens() {
    let server = ApiServer::builder().bookmarks_every(Duration::from_secs(10)).build();
    let web = Web::in_process(&server);
    put(&server, "a", "red");
    let start = server.version();
    let began = tokio::time::Instant::now();
    let mut watch = web.watch(PATH, &format!("resourceVersion={start}&allowWatchBookmarks=true")).await;
    let mut plain = web.watch(PATH, &format!("resourceVersion={start}&timeoutSeconds=100")).await;

    let idle = watch.next().await.unwrap();
    assert_eq!((&idle["type"], crate::support::version(&idle["object"])), (&json!("BOOKMARK"), start));
    assert_eq!(began.elapsed(), Duration::from_secs(10));
    // A change of another kind raises the version of the next bookmark.
    server.put("secrets", json!({"metadata": {"namespace": "shop", "name": "s"}})).unwrap();
    let next = watch.next().await.unwrap();
    assert_eq!((&next["type"], crate::support::version(&next["object"])), (&json!("BOOKMARK"), start + 1));
    assert_eq!(began.elapsed(), Duration::from_secs(20));

    assert_eq!(plain.next().await, None, "a watch receives no bookmarks unless it requests them");
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_a_timeout_ends_within_the_hour() {
    let (server, web) = server_with_three();
    let began = tokio::time::Instant::now();
    let mut watch = web.watch(PATH, &format!("resourceVersion={}", server.version())).await;

    // Not `next`, whose timeout is shorter.
    assert_eq!(watch.try_next().await.unwrap(), None);

    assert!((Duration::from_secs(1800)..=Duration::from_secs(3600)).contains(&began.elapsed()));
}

#[tokio::test]
async fn a_restored_backup_brings_back_objects_and_versions() {
    let (server, web) = server_with_three();
    let backup = server.backup();
    let then = server.version();
    put(&server, "a", "blue");
    server.delete("configmaps", "shop/b").unwrap();
    put(&server, "d", "red");
    let page = web.get(&format!("{PATH}?limit=1")).await;
    let mut watch = web.watch(PATH, &format!("resourceVersion={}", server.version())).await;

    server.restore(&backup);

    assert!(watch.try_next().await.is_err(), "open watches break");
    assert_eq!(watch.try_next().await.unwrap(), None, "once");
    assert_eq!((backup.version(), server.version()), (then, then));
    let list = web.get(PATH).await;
    assert_eq!((list.names(), list.version()), (vec!["a", "b", "c"], then));
    assert_eq!(list.text("/items/0/data/colour"), "red");
    assert_eq!(put(&server, "x", "red"), then + 1, "versions are assigned again");
    let mut ahead = web.watch(PATH, &format!("resourceVersion={}", then + 2)).await;
    put(&server, "y", "red");
    put(&server, "z", "red");
    assert_eq!(ahead.next_short().await, "ADDED z", "a watch from a future version misses the events before it");
    let token = page.text("/metadata/continue");
    assert_eq!(web.get(&format!("{PATH}?limit=1&continue={token}")).await.code, 200);
}

#[tokio::test]
async fn a_broken_watch_can_be_resumed_without_a_gap() {
    let (server, web) = server_with_three();
    let start = server.version();
    let mut watch = web.watch(PATH, &format!("resourceVersion={start}")).await;

    server.cut_all_watches();
    put(&server, "d", "red");

    assert!(watch.try_next().await.is_err(), "open watches break");
    let mut resumed = web.watch(PATH, &format!("resourceVersion={start}")).await;
    assert_eq!(resumed.next_short().await, "ADDED d");
}

/// As seen by a client that was stopped meanwhile.
#[tokio::test(start_paused = true)]
async fn a_watch_that_broke_before_its_time_was_up_does_not_end_cleanly() {
    let (server, web) = server_with_three();
    let mut watch = web.watch(PATH, &format!("resourceVersion={}&timeoutSeconds=10", server.version())).await;

    server.cut_all_watches();
    tokio::time::advance(Duration::from_secs(11)).await;

    assert!(watch.try_next().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn cut_watches_breaks_the_watches_of_one_kind() {
    let (server, web) = server_with_three();
    let start = format!("resourceVersion={}", server.version());
    let mut maps = [web.watch(PATH, &start).await, web.watch(PATH, &start).await];
    let mut secrets = web.watch("/api/v1/namespaces/shop/secrets", &start).await;

    assert_eq!(server.cut_watches("configmaps"), 2);
    server.put("secrets", json!({"metadata": {"namespace": "shop", "name": "s"}})).unwrap();

    for watch in &mut maps {
        assert!(watch.try_next().await.is_err());
    }
    assert_eq!(secrets.next_short().await, "ADDED s");
    let mut resumed = web.watch(PATH, &start).await;
    put(&server, "d", "red");
    assert_eq!(resumed.next_short().await, "ADDED d", "a watch that is opened later resumes");
    assert_eq!((server.cut_watches("pods"), server.cut_watches("unicorns.example.com")), (0, 0));
}

#[tokio::test]
async fn a_put_of_identical_content_is_no_change() {
    let (server, web) = server_with_three();
    let before = server.version();
    let mut watch = web.watch(PATH, &format!("resourceVersion={before}")).await;

    assert!(put(&server, "a", "red") < before, "the object keeps its version");
    put(&server, "b", "blue");

    assert_eq!(watch.next_short().await, "MODIFIED b");
}

#[tokio::test]
async fn a_token_of_a_time_that_was_undone_has_expired() {
    let (server, web) = server_with_three();
    let backup = server.backup();
    put(&server, "d", "red");
    let page = web.get(&format!("{PATH}?limit=1")).await;

    server.restore(&backup);

    let next = web.get(&format!("{PATH}?limit=1&continue={}", page.text("/metadata/continue"))).await;
    assert_eq!(next.failure(), (410, "Expired"));
}

#[tokio::test]
async fn a_list_of_any_version_has_pages_only_without_the_watch_cache() {
    for (watch_cache, expected) in [(true, 3), (false, 1)] {
        let server = ApiServer::builder().watch_cache(watch_cache).build();
        for name in ["a", "b", "c"] {
            put(&server, name, "red");
        }

        let list = Web::in_process(&server).get(&format!("{PATH}?resourceVersion=0&limit=1")).await;

        assert_eq!(list.names().len(), expected);
    }
}

#[tokio::test]
async fn a_backup_fits_a_kind_that_was_registered_again() {
    let server = ApiServer::new();
    let widgets = || Kind::new("example.com", "v1", "Widget", "widgets");
    server.register(widgets());
    server.put("widgets", json!({"metadata": {"namespace": "shop", "name": "a"}})).unwrap();
    let backup = server.backup();

    server.register(widgets());
    assert_eq!(server.list("widgets").unwrap().len(), 0);
    server.restore(&backup);

    assert_eq!(server.list("widgets").unwrap().len(), 1);
}

#[tokio::test]
async fn a_test_can_choose_its_versions() {
    let (server, web) = server_with_three();

    server.skip_to_version(99);
    assert_eq!(put(&server, "d", "red"), 100);
    server.skip_to_version(5);

    assert_eq!(web.get(PATH).await.version(), 100);
}

#[tokio::test(start_paused = true)]
async fn times_follow_the_clock_of_tokio_and_are_not_ahead_of_it() {
    let server = ApiServer::new();
    let time = |name: &str| {
        put(&server, name, "red");
        let stored = server.get("configmaps", &format!("shop/{name}")).unwrap();
        stored["metadata"]["creationTimestamp"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap()
    };

    let first = time("a");
    tokio::time::advance(Duration::from_secs(3600)).await;
    let second = time("b");

    assert!(first <= jiff::Timestamp::now());
    assert_eq!(first.subsec_nanosecond(), 0);
    assert_eq!(second.duration_since(first).as_secs(), 3600);
}

#[tokio::test(start_paused = true)]
async fn a_change_comes_before_the_bookmark_that_is_due_with_it() {
    for _ in 0..20 {
        let server = ApiServer::builder().bookmarks_every(Duration::from_secs(10)).build();
        let web = Web::in_process(&server);
        let mut watch =
            web.watch(PATH, &format!("resourceVersion={}&allowWatchBookmarks=true", server.version())).await;
        let change = async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            put(&server, "a", "red");
        };

        let ((), first) = tokio::join!(biased; change, watch.next_short());

        assert_eq!(first, "ADDED a");
    }
}

#[tokio::test]
async fn the_longest_times_are_long_enough() {
    let server = ApiServer::builder().bookmarks_every(Duration::MAX).build();
    let web = Web::in_process(&server);

    let query = format!("resourceVersion={}&timeoutSeconds={}&allowWatchBookmarks=true", server.version(), i64::MAX);
    let mut watch = web.watch(PATH, &query).await;
    put(&server, "a", "red");

    assert_eq!(watch.next_short().await, "ADDED a");
}

#[tokio::test]
async fn put_takes_objects_in_their_place_alone() {
    let server = ApiServer::new();

    let homeless = server.put("configmaps", json!({"metadata": {"name": "a"}})).unwrap_err();
    assert_eq!(homeless.code(), 400);
    server.put("nodes", json!({"metadata": {"name": "n", "namespace": "oops"}})).unwrap();
    assert_eq!(server.get("nodes", "n").unwrap()["metadata"].get("namespace"), None);
    let mut deep = json!(1);
    for _ in 0..200 {
        deep = json!([deep]);
    }
    let metadata = json!({"namespace": "shop", "name": "deep"});
    assert_eq!(server.put("configmaps", json!({"metadata": metadata, "data": deep})).unwrap_err().code(), 400);
    let unknown = server.put("widgets", json!({})).unwrap_err();
    assert_eq!((unknown.code(), unknown.to_string()), (404, "the server has no kind named \"widgets\"; use a plural name such as pods or deployments.apps, or define the kind first".into()));
}

#[tokio::test]
async fn put_takes_typed_objects() {
    let server = ApiServer::new();
    let map = k8s_openapi::api::core::v1::ConfigMap {
        metadata: kube::api::ObjectMeta {
            name: Some("a".into()),
            namespace: Some("shop".into()),
            ..kube::api::ObjectMeta::default()
        },
        ..k8s_openapi::api::core::v1::ConfigMap::default()
    };

    server.put("configmaps", &map).unwrap();

    assert_eq!(server.get("configmaps", "shop/a").unwrap()["kind"], "ConfigMap");
}

#[tokio::test]
async fn put_stores_an_object_whole() {
    let server = ApiServer::new();
    let pod = json!({
        "metadata": {"namespace": "shop", "name": "web", "resourceVersion": "77", "labels": 7},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running"},
    });

    let first = server.put("pods", pod.clone()).unwrap();
    let same = server.put("pods", pod.clone()).unwrap();
    let mut changed = pod;
    changed["status"]["phase"] = json!("Failed");
    let second = server.put("pods", changed).unwrap();

    assert_eq!(first["status"]["phase"], "Running");
    assert_eq!(first["metadata"]["labels"], 7, "put also stores content that a client could not send");
    assert_eq!(same, first);
    assert_eq!(second["metadata"]["uid"], first["metadata"]["uid"]);
    assert_eq!(second["status"]["phase"], "Failed");
    assert_eq!(server.get("pods", "shop/web").unwrap(), second);
    assert_eq!(server.get("pods", "shop/gone").unwrap_err().code(), 404);
    assert_eq!(server.put("widgets", json!({})).unwrap_err().code(), 404);
    assert_eq!(server.put("pods", json!({"metadata": {"name": 7}})).unwrap_err().code(), 400);
}

#[tokio::test]
async fn put_stores_what_a_client_could_not_create() {
    let server = ApiServer::new();
    server.register(Kind::new("example.com", "v1", "Widget", "widgets"));
    let web = Web::in_process(&server);
    let in_shop = |name: &str| json!({"namespace": "shop", "name": name});
    server.put("namespaces", json!({"metadata": {"name": "shop"}})).unwrap();
    for (kind, path, object) in [
        ("configmaps", PATH, json!({"metadata": in_shop("a"), "data": 7})),
        ("pods", "/api/v1/namespaces/shop/pods", json!({"metadata": in_shop("no-containers")})),
        ("widgets", "/apis/example.com/v1/namespaces/shop/widgets", json!({"metadata": in_shop("no-kind")})),
        ("secrets", "/api/v1/namespaces/gone/secrets", json!({"metadata": {"namespace": "gone", "name": "a"}})),
    ] {
        assert!(web.post(path, &object).await.code >= 400, "{object}");
        let stored = server.put(kind, &object).unwrap();
        assert_eq!(stored["metadata"]["name"], object["metadata"]["name"]);
    }
}

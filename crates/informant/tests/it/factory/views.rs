//! Views: several informers that are read as one.

use std::sync::{Arc, Mutex};

use informant::{
    Cached, ClusterKey, Identity, Key, ResourceVersion, SharedInformerFactory, View, error::WaitError, index,
};
use informant_apiserver::{ApiServer, Fault, LoggedRequest, On, Verb};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::Expression;

use crate::support::{
    servers::{
        LONG, Leaks, Logs, Probe, SECOND, client, config, factory, is_same, server, stop_factory, three_namespaces,
        two_namespaces, wait_until,
    },
    show_objects,
};

type Configs<A = Key> = View<ConfigMap, A>;

fn shown<A>(view: &Configs<A>) -> Vec<String> {
    let mut keys: Vec<_> = view.list().iter().map(|object| object.key().to_string()).collect();
    keys.sort();
    keys
}

/// Decision 17
#[tokio::test(start_paused = true)]
async fn a_view_of_namespaces_has_the_objects_of_these_namespaces_only() {
    let server = three_namespaces();
    let (factory, view, leaks) = two_namespaces(&server).await;

    assert_eq!(shown(&view), ["bank/a", "shop/a", "shop/b"]);
    assert_eq!((view.len(), view.is_empty()), (3, false));
    let key = |text: &str| text.parse::<Key>().unwrap();
    assert_eq!(view.get(&key("bank/a")).unwrap().key(), &key("bank/a"));
    assert!(view.get(&key("home/a")).is_none() && view.get(&key("a")).is_none() && view.get(&key("shop/c")).is_none());
    assert_eq!(
        view.require(&key("shop/c")).unwrap_err().to_string(),
        "shop/c not found in the cache of configmaps in shop"
    );
    let error = view.require(&key("home/a")).unwrap_err();
    assert_eq!(error.to_string(), "home/a not found in the cache of configmaps in bank and 1 more");
    assert_eq!((view.list_in("shop").len(), view.list_in("home").len(), view.list_in("").len()), (2, 0, 3));
    let named_a = || Expression::Equal("name".into(), "a".into()).into();
    assert_eq!(view.select(named_a()).len(), 2);
    assert_eq!(view.select("name in (a, x)".parse().unwrap()).len(), 2);
    let mut keys = view.keys();
    keys.sort();
    assert_eq!(keys, [key("bank/a"), key("shop/a"), key("shop/b")]);
    assert!(server.requests().iter().all(|request| ["shop", "bank"].contains(&&*request.namespace)));
    stop_factory(&factory, &leaks).await;
}

/// FA-01, decision 17
#[tokio::test(start_paused = true)]
async fn the_members_of_a_view_are_the_shared_informers_of_the_factory() {
    let server = three_namespaces();
    let (factory, view, leaks) = two_namespaces(&server).await;

    let in_shop = factory.request::<ConfigMap>().in_namespace("shop").informer().unwrap();
    let other = factory.request::<ConfigMap>().in_namespaces(["shop", "home", "shop"]).view().unwrap();

    assert!(view.informers().any(|informer| is_same(informer, &in_shop)));
    assert!(other.informers().any(|informer| is_same(informer, &in_shop)));
    assert_eq!(other.informers().len(), 2, "a namespace that is named twice counts once");
    assert_eq!(factory.start(), 1, "only home is new");
    stop_factory(&factory, &leaks).await;
}

/// Decision 17
#[tokio::test(start_paused = true)]
async fn a_relist_of_one_member_of_a_view_does_not_change_the_others() {
    let _logs = Logs::capture();
    let server = three_namespaces();
    let factory = SharedInformerFactory::builder(client(&server)).without_streaming().build();
    let leaks = Leaks::watch();
    // No watch ever works, so each member lists everything again and again.
    server.inject(On::watch().of("configmaps"), Fault::status(410));
    let view = factory.request::<ConfigMap>().in_namespaces(["shop", "bank"]).view().unwrap();
    let probe = Probe::new();
    view.subscribe().handler(probe.handler()).unwrap();
    factory.start();
    probe.until("synced").await;
    probe.take();
    let lists_of = |namespace: &str| {
        let is_list = |request: &&LoggedRequest| request.verb == Verb::List && request.namespace == namespace;
        server.requests().iter().filter(is_list).count()
    };

    server.delete("configmaps", "bank/a").unwrap();
    let before = (lists_of("bank"), lists_of("shop"));
    wait_until(|| lists_of("bank") >= before.0 + 3 && lists_of("shop") >= before.1 + 3).await;

    assert_eq!(shown(&view), ["shop/a", "shop/b"]);
    probe.until_lines(|lines| !lines.is_empty()).await;
    assert_eq!(probe.take(), ["T(bank/a, last@4)"], "no other event was delivered");
    stop_factory(&factory, &leaks).await;
}

/// Decisions 13 and 17
#[tokio::test(start_paused = true)]
async fn a_view_waits_for_a_write_in_the_member_that_covers_it() {
    let server = three_namespaces();
    let (factory, view, leaks) = two_namespaces(&server).await;

    let written: ConfigMap = serde_json::from_value(server.put("configmaps", config("bank/new")).unwrap()).unwrap();
    let identity = Identity::of(&written).unwrap();
    let seen = view.wait_for(&identity.key, &identity.version, LONG).await.unwrap();
    assert_eq!(seen.unwrap().version(), &identity.version);
    server.delete("configmaps", "bank/new").unwrap();
    view.wait_until_gone(&identity, LONG).await.unwrap();

    // Bookmarks bring all members to this version, also the one without changes.
    let version = ResourceVersion::new(server.version().to_string());
    view.caught_up_to(&version, LONG * 3).await.unwrap();
    // A version that only one member has reached does not end the wait.
    server.put("configmaps", config("bank/newer")).unwrap();
    let version = ResourceVersion::new(server.version().to_string());
    view.informers().next().unwrap().caught_up_to(&version, SECOND).await.unwrap();
    let error = view.caught_up_to(&version, SECOND).await.unwrap_err();
    assert!(matches!(&error, WaitError::TimedOut { informer, .. } if informer.ends_with("in shop")), "{error}");

    let elsewhere = Identity { key: "home/a".parse().unwrap(), ..identity };
    let error = view.wait_for(&elsewhere.key, &elsewhere.version, LONG).await.unwrap_err();
    assert!(error.to_string().contains("that is in none of the namespaces and clusters of the view"), "{error}");
    assert!(matches!(view.wait_until_gone(&elsewhere, LONG).await, Err(WaitError::OutsideView { .. })));
    stop_factory(&factory, &leaks).await;
}

/// Decision 17
#[tokio::test(start_paused = true)]
async fn an_index_of_a_view_finds_the_objects_of_all_members() {
    let server = three_namespaces();
    let (factory, view, leaks) = two_namespaces(&server).await;
    let by_name = view.add_index("name", |config: &Cached<ConfigMap>| Some(config.key().name().to_owned())).unwrap();

    assert_eq!((by_name.get("a").len(), by_name.count("b"), by_name.count("c")), (2, 1, 0));
    assert_eq!(by_name.values(), ["a".into(), "b".into()] as [Arc<str>; 2]);
    assert_eq!(by_name.name(), "name");
    assert_eq!(view.index("name").unwrap().values(), by_name.values());
    assert_eq!(view.index("name").unwrap().get("a").len(), 2);
    let found = view.by_indexes([by_name.lookup("a"), ("namespace", "shop").into()]).unwrap();
    assert_eq!(show_objects(found), ["shop/a@2"]);
    view.index("nothing").unwrap_err();
    let by_label = view.add_index("label", index::label("name")).unwrap();
    assert_eq!((by_label.count("a"), by_label.count("b")), (2, 1));

    let last = view.informers().last().unwrap();
    last.add_index("taken", |_: &Cached<ConfigMap>| None::<String>).unwrap();
    view.add_index("taken", |_: &Cached<ConfigMap>| None::<String>).unwrap_err();
    let has = |index: &str| view.informers().filter(|informer| informer.lister().index(index).is_ok()).count();
    assert_eq!(has("taken"), 1, "all members or none");
    stop_factory(&factory, &leaks).await;
}

fn cluster(name: &str, configs: &[&str]) -> (ApiServer, SharedInformerFactory) {
    let server = server(configs);
    let factory = SharedInformerFactory::builder(client(&server)).of_cluster(name).build();
    (server, factory)
}

/// Decision 17
#[tokio::test(start_paused = true)]
async fn a_view_of_clusters_has_the_objects_of_all_clusters_with_the_cluster_name() {
    let ((server, east), (_, west)) = (cluster("east", &["shop/a", "shop/b"]), cluster("west", &["shop/a", "bank/a"]));
    let leaks = Leaks::watch();
    let west_view = west.request::<ConfigMap>().in_namespaces(["shop", "bank"]).view().unwrap();
    let view = View::of_clusters([east.informer::<ConfigMap>().into(), west_view]).unwrap();
    let probe = Arc::new(Mutex::new(Vec::new()));
    let received = Arc::clone(&probe);
    let registration = view
        .subscribe()
        .on_add(move |config, _| received.lock().unwrap().push(ClusterKey::of(config).unwrap().to_string()))
        .register()
        .unwrap();
    assert_eq!(view.start(), 3);
    view.synced().await.unwrap();
    registration.synced().await.unwrap();

    let in_order = |mut keys: Vec<String>| {
        keys.sort();
        keys
    };
    let all = ["east/shop/a", "east/shop/b", "west/bank/a", "west/shop/a"];
    assert_eq!(in_order(probe.lock().unwrap().clone()), all);
    assert_eq!(in_order(view.list().iter().map(|config| ClusterKey::of(config).unwrap().to_string()).collect()), all);
    let at = |cluster: &str, key: &str| ClusterKey::new(cluster, key.parse().unwrap());
    assert_eq!(view.get(&at("west", "bank/a")).unwrap().cluster().map(|name| &**name), Some("west"));
    assert!(view.get(&at("east", "bank/a")).is_none());
    assert!(view.get(&at("north", "shop/a")).is_none());
    let missing = |address: &ClusterKey| view.require(address).unwrap_err().to_string();
    assert_eq!(missing(&at("east", "home/a")), "home/a not found in the cache of east/configmaps");
    assert_eq!(missing(&at("north", "shop/a")), "north/shop/a not found in the cache of east/configmaps and 2 more");
    let mut keys = view.keys();
    keys.sort();
    assert_eq!(keys[2], at("west", "bank/a"));
    let mut clusters: Vec<_> = view.informers().map(|informer| informer.cluster().unwrap().to_string()).collect();
    clusters.dedup();
    assert_eq!(clusters, ["east", "west"]);
    assert_eq!(view.list_in("shop").len(), 3);

    let written: ConfigMap = serde_json::from_value(server.put("configmaps", config("shop/new")).unwrap()).unwrap();
    let Identity { key, version, .. } = Identity::of(&written).unwrap();
    view.wait_for(&ClusterKey::new("east", key.clone()), &version, LONG).await.unwrap().unwrap();
    let error = view.wait_for(&ClusterKey::new("north", key.clone()), &version, LONG).await.unwrap_err();
    assert!(error.to_string().contains("will not see north/shop/new"), "{error}");
    let only_east = view.cluster("east").unwrap();
    assert_eq!(only_east.get(&key).unwrap().version(), &version);
    only_east.caught_up_to(&version, LONG).await.unwrap();
    assert!(view.cluster("north").is_none());

    east.stop().await.unwrap();
    west.stop().await.unwrap();
    leaks.check();
}

/// Decision 17
#[tokio::test(start_paused = true)]
async fn an_unreachable_cluster_of_a_view_is_named_in_the_error_and_affects_no_other() {
    let _logs = Logs::capture();
    let ((_server, east), (server, west)) = (cluster("east", &["shop/a"]), cluster("west", &["shop/a"]));
    let leaks = Leaks::watch();
    server.inject(On::any(), Fault::Refuse);
    let view = View::of_clusters([east.informer::<ConfigMap>(), west.informer::<ConfigMap>()]).unwrap();
    view.start();

    let error = view.synced_within(SECOND * 5).await.unwrap_err();
    assert!(error.to_string().starts_with("1 of 2 informers is not synced: "), "{error}");
    assert!(error.to_string().contains("west/configmaps"), "{error}");
    assert_eq!(shown(&view), ["shop/a"]);

    server.clear_faults();
    view.synced().await.unwrap();
    assert_eq!(view.len(), 2);
    east.stop().await.unwrap();
    west.stop().await.unwrap();
    leaks.check();
}

#[tokio::test(start_paused = true)]
async fn informers_that_cannot_form_a_view_are_refused() {
    let ((server, east), (_, also_east)) = (cluster("east", &[]), cluster("east", &[]));
    let nameless = factory(&server);

    let error = View::of_clusters([east.informer::<ConfigMap>(), also_east.informer::<ConfigMap>()]).unwrap_err();
    assert!(error.to_string().ends_with("both cover cluster \"east\"; give each cluster a name of its own"), "{error}");
    let error = View::of_clusters([nameless.informer::<ConfigMap>()]).unwrap_err();
    assert!(error.to_string().contains("set it with `of_cluster`"), "{error}");
    let none: [&str; 0] = [];
    let errors = [
        nameless.request::<ConfigMap>().in_namespaces(none).view().unwrap_err(),
        View::<ConfigMap, ClusterKey>::of_clusters(Vec::<Configs>::new()).unwrap_err(),
    ];
    assert_eq!(errors.map(|error| error.to_string()), ["a view needs at least one informer"; 2]);
}

/// Decision 11
#[tokio::test(start_paused = true)]
async fn waiting_for_a_view_warns_of_each_member_that_was_not_started() {
    let logs = Logs::capture();
    let server = three_namespaces();
    let factory = factory(&server);
    let view = factory.request::<ConfigMap>().in_namespaces(["shop", "bank"]).view().unwrap();

    view.synced_within(SECOND * 60).await.unwrap_err();

    let logged = logs.take();
    let warnings = logged.lines().filter(|line| line.contains("WARN") && line.contains("has not been started"));
    assert_eq!(warnings.count(), 2, "{logged}");
    assert!(logged.contains("configmaps in shop") && logged.contains("configmaps in bank"), "{logged}");
}

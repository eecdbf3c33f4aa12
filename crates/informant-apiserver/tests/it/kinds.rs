//! Kinds that are added and removed while the server runs.

use std::panic::{AssertUnwindSafe, catch_unwind};

use informant_apiserver::{ApiServer, Fault, Kind, On, Scope};
use serde_json::json;

use crate::support::Web;

const PATH: &str = "/apis/example.com/v1/namespaces/shop/widgets";

fn widgets() -> Kind {
    Kind::new("example.com", "v1", "Widget", "widgets").with_status().short_names(["wd"])
}

fn widget(name: &str) -> serde_json::Value {
    let metadata = json!({"namespace": "shop", "name": name});
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": {"size": 1}})
}

#[tokio::test]
async fn a_registered_kind_is_served_and_discovered() {
    let server = ApiServer::builder().allow_missing_namespaces().build();
    let web = Web::in_process(&server);
    assert_eq!(web.get(PATH).await.failure(), (404, "NotFound"));

    server.register(widgets());

    assert_eq!(web.post(PATH, &widget("a")).await.code, 201);
    let list = web.get(PATH).await;
    assert_eq!((list.text("/kind"), list.text("/apiVersion")), ("WidgetList", "example.com/v1"));
    assert_eq!(list.text("/items/0/kind"), "Widget", "items of custom kinds have their type");
    assert_eq!(list.text("/items/0/apiVersion"), "example.com/v1");
    let resources = web.get("/apis/example.com/v1").await;
    assert_eq!(resources.text("/resources/0/name"), "widgets");
    assert_eq!(resources.text("/resources/0/shortNames/0"), "wd");
    assert_eq!(resources.text("/resources/1/name"), "widgets/status");
    assert_eq!(web.get("/apis/example.com").await.text("/preferredVersion/groupVersion"), "example.com/v1");
}

#[tokio::test]
async fn a_custom_kind_wants_to_know_which_version_an_update_replaces() {
    let server = ApiServer::builder().allow_missing_namespaces().build();
    server.register(widgets());
    let web = Web::in_process(&server);
    let created = web.post(PATH, &widget("a")).await;

    let blind = web.put(&format!("{PATH}/a"), &widget("a")).await;
    assert_eq!(blind.failure(), (422, "Invalid"));
    assert_eq!(blind.text("/details/causes/0/field"), "metadata.resourceVersion");

    let mut changed = created.body;
    changed["spec"]["size"] = json!(2);
    changed["status"] = json!({"ready": true});
    let updated = web.put(&format!("{PATH}/a"), &changed).await;
    assert_eq!((updated.code, &updated.body["metadata"]["generation"]), (200, &json!(2)));
    assert_eq!(updated.body.get("status"), None);
    changed["metadata"] = updated.body["metadata"].clone();
    let status = web.put(&format!("{PATH}/a/status"), &changed).await;
    assert_eq!(status.body["status"], json!({"ready": true}));
    assert_eq!(status.body["metadata"]["generation"], 2);
}

#[tokio::test]
async fn a_removed_kind_ends_its_objects_its_watches_and_its_paths() {
    let server = ApiServer::new();
    server.register(widgets());
    let web = Web::in_process(&server);
    for name in ["a", "b"] {
        server.put("widgets.example.com", widget(name)).unwrap();
    }
    let version = server.version();
    let mut watch = web.watch(PATH, &format!("resourceVersion={version}")).await;
    let mut selected = web.watch(PATH, "fieldSelector=metadata.name%3Db").await;
    assert_eq!(selected.next_short().await, "ADDED b");

    assert!(server.remove_kind("widgets"));

    assert_eq!(watch.take(2).await, ["DELETED a", "DELETED b"]);
    assert_eq!(watch.next().await, None);
    assert_eq!(selected.next_short().await, "DELETED b");
    assert_eq!(selected.next().await, None);
    assert_eq!(web.get(PATH).await.failure(), (404, "NotFound"));
    assert_eq!(web.post(PATH, &widget("c")).await.code, 404);
    assert_eq!(web.get("/apis/example.com/v1").await.code, 404);
    assert!(!server.remove_kind("widgets"), "the kind was already removed");
    assert_eq!(server.version(), version + 2, "each delete gets a version");
}

#[tokio::test]
async fn a_removed_kind_without_objects_ends_its_watches_too() {
    let server = ApiServer::new();
    server.register(widgets());
    let mut watch = Web::in_process(&server).watch(PATH, "").await;

    let (end, removed) = tokio::join!(watch.next(), async { server.remove_kind("widgets") });

    assert_eq!((end, removed), (None, true));
    assert_eq!(watch.next().await, None, "the ended stream stays ended");
    server.wait_for_watches("widgets.example.com", 0).await;
}

#[tokio::test]
async fn a_kind_that_comes_back_begins_anew() {
    let server = ApiServer::new();
    server.register(widgets());
    let web = Web::in_process(&server);
    server.put("widgets", widget("a")).unwrap();
    let before = server.version();
    server.remove_kind("widgets");

    server.register(widgets());

    let list = web.get(PATH).await;
    assert_eq!(list.names(), Vec::<&str>::new());
    assert!(list.version() > before);
    let mut old = web.watch(PATH, &format!("resourceVersion={before}")).await;
    assert_eq!(old.next().await.unwrap()["object"]["code"], 410, "the history of the removed kind is gone");
    let mut watch = web.watch(PATH, &format!("resourceVersion={}", list.version())).await;
    server.put("widgets", widget("b")).unwrap();
    assert_eq!(watch.next_short().await, "ADDED b");
}

#[tokio::test]
async fn kinds_of_the_same_plural_are_told_apart_by_their_group() {
    let server = ApiServer::new();
    server.register(Kind::new("example.com", "v1", "Pod", "pods"));
    let pod = |name: &str| json!({"metadata": {"namespace": "shop", "name": name}});

    server.put("pods", pod("core")).unwrap();
    server.put("pods.example.com", pod("grouped")).unwrap();

    assert_eq!(server.list("pods").unwrap().len(), 1);
    assert_eq!(server.get("pods", "shop/core").unwrap()["apiVersion"], "v1");
    assert_eq!(server.get("pods.example.com", "shop/grouped").unwrap()["apiVersion"], "example.com/v1");
}

#[tokio::test]
async fn a_registered_kind_takes_the_place_of_its_own_name_alone() {
    let server = ApiServer::new();
    let ingress = json!({"metadata": {"namespace": "shop", "name": "a"}});
    server.put("ingresses.networking.k8s.io", ingress).unwrap();

    server.register(Kind::new("", "v1", "Ingress", "ingresses"));

    assert_eq!(server.list("ingresses.networking.k8s.io").unwrap().len(), 1);
}

#[tokio::test]
async fn the_end_of_a_kind_reaches_watches_that_lag_behind() {
    let server = ApiServer::new();
    let web = Web::in_process(&server);
    for name in ["a", "b"] {
        server.put("nodes", json!({"metadata": {"name": name}})).unwrap();
    }
    server.inject(On::watch(), Fault::Stale { versions: 3 });
    let mut watch = web.watch("/api/v1/nodes", &format!("resourceVersion={}", server.version())).await;

    server.remove_kind("nodes");

    assert_eq!(watch.take(2).await, ["DELETED a", "DELETED b"]);
    assert_eq!(watch.next().await, None);
}

/// The server has no merge rules for the lists of a custom kind.
#[tokio::test]
async fn a_custom_kind_takes_no_strategic_patches_and_is_in_the_documents() {
    let server = ApiServer::new();
    server.register(widgets());
    let web = Web::in_process(&server);
    web.post(PATH, &widget("a")).await;

    let refused = web.patch(&format!("{PATH}/a"), "application/strategic-merge-patch+json", &json!({})).await;

    assert_eq!(refused.failure(), (415, "UnsupportedMediaType"));
    let accepted = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
    assert!(refused.text("/message").ends_with(accepted), "{refused:?}");
    let operations = web.get("/openapi/v3/apis/example.com/v1").await;
    let of_one = &operations.body["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"];
    assert_eq!(of_one["patch"]["x-kubernetes-group-version-kind"]["kind"], "Widget", "{operations:?}");
    assert_eq!(web.get("/openapi/v3/apis/example.org/v1").await.failure(), (404, "NotFound"));
}

#[tokio::test]
async fn a_custom_kind_wants_its_type_in_every_body() {
    let server = ApiServer::new();
    server.register(widgets());
    let web = Web::in_process(&server);

    let refused = web.post(PATH, &json!({"metadata": {"name": "a"}})).await;

    assert_eq!(refused.failure(), (400, "BadRequest"));
}

#[tokio::test]
async fn a_server_can_do_without_built_in_kinds() {
    let server = ApiServer::builder().without_built_in_kinds().build();
    server.register(Kind::new("example.com", "v1", "Planet", "planets").cluster_scoped());
    let web = Web::in_process(&server);

    assert_eq!(web.get("/api/v1/pods").await.code, 404);
    let kinds = server.kinds();
    assert_eq!((kinds.len(), kinds[0].scope(), kinds[0].resource()), (1, Scope::Cluster, "planets.example.com".into()));
    let planet = json!({"apiVersion": "example.com/v1", "kind": "Planet", "metadata": {"name": "x"}});
    assert_eq!(web.post("/apis/example.com/v1/planets", &planet).await.code, 201);
    assert_eq!(web.get("/apis").await.body["groups"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn the_built_in_kinds_have_the_scope_that_they_have_in_kubernetes() {
    let server = ApiServer::new();
    let scope = |name: &str| server.kinds().into_iter().find(|kind| kind.resource() == name).unwrap().scope();

    for name in [
        "pods",
        "services",
        "secrets",
        "deployments.apps",
        "leases.coordination.k8s.io",
        "roles.rbac.authorization.k8s.io",
    ] {
        assert_eq!(scope(name), Scope::Namespaced, "{name}");
    }
    for name in [
        "nodes",
        "namespaces",
        "persistentvolumes",
        "clusterroles.rbac.authorization.k8s.io",
        "storageclasses.storage.k8s.io",
    ] {
        assert_eq!(scope(name), Scope::Cluster, "{name}");
    }
}

fn definition(version: &str) -> serde_json::Value {
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "widgets", "kind": "Widget"},
            "scope": "Namespaced",
            "versions": [{"name": version, "served": true, "storage": true}],
        },
    })
}

/// A kind has one version. Its objects have the current storage version.
#[tokio::test]
async fn objects_of_a_definition_take_its_new_version_and_watches_of_the_old_one_end() {
    let server = ApiServer::builder().allow_missing_namespaces().build();
    let web = Web::in_process(&server);
    server.put("customresourcedefinitions", definition("v1")).unwrap();
    let created = web.post(PATH, &widget("a")).await;
    assert_eq!(created.code, 201, "{created:?}");
    let mut watch = web.watch(PATH, &format!("resourceVersion={}", created.version())).await;

    server.put("customresourcedefinitions", definition("v2")).unwrap();

    assert_eq!(watch.next().await, None, "nothing was deleted");
    assert_eq!(web.get(PATH).await.failure(), (404, "NotFound"));
    let list = web.get(&PATH.replace("v1", "v2")).await;
    assert_eq!((list.names(), list.text("/items/0/apiVersion")), (vec!["a"], "example.com/v2"));
    assert_eq!(list.body["items"][0]["metadata"], created.body["metadata"]);
}

/// `put` accepts any content, as for all kinds; a request of a client with the same content fails.
#[tokio::test]
async fn a_definition_of_nothing_and_one_of_a_built_in_kind_have_no_effect() {
    let server = ApiServer::new();
    let kinds = server.kinds();
    let mut ingresses = definition("v1");
    ingresses["metadata"]["name"] = json!("ingresses.networking.k8s.io");
    ingresses["spec"]["group"] = json!("networking.k8s.io");
    ingresses["spec"]["names"]["plural"] = json!("ingresses");
    ingresses["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "unapproved"});

    server.put("customresourcedefinitions", json!({"metadata": {"name": "nothing"}})).unwrap();
    server.put("customresourcedefinitions", ingresses).unwrap();
    server.delete("customresourcedefinitions", "ingresses.networking.k8s.io").unwrap();

    assert_eq!(server.kinds(), kinds);
}

#[tokio::test]
async fn kinds_follow_the_definitions_of_a_backup() {
    let server = ApiServer::new();
    let web = Web::in_process(&server);
    let empty = server.backup();
    server.put("customresourcedefinitions", definition("v1")).unwrap();
    server.put("widgets.example.com", widget("a")).unwrap();
    let full = server.backup();
    server.put("customresourcedefinitions", definition("v2")).unwrap();

    server.restore(&full);
    let list = web.get(PATH).await;
    assert_eq!((list.names(), list.text("/items/0/apiVersion")), (vec!["a"], "example.com/v1"), "of its version");
    server.restore(&empty);
    assert_eq!(web.get(PATH).await.failure(), (404, "NotFound"));
    server.restore(&full);
    assert_eq!(web.get(PATH).await.names(), ["a"]);
}

#[tokio::test]
async fn a_kind_goes_with_its_definition_also_if_that_has_become_nonsense() {
    let server = ApiServer::new();
    server.put("customresourcedefinitions", definition("v1")).unwrap();
    server.put("customresourcedefinitions", json!({"metadata": {"name": "widgets.example.com"}})).unwrap();

    server.delete("customresourcedefinitions", "widgets.example.com").unwrap();

    assert!(server.count("widgets.example.com").is_err());
}

#[tokio::test]
async fn field_selectors_name_the_selectable_fields_of_a_registered_kind() {
    let server = ApiServer::new();
    server.register(widgets().selectable_fields(["spec.colour"]));
    let web = Web::in_process(&server);
    let put = |name: &str, colour: &str| {
        let mut widget = widget(name);
        widget["spec"]["colour"] = json!(colour);
        server.put("widgets", widget).unwrap();
    };
    for (name, colour) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        put(name, colour);
    }

    assert_eq!(web.get(&format!("{PATH}?fieldSelector=spec.colour%3Dblue")).await.names(), ["b"]);
    let start = server.version();
    let mut watch = web.watch(PATH, &format!("resourceVersion={start}&fieldSelector=spec.colour%3Dblue")).await;
    put("a", "blue");
    put("b", "green");
    put("c", "green");
    server.delete("widgets", "shop/a").unwrap();
    assert_eq!(watch.take(3).await, ["ADDED a", "DELETED b", "DELETED a"]);
    let refused = web.get(&format!("{PATH}?fieldSelector=spec.size%3D1")).await;
    assert_eq!(
        (refused.failure(), refused.text("/message")),
        ((400, "BadRequest"), "field label not supported: spec.size")
    );
}

#[tokio::test]
async fn a_registered_kind_is_found_by_its_plural_before_a_kind_of_another_group() {
    let server = ApiServer::new();
    server.register(Kind::new("", "v1", "Event", "events"));

    let put = server.put("events", json!({"metadata": {"namespace": "a", "name": "e"}})).unwrap();

    assert_eq!(put["apiVersion"], "v1");
}

#[tokio::test]
async fn a_table_with_a_deeply_nested_column_path_does_not_end_the_server() {
    let server = ApiServer::new();
    let path = format!(".a{}.b{}", "[?(@".repeat(8_000), ")]".repeat(8_000));
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "widgets", "kind": "Widget"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
                "additionalPrinterColumns": [{"name": "Deep", "type": "string", "jsonPath": path}],
            }],
        },
    });
    let web = Web::in_process(&server);
    let created = web.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
    assert_eq!(created.code, 201, "{created:?}");
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];

    let answer = web.send(http::Method::GET, "/apis/example.com/v1/widgets", None, &table).await;

    assert_eq!((answer.code, answer.text("/kind")), (200, "Table"));
}

#[test]
fn a_name_of_no_kind_is_an_error_that_names_the_kind_that_was_meant() {
    let server = ApiServer::new();
    server.register(widgets());
    let error = |name: &str| server.check_kind(name).unwrap_err().to_string();

    for (name, meant) in [
        ("configmap", "configmaps"),
        ("cm", "configmaps"),
        ("Deployment", "deployments"),
        ("podz", "pods"),
        ("deployment.apps", "deployments.apps"),
        ("daemonset.apps", "daemonsets.apps"),
        ("widget.example.com", "widgets.example.com"),
    ] {
        assert_eq!(error(name), format!("the server has no kind named {name:?}; did you mean {meant:?}?"));
    }
    assert!(
        error("unicorns").ends_with("use a plural name such as pods or deployments.apps, or define the kind first")
    );
    assert_eq!(server.get("podz", "shop/web").unwrap_err().to_string(), error("podz"));
}

/// A name of a kind that is defined later is no misspelt one.
#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_yet_is_named_with_its_group() {
    let server = ApiServer::new();
    server.inject(On::list().of("widgets.example.com").once(), Fault::status(503));
    assert_eq!(server.open_watches("widgets.example.com"), 0);
    let waiting = server.wait_for_watches("widgets.example.com", 1);

    server.register(widgets());
    let web = Web::in_process(&server);
    assert_eq!((web.get(PATH).await.code, web.get(PATH).await.code), (503, 200));
    let _watch = web.watch(PATH, "").await;

    waiting.await;
    assert_eq!(server.cut_watches("widgets"), 1);
}

#[test]
fn a_misspelt_name_that_would_never_match_panics_and_names_the_kind() {
    let message = |run: &dyn Fn(&ApiServer)| {
        let panic = catch_unwind(AssertUnwindSafe(|| run(&ApiServer::new()))).unwrap_err();
        panic.downcast_ref::<String>().unwrap().clone()
    };
    let calls: [&dyn Fn(&ApiServer); 6] = [
        &|server| _ = server.inject(On::list().of("podz"), Fault::Refuse),
        &|server| _ = server.inject_each(&On::list().of("podz"), [Fault::Refuse]),
        &|server| _ = server.cut_watches("podz"),
        &|server| _ = server.open_watches("podz"),
        &|server| _ = server.wait_for_watches("podz", 1),
        &|server| _ = server.requests_for("podz"),
    ];

    for call in calls {
        let message = message(call);
        assert!(message.starts_with("the server has no kind named \"podz\"; did you mean \"pods\"?"), "{message}");
    }
}

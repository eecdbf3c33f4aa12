//! Kinds are found by the names that `kubectl` accepts, in the built-in table or by discovery.

use std::time::Duration;

use informant_apiserver::{ApiServer, CannedResponse, Fault, Kind, Listening, On, Verb};
use serde_json::{Value, json};

use crate::support::{run, stdout_of, text};

async fn with_widgets() -> (ApiServer, Listening) {
    let server = ApiServer::new();
    server.register(Kind::new("example.com", "v1", "Widget", "widgets").short_names(["wi"]));
    server.put("widgets", json!({"metadata": {"namespace": "default", "name": "w"}})).unwrap();
    server.put("deployments.apps", json!({"metadata": {"namespace": "default", "name": "web"}})).unwrap();
    let listening = server.listen(([127, 0, 0, 1], 0)).await.unwrap();
    (server, listening)
}

async fn names(url: &str, kind: &str) -> String {
    let arguments = [kind, url].map(str::to_owned);
    let get = move || stdout_of(&["get", &arguments[0], "-o", "name", "--server", &arguments[1]]);
    tokio::task::spawn_blocking(get).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_custom_kind_is_found_by_each_of_its_names() {
    let (_server, listening) = with_widgets().await;

    for name in ["widgets", "widget", "wi", "Widget", "widgets.example.com", "wi.v1.example.com", "widget.example"] {
        assert_eq!(names(&listening.url(), name).await, "widget.example.com/w\n", "{name}");
    }
    for name in ["deploy", "deployments.apps", "Deployment.v1.apps"] {
        assert_eq!(names(&listening.url(), name).await, "deployment.apps/web\n", "{name}");
    }
}

/// Aggregated discovery, since Kubernetes 1.26: one document for the core group, and one for all others.
#[tokio::test(flavor = "multi_thread")]
async fn aggregated_discovery_takes_two_requests() {
    let (server, listening) = with_widgets().await;
    let document = |groups: Value| {
        let list = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": groups});
        Fault::Response(CannedResponse::new(200, list.to_string()))
    };
    let resource = |plural: &str, kind: &str, verbs: &[&str]| {
        let response = json!({"group": "", "version": "", "kind": kind});
        json!({"resource": plural, "responseKind": response, "scope": "Namespaced", "singularResource": kind.to_lowercase(),
            "shortNames": [plural[..2]], "verbs": verbs})
    };
    let resources = [resource("reviews", "Review", &["create"]), resource("widgets", "Widget", &["list", "watch"])];
    let versions = json!([{"version": "v1", "resources": resources}, {"version": "v1alpha1", "resources": []}]);
    let groups = json!([{"metadata": {"name": "example.com"}, "versions": versions}]);
    let answers = || [document(json!([])), document(groups.clone())];

    for name in ["wi", "widgets.example.com", "widget.v1.example.com"] {
        server.inject_each(&On::verbs([Verb::Discover]), answers());
        server.clear_requests();
        assert_eq!(names(&listening.url(), name).await, "widget.example.com/w\n", "{name}");
        assert_eq!(server.requests().iter().filter(|request| request.verb == Verb::Discover).count(), 2);
    }
    server.inject_each(&On::verbs([Verb::Discover]), answers());
    let url = listening.url();
    let output = tokio::task::spawn_blocking(move || run(&["get", "reviews", "--server", &url])).await.unwrap();
    assert!(text(&output.stderr).contains("cannot watch \"reviews\""), "{output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn built_in_kinds_need_no_discovery() {
    let (server, listening) = with_widgets().await;
    server.inject(On::verbs([Verb::Discover]), Fault::status(404));

    assert_eq!(names(&listening.url(), "deploy").await, "deployment.apps/web\n");
    assert!(server.requests().iter().all(|request| request.verb != Verb::Discover));

    let url = listening.url();
    let output = tokio::task::spawn_blocking(move || run(&["get", "widgets", "--server", &url])).await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(
        message.starts_with("informant: \"widgets\" is not a built-in kind, and the server at http://127.0.0.1:"),
        "{message}"
    );
    assert_eq!(message.lines().count(), 1, "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn discovery_is_retried_if_the_server_is_overloaded() {
    let (server, listening) = with_widgets().await;
    for rejected in [1, 3] {
        let on = On::verbs([Verb::Discover]).times(rejected);
        server.inject(on, Fault::too_many_requests(Duration::from_secs(1)));

        assert_eq!(names(&listening.url(), "widgets").await, "widget.example.com/w\n", "{rejected}");
    }
}

/// The kind may be in that group.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_cannot_be_listed_is_named_if_the_kind_is_not_found() {
    let (server, listening) = with_widgets().await;
    // The server does not support aggregated discovery; it lists its groups, and fails to list the first of them.
    server.inject(On::verbs([Verb::Discover]).once(), Fault::status(406));
    server.inject(On::verbs([Verb::Discover]).skip(2).once(), Fault::status(503));
    let url = listening.url();

    let output = tokio::task::spawn_blocking(move || run(&["get", "gadgets", "--server", &url])).await.unwrap();

    let message = text(&output.stderr);
    assert!(message.contains("has no resource \"gadgets\" in the API groups that it listed; "), "{message}");
    assert!(message.contains("503") && message.lines().count() == 1, "{message}");
}

/// A server with a custom kind whose definition has columns, and two objects of it.
async fn with_columns() -> (ApiServer, Listening) {
    let server = ApiServer::new();
    let ready = r#".status.conditions[?(@.type=="Ready")].status"#;
    let columns = json!([
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Ready", "type": "string", "jsonPath": ready},
        {"name": "Colour", "type": "string", "jsonPath": ".spec.colour", "priority": 1},
    ]);
    let definition = json!({
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "gadgets", "kind": "Gadget"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": true, "storage": true, "additionalPrinterColumns": columns}],
        },
    });
    server.put("customresourcedefinitions.apiextensions.k8s.io", definition).unwrap();
    let conditions = json!([{"type": "Ready", "status": "True"}]);
    let full = json!({"metadata": {"namespace": "default", "name": "full"}, "spec": {"size": 3, "colour": "red"}, "status": {"conditions": conditions}});
    server.put("gadgets", full).unwrap();
    server
        .put("gadgets", json!({"metadata": {"namespace": "default", "name": "none"}, "spec": {"colour": "blue"}}))
        .unwrap();
    let listening = server.listen(([127, 0, 0, 1], 0)).await.unwrap();
    (server, listening)
}

/// The words of each line.
fn words(table: &str) -> Vec<Vec<String>> {
    table.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_custom_resource_is_shown_in_the_columns_of_its_definition() {
    let (_server, listening) = with_columns().await;
    let url = listening.url();
    let table = |arguments: &[&str]| words(&stdout_of(&[arguments, &["--server", &url]].concat()));

    assert_eq!(table(&["get", "gadgets"]), [vec!["NAME", "SIZE", "READY"], vec!["full", "3", "True"], vec!["none"]]);
    assert_eq!(
        table(&["get", "gadgets", "-o", "wide"]),
        [vec!["NAME", "SIZE", "READY", "COLOUR"], vec!["full", "3", "True", "red"], vec!["none", "blue"]]
    );
    assert_eq!(
        table(&["watch", "gadgets", "--until-synced"]),
        [vec!["EVENT", "NAME", "SIZE", "READY"], vec!["ADDED", "full", "3", "True"], vec!["ADDED", "none"]]
    );
}

/// A user may have permission for the objects, but not for their definition.
#[tokio::test(flavor = "multi_thread")]
async fn a_custom_resource_is_shown_by_name_and_age_if_its_definition_cannot_be_read() {
    for fault in [Fault::status(403), Fault::status(404), Fault::Drop, Fault::Hang] {
        let (server, listening) = with_columns().await;
        let url = listening.url();
        server.inject(On::any().of("customresourcedefinitions"), fault.clone());

        let shown = words(&stdout_of(&["watch", "gadgets", "--until-synced", "--no-headers", "--server", &url]));

        let names: Vec<_> = shown.iter().map(|row| (&*row[1], row.len())).collect();
        assert_eq!(names, [("full", 3), ("none", 3)], "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_is_read_only_for_tables_of_events_and_retried_if_the_server_is_overloaded() {
    let (server, listening) = with_columns().await;
    let url = listening.url();
    server.inject(On::any().of("customresourcedefinitions").once(), Fault::too_many_requests(Duration::from_secs(1)));

    let events = stdout_of(&["watch", "gadgets", "--until-synced", "--server", &url]);
    assert_eq!(words(&events)[0], ["EVENT", "NAME", "SIZE", "READY"]);
    server.clear_requests();
    stdout_of(&["watch", "gadgets", "--until-synced", "-o", "json", "--server", &url]);
    stdout_of(&["watch", "gadgets", "--until-synced", "--metadata-only", "--server", &url]);
    stdout_of(&["get", "gadgets", "--server", &url]);

    assert!(server.requests_for("customresourcedefinitions").is_empty());
}

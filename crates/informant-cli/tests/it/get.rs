//! `informant get`.

use informant_apiserver::{ApiServer, CannedResponse, Fault, Listening, On, Verb};
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::support::{Server, UNPRINTABLE, lists, run, stdout_of, text};

async fn shop() -> Server {
    let server = Server::start(&[]);
    server.put_labelled("apples", json!({"kind": "fruit"}), json!({"price": "1", "shelf": "a"})).await;
    server.put_labelled("pears", json!({"kind": "fruit"}), json!({"price": "2", "shelf": "a"})).await;
    server.put("soap", json!({"price": "1"})).await;
    server
}

/// The lines of a table, without the last column, which is the age.
fn rows(table: &str) -> Vec<String> {
    let without_age = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        words[..words.len() - 1].join(" ")
    };
    table.lines().map(without_age).collect()
}

#[tokio::test]
async fn objects_are_sorted_by_name() {
    let server = shop().await;

    assert_eq!(rows(&server.stdout_of(&["get", "cm", "-n", "shop"])), ["NAME DATA", "apples 2", "pears 2", "soap 1"]);
    assert_eq!(rows(&server.stdout_of(&["get", "cm", "-A"]))[..2], ["NAMESPACE NAME DATA", "shop apples 2"]);
    assert_eq!(rows(&server.stdout_of(&["get", "cm", "-A", "--no-headers"]))[0], "shop apples 2");
    assert_eq!(
        server.stdout_of(&["get", "cm", "-n", "shop", "-o", "name", "-l", "kind=fruit"]),
        "configmap/apples\nconfigmap/pears\n"
    );
}

#[tokio::test]
async fn json_of_a_named_object_is_the_object_and_of_several_a_list() {
    let server = shop().await;
    let read = |arguments: &[&str]| -> Value {
        let json = server.stdout_of(&[arguments, &["-n", "shop", "-o", "json"]].concat());
        let yaml = server.stdout_of(&[arguments, &["-n", "shop", "-o", "yaml"]].concat());
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(serde_saphyr::from_str::<Value>(&yaml).unwrap(), json, "YAML and JSON are equal");
        json
    };

    for one in [&["get", "cm", "pears"][..], &["get", "configmap/pears"]] {
        assert_eq!((&read(one)["data"]["price"], &read(one)["kind"]), (&json!("2"), &json!("ConfigMap")));
    }
    let list = read(&["get", "cm"]);
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("List"), &json!("v1")));
    assert_eq!(list["items"].as_array().unwrap().len(), 3);
    assert_eq!(read(&["get", "cm", "-l", "kind=none"])["items"], json!([]), "no objects are an empty list");
    let across: Value = serde_json::from_str(&server.stdout_of(&["get", "cm", "pears", "-A", "-o", "json"])).unwrap();
    assert_eq!(
        across["items"][0]["metadata"]["name"], "pears",
        "a list: several namespaces may have the name: {across}"
    );
}

#[tokio::test]
async fn a_message_reports_that_no_object_was_found() {
    let server = shop().await;

    let missing = run(&["get", "cm", "plums", "-n", "shop", "--server", &server.url]);
    assert_eq!(missing.status.code(), Some(1));
    assert_eq!(text(&missing.stderr), "informant: configmap \"plums\" in namespace \"shop\" not found\n");
    assert!(missing.stdout.is_empty());

    let none = run(&["get", "pods", "--server", &server.url]);
    assert!(none.status.success() && none.stdout.is_empty());
    assert_eq!(text(&none.stderr), "informant: no pods in namespace \"default\"\n");

    let by_kind = ["get", "cm", "-n", "shop", "--index", "label=kind", "--value", "toy", "--server", &server.url];
    let message = text(&run(&by_kind).stderr);
    assert_eq!(message, "informant: no configmaps in namespace \"shop\" under label=kind \"toy\"\n");
    let by_colour = ["get", "cm", "-n", "shop", "--index", "label=colour", "--server", &server.url];
    let message = text(&run(&by_colour).stderr);
    assert_eq!(message, "informant: no configmaps in namespace \"shop\" under any value of label=colour\n");
}

/// A script sees by the exit code that the output is incomplete.
#[tokio::test(flavor = "multi_thread")]
async fn an_unprintable_object_is_skipped_with_a_message_and_exit_code_1() {
    let good = r#"{"metadata":{"namespace":"default","name":"good"},"data":{}}"#;
    let (both, alone) = (lists(&format!("{UNPRINTABLE},{good}")).await, lists(UNPRINTABLE).await);
    let get = |server: &Listening, arguments: &[&str]| {
        let output = run(&[&["get", "cm", "--server", &server.url()], arguments].concat());
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };

    for (server, arguments) in [
        (&both, &["-o", "table"][..]),
        (&both, &["-o", "json"]),
        (&both, &["-o", "yaml"]),
        (&both, &["-o", "json", "--index", "namespace"]),
        (&both, &["-o", "json", "--index", "field=metadata.name"]),
        (&both, &["-o", "name", "--index", "field=metadata.name", "--value", "good"]),
        (&alone, &["a", "-o", "json"]),
        (&alone, &["a", "-o", "yaml"]),
        (&alone, &["a", "-o", "table"]),
    ] {
        let (code, shown, message) = get(server, arguments);
        assert_eq!(code, Some(1), "{arguments:?}: {message}");
        assert!(message.starts_with("informant: skipped an object ") && message.lines().count() == 1, "{message}");
        assert_eq!((shown.is_empty(), shown.contains("good")), (arguments[0] == "a", arguments[0] != "a"), "{shown}");
    }
    let (code, shown, _) = get(&both, &["-o", "name"]);
    assert_eq!((code, &*shown), (Some(0), "configmap/a\nconfigmap/good\n"), "names can be printed");
}

#[tokio::test]
async fn an_object_that_cannot_be_decoded_is_not_reported_as_not_found() {
    let server = Server::start(&["--faults", "read=bad-item:metadata.labels"]);
    server.put("prices", json!({})).await;

    for name in [&[][..], &["prices"]] {
        let output = run(&[&["get", "cm", "-n", "shop", "--server", &server.url], name].concat());

        let message = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()), "{message}");
        assert!(message.starts_with("informant: skipped an object ") && message.lines().count() == 1, "{message}");
    }
}

#[tokio::test]
async fn an_index_groups_objects_by_value() {
    let server = shop().await;
    let get = |arguments: &[&str]| server.stdout_of(&[&["get", "cm", "-A"], arguments].concat());

    assert_eq!(
        rows(&get(&["--index", "field=data.price"])),
        ["DATA.PRICE NAMESPACE NAME DATA", "1 shop apples 2", "1 shop soap 1", "2 shop pears 2"]
    );
    assert_eq!(
        get(&["--index", "field=data.price", "--value", "1", "-o", "name"]),
        "configmap/apples\nconfigmap/soap\n"
    );
    assert_eq!(get(&["--index", "label=kind", "-o", "name"]), "fruit\tconfigmap/apples\nfruit\tconfigmap/pears\n");
    assert_eq!(rows(&get(&["--index", "namespace"]))[..2], ["NAMESPACE NAME DATA", "shop apples 2"]);
    assert_eq!(get(&["--index", "namespace", "--value", "shop", "-o", "name"]).lines().count(), 3);

    let found: Value = serde_json::from_str(&get(&["--index", "field=data.shelf", "-o", "json"])).unwrap();
    assert_eq!(found["index"], "field=data.shelf");
    assert_eq!((found["lookups"].as_array().unwrap().len(), &found["lookups"][0]["value"]), (1, &json!("a")));
    assert_eq!(found["lookups"][0]["items"][1]["metadata"]["name"], "pears");
}

#[tokio::test]
async fn a_name_is_not_interpreted_as_a_selector() {
    let server = shop().await;

    for name in ["pears,metadata.name!=x", "a=b", r"a\b"] {
        for index in [&[][..], &["--index", "namespace"]] {
            let output = run(&[&["get", "cm", name, "-n", "shop", "--server", &server.url], index].concat());
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            assert!(text(&output.stderr).contains("not found"), "{output:?}");
        }
    }
}

#[tokio::test]
async fn an_index_does_not_reveal_values_of_secrets() {
    let server = Server::start(&[]);
    let secret: Secret =
        serde_json::from_value(json!({"metadata": {"name": "db"}, "data": {"key": "aHVudGVyMg=="}})).unwrap();
    server.create_shop().await;
    server.secrets().create(&PostParams::default(), &secret).await.unwrap();
    let by_key = ["get", "secrets", "-A", "--index", "field=data.key", "-o", "name"];

    assert_eq!(server.stdout_of(&by_key), "(hidden, 12 characters)\tsecret/db\n");
    assert_eq!(server.stdout_of(&[&by_key[..], &["--show-secrets"]].concat()), "aHVudGVyMg==\tsecret/db\n");
}

#[tokio::test]
async fn pods_and_nodes_have_the_columns_of_kubectl() {
    let server = Server::start(&["--load", "pods=3,nodes=2"]);

    let table = server.stdout_of(&["get", "pods", "-n", "team-0"]);
    assert_eq!(rows(&table)[..2], ["NAME READY STATUS RESTARTS", "web-0-7c9f8d6b5d-00000 1/1 Running 0"], "{table}");
    let wide = server.stdout_of(&["get", "pods", "-n", "team-0", "-o", "wide"]);
    assert!(wide.starts_with("NAME ") && wide.contains(" NODE ") && wide.contains(" node-0 "), "{wide}");
    let by_node =
        server.stdout_of(&["get", "po", "-A", "--index", "field=spec.nodeName", "--value", "node-1", "-o", "name"]);
    assert_eq!(by_node, "pod/web-0-7c9f8d6b5d-00001\n");
    let nodes = server.stdout_of(&["get", "nodes", "--no-headers"]);
    let words: Vec<_> = nodes.lines().next().unwrap().split_whitespace().collect();
    assert_eq!((&words[..3], words[4]), (&["node-0", "Ready", "<none>"][..], "v1.37.0"), "{nodes}");
}

/// A server with an ingress class; its tables have columns that this program does not know.
async fn server_with_own_columns() -> (ApiServer, Listening) {
    let server = ApiServer::new();
    server.put("ingressclasses", json!({"metadata": {"name": "nginx"}})).unwrap();
    let column = |name: &str, priority: u32| json!({"name": name, "type": "string", "priority": priority});
    let metadata = json!({"name": "nginx"});
    let table = json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": "2"},
        "columnDefinitions": [column("Name", 0), column("Controller", 0), column("Parameters", 1)],
        "rows": [{"cells": ["nginx", "example.com/nginx", null], "object": {"metadata": metadata}}],
    });
    server.inject(On::list(), Fault::Response(CannedResponse::new(200, table.to_string())));
    let listening = server.listen(([127, 0, 0, 1], 0)).await.unwrap();
    (server, listening)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_that_of_the_server() {
    let (server, listening) = server_with_own_columns().await;
    let get =
        |arguments: &[&str]| stdout_of(&[&["get", "ingressclasses", "--server", &listening.url()], arguments].concat());

    assert_eq!(get(&[]), "NAME    CONTROLLER\nnginx   example.com/nginx\n");
    let wide = "NAME    CONTROLLER          PARAMETERS\nnginx   example.com/nginx\n";
    assert_eq!(get(&["-o", "wide"]), wide);
    let by_name = "METADATA.NAME   NAME    CONTROLLER\nnginx           nginx   example.com/nginx\n";
    assert_eq!(get(&["--index", "field=metadata.name"]), by_name);
    assert_eq!(get(&["--no-headers"]), "nginx   example.com/nginx\n");
    let requests = server.requests();
    let table = requests.iter().find(|request| request.verb == Verb::List).unwrap();
    assert_eq!(table.accept, "application/json;as=Table;g=meta.k8s.io;v=v1");
    assert_eq!((&*table.resource_version, &*table.resource_version_match), ("2", "Exact"), "the version of the cache");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_tables_gets_the_known_columns() {
    let server = ApiServer::new();
    server.put("configmaps", json!({"metadata": {"namespace": "default", "name": "a"}})).unwrap();
    let listening = server.listen(([127, 0, 0, 1], 0)).await.unwrap();
    let plain_list = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":[]}"#;
    // A table without the object is not one of the cache.
    let empty = r#"{"kind":"Table","metadata":{},"columnDefinitions":[],"rows":[]}"#;

    for answer in [Fault::status(406), Fault::status(410), Fault::Drop]
        .into_iter()
        .chain([plain_list, empty].map(|body| Fault::Response(CannedResponse::new(200, body))))
    {
        server.clear_faults();
        server.inject(On::list(), answer);
        assert_eq!(rows(&stdout_of(&["get", "cm", "--server", &listening.url()])), ["NAME DATA", "a 0"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_table_is_read_in_pages() {
    let server = ApiServer::new();
    for number in 0..501 {
        let metadata = json!({"namespace": "default", "name": format!("map-{number:03}")});
        server.put("configmaps", json!({ "metadata": metadata })).unwrap();
    }
    let listening = server.listen(([127, 0, 0, 1], 0)).await.unwrap();

    let table = stdout_of(&["get", "cm", "-A", "--server", &listening.url()]);

    assert_eq!(rows(&table)[..2], ["NAMESPACE NAME DATA", "default map-000 0"]);
    assert_eq!(table.lines().count(), 502);
    let lists: Vec<_> = server.requests_for("configmaps").into_iter().filter(|one| one.starts_with("L(")).collect();
    assert_eq!(lists, ["L(502, 500)", "L(\"\", 500, C1)"]);
}

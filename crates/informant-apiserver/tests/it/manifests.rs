//! Objects from YAML files, and the server's objects as YAML.

use std::{error::Error, fs, path::PathBuf};

use informant_apiserver::{ApiServer, ManifestError};
use serde_json::json;

use crate::support::Web;

/// A file that is removed with this value.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("informant-{}-{name}.yaml", std::process::id()));
        fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// An error with its causes.
fn report(error: &ManifestError) -> String {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}

#[tokio::test]
async fn a_file_is_loaded_in_an_order_that_works() {
    let server = ApiServer::new();

    server.load("examples/shop.yaml").unwrap();

    assert_eq!(server.get("fleets.example.com", "shop/blue").unwrap()["spec"]["ships"], 3);
    let path = "/apis/example.com/v1/namespaces/shop/fleets/blue";
    assert_eq!(Web::in_process(&server).get(path).await.code, 200);
}

#[tokio::test]
async fn an_object_without_a_namespace_is_created_in_the_default_one() {
    let file = File::new("default", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}");
    let server = ApiServer::new();

    server.load(&file.0).unwrap();

    assert!(server.get("configmaps", "default/a").is_ok());
}

#[tokio::test]
async fn an_error_names_the_file_the_document_and_the_object() {
    let server = ApiServer::new();
    let problem = |name: &str, text: &str| {
        let file = File::new(name, text);
        let problem = report(&server.load(&file.0).unwrap_err());
        problem.replace(&file.0.display().to_string(), "FILE")
    };
    let good = |name: &str| format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}}}\n---\n");
    let in_shop = "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: shop, name: web}}";

    assert_eq!(
        problem("missing-namespace", &(good("a") + in_shop)),
        "ConfigMap shop/web in document 2 of FILE is rejected: namespaces \"shop\" not found"
    );
    assert_eq!(
        problem("twice", &(good("b") + &good("b"))),
        "ConfigMap b in document 2 of FILE is rejected: configmaps \"b\" already exists"
    );
    assert_eq!(
        problem("unknown-kind", "{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}}"),
        "Widget w in document 1 of FILE is rejected: the server has no kind \"Widget\" in version \"example.com/v1\""
    );
    assert_eq!(problem("text", &(good("c") + "text")), "document 2 of FILE is not an object: it has no kind");
    assert!(server.get("configmaps", "default/c").is_err(), "a file that cannot be read has no effect");
    let missing = server.load("missing.yaml").unwrap_err();
    assert!(report(&missing).starts_with("missing.yaml cannot be read: "), "{}", report(&missing));
}

#[tokio::test]
async fn a_dump_has_every_object_once_and_is_the_same_in_each_run() {
    let dump = || {
        let server = ApiServer::builder().bootstrapped().build();
        server.load("examples/shop.yaml").unwrap();
        let named =
            |name: &str| json!({"metadata": {"namespace": "shop", "name": name, "managedFields": [{"manager": "a"}]}});
        server.put("configmaps", named("b")).unwrap();
        server.put("configmaps", named("a")).unwrap();
        server.put("events", named("e")).unwrap();
        server.put("horizontalpodautoscalers", named("h")).unwrap();
        server.dump()
    };

    let text = dump();

    assert_eq!(text, dump());
    for (wanted, times) in
        [("name: a\n", 1), ("kind: Event", 1), ("kind: HorizontalPodAutoscaler", 1), ("kind: Fleet", 1)]
    {
        assert_eq!(text.matches(wanted).count(), times, "{wanted}: {text}");
    }
    for noise in ["resourceVersion", "creationTimestamp", "managedFields", "uid:", "CustomResourceDefinition"] {
        assert!(!text.contains(noise), "{noise}: {text}");
    }
    assert!(text.find("name: a\n") < text.find("name: b\n"), "{text}");
    assert_eq!(ApiServer::new().dump(), "");
}

#[tokio::test]
async fn a_dump_can_be_loaded() {
    let server = ApiServer::new();
    server.put("namespaces", json!({"metadata": {"name": "shop"}})).unwrap();
    server.put("configmaps", json!({"metadata": {"namespace": "shop", "name": "a"}, "data": {"x": "a\nb\n"}})).unwrap();
    let file = File::new("dump", &server.dump());

    let copy = ApiServer::new();
    copy.load(&file.0).unwrap();

    assert_eq!(copy.dump(), server.dump());
}

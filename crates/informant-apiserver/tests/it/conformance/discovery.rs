//! Discovery documents, which list the kinds of the server.

use super::*;

both_ways! {
    an_aggregated_document_has_all_groups_versions_and_kinds
    clients_that_do_not_accept_aggregated_discovery_get_plain_documents
    subresources_are_discovered
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

async fn aggregated(api: &Api, path: &str) -> Answer {
    api.send(Method::GET, path, None, &[("accept", &format!("{AGGREGATED},application/json"))]).await
}

/// The entry of a list whose field has this value.
fn with<'a>(list: &'a Value, field: &str, value: &str) -> &'a Value {
    let found = list.as_array().into_iter().flatten().find(|entry| entry.pointer(field) == Some(&json!(value)));
    found.unwrap_or_else(|| panic!("{value} is not in {list}"))
}

async fn an_aggregated_document_has_all_groups_versions_and_kinds(api: Api) {
    let core = aggregated(&api, "/api").await;
    assert_eq!(core.headers["content-type"], AGGREGATED);
    assert_eq!((core.text("/kind"), core.text("/apiVersion")), ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2"));
    let v1 = with(&core.body["items"][0]["versions"], "/version", "v1");
    let pods = with(&v1["resources"], "/resource", "pods");
    assert_eq!(pods["responseKind"], json!({"group": "", "version": "", "kind": "Pod"}));
    assert_eq!((&pods["scope"], &pods["singularResource"]), (&json!("Namespaced"), &json!("pod")));
    assert_eq!((&pods["shortNames"], &pods["categories"]), (&json!(["po"]), &json!(["all"])));
    assert!(pods["verbs"].as_array().unwrap().contains(&json!("deletecollection")));
    with(&pods["subresources"], "/subresource", "status");

    let others = aggregated(&api, "/apis").await.body;
    let apps = with(&others["items"], "/metadata/name", "apps");
    let deployments = with(&with(&apps["versions"], "/version", "v1")["resources"], "/resource", "deployments");
    let scale = with(&deployments["subresources"], "/subresource", "scale");
    assert_eq!(scale["responseKind"], json!({"group": "autoscaling", "version": "v1", "kind": "Scale"}));
    let autoscaling = with(&others["items"], "/metadata/name", "autoscaling");
    assert_eq!(autoscaling["versions"][0]["version"], "v2");
    assert_eq!(autoscaling["versions"][1]["version"], "v1");
}

async fn clients_that_do_not_accept_aggregated_discovery_get_plain_documents(api: Api) {
    assert_eq!(api.get("/api").await.text("/kind"), "APIVersions");
    assert_eq!(api.get("/apis").await.text("/kind"), "APIGroupList");
    let older = [("accept", &*AGGREGATED.replace("v2", "v2alpha1"))];
    assert_eq!(api.send(Method::GET, "/apis", None, &older).await.code, 406);
    let v1 = aggregated(&api, "/apis/apps/v1").await;
    assert_eq!(v1.text("/kind"), "APIResourceList");
}

async fn subresources_are_discovered(api: Api) {
    let resources = api.get("/api/v1").await.body["resources"].clone();
    let eviction = with(&resources, "/name", "pods/eviction");
    assert_eq!((&eviction["group"], &eviction["kind"]), (&json!("policy"), &json!("Eviction")));
    assert_eq!(eviction["verbs"], json!(["create"]));
    let token = with(&resources, "/name", "serviceaccounts/token");
    assert_eq!((&token["group"], &token["kind"]), (&json!("authentication.k8s.io"), &json!("TokenRequest")));
    with(&resources, "/name", "pods/ephemeralcontainers");
    with(&resources, "/name", "namespaces/finalize");
    let reviews = api.get("/apis/authorization.k8s.io/v1").await.body["resources"].clone();
    assert_eq!(with(&reviews, "/name", "selfsubjectaccessreviews")["verbs"], json!(["create"]));
}

//! Interceptors: functions of a test that change, refuse or answer requests.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
};

use http::Method;
use informant_apiserver::{ApiError, ApiServer, CannedResponse, Fault, Interception, On, Verb};
use serde_json::{Value, json};

use crate::support::Web;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"a": "1"}})
}

#[tokio::test]
async fn a_function_sees_what_a_client_sends() {
    let server = ApiServer::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    server.intercept(On::any(), move |request| {
        log.lock().unwrap().push(request.clone());
        Interception::Pass
    });
    let web = Web::in_process(&server);

    web.send(Method::POST, MAPS, Some(&map("a")), &[("user-agent", "controller/1.0")]).await;
    let patch = json!({"data": {"b": "2"}});
    web.patch(&format!("{MAPS}/a"), "application/merge-patch+json", &patch).await;
    web.get("/apis/apps/v1/namespaces/default/deployments/web/status").await;

    let seen = seen.lock().unwrap();
    assert_eq!((seen[0].verb, &*seen[0].resource, &*seen[0].namespace), (Verb::Create, "configmaps", "default"));
    assert_eq!((&*seen[0].name, &*seen[0].user_agent, &seen[0].body), ("", "controller/1.0", &map("a")));
    assert_eq!((seen[1].verb, &*seen[1].name, &seen[1].body), (Verb::Patch, "a", &patch));
    assert_eq!(
        (&*seen[2].resource, seen[2].subresource.is_some(), &seen[2].body),
        ("deployments.apps", true, &Value::Null)
    );
}

#[tokio::test]
async fn a_request_goes_on_with_the_body_that_the_functions_leave() {
    let server = ApiServer::new();
    server.intercept(On::create(), |request| {
        request.body["data"]["a"] = json!("2");
        Interception::Pass
    });
    server.intercept(On::create(), |request| {
        request.body["data"]["b"] = request.body["data"]["a"].clone();
        Interception::Pass
    });

    let created = Web::in_process(&server).post(MAPS, &map("a")).await;

    assert_eq!((created.code, &created.body["data"]), (201, &json!({"a": "2", "b": "2"})));
}

#[tokio::test]
async fn a_body_that_the_server_rejects_is_rejected() {
    let server = ApiServer::new();
    server.intercept(On::create(), |request| {
        request.body["metadata"]["name"] = json!("Not a name");
        Interception::Pass
    });

    assert_eq!(Web::in_process(&server).post(MAPS, &map("a")).await.failure(), (422, "Invalid"));
}

#[tokio::test]
async fn a_refused_request_changes_nothing() {
    let server = ApiServer::new();
    let why = "admission webhook \"quota\" denied the request: no more maps";
    server.intercept(On::create().of("configmaps"), move |_| {
        Interception::Refuse(ApiError::Injected { code: 403, message: why.to_owned(), retry_after: None })
    });

    let refused = Web::in_process(&server).post(MAPS, &map("a")).await;

    assert_eq!((refused.failure(), refused.text("/message")), ((403, "Forbidden"), why));
    assert_eq!(server.count("configmaps"), Ok(0));
    assert_eq!(server.requests().len(), 1, "the log has the request");
}

#[tokio::test]
async fn an_answer_takes_the_place_of_the_servers() {
    let server = ApiServer::new();
    server.intercept(On::any().named("a").once(), |_| {
        Interception::Answer(CannedResponse::new(200, r#"{"kind":"ConfigMap"}"#).header("warning", "299 - \"a\""))
    });
    let web = Web::in_process(&server);

    let answered = web.get(&format!("{MAPS}/a")).await;

    assert_eq!(
        (answered.code, answered.text("/kind"), &answered.headers["warning"]),
        (200, "ConfigMap", &"299 - \"a\"".parse().unwrap())
    );
    assert_eq!(web.get(&format!("{MAPS}/a")).await.code, 404, "once");
}

#[tokio::test]
async fn the_first_function_that_does_not_let_a_request_pass_decides() {
    let server = ApiServer::new();
    server.intercept(On::any(), |_| Interception::Answer(CannedResponse::new(201, "{}")));
    let second = server.intercept(On::any(), |_| Interception::Refuse(ApiError::MethodNotAllowed));

    assert_eq!(Web::in_process(&server).get(MAPS).await.code, 201);
    assert_eq!(server.fault_hits(second), Some(1));
}

#[tokio::test]
async fn a_function_may_call_the_server() {
    let server = ApiServer::new();
    let inside = server.clone();
    server.intercept(On::create().of("configmaps"), move |_| {
        inside.put("secrets", json!({"metadata": {"namespace": "default", "name": "a"}})).unwrap();
        inside.inject(On::list(), Fault::Refuse);
        assert_eq!(inside.requests().len(), 1);
        Interception::Pass
    });

    assert_eq!(Web::in_process(&server).post(MAPS, &map("a")).await.code, 201);
    assert_eq!((server.count("secrets"), server.count("configmaps")), (Ok(1), Ok(1)));
}

#[tokio::test]
async fn a_fault_that_prevents_the_response_comes_first() {
    let server = ApiServer::new();
    let refused = server.inject(On::create(), Fault::status(503));
    let seen = server.intercept(On::create(), |_| panic!("the request is not carried out"));
    let web = Web::in_process(&server);

    assert_eq!(web.post(MAPS, &map("a")).await.code, 503);

    server.remove_fault(refused);
    server.remove_fault(seen);
    assert_eq!(web.post(MAPS, &map("a")).await.code, 201);
}

#[tokio::test]
async fn an_interceptor_of_a_misspelt_kind_is_an_error() {
    let server = ApiServer::new();
    let misspelt = AssertUnwindSafe(|| server.intercept(On::create().of("configmap"), |_| Interception::Pass));

    let panic = catch_unwind(misspelt).unwrap_err();

    assert!(panic.downcast_ref::<String>().unwrap().contains("did you mean \"configmaps\"?"));
}

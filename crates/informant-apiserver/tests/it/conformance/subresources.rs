//! Subresources that need no kubelet, reviews, and API services.

use super::*;

both_ways! {
    an_evicted_pod_is_deleted
    a_disruption_budget_prevents_an_eviction
    a_binding_assigns_a_pod_to_a_node_once
    a_service_account_gets_a_token_that_a_review_accepts
    the_approval_subresource_changes_only_conditions
    the_ephemeralcontainers_subresource_changes_only_ephemeral_containers
    access_reviews_allow_the_access_and_malformed_ones_are_refused
    the_sender_of_a_request_can_ask_who_it_is
    an_action_allows_no_other_verb
    api_services_can_be_created_and_deleted
    a_pod_gets_the_annotations_and_labels_of_its_binding
    a_binding_with_the_uid_of_another_pod_is_refused
    an_eviction_in_a_namespace_that_is_being_deleted_is_refused
    a_token_request_with_values_of_the_wrong_type_is_refused
}

impl Api {
    /// Creates a pod, after the service account that a cluster needs for it.
    async fn add_pod(&self, name: &str) -> String {
        self.post(&self.path("serviceaccounts"), &json!({"metadata": {"name": "default"}})).await;
        let pod = json!({
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {
                "containers": [{"name": "main", "image": "example.com/main:1"}],
                "terminationGracePeriodSeconds": 0,
            },
        });
        let created = self.post(&self.path("pods"), &pod).await;
        assert_eq!(created.code, 201, "{created:?}");
        format!("{}/{name}", self.path("pods"))
    }
}

fn eviction(name: &str) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}})
}

async fn an_evicted_pod_is_deleted(api: Api) {
    let path = api.add_pod("a").await;

    let dry = api.post(&format!("{path}/eviction?dryRun=All"), &eviction("a")).await;
    assert_eq!((dry.code, api.get(&path).await.code), (201, 200));
    let wrong = api.post(&format!("{path}/eviction"), &eviction("b")).await;
    assert_eq!(wrong.failure(), (400, "BadRequest"));
    let evicted = api.post(&format!("{path}/eviction"), &eviction("a")).await;
    assert_eq!((evicted.code, evicted.text("/status")), (201, "Success"));
    assert_eq!(api.get(&path).await.code, 404);
    assert_eq!(api.post(&format!("{path}/eviction"), &eviction("a")).await.failure(), (404, "NotFound"));
}

async fn a_disruption_budget_prevents_an_eviction(api: Api) {
    let path = api.add_pod("a").await;
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    assert_eq!(api.patch(&format!("{path}/status"), "application/merge-patch+json", &status).await.code, 200);
    let budget = json!({
        "metadata": {"name": "a"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
    });
    assert_eq!(api.post(&api.path("policy/poddisruptionbudgets"), &budget).await.code, 201);

    let refused = api.post(&format!("{path}/eviction"), &eviction("a")).await;
    assert_eq!(refused.failure(), (429, "TooManyRequests"));
    assert!(refused.text("/message").starts_with("Cannot evict pod as it would violate"), "{refused:?}");
    assert_eq!(refused.text("/details/causes/0/reason"), "DisruptionBudget");
    let budget = format!("{}/a", api.path("policy/poddisruptionbudgets"));
    let counts = json!({"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2, "observedGeneration": 1});
    let allowed = api.change(&format!("{budget}/status"), |budget| budget["status"] = counts).await;
    assert_eq!(allowed.code, 200, "{allowed:?}");
    assert_eq!(api.post(&format!("{path}/eviction"), &eviction("a")).await.code, 201);
    assert_eq!(api.get(&budget).await.body["status"]["disruptionsAllowed"], 0);
}

async fn a_binding_assigns_a_pod_to_a_node_once(api: Api) {
    let path = api.add_pod("a").await;
    let binding = |node: &str| json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": node}});

    let bound = api.post(&format!("{path}/binding"), &binding("node-1")).await;
    assert_eq!((bound.code, bound.text("/status")), (201, "Success"));
    let pod = api.get(&path).await.body;
    assert_eq!(pod["spec"]["nodeName"], "node-1");
    assert_eq!(pod["status"]["conditions"][0]["type"], "PodScheduled");
    assert_eq!(api.post(&format!("{path}/binding"), &binding("node-2")).await.failure(), (409, "Conflict"));
    let nowhere = api.post(&format!("{path}/binding"), &json!({"metadata": {"name": "a"}})).await;
    assert_eq!(nowhere.failure().0, 500);
    assert!(nowhere.text("/message").contains("target.name: Required value"), "{nowhere:?}");
}

async fn a_service_account_gets_a_token_that_a_review_accepts(api: Api) {
    let created = api.post(&api.path("serviceaccounts"), &json!({"metadata": {"name": "robot"}})).await;
    let path = format!("{}/robot/token", api.path("serviceaccounts"));

    let issued = api.post(&path, &json!({"spec": {"expirationSeconds": 600}})).await;

    assert_eq!(issued.code, 201, "{issued:?}");
    assert!(!issued.text("/status/expirationTimestamp").is_empty(), "{issued:?}");
    let review = json!({"spec": {"token": issued.text("/status/token")}});
    let reviewed = api.post("/apis/authentication.k8s.io/v1/tokenreviews", &review).await;
    assert_eq!((reviewed.code, &reviewed.body["status"]["authenticated"]), (201, &json!(true)));
    let user = &reviewed.body["status"]["user"];
    assert_eq!(user["username"], format!("system:serviceaccount:{}:robot", api.namespace));
    assert_eq!(user["uid"], created.body["metadata"]["uid"]);
    let unknown = json!({"spec": {"token": "unknown"}});
    let unknown = api.post("/apis/authentication.k8s.io/v1/tokenreviews", &unknown).await;
    assert_eq!((unknown.code, unknown.body["status"].get("authenticated")), (201, None));
    let short = api.post(&path, &json!({"spec": {"expirationSeconds": 5}})).await;
    assert_eq!(short.failure(), (422, "Invalid"));
    let missing_account = path.replace("robot", "none");
    assert_eq!(api.post(&missing_account, &json!({"spec": {}})).await.failure(), (404, "NotFound"));
}

/// A certificate signing request for the name `conformance`, in base64.
const REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIUU1IZ0NBUUF3RmpFVU1CSUdBMVVFQXd3TFkyOXVabTl5YldG\
    dVkyVXdXVEFUQmdjcWhrak9QUUlCQmdncQpoa2pPUFFNQkJ3TkNBQVRucWtRanowYk4yRFZZNWh0UnE4SUZaMndNT1pORHNidzZu\
    c0M4OEN1d2tiK0NJT1lyCkpwbXo0ZllOUmdOcXQwMERMSlJ5MU9pYXpxNzdSeVVnT0p4K29BQXdDZ1lJS29aSXpqMEVBd0lEU0FB\
    d1JRSWgKQU1ZclljN2VoQkw0L3M0bTFjTi9HNlVIWjlGUmJucGVFTy9nU1Z2UTJZenZBaUI3dDkzVHhYTHR5MEF5TlMrVApYWWlo\
    dFZMSHlKcEk5WHRhakRxejRueVZpZz09Ci0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=";

async fn the_approval_subresource_changes_only_conditions(api: Api) {
    let all = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let path = format!("{all}/{}", api.namespace);
    let spec = json!({"request": REQUEST, "signerName": "example.com/signer", "usages": ["client auth"]});
    let created = api.post(all, &json!({"metadata": {"name": api.namespace}, "spec": spec})).await;
    assert_eq!(created.code, 201, "{created:?}");

    let condition = json!({"type": "Approved", "status": "True", "reason": "Test", "message": "approved"});
    let approved = api
        .change(&format!("{path}/approval"), |request| {
            request["status"] = json!({"conditions": [condition], "certificate": "YQ=="});
            request["spec"]["signerName"] = json!("example.com/other");
        })
        .await;

    assert_eq!(approved.code, 200, "{approved:?}");
    assert_eq!(approved.body["status"]["conditions"][0]["type"], "Approved");
    assert_eq!(approved.body["status"].get("certificate"), None);
    assert_eq!(approved.body["spec"]["signerName"], "example.com/signer");
}

async fn the_ephemeralcontainers_subresource_changes_only_ephemeral_containers(api: Api) {
    let path = api.add_pod("a").await;
    let debugger = json!({"name": "debugger", "image": "example.com/debug:1"});
    let patch = json!({"spec": {"ephemeralContainers": [debugger], "nodeName": "node-1"}});

    let patched =
        api.patch(&format!("{path}/ephemeralcontainers"), "application/strategic-merge-patch+json", &patch).await;

    assert_eq!(patched.code, 200, "{patched:?}");
    assert_eq!(patched.text("/kind"), "Pod");
    assert_eq!(patched.body["spec"]["ephemeralContainers"][0]["name"], "debugger");
    assert_eq!(patched.body["spec"].get("nodeName"), None);
    assert_eq!(api.get(&format!("{path}/ephemeralcontainers")).await.body["spec"], patched.body["spec"]);
}

async fn access_reviews_allow_the_access_and_malformed_ones_are_refused(api: Api) {
    let access = json!({"verb": "list", "resource": "pods", "namespace": api.namespace});
    let of_user = json!({"user": "admin", "groups": ["system:masters"], "resourceAttributes": access});
    let paths = [
        ("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".to_owned(), json!({"resourceAttributes": access})),
        ("/apis/authorization.k8s.io/v1/subjectaccessreviews".to_owned(), of_user.clone()),
        (api.path("authorization.k8s.io/localsubjectaccessreviews"), of_user),
    ];
    for (path, spec) in &paths {
        let mut review = json!({"spec": spec});
        if path.contains("local") {
            review["metadata"] = json!({"namespace": api.namespace});
        }
        let reviewed = api.post(path, &review).await;
        assert_eq!((reviewed.code, &reviewed.body["status"]["allowed"]), (201, &json!(true)), "{reviewed:?}");
        assert_eq!(reviewed.body["spec"]["resourceAttributes"]["verb"], "list");
    }
    let empty = api.post(&paths[0].0, &json!({"spec": {}})).await;
    assert_eq!(empty.failure(), (422, "Invalid"));
    let without_user = api.post(&paths[1].0, &json!({"spec": {"resourceAttributes": access}})).await;
    assert_eq!(without_user.failure(), (422, "Invalid"));
    let rules = json!({"spec": {"namespace": api.namespace}});
    let rules = api.post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", &rules).await;
    assert_eq!((rules.code, rules.body["status"]["resourceRules"].is_array()), (201, true), "{rules:?}");
    assert_eq!(api.get(&paths[0].0).await.failure(), (405, "MethodNotAllowed"));
}

async fn the_sender_of_a_request_can_ask_who_it_is(api: Api) {
    let me = api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!({})).await;

    assert_eq!(me.code, 201, "{me:?}");
    assert!(!me.text("/status/userInfo/username").is_empty(), "{me:?}");
    let groups = me.body["status"]["userInfo"]["groups"].as_array().unwrap();
    assert!(groups.contains(&json!("system:authenticated")), "{me:?}");
}

async fn an_action_allows_no_other_verb(api: Api) {
    let path = api.add_pod("a").await;

    assert_eq!(api.get(&format!("{path}/eviction")).await.failure(), (405, "MethodNotAllowed"));
    assert_eq!(api.put(&format!("{path}/binding"), &json!({})).await.failure(), (405, "MethodNotAllowed"));
    assert_eq!(api.post(&format!("{path}/status"), &json!({})).await.failure(), (405, "MethodNotAllowed"));
    assert_eq!(api.post(&format!("{path}/token"), &json!({})).await.code, 404);
}

async fn api_services_can_be_created_and_deleted(api: Api) {
    let services = "/apis/apiregistration.k8s.io/v1/apiservices";
    // Only this test uses the group, because names of API services are unique in a cluster.
    let group = format!("{}.example.com", api.namespace);
    let service = json!({
        "metadata": {"name": format!("v1.{group}")},
        "spec": {
            "group": group,
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": true,
            "service": {"name": "a", "namespace": api.namespace},
        },
    });

    let created = api.post(services, &service).await;

    assert_eq!(created.code, 201, "{created:?}");
    assert_eq!(api.delete(&format!("{services}/v1.{group}")).await.code, 200);
}

async fn a_pod_gets_the_annotations_and_labels_of_its_binding(api: Api) {
    api.add_pod("a").await;
    let metadata = json!({"name": "a", "annotations": {"x": "y"}, "labels": {"l": "m"}});
    let binding = json!({"metadata": metadata, "target": {"kind": "Node", "name": "n"}});
    let path = format!("{}/a", api.path("pods"));

    assert_eq!(api.post(&format!("{path}/binding"), &binding).await.code, 201);

    let bound = api.get(&path).await.body;
    assert_eq!((&bound["metadata"]["annotations"]["x"], &bound["metadata"]["labels"]["l"]), (&json!("y"), &json!("m")));
}

async fn a_binding_with_the_uid_of_another_pod_is_refused(api: Api) {
    api.add_pod("a").await;
    let binding = json!({"metadata": {"name": "a", "uid": "other"}, "target": {"kind": "Node", "name": "n"}});

    let refused = api.post(&format!("{}/a/binding", api.path("pods")), &binding).await;

    assert_eq!(refused.failure(), (409, "Conflict"));
}

async fn an_eviction_in_a_namespace_that_is_being_deleted_is_refused(api: Api) {
    let created = api.post("/api/v1/namespaces", &json!({"metadata": {"generateName": "conformance-"}})).await;
    let namespace = format!("/api/v1/namespaces/{}", created.text("/metadata/name"));
    let held = |name: &str| {
        let metadata = json!({"name": name, "finalizers": ["example.com/a"]});
        json!({"metadata": metadata, "spec": {"containers": [{"name": "a", "image": "a"}]}})
    };
    assert_eq!(api.post(&format!("{namespace}/pods"), &held("a")).await.code, 201);
    assert_eq!(api.delete(&namespace).await.code, 200);

    let evicted = api.post(&format!("{namespace}/pods/a/eviction"), &json!({"metadata": {"name": "a"}})).await;

    assert_eq!(evicted.failure(), (403, "Forbidden"));
}

async fn a_token_request_with_values_of_the_wrong_type_is_refused(api: Api) {
    let accounts = api.path("serviceaccounts");
    assert_eq!(api.post(&accounts, &json!({"metadata": {"name": "a"}})).await.code, 201);

    for spec in [json!({"expirationSeconds": "7200"}), json!({"audiences": "x"})] {
        let refused = api.post(&format!("{accounts}/a/token"), &json!({"spec": spec})).await;
        assert_eq!(refused.failure(), (400, "BadRequest"), "{spec}");
    }
}

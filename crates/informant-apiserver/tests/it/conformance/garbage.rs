//! Garbage collection: what happens to objects whose owners are gone.
//!
//! Another server runs these tests only if it has a collector: `INFORMANT_CONFORMANCE_COLLECTS` says so. A real collector works while
//! the tests go on, so they wait until a state is reached.

use std::time::Duration;

use super::*;

both_ways! {
    the_dependents_of_a_deleted_owner_are_deleted
    a_watch_sees_the_delete_of_each_dependent
    a_foreground_delete_waits_for_dependents_that_block
    a_foreground_delete_does_not_wait_for_dependents_that_do_not_block
    a_foreground_delete_goes_through_all_generations
    a_background_delete_ends_the_wait_of_a_foreground_delete
    an_orphan_stays_and_loses_its_reference
    a_job_leaves_its_dependents
    the_dependents_of_a_job_go_with_it_on_request
    an_existing_orphan_finalizer_keeps_the_dependents
    a_dependent_with_an_orphan_finalizer_keeps_its_own_dependents
    an_owner_counts_by_its_uid
    an_owner_of_another_name_is_absent
    an_object_that_is_created_after_its_owner_is_deleted_goes
    an_owner_in_another_namespace_is_absent
    a_cluster_scoped_object_with_a_namespaced_owner_stays
    a_namespaced_object_goes_with_its_cluster_scoped_owner
    an_owner_of_a_kind_that_is_not_served_keeps_its_dependents
    an_object_with_several_owners_loses_only_the_reference_of_the_one_that_goes
    an_object_with_several_owners_does_not_wait_with_one_of_them
    an_object_goes_with_the_last_of_its_owners
    the_finalizers_of_a_dependent_are_respected
    a_cycle_ends_in_the_background
    a_cycle_ends_in_the_foreground
    a_reference_that_is_removed_no_longer_blocks
    a_reference_that_is_added_counts
}

const HOLD: &str = "example.com/hold";

async fn in_process(promise: impl AsyncFnOnce(Api)) {
    let server = ApiServer::builder().garbage_collection().build();
    promise(Api::new(Web::in_process(&server)).await).await;
}

async fn through_a_socket(promise: impl AsyncFnOnce(Api)) {
    match std::env::var("INFORMANT_CONFORMANCE_URL") {
        Ok(url) if std::env::var_os("INFORMANT_CONFORMANCE_COLLECTS").is_some() => {
            promise(Api::new(other_server(&url)).await).await;
        }
        Ok(_) => {}
        Err(_) => {
            let server = ApiServer::builder().garbage_collection().build();
            let listening = server.listen(([127, 0, 0, 1], 0)).await.unwrap();
            promise(Api::new(Web::at(&listening.url())).await).await;
            listening.stop().await;
        }
    }
}

/// A reference to a config map or another object.
fn owner(object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "name": metadata["name"], "uid": metadata["uid"]})
}

/// A reference with `blockOwnerDeletion`.
fn blocking(object: &Value) -> Value {
    let mut reference = owner(object);
    reference["blockOwnerDeletion"] = json!(true);
    reference
}

fn policy(name: &str) -> Value {
    json!({"propagationPolicy": name})
}

impl Api {
    /// Creates a config map with owners.
    async fn add_owned(&self, name: &str, owners: &[Value]) -> Value {
        self.add_object(name, owners, &[]).await
    }

    /// Creates a config map with owners that a finalizer holds.
    async fn add_held_by(&self, name: &str, owners: &[Value]) -> Value {
        self.add_object(name, owners, &[HOLD]).await
    }

    async fn add_object(&self, name: &str, owners: &[Value], finalizers: &[&str]) -> Value {
        let mut map = config_map(name, &json!({}));
        map["metadata"]["ownerReferences"] = json!(owners);
        map["metadata"]["finalizers"] = json!(finalizers);
        let created = self.post(&self.path("configmaps"), &map).await;
        assert_eq!(created.code, 201, "{created:?}");
        created.body
    }

    /// Waits until the object at this path satisfies a condition.
    async fn until(&self, path: &str, is_reached: impl Fn(&Answer) -> bool) -> Answer {
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        loop {
            let found = self.get(path).await;
            if is_reached(&found) {
                return found;
            }
            assert!(std::time::Instant::now() < deadline, "{found:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until config maps are gone.
    async fn gone(&self, names: &[&str]) {
        for name in names {
            self.until(&self.config_map(name), |found| found.code == 404).await;
        }
    }

    /// Waits until an object is being deleted, and returns it.
    async fn terminating(&self, name: &str) -> Answer {
        self.until(&self.config_map(name), |found| !found.text("/metadata/deletionTimestamp").is_empty()).await
    }

    /// Waits until the collector has seen everything so far: an object that is garbage now is gone.
    async fn collected(&self) {
        let absent = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "absent", "uid": "absent"});
        for name in ["sentinel-1", "sentinel-2"] {
            self.add_owned(name, std::slice::from_ref(&absent)).await;
            self.gone(&[name]).await;
        }
    }

    async fn owners_of(&self, name: &str) -> Value {
        let found = self.get(&self.config_map(name)).await;
        assert_eq!(found.code, 200, "{found:?}");
        assert_eq!(found.text("/metadata/deletionTimestamp"), "", "{name} is not deleted");
        found.body["metadata"]["ownerReferences"].clone()
    }

    async fn delete_map(&self, name: &str, options: &Value) -> Answer {
        let deleted = self.delete_with(&self.config_map(name), options).await;
        assert_eq!(deleted.code, 200, "{deleted:?}");
        deleted
    }
}

async fn the_dependents_of_a_deleted_owner_are_deleted(api: Api) {
    let a = api.add("a").await;
    let b = api.add_owned("b", &[owner(&a)]).await;
    api.add_owned("c", &[owner(&b)]).await;
    api.add("d").await;

    let deleted = api.delete_map("a", &json!({})).await;

    assert_eq!(deleted.text("/kind"), "Status");
    api.gone(&["a", "b", "c"]).await;
    assert_eq!(api.get(&api.config_map("d")).await.code, 200);
}

async fn a_watch_sees_the_delete_of_each_dependent(api: Api) {
    let a = api.add("a").await;
    let b = api.add_owned("b", &[owner(&a)]).await;
    let last = api.add_owned("c", &[owner(&b)]).await;
    let mut watch = api.watch(&api.path("configmaps"), &format!("resourceVersion={}", version(&last))).await;

    api.delete_map("a", &json!({})).await;

    assert_eq!(watch.take(3).await, ["DELETED a", "DELETED b", "DELETED c"]);
}

async fn a_foreground_delete_waits_for_dependents_that_block(api: Api) {
    let a = api.add("a").await;
    api.add_held_by("b", &[blocking(&a)]).await;

    let deleted = api.delete_map("a", &policy("Foreground")).await;

    assert_eq!(deleted.body["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    api.terminating("b").await;
    api.collected().await;
    assert_eq!(api.terminating("a").await.body["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    api.release(&api.config_map("b")).await;
    api.gone(&["b", "a"]).await;
}

async fn a_foreground_delete_does_not_wait_for_dependents_that_do_not_block(api: Api) {
    let a = api.add("a").await;
    api.add_held_by("b", &[owner(&a)]).await;

    api.delete_map("a", &policy("Foreground")).await;

    api.gone(&["a"]).await;
    api.terminating("b").await;
    api.release(&api.config_map("b")).await;
    api.gone(&["b"]).await;
}

async fn a_foreground_delete_goes_through_all_generations(api: Api) {
    let a = api.add("a").await;
    let b = api.add_owned("b", &[blocking(&a)]).await;
    api.add_held_by("c", &[blocking(&b)]).await;

    api.delete_map("a", &policy("Foreground")).await;

    api.terminating("c").await;
    for name in ["a", "b"] {
        assert_eq!(api.terminating(name).await.body["metadata"]["finalizers"], json!(["foregroundDeletion"]), "{name}");
    }
    api.release(&api.config_map("c")).await;
    api.gone(&["c", "b", "a"]).await;
}

async fn a_background_delete_ends_the_wait_of_a_foreground_delete(api: Api) {
    let a = api.add("a").await;
    api.add_held_by("b", &[blocking(&a)]).await;
    api.delete_map("a", &policy("Foreground")).await;
    api.terminating("b").await;

    api.delete_map("a", &policy("Background")).await;

    assert_eq!(api.get(&api.config_map("a")).await.code, 404);
    api.release(&api.config_map("b")).await;
    api.gone(&["b"]).await;
}

async fn an_orphan_stays_and_loses_its_reference(api: Api) {
    let (a, other) = (api.add("a").await, api.add("other").await);
    api.add_owned("b", &[blocking(&a)]).await;
    api.add_owned("c", &[owner(&a), owner(&other)]).await;

    api.delete_map("a", &policy("Orphan")).await;

    api.gone(&["a"]).await;
    api.collected().await;
    assert_eq!(api.owners_of("b").await, json!(null));
    assert_eq!(api.owners_of("c").await, json!([owner(&other)]));
}

fn job() -> Value {
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]});
    json!({"metadata": {"name": "a"}, "spec": {"suspend": true, "template": {"spec": pod}}})
}

async fn a_job_leaves_its_dependents(api: Api) {
    let jobs = api.path("batch/jobs");
    let created = api.post(&jobs, &job()).await;
    api.add_owned("b", &[owner(&created.body)]).await;

    api.delete(&format!("{jobs}/a")).await;

    api.until(&format!("{jobs}/a"), |found| found.code == 404).await;
    api.collected().await;
    assert_eq!(api.owners_of("b").await, json!(null));
}

async fn the_dependents_of_a_job_go_with_it_on_request(api: Api) {
    let jobs = api.path("batch/jobs");
    let created = api.post(&jobs, &job()).await;
    api.add_owned("b", &[owner(&created.body)]).await;

    api.delete_with(&format!("{jobs}/a"), &policy("Background")).await;

    api.gone(&["b"]).await;
}

async fn an_existing_orphan_finalizer_keeps_the_dependents(api: Api) {
    let a = api.add_object("a", &[], &["orphan"]).await;
    api.add_owned("b", &[owner(&a)]).await;

    api.delete_map("a", &json!({})).await;

    api.gone(&["a"]).await;
    api.collected().await;
    assert_eq!(api.owners_of("b").await, json!(null));
}

async fn a_dependent_with_an_orphan_finalizer_keeps_its_own_dependents(api: Api) {
    let a = api.add("a").await;
    let b = api.add_object("b", &[owner(&a)], &["orphan"]).await;
    api.add_owned("c", &[owner(&b)]).await;

    api.delete_map("a", &json!({})).await;

    api.gone(&["a", "b"]).await;
    api.collected().await;
    assert_eq!(api.owners_of("c").await, json!(null));
}

async fn an_owner_counts_by_its_uid(api: Api) {
    let first = api.add("a").await;
    api.delete_map("a", &json!({})).await;
    let second = api.add("a").await;

    api.add_owned("of-first", &[owner(&first)]).await;
    api.add_owned("of-second", &[owner(&second)]).await;

    api.gone(&["of-first"]).await;
    assert_eq!(api.owners_of("of-second").await, json!([owner(&second)]));
}

async fn an_owner_of_another_name_is_absent(api: Api) {
    let mut reference = owner(&api.add("a").await);
    reference["name"] = json!("b");

    api.add_owned("c", &[reference]).await;

    api.gone(&["c"]).await;
}

async fn an_object_that_is_created_after_its_owner_is_deleted_goes(api: Api) {
    let a = api.add("a").await;
    api.delete_map("a", &json!({})).await;

    api.add_owned("b", &[owner(&a)]).await;

    api.gone(&["b"]).await;
}

async fn an_owner_in_another_namespace_is_absent(api: Api) {
    let elsewhere = api.post("/api/v1/namespaces", &json!({"metadata": {"generateName": "conformance-"}})).await;
    let path = format!("/api/v1/namespaces/{}/configmaps", elsewhere.text("/metadata/name"));
    let a = api.post(&path, &config_map("a", &json!({}))).await;

    api.add_owned("b", &[owner(&a.body)]).await;

    api.gone(&["b"]).await;
    assert_eq!(api.get(&format!("{path}/a")).await.code, 200);
}

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

async fn a_cluster_scoped_object_with_a_namespaced_owner_stays(api: Api) {
    let a = api.add("a").await;
    let absent = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "none"});
    let mut paths = Vec::new();
    for reference in [owner(&a), absent] {
        let role = json!({"metadata": {"generateName": "conformance-", "ownerReferences": [reference]}});
        let created = api.post(ROLES, &role).await;
        paths.push(format!("{ROLES}/{}", created.text("/metadata/name")));
    }

    api.delete_map("a", &json!({})).await;

    api.collected().await;
    for path in paths {
        assert_eq!(api.get(&path).await.code, 200);
        api.delete(&path).await;
    }
}

async fn a_namespaced_object_goes_with_its_cluster_scoped_owner(api: Api) {
    let role = api.post(ROLES, &json!({"metadata": {"generateName": "conformance-"}})).await;
    api.add_owned("a", &[owner(&role.body)]).await;
    api.collected().await;
    assert_eq!(api.owners_of("a").await, json!([owner(&role.body)]));

    api.delete(&format!("{ROLES}/{}", role.text("/metadata/name"))).await;

    api.gone(&["a"]).await;
}

async fn an_owner_of_a_kind_that_is_not_served_keeps_its_dependents(api: Api) {
    let unknown = json!({"apiVersion": "nobody.example.com/v1", "kind": "Nothing", "name": "a", "uid": "a"});
    let a = api.add("a").await;
    api.add_owned("b", std::slice::from_ref(&unknown)).await;
    api.add_owned("c", &[owner(&a), unknown.clone()]).await;

    api.delete_map("a", &json!({})).await;

    api.collected().await;
    assert_eq!(api.owners_of("b").await, json!([unknown]));
    assert_eq!(api.owners_of("c").await, json!([owner(&a), unknown]), "not even the other reference is removed");
}

async fn an_object_with_several_owners_loses_only_the_reference_of_the_one_that_goes(api: Api) {
    let (a, b) = (api.add("a").await, api.add("b").await);
    api.add_owned("c", &[owner(&a), blocking(&b)]).await;

    api.delete_map("a", &json!({})).await;

    let path = api.config_map("c");
    let has_one = |found: &Answer| found.body["metadata"]["ownerReferences"].as_array().map(Vec::len) == Some(1);
    let found = api.until(&path, has_one).await;
    assert_eq!(found.body["metadata"]["ownerReferences"], json!([blocking(&b)]));
}

async fn an_object_with_several_owners_does_not_wait_with_one_of_them(api: Api) {
    let (a, b) = (api.add("a").await, api.add("b").await);
    api.add_owned("c", &[blocking(&a), owner(&b)]).await;

    api.delete_map("a", &policy("Foreground")).await;

    api.gone(&["a"]).await;
    assert_eq!(api.owners_of("c").await, json!([owner(&b)]));
}

async fn an_object_goes_with_the_last_of_its_owners(api: Api) {
    let (a, b) = (api.add("a").await, api.add("b").await);
    api.add_owned("c", &[owner(&a), owner(&b)]).await;

    api.delete_map("a", &json!({})).await;
    api.delete_map("b", &json!({})).await;

    api.gone(&["c"]).await;
}

async fn the_finalizers_of_a_dependent_are_respected(api: Api) {
    let a = api.add("a").await;
    let b = api.add_held_by("b", &[owner(&a)]).await;
    api.add_owned("c", &[owner(&b)]).await;

    api.delete_map("a", &json!({})).await;

    assert_eq!(api.terminating("b").await.body["metadata"]["finalizers"], json!([HOLD]));
    api.collected().await;
    assert_eq!(api.owners_of("c").await, json!([owner(&b)]), "its owner still exists");
    api.release(&api.config_map("b")).await;
    api.gone(&["b", "c"]).await;
}

impl Api {
    /// Two objects that own each other.
    async fn add_cycle(&self) {
        let a = self.add("a").await;
        let b = self.add_owned("b", &[blocking(&a)]).await;
        let changed =
            self.change(&self.config_map("a"), |a| a["metadata"]["ownerReferences"] = json!([blocking(&b)])).await;
        assert_eq!(changed.code, 200, "{changed:?}");
    }
}

async fn a_cycle_ends_in_the_background(api: Api) {
    api.add_cycle().await;
    api.collected().await;
    assert!(api.owners_of("a").await.is_array() && api.owners_of("b").await.is_array());

    api.delete_map("a", &json!({})).await;

    api.gone(&["a", "b"]).await;
}

async fn a_cycle_ends_in_the_foreground(api: Api) {
    api.add_cycle().await;

    api.delete_map("a", &policy("Foreground")).await;

    api.gone(&["a", "b"]).await;
}

async fn a_reference_that_is_removed_no_longer_blocks(api: Api) {
    let a = api.add("a").await;
    api.add_held_by("b", &[blocking(&a)]).await;
    api.delete_map("a", &policy("Foreground")).await;
    api.terminating("b").await;

    let patch = json!({"metadata": {"ownerReferences": null}});
    api.patch(&api.config_map("b"), "application/merge-patch+json", &patch).await;

    api.gone(&["a"]).await;
    api.release(&api.config_map("b")).await;
}

async fn a_reference_that_is_added_counts(api: Api) {
    let a = api.add("a").await;
    api.add("b").await;
    api.change(&api.config_map("b"), |b| b["metadata"]["ownerReferences"] = json!([owner(&a)])).await;

    api.delete_map("a", &json!({})).await;

    api.gone(&["b"]).await;
}

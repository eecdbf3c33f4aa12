//! The policy of a delete for dependents: which finalizers a delete sets, also without a garbage collector.
//!
//! The tests read the finalizers in the response to the delete, because a collector removes them soon.

use super::*;

both_ways! {
    a_delete_in_the_foreground_sets_a_finalizer
    a_delete_that_orphans_sets_a_finalizer
    a_delete_without_a_policy_removes_the_object
    a_job_orphans_its_dependents_by_default_with_a_warning
    a_replication_controller_orphans_its_dependents_by_default
    the_deprecated_option_orphans_or_not
    a_finalizer_of_the_object_wins_over_the_default
    the_policy_of_a_delete_wins_over_a_finalizer_of_the_object
    a_second_delete_changes_the_policy
    a_dry_run_sets_no_finalizer
    a_policy_that_does_not_exist_is_refused
    two_policies_are_refused
    an_object_has_one_policy_as_a_finalizer
    an_event_takes_no_part_in_garbage_collection
    an_owner_reference_is_complete_and_names_no_event
    the_policy_may_be_in_the_query
    a_policy_counts_for_each_object_of_a_collection
}

const HOLD: &str = "example.com/hold";

impl Api {
    /// Creates a config map with these finalizers, and returns its path.
    async fn add_held(&self, name: &str, finalizers: &[&str]) -> String {
        let mut map = config_map(name, &json!({}));
        map["metadata"]["finalizers"] = json!(finalizers);
        let created = self.post(&self.path("configmaps"), &map).await;
        assert_eq!(created.code, 201, "{created:?}");
        self.config_map(name)
    }

    /// Removes the finalizer with which a test holds an object: the first one. A collector may remove others at the same time.
    pub async fn release(&self, path: &str) {
        let first = "/metadata/finalizers/0";
        let patch = json!([{"op": "test", "path": first, "value": HOLD}, {"op": "remove", "path": first}]);
        let released = self.patch(path, "application/json-patch+json", &patch).await;
        assert_eq!(released.code, 200, "{released:?}");
    }
}

/// The finalizers in the response to a delete of an object that waits.
fn finalizers(deleted: &Answer) -> Value {
    assert!(!deleted.text("/metadata/deletionTimestamp").is_empty(), "{deleted:?}");
    deleted.body["metadata"]["finalizers"].clone()
}

fn policy(name: &str) -> Value {
    json!({"propagationPolicy": name})
}

async fn a_delete_in_the_foreground_sets_a_finalizer(api: Api) {
    let path = api.add_held("a", &[HOLD]).await;

    let deleted = api.delete_with(&path, &policy("Foreground")).await;

    assert_eq!((deleted.code, finalizers(&deleted)), (200, json!([HOLD, "foregroundDeletion"])));
    assert_eq!(deleted.body["metadata"]["deletionGracePeriodSeconds"], 0);
    api.release(&path).await;
}

async fn a_delete_that_orphans_sets_a_finalizer(api: Api) {
    api.add("a").await;

    let deleted = api.delete_with(&api.config_map("a"), &policy("Orphan")).await;

    assert_eq!((deleted.code, finalizers(&deleted)), (200, json!(["orphan"])));
}

async fn a_delete_without_a_policy_removes_the_object(api: Api) {
    for (name, options) in [("a", json!({})), ("b", policy("Background"))] {
        api.add(name).await;
        let deleted = api.delete_with(&api.config_map(name), &options).await;

        assert_eq!((deleted.code, deleted.text("/kind")), (200, "Status"), "{options}");
        assert_eq!(api.get(&api.config_map(name)).await.code, 404);
    }
}

fn job(name: &str) -> Value {
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]});
    json!({"metadata": {"name": name}, "spec": {"suspend": true, "template": {"spec": pod}}})
}

async fn a_job_orphans_its_dependents_by_default_with_a_warning(api: Api) {
    let jobs = api.path("batch/jobs");
    for name in ["a", "b", "c"] {
        assert_eq!(api.post(&jobs, &job(name)).await.code, 201);
    }

    let by_default = api.delete(&format!("{jobs}/a")).await;
    let missing = api.delete(&format!("{jobs}/none")).await;
    let background = api.delete_with(&format!("{jobs}/b"), &policy("Background")).await;
    let all = api.delete(&jobs).await;

    assert_eq!(finalizers(&by_default), json!(["orphan"]));
    let warning = "299 - \"child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them \
                   or set propagationPolicy=Orphan to suppress this warning\"";
    for warned in [&by_default, &missing, &all] {
        assert_eq!(warned.headers["warning"], warning, "{warned:?}");
    }
    assert_eq!((missing.code, all.code), (404, 200));
    assert_eq!((background.text("/kind"), background.headers.get("warning")), ("Status", None));
}

async fn a_replication_controller_orphans_its_dependents_by_default(api: Api) {
    let path = api.path("replicationcontrollers");
    let pod = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
    let controller =
        json!({"metadata": {"name": "a"}, "spec": {"replicas": 0, "selector": {"app": "a"}, "template": pod}});
    assert_eq!(api.post(&path, &controller).await.code, 201);

    let deleted = api.delete(&format!("{path}/a")).await;

    assert_eq!((finalizers(&deleted), deleted.headers.get("warning")), (json!(["orphan"]), None));
}

async fn the_deprecated_option_orphans_or_not(api: Api) {
    api.add("a").await;
    let held = api.add_held("b", &[HOLD]).await;
    api.add("c").await;
    let orphan = |orphan: bool| json!({"orphanDependents": orphan});

    let orphans = api.delete_with(&api.config_map("a"), &orphan(true)).await;
    let waits = api.delete_with(&held, &orphan(false)).await;
    let gone = api.delete_with(&api.config_map("c"), &orphan(false)).await;

    assert_eq!((orphans.code, finalizers(&orphans)), (200, json!(["orphan"])));
    assert_eq!((waits.code, finalizers(&waits)), (202, json!([HOLD])), "not deleted at once");
    assert_eq!((gone.code, gone.text("/kind")), (200, "Status"));
    api.release(&held).await;
}

async fn a_finalizer_of_the_object_wins_over_the_default(api: Api) {
    for existing in ["orphan", "foregroundDeletion"] {
        let name = existing.to_lowercase();
        let path = api.add_held(&name, &[existing]).await;

        let deleted = api.delete(&path).await;

        assert_eq!(finalizers(&deleted), json!([existing]));
    }
    let mut waiting = job("a");
    waiting["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    assert_eq!(api.post(&api.path("batch/jobs"), &waiting).await.code, 201);
    let deleted = api.delete(&format!("{}/a", api.path("batch/jobs"))).await;
    assert_eq!(finalizers(&deleted), json!(["foregroundDeletion"]));
}

async fn the_policy_of_a_delete_wins_over_a_finalizer_of_the_object(api: Api) {
    let orphaning = api.add_held("a", &["orphan"]).await;
    let waiting = api.add_held("b", &["foregroundDeletion", HOLD]).await;

    let background = api.delete_with(&orphaning, &policy("Background")).await;
    let orphan = api.delete_with(&waiting, &policy("Orphan")).await;

    assert_eq!((background.code, background.text("/kind")), (200, "Status"));
    assert_eq!(api.get(&orphaning).await.code, 404);
    assert_eq!(finalizers(&orphan), json!([HOLD, "orphan"]));
    api.release(&waiting).await;
}

async fn a_second_delete_changes_the_policy(api: Api) {
    let path = api.add_held("a", &[HOLD]).await;

    let first = api.delete(&path).await;
    let same = api.delete(&path).await;
    let second = api.delete_with(&path, &policy("Foreground")).await;

    assert_eq!(finalizers(&first), json!([HOLD]));
    assert_eq!(same.version(), first.version(), "nothing changes");
    assert_eq!(finalizers(&second), json!([HOLD, "foregroundDeletion"]));
    assert_eq!(second.text("/metadata/deletionTimestamp"), first.text("/metadata/deletionTimestamp"));
    api.release(&path).await;
}

async fn a_dry_run_sets_no_finalizer(api: Api) {
    let created = api.add("a").await;
    let path = api.config_map("a");

    let by_query = api.delete(&format!("{path}?dryRun=All&propagationPolicy=Foreground")).await;
    let by_body = api.delete_with(&path, &json!({"propagationPolicy": "Orphan", "dryRun": ["All"]})).await;

    assert_eq!(finalizers(&by_query), json!(["foregroundDeletion"]));
    assert_eq!(finalizers(&by_body), json!(["orphan"]));
    assert_eq!(api.get(&path).await.version(), version(&created));
}

async fn a_policy_that_does_not_exist_is_refused(api: Api) {
    api.add("a").await;

    for wrong in ["Somehow", "background", ""] {
        let refused = api.delete_with(&api.config_map("a"), &policy(wrong)).await;

        assert_eq!(refused.failure(), (422, "Invalid"), "{wrong:?}");
        let why = format!(
            "Unsupported value: {wrong:?}: supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
        );
        assert_eq!(refused.text("/details/causes/0/message"), why);
        assert_eq!(
            refused.text("/message"),
            format!("DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: {why}")
        );
    }
    assert_eq!(api.get(&api.config_map("a")).await.code, 200);
}

async fn two_policies_are_refused(api: Api) {
    api.add("a").await;

    let both = json!({"propagationPolicy": "Orphan", "orphanDependents": true});
    let refused = api.delete_with(&api.config_map("a"), &both).await;

    assert_eq!(refused.failure(), (422, "Invalid"));
    let why = "Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be both set";
    assert_eq!(refused.text("/details/causes/0/message"), why);
    let query = "propagationPolicy=Orphan&orphanDependents=true";
    assert_eq!(api.delete(&format!("{}?{query}", api.config_map("a"))).await.failure(), (422, "Invalid"));
}

async fn an_object_has_one_policy_as_a_finalizer(api: Api) {
    let mut map = config_map("a", &json!({}));
    map["metadata"]["finalizers"] = json!(["orphan", "foregroundDeletion"]);

    let refused = api.post(&api.path("configmaps"), &map).await;

    assert_eq!(refused.failure(), (422, "Invalid"));
    let why = "Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and foregroundDeletion cannot be both set";
    assert_eq!(refused.text("/message"), format!("ConfigMap \"a\" is invalid: metadata.finalizers: {why}"));
}

async fn an_event_takes_no_part_in_garbage_collection(api: Api) {
    let involved = json!({"kind": "ConfigMap", "namespace": api.namespace, "name": "a"});
    let event = json!({"metadata": {"name": "a"}, "involvedObject": involved, "reason": "A", "message": "a"});
    assert_eq!(api.post(&api.path("events"), &event).await.code, 201);

    let deleted = api.delete_with(&format!("{}/a", api.path("events")), &policy("Foreground")).await;

    assert_eq!((deleted.code, deleted.text("/kind")), (200, "Status"), "{deleted:?}");
}

async fn an_owner_reference_is_complete_and_names_no_event(api: Api) {
    let mut map = config_map("a", &json!({}));
    let event = json!({"apiVersion": "v1", "kind": "Event", "name": "x", "uid": "y"});
    map["metadata"]["ownerReferences"] = json!([event, {"apiVersion": "", "kind": "", "name": "", "uid": ""}]);

    let refused = api.post(&api.path("configmaps"), &map).await;

    assert_eq!(refused.failure(), (422, "Invalid"));
    let causes = refused.body["details"]["causes"].as_array().unwrap();
    let message = causes[0]["message"].as_str().unwrap();
    assert!(message.ends_with(": /v1, Kind=Event is disallowed from being an owner"), "{message}");
    let missing: Vec<_> =
        causes[1..].iter().map(|cause| cause["field"].as_str().unwrap().rsplit_once('.').unwrap().1).collect();
    assert_eq!(missing, ["apiVersion", "kind", "name", "uid"]);
    for cause in &causes[1..] {
        assert_eq!(
            (&cause["reason"], &cause["message"]),
            (&json!("FieldValueRequired"), &json!("Required value: must not be empty"))
        );
    }
}

async fn the_policy_may_be_in_the_query(api: Api) {
    let path = api.add_held("a", &[HOLD]).await;

    let deleted = api.delete(&format!("{path}?propagationPolicy=Foreground")).await;

    assert_eq!(finalizers(&deleted), json!([HOLD, "foregroundDeletion"]));
    api.release(&path).await;
}

async fn a_policy_counts_for_each_object_of_a_collection(api: Api) {
    let (a, b) = (api.add_held("a", &[HOLD]).await, api.add_held("b", &[HOLD]).await);

    assert_eq!(api.delete_with(&api.path("configmaps"), &policy("Foreground")).await.code, 200);

    for path in [a, b] {
        let found = api.get(&path).await;
        assert!(!found.text("/metadata/deletionTimestamp").is_empty(), "{found:?}");
        api.release(&path).await;
    }
}

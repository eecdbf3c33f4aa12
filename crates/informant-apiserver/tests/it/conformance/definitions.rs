//! Custom resource definitions: creating and deleting them adds and removes kinds.

use std::time::Duration;

use super::*;

both_ways! {
    a_definition_is_established_and_its_kind_is_served
    a_kind_keeps_its_objects_when_its_definition_changes
    a_kind_goes_with_its_definition
    a_definition_waits_for_the_finalizers_of_its_objects
    a_definition_that_waits_for_others_has_no_objects
    what_its_objects_are_stays_what_it_is
    a_definition_that_makes_no_sense_is_refused
    field_selectors_name_the_fields_that_a_definition_lists
}

pub(super) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A definition of widgets in a group that only this test uses, and their path.
pub(super) struct Widgets {
    group: String,
    pub(super) definition: Value,
    pub(super) path: String,
}

impl Widgets {
    pub(super) fn new(api: &Api) -> Self {
        let group = format!("{}.example.com", api.namespace);
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let definition = json!({
            "metadata": {"name": format!("widgets.{group}")},
            "spec": {
                "group": group,
                "names": {"plural": "widgets", "singular": "wdg", "kind": "Widget", "listKind": "WidgetBunch", "categories": ["things"], "shortNames": null},
                "scope": "Namespaced",
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": {"status": {}}}],
            },
        });
        let path = format!("/apis/{group}/v1/namespaces/{}/widgets", api.namespace);
        Self { group, definition, path }
    }

    pub(super) fn place(&self) -> String {
        format!("{DEFINITIONS}/widgets.{}", self.group)
    }

    pub(super) fn widget(&self, name: &str) -> Value {
        json!({"apiVersion": format!("{}/v1", self.group), "kind": "Widget", "metadata": {"name": name}, "spec": {"size": 1}})
    }

    /// Creates the definition, and waits until its kind is served.
    pub(super) async fn defined(api: &Api) -> Self {
        let widgets = Self::new(api);
        widgets.define(api).await;
        widgets
    }

    pub(super) async fn define(&self, api: &Api) {
        let created = api.post(DEFINITIONS, &self.definition).await;
        assert_eq!(created.code, 201, "{created:?}");
        until(async || api.get(&self.path).await.code == 200).await;
    }
}

/// Repeats a request until the server has processed a definition.
pub(super) async fn until(is_so: impl AsyncFn() -> bool) {
    for _ in 0..600 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the server did not process the definition in time");
}

async fn a_definition_is_established_and_its_kind_is_served(api: Api) {
    let widgets = Widgets::defined(&api).await;

    let definition = api.get(&widgets.place()).await;
    let conditions = definition.body["status"]["conditions"].as_array().unwrap();
    for name in ["NamesAccepted", "Established"] {
        assert!(
            conditions.iter().any(|condition| condition["type"] == name && condition["status"] == "True"),
            "{definition:?}"
        );
    }
    assert_eq!(definition.text("/status/acceptedNames/plural"), "widgets");
    assert_eq!(definition.body["status"]["storedVersions"], json!(["v1"]));
    let created = api.post(&widgets.path, &widgets.widget("a")).await;
    assert_eq!((created.code, created.body["metadata"]["generation"].as_u64()), (201, Some(1)), "{created:?}");
    let list = api.get(&widgets.path).await;
    assert_eq!((list.text("/kind"), list.names()), ("WidgetBunch", vec!["a"]));
    let status = api
        .patch(
            &format!("{}/a/status", widgets.path),
            "application/merge-patch+json",
            &json!({"status": {"ready": true}}),
        )
        .await;
    assert_eq!((status.code, &status.body["status"]), (200, &json!({"ready": true})), "{status:?}");
    until(async || api.get(&format!("/apis/{}/v1", widgets.group)).await.code == 200).await;
    let resources = api.get(&format!("/apis/{}/v1", widgets.group)).await;
    let names: Vec<_> = resources.body["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|resource| resource["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["widgets", "widgets/status"], "{resources:?}");
    assert_eq!(resources.text("/resources/0/singularName"), "wdg");
    assert_eq!(resources.body["resources"][0]["categories"], json!(["things"]));
    api.delete(&widgets.place()).await;
}

async fn a_kind_keeps_its_objects_when_its_definition_changes(api: Api) {
    let widgets = Widgets::defined(&api).await;
    let created = api.post(&widgets.path, &widgets.widget("a")).await;
    assert_eq!(created.code, 201, "{created:?}");

    let change = json!({"spec": {"names": {"shortNames": ["wd"]}}});
    let changed = api.patch(&widgets.place(), "application/merge-patch+json", &change).await;
    assert_eq!(changed.code, 200, "{changed:?}");

    let is_short = async || {
        let resources = api.get(&format!("/apis/{}/v1", widgets.group)).await;
        resources.body["resources"][0]["shortNames"] == json!(["wd"])
    };
    until(is_short).await;
    let kept = api.get(&format!("{}/a", widgets.path)).await;
    assert_eq!((kept.code, kept.version()), (200, created.version()), "{kept:?}");
    assert_eq!(kept.body, created.body);
    api.delete(&widgets.place()).await;
}

async fn a_kind_goes_with_its_definition(api: Api) {
    let widgets = Widgets::defined(&api).await;
    let created = api.post(&widgets.path, &widgets.widget("a")).await;
    assert_eq!(created.code, 201, "{created:?}");
    let mut watch = api.watch(&widgets.path, &format!("resourceVersion={}", created.version())).await;

    assert_eq!(api.delete(&widgets.place()).await.code, 200);

    assert_eq!(watch.next_short().await, "DELETED a");
    until(async || api.get(&widgets.path).await.code == 404).await;
    until(async || api.get(&widgets.place()).await.code == 404).await;
}

async fn a_definition_waits_for_the_finalizers_of_its_objects(api: Api) {
    let widgets = Widgets::defined(&api).await;
    let mut held = widgets.widget("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    for widget in [&held, &widgets.widget("free")] {
        let created = api.post(&widgets.path, widget).await;
        assert_eq!(created.code, 201, "{created:?}");
    }

    let deleted = api.delete(&widgets.place()).await;

    assert_eq!((deleted.code, deleted.text("/kind")), (200, "CustomResourceDefinition"), "{deleted:?}");
    let cleanup = "customresourcecleanup.apiextensions.k8s.io";
    assert!(deleted.body["metadata"]["finalizers"].as_array().unwrap().contains(&json!(cleanup)), "{deleted:?}");
    until(async || api.get(&widgets.path).await.names() == ["held"]).await;
    // A real server deletes one object after the other.
    let held = format!("{}/held", widgets.path);
    until(async || api.get(&held).await.body["metadata"]["deletionTimestamp"].is_string()).await;
    let is_said = async || {
        let definition = api.get(&widgets.place()).await;
        let conditions = definition.body["status"]["conditions"].as_array().unwrap().clone();
        conditions.iter().any(|condition| condition["type"] == "Terminating" && condition["status"] == "True")
    };
    until(is_said).await;
    // A real server decides that from a cache of its own, which may not have the condition yet.
    let late = widgets.widget("late");
    until(async || api.post(&format!("{}?dryRun=All", widgets.path), &late).await.code == 403).await;
    let late = api.post(&widgets.path, &late).await;
    assert_eq!(late.failure(), (403, "Forbidden"), "{late:?}");
    let label = json!({"metadata": {"labels": {"still": "there"}}});
    let labelled = api.patch(&widgets.place(), "application/merge-patch+json", &label).await;
    assert_eq!((labelled.code, labelled.text("/metadata/labels/still")), (200, "there"), "{labelled:?}");

    let release = json!({"metadata": {"finalizers": null}});
    let released = api.patch(&held, "application/merge-patch+json", &release).await;
    assert_eq!(released.code, 200, "{released:?}");
    until(async || api.get(&widgets.place()).await.code == 404).await;
    until(async || api.get(&widgets.path).await.code == 404).await;
}

async fn a_definition_that_waits_for_others_has_no_objects(api: Api) {
    let widgets = Widgets::defined(&api).await;
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    assert_eq!(api.patch(&widgets.place(), "application/merge-patch+json", &hold).await.code, 200);
    assert_eq!(api.post(&widgets.path, &widgets.widget("a")).await.code, 201);

    assert_eq!(api.delete(&widgets.place()).await.code, 200);

    until(async || api.get(&widgets.path).await.names().is_empty()).await;
    let is_done = async || {
        let definition = api.get(&widgets.place()).await;
        let conditions = definition.body["status"]["conditions"].as_array().unwrap().clone();
        conditions.iter().any(|condition| condition["reason"] == "InstanceDeletionCompleted")
    };
    until(is_done).await;
    let release = json!({"metadata": {"finalizers": null}});
    assert_eq!(api.patch(&widgets.place(), "application/merge-patch+json", &release).await.code, 200);
    until(async || api.get(&widgets.place()).await.code == 404).await;
}

async fn what_its_objects_are_stays_what_it_is(api: Api) {
    let widgets = Widgets::defined(&api).await;
    let created = api.post(&widgets.path, &widgets.widget("a")).await;
    assert_eq!(created.code, 201, "{created:?}");

    for (spec, field) in [
        (json!({"scope": "Cluster"}), "spec.scope"),
        (json!({"names": {"kind": "Gadget", "listKind": "GadgetList"}}), "spec.names.kind"),
    ] {
        let changed = api.patch(&widgets.place(), "application/merge-patch+json", &json!({ "spec": spec })).await;
        assert_eq!(
            (changed.failure(), changed.text("/details/causes/0/field")),
            ((422, "Invalid"), field),
            "{changed:?}"
        );
    }
    assert_eq!(api.get(&widgets.path).await.names(), ["a"]);
    let dry = api.delete(&format!("{}?dryRun=All", widgets.place())).await;
    assert_eq!((dry.code, api.get(&widgets.path).await.names()), (200, vec!["a"]));
    api.delete(&widgets.place()).await;
}

async fn a_definition_that_makes_no_sense_is_refused(api: Api) {
    let refused = async |change: &dyn Fn(&mut Value)| {
        let mut definition = Widgets::new(&api).definition;
        change(&mut definition);
        let answer = api.post(DEFINITIONS, &definition).await;
        assert_eq!(answer.failure(), (422, "Invalid"), "{answer:?}");
        let causes = answer.body["details"]["causes"].as_array().unwrap();
        causes.iter().map(|cause| cause["field"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };

    assert!(
        refused(&|object| object["metadata"]["name"] = json!("widgets.elsewhere"))
            .await
            .contains(&"metadata.name".into())
    );
    assert!(refused(&|object| object["spec"]["scope"] = json!("Everywhere")).await.contains(&"spec.scope".into()));
    assert!(refused(&|object| object["spec"]["names"]["kind"] = json!("")).await.contains(&"spec.names.kind".into()));
    assert!(
        refused(&|object| object["spec"]["versions"][0]["storage"] = json!(false))
            .await
            .contains(&"spec.versions".into())
    );
    let fields = refused(&|object| object["spec"]["names"]["plural"] = json!("wid.gets")).await;
    assert!(fields.contains(&"spec.names.plural".into()), "{fields:?}");
    refused(&|object| object["spec"]["versions"][0]["name"] = json!("V 1")).await;
}

async fn field_selectors_name_the_fields_that_a_definition_lists(api: Api) {
    let mut widgets = Widgets::new(&api);
    let version = &mut widgets.definition["spec"]["versions"][0];
    let fields = json!({"colour": {"type": "string"}, "size": {"type": "integer"}, "ready": {"type": "boolean"}});
    version["schema"]["openAPIV3Schema"]["properties"] = json!({"spec": {"type": "object", "properties": fields}});
    let paths = [".spec.colour", ".spec.size", ".spec.ready"].map(|path| json!({"jsonPath": path}));
    version["selectableFields"] = json!(paths);
    let created = api.post(DEFINITIONS, &widgets.definition).await;
    assert_eq!(created.code, 201, "{created:?}");
    until(async || api.get(&widgets.path).await.code == 200).await;
    for (name, spec) in [("a", json!({"colour": "red", "size": 1})), ("b", json!({"colour": "blue", "ready": true}))] {
        let mut widget = widgets.widget(name);
        widget["spec"] = spec;
        assert_eq!(api.post(&widgets.path, &widget).await.code, 201);
    }

    let select = async |selector: &str| api.get(&format!("{}?fieldSelector={selector}", widgets.path)).await;
    assert_eq!(select("spec.colour%3Dred").await.names(), ["a"]);
    assert_eq!(select("spec.size%3D1,metadata.name%3Da").await.names(), ["a"]);
    assert_eq!(select("spec.ready%3Dtrue").await.names(), ["b"]);
    assert_eq!(select("spec.ready%3D").await.names(), ["a"], "an absent field of a custom kind is empty");
    let refused = select("spec.weight%3D1").await;
    assert_eq!(refused.failure(), (400, "BadRequest"));
    assert_eq!(refused.text("/message"), "field label not supported: spec.weight");
    api.delete(&widgets.place()).await;
}

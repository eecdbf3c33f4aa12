//! The schemas in OpenAPI documents, which `kubectl explain` and `kubectl apply` read.

use super::{
    definitions::{Widgets, until},
    *,
};

both_ways! {
    fields_of_built_in_kinds_are_found_by_their_paths
    lists_and_maps_say_how_they_are_merged
    a_schema_refers_to_nothing_that_its_document_lacks
    the_schema_of_a_custom_kind_is_that_of_its_definition
    a_new_schema_is_published
    patches_have_the_media_types_that_the_kind_accepts
}

/// An OpenAPI document.
struct Document(Value);

impl Document {
    async fn of(api: &Api, version: &str) -> Self {
        let index = api.get("/openapi/v3").await;
        let prefix = if version.contains('/') { "apis" } else { "api" };
        let url = index.body["paths"][format!("{prefix}/{version}")]["serverRelativeURL"].as_str();
        match url {
            Some(url) => Self(api.get(url).await.body),
            None => Self(Value::Null),
        }
    }

    /// The schema of a kind.
    fn kind(&self, version: &str, kind: &str) -> &Value {
        self.find(version, kind).unwrap_or_else(|| panic!("no {kind} in {}", self.0))
    }

    /// Finds the schema of a kind as `kubectl explain` does: by the group, version and kind that are with it.
    fn find(&self, version: &str, kind: &str) -> Option<&Value> {
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let wanted = json!([{"group": group, "version": version, "kind": kind}]);
        let mut schemas = self.0["components"]["schemas"].as_object()?.values();
        schemas.find(|schema| schema["x-kubernetes-group-version-kind"] == wanted)
    }

    /// What a schema refers to, or the schema.
    fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let reference = schema.pointer("/allOf/0/$ref").or(schema.get("$ref"));
        reference.map_or(schema, |name| {
            self.0.pointer(name.as_str().unwrap().trim_start_matches('#')).unwrap_or_else(|| panic!("no {name}"))
        })
    }

    /// The schema of a field, with the lists and maps on its path left out of it.
    fn field<'a>(&'a self, kind: &'a Value, path: &str) -> &'a Value {
        path.split('.').fold(kind, |schema, name| {
            let mut outer = self.resolve(schema);
            while let Some(inner) = outer.get("items").or(outer.get("additionalProperties")) {
                outer = self.resolve(inner);
            }
            outer["properties"].get(name).unwrap_or_else(|| panic!("no {name} of {path} in {outer}"))
        })
    }

    /// The type of a field in the words of `kubectl explain`.
    fn type_of(&self, schema: &Value) -> String {
        if let Some(items) = schema.get("items") {
            return format!("[]{}", self.type_of(items));
        }
        if let Some(values) = schema.get("additionalProperties") {
            return format!("map[string]{}", self.type_of(values));
        }
        let (resolved, reference) = (self.resolve(schema), schema.pointer("/allOf/0/$ref").or(schema.get("$ref")));
        match (resolved["type"].as_str(), reference) {
            (Some("object") | None, Some(name)) => name.as_str().unwrap().rsplit(['.', '/']).next().unwrap().to_owned(),
            (Some("object") | None, None) => "Object".to_owned(),
            (Some(name), _) => name.to_owned(),
        }
    }
}

async fn fields_of_built_in_kinds_are_found_by_their_paths(api: Api) {
    for (version, kind, fields) in [
        (
            "v1",
            "Pod",
            &[
                ("metadata", "ObjectMeta"),
                ("metadata.creationTimestamp", "string"),
                ("spec.containers", "[]Container"),
                ("spec.containers.args", "[]string"),
                ("spec.containers.resources.limits", "map[string]Quantity"),
                ("spec.containers.livenessProbe.httpGet.port", "IntOrString"),
                ("spec.hostNetwork", "boolean"),
                ("status.startTime", "string"),
            ][..],
        ),
        ("apps/v1", "Deployment", &[("spec.replicas", "integer"), ("spec.selector.matchLabels", "map[string]string")]),
        ("v1", "Event", &[("count", "integer"), ("source", "EventSource")]),
        ("events.k8s.io/v1", "Event", &[("note", "string"), ("deprecatedSource", "EventSource")]),
        ("authorization.k8s.io/v1", "SelfSubjectAccessReview", &[("spec.resourceAttributes.verb", "string")]),
    ] {
        let document = Document::of(&api, version).await;
        for (path, expected) in fields {
            let field = document.field(document.kind(version, kind), path);
            assert_eq!(document.type_of(field), *expected, "{kind}.{path}");
        }
    }
}

/// `kubectl apply` computes its patches with these keywords.
async fn lists_and_maps_say_how_they_are_merged(api: Api) {
    let (core, apps) = (Document::of(&api, "v1").await, Document::of(&api, "apps/v1").await);
    let (pod, volume) = (core.kind("v1", "Pod"), core.kind("v1", "PersistentVolume"));
    let strategy = |field: &Value| {
        let text = |name: &str| field[format!("x-kubernetes-patch-{name}")].as_str().map(str::to_owned);
        (text("strategy"), text("merge-key"))
    };
    let named = |strategy: &str, key: &str| (Some(strategy.to_owned()), Some(key.to_owned()));

    let ports = core.field(pod, "spec.containers.ports");
    assert_eq!(strategy(ports), named("merge", "containerPort"));
    assert_eq!(ports["x-kubernetes-list-type"], "map");
    assert_eq!(ports["x-kubernetes-list-map-keys"], json!(["containerPort", "protocol"]));
    assert_eq!(strategy(core.field(pod, "spec.volumes")), named("merge,retainKeys", "name"));
    let finalizers = core.field(pod, "metadata.finalizers");
    assert_eq!(strategy(finalizers), (Some("merge".to_owned()), None));
    assert_eq!(finalizers["x-kubernetes-list-type"], "set");
    assert_eq!(core.field(pod, "spec.containers.args")["x-kubernetes-list-type"], "atomic");
    assert_eq!(core.field(pod, "spec.nodeSelector")["x-kubernetes-map-type"], "atomic");
    assert_eq!(core.field(volume, "spec.claimRef")["x-kubernetes-map-type"], "granular");
    let deployment = apps.kind("apps/v1", "Deployment");
    assert_eq!(strategy(apps.field(deployment, "spec.strategy")), (Some("retainKeys".to_owned()), None));
    assert_eq!(apps.resolve(apps.field(deployment, "spec.selector"))["x-kubernetes-map-type"], "atomic");
}

async fn a_schema_refers_to_nothing_that_its_document_lacks(api: Api) {
    fn check(document: &Document, value: &Value) {
        match value {
            Value::Object(map) => {
                if map.get("$ref").is_some_and(Value::is_string) {
                    assert!(document.resolve(value).is_object(), "{value}");
                }
                map.values().for_each(|value| check(document, value));
            }
            Value::Array(items) => items.iter().for_each(|value| check(document, value)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let widgets = Widgets::defined(&api).await;
    let own = widgets.version();
    widgets.published(&api).await;

    for version in ["v1", "apps/v1", "apiextensions.k8s.io/v1", "batch/v1", "authentication.k8s.io/v1", &own] {
        let document = Document::of(&api, version).await;
        check(&document, &document.0);
    }
    api.delete(&widgets.place()).await;
}

impl Widgets {
    fn version(&self) -> String {
        self.widget("a")["apiVersion"].as_str().unwrap().to_owned()
    }

    /// Waits until the schema of the kind is in its document: a real server publishes it later than the kind.
    async fn published(&self, api: &Api) -> Document {
        until(async || Document::of(api, &self.version()).await.find(&self.version(), "Widget").is_some()).await;
        Document::of(api, &self.version()).await
    }

    fn with_schema_of_spec(api: &Api, spec: &Value) -> Self {
        let mut widgets = Self::new(api);
        let schema = json!({"type": "object", "description": "A widget.", "properties": {
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}},
            "spec": spec,
        }});
        widgets.definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema;
        widgets
    }
}

async fn the_schema_of_a_custom_kind_is_that_of_its_definition(api: Api) {
    let spec = json!({"type": "object", "description": "What it is.", "required": ["colour"], "properties": {
        "colour": {"type": "string", "enum": ["red", "blue"], "description": "Its colour."},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "weight": {"type": "number"}}},
        },
        "tags": {"type": "object", "additionalProperties": {"type": "string"}},
    }});
    let widgets = Widgets::with_schema_of_spec(&api, &spec);
    widgets.define(&api).await;

    let document = widgets.published(&api).await;

    let widget = document.kind(&widgets.version(), "Widget");
    assert_eq!((&widget["description"], &widget["type"]), (&json!("A widget."), &json!("object")));
    assert_eq!(widget["properties"]["spec"], spec);
    let type_at = |path: &str| document.type_of(document.field(widget, path));
    assert_eq!((type_at("kind"), type_at("metadata")), ("string".to_owned(), "ObjectMeta".to_owned()));
    assert_eq!(type_at("metadata.ownerReferences"), "[]OwnerReference");
    assert_eq!((type_at("spec.parts.weight"), type_at("spec.tags")), ("number".into(), "map[string]string".into()));
    api.delete(&widgets.place()).await;
}

async fn a_new_schema_is_published(api: Api) {
    let spec = |field: &str| json!({"type": "object", "properties": {field: {"type": "string"}}});
    let widgets = Widgets::with_schema_of_spec(&api, &spec("old"));
    widgets.define(&api).await;
    widgets.published(&api).await;

    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let change = json!([{"op": "replace", "path": schema, "value": spec("new")}]);
    assert_eq!(api.patch(&widgets.place(), "application/json-patch+json", &change).await.code, 200);

    until(async || {
        let document = Document::of(&api, &widgets.version()).await;
        let widget = document.find(&widgets.version(), "Widget");
        widget.is_some_and(|widget| widget["properties"]["spec"] == spec("new"))
    })
    .await;
    api.delete(&widgets.place()).await;
}

/// `kubectl apply` sends a strategic merge patch to a kind if its document has that media type.
async fn patches_have_the_media_types_that_the_kind_accepts(api: Api) {
    let widgets = Widgets::defined(&api).await;
    let custom = widgets.published(&api).await;
    let apps = Document::of(&api, "apps/v1").await;
    let accepted = |document: &Document, path: &str| {
        let content = &document.0["paths"][format!("{path}/{{name}}")]["patch"]["requestBody"]["content"];
        let types = content.as_object().unwrap_or_else(|| panic!("no {path}")).keys();
        types.filter_map(|name| Some(name.strip_prefix("application/")?.to_owned())).collect::<Vec<_>>()
    };

    let of_all = ["apply-patch+yaml", "json-patch+json", "merge-patch+json"];
    let of_widgets = format!("/apis/{}/namespaces/{{namespace}}/widgets", widgets.version());
    assert_eq!(accepted(&custom, &of_widgets), of_all);
    let of_deployments = "/apis/apps/v1/namespaces/{namespace}/deployments";
    assert_eq!(accepted(&apps, of_deployments), [&of_all[..], &["strategic-merge-patch+json"]].concat());
    api.delete(&widgets.place()).await;
}

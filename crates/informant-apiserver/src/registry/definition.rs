//! Custom resource definitions.
//!
//! - **In:** a definition, as an object.
//! - **Out:** the kind that it defines, or an error; the status of the definition.
//! - **Knows nothing of:** the kinds that are served, and their objects.
//!
//! The kind has one version, the storage version. Schemas are ignored; printer columns and selectable fields are used.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    columns::PrinterColumn,
    error::{ApiError, Cause},
    objects::{Object, rules::Part, validate::is_dns_label},
    registry::{
        kind::{Kind, Scope},
        subresource::Subresource,
    },
    schema::custom,
};

/// The name of the kind CustomResourceDefinition.
pub(crate) const RESOURCE: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// The annotation that a definition in a group of Kubernetes needs.
const APPROVED: &str = "api-approved.kubernetes.io";
const PROTECTED: &str = "protected groups must have approval annotation \"api-approved.kubernetes.io\"";

/// Returns true for the kind CustomResourceDefinition.
pub(crate) fn defines(kind: &Kind) -> bool {
    kind.is_at("apiextensions.k8s.io", "customresourcedefinitions")
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    group: String,
    names: Names,
    scope: String,
    versions: Option<Vec<Version>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Names {
    plural: String,
    kind: String,
    singular: String,
    list_kind: String,
    short_names: Option<Vec<String>>,
    categories: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Version {
    name: String,
    storage: bool,
    subresources: Option<Subresources>,
    additional_printer_columns: Option<Vec<PrinterColumn>>,
    schema: Option<Schema>,
    selectable_fields: Option<Vec<SelectableField>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Schema {
    #[serde(rename = "openAPIV3Schema")]
    root: Value,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SelectableField {
    json_path: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Subresources {
    status: Option<Value>,
    scale: Option<Scale>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Scale {
    spec_replicas_path: String,
    status_replicas_path: String,
}

/// The kind that a definition defines.
pub(crate) fn read(definitions: &Kind, object: &Object) -> Result<Kind, ApiError> {
    let name = object.text("name");
    let invalid = |cause| ApiError::invalid(definitions, name, cause);
    let spec = object.rest.get("spec").ok_or_else(|| invalid(Cause::required("spec", "")))?;
    let spec: Spec = serde_json::from_slice(spec).map_err(|error| {
        ApiError::BadRequest(format!("the spec of the custom resource definition {name} cannot be read: {error}"))
    })?;
    spec.check_group(object.metadata.get("annotations")).map_err(invalid)?;
    spec.names.check().map_err(invalid)?;
    if name != format!("{}.{}", spec.names.plural, spec.group) {
        return Err(invalid(bad("metadata.name", name, "must be spec.names.plural+\".\"+spec.group")));
    }
    spec.kind().map_err(invalid)
}

/// Checks an update of a definition, whose immutable fields must not change.
pub(crate) fn check_change(definitions: &Kind, old: &Object, new: &Object, part: Part) -> Result<(), ApiError> {
    let (Part::Main, Ok(before)) = (part, read(definitions, old)) else { return Ok(()) };
    let after = read(definitions, new)?;
    let scope = |kind: &Kind| format!("{:?}", kind.scope);
    let fields = [
        ("spec.group", before.group.to_string(), after.group.to_string()),
        ("spec.scope", scope(&before), scope(&after)),
        ("spec.names.kind", before.kind.to_string(), after.kind.to_string()),
    ];
    match fields.into_iter().find(|(_, before, after)| before != after) {
        Some((field, _, after)) => {
            Err(ApiError::invalid(definitions, new.text("name"), bad(field, &after, "field is immutable")))
        }
        None => Ok(()),
    }
}

fn bad(field: &'static str, value: &str, why: &str) -> Cause {
    Cause::invalid(field, &format!("{value:?}"), why)
}

const NO_LABEL: &str = "must be a lower-case name as in paths, without dots";

impl Spec {
    fn check_group(&self, annotations: Option<&Value>) -> Result<(), Cause> {
        if self.group.is_empty() {
            return Err(Cause::required("spec.group", ""));
        }
        if !self.group.contains('.') {
            return Err(bad("spec.group", &self.group, "should be a domain with at least one dot"));
        }
        let is_of = |domain: &str| self.group == domain || self.group.ends_with(&format!(".{domain}"));
        let is_approved = annotations.is_some_and(|annotations| annotations.get(APPROVED).is_some());
        match (is_of("k8s.io") || is_of("kubernetes.io")) && !is_approved {
            true => Err(Cause::required("metadata.annotations[api-approved.kubernetes.io]", PROTECTED)),
            false => Ok(()),
        }
    }

    fn kind(self) -> Result<Kind, Cause> {
        let scope = match &*self.scope {
            "Namespaced" => Scope::Namespaced,
            "Cluster" => Scope::Cluster,
            "" => return Err(Cause::required("spec.scope", "")),
            other => return Err(Cause::unsupported("spec.scope", &format!("{other:?}"), r#""Cluster", "Namespaced""#)),
        };
        let version = stored(self.versions.unwrap_or_default())?;
        let subresources = version.subresources.unwrap_or_default();
        let kind = Kind::new(self.group, version.name, self.names.kind, self.names.plural);
        let given = |name: String| (!name.is_empty()).then(|| name.into());
        Ok(Kind {
            scope,
            singular: given(self.names.singular).unwrap_or_else(|| kind.singular.clone()),
            list_kind: given(self.names.list_kind).unwrap_or_else(|| kind.list_kind.clone()),
            short_names: self.names.short_names.into_iter().flatten().map(Into::into).collect(),
            categories: self.names.categories.into_iter().flatten().map(Into::into).collect(),
            subresources: subresources.served(),
            selectable_fields: version.selectable_fields.into_iter().flatten().map(SelectableField::label).collect(),
            columns: version.additional_printer_columns.unwrap_or_default(),
            types: version.schema.map(|schema| Arc::new(custom::read(&schema.root))),
            ..kind
        })
    }
}

impl Names {
    fn check(&self) -> Result<(), Cause> {
        for (field, name) in [("spec.names.plural", &self.plural), ("spec.names.kind", &self.kind)] {
            if name.is_empty() {
                return Err(Cause::required(field, ""));
            }
        }
        let kind = self.kind.to_lowercase();
        let short = self.short_names.iter().flatten().map(|name| ("spec.names.shortNames", name));
        let singular = Some(("spec.names.singular", &self.singular)).filter(|(_, name)| !name.is_empty());
        let names = [("spec.names.plural", &self.plural), ("spec.names.kind", &kind)];
        match names.into_iter().chain(singular).chain(short).find(|(_, name)| !is_dns_label(name)) {
            Some((field, name)) => Err(bad(field, name, NO_LABEL)),
            None => Ok(()),
        }
    }
}

impl Subresources {
    fn served(self) -> Vec<Subresource> {
        let status = self.status.map(|_| Subresource::Status);
        let scale = self.scale.filter(Scale::is_usual).map(|_| Subresource::Scale);
        status.into_iter().chain(scale).collect()
    }
}

impl SelectableField {
    /// The field in selectors: `spec.colour` for the path `.spec.colour`.
    fn label(self) -> Cow<'static, str> {
        self.json_path.trim_start_matches('.').to_owned().into()
    }
}

impl Scale {
    /// Returns true for the usual paths. Scales with other paths are not supported.
    fn is_usual(&self) -> bool {
        self.spec_replicas_path == ".spec.replicas" && self.status_replicas_path == ".status.replicas"
    }
}

/// The storage version.
fn stored(versions: Vec<Version>) -> Result<Version, Cause> {
    for (place, version) in versions.iter().enumerate() {
        if !is_dns_label(&version.name) {
            return Err(bad("spec.versions", &version.name, NO_LABEL));
        }
        if versions[..place].iter().any(|other| other.name == version.name) {
            return Err(bad("spec.versions", &version.name, "must be unique"));
        }
        for (column_place, column) in version.additional_printer_columns.iter().flatten().enumerate() {
            let path = format!("spec.versions[{place}].additionalPrinterColumns[{column_place}]");
            check_column(&path, column)?;
        }
    }
    let names = versions.iter().map(|version| &*version.name).collect::<Vec<_>>().join(",");
    let mut stored = versions.into_iter().filter(|version| version.storage);
    match (stored.next(), stored.next()) {
        (Some(version), None) => Ok(version),
        (_, _) => Err(bad("spec.versions", &names, "must have exactly one version marked as storage version")),
    }
}

fn check_column(path: &str, column: &PrinterColumn) -> Result<(), Cause> {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 9] = ["", "byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    let one_of = |values: &[&str]| format!("must be one of {}", values.join(","));
    let wrong = |field: &str, value: &str, why: &str| {
        Err(Cause::invalid(format!("{path}.{field}"), &format!("{value:?}"), why))
    };
    match column {
        column if column.name.is_empty() => wrong("name", "", "must not be empty"),
        column if !TYPES.contains(&&*column.r#type) => wrong("type", &column.r#type, &one_of(&TYPES)),
        column if !FORMATS.contains(&&*column.format) => wrong("format", &column.format, &one_of(&FORMATS[1..])),
        column if !column.json_path.starts_with('.') => {
            wrong("JSONPath", &column.json_path, "must be a simple json path starting with .")
        }
        _ => Ok(()),
    }
}

/// Sets the status of a definition whose kind is served.
pub(crate) fn establish(definition: &mut Object, kind: &Kind) {
    // The kind is served from the creation of its definition.
    let since = definition.metadata.get("creationTimestamp").cloned().unwrap_or_default();
    let condition = |name: &str, reason: &str, message: &str| {
        let mut condition = json!({"type": name, "status": "True", "reason": reason, "message": message});
        condition["lastTransitionTime"] = since.clone();
        condition
    };
    let mut names = json!({
        "plural": kind.plural,
        "singular": kind.singular,
        "kind": kind.kind,
        "listKind": kind.list_kind,
    });
    for (field, values) in [("shortNames", &kind.short_names), ("categories", &kind.categories)] {
        if !values.is_empty() {
            names[field] = json!(values);
        }
    }
    let mut conditions = vec![
        condition("NamesAccepted", "NoConflicts", "no conflicts found"),
        condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ];
    match (definition.is_being_deleted(), waits(definition)) {
        (true, true) => {
            conditions.push(condition("Terminating", "InstanceDeletionInProgress", "its objects are being deleted"));
        }
        (true, false) => {
            let mut done = condition("Terminating", "InstanceDeletionCompleted", "removed all instances");
            done["status"] = json!("False");
            conditions.push(done);
        }
        (false, _) => {}
    }
    let status = json!({"acceptedNames": names, "conditions": conditions, "storedVersions": [kind.version]});
    definition.rest.insert("status".to_owned(), Bytes::from(status.to_string()));
}

/// The finalizer of a definition that is being deleted and still has objects.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Adds the finalizer for the objects of a definition.
pub(crate) fn wait(definition: &mut Object) {
    if !waits(definition) {
        let finalizers = [definition.finalizers(), vec![CLEANUP]].concat();
        definition.set("finalizers", json!(finalizers));
    }
}

/// Returns true if a definition has the finalizer for its objects.
pub(crate) fn waits(definition: &Object) -> bool {
    definition.finalizers().contains(&CLEANUP)
}

/// The definition without the finalizer for its objects.
pub(crate) fn released(definition: &Object) -> Object {
    let mut released = definition.clone();
    let others: Vec<_> = definition.finalizers().into_iter().filter(|finalizer| *finalizer != CLEANUP).collect();
    released.set("finalizers", json!(others));
    released
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    fn definition(change: impl FnOnce(&mut Value)) -> Result<Kind, u16> {
        let mut object = json!({
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com",
                "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
                "scope": "Namespaced",
                "versions": [
                    {"name": "v1alpha1", "served": true, "storage": false},
                    {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}},
                ],
            },
        });
        change(&mut object);
        let definitions = Registry::builtin_kinds().find(defines).unwrap();
        read(&definitions, &Object::from_value(object)).map_err(|error| error.code())
    }

    #[test]
    fn a_definition_defines_a_kind_in_the_version_that_is_stored() {
        let kind = definition(|_| ()).unwrap();

        let mut expected = Kind::new("example.com", "v1", "Widget", "widgets").with_status().short_names(["wd"]);
        expected.categories = vec!["all".into()];
        assert_eq!(kind, expected);
        let named = definition(|object| {
            object["spec"]["names"] = json!({"plural": "widgets", "kind": "Widget", "singular": "wdg", "listKind": "WidgetBunch", "shortNames": null, "categories": null});
            object["spec"]["versions"][1]["subresources"] = json!(null);
        });
        let named = named.unwrap();
        assert_eq!(
            (&*named.singular, &*named.list_kind, named.has(Subresource::Status)),
            ("wdg", "WidgetBunch", false)
        );
        let of_cluster = definition(|object| object["spec"]["scope"] = json!("Cluster")).unwrap();
        assert_eq!(of_cluster.scope, Scope::Cluster);
        let scale = |path: &str| json!({"specReplicasPath": path, "statusReplicasPath": ".status.replicas"});
        let scaled =
            |path: &str| definition(|object| object["spec"]["versions"][1]["subresources"]["scale"] = scale(path));
        let has_scale = |path: &str| scaled(path).unwrap().has(Subresource::Scale);
        assert!(has_scale(".spec.replicas") && !has_scale(".spec.size"));
    }

    #[test]
    fn a_kind_has_the_columns_of_the_version_that_is_stored() {
        let of = |name: &str, path: &str| json!({"name": name, "type": "integer", "jsonPath": path, "priority": 1});
        let kind = definition(|object| {
            object["spec"]["versions"][0]["additionalPrinterColumns"] = json!([of("Old", ".spec.old")]);
            object["spec"]["versions"][1]["additionalPrinterColumns"] = json!([of("Size", ".spec.size")]);
        });
        let size = PrinterColumn {
            name: "Size".into(),
            r#type: "integer".into(),
            json_path: ".spec.size".into(),
            priority: 1,
            ..PrinterColumn::default()
        };

        assert_eq!(kind.unwrap().columns, [size]);
        let with = |change: Value| {
            definition(|object| {
                let mut column = of("Size", ".spec.size");
                let change = change.as_object().unwrap().clone();
                change.into_iter().for_each(|(field, value)| column[field] = value);
                object["spec"]["versions"][1]["additionalPrinterColumns"] = json!([column]);
            })
        };
        assert!(with(json!({"format": "int32"})).is_ok());
        for change in
            [json!({"name": ""}), json!({"type": "colour"}), json!({"format": "red"}), json!({"jsonPath": "x"})]
        {
            assert_eq!(with(change.clone()), Err(422), "{change}");
        }
    }

    #[test]
    fn what_defines_no_kind_is_refused() {
        assert_eq!(definition(|object| object["metadata"]["name"] = json!("widgets")), Err(422));
        assert_eq!(definition(|object| object["spec"]["group"] = json!("apps")), Err(422));
        assert_eq!(definition(|object| object["spec"]["scope"] = json!("Everywhere")), Err(422));
        assert_eq!(definition(|object| object["spec"]["names"]["kind"] = json!("")), Err(422));
        assert_eq!(definition(|object| object["spec"]["versions"][0]["storage"] = json!(true)), Err(422));
        assert_eq!(definition(|object| object["spec"]["versions"] = json!([])), Err(422));
        assert_eq!(definition(|object| object["spec"]["versions"] = json!(null)), Err(422));
        assert_eq!(definition(|object| object["spec"]["versions"][0]["name"] = json!("v1")), Err(422));
        assert_eq!(definition(|object| object["spec"]["versions"][0]["name"] = json!("V 1")), Err(422));
        assert_eq!(definition(|object| object["spec"]["names"]["kind"] = json!("has space")), Err(422));
        assert_eq!(definition(|object| object["spec"]["names"]["shortNames"] = json!(["A B"])), Err(422));
        let protected = |object: &mut Value| {
            object["metadata"]["name"] = json!("widgets.apps.k8s.io");
            object["spec"]["group"] = json!("apps.k8s.io");
        };
        assert_eq!(definition(protected), Err(422));
        let approved = |object: &mut Value| {
            object["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "unapproved"});
        };
        let both = |object: &mut Value| {
            protected(object);
            approved(object);
        };
        assert!(definition(both).is_ok());
        assert_eq!(definition(|object| object["spec"]["versions"] = json!("v1")), Err(400));
        assert_eq!(definition(|object| drop(object["spec"].take())), Err(400));
    }
}

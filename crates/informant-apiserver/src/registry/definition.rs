//! Custom resource definitions: objects that say which other kinds are served.
//!
//! - **In:** a definition, as an object.
//! - **Out:** the kind that it defines, or what is wrong with it; and the status that it has then.
//! - **Knows nothing of:** the kinds that are served, and their objects.
//!
//! A kind has one version here: that in which Kubernetes would store its objects. There are no schemas, so those are not read.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::json;

use crate::error::ApiError;
use crate::error::Cause;
use crate::objects::Object;
use crate::objects::rules::Part;
use crate::objects::validate::is_dns_label;
use crate::registry::kind::Kind;
use crate::registry::kind::Scope;

/// What definitions are called.
pub(crate) const RESOURCE: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Who defines kinds in groups of Kubernetes has to say that he may.
const APPROVED: &str = "api-approved.kubernetes.io";
const PROTECTED: &str = "protected groups must have approval annotation \"api-approved.kubernetes.io\"";

/// Whether objects of this kind are definitions.
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
#[serde(default)]
struct Version {
    name: String,
    storage: bool,
    subresources: Option<Subresources>,
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
    let invalid = |cause| ApiError::invalid(definitions, object.text("name"), cause);
    let required = |field| invalid(Cause::required(field, ""));
    let spec = object.rest.get("spec").ok_or_else(|| required("spec"))?;
    let spec: Spec = serde_json::from_slice(spec)
        .map_err(|error| ApiError::BadRequest(format!("{} defines nothing: {error}", object.text("name"))))?;
    for (field, value) in
        [("spec.group", &spec.group), ("spec.names.plural", &spec.names.plural), ("spec.names.kind", &spec.names.kind)]
    {
        if value.is_empty() {
            return Err(required(field));
        }
    }
    let bad = |field, value: &str, why| invalid(Cause::invalid(field, &format!("{value:?}"), why));
    if !spec.group.contains('.') {
        return Err(bad("spec.group", &spec.group, "should be a domain with at least one dot"));
    }
    let is_protected = |domain: &str| spec.group == domain || spec.group.ends_with(&format!(".{domain}"));
    let annotations = object.metadata.get("annotations");
    let is_approved = annotations.is_some_and(|annotations| annotations.get(APPROVED).is_some());
    if (is_protected("k8s.io") || is_protected("kubernetes.io")) && !is_approved {
        return Err(invalid(Cause::required("metadata.annotations[api-approved.kubernetes.io]", PROTECTED)));
    }
    let singular = Some(spec.names.singular).filter(|singular| !singular.is_empty());
    let singular = singular.unwrap_or_else(|| spec.names.kind.to_lowercase());
    let short_names = spec.names.short_names.unwrap_or_default();
    let names = [("spec.names.plural", &spec.names.plural), ("spec.names.singular", &singular)];
    let kind = ("spec.names.kind", &spec.names.kind.to_lowercase());
    let short = short_names.iter().map(|name| ("spec.names.shortNames", name));
    if let Some((field, name)) = names.into_iter().chain([kind]).chain(short).find(|(_, name)| !is_dns_label(name)) {
        return Err(bad(field, name, "must be a lower-case name as in paths, without dots"));
    }
    let name = format!("{}.{}", spec.names.plural, spec.group);
    if object.text("name") != name {
        return Err(bad("metadata.name", object.text("name"), "must be spec.names.plural+\".\"+spec.group"));
    }
    let scope = match &*spec.scope {
        "Namespaced" => Scope::Namespaced,
        "Cluster" => Scope::Cluster,
        "" => return Err(required("spec.scope")),
        other => {
            let supported = r#""Cluster", "Namespaced""#;
            return Err(invalid(Cause::unsupported("spec.scope", &format!("{other:?}"), supported)));
        }
    };
    let versions = spec.versions.unwrap_or_default();
    for (place, version) in versions.iter().enumerate() {
        if !is_dns_label(&version.name) {
            return Err(bad("spec.versions", &version.name, "must be a lower-case name as in paths, without dots"));
        }
        if versions[..place].iter().any(|other| other.name == version.name) {
            return Err(bad("spec.versions", &version.name, "must be unique"));
        }
    }
    let mut stored = versions.into_iter().filter(|version| version.storage);
    let (Some(version), None) = (stored.next(), stored.next()) else {
        return Err(bad("spec.versions", "versions", "must have exactly one version marked as storage version"));
    };
    let subresources = version.subresources.unwrap_or_default();
    // Others would have to be looked for in every object.
    let is_usual = |scale: Scale| {
        (&*scale.spec_replicas_path, &*scale.status_replicas_path) == (".spec.replicas", ".status.replicas")
    };
    let list_kind = Some(spec.names.list_kind).filter(|list_kind| !list_kind.is_empty());
    let kind = Kind::new(spec.group, version.name, spec.names.kind, spec.names.plural);
    Ok(Kind {
        scope,
        singular: singular.into(),
        list_kind: list_kind.map_or(kind.list_kind.clone(), Into::into),
        short_names: short_names.into_iter().map(Into::into).collect(),
        categories: spec.names.categories.into_iter().flatten().map(Into::into).collect(),
        has_status: subresources.status.is_some(),
        has_scale: subresources.scale.is_some_and(is_usual),
        ..kind
    })
}

/// Whether a definition may become this one. What its objects are may not change while there are some.
pub(crate) fn check_change(definitions: &Kind, old: &Object, new: &Object, part: Part) -> Result<(), ApiError> {
    let (Part::Main, Ok(before)) = (part, read(definitions, old)) else { return Ok(()) };
    let after = read(definitions, new)?;
    let fields = [
        ("spec.group", before.group == after.group),
        ("spec.scope", before.scope == after.scope),
        ("spec.names.kind", before.kind == after.kind),
    ];
    match fields.iter().find(|(_, is_same)| !is_same) {
        Some((field, _)) => {
            let cause = Cause::invalid(*field, "another one", "field is immutable");
            Err(ApiError::invalid(definitions, new.text("name"), cause))
        }
        None => Ok(()),
    }
}

/// Gives a definition the status of one whose kind is served.
pub(crate) fn establish(definition: &mut Object, kind: &Kind) {
    // It is served from its beginning.
    let since = definition.metadata.get("creationTimestamp").cloned().unwrap_or_default();
    let condition = |name: &str, reason: &str, message: &str| json!({"type": name, "status": "True", "lastTransitionTime": since, "reason": reason, "message": message});
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
    let status = json!({
        "acceptedNames": names,
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
        "storedVersions": [kind.version],
    });
    definition.rest.insert("status".to_owned(), Bytes::from(status.to_string()));
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
        assert_eq!((&*named.singular, &*named.list_kind, named.has_status), ("wdg", "WidgetBunch", false));
        let of_cluster = definition(|object| object["spec"]["scope"] = json!("Cluster")).unwrap();
        assert_eq!(of_cluster.scope, Scope::Cluster);
        let scale = |path: &str| json!({"specReplicasPath": path, "statusReplicasPath": ".status.replicas"});
        let scaled =
            |path: &str| definition(|object| object["spec"]["versions"][1]["subresources"]["scale"] = scale(path));
        assert!(scaled(".spec.replicas").unwrap().has_scale && !scaled(".spec.size").unwrap().has_scale);
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

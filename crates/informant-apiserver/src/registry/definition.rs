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
use crate::registry::kind::Kind;
use crate::registry::kind::Scope;

/// Whether objects of this kind are definitions.
pub(crate) fn defines(kind: &Kind) -> bool {
    kind.group == "apiextensions.k8s.io" && kind.plural == "customresourcedefinitions"
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    group: String,
    names: Names,
    scope: String,
    versions: Vec<Version>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Names {
    plural: String,
    kind: String,
    short_names: Vec<String>,
    categories: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Version {
    name: String,
    storage: bool,
    subresources: Subresources,
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
        .map_err(|error| ApiError::BadRequest(format!("the definition cannot be read: {error}")))?;
    for (field, value) in
        [("spec.group", &spec.group), ("spec.names.plural", &spec.names.plural), ("spec.names.kind", &spec.names.kind)]
    {
        if value.is_empty() {
            return Err(required(field));
        }
    }
    if !spec.group.contains('.') {
        let why = "should be a domain with at least one dot";
        return Err(invalid(Cause::invalid("spec.group", &format!("{:?}", spec.group), why)));
    }
    let name = format!("{}.{}", spec.names.plural, spec.group);
    if object.text("name") != name {
        let why = "must be spec.names.plural+\".\"+spec.group";
        return Err(invalid(Cause::invalid("metadata.name", &format!("{:?}", object.text("name")), why)));
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
    let mut stored = spec.versions.into_iter().filter(|version| version.storage && !version.name.is_empty());
    let (Some(version), None) = (stored.next(), stored.next()) else {
        let why = "must have exactly one version marked as storage version";
        return Err(invalid(Cause::invalid("spec.versions", "versions", why)));
    };
    // Others would have to be looked for in every object.
    let is_usual = |scale: Scale| {
        (&*scale.spec_replicas_path, &*scale.status_replicas_path) == (".spec.replicas", ".status.replicas")
    };
    Ok(Kind {
        scope,
        short_names: spec.names.short_names.into_iter().map(Into::into).collect(),
        is_of_all: spec.names.categories.iter().any(|category| category == "all"),
        has_status: version.subresources.status.is_some(),
        has_scale: version.subresources.scale.is_some_and(is_usual),
        ..Kind::new(spec.group, version.name, spec.names.kind, spec.names.plural)
    })
}

/// Gives a definition the status of one whose kind is served.
pub(crate) fn establish(definition: &mut Object, kind: &Kind) {
    // It is served from its beginning.
    let since = definition.metadata.get("creationTimestamp").cloned().unwrap_or_default();
    let condition = |name: &str, reason: &str, message: &str| json!({"type": name, "status": "True", "lastTransitionTime": since, "reason": reason, "message": message});
    let mut names = json!({
        "plural": kind.plural,
        "singular": kind.kind.to_lowercase(),
        "kind": kind.kind,
        "listKind": format!("{}List", kind.kind),
    });
    if !kind.short_names.is_empty() {
        names["shortNames"] = json!(kind.short_names);
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
        expected.is_of_all = true;
        assert_eq!(kind, expected);
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
        assert_eq!(definition(|object| object["spec"]["versions"] = json!("v1")), Err(400));
        assert_eq!(definition(|object| drop(object["spec"].take())), Err(400));
    }
}

//! Custom resource definitions.
//!
//! - **In:** a definition, as an object.
//! - **Out:** the kinds that it defines, one for each version, or an error; the status of the definition.
//! - **Knows nothing of:** the kinds that are served, and their objects.

mod spec;
mod status;

use crate::{
    error::{ApiError, Cause},
    objects::{Object, rules::Part},
    registry::{definition::spec::Spec, kind::Kind},
};

pub(crate) use crate::registry::definition::status::{establish, released, stored_versions, wait, waits};

/// The name of the kind CustomResourceDefinition.
pub(crate) const RESOURCE: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Returns true for the kind CustomResourceDefinition.
pub(crate) fn defines(kind: &Kind) -> bool {
    kind.is_at("apiextensions.k8s.io", "customresourcedefinitions")
}

/// The kinds that a definition defines: first that of the version in which objects are stored, which need not be served, then those of
/// the other served versions.
///
/// Schemas are not checked here: a definition that a test has put, or that was stored before, can lack them.
pub(crate) fn read(definitions: &Kind, object: &Object) -> Result<Vec<Kind>, ApiError> {
    read_spec(definitions, object)?.kinds(definitions, object.text("name"))
}

/// Checks a new definition, and the schemas of its versions.
pub(crate) fn check_new(definitions: &Kind, object: &Object) -> Result<(), ApiError> {
    read(definitions, object)?;
    check_schemas(definitions, object)
}

/// Checks an update of a definition, whose immutable fields must not change.
pub(crate) fn check_change(definitions: &Kind, old: &Object, new: &Object, part: Part) -> Result<(), ApiError> {
    let (Part::Main, Ok(before)) = (part, read(definitions, old)) else { return Ok(()) };
    let kinds = read(definitions, new)?;
    let (before, after) = (&before[0], &kinds[0]);
    let scope = |kind: &Kind| format!("{:?}", kind.scope);
    let fields = [
        ("spec.group", before.group.to_string(), after.group.to_string()),
        ("spec.scope", scope(before), scope(after)),
        ("spec.names.kind", before.kind.to_string(), after.kind.to_string()),
    ];
    let invalid = |cause| Err(ApiError::invalid(definitions, new.text("name"), cause));
    if let Some((field, _, after)) = fields.into_iter().find(|(_, before, after)| before != after) {
        return invalid(spec::bad(field, &after, "field is immutable"));
    }
    let versions = read_spec(definitions, new)?.version_names();
    for (index, version) in stored_versions(old).iter().enumerate() {
        if !versions.contains(version) {
            let why = format!(
                "missing from spec.versions; {version} was previously a storage version, and must remain in spec.versions until a \
                 storage migration ensures no data remains persisted in {version} and removes {version} from status.storedVersions"
            );
            return invalid(Cause::invalid(format!("status.storedVersions[{index}]"), &format!("{version:?}"), &why));
        }
    }
    // What was invalid before may stay so.
    match new.rest.get("spec") == old.rest.get("spec") || check_schemas(definitions, old).is_err() {
        true => Ok(()),
        false => check_schemas(definitions, new),
    }
}

fn read_spec(definitions: &Kind, object: &Object) -> Result<Spec, ApiError> {
    let name = object.text("name");
    let invalid = |cause| ApiError::invalid(definitions, name, cause);
    let spec = object.rest.get("spec").ok_or_else(|| invalid(Cause::required("spec", "")))?;
    let spec: Spec = serde_json::from_slice(spec).map_err(|error| {
        ApiError::BadRequest(format!("the spec of the custom resource definition {name} cannot be read: {error}"))
    })?;
    spec.check(name, object.metadata.get("annotations")).map_err(invalid)?;
    Ok(spec)
}

fn check_schemas(definitions: &Kind, object: &Object) -> Result<(), ApiError> {
    let (kind, name) = (definitions.clone().into(), object.text("name").to_owned());
    let causes = read_spec(definitions, object)?.check_schemas(&name)?;
    if causes.is_empty() { Ok(()) } else { Err(ApiError::Invalid { kind, name, causes }) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        columns::PrinterColumn,
        registry::{Registry, kind::Scope, subresource::Subresource},
    };

    fn definition(change: impl FnOnce(&mut Value)) -> Result<Kind, u16> {
        let mut object = json!({
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com",
                "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
                "scope": "Namespaced",
                "versions": [
                    {"name": "v1alpha1", "served": false, "storage": false},
                    {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}},
                ],
            },
        });
        change(&mut object);
        let definitions = Registry::builtin_kinds().find(defines).unwrap();
        let kinds = read(&definitions, &Object::from_value(object)).map_err(|error| error.code())?;
        Ok(kinds.into_iter().next().unwrap())
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
        assert!(scaled(".spec.replicas").unwrap().has(Subresource::Scale));
        assert_eq!(scaled(".spec.size").unwrap().scale.unwrap().spec, ".spec.size");
        assert_eq!((scaled("size"), scaled(".status.size")), (Err(422), Err(422)));
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

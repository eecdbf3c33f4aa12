//! The spec of a custom resource definition, and the kinds that it defines.
//!
//! - **In:** a spec, decoded.
//! - **Out:** a kind for each version, or the first error.

use std::{borrow::Cow, sync::Arc};

use serde::Deserialize;
use serde_json::Value;

use crate::{
    columns::PrinterColumn,
    error::{ApiError, Cause},
    objects::{scale::ScalePaths, validate::is_dns_label},
    registry::{
        kind::{Kind, Scope},
        subresource::Subresource,
    },
    schema::structural::VersionSchema,
};

/// The annotation that a definition in a group of Kubernetes needs.
const APPROVED: &str = "api-approved.kubernetes.io";
const PROTECTED: &str = "protected groups must have approval annotation \"api-approved.kubernetes.io\"";

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec {
    group: String,
    names: Names,
    scope: String,
    versions: Option<Vec<Version>>,
    preserve_unknown_fields: Option<bool>,
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
    served: bool,
    storage: bool,
    schema: Option<Validation>,
    subresources: Option<Subresources>,
    additional_printer_columns: Option<Vec<PrinterColumn>>,
    selectable_fields: Option<Vec<SelectableField>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Validation {
    #[serde(rename = "openAPIV3Schema")]
    schema: Option<Value>,
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
    label_selector_path: Option<String>,
}

pub(super) fn bad(field: &'static str, value: &str, why: &str) -> Cause {
    Cause::invalid(field, &format!("{value:?}"), why)
}

const NO_LABEL: &str = "must be a lower-case name as in paths, without dots";

impl Spec {
    /// Checks everything but the schemas.
    pub(super) fn check(&self, name: &str, annotations: Option<&Value>) -> Result<(), Cause> {
        self.check_group(annotations)?;
        self.names.check()?;
        if name != format!("{}.{}", self.names.plural, self.group) {
            return Err(bad("metadata.name", name, "must be spec.names.plural+\".\"+spec.group"));
        }
        if self.preserve_unknown_fields == Some(true) {
            return Err(Cause::invalid("spec.preserveUnknownFields", "true", "must be false"));
        }
        self.scope()?;
        check_versions(self.versions())
    }

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

    fn scope(&self) -> Result<Scope, Cause> {
        match &*self.scope {
            "Namespaced" => Ok(Scope::Namespaced),
            "Cluster" => Ok(Scope::Cluster),
            "" => Err(Cause::required("spec.scope", "")),
            other => Err(Cause::unsupported("spec.scope", &format!("{other:?}"), r#""Cluster", "Namespaced""#)),
        }
    }

    fn versions(&self) -> &[Version] {
        self.versions.as_deref().unwrap_or_default()
    }

    pub(super) fn version_names(&self) -> Vec<String> {
        self.versions().iter().map(|version| version.name.clone()).collect()
    }

    /// The kind of each version that is stored or served, that of the stored one first.
    pub(super) fn kinds(self, definitions: &Kind, name: &str) -> Result<Vec<Kind>, ApiError> {
        let scope = self.scope().map_err(|cause| ApiError::invalid(definitions, name, cause))?;
        let mut versions = self.versions.unwrap_or_default();
        versions.retain(|version| version.storage || version.served);
        versions.sort_by_key(|version| !version.storage);
        let given = |name: &str| (!name.is_empty()).then(|| name.to_owned().into());
        let texts = |list: &Option<Vec<String>>| list.iter().flatten().cloned().map(Into::into).collect();
        let kind = |version: Version| {
            let schema = version.read_schema(name)?.map(Arc::new);
            let subresources = version.subresources.unwrap_or_default();
            let names = &self.names;
            let kind = Kind::new(self.group.clone(), version.name, names.kind.clone(), names.plural.clone());
            Ok(Kind {
                scope,
                is_served: version.served,
                schema,
                scale: subresources.scale.as_ref().map(Scale::paths).map(Arc::new),
                singular: given(&names.singular).unwrap_or_else(|| kind.singular.clone()),
                list_kind: given(&names.list_kind).unwrap_or_else(|| kind.list_kind.clone()),
                short_names: texts(&names.short_names),
                categories: texts(&names.categories),
                subresources: subresources.served(),
                selectable_fields: version
                    .selectable_fields
                    .into_iter()
                    .flatten()
                    .map(SelectableField::label)
                    .collect(),
                columns: version.additional_printer_columns.unwrap_or_default(),
                ..kind
            })
        };
        versions.into_iter().map(kind).collect()
    }

    /// The errors in the schemas of all versions.
    pub(super) fn check_schemas(&self, name: &str) -> Result<Vec<Cause>, ApiError> {
        let versions = self.versions();
        let sources: Vec<_> = versions.iter().map(Version::source).collect();
        let schemas = versions.iter().map(|version| version.read_schema(name)).collect::<Result<Vec<_>, _>>()?;
        let mut causes = Vec::new();
        // Like kube-apiserver, which moves a schema that all versions share to another field before it checks it.
        if let (Some(Some(schema)), true) = (schemas.first(), sources.windows(2).all(|two| two[0] == two[1])) {
            let has_status = versions.iter().any(Version::has_status);
            return Ok(schema.check_definition("spec.validation.openAPIV3Schema", has_status));
        }
        for (index, (version, schema)) in versions.iter().zip(schemas).enumerate() {
            let path = format!("spec.versions[{index}].schema.openAPIV3Schema");
            match schema {
                Some(schema) => causes.extend(schema.check_definition(&path, version.has_status())),
                None => causes.push(Cause::required(path, "")),
            }
        }
        Ok(causes)
    }
}

impl Version {
    fn source(&self) -> Option<&Value> {
        self.schema.as_ref()?.schema.as_ref()
    }

    fn read_schema(&self, name: &str) -> Result<Option<VersionSchema>, ApiError> {
        self.source().map(VersionSchema::read).transpose().map_err(|error| {
            let version = &self.name;
            ApiError::BadRequest(format!(
                "the schema of version {version} in the custom resource definition {name} cannot be read: {error}"
            ))
        })
    }

    fn has_status(&self) -> bool {
        self.subresources.as_ref().is_some_and(|subresources| subresources.status.is_some())
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
    fn served(&self) -> Vec<Subresource> {
        let status = self.status.as_ref().map(|_| Subresource::Status);
        let scale = self.scale.as_ref().map(|_| Subresource::Scale);
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
    fn paths(&self) -> ScalePaths {
        ScalePaths {
            spec: self.spec_replicas_path.clone(),
            status: self.status_replicas_path.clone(),
            selector: self.label_selector_path.clone().filter(|path| !path.is_empty()),
        }
    }

    /// `path` is the place of the subresources in the definition.
    fn check(&self, path: &str) -> Result<(), Cause> {
        let selector = self.label_selector_path.as_deref().unwrap_or_default();
        let fields = [
            ("specReplicasPath", &*self.spec_replicas_path, &[".spec."][..], ".spec"),
            ("statusReplicasPath", &*self.status_replicas_path, &[".status."], ".status"),
            ("labelSelectorPath", selector, &[".spec.", ".status."], "either .spec or .status"),
        ];
        for (name, value, prefixes, place) in fields {
            let field = format!("{path}.scale.{name}");
            let wrong = |why: &str| Err(Cause::invalid(field.clone(), &format!("{value:?}"), why));
            match value {
                "" if name == "labelSelectorPath" => {}
                "" => return Err(Cause::required(field, "")),
                _ if !value.starts_with('.') => return wrong("must be a simple json path starting with ."),
                _ if !prefixes.iter().any(|prefix| value.starts_with(prefix)) => {
                    return wrong(&format!("should be a json path under {place}"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Checks the versions, of which exactly one is stored.
fn check_versions(versions: &[Version]) -> Result<(), Cause> {
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
        // kube-apiserver has moved subresources that all versions share.
        let path = match versions.len() {
            1 => "spec.subresources".to_owned(),
            _ => format!("spec.versions[{place}].subresources"),
        };
        if let Some(scale) = version.subresources.as_ref().and_then(|subresources| subresources.scale.as_ref()) {
            scale.check(&path)?;
        }
    }
    match versions.iter().filter(|version| version.storage).count() {
        1 => Ok(()),
        _ => {
            let names = versions.iter().map(|version| &*version.name).collect::<Vec<_>>().join(",");
            Err(bad("spec.versions", &names, "must have exactly one version marked as storage version"))
        }
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

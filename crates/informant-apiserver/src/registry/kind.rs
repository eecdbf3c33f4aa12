//! [`Kind`]: the names, scope and behaviour of one kind of objects.
//!
//! - **In:** names and options, from the table of built-in kinds, from definitions and from tests.
//! - **Out:** what all other modules need to serve the kind.

use std::{borrow::Cow, sync::Arc};

use crate::{columns::PrinterColumn, registry::subresource::Subresource, schema::Types};

/// A kind of objects: its group, version and names, and how the server treats it.
///
/// Register a kind with [`ApiServer::register`](crate::ApiServer::register).
///
/// ```
/// use informant_apiserver::Kind;
///
/// let widgets = Kind::new("example.com", "v1", "Widget", "widgets").with_status().short_names(["wd"]);
///
/// assert_eq!(widgets.resource(), "widgets.example.com");
/// assert_eq!(widgets.api_version(), "example.com/v1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    pub(crate) group: Cow<'static, str>,
    pub(crate) version: Cow<'static, str>,
    pub(crate) kind: Cow<'static, str>,
    pub(crate) plural: Cow<'static, str>,
    /// The singular name in commands.
    pub(crate) singular: Cow<'static, str>,
    pub(crate) list_kind: Cow<'static, str>,
    pub(crate) short_names: Vec<Cow<'static, str>>,
    /// The categories that include it, such as `all`.
    pub(crate) categories: Vec<Cow<'static, str>>,
    pub(crate) scope: Scope,
    pub(crate) origin: Origin,
    pub(crate) names: Names,
    pub(crate) subresources: Vec<Subresource>,
    pub(crate) has_generation: bool,
    /// The response to a delete is the object instead of a `Status`.
    pub(crate) shows_deleted: bool,
    /// An update without `resourceVersion` is allowed.
    pub(crate) updates_blindly: bool,
    /// An update of an object that does not exist creates it.
    pub(crate) creates_on_update: bool,
    /// A review: the response to a create has a status, and the object is not stored.
    pub(crate) is_review: bool,
    /// Fields of a custom kind that field selectors may name, such as `spec.colour`.
    pub(crate) selectable_fields: Vec<Cow<'static, str>>,
    /// The printer columns in the definition of a custom kind.
    pub(crate) columns: Vec<PrinterColumn>,
    /// The types of the fields of a custom kind; `None` if its schema is unknown.
    pub(crate) types: Option<Arc<Types>>,
}

/// Whether the objects of a kind belong to namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Each object belongs to a namespace.
    Namespaced,
    /// Objects belong to the whole cluster.
    Cluster,
}

/// Whether a kind is built in. Some rules differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Items of lists have no `kind` and `apiVersion`, and bodies may leave them out. A status update also writes metadata.
    BuiltIn,
    /// Items of lists and bodies have `kind` and `apiVersion`. A status update writes nothing else.
    Custom,
}

/// The rule for the names of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// Lower-case letters, digits, `-`; parts joined by `.`.
    Subdomain,
    /// Lower-case letters, digits, `-`.
    Label,
    /// Anything that is valid as one segment of a path.
    PathSegment,
}

impl Kind {
    /// Creates a namespaced custom kind without subresources. The core group is `""`.
    pub fn new(
        group: impl Into<Cow<'static, str>>,
        version: impl Into<Cow<'static, str>>,
        kind: impl Into<Cow<'static, str>>,
        plural: impl Into<Cow<'static, str>>,
    ) -> Self {
        let kind = kind.into();
        Self {
            group: group.into(),
            version: version.into(),
            singular: kind.to_lowercase().into(),
            list_kind: format!("{kind}List").into(),
            kind,
            plural: plural.into(),
            short_names: Vec::new(),
            categories: Vec::new(),
            scope: Scope::Namespaced,
            origin: Origin::Custom,
            names: Names::Subdomain,
            subresources: Vec::new(),
            has_generation: true,
            shows_deleted: false,
            updates_blindly: false,
            creates_on_update: false,
            is_review: false,
            selectable_fields: Vec::new(),
            columns: Vec::new(),
            types: None,
        }
    }

    /// Makes the kind cluster-scoped. Default: namespaced.
    #[must_use]
    pub fn cluster_scoped(mut self) -> Self {
        self.scope = Scope::Cluster;
        self
    }

    /// Adds the `status` subresource: only requests to it write `status`. Default: `status` is an ordinary field.
    #[must_use]
    pub fn with_status(mut self) -> Self {
        self.subresources.push(Subresource::Status);
        self
    }

    /// Sets the short names in discovery, such as `po` for pods. Default: none.
    #[must_use]
    pub fn short_names<N: Into<Cow<'static, str>>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.short_names = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the fields that field selectors support besides `metadata.name` and `metadata.namespace`, such as `spec.colour`;
    /// the same as `selectableFields` of a custom resource definition. Default: none.
    ///
    /// Requests with other fields fail with 400, as in kube-apiserver.
    #[must_use]
    pub fn selectable_fields<F: Into<Cow<'static, str>>>(mut self, fields: impl IntoIterator<Item = F>) -> Self {
        self.selectable_fields = fields.into_iter().map(Into::into).collect();
        self
    }

    /// Returns `group/version`, or the version alone for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_string() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Returns the unique name of the kind: `pods`, `deployments.apps`.
    pub fn resource(&self) -> String {
        resource_name(&self.plural, &self.group)
    }

    /// The path of the kind in the API: `v1/pods`, `apps/v1/deployments`. No two kinds have the same path.
    pub(crate) fn path(&self) -> String {
        format!("{}/{}", self.api_version(), self.plural)
    }

    /// Returns the API group; empty for the core group.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// Returns the name of the kind in objects, such as `Pod`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the plural name in paths, such as `pods`.
    pub fn plural(&self) -> &str {
        &self.plural
    }

    /// Returns whether the objects belong to namespaces.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Returns the API version, such as `v1`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns true if the kind has this subresource.
    pub(crate) fn has(&self, subresource: Subresource) -> bool {
        self.subresources.contains(&subresource)
    }

    /// Returns true if this is the kind Namespace.
    pub(crate) fn is_namespace(&self) -> bool {
        self.is_at("", "namespaces")
    }

    /// Returns true if this is the kind Pod.
    pub(crate) fn is_pod(&self) -> bool {
        self.is_at("", "pods")
    }

    /// Returns true if the kind has this group and plural.
    pub(crate) fn is_at(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    /// Returns true if `name` is a name of this kind other than the plural: the singular, a short name, or the kind itself.
    pub(crate) fn is_misnamed(&self, name: &str) -> bool {
        name == self.singular || name == self.kind || self.short_names.iter().any(|short| short == name)
    }

    /// Returns true if `name` names this kind: with its group, or the plural alone.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        means(name, &self.resource())
    }
}

/// The unique name of a kind: `pods`, `deployments.apps`.
pub(crate) fn resource_name(plural: &str, group: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

/// Returns true if `name` is this resource name, or its plural alone.
pub(crate) fn means(name: &str, resource: &str) -> bool {
    name == resource || Some(name) == resource.split('.').next()
}

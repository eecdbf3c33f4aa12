//! What the server must know of one kind to serve it: names, scope and a few habits.

use std::borrow::Cow;

use crate::columns::PrinterColumn;
use crate::registry::subresource::Subresource;

/// One kind of objects and where the API serves it.
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
    /// What one of them is called in commands.
    pub(crate) singular: Cow<'static, str>,
    pub(crate) list_kind: Cow<'static, str>,
    pub(crate) short_names: Vec<Cow<'static, str>>,
    /// What it is got with: `all`.
    pub(crate) categories: Vec<Cow<'static, str>>,
    pub(crate) scope: Scope,
    pub(crate) origin: Origin,
    pub(crate) names: Names,
    pub(crate) subresources: Vec<Subresource>,
    pub(crate) has_generation: bool,
    /// A delete is answered with the object instead of a `Status`.
    pub(crate) shows_deleted: bool,
    /// An update may leave out the version it replaces.
    pub(crate) updates_blindly: bool,
    /// An update of what is not there creates it.
    pub(crate) creates_on_update: bool,
    /// A review: a create is answered with a filled-in status, and nothing is stored.
    pub(crate) is_review: bool,
    /// Fields of a custom kind that field selectors may name, such as `spec.colour`.
    pub(crate) selectable_fields: Vec<Cow<'static, str>>,
    /// The columns of a custom kind that its definition names.
    pub(crate) columns: Vec<PrinterColumn>,
}

/// Whether objects of a kind live in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Each object belongs to a namespace.
    Namespaced,
    /// Objects belong to the whole cluster.
    Cluster,
}

/// Built-in kinds and custom ones behave differently in places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// List items carry no type, bodies may leave it out; an update of the status takes metadata too.
    BuiltIn,
    /// List items and bodies carry their type; an update of the status takes nothing else.
    Custom,
}

/// Which names are good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// Lower-case letters, digits, `-`; parts joined by `.`.
    Subdomain,
    /// The same without `.`.
    Label,
    /// Anything that can stand in a path.
    PathSegment,
}

impl Kind {
    /// A custom kind, namespaced, without status subresource and short names. The core group is `""`.
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
        }
    }

    /// Objects belong to the cluster. Default: to a namespace.
    #[must_use]
    pub fn cluster_scoped(mut self) -> Self {
        self.scope = Scope::Cluster;
        self
    }

    /// `status` is written through its subresource alone. Default: it is a field like any other.
    #[must_use]
    pub fn with_status(mut self) -> Self {
        self.subresources.push(Subresource::Status);
        self
    }

    /// Short names for discovery, such as `po` for pods. Default: none.
    #[must_use]
    pub fn short_names<N: Into<Cow<'static, str>>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.short_names = names.into_iter().map(Into::into).collect();
        self
    }

    /// Fields that field selectors may name besides `metadata.name` and `metadata.namespace`, such as `spec.colour`; the
    /// same as `selectableFields` of a custom resource definition. Default: none; a selector with another field is
    /// answered with 400, as kube-apiserver does.
    #[must_use]
    pub fn selectable_fields<F: Into<Cow<'static, str>>>(mut self, fields: impl IntoIterator<Item = F>) -> Self {
        self.selectable_fields = fields.into_iter().map(Into::into).collect();
        self
    }

    /// `group/version`, or the version alone in the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_string() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The name that tells this kind from all others: `pods`, `deployments.apps`.
    pub fn resource(&self) -> String {
        resource_name(&self.plural, &self.group)
    }

    /// Where the API serves it: `v1/pods`, `apps/v1/deployments`. No two kinds have the same path.
    pub(crate) fn path(&self) -> String {
        format!("{}/{}", self.api_version(), self.plural)
    }

    /// The API group; empty for the core group.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// The kind itself, such as `Pod`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The kind in paths, such as `pods`.
    pub fn plural(&self) -> &str {
        &self.plural
    }

    /// Namespaced or not.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// The version in which it is served, such as `v1`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Whether it has this subresource.
    pub(crate) fn has(&self, subresource: Subresource) -> bool {
        self.subresources.contains(&subresource)
    }

    /// Whether its objects are namespaces.
    pub(crate) fn is_namespace(&self) -> bool {
        self.is_at("", "namespaces")
    }

    /// Whether its objects are pods.
    pub(crate) fn is_pod(&self) -> bool {
        self.is_at("", "pods")
    }

    /// Whether this is its place in the API, but for the version.
    pub(crate) fn is_at(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    /// Whether a user who says `name` means this kind.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        means(name, &self.resource())
    }
}

/// The name that tells a kind from all others: `pods`, `deployments.apps`.
pub(crate) fn resource_name(plural: &str, group: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

/// Whether a user who says `name` means the kind with this resource name: all of it, or the plural alone.
pub(crate) fn means(name: &str, resource: &str) -> bool {
    name == resource || Some(name) == resource.split('.').next()
}

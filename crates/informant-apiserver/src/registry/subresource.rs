//! Subresources, with the verbs and types of each.
//!
//! - **In:** the last part of a path, or a method.
//! - **Out:** the subresource; its verbs and its type.

use http::Method;

/// The last part of a path such as `/api/v1/namespaces/shop/pods/web/status`: a part of an object, a view of it, or an action on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Subresource {
    /// The status: the observed state of an object, in contrast to its spec.
    Status,
    /// The number of replicas, as an `autoscaling/v1` Scale for every kind.
    Scale,
    /// The approval of a certificate signing request.
    Approval,
    /// The ephemeral containers of a pod.
    EphemeralContainers,
    /// The finalizers in the spec of a namespace.
    Finalize,
    /// The eviction of a pod: a delete that a disruption budget can forbid.
    Eviction,
    /// The assignment of a pod to a node.
    Binding,
    /// A new token for a service account.
    Token,
}

/// The group, version and kind in the bodies of requests and responses of a subresource.
pub(crate) type TypeNames<'a> = (&'a str, &'a str, &'a str);

impl Subresource {
    const ALL: [Self; 8] = [
        Self::Approval,
        Self::Binding,
        Self::EphemeralContainers,
        Self::Eviction,
        Self::Finalize,
        Self::Scale,
        Self::Status,
        Self::Token,
    ];

    /// The last segment of its path.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Approval => "approval",
            Self::EphemeralContainers => "ephemeralcontainers",
            Self::Finalize => "finalize",
            Self::Eviction => "eviction",
            Self::Binding => "binding",
            Self::Token => "token",
        }
    }

    /// The subresource with this last segment of a path.
    pub(crate) fn read(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|subresource| subresource.name() == name)
    }

    /// The supported verbs, in the words of discovery.
    pub(crate) fn verbs(self) -> &'static [&'static str] {
        match self {
            Self::Status | Self::Scale | Self::Approval | Self::EphemeralContainers => &["get", "patch", "update"],
            Self::Finalize => &["update"],
            Self::Eviction | Self::Binding | Self::Token => &["create"],
        }
    }

    /// Returns true if requests with this method are supported.
    pub(crate) fn allows(self, method: &Method) -> bool {
        let verb = match *method {
            Method::GET => "get",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::POST => "create",
            _ => return false,
        };
        self.verbs().contains(&verb)
    }

    /// The type of the bodies of requests and responses, if it is not that of the object.
    pub(crate) fn own_type(self) -> Option<TypeNames<'static>> {
        match self {
            Self::Status | Self::Approval | Self::EphemeralContainers | Self::Finalize => None,
            Self::Scale => Some(("autoscaling", "v1", "Scale")),
            Self::Eviction => Some(("policy", "v1", "Eviction")),
            Self::Binding => Some(("", "v1", "Binding")),
            Self::Token => Some(("authentication.k8s.io", "v1", "TokenRequest")),
        }
    }
}

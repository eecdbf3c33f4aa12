//! Parsed requests: verb, kind, object and parameters.
//!
//! - **In:** the method and URI of an HTTP request.
//! - **Out:** an [`ApiRequest`], or the error that kube-apiserver sends for an unknown path or method.
//! - **Knows nothing of:** which kinds are served.

use http::Method;
use percent_encoding::percent_decode_str;

use crate::{
    error::ApiError,
    http::params::Params,
    registry::{kind::resource_name, subresource::Subresource},
};

/// The operation that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Lists objects, or one page of them.
    List,
    /// Watches for changes.
    Watch,
    /// Streams the existing objects, then watches for changes: a streaming list (`sendInitialEvents=true`).
    WatchList,
    /// Creates an object, or calls a subresource such as `eviction`.
    Create,
    /// Replaces an object or a subresource.
    Update,
    /// Patches an object or a subresource.
    Patch,
    /// Deletes an object.
    Delete,
    /// Deletes all objects that a selector matches.
    DeleteCollection,
    /// Reads discovery documents, OpenAPI, the version or health.
    Discover,
    /// Anything that the server does not understand.
    Other,
}

impl Verb {
    /// The name of the verb in metrics, discovery and the documentation of Kubernetes.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::WatchList => "watchlist",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Discover => "discover",
            Self::Other => "other",
        }
    }
}

/// A parsed request.
#[derive(Clone, Debug)]
pub(crate) struct ApiRequest {
    pub(crate) verb: Verb,
    pub(crate) target: Target,
    pub(crate) params: Params,
}

/// What a request addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Objects(Place),
    Document(Document),
}

/// The collection, object or subresource that a path addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    /// Empty for all namespaces, and for cluster-scoped kinds.
    pub(crate) namespace: String,
    /// Empty for the whole collection.
    pub(crate) name: String,
    pub(crate) subresource: Option<Subresource>,
}

impl Place {
    /// `pods`, or `deployments.apps`.
    pub(crate) fn resource(&self) -> String {
        resource_name(&self.plural, &self.group)
    }
}

/// A document about the server itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Document {
    Version,
    Healthy,
    CoreVersions,
    Groups,
    Group(String),
    Resources {
        group: String,
        version: String,
    },
    /// OpenAPI version 2, which older clients read.
    OldOpenApi,
    /// The index of the OpenAPI version 3 documents.
    OpenApi,
    /// The OpenAPI version 3 document of a group.
    Operations {
        group: String,
        version: String,
    },
}

impl ApiRequest {
    pub(crate) fn read(method: &Method, uri: &http::Uri) -> Result<Self, ApiError> {
        let mut params = Params::read(uri.query().unwrap_or_default())?;
        let decoded = uri.path().split('/').filter(|part| !part.is_empty());
        let parts = decoded.map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned()).collect::<Vec<_>>();
        let mut parts = parts.iter().map(String::as_str).collect::<Vec<_>>();
        let has_watch_segment = remove_watch_segment(&mut parts);
        let mut target = Target::read(&parts).ok_or(ApiError::UnknownPath)?;
        if let (Target::Objects(place), true) = (&mut target, has_watch_segment) {
            if place.subresource.is_some() {
                return Err(ApiError::UnknownPath);
            }
            if *method != Method::GET {
                return Err(ApiError::MethodNotAllowed);
            }
            params.make_watch(&std::mem::take(&mut place.name));
        }
        let verb = match &target {
            Target::Document(_) if [Method::GET, Method::HEAD].contains(method) => Verb::Discover,
            Target::Document(_) => return Err(ApiError::MethodNotAllowed),
            Target::Objects(place) => verb(method, place, &params).ok_or(ApiError::MethodNotAllowed)?,
        };
        Ok(Self { verb, target, params })
    }

    pub(crate) fn place(&self) -> Option<&Place> {
        match &self.target {
            Target::Objects(place) => Some(place),
            Target::Document(_) => None,
        }
    }
}

/// Removes `watch` from a deprecated path: `/api/v1/watch/pods` means `/api/v1/pods?watch=true`. Returns true if it was there.
fn remove_watch_segment(parts: &mut Vec<&str>) -> bool {
    let position = if parts.first() == Some(&"api") { 2 } else { 3 };
    let has_watch_segment = parts.len() > position + 1 && parts[position] == "watch";
    if has_watch_segment {
        parts.remove(position);
    }
    has_watch_segment
}

fn verb(method: &Method, place: &Place, params: &Params) -> Option<Verb> {
    let whole = place.name.is_empty();
    // The HTTP library leaves out the body of a response to HEAD.
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    if place.subresource.is_some_and(|subresource| !subresource.allows(method)) {
        return None;
    }
    match *method {
        // kube-apiserver ignores `watch=true` in the path of a single object.
        Method::GET if !whole => Some(Verb::Get),
        Method::POST if place.subresource.is_some() => Some(Verb::Create),
        Method::GET if params.watch && params.wants_initial_events() => Some(Verb::WatchList),
        Method::GET if params.watch => Some(Verb::Watch),
        Method::GET => Some(Verb::List),
        Method::POST if whole => Some(Verb::Create),
        Method::PUT if !whole => Some(Verb::Update),
        Method::PATCH if !whole => Some(Verb::Patch),
        Method::DELETE if whole => Some(Verb::DeleteCollection),
        Method::DELETE => Some(Verb::Delete),
        _ => None,
    }
}

impl Target {
    fn read(parts: &[&str]) -> Option<Self> {
        let document = |document| Some(Self::Document(document));
        match *parts {
            ["version"] => document(Document::Version),
            ["healthz" | "livez" | "readyz"] => document(Document::Healthy),
            ["openapi", "v2"] => document(Document::OldOpenApi),
            ["openapi", "v3"] => document(Document::OpenApi),
            ["openapi", "v3", "api", version] => {
                document(Document::Operations { group: String::new(), version: version.into() })
            }
            ["openapi", "v3", "apis", group, version] => {
                document(Document::Operations { group: group.into(), version: version.into() })
            }
            ["api"] => document(Document::CoreVersions),
            ["apis"] => document(Document::Groups),
            ["apis", group] => document(Document::Group(group.into())),
            ["api", version] => document(Document::Resources { group: String::new(), version: version.into() }),
            ["apis", group, version] => document(Document::Resources { group: group.into(), version: version.into() }),
            ["api", version, ref rest @ ..] => Place::read("", version, rest).map(Self::Objects),
            ["apis", group, version, ref rest @ ..] => Place::read(group, version, rest).map(Self::Objects),
            _ => None,
        }
    }
}

impl Place {
    fn read(group: &str, version: &str, parts: &[&str]) -> Option<Self> {
        let place = |namespace: &str, plural: &str, name: &str, subresource| {
            let [group, version, plural, namespace, name] =
                [group, version, plural, namespace, name].map(str::to_owned);
            Some(Self { group, version, plural, namespace, name, subresource })
        };
        let part = |name| Subresource::read(name).map(Some);
        match *parts {
            // Namespaces are objects themselves.
            ["namespaces"] => place("", "namespaces", "", None),
            ["namespaces", name] => place("", "namespaces", name, None),
            ["namespaces", name, last @ ("status" | "finalize")] => place("", "namespaces", name, part(last)?),
            ["namespaces", namespace, plural] => place(namespace, plural, "", None),
            ["namespaces", namespace, plural, name] => place(namespace, plural, name, None),
            ["namespaces", namespace, plural, name, last] => place(namespace, plural, name, part(last)?),
            [plural] => place("", plural, "", None),
            [plural, name] => place("", plural, name, None),
            [plural, name, last] => place("", plural, name, part(last)?),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &Method, uri: &str) -> Result<(Verb, String), u16> {
        let request = ApiRequest::read(method, &uri.parse().unwrap()).map_err(|error| error.code())?;
        let place = request.place().cloned().unwrap_or_default();
        let part = place.subresource.map(|part| format!("/{}", part.name())).unwrap_or_default();
        Ok((request.verb, format!("{}|{}|{}{part}", place.resource(), place.namespace, place.name)))
    }

    #[test]
    fn paths_say_kind_namespace_and_name() {
        let get = |uri| read(&Method::GET, uri);
        let is = |verb, place: &str| Ok((verb, place.to_owned()));

        assert_eq!(get("/api/v1/pods"), is(Verb::List, "pods||"));
        assert_eq!(get("/api/v1/namespaces/shop/pods"), is(Verb::List, "pods|shop|"));
        assert_eq!(get("/api/v1/namespaces/shop/pods/web"), is(Verb::Get, "pods|shop|web"));
        assert_eq!(get("/api/v1/namespaces/shop/pods/web?watch=1"), is(Verb::Get, "pods|shop|web"));
        assert_eq!(get("/api/v1/namespaces/shop/pods/web/status"), is(Verb::Get, "pods|shop|web/status"));
        assert_eq!(
            get("/apis/apps/v1/namespaces/shop/deployments/web/scale"),
            is(Verb::Get, "deployments.apps|shop|web/scale")
        );
        assert_eq!(get("/api/v1/namespaces/shop"), is(Verb::Get, "namespaces||shop"));
        assert_eq!(get("/api/v1/namespaces/shop/status"), is(Verb::Get, "namespaces||shop/status"));
        assert_eq!(get("/api/v1/namespaces?watch=true"), is(Verb::Watch, "namespaces||"));
        assert_eq!(get("/api/v1/watch/pods"), is(Verb::Watch, "pods||"));
        assert_eq!(get("/api/v1/watch/namespaces/shop/pods/web"), is(Verb::Watch, "pods|shop|"));
        assert_eq!(get("/apis/apps/v1/watch/namespaces/shop/deployments"), is(Verb::Watch, "deployments.apps|shop|"));
        assert_eq!(get("/api/v1/watch/namespaces/shop"), is(Verb::Watch, "namespaces||"));
        assert_eq!(get("/apis/apps/v1/deployments?watch=0"), is(Verb::List, "deployments.apps||"));
        assert_eq!(
            get("/apis/apps/v1/deployments?watch=1&sendInitialEvents=true"),
            is(Verb::WatchList, "deployments.apps||")
        );
        assert_eq!(
            get("/apis/rbac.authorization.k8s.io/v1/clusterroles/a%3Ab"),
            is(Verb::Get, "clusterroles.rbac.authorization.k8s.io||a:b")
        );
    }

    #[test]
    fn what_no_path_or_verb_means_is_refused() {
        assert_eq!(read(&Method::GET, "/"), Err(404));
        assert_eq!(read(&Method::GET, "/api/v1/namespaces/a/pods/b/exec"), Err(404));
        assert_eq!(read(&Method::POST, "/api"), Err(405));
        assert_eq!(read(&Method::POST, "/api/v1/namespaces/a/pods/b"), Err(405));
        assert_eq!(read(&Method::PUT, "/api/v1/namespaces/a/pods"), Err(405));
        assert_eq!(read(&Method::PATCH, "/api/v1/namespaces/a/pods"), Err(405));
        assert_eq!(read(&Method::DELETE, "/api/v1/namespaces/a/pods/b/status"), Err(405));
        assert_eq!(read(&Method::GET, "/api/v1/namespaces/a/pods/b/eviction"), Err(405));
        assert_eq!(read(&Method::POST, "/api/v1/watch/pods"), Err(405));
        assert_eq!(read(&Method::GET, "/api/v1/watch/namespaces/a/pods/b/status"), Err(404));
    }
}

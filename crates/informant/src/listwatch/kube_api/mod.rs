//! The Kubernetes API as a source: the objects of one kind, in one scope.
//!
//! - **In:** the reflector's requests.
//! - **Out:** HTTP requests with a `kube::Client`, and the bytes of their responses, after [`answer`] has checked status and headers.
//! - **Knows nothing of:** objects, and the content of the bytes.

mod answer;

use std::{any::TypeId, sync::Arc};

use derive_where::derive_where;
use futures_util::StreamExt;
use http::{
    HeaderValue, Request,
    header::{ACCEPT, ACCEPT_ENCODING},
};
use http_body_util::BodyExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroup, APIGroupList, APIResourceList};
use kube::{
    Client,
    client::Body,
    core::{ApiResource, DynamicObject, TypeMeta},
};
use serde::de::DeserializeOwned;

use super::{
    Item, ListPiece, ListRequest, ListStream, ListWatch, LookupAnswer, LookupRequest, Served, SourceError, WatchPiece,
    WatchRequest, WatchStream,
    any_source::{AnySource, KubeSelection},
    frames::{DEFAULT_LIMIT, ListCutter, ListPart},
};
use crate::{ResourceVersion, error::RequestError, object::Erased};

/// The objects of one kind of the Kubernetes API, in one namespace or in all, optionally selected by labels and fields.
///
/// It delivers JSON, so it fits every object type: `KubeSource::of_kind::<Pod>` is the source for `Pod`, for `Lazy<Pod>` and for projections.
///
/// The client retries failed requests before the reflector does, because `kube::Config` enables retries by default. With
/// `default_retry = false` the reflector sees each failure at once.
#[derive(Clone)]
#[derive_where(Debug)]
pub struct KubeSource {
    #[derive_where(skip(Debug))]
    client: Client,
    cluster: Option<Arc<str>>,
    pub(crate) resource: ApiResource,
    /// Whether objects of the kind are namespaced, if that is known.
    is_namespaced: Option<bool>,
    pub(crate) is_metadata_only: bool,
    namespace: Option<Arc<str>>,
    labels: String,
    fields: String,
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const METADATA: HeaderValue = HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
const METADATA_LIST: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
/// A server that does not support lists of metadata answers with whole objects.
const METADATA_LIST_IF_SUPPORTED: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json");

impl KubeSource {
    /// Creates a source for a kind that is known at compile time. For `PartialObjectMeta<K>`, only the metadata is requested.
    pub fn of_kind<K>(client: Client) -> Self
    where
        K: kube::Resource<DynamicType = (), Scope: 'static>,
    {
        let scope = TypeId::of::<K::Scope>();
        let is_namespaced = match () {
            () if scope == TypeId::of::<kube::core::NamespaceResourceScope>() => Some(true),
            () if scope == TypeId::of::<kube::core::ClusterResourceScope>() => Some(false),
            () => None,
        };
        let is_metadata_only = K::metadata_api();
        Self { is_namespaced, is_metadata_only, ..Self::dynamic(client, ApiResource::erase::<K>(&())) }
    }

    /// Creates a source for a kind that is known at run time, for example from discovery.
    pub fn dynamic(client: Client, resource: ApiResource) -> Self {
        Self {
            client,
            cluster: None,
            resource,
            is_namespaced: None,
            is_metadata_only: false,
            namespace: None,
            labels: String::new(),
            fields: String::new(),
        }
    }

    /// Sets whether the kind is namespaced, as discovery returns it, so that [`in_namespace`](Self::in_namespace) can check it. Default: known for
    /// [`of_kind`](Self::of_kind), unknown and not checked for [`dynamic`](Self::dynamic).
    #[must_use]
    pub fn scoped(mut self, scope: &kube::discovery::Scope) -> Self {
        self.is_namespaced = Some(*scope == kube::discovery::Scope::Namespaced);
        self
    }

    /// Names the client's cluster. The name is part of [each object](crate::Cached::cluster), of errors and of logs. Default:
    /// none.
    #[must_use]
    pub fn of_cluster(mut self, name: impl Into<Arc<str>>) -> Self {
        self.cluster = Some(name.into());
        self
    }

    /// Requests only the metadata, for [`PartialObjectMeta`](kube::core::PartialObjectMeta) of a dynamic kind. Default: whole objects.
    #[must_use]
    pub fn metadata_only(mut self) -> Self {
        self.is_metadata_only = true;
        self
    }

    /// Selects the objects of this namespace. Default: all namespaces.
    ///
    /// # Errors
    ///
    /// If the kind is cluster-scoped, or the text is not a valid name of a namespace.
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Result<Self, RequestError> {
        let namespace = namespace.into();
        if self.is_namespaced == Some(false) {
            return Err(RequestError::ClusterScoped { kind: self.resource.kind, namespace });
        }
        self.namespace = Some(Self::check_namespace(namespace)?.into());
        Ok(self)
    }

    /// Returns the text if it is a valid name of a namespace.
    pub(crate) fn check_namespace(namespace: String) -> Result<String, RequestError> {
        let is_letter_or_digit = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let is_name = namespace.bytes().all(|byte| is_letter_or_digit(byte) || byte == b'-')
            && namespace.bytes().next().is_some_and(is_letter_or_digit)
            && namespace.bytes().last().is_some_and(is_letter_or_digit);
        if is_name { Ok(namespace) } else { Err(RequestError::BadNamespace { namespace }) }
    }

    /// Selects objects by labels: `app=web,tier!=cache`. A `kube::core::Selector` is accepted, too. Default: all.
    #[must_use]
    pub fn with_labels(mut self, selector: impl Into<String>) -> Self {
        self.labels = selector.into();
        self
    }

    /// Selects objects by fields: `spec.nodeName=node-1`. Default: all.
    #[must_use]
    pub fn with_fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = selector.into();
        self
    }

    /// Makes a request for the objects of this kind and scope.
    fn request(&self, accept: HeaderValue, query: &[(&str, &str)]) -> Result<Request<Body>, SourceError> {
        let selectors = [("labelSelector", &*self.labels), ("fieldSelector", &*self.fields)];
        self.collection_request(self.namespace.as_deref(), accept, query.iter().copied().chain(selectors))
    }

    /// Makes a request for objects of this kind in a namespace, or in all. Omits parameters without a value.
    fn collection_request<'a>(
        &self,
        namespace: Option<&str>,
        accept: HeaderValue,
        query: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Result<Request<Body>, SourceError> {
        let path = <DynamicObject as kube::Resource>::url_path(&self.resource, namespace);
        let pairs = query.filter(|(_, value)| !value.is_empty());
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        get(&format!("{path}?{query}"), accept)
    }

    /// The `Accept` header of lists.
    fn list_accept_header(&self) -> HeaderValue {
        if self.is_metadata_only { METADATA_LIST } else { JSON }
    }

    fn list_request(&self, asked: &ListRequest) -> Result<Request<Body>, SourceError> {
        let limit = asked.limit.map(|limit| limit.to_string()).unwrap_or_default();
        let names_version = !matches!(asked.version.as_str(), "" | "0");
        // Without this parameter, a version with a limit means exactly that version, which may be older than the current one.
        let matching = if names_version && asked.limit.is_some() { "NotOlderThan" } else { "" };
        self.request(
            if asked.needs_only_metadata { METADATA_LIST_IF_SUPPORTED } else { self.list_accept_header() },
            &[
                ("resourceVersion", asked.version.as_str()),
                ("resourceVersionMatch", matching),
                ("limit", &limit),
                ("continue", asked.continue_token.as_deref().unwrap_or_default()),
            ],
        )
    }

    fn watch_request(&self, asked: &WatchRequest) -> Result<Request<Body>, SourceError> {
        let timeout = asked.timeout.as_secs().to_string();
        let streams = asked.sends_initial_events;
        let mut request = self.request(
            if self.is_metadata_only { METADATA } else { JSON },
            &[
                ("watch", "true"),
                ("resourceVersion", asked.version.as_str()),
                ("allowWatchBookmarks", "true"),
                ("timeoutSeconds", &timeout),
                ("sendInitialEvents", if streams { "true" } else { "" }),
                ("resourceVersionMatch", if streams { "NotOlderThan" } else { "" }),
            ],
        )?;
        // From Kubernetes 1.37 on, servers may compress each event of a watch separately; HTTP decompression layers cannot read that.
        request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        Ok(request)
    }

    /// Makes a request for one object; or, if only the version is needed, for the metadata of an arbitrary one.
    fn lookup_request(&self, asked: &LookupRequest) -> Result<Request<Body>, SourceError> {
        let exact = if asked.version.is_empty() { "" } else { "Exact" };
        let version = [("resourceVersion", asked.version.as_str()), ("resourceVersionMatch", exact)];
        let Some(key) = &asked.key else {
            // Omits the label selector: with it, the server would have to search for an object with these labels.
            let rest = [("fieldSelector", self.fields.as_str()), ("limit", "1")];
            return self.collection_request(
                self.namespace.as_deref(),
                METADATA_LIST_IF_SUPPORTED,
                version.into_iter().chain(rest),
            );
        };
        let separator = if self.fields.is_empty() { "" } else { "," };
        let fields = format!("{}{separator}metadata.name={}", self.fields, key.name());
        let rest = [("labelSelector", self.labels.as_str()), ("fieldSelector", &fields)];
        self.collection_request(key.namespace(), self.list_accept_header(), version.into_iter().chain(rest))
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, SourceError> {
        let bytes = self.send(get(path, JSON)?).await?.collect_bytes().await.map_err(answer::failed)?;
        serde_json::from_slice(&bytes).map_err(SourceError::other)
    }

    async fn send(&self, request: Request<Body>) -> Result<Body, SourceError> {
        let response = self.client.send(request).await.map_err(answer::failed)?;
        answer::check(response).await
    }
}

/// The source delivers only JSON, so one implementation fits all object types.
impl<O> ListWatch<O> for KubeSource {
    async fn list(&self, request: ListRequest) -> Result<ListStream<O>, SourceError> {
        let body = self.send(self.list_request(&request)?).await?;
        Ok(body.into_data_stream().map(|chunk| chunk.map(ListPiece::Body).map_err(answer::failed)).boxed())
    }

    async fn watch(&self, request: WatchRequest) -> Result<WatchStream<O>, SourceError> {
        let body = self.send(self.watch_request(&request)?).await?;
        Ok(body.into_data_stream().map(|chunk| chunk.map(WatchPiece::Body).map_err(answer::failed)).boxed())
    }

    /// Lists by name, which needs no other permission than `list`.
    async fn look_up(&self, request: LookupRequest) -> Result<Option<LookupAnswer<O>>, SourceError> {
        let mut chunks = self.send(self.lookup_request(&request)?).await?.into_data_stream();
        let mut cutter = ListCutter::with_limit(DEFAULT_LIMIT);
        let (mut object, mut version) = (None, ResourceVersion::default());
        while let Some(chunk) = chunks.next().await {
            cutter.push(chunk.map_err(answer::failed)?);
            while let Some(part) = cutter.next()? {
                match part {
                    // The outline has the identity, by which the reflector recognises the object.
                    ListPart::Item(json) | ListPart::ItemOutline(json) => object = Some(Item::json(json)),
                    ListPart::End(head) => version = head.metadata.resource_version,
                }
            }
        }
        cutter.finish()?;
        let object = object.filter(|_| request.key.is_some());
        if version.is_empty() {
            return Err(SourceError::NoVersion);
        }
        Ok(Some(LookupAnswer { version, object }))
    }

    /// Asks the server's discovery API.
    async fn is_served(&self) -> Served {
        let root = if self.resource.group.is_empty() { "api" } else { "apis" };
        let path = format!("/{root}/{}", self.resource.api_version);
        match self.get::<APIResourceList>(&path).await {
            Ok(list) if list.resources.iter().any(|resource| resource.name == self.resource.plural) => Served::Yes,
            // An empty discovery document does not prove that the kind is gone.
            Ok(list) if list.group_version != self.resource.api_version || list.resources.is_empty() => Served::Unknown,
            Ok(_) => Served::No,
            // A 404 may come from a proxy. Only a list of groups without this group proves that the kind is gone.
            Err(error) if error.code() == Some(404) && !self.resource.group.is_empty() => {
                let has_version =
                    |group: &APIGroup| group.versions.iter().any(|one| one.version == self.resource.version);
                let is_this = |group: &APIGroup| group.name == self.resource.group && has_version(group);
                match self.get::<APIGroupList>("/apis").await {
                    Ok(list) if !list.groups.is_empty() && !list.groups.iter().any(is_this) => Served::No,
                    Ok(_) | Err(_) => Served::Unknown,
                }
            }
            Err(_) => Served::Unknown,
        }
    }

    fn can_stream_lists(&self) -> bool {
        true
    }

    fn types(&self) -> TypeMeta {
        match self.is_metadata_only {
            true => TypeMeta { api_version: "meta.k8s.io/v1".into(), kind: "PartialObjectMetadata".into() },
            false => TypeMeta { api_version: self.resource.api_version.clone(), kind: self.resource.kind.clone() },
        }
    }

    fn cluster(&self) -> Option<Arc<str>> {
        self.cluster.clone()
    }

    fn namespace(&self) -> Option<Arc<str>> {
        self.namespace.clone()
    }

    /// Returns the name as in `kubectl`: `pods`, `deployments.apps`; with cluster and selection, if there are any: `east/pods in shop with app=web
    /// where spec.nodeName=n1`.
    fn name(&self) -> String {
        let mut name = match &self.cluster {
            Some(cluster) => format!("{cluster}/{}", self.resource.plural),
            None => self.resource.plural.clone(),
        };
        if !self.resource.group.is_empty() {
            name.push('.');
            name.push_str(&self.resource.group);
        }
        name + &scope_text(self.namespace.as_deref(), &self.labels, &self.fields)
    }

    /// Returns the API group: other groups may be served by other servers. Events are often kept in a storage of their own.
    fn storage(&self) -> Option<String> {
        let is_event = self.resource.plural == "events";
        Some(if is_event { "events".into() } else { self.resource.group.clone() })
    }

    fn erase(self) -> AnySource {
        let selection = KubeSelection {
            kind: kind_name(&self.resource.group, &self.resource.kind),
            labels: self.labels.clone(),
            fields: self.fields.clone(),
        };
        // It delivers only JSON, so it needs no object type: this is compiled once.
        AnySource { selection: Some(selection), ..AnySource::new::<Erased, _>(self) }
    }
}

/// Writes a kind with its group, as `kubectl` does: `Pod`, `Deployment.apps`.
pub(crate) fn kind_name(group: &str, kind: &str) -> String {
    if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") }
}

/// Writes a selection as the end of a source's name; empty if all objects are selected.
pub(crate) fn scope_text(namespace: Option<&str>, labels: &str, fields: &str) -> String {
    let parts = [(" in ", namespace.unwrap_or_default()), (" with ", labels), (" where ", fields)];
    let parts = parts.into_iter().filter(|(_, part)| !part.is_empty());
    parts.flat_map(|(before, part)| [before, part]).collect()
}

fn get(uri: &str, accept: HeaderValue) -> Result<Request<Body>, SourceError> {
    Request::get(uri).header(ACCEPT, accept).body(Body::empty()).map_err(SourceError::other)
}

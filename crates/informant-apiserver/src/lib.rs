//! A Kubernetes API server inside your test process: objects with versions, lists, watches, and injected faults.
//!
//! Use it to test operators, controllers and any other program that talks to Kubernetes with [`kube`](https://docs.rs/kube). The
//! server needs no cluster, no etcd and no container, and keeps everything in memory. It imitates kube-apiserver, including error
//! messages; the same conformance tests run against both. No controllers run in it: objects stay as they were written, unless a test
//! switches [garbage collection](#garbage-collection) on.
//!
//! # Quick start
//!
//! [`ApiServer::client`] returns a `kube::Client` that calls the server in-process, without a socket. Pass it to the code under
//! test, put objects into the server, and check the result:
//!
//! ```
//! use informant_apiserver::ApiServer;
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::{Api, Client};
//! use serde_json::json;
//!
//! // The code under test.
//! async fn read_price(client: Client) -> kube::Result<String> {
//!     let prices: Api<ConfigMap> = Api::namespaced(client, "shop");
//!     Ok(prices.get("prices").await?.data.unwrap_or_default()["apple"].clone())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // In a test: #[tokio::test]
//! let server = ApiServer::new();
//! server.put("configmaps", json!({"metadata": {"namespace": "shop", "name": "prices"}, "data": {"apple": "3"}}))?;
//!
//! assert_eq!(read_price(server.client()).await?, "3");
//! # Ok(()) }
//! ```
//!
//! The [`guide`] tests a whole operator.
//!
//! [`put`](ApiServer::put), [`get`](ApiServer::get), [`list`](ApiServer::list) and [`delete`](ApiServer::delete) give the test direct
//! access to the objects; [`load`](ApiServer::load) creates those of a YAML file, and [`dump`](ApiServer::dump) writes all of them for
//! the message of an assertion. A client can do everything that it can do in a cluster, within the [limits](#limits) below.
//!
//! # Paused time
//!
//! The server uses tokio's clock and no threads. With `#[tokio::test(start_paused = true)]` (tokio's feature `test-util`), the clock
//! jumps to the next timer whenever all tasks wait, so that retries, backoff and resyncs take no real time:
//!
//! ```
//! # use std::time::Duration;
//! # use informant_apiserver::{ApiServer, Fault, On};
//! # use k8s_openapi::api::core::v1::Pod;
//! # use kube::{Api, api::ListParams};
//! # // In a test: #[tokio::test(start_paused = true)]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), kube::Error> {
//! let server = ApiServer::new();
//! server.inject(On::list(), Fault::Delay(Duration::from_secs(3600)));
//!
//! let start = tokio::time::Instant::now();
//! Api::<Pod>::all(server.client()).list(&ListParams::default()).await?; // returns at once
//! assert_eq!(start.elapsed(), Duration::from_secs(3600));
//! # Ok(()) }
//! ```
//!
//! Call [`client`](ApiServer::client) rather than [`listen`](ApiServer::listen) in such tests: a paused clock does not wait for a
//! socket. To wait for the code under test without sleeping, use [`wait_for_request`](ApiServer::wait_for_request),
//! [`wait_for_watches`](ApiServer::wait_for_watches) or `kube::runtime::wait::await_condition`.
//!
//! # Faults
//!
//! [`inject`](ApiServer::inject) makes requests fail: [`On`] selects the requests, [`Fault`] is what happens to them.
//! [`requests`](ApiServer::requests) returns the requests that the code under test sent.
//!
//! ```
//! # use informant_apiserver::{ApiServer, Fault, On};
//! # use k8s_openapi::api::core::v1::Pod;
//! # use kube::{Api, api::ListParams};
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let server = ApiServer::new();
//! server.inject(On::list().of("pods").once(), Fault::status(503));
//! server.inject(On::watch().with_probability(0.1), Fault::cut_after_events(3));
//!
//! let pods: Api<Pod> = Api::all(server.client());
//! assert!(pods.list(&ListParams::default()).await.is_err());
//! assert!(pods.list(&ListParams::default().limit(500)).await.is_ok());
//! // L(version, limit) is a list; LoggedRequest explains the notation.
//! assert_eq!(server.requests_for("pods"), ["L(\"\", no limit)", "L(\"\", 500)"]);
//! # }
//! ```
//!
//! [`intercept`](ApiServer::intercept) shows requests to a function of the test, which can change, refuse or answer them.
//! [`cut_watches`](ApiServer::cut_watches) and [`cut_all_watches`](ApiServer::cut_all_watches) break the connections of open watches.
//!
//! # Versions and watch history
//!
//! One counter provides the `resourceVersion` of all objects. The server keeps a bounded history of changes per kind
//! ([`history`](ApiServerBuilder::history)), from which watches resume and lists read older versions.
//!
//! - [`compact`](ApiServer::compact) expires this history: clients that resume from an older version receive 410.
//! - [`backup`](ApiServer::backup) and [`restore`](ApiServer::restore) take the server back to an earlier state, as a restored etcd does.
//! - [`skip_to_version`](ApiServer::skip_to_version) continues with higher versions.
//!
//! ```
//! # use informant_apiserver::ApiServer;
//! # use k8s_openapi::api::core::v1::Pod;
//! # use kube::{Api, api::ListParams};
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::new();
//! for name in ["a", "b", "c"] {
//!     server.put("pods", serde_json::json!({"metadata": {"namespace": "shop", "name": name}}))?;
//! }
//! let pods: Api<Pod> = Api::all(server.client());
//! let first = pods.list(&ListParams::default().limit(2)).await?;
//! let token = first.metadata.continue_.unwrap();
//! server.delete("pods", "shop/c")?;
//!
//! // The next page still has version 4, where pod c exists.
//! assert_eq!(pods.list(&ListParams::default().continue_token(&token)).await?.items.len(), 1);
//! server.compact();
//! let expired = pods.list(&ListParams::default().continue_token(&token)).await.unwrap_err();
//! assert!(matches!(expired, kube::Error::Api(status) if status.code == 410));
//! # Ok(()) }
//! ```
//!
//! # Custom kinds
//!
//! The server has the built-in kinds of Kubernetes; [`compatibility`] lists them. [`ApiServerBuilder::crd`] adds the kind of a Rust
//! type that derives `CustomResource`. Clients can also create a `CustomResourceDefinition`. [`register`](ApiServer::register) adds
//! [`Kind::of`] a Rust type, or a kind without one:
//!
//! ```
//! # use informant_apiserver::{ApiServer, Kind};
//! # use kube::{Api, api::{ApiResource, DynamicObject, GroupVersionKind, PostParams}};
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), kube::Error> {
//! let server = ApiServer::new();
//! server.register(Kind::new("example.com", "v1", "Widget", "widgets"));
//!
//! let widget = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
//! let widgets: Api<DynamicObject> = Api::default_namespaced_with(server.client(), &widget);
//! widgets.create(&PostParams::default(), &DynamicObject::new("gear", &widget)).await?;
//! # Ok(()) }
//! ```
//!
//! As in a cluster, a definition needs a schema. The server drops unknown fields, fills in defaults and refuses invalid objects, so that a
//! test fails where the cluster would. The cargo feature `cel` also runs CEL rules (`x-kubernetes-validations`).
//!
//! [`Load`] creates many realistic objects of a kind and changes them at a given rate.
//!
//! # Namespaces
//!
//! As in a cluster, a client can create an object only in a namespace that exists, and deleting a namespace deletes its objects.
//! `default` and the `kube-` namespaces always count as existing. [`put`](ApiServer::put) stores an object in any namespace, and
//! [`allow_missing_namespaces`](ApiServerBuilder::allow_missing_namespaces) switches the check off.
//! [`bootstrapped`](ApiServerBuilder::bootstrapped) starts a server with the objects of a new cluster.
//!
//! # Garbage collection
//!
//! With [`garbage_collection`](ApiServerBuilder::garbage_collection), objects are deleted with their owners, by the rules of
//! kube-controller-manager: in the background, in the foreground, or not at all (`propagationPolicy`).
//!
//! ```
//! # use informant_apiserver::ApiServer;
//! # use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
//! # use kube::{Api, Resource, api::{DeleteParams, PostParams}};
//! # use serde_json::json;
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::builder().garbage_collection().build();
//! server.put("deployments", json!({"metadata": {"namespace": "shop", "name": "web"}}))?;
//! let deployments: Api<Deployment> = Api::namespaced(server.client(), "shop");
//! let owner = deployments.get("web").await?.owner_ref(&());
//! server.put("configmaps", json!({"metadata": {"namespace": "shop", "name": "settings", "ownerReferences": [owner]}}))?;
//!
//! deployments.delete("web", &DeleteParams::default()).await?;
//! assert_eq!(server.count("configmaps")?, 0);
//! # Ok(()) }
//! ```
//!
//! The collection that follows from a change is a part of that change: the client gets the response that it would get from
//! kube-apiserver, with the state before the collection, and everything that is garbage is gone when it arrives. So a test need not
//! wait, and the same test always makes the same changes in the same order: the dependents of an object in the order of their creation,
//! then their own dependents. Watches receive each change. In a cluster, the same changes follow within seconds, in any order.
//!
//! An object with an owner that does not exist is garbage from the start, also if the test [`put`](ApiServer::put) it there. Without the
//! option nothing is collected, as in a kube-apiserver without kube-controller-manager: a delete with the policy `Foreground` or
//! `Orphan` (the default of Jobs and ReplicationControllers) adds a finalizer, and the object stays.
//!
//! # Sockets and kubeconfig
//!
//! [`listen`](ApiServer::listen) serves plain HTTP on a loopback address, for other processes:
//!
//! ```
//! # use informant_apiserver::ApiServer;
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::new();
//! let listening = server.listen(([127, 0, 0, 1], 0)).await?; // port 0: a free port
//! println!("kubectl --server {} get pods", listening.url());
//!
//! let client = kube::Client::try_from(kube::Config::new(listening.url().parse()?))?;
//! assert_eq!(client.apiserver_version().await?.major, "1");
//! listening.stop().await;
//! # Ok(()) }
//! ```
//!
//! A program that reads a kubeconfig needs a cluster entry with `server:` set to that URL, without certificates and user; the command
//! `informant apiserver --kubeconfig-out FILE` starts a server and writes such a file.
//!
//! # Limits
//!
//! - No controllers except garbage collection: nothing is scheduled or scaled, and pods do not run. Pods are deleted without a grace
//!   period.
//! - Few defaults of built-in kinds, and no validation of the values of most of their fields; names and types of fields are checked.
//! - No access control: every request is allowed.
//! - No admission plugins and webhooks.
//! - No bodies in protobuf or CBOR.
//! - No subresources that need a kubelet: `log`, `exec`, `attach`, `portforward`, `proxy`.
//! - No conversion of custom kinds by webhooks: all versions have the same fields, apart from what their schemas drop.
//! - Field selectors only for the fields that kube-apiserver 1.37 supports, such as `spec.nodeName` of pods, and for
//!   [`Kind::selectable_fields`] of custom kinds.
//!
//! [`compatibility`] has the details, including the `kubectl` commands that work.
//!
//! # Features and metrics
//!
//! The feature `cel` runs the CEL rules of custom resource definitions; without it, they have no effect.
//!
//! The feature `kube` (default) adds [`ApiServer::client`], [`ApiServerBuilder::crd`] and [`Kind::of`], for kube 5. Without it the crate
//! does not depend on `kube`. [`ApiServer::service`] is a `tower` service for other clients: with another version of kube, from kube 1
//! on, `kube::Client::new(server.service(), "default")` is the client. CI checks kube 1, 4 and 5, in-process and through a socket.
//!
//! ```toml
//! [dev-dependencies]
//! informant-apiserver = { version = "0.1", default-features = false }
//! ```
//!
//! The server counts requests in `informant_apiserver_requests_total`, by `verb` and `resource`, with the `metrics` facade; see
//! [`describe_metrics`].

// docs.rs labels each item with the feature that it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod access;
mod apply;
mod bootstrap;
mod builder;
#[cfg(feature = "kube")]
mod client;
mod collector;
pub mod columns;
#[doc = include_str!("../docs/compatibility.md")]
pub mod compatibility {}
mod error;
mod faults;
#[cfg(feature = "kube")]
#[doc = include_str!("../docs/guide.md")]
pub mod guide {}
mod http;
mod list;
mod load;
mod log;
mod manifests;
mod objects;
mod registry;
mod schema;
mod select;
mod server;
mod shared;
mod storage;
mod watch;
mod world;

pub use crate::{
    builder::ApiServerBuilder,
    error::{ApiError, Cause},
    faults::{
        CannedResponse, CutAfter, CutEnding, Fault, GzipMode, On,
        intercept::{InterceptedRequest, Interception},
        plan::FaultId,
    },
    http::{
        ResponseBody,
        listener::{ListenError, Listening},
        request::Verb,
        service::{ApiService, describe_metrics},
    },
    load::{ChangeMix, Load, LoadGenerator},
    log::LoggedRequest,
    manifests::ManifestError,
    registry::{
        kind::{Kind, Scope},
        subresource::Subresource,
    },
    server::ApiServer,
    storage::Backup,
};

#[cfg(all(doctest, feature = "kube"))]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;

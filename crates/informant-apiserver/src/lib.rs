//! A Kubernetes API server in your process, for tests and demos: objects with versions, lists, watches, and injected
//! faults.
//!
//! It speaks the API as kube-apiserver does (the same tests run against both), keeps everything in memory, starts in no
//! time and needs no cluster, no etcd, no container. No controllers run in it: what you create stays as you created it.
//!
//! # An operator under test
//!
//! `ApiServer::client` returns a `kube::Client` that calls the server in-process: no socket, no thread, and it works while tokio's clock is paused.
//! (It needs the feature `kube`, which is on by default. Without it, [`ApiServer::service`] is a `tower` service for any
//! other client.)
//!
//! ```
//! # use std::{sync::Arc, time::Duration};
//! # use futures_util::StreamExt;
//! # use kube::runtime::{Controller, controller::Action, watcher};
//! # use kube::{Resource, api::PostParams};
//! use informant_apiserver::ApiServer;
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::{Api, Client, ResourceExt, runtime::wait::await_condition};
//! use serde_json::json;
//!
//! # async fn operator(client: Client) {
//! #     async fn reconcile(map: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, kube::Error> {
//! #         let mut map = (*map).clone();
//! #         map.labels_mut().insert("seen".into(), "true".into());
//! #         let maps: Api<ConfigMap> = Api::namespaced((*client).clone(), &map.namespace().unwrap());
//! #         maps.replace(&map.name_any(), &PostParams::default(), &map).await?;
//! #         Ok(Action::await_change())
//! #     }
//! #     let maps: Api<ConfigMap> = Api::all(client.clone());
//! #     Controller::new(maps, watcher::Config::default())
//! #         .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(1)), Arc::new(client))
//! #         .for_each(|_| async {})
//! #         .await;
//! # }
//! #
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::new();
//! let client = server.client();
//! let operator = tokio::spawn(operator(client.clone())); // yours; this one labels every config map
//!
//! server.put("configmaps", json!({"metadata": {"namespace": "shop", "name": "prices"}}))?;
//!
//! let maps: Api<ConfigMap> = Api::namespaced(client, "shop");
//! let is_labelled = |map: Option<&ConfigMap>| map.is_some_and(|map| map.labels().contains_key("seen"));
//! await_condition(maps, "prices", is_labelled).await?;
//! operator.abort();
//! # Ok(())
//! # }
//! ```
//!
//! # Trouble
//!
//! What does your operator do when the API server is overloaded, when a watch breaks, when history is gone?
//! [`inject`](ApiServer::inject) a [`Fault`] and see; [`requests`](ApiServer::requests) tells what was asked.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use informant_apiserver::{ApiServer, Fault, On};
//! # use k8s_openapi::api::core::v1::Pod;
//! # use kube::{Api, api::ListParams};
//! let server = ApiServer::new();
//! server.inject(On::list().of("pods").once(), Fault::status(503));
//! server.inject(On::watch().with_probability(0.1), Fault::cut_after_events(3));
//!
//! let pods: Api<Pod> = Api::all(server.client());
//! assert!(pods.list(&ListParams::default()).await.is_err());
//! assert!(pods.list(&ListParams::default().limit(500)).await.is_ok());
//! assert_eq!(server.requests_for("pods"), ["L(\"\", no limit)", "L(\"\", 500)"]);
//! # Ok(())
//! # }
//! ```
//!
//! - [`compact`](ApiServer::compact) makes old versions and continue tokens expire;
//! - [`backup`](ApiServer::backup) and [`restore`](ApiServer::restore) go back in time;
//! - [`cut_watches`](ApiServer::cut_watches) and [`cut_all_watches`](ApiServer::cut_all_watches) break the connections of
//!   open watches;
//! - [`remove_kind`](ApiServer::remove_kind) takes a kind away while others watch it.
//!
//! # A socket
//!
//! Other programs reach the server over HTTP, on loopback addresses alone: it has no access control.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use informant_apiserver::ApiServer;
//! let server = ApiServer::new();
//! let listening = server.listen(([127, 0, 0, 1], 0)).await?; // port 0: any that is free
//! println!("try: curl {}/api/v1/pods?watch=true", listening.url());
//! listening.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! Requests are counted in `informant_apiserver_requests_total` (by `verb` and `resource`), for whichever recorder of the `metrics`
//! facade is installed; [`describe_metrics`] tells it what that is.
//!
//! # Kinds
//!
//! The usual built-in kinds are served. [`register`](ApiServer::register) adds a kind, and `ApiServerBuilder::crd::<Fleet>()` adds the
//! kind of a Rust type that derives `CustomResource`. [`Load`] fills the server with realistic objects and changes them at a rate.
//!
//! Each kind supports the field selectors that kube-apiserver 1.37 supports for it: `metadata.name`, `metadata.namespace`, and a
//! few more, such as `spec.nodeName` of pods. Other fields are answered with 400. A custom kind supports those that its
//! definition or [`Kind::selectable_fields`] lists.
//!
//! # Namespaces
//!
//! A client can create an object only in a namespace that exists, as in a cluster; [`put`](ApiServer::put) stores an object in any
//! namespace, and [`allow_missing_namespaces`](ApiServerBuilder::allow_missing_namespaces) switches the check off. Deleting a namespace
//! deletes the objects in it. [`bootstrapped`](ApiServerBuilder::bootstrapped) starts a server with the objects that a new cluster has.
//!
//! # What is missing
//!
//! - Controllers: nothing is scheduled, scaled or collected, and pods do not run. A pod is deleted at once, without a grace period.
//! - Schemas and most defaults: fields are stored as they were sent. The types of well-known fields are checked.
//! - Access control: every request is allowed.
//! - Admission plugins and webhooks.
//! - Server-side apply, and bodies in protobuf.
//! - Subresources that need a kubelet: `log`, `exec`, `attach`, `portforward`, `proxy`.
//! - Several versions of a custom kind: the stored version is served.
//!
//! [`compatibility`] lists what works and what does not, `kubectl` commands included.

mod access;
mod bootstrap;
mod builder;
#[cfg(feature = "kube")]
mod client;
pub mod columns;
#[doc = include_str!("../docs/compatibility.md")]
pub mod compatibility {}
mod error;
mod faults;
mod http;
mod list;
mod load;
mod log;
mod objects;
mod registry;
mod select;
mod server;
mod shared;
mod storage;
mod watch;
mod world;

pub use crate::builder::ApiServerBuilder;
pub use crate::error::ApiError;
pub use crate::error::Cause;
pub use crate::faults::CutAfter;
pub use crate::faults::CannedResponse;
pub use crate::faults::CutEnding;
pub use crate::faults::Fault;
pub use crate::faults::GzipMode;
pub use crate::faults::On;
pub use crate::faults::plan::FaultId;
pub use crate::http::ResponseBody;
pub use crate::http::listener::ListenError;
pub use crate::http::listener::Listening;
pub use crate::http::request::Verb;
pub use crate::http::service::ApiService;
pub use crate::http::service::describe_metrics;
pub use crate::load::Load;
pub use crate::load::LoadGenerator;
pub use crate::load::ChangeMix;
pub use crate::log::LoggedRequest;
pub use crate::registry::kind::Kind;
pub use crate::registry::kind::Scope;
pub use crate::registry::subresource::Subresource;
pub use crate::server::ApiServer;
pub use crate::storage::Backup;

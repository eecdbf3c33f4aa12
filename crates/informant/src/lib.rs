//! Shared informers for Rust: one indexed, always-current local copy of a Kubernetes kind, for any number of readers.
//!
//! ```
//! use informant::{Cached, Handler, SharedInformer};
//! use informant::listwatch::KubeSource;
//! use informant_apiserver::ApiServer;
//! use k8s_openapi::api::core::v1::Pod;
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // An API server for examples and tests; with a cluster, this is `kube::Client::try_default().await?`.
//! let server = ApiServer::new();
//! let containers = json!([{"name": "main", "image": "web:1"}]);
//! server.put("pods", json!({"metadata": {"namespace": "shop", "name": "web"}, "spec": {"nodeName": "n1", "containers": containers}}))?;
//! let client = kube::Client::new(server.service(), "default");
//!
//! let pods = SharedInformer::<Pod>::new(KubeSource::of_kind::<Pod>(client));
//! let by_node = pods.add_index("node", |pod: &Cached<Pod>| pod.spec.as_ref()?.node_name.clone())?;
//! let printer = pods.add_handler(
//!     Handler::<Pod>::new()
//!         .on_add(|pod, origin| println!("+ {} ({origin:?})", pod.key()))
//!         .on_update(|old, new| println!("~ {} {} → {}", new.key(), old.version(), new.version()))
//!         .on_delete(|pod| println!("- {}", pod.key())),
//! )?;
//!
//! pods.start();
//! printer.synced().await?;
//! assert_eq!(by_node.get("n1")[0].key().as_str(), "shop/web");
//! pods.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # The parts
//!
//! An informer is made of stages, and each can be used by itself:
//!
//! | stage | what | where |
//! | --- | --- | --- |
//! | objects | bytes become objects: read who it is, decode as much as wanted, or nothing at all | [`Scanner`], [`Lazy`], [`Object`] |
//! | listwatch | lists and watches a source, such as the Kubernetes API, and keeps a queue in step with it | [`listwatch::Reflector`], [`listwatch::KubeSource`] |
//! | queue | changes wait until they are processed; what is in flight still counts | [`queue::DeltaFifo`], [`queue::InOrderFifo`] |
//! | store | the cache, with indexes that can be added at any time | [`store::Indexer`], [`store::Lister`], [`store::Index`] |
//! | subscribers | everybody who follows the cache hears of every change, each at their own pace | [`EventHandler`], [`EventStream`], [`Registration`] |
//! | informer | joins all of it | [`SharedInformer`], [`informer::Controller`] |
//!
//! # Objects that nobody reads are not decoded
//!
//! `SharedInformer<Pod>` holds decoded pods. `SharedInformer<Lazy<Pod>>` holds their compact JSON, a sixth of that, and decodes
//! only what somebody [asks for](Lazy::get), or [just the fields](Lazy::peek) that an index needs. A struct of your own with
//! the fields that you read is a third way: see [`Object`].
//!
//! # Kubernetes versions
//!
//! The crate works with every Kubernetes version that `k8s-openapi` knows, and chooses none: enable one of that crate's
//! version features (such as `latest`) in your own `Cargo.toml`.

mod delta;
mod event;
pub mod factory;
pub mod informer;
mod key;
mod known;
pub mod listwatch;
pub mod metrics;
mod object;
mod panics;
pub mod queue;
#[cfg(test)]
#[path = "../tests/it/random.rs"]
mod random;
mod slots;
pub mod store;
pub mod subscribers;
mod version;
pub mod view;

pub use delta::Change;
pub use delta::Delta;
pub use delta::Deltas;
pub use delta::DeltasError;
pub use delta::Relist;
pub use event::Deleted;
pub use event::Event;
pub use event::Origin;
pub use factory::SharedInformerFactory;
pub use informer::SharedInformer;
pub use key::Key;
pub use key::ParseKeyError;
pub use known::KnownObjects;
pub use object::Cached;
pub use object::DecodeError;
pub use object::Decoded;
pub use object::FieldPath;
pub use object::FieldPathError;
pub use object::Identity;
pub use object::Labelled;
pub use object::Lazy;
pub use object::Object;
pub use object::OfKind;
pub use object::Provenance;
pub use object::RawObject;
pub use object::Scanner;
pub use object::SyntaxProblem;
pub use object::Uid;
pub use subscribers::EventHandler;
pub use subscribers::EventStream;
pub use subscribers::Handler;
pub use subscribers::Registration;
pub use version::NotComparable;
pub use version::ResourceVersion;
pub use view::ClusterKey;
pub use view::View;

/// The examples of the README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

//! Shared informers: a local, indexed, up-to-date copy of Kubernetes objects, with handlers that are called for every change.
//!
//! A program that needs pods should not ask the API server for them again and again. An *informer* lists them once, watches for changes, keeps
//! them in a *cache* in memory, and calls your *handlers*. This crate provides informers on top of [`kube`]'s client, and shares
//! them: all parts of a program that use the same kind use one list, one watch and one cache. Go programs use client-go's informers for this.
//!
//! Every example on this page runs against the embedded API server of the crate `informant-apiserver`. For a real cluster, create the client with
//! `kube::Client::try_default().await?`. The [guides](guide) compare informant with client-go and kube-runtime, help to choose an object
//! type, and show how to test a program.
//!
//! # A first informer
//!
//! ```
//! use informant::SharedInformerFactory;
//! use informant_apiserver::ApiServer;
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::new();
//! server.put("configmaps", json!({"metadata": {"namespace": "shop", "name": "hours"}, "data": {"open": "9-17"}}))?;
//! let client = server.client();
//!
//! let factory = SharedInformerFactory::new(client);
//! let configs = factory.informer::<ConfigMap>(); // every call with the same type returns the same informer
//! let printer = configs
//!     .subscribe()
//!     .on_add(|config, origin| println!("+ {} ({origin:?})", config.key()))
//!     .on_update(|old, new| println!("~ {} {} → {}", new.key(), old.version(), new.version()))
//!     .on_delete(|config| println!("- {}", config.key()))
//!     .register()?;
//!
//! factory.start(); // no request is sent before this
//! factory.synced().await?; // the cache holds the initial list
//! printer.synced().await?; // the handler was called for each object of it
//!
//! let hours = configs.lister().require(&"shop/hours".parse()?)?;
//! assert_eq!(hours.data.as_ref().unwrap()["open"], "9-17");
//!
//! factory.stop().await?; // waits until no callback runs and no task is left
//! # Ok(())
//! # }
//! ```
//!
//! A [`SharedInformerFactory`] owns the informers of a program: one [`SharedInformer`] for each kind, scope and object type. You can request informers at
//! any time; [`start`](SharedInformerFactory::start) starts those that are not running yet. [`SharedInformer::new`] creates an informer without a
//! factory, from any [source](pipeline::ListWatch), including sources that are not Kubernetes.
//!
//! # Reading
//!
//! A [`Lister`] reads the cache by key, by namespace, by label selector or by an [`Index`]. Every call sees one consistent state, never half of a
//! relist. Objects are returned as [`Cached<O>`](Cached), a shared handle that dereferences to the object; nothing is copied.
//!
//! ```
//! # use informant::SharedInformerFactory;
//! # use informant_apiserver::ApiServer;
//! # use serde_json::json;
//! use informant::index;
//! use k8s_openapi::api::core::v1::Pod;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = ApiServer::new();
//! # for (name, node, app) in [("web-1", "n1", "web"), ("web-2", "n2", "web"), ("db", "n1", "db")] {
//! #     let (labels, containers) = (json!({"app": app}), json!([{"name": "main", "image": "web:1"}]));
//! #     server.put("pods", json!({"metadata": {"namespace": "shop", "name": name, "labels": labels}, "spec": {"nodeName": node, "containers": containers}}))?;
//! # }
//! # let factory = SharedInformerFactory::new(server.client());
//! let pods = factory.informer::<Pod>();
//! let by_node = pods.add_index("node", |pod| pod.spec.as_ref()?.node_name.clone())?;
//! factory.start();
//! factory.synced().await?;
//!
//! let lister = pods.lister(); // cheap to clone
//! assert!(lister.namespace("shop").get("db").is_some());
//! assert_eq!(lister.require(&"shop/nothing".parse()?).unwrap_err().to_string(), "shop/nothing not found in the cache of pods");
//! assert_eq!(lister.select("app=web".parse()?).len(), 2);
//! assert_eq!(by_node.get("n1").len(), 2);
//!
//! // Indexes can be added to a running informer, and combined in one lookup.
//! let by_app = pods.add_index("app", index::label("app"))?;
//! assert_eq!(lister.by_indexes([by_node.lookup("n1"), by_app.lookup("web")])?.len(), 1);
//! # factory.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Handlers and streams
//!
//! A handler receives, for each object, an add, then updates with the old and the new state, then a delete, in the order in which the server made these changes. A handler that joins
//! late first receives an add for each object in the cache. Each handler has its own buffer and its own task, so a slow or panicking handler
//! does not delay others. There are three ways to receive events:
//!
//! | way | use it for |
//! | --- | --- |
//! | [`subscribe().on_add(…).register()`](Subscribe#callbacks) | a closure for each type of event, synchronous or `async`; or one for all events ([`on_event`](Subscribe::on_event)), with state of its own that needs no lock |
//! | [`subscribe().handler(…)`](EventHandler) | a type of your own that implements the callbacks |
//! | [`subscribe().stream()`](EventStream) | a loop of your own: `while let Some(event) = events.next().await` |
//!
//! ```
//! # use informant::SharedInformerFactory;
//! # use informant_apiserver::ApiServer;
//! # use k8s_openapi::api::core::v1::ConfigMap;
//! # use serde_json::json;
//! use informant::{Deleted, Event};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = ApiServer::new();
//! # server.put("configmaps", json!({"metadata": {"namespace": "shop", "name": "hours"}}))?;
//! # let factory = SharedInformerFactory::new(server.client());
//! # let configs = factory.informer::<ConfigMap>();
//! # factory.start();
//! # factory.synced().await?;
//! let mut events = configs
//!     .subscribe()
//!     .named("opening hours") // the name in logs and metrics
//!     .filter(|config| config.key().name() == "hours") // an object that leaves the filter is delivered as deleted
//!     .coalesce_above(1000) // combine pending events of one object when more than 1,000 wait
//!     .stream()?;
//!
//! assert!(matches!(events.next().await, Some(Event::Added { .. })));
//! assert!(matches!(events.next().await, Some(Event::Synced)));
//! server.delete("configmaps", "shop/hours")?;
//! match events.next().await {
//!     Some(Event::Deleted(Deleted::Observed(config))) => println!("- {}", config.key()),
//!     // The watch was down when the object was deleted; a relist found that it is gone.
//!     Some(Event::Deleted(Deleted::Missed { last_known })) => println!("- {}, some time ago", last_known.key()),
//!     other => panic!("{other:?}"),
//! }
//! # factory.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! A program that builds something from all objects can receive [whole batches](Subscribe::on_batch) of events. If that something is a map, let the library
//! keep it: see [`derived`].
//!
//! # Object types
//!
//! Nearly all CPU time and memory of an informer go into decoding and holding objects. So you choose the Rust type that objects are held in:
//!
//! | request | the cache holds | decoded when the object arrives |
//! | --- | --- | --- |
//! | `informer::<Pod>()` | `Pod` | everything |
//! | `informer::<Lazy<Pod>>()` | compact JSON, a fifth of the memory of a `Pod` | nothing; [`get`](Lazy::get) decodes on demand |
//! | `informer::<PodNode>()`, a [projection] of your own | the fields of your struct | those fields |
//! | `informer::<PartialObjectMeta<Pod>>()` | metadata; the server sends nothing else | the metadata |
//!
//! The guide [object types](guide::object_types) helps to choose, with figures. With the cargo feature `packing`, a factory can
//! have a memory budget: when it is used up, lazy objects are compressed against each other.
//!
//! ```
//! # use informant::SharedInformerFactory;
//! # use informant_apiserver::ApiServer;
//! # use k8s_openapi::api::core::v1::Pod;
//! # use serde_json::json;
//! use informant::{Lazy, projection};
//! use serde::Deserialize;
//!
//! /// The one field that this program reads.
//! #[derive(Deserialize)]
//! struct PodNode { spec: Spec }
//!
//! #[derive(Deserialize)]
//! #[serde(rename_all = "camelCase")]
//! struct Spec { node_name: Option<String> }
//!
//! projection!(PodNode of Pod);
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = ApiServer::new();
//! # let containers = json!([{"name": "main", "image": "web:1"}]);
//! # server.put("pods", json!({"metadata": {"namespace": "shop", "name": "web"}, "spec": {"nodeName": "n1", "containers": containers}}))?;
//! # let client = server.client();
//! let factory = SharedInformerFactory::builder(client)
//!     // Removes these fields from every object before it is decoded. `metadata.managedFields` is always removed.
//!     .cut(["status".parse()?, "spec.containers.env".parse()?])
//!     .build();
//! let pods = factory.informer::<Lazy<Pod>>();
//! let by_node = pods.add_index("node", |pod| pod.peek::<PodNode>().ok()?.spec.node_name)?; // decodes one field
//! factory.start();
//! factory.synced().await?;
//!
//! let pod = &by_node.get("n1")[0];
//! assert_eq!(pod.key().as_str(), "shop/web"); // decodes nothing
//! assert_eq!(pod.get()?.spec.as_ref().unwrap().containers.len(), 1); // decodes the pod
//! # factory.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Scopes, views and dynamic kinds
//!
//! A [request](SharedInformerFactory::request) restricts an informer to a namespace, to labels or to fields. A [`View`] reads and follows several
//! namespaces or several clusters as one; each member has its own informer.
//!
//! ```
//! # use informant::SharedInformerFactory;
//! # use informant_apiserver::ApiServer;
//! # use k8s_openapi::api::core::v1::{ConfigMap, Pod};
//! # use serde_json::json;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = ApiServer::new();
//! # for namespace in ["shop", "bank", "home"] {
//! #     server.put("configmaps", json!({"metadata": {"namespace": namespace, "name": "hours"}}))?;
//! # }
//! # let factory = SharedInformerFactory::new(server.client());
//! let mine = factory.request::<Pod>().with_fields("spec.nodeName=node-1").with_labels("app!=batch").informer()?;
//! let configs = factory.request::<ConfigMap>().in_namespaces(["shop", "bank"]).view()?;
//! factory.start();
//! factory.synced().await?;
//!
//! assert_eq!(configs.len(), 2);
//! assert!(configs.get(&"bank/hours".parse()?).is_some());
//! # factory.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Kinds that are known only at run time are requested [by resource](SharedInformerFactory::dynamic) or found [by discovery](SharedInformerFactory::discover).
//!
//! # Reading your own writes
//!
//! A cache lags behind the server by a few milliseconds. After a write, a program can [wait](SharedInformer::wait_for_write) until the cache shows it:
//!
//! ```
//! # use informant::SharedInformerFactory;
//! # use informant_apiserver::ApiServer;
//! # use k8s_openapi::api::core::v1::ConfigMap;
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = ApiServer::new();
//! # let client = server.client();
//! # let factory = SharedInformerFactory::new(client.clone());
//! # let configs = factory.informer::<ConfigMap>();
//! # factory.start();
//! # let mut config = ConfigMap::default();
//! # config.metadata.name = Some("hours".into());
//! let created = kube::Api::default_namespaced(client).create(&Default::default(), &config).await?;
//!
//! let cached = configs.wait_for_write(&created, Duration::from_secs(10)).await?;
//! assert_eq!(cached.unwrap().metadata.uid, created.metadata.uid);
//! # factory.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Failures
//!
//! An informer retries failed requests, with growing delays, and resumes its watch where it ended. After an outage it checks that the server's data was
//! not reset meanwhile, as it is when a backup is restored; if it was, the informer lists everything again. (Operators can force every client to list again
//! after a restore with `etcdutl snapshot restore --bump-revision 1000000000 --mark-compacted`.) If a watch delivers nothing for 65 seconds,
//! the informer asks the server for its current resource version.
//!
//! [`problems`](SharedInformerFactory::problems) names each informer whose cache may be out of date, the cause, and what you can do about it; the
//! errors of [`synced_within`](SharedInformerFactory::synced_within) do the same. With [`fail_fast`](factory::FactoryBuilder::fail_fast),
//! [`synced`](SharedInformerFactory::synced) fails at once on errors that retrying cannot fix:
//!
//! ```
//! # use informant::SharedInformerFactory;
//! # use k8s_openapi::api::core::v1::Secret;
//! use informant_apiserver::{ApiServer, Fault, On};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = ApiServer::new();
//! # let client = server.client();
//! server.inject(On::any().of("secrets"), Fault::forbidden());
//!
//! let factory = SharedInformerFactory::builder(client).fail_fast().build();
//! factory.informer::<Secret>();
//! factory.start();
//! let error = factory.synced().await.unwrap_err().to_string();
//! assert!(error.contains("informer secrets cannot sync: listing secrets failed: "));
//! assert!(error.ends_with("(grant the client's user `list` and `watch` on it)"));
//! # factory.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! An object that cannot be decoded is [quarantined](SharedInformer::quarantined) and does not affect others. [`status`](SharedInformer::status) shows the
//! state of an informer and of its handlers, [`metrics`] go to the recorder of the `metrics` crate that your program installs, and logs are `tracing` events that name the informer, in a span or a field. All errors of the
//! crate convert into [`Error`]; its [`report()`](Error::report) prints an error with its causes and what to do about it.
//!
//! # Testing
//!
//! The crate `informant-apiserver` is an API server inside your test: with any kind, injected faults and a clock that can be paused. With the
//! feature `testing`, a `testing::ScriptedSource` replaces the server in tests that supply every event themselves. See the guide
//! [testing](guide::testing).
//!
//! # How it works
//!
//! An informer is a pipeline, with the parts and names of client-go's informers:
//!
//! ```text
//! API server ──▶ Reflector ──▶ DeltaFifo ──▶ apply loop ──▶ Indexer ◀── Lister, Index (your reads)
//!                                                │
//!                                                ▼
//!                                         SharedProcessor ──▶ Listener ──▶ your handler
//!                                                         ──▶ Listener ──▶ your handler
//! ```
//!
//! - The [reflector](pipeline::Reflector) lists and watches one kind, and pushes every change into a queue. After a failure it resumes the watch, or
//!   lists again.
//! - The [`DeltaFifo`](pipeline::DeltaFifo) is that queue. It holds the changes of each object together until they are taken.
//! - The apply loop takes all waiting changes, writes them into the [indexer](pipeline::Indexer), which is the cache, and passes the resulting events on.
//! - The shared processor hands each event to one listener for each handler. The listener buffers events and calls its handler, in a task or thread of
//!   its own.
//!
//! `ARCHITECTURE.md` in the repository has the whole picture, with tasks and locks, and follows one event through it.
//!
//! # Modules
//!
//! The names at the root are those that most programs use; [`prelude`] imports the most frequent ones.
//!
//! | module | contents |
//! | --- | --- |
//! | [`factory`] | settings, requests and status of informers |
//! | [`derived`] | maps that are derived from the objects of informers, such as endpoints by address |
//! | [`index`] | ready-made index functions |
//! | [`error`] | an error type for each thing that a program can do about it, one that all errors convert into, and errors printed with their causes |
//! | [`guide`] | longer pages about one subject each |
//! | [`metrics`] | names and descriptions of the metrics |
//! | [`pipeline`] | the parts of an informer (sources, reflector, queue, indexer, and the low-level `ProcessLoop`), for programs that build a pipeline of their own |
//! | `testing` (feature `testing`) | a source for tests, in place of a server |
//! | `kube_runtime` (feature `kube-runtime`) | informers as input of kube-runtime's controllers |
//!
//! # Kubernetes versions
//!
//! The crate works with every Kubernetes version that `k8s-openapi` supports and selects none: enable one of that crate's version
//! features, such as `latest`, in your own `Cargo.toml`.

// docs.rs labels each item with the feature that it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod delta;
pub mod derived;
pub mod error;
mod event;
pub mod factory;
pub mod guide;
pub mod index;
mod informer;
mod key;
mod known;
#[cfg(feature = "kube-runtime")]
pub mod kube_runtime;
mod listwatch;
pub mod metrics;
mod object;
mod panics;
pub mod pipeline;
pub mod prelude;
mod process_loop;
mod queue;
#[cfg(test)]
#[path = "../tests/it/random.rs"]
mod random;
mod slots;
mod store;
mod subscribers;
#[cfg(feature = "testing")]
pub mod testing;
mod version;
mod view;

pub use error::{Error, Result};
pub use event::{Deleted, Event, Origin};
pub use factory::SharedInformerFactory;
pub use informer::{HasCallbacks, InformerBuilder, SharedInformer, Subscribe};
pub use key::Key;
pub use kube;
pub use listwatch::Quarantined;
pub use object::{Cached, Decoded, FieldPath, Identity, Lazy, LazyJson, Object, OfKind, RawObject, Uid};
pub use store::{Index, LabelSelector, Lister, NamespaceLister};
pub use subscribers::{EventHandler, EventStream, Registration};
pub use version::ResourceVersion;
pub use view::{Address, ClusterKey, View};

/// The examples of the README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

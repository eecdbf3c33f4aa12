//! Shared informers for Rust: one indexed, always-current local copy of a Kubernetes kind, for any number of readers.
//!
//! A program that reads pods should not ask the API server for them time and again. It lists them once, follows their changes,
//! and reads a local copy. This crate keeps such copies, on top of [`kube`]'s client, and shares them: one list, one watch and
//! one cache for each kind, whoever reads or follows it. It is what client-go's informers are to programs in Go.
//!
//! This page is a tour. Every example on it runs against the embedded API server of `informant-apiserver`, without a cluster; with
//! one, the client is `kube::Client::try_default().await?`. If you know the thing from elsewhere, begin with
//! [coming from client-go](guide::coming_from_client_go) or [coming from kube-runtime](guide::coming_from_kube_runtime).
//!
//! # The first informer
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
//! let configs = factory.informer::<ConfigMap>(); // the same one for everyone who asks
//! let printer = configs
//!     .subscribe()
//!     .on_add(|config, origin| println!("+ {} ({origin:?})", config.key()))
//!     .on_update(|old, new| println!("~ {} {} → {}", new.key(), old.version(), new.version()))
//!     .on_delete(|config| println!("- {}", config.key()))
//!     .register()?;
//!
//! factory.start(); // nothing was asked of the server before this
//! factory.synced().await?; // the first list is in the cache
//! printer.synced().await?; // and the handler was told of all of it
//!
//! let hours = configs.lister().require(&"shop/hours".parse()?)?;
//! assert_eq!(hours.data.as_ref().unwrap()["open"], "9-17");
//!
//! factory.stop().await?; // waits for running callbacks; nothing is left
//! # Ok(())
//! # }
//! ```
//!
//! A [`SharedInformerFactory`] keeps one [`SharedInformer`] for each kind, scope and form. Informers can be asked for at any time;
//! [`start`](SharedInformerFactory::start) starts those that do not run yet. One that is not of a factory is made with
//! [`SharedInformer::new`], of any [source](listwatch::ListWatch), also one that is not Kubernetes.
//!
//! # Reading
//!
//! A [`Lister`](store::Lister) reads the cache: by key, by namespace, by labels, by [indexes](SharedInformer::add_index) of your own. Every
//! answer is of one consistent state, never half of a new list; objects are shared, not copied.
//!
//! ```
//! # use informant::SharedInformerFactory;
//! # use informant_apiserver::ApiServer;
//! # use kube::core::Expression;
//! # use serde_json::json;
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
//! let lister = pods.lister(); // cheap to clone, for anybody who wants to look
//! assert!(lister.namespace("shop").get("db").is_some());
//! assert_eq!(lister.require(&"shop/nothing".parse()?).unwrap_err().to_string(), "shop/nothing not found in the cache of pods");
//! assert_eq!(lister.select(&Expression::Equal("app".into(), "web".into()).into()).len(), 2);
//! assert_eq!(by_node.get("n1").len(), 2);
//!
//! // Indexes can be added while it runs, and asked together.
//! let by_app = pods.add_index("app", |pod| pod.metadata.labels.as_ref()?.get("app").cloned())?;
//! assert_eq!(lister.by_indexes([by_node.is("n1"), by_app.is("web")])?.len(), 1);
//! # factory.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Following
//!
//! [Handlers](EventHandler) and [streams](EventStream) hear of everything that the cache sees, once and in order: for each object an add,
//! then updates with the old state beside the new one, then a delete. Whoever joins late hears first of what is there then. Each has a buffer
//! and a task of its own, so one that is slow, or panics, keeps nobody waiting.
//!
//! ```
//! # use informant::SharedInformerFactory;
//! # use informant_apiserver::ApiServer;
//! # use k8s_openapi::api::core::v1::ConfigMap;
//! # use serde_json::json;
//! use futures_util::StreamExt;
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
//!     .named("opening hours") // in logs and figures
//!     .filter(|config| config.key().name() == "hours") // what leaves the filter is a delete
//!     .coalesce_above(1000) // however slow it is, it costs no more than there are objects
//!     .stream()?;
//!
//! assert!(matches!(events.next().await, Some(Event::Added { .. })));
//! assert!(matches!(events.next().await, Some(Event::Synced)));
//! server.delete("configmaps", "shop/hours")?;
//! match events.next().await {
//!     Some(Event::Deleted(Deleted::Observed(config))) => println!("- {}", config.key()),
//!     // The watch was down; a new list did not have it any more.
//!     Some(Event::Deleted(Deleted::Missed { last_known })) => println!("- {}, some time ago", last_known.key()),
//!     other => panic!("{other:?}"),
//! }
//! # factory.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Objects that nobody reads are not decoded
//!
//! Decoding and holding objects is nearly all that an informer costs. So their form is up to you, and part of what you ask for:
//!
//! | ask for | the cache has | decoded on the way in |
//! | --- | --- | --- |
//! | `informer::<Pod>()` | pods | everything |
//! | `informer::<Lazy<Pod>>()` | their compact JSON, a sixth of that | nothing, until somebody [asks](Lazy::get) |
//! | `informer::<PodNode>()`, a [projection] of your own | the fields that it names | those fields |
//! | `informer::<PartialObjectMeta<Pod>>()` | the metadata; the server sends nothing else | all of that |
//!
//! ```
//! # use informant::SharedInformerFactory;
//! # use informant_apiserver::ApiServer;
//! # use k8s_openapi::api::core::v1::Pod;
//! # use serde_json::json;
//! use informant::{Lazy, projection};
//! use serde::Deserialize;
//!
//! /// Just what is wanted. Who it is stands beside it.
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
//!     // Cut from every object before anything is decoded, as `metadata.managedFields` always is:
//!     .cut(["status".parse()?, "spec.containers.env".parse()?])
//!     .build();
//! let pods = factory.informer::<Lazy<Pod>>();
//! // An index can peek at a field, and leave the rest as it is.
//! let by_node = pods.add_index("node", |pod| pod.peek::<PodNode>().ok()?.spec.node_name)?;
//! factory.start();
//! factory.synced().await?;
//!
//! let pod = &by_node.get("n1")[0];
//! assert_eq!(pod.key().as_str(), "shop/web"); // nothing is decoded for this
//! assert_eq!(pod.get()?.spec.as_ref().unwrap().containers.len(), 1); // but for this
//! // If nothing else were ever read of pods, `factory.informer::<PodNode>()` would be smaller still.
//! # factory.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Some of the objects
//!
//! A [request](SharedInformerFactory::request) says which: of a namespace, with labels, with fields. Several namespaces, or several clusters,
//! are several informers behind one [`View`], which is read, followed and waited for much as an informer is.
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
//! Kinds that the program does not know are asked for [by resource](SharedInformerFactory::dynamic) or found
//! [by discovery](SharedInformerFactory::discover).
//!
//! # Reading your own writes
//!
//! A cache lags a little. After a write, a program can [wait](SharedInformer::wait_for_write) until the cache shows the written object:
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
//! # When something is wrong
//!
//! Informers go on trying, with growing delays, and resume where they were. After an outage they check that the server still has
//! the history that they followed: one that was restored from a backup may not, and then they list everything. (Operators can make
//! that certain for every client with `etcdutl snapshot restore --bump-revision 1000000000 --mark-compacted`.) A watch that is silent
//! for longer than a minute is examined. What is wrong meanwhile is not a secret:
//! [`problems`](SharedInformerFactory::problems) says which informer lags, why, and what to do about it, and so does the error of
//! [`synced_within`](SharedInformerFactory::synced_within). A factory that [fails fast](factory::FactoryBuilder::fail_fast) has
//! [`synced`](SharedInformerFactory::synced) err as soon as waiting will not help.
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
//! server.inject(On::any().of("secrets"), Fault::status(403));
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
//! One object that cannot be read is [set aside](SharedInformer::quarantined), and nothing else stops. [`status`](SharedInformer::status) has
//! everything at one glance, [`metrics`] are recorded for whichever recorder you install, and `tracing` has the story.
//!
//! # Testing
//!
//! The embedded server of these examples is a crate of its own, `informant-apiserver`: real HTTP or none, any kind, injected faults, a
//! clock that can be paused. A [`ScriptedSource`](listwatch::ScriptedSource) says word for word what an informer is told.
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
//! | view | several informers as one | [`View`] |
//! | factory | one informer for each kind, scope and form | [`SharedInformerFactory`] |
//!
//! # Kubernetes versions
//!
//! The crate works with every Kubernetes version that `k8s-openapi` knows, and chooses none: enable one of that crate's
//! version features (such as `latest`) in your own `Cargo.toml`.

pub mod delta;
mod event;
pub mod factory;
pub mod guide;
pub mod informer;
mod key;
mod known;
#[cfg(feature = "kube-runtime")]
pub mod kube_runtime;
pub mod listwatch;
pub mod metrics;
pub mod object;
mod panics;
pub mod prelude;
pub mod queue;
#[cfg(test)]
#[path = "../tests/it/random.rs"]
mod random;
mod slots;
pub mod store;
pub mod subscribers;
mod version;
pub mod view;

pub use event::{Deleted, Event, Origin};
pub use factory::SharedInformerFactory;
pub use informer::{InformerBuilder, SharedInformer, SyncError};
pub use key::Key;
pub use kube;
pub use listwatch::{KubeSource, ListWatch};
pub use object::{Cached, Lazy, Object, Uid};
pub use store::{Index, Lister, Snapshot};
pub use subscribers::{EventHandler, EventStream, Handler, Registration};
pub use version::ResourceVersion;
pub use view::{ClusterKey, View};

/// The examples of the README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

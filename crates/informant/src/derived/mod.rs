//! Maps that are derived from the objects of informers and kept up to date: the ready endpoints of a service by address, the free resources of each
//! node, the pod of each IP address.
//!
//! ```
//! use informant::{SharedInformerFactory, derived::DerivedMap};
//! use informant_apiserver::ApiServer;
//! use k8s_openapi::api::core::v1::Pod;
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = ApiServer::new();
//! # let pod = |name, ip| json!({"metadata": {"namespace": "shop", "name": name}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}, "status": {"podIP": ip}});
//! # server.put("pods", pod("web-1", "10.0.0.7"))?;
//! # let client = server.client();
//! let factory = SharedInformerFactory::new(client);
//! let pods = factory.informer::<Pod>();
//! let names: DerivedMap<String, String> = pods
//!     .derive(|pod| Some((pod.status.as_ref()?.pod_ip.clone()?, pod.key().to_string())))
//!     .named("pods by address")
//!     .register()?;
//!
//! factory.start();
//! names.synced().await?; // before this, the map is empty
//! assert_eq!(names.get("10.0.0.7").as_deref().map(String::as_str), Some("shop/web-1"));
//! # factory.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! The function returns nothing, one or several pairs of a key and a value for an object: an `Option`, an array, a `Vec` or any other iterator. The
//! map promises:
//!
//! - **D1** When the informers are synced and nothing changes, the entries are those that the function returns for all cached objects. (If it reads
//!   other caches, name them all with [`with`](Derive::with): when any other cache changes, nothing is derived again.)
//! - **D2** No removal is lost, whatever happened to the watch.
//! - **D3** A value that did not change, by `PartialEq`, causes no change and no wake-up.
//! - **D4** All pairs of a batch of events change together: readers see neither half of an object nor half of a relist. (A
//!   function that reads other caches reads their newest states: the entries of an object that is derived may be ahead of those of another one.)
//!
//! The guide [derived maps](crate::guide::derived_maps) shows joins, several objects with one key, and how to follow the changes.
//!
//! The function runs in a task, one call at a time, and must not block. It may read the map itself; a function that holds its
//! map keeps it from being dropped, so give it a `Weak`, or call [`stop`](DerivedMap::stop). If it returns a key twice, the last value counts. If
//! it panics, the object has no entries until it changes again, and [`problems`](DerivedMap::problems) names it. `Hash`, `Eq`, `Clone` and `Drop` of
//! keys and values may run under the map's locks, so they must not read the map; these and `PartialEq` must not panic.

mod builder; // `Derive`: function and settings of a map
mod changes; // streams of changes
mod engine; // calls the function for what has changed
mod entries; // which objects hold which keys
mod lingering; // entries that were removed a short time ago
mod map; // `DerivedMap`, the handle
mod published; // the entries that readers see, and `DerivedSnapshot`
mod state; // what the derivation and the readers share
mod watch; // wake-ups

pub use self::{
    builder::Derive,
    changes::{Change, ChangeStream},
    map::DerivedMap,
    published::DerivedSnapshot,
    watch::ChangeWatch,
};

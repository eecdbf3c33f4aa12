//! Informers as the input of kube-runtime's controllers. Needs the feature `kube-runtime`.
//!
//! kube-runtime's `Controller::new` lists and watches a kind for each controller, and keeps a cache for each. With this module, any number
//! of its controllers share one informer: one list, one watch and one copy of each object.
//!
//! ```
//! use std::{convert::Infallible, sync::Arc};
//! use futures_util::StreamExt;
//! use informant::{SharedInformerFactory, kube_runtime::Shared};
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::ResourceExt;
//! use kube::runtime::{Controller, controller::Action};
//!
//! async fn reconcile(config: Arc<Shared<ConfigMap>>, name: Arc<&'static str>) -> Result<Action, Infallible> {
//!     println!("{name}: {} has {:?}", config.name_any(), config.data);
//!     Ok(Action::await_change())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = informant_apiserver::ApiServer::new();
//! # server.put("configmaps", serde_json::json!({"metadata": {"namespace": "shop", "name": "hours"}}))?;
//! # let client = server.client();
//! let factory = SharedInformerFactory::new(client);
//! let configs = factory.informer::<ConfigMap>();
//! let mut controllers = Vec::new();
//! for name in ["one", "two"] {
//!     let (store, stream) = configs.subscribe().watcher()?.for_controller();
//!     let controller = Controller::for_stream(stream, store).run(reconcile, |_, error, _| match *error {}, Arc::new(name));
//!     controllers.push(tokio::spawn(controller.for_each(|_| std::future::ready(()))));
//! }
//! factory.start();
//! factory.synced().await?;
//! factory.stop().await?; // ends the streams, so the controllers finish what they are doing and end
//! for controller in controllers {
//!     controller.await?;
//! }
//! # assert_eq!(server.requests_for("configmaps").len(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! [`Subscribe::watcher`](crate::informer::Subscribe::watcher) takes the place of `kube::runtime::watcher(api, config)`. It returns a
//! [`Watcher`], a stream of the same events, and kube-runtime's own adapters do the rest:
//!
//! | kube-runtime | with an informer | features of `kube` |
//! | --- | --- | --- |
//! | `Controller::new(api, config)` | `let (store, stream) = pods.subscribe().watcher()?.for_controller();` `Controller::for_stream(stream, store)` | `unstable-runtime` |
//! | `.owns(api, config)` | `.owns_stream(children.subscribe().watcher()?.touched_objects())` | `unstable-runtime` |
//! | `.watches(api, config, mapper)` | `.watches_stream(others.subscribe().watcher()?.touched_objects(), mapper)` | `unstable-runtime` |
//! | `applier(…, store, queue, config)` | the same, with a queue made by `trigger_self`, `trigger_owners` and `trigger_with` | `runtime` |
//! | `watcher(api, config).reflect(writer)` | `pods.subscribe().watcher()?.reflect(writer)` | `runtime` |
//!
//! kube-runtime calls the first three unstable: their signatures may change within a major version of `kube`. `applier`, the function
//! that `Controller` is built on, is stable; it polls all reconcilers in one task, whereas `Controller` starts a task for each.
//!
//! # What it costs
//!
//! A controller reconciles what it finds in its store, so it needs a store, and each store allocates an `Arc` of its own for each object. [`Shared`]
//! keeps them small: each entry has a pointer to the object in the informer's cache, and the reference that kube-runtime looks it up by
//! (name, namespace, uid and version as four strings). That is about 320 bytes for each object and controller, however large the objects
//! are. A store of plain `Pod`s, which [`Watcher::map_objects`] can fill, has a copy of each: 22 kB for a pod of 5.8 kB JSON, and two
//! deep clones for each event.
//!
//! Use [`Lister`](crate::Lister)s and [indexes](crate::SharedInformer::add_index) for reading in reconcilers: they are shared by all controllers.
//!
//! # What to know
//!
//! - A controller starts to reconcile when the initial list is complete. To wait for that in your own code, use the informer's
//!   [`synced`](crate::SharedInformer::synced): kube-runtime 5.0 wakes only one of the tasks that await `Store::wait_until_ready`, and a
//!   running controller is such a task.
//! - The informer retries and reports errors; the streams have none. A controller's `trigger_backoff` has no effect on them.
//! - Objects must keep their `metadata.name`: kube-runtime panics on an object without one. Do not remove it with a transform or a cut.
//! - The events of a stream that is not polled wait in the informer. `Controller` and `applier` poll all the time;
//!   [`coalesce_above`](crate::informer::Subscribe::coalesce_above) bounds the backlog of other consumers.
//! - [`Key`](crate::Key) and [`Cached`](crate::Cached) convert to kube-runtime's `ObjectRef` with `ObjectRef::from`, and it converts to a `Key`.

mod object_ref;
mod shared;
mod watcher;

pub use self::{shared::Shared, watcher::Watcher};

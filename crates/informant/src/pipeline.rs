//! The parts of an informer, for programs that build a pipeline of their own.
//!
//! Most programs need nothing of this module: a [`SharedInformer`](crate::SharedInformer) has all these parts inside. Use them to read from a
//! [source](ListWatch) that is not Kubernetes, to keep the objects in a store of your own, or to process changes without a cache.
//!
//! ```text
//! source ──▶ Reflector ──▶ DeltaFifo ──▶ your loop, or ProcessLoop ──▶ Indexer, or your store
//! ```
//!
//! | part | what it does | types around it |
//! | --- | --- | --- |
//! | [`ListWatch`] | a source: lists and watches objects of one kind. [`KubeSource`] is the Kubernetes API | requests: [`ListRequest`], [`WatchRequest`], [`LookupRequest`]; responses: [`ListStream`], [`WatchStream`], which deliver an [`Item`] for each object |
//! | [`Reflector`] | lists and watches a source, recovers from failures, and passes every change on | [`ReflectorBuilder`], [`Backoff`], [`ReflectorHandle`]; it writes to a [`Destination`] |
//! | [`DeltaFifo`] | the queue, which holds the changes of each object together until they are taken | in: [`Change`], [`Delta`], [`Relist`]; out: a [`Batch`] of [`ObjectChanges`]; [`KnownObjects`] shows it what your store has |
//! | [`ProcessLoop`] | a reflector, a queue and a function of yours, which is called with each queued change | [`ProcessError`] |
//! | [`Indexer`] | writes the cache, which a [`Lister`](crate::Lister) reads | [`WriteBatch`], [`Applied`] |
//! | [`Scanner`] | reads key, uid and version from the JSON of an object, which is then decoded | [`RawObject`](crate::RawObject), [`Provenance`] |
//! | [`ListCutter`], [`LineCutter`] | cut the body of a list or of a watch into items while it arrives | [`ListPart`], [`CutPart`], [`WatchEvent`], [`FrameError`] |
//!
//! The errors of sources are in [`error`](crate::error), the status of a reflector is in [`factory`](crate::factory).
//!
//! # A reflector and a queue
//!
//! ```
//! use informant::Lazy;
//! use informant::pipeline::{DeltaFifo, KubeSource, Reflector};
//! use informant_apiserver::ApiServer;
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // An API server for examples and tests; with a cluster, this is `kube::Client::try_default().await?`.
//! let server = ApiServer::new();
//! server.put("configmaps", json!({"metadata": {"namespace": "shop", "name": "opening-hours"}}))?;
//! let client = server.client();
//!
//! let queue = DeltaFifo::<Lazy<ConfigMap>>::new();
//! let source = KubeSource::of_kind::<ConfigMap>(client).in_namespace("shop")?;
//! let reflector = Reflector::builder(source).build(queue.clone());
//!
//! // The reflector runs until the channel closes; no task or request is left then.
//! let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
//! let running = tokio::spawn(reflector.run(async { stopped.await.unwrap_or_default() }));
//!
//! let batch = queue.drain().await?;
//! assert_eq!(batch.items()[0].key().as_str(), "shop/opening-hours");
//! batch.acknowledge();
//!
//! drop(stop);
//! running.await?;
//! # Ok(())
//! # }
//! ```
//!
//! The example `pipeline` in the repository joins all parts; `custom_source` implements [`ListWatch`].

pub use crate::{
    delta::{Change, Delta, Deltas, Relist},
    known::KnownObjects,
    listwatch::{
        Backoff, Destination, Item, KubeSource, ListPiece, ListRequest, ListStream, ListWatch, LookupAnswer,
        LookupRequest, Reflector, ReflectorBuilder, ReflectorHandle, Served, SourceEvent, WatchPiece, WatchRequest,
        WatchStream,
        frames::{
            CutPart, EventType, FrameError, FramePart, LineCutter, ListCutter, ListHead, ListMetadata, ListPart,
            WatchEvent,
        },
    },
    object::{Provenance, Scanner},
    process_loop::{ProcessError, ProcessLoop},
    queue::{Batch, Closed, DeltaFifo, DeltaFifoBuilder, ItemOutcome, ObjectChanges},
    store::{Applied, Indexer, Replacement, WriteBatch},
};

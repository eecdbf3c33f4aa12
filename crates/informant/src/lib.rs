//! Shared informers for Rust: one indexed, always-current local copy of a Kubernetes kind, for any number of readers.
//!
//! This crate is being built from the inside out. What is here is the foundation that informers stand on:
//!
//! | stage | what | where |
//! | --- | --- | --- |
//! | objects | bytes become objects: read who it is, decode as much as wanted, or nothing at all | [`Scanner`], [`Lazy`], [`Object`] |
//! | listwatch | lists and watches a source, such as the Kubernetes API, and keeps a queue in step with it | [`listwatch::Reflector`], [`listwatch::KubeSource`] |
//! | queue | changes wait until they are processed; what is in flight still counts | [`queue::DeltaFifo`], [`queue::InOrderFifo`] |
//! | store | the cache, with indexes that can be added at any time | [`store::Indexer`], [`store::Lister`], [`store::Index`] |
//!
//! The informers that join all of it come next.
//!
//! # From bytes to lookups
//!
//! ```
//! use std::sync::Arc;
//! use informant::{Cached, Delta, Lazy, Scanner};
//! use informant::queue::DeltaFifo;
//! use informant::store::{Indexer, WriteBatch};
//! use k8s_openapi::api::core::v1::Pod;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // The cache, and an index over what the pods' labels say.
//! let cache = Indexer::<Lazy<Pod>>::new();
//! let by_app = cache.add_index("app", |pod: &Cached<Lazy<Pod>>| {
//!     pod.labels().get("app").cloned()
//! })?;
//!
//! // A change arrives as bytes, and waits.
//! let queue = DeltaFifo::builder().known_objects(Arc::new(cache.lister())).build();
//! let json = br#"{"metadata":{"namespace":"shop","name":"web","resourceVersion":"7","labels":{"app":"web"}}}"#;
//! queue.add(Scanner::of_kind::<Pod>().scan(json)?.decode()?);
//!
//! // Whoever processes it takes a receipt, and answers it when the cache has it.
//! let receipt = queue.drain().await?;
//! let mut batch = WriteBatch::new();
//! for taken in receipt.items() {
//!     match taken.deltas().newest() {
//!         Delta::Deleted(deleted) => batch.remove(deleted.key().clone()),
//!         Delta::Added(pod) | Delta::Updated(pod) | Delta::Replaced(pod) | Delta::Sync(pod) => batch.upsert(pod.clone()),
//!     }
//! }
//! cache.apply(batch);
//! receipt.done();
//!
//! assert_eq!(by_app.get("web")[0].key().as_str(), "shop/web");
//! # Ok(())
//! # }
//! ```
//!
//! # Kubernetes versions
//!
//! The crate works with every Kubernetes version that `k8s-openapi` knows, and chooses none: enable one of that crate's
//! version features (such as `latest`) in your own `Cargo.toml`.

mod delta;
mod event;
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

pub use delta::Change;
pub use delta::Delta;
pub use delta::Deltas;
pub use delta::DeltasError;
pub use delta::Relist;
pub use event::Deleted;
pub use event::Event;
pub use event::Origin;
pub use informer::SharedInformer;
pub use key::Key;
pub use key::ParseKeyError;
pub use known::KnownObjects;
pub use object::Cached;
pub use object::DecodeError;
pub use object::Decoded;
pub use object::Identity;
pub use object::Labelled;
pub use object::Lazy;
pub use object::Object;
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

/// The examples of the README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

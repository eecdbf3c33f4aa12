//! A source for tests, in place of a server. Needs the feature `testing`.
//!
//! A [`ScriptedSource`] delivers what the test writes down: [live](ScriptedSource::live), through a [`SourceHandle`], or as a script with the answer
//! to each [list](ScriptedList) and [watch](ScriptedWatch). Enable the feature for tests only, in your `Cargo.toml`:
//!
//! ```toml
//! [dev-dependencies]
//! informant = { version = "0.1", features = ["testing"] }
//! ```
//!
//! ```
//! use informant::{Event, SharedInformer, testing::ScriptedSource};
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use serde_json::json;
//!
//! // In a test: #[tokio::test(start_paused = true)]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> informant::Result<()> {
//! let (source, handle) = ScriptedSource::live();
//! let configs = SharedInformer::<ConfigMap>::new(source);
//! let mut events = configs.subscribe().stream()?;
//! configs.start();
//! assert!(matches!(events.next().await, Some(Event::Synced)));
//!
//! handle.added(json!({"metadata": {"namespace": "shop", "name": "hours"}}));
//! assert!(matches!(events.next().await, Some(Event::Added { .. })));
//! configs.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! To call a handler's method or an index function, no source is needed: [`Cached::of`](crate::Cached::of) makes an object for the call. To test a
//! program with an API server, use the crate `informant-apiserver`. The guide [testing](crate::guide::testing) shows all of this.

pub use crate::listwatch::{ScriptedAnswer, ScriptedList, ScriptedSource, ScriptedWatch, SourceHandle};

//! Typical code of a program for one kind: an informer, an index, a handler, a stream, and reads of the cache.
//!
//! `bench/functions-per-kind` compares the binaries of this crate that use one kind with those that use four.

use std::error::Error;

use futures_util::StreamExt;
use informant::{Cached, OfKind, SharedInformerFactory, View};
use kube::Client;

/// Any error.
pub type Failure = Box<dyn Error + Send + Sync>;

/// Uses an informer as a program would: an index, a handler, a stream, and each way to read the cache.
pub fn follow<O: OfKind>(factory: &SharedInformerFactory) -> Result<(), Failure> {
    let informer = factory.informer::<O>();
    informer.add_index("name", |object: &Cached<O>| Some(object.key().name().to_owned()))?;
    let handler = informer.subscribe().on_add(|object, _| assert!(!object.key().name().is_empty()));
    handler.on_delete(|object| assert!(!object.key().name().is_empty())).register()?;
    let stream = informer.subscribe().filter(|object| !object.key().name().is_empty()).stream()?;
    drop(stream.map(|event| event.key().cloned()).boxed());
    let lister = informer.lister();
    let found = [lister.list(), lister.namespace("shop").list(), lister.index("name")?.get("web")].concat();
    let view = View::from(informer);
    assert_eq!(found.len(), view.list().len() + lister.snapshot().len() + view.len());
    Ok(())
}

/// Starts the informers of a program, and waits until they are synced.
pub async fn run(follow: impl FnOnce(&SharedInformerFactory) -> Result<(), Failure>) -> Result<(), Failure> {
    let factory = SharedInformerFactory::new(Client::try_default().await?);
    follow(&factory)?;
    factory.start();
    factory.synced().await?;
    Ok(())
}

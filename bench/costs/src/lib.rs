//! An informer and the pods that it reads, in one thread and without a socket.
//!
//! `bench/gate` counts the instructions and the bytes that they cost: figures that do not depend on other load on the machine.
#![allow(clippy::unwrap_used, reason = "a benchmark may stop")]

#[path = "../../comparison/src/pods.rs"]
mod pods;
pub mod relists;

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use informant::{OfKind, ResourceVersion, SharedInformer, SharedInformerFactory};
use kube::{Client, client::Body};
use tokio::{
    runtime::Runtime,
    sync::mpsc::{self, UnboundedSender},
};

use self::pods::Pods;

/// The number of pods, and of their changes.
pub const PODS: usize = 4000;
const SHAPES: usize = 30;
/// As much as one read of a busy socket.
const CHUNK: usize = 64 << 10;

/// What the informer reads: a list, and a watch with a change of each pod.
fn bodies() -> [Vec<Bytes>; 2] {
    let pods = Pods::new(PODS, SHAPES);
    let list = format!(r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{PODS}"}},"items":["#);
    let (mut list, mut changes) = (list.into_bytes(), Vec::new());
    for number in 0..pods.len() {
        pods.write_item(number, 1 + number, &mut list);
        list.push(if number + 1 < PODS { b',' } else { b']' });
        changes.extend_from_slice(br#"{"type":"MODIFIED","object":"#);
        pods.write(number * 7919 % PODS, 1 + PODS + number, 1, &mut changes);
        changes.extend_from_slice(b"}\n");
    }
    list.push(b'}');
    [list, changes].map(|text| text.chunks(CHUNK).map(Bytes::copy_from_slice).collect())
}

/// A runtime, and an informer whose list and changes are ready to be read.
pub struct Stage<O> {
    /// A runtime of one thread.
    pub runtime: Runtime,
    /// The informer.
    pub pods: SharedInformer<O>,
    factory: SharedInformerFactory,
    changes: Vec<Bytes>,
    /// The body of the watch.
    watch: UnboundedSender<Bytes>,
}

impl<O: OfKind> Stage<O> {
    /// Makes the bodies that are read later; reads nothing yet.
    pub fn new(is_packed: bool) -> Self {
        let [list, changes] = bodies();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let entered = runtime.enter();
        let (watch, watched) = mpsc::unbounded_channel();
        let watched = Arc::new(Mutex::new(Some(watched)));
        let client = Client::new(
            tower::service_fn(move |request: Request<Body>| {
                let is_watch = request.uri().query().is_some_and(|query| query.contains("watch="));
                let chunks = match is_watch {
                    true => {
                        let mut watched = watched.lock().unwrap().take().expect("one watch");
                        stream::poll_fn(move |context| watched.poll_recv(context)).boxed()
                    }
                    false => stream::iter(list.clone()).boxed(),
                };
                let body = StreamBody::new(chunks.map(|chunk| Ok::<_, Infallible>(Frame::data(chunk))));
                std::future::ready(Ok::<_, Infallible>(Response::new(body)))
            }),
            "default",
        );
        let factory = SharedInformerFactory::builder(client).without_streaming();
        let factory = if is_packed { factory.memory_budget(0) } else { factory }.build();
        drop(entered);
        Self { runtime, pods: factory.informer(), factory, changes, watch }
    }

    /// Lists the pods and brings them into the cache.
    pub async fn list(&self) {
        self.factory.start();
        self.factory.synced().await.unwrap();
        assert_eq!(self.pods.lister().len(), PODS);
    }

    /// Brings all changes into the cache.
    pub async fn follow(&self) {
        self.changes.iter().for_each(|chunk| self.watch.send(chunk.clone()).unwrap());
        let last = ResourceVersion::from((2 * PODS).to_string().as_str());
        self.pods.caught_up_to(&last, Duration::from_secs(600)).await.unwrap();
    }
}

/// Runs the part whose instructions are counted: valgrind counts while this function runs.
#[inline(never)]
pub fn counted(runtime: &Runtime, work: Pin<&mut dyn Future<Output = ()>>) {
    runtime.block_on(work);
}

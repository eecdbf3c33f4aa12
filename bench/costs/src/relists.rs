//! An informer that lists again and again: when it has listed, its watch delivers some changes and expires.

use std::{
    convert::Infallible,
    sync::atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use informant::{Lazy, SharedInformer, SharedInformerFactory};
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, client::Body};
use tokio::runtime::Runtime;

use crate::pods::Pods;

/// What a server delivers to an informer that lists several times.
#[derive(Clone, Copy)]
pub struct Relists {
    /// The number of pods.
    pub pods: usize,
    /// The number of relists.
    pub relists: usize,
    /// The number of changes between two lists.
    pub changes: usize,
    /// Whether the versions of each relist are those of the first list, as after a restore of a backup; otherwise all pods have changed.
    pub restores: bool,
}

/// A body, whose parts are written only when they are read, so that they take no memory.
type Parts = stream::BoxStream<'static, Vec<u8>>;

/// A runtime of one thread, and an informer that is not started.
pub struct RelistStage {
    /// The runtime.
    pub runtime: Runtime,
    /// The factory of the informer.
    pub factory: SharedInformerFactory,
    /// The informer.
    pub pods: SharedInformer<Lazy<Pod>>,
}

impl Relists {
    /// Makes an informer whose factory has a budget.
    pub fn stage(self, budget: usize) -> RelistStage {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let entered = runtime.enter();
        let pods: &Pods = Box::leak(Box::new(Pods::new(self.pods, crate::SHAPES)));
        let lists = AtomicUsize::new(0);
        let client = Client::new(
            tower::service_fn(move |request: Request<Body>| {
                let query = request.uri().query().unwrap_or_default();
                let name = query.split_once("metadata.name%3D").map(|(_, name)| name);
                let is_list = name.is_none() && !query.contains("watch=");
                // The number of this list, or of the last one.
                let list = lists.fetch_add(usize::from(is_list), Ordering::Relaxed) - usize::from(!is_list);
                let parts = match (name, is_list) {
                    (Some(name), _) => self.one(pods, list, name),
                    (None, true) => self.list(pods, list),
                    (None, false) => self.watch(pods, list),
                };
                let body = StreamBody::new(parts.map(|part| Ok::<_, Infallible>(Frame::data(Bytes::from(part)))));
                std::future::ready(Ok::<_, Infallible>(Response::new(body)))
            }),
            "default",
        );
        let factory = SharedInformerFactory::builder(client).without_streaming().memory_budget(budget).build();
        drop(entered);
        RelistStage { runtime, pods: factory.informer(), factory }
    }

    /// The version of a list.
    pub fn version(self, list: usize) -> usize {
        let lists = if self.restores { 1 } else { list + 1 };
        lists * (self.pods + self.changes)
    }

    fn list(self, pods: &'static Pods, list: usize) -> Parts {
        let version = self.version(list);
        let items = (0..self.pods).map(move |number| {
            let mut item = if number > 0 { vec![b','] } else { Vec::new() };
            pods.write(number, version - number, list as u32, &mut item);
            item
        });
        list_of(version, items)
    }

    /// The list of one pod, when the watch after a list has ended. With it, the informer checks the history.
    fn one(self, pods: &'static Pods, list: usize, name: &str) -> Parts {
        let number = (0..self.pods).find(|number| pods.key(*number).ends_with(&format!("/{name}"))).unwrap();
        let version = self.version(list);
        let change = (0..self.changes).rev().find(|change| self.changed(*change) == number && !self.restores);
        let mut pod = Vec::new();
        match change {
            Some(change) => pods.write(number, version + change + 1, 1000 + list as u32, &mut pod),
            None => pods.write(number, version - number, list as u32, &mut pod),
        }
        list_of(version + self.changes, [pod].into_iter())
    }

    fn changed(self, change: usize) -> usize {
        change * 7919 % self.pods
    }

    fn watch(self, pods: &'static Pods, list: usize) -> Parts {
        if list >= self.relists {
            return stream::pending().boxed();
        }
        let version = self.version(list);
        let changes = (0..self.changes).map(move |change| {
            let mut event = br#"{"type":"MODIFIED","object":"#.to_vec();
            pods.write(self.changed(change), version + change + 1, 1000 + list as u32, &mut event);
            event.extend_from_slice(b"}\n");
            event
        });
        let expired = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}"#;
        stream::iter(changes).chain(stream::iter([format!("{expired}\n").into_bytes()])).boxed()
    }
}

fn list_of(version: usize, items: impl Iterator<Item = Vec<u8>> + Send + 'static) -> Parts {
    let begin =
        format!(r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"}},"items":["#);
    let [begin, end] = [begin.into_bytes(), b"]}".to_vec()].map(|part| stream::iter([part]));
    begin.chain(stream::iter(items)).chain(end).boxed()
}

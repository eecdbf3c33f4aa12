//! The clients in Rust: each is a process, which brings pods into its cache and then follows their changes.
//!
//! A client stops at three stages: before its first request, when its cache has all pods, and when it has all changes. At each it prints
//! the CPU time of its process, waits for a line on standard input, and prints the time again. `client-go/main.go` does the same.

use std::{
    pin::{Pin, pin},
    sync::mpsc::{self, Receiver},
    time::Duration,
};

use clap::{Args, ValueEnum};
use futures_util::TryStreamExt;
use http_body_util::BodyExt;
use informant::{Lazy, SharedInformerFactory, index};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Config,
    client::Body,
    runtime::{WatchStreamExt, reflector, watcher},
};

#[derive(Args)]
pub struct Follow {
    /// What brings the pods into the process.
    library: Library,
    /// Index the pods by the name of their node.
    #[arg(long)]
    index: bool,
    /// Pack the pods.
    #[arg(long)]
    packed: bool,
    /// The URL of the server.
    url: String,
    /// The number of pods.
    pods: usize,
    /// The version of the last change.
    version: String,
    /// The key of the pod that changes last.
    key: String,
}

#[derive(Clone, ValueEnum)]
enum Library {
    /// A shared informer of `Lazy<Pod>`.
    Informant,
    /// A reflector, and the stream that drives it.
    KubeRuntime,
    /// kube's client: it reads the bytes and drops them.
    Transport,
}

/// Ends the process when standard input ends: when the comparison is over, or was interrupted.
fn lines() -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        std::io::stdin().lines().for_each(|line| sender.send(line.unwrap()).unwrap());
        std::process::exit(0);
    });
    lines
}

/// Ends a stage, and begins the next when a line comes in.
fn pause(stage: &str, lines: &Receiver<String>) {
    let print = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        println!("{stage} {}", time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3);
    };
    print();
    lines.recv().unwrap();
    print();
}

impl Follow {
    #[tokio::main]
    pub async fn run(self) {
        let lines = lines();
        let client = Client::try_from(Config::new(self.url.parse().unwrap())).unwrap();
        match self.library {
            Library::Informant => self.informant(client, &lines).await,
            Library::KubeRuntime => self.kube_runtime(client, &lines).await,
            Library::Transport => transport(client, &lines).await,
        }
    }

    async fn informant(&self, client: Client, lines: &Receiver<String>) {
        let factory = SharedInformerFactory::builder(client);
        let factory = if self.packed { factory.memory_budget(0) } else { factory }.build();
        let pods = factory.informer::<Lazy<Pod>>();
        if self.index {
            pods.add_index("node", index::field("spec.nodeName").unwrap()).unwrap();
        }
        pause("started", lines);
        factory.start();
        factory.synced().await.unwrap();
        assert_eq!(pods.lister().len(), self.pods);
        pause("synced", lines);
        pods.caught_up_to(&self.version.as_str().into(), Duration::from_secs(600)).await.unwrap();
        let last = pods.lister().require(&self.key.parse().unwrap()).unwrap();
        assert_eq!(last.version().as_str(), self.version);
        pause("followed", lines);
    }

    async fn kube_runtime(&self, client: Client, lines: &Receiver<String>) {
        let (store, writer) = reflector::store::<Pod>();
        let mut events = pin!(watcher(Api::all(client), watcher::Config::default()).reflect(writer));
        pause("started", lines);
        while !matches!(events.try_next().await.unwrap().unwrap(), watcher::Event::InitDone) {}
        assert_eq!(store.len(), self.pods);
        pause("synced", lines);
        let version = Some(&self.version);
        while !matches!(
            events.try_next().await.unwrap().unwrap(),
            watcher::Event::Apply(pod) if pod.metadata.resource_version.as_ref() == version
        ) {}
        let (namespace, name) = self.key.split_once('/').unwrap();
        let last = store.get(&reflector::ObjectRef::new(name).within(namespace)).unwrap();
        assert_eq!(last.metadata.resource_version.as_ref(), version);
        pause("followed", lines);
    }
}

async fn transport(client: Client, lines: &Receiver<String>) {
    let url = "/api/v1/pods?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";
    let request = http::Request::get(url).body(Body::empty()).unwrap();
    pause("started", lines);
    let mut body = pin!(client.send(request).await.unwrap().into_body());
    read_to_bookmark(body.as_mut()).await;
    pause("synced", lines);
    read_to_bookmark(body).await;
    pause("followed", lines);
}

/// Reads until the bytes end with a bookmark, whose line has fewer than 400 bytes.
async fn read_to_bookmark(mut body: Pin<&mut Body>) {
    let mut end = Vec::new();
    while !(end.ends_with(b"}\n") && end.windows(10).any(|word| word == b"\"BOOKMARK\"")) {
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        end.extend_from_slice(&frame[frame.len().saturating_sub(400)..]);
        end.drain(..end.len().saturating_sub(400));
    }
}

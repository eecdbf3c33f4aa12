//! The client process: informers of every object type, and handlers that check their events.
//!
//! - **In:** a kubeconfig, and questions on standard input.
//! - **Out:** answers on standard output, logs on standard error.
//! - **Knows nothing of:** the faults.

#[path = "../../crates/informant/tests/it/support/fold.rs"]
mod fold;

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use informant::{Cached, Lazy, SharedInformer, SharedInformerFactory};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Pod, Secret},
};
use kube::{
    Client, Config, Resource,
    config::{KubeConfigOptions, Kubeconfig},
    core::{ApiResource, GroupVersionKind, ObjectMeta, PartialObjectMeta},
};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    task::JoinSet,
};

use self::fold::Fold;
use crate::{
    protocol::{Contents, InformerReport, Question, Report, State, digest},
    stage::{GROUP, NAMESPACES, SCOPES, STAMP},
};

/// The shortest period that the library allows.
const AUDITED_EVERY: Duration = Duration::from_secs(300);

/// Runs until standard input ends, then stops the informers.
#[expect(clippy::print_stdout, reason = "answers go to standard output")]
pub async fn run(kubeconfig: &Path, history_may_change: bool) -> Result<()> {
    tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stderr).init();
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let factory = SharedInformerFactory::builder(Client::try_from(config)?).audit_every(AUDITED_EVERY).build();
    let mut streams = JoinSet::new();
    let informers = informers(&factory, history_may_change, &mut streams)?;
    factory.start();

    let mut questions = BufReader::new(tokio::io::stdin()).lines();
    while let Some(question) = questions.next_line().await? {
        let answer = match serde_json::from_str(&question)? {
            Question::Report => serde_json::to_string(&report(&factory, &informers))?,
            Question::Contents(name) => {
                serde_json::to_string(&informers.get(&*name).context("unknown informer")?.contents())?
            }
        };
        println!("{answer}");
    }
    factory.stop().await?;
    streams.join_all().await;
    Ok(())
}

/// Creates the informer of each scope, with its handlers.
fn informers(
    factory: &SharedInformerFactory,
    history_may_change: bool,
    streams: &mut JoinSet<()>,
) -> Result<BTreeMap<&'static str, Box<dyn Followed>>> {
    let widget = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, "v1", "Widget"), "widgets");
    let front = factory.request::<Lazy<ConfigMap>>().with_labels("tier=front").informer()?;
    let running = factory.request::<Pod>().with_fields("status.phase=Running").informer()?;
    let of_namespace = factory.request::<Lazy<Deployment>>().in_namespace(NAMESPACES[1]).informer()?;
    let mut follow = Follow { history_may_change, streams };
    // In the order of the scopes.
    let all: [Box<dyn Followed>; 7] = [
        follow.informer(factory.informer::<ConfigMap>(), |object| stamp(object.meta()))?,
        follow.informer(factory.informer::<Lazy<Secret>>(), lazy_stamp)?,
        follow.informer(factory.informer::<PartialObjectMeta<Deployment>>(), |object| stamp(object.meta()))?,
        follow.informer(factory.dynamic(&widget), |object| stamp(object.meta()))?,
        follow.informer(front, lazy_stamp)?,
        follow.informer(running, |object| stamp(object.meta()))?,
        follow.informer(of_namespace, lazy_stamp)?,
    ];
    Ok(SCOPES.iter().map(|scope| scope.name).zip(all).collect())
}

fn report(factory: &SharedInformerFactory, informers: &BTreeMap<&'static str, Box<dyn Followed>>) -> Report {
    let digests = informers.iter().map(|(name, informer)| {
        let contents = informer.contents();
        let mut digests = contents.iter().map(digest);
        let cache = digests.next().unwrap_or_default();
        let objects = contents.first().map_or(0, Contents::len);
        ((*name).to_owned(), InformerReport { objects, cache, handlers: digests.collect() })
    });
    Report {
        informers: digests.collect(),
        violations: informers.iter().flat_map(|(name, informer)| named(name, informer.violations())).collect(),
        problems: factory.problems().iter().map(ToString::to_string).collect(),
    }
}

fn named(informer: &str, violations: Vec<String>) -> impl Iterator<Item = String> {
    violations.into_iter().map(move |violation| format!("{informer}: {violation}"))
}

/// An informer whose object type is hidden.
trait Followed {
    /// The contents of the cache, then what the events of each handler add up to.
    fn contents(&self) -> Vec<Contents>;

    fn violations(&self) -> Vec<String>;
}

/// An informer, and the events that each of its handlers received.
struct Informer<O> {
    informer: SharedInformer<O>,
    folds: Vec<Arc<Mutex<Fold<O>>>>,
    stamp: fn(&O) -> String,
}

/// Adds handlers to informers.
struct Follow<'a> {
    history_may_change: bool,
    streams: &'a mut JoinSet<()>,
}

impl Follow<'_> {
    /// Adds a handler, a handler whose events are coalesced, and a stream.
    fn informer<O: Send + Sync + 'static>(
        &mut self,
        informer: SharedInformer<O>,
        stamp: fn(&O) -> String,
    ) -> Result<Box<dyn Followed>> {
        let folds = [(); 3].map(|()| Arc::new(Mutex::new(Fold::new(self.history_may_change))));
        let [plain, coalesced, streamed] = folds.clone();
        informer.subscribe().named("plain").on_event(move |event| plain.lock().receive(&event)).register()?;
        let coalescing = informer.subscribe().named("coalesced").coalesce_above(4);
        coalescing.on_event(move |event| coalesced.lock().receive(&event)).register()?;
        let mut events = informer.subscribe().named("stream").stream()?;
        self.streams.spawn(async move {
            while let Some(event) = events.next().await {
                streamed.lock().receive(&event);
            }
        });
        Ok(Box::new(Informer { informer, folds: folds.into(), stamp }))
    }
}

impl<O: Send + Sync + 'static> Informer<O> {
    fn state(&self, object: &Cached<O>) -> (String, State) {
        let key = object.key();
        let stamp = (self.stamp)(object);
        let state = State { uid: object.uid().to_string(), version: object.version().to_string(), stamp };
        (format!("{}/{}", key.namespace().unwrap_or_default(), key.name()), state)
    }
}

impl<O: Send + Sync + 'static> Followed for Informer<O> {
    fn contents(&self) -> Vec<Contents> {
        let cache = self.informer.lister().list().iter().map(|object| self.state(object)).collect();
        let folded = self.folds.iter().map(|fold| fold.lock().known().map(|object| self.state(object)).collect());
        std::iter::once(cache).chain(folded).collect()
    }

    fn violations(&self) -> Vec<String> {
        self.folds.iter().flat_map(|fold| fold.lock().violations().to_vec()).collect()
    }
}

fn stamp(metadata: &ObjectMeta) -> String {
    metadata.annotations.as_ref().and_then(|annotations| annotations.get(STAMP)).cloned().unwrap_or_default()
}

/// The stamp of a lazy object, without decoding the rest of it.
fn lazy_stamp<K>(object: &Lazy<K>) -> String {
    #[derive(Deserialize)]
    struct Stamped {
        metadata: ObjectMeta,
    }
    object.peek::<Stamped>().map(|object| stamp(&object.metadata)).unwrap_or_default()
}

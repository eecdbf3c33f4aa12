//! A server, an informer that follows it through a proxy, and random changes of its objects.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic, atomic::AtomicUsize},
    time::Duration,
};

use informant::{InformerBuilder, Key, ResourceVersion, SharedInformer, SharedInformerFactory, pipeline::Backoff};
use informant_apiserver::{ApiServer, Backup};
use tokio::{task::JoinHandle, time::Instant};

use super::{
    history::{States, shown},
    proxy::Proxy,
};
use crate::{
    reflector::soak::{Texted, contents},
    support::reflector::{config_map, server_at_10, sleep_seconds},
};

/// A server and an informer that follows it through a proxy.
pub(super) struct World<O: Texted> {
    pub(super) server: ApiServer,
    pub(super) proxy: Proxy,
    pub(super) informer: SharedInformer<O>,
    pub(super) states: States,
    /// Tasks that wait until the cache has a written object.
    pub(super) waits: Vec<JoinHandle<Option<String>>>,
    /// When the server started.
    pub(super) started: Instant,
    /// The backup that the next restore uses.
    pub(super) backup: Backup,
    /// How many backups were restored so far.
    pub(super) restores: Arc<AtomicUsize>,
    /// No object is written any more.
    pub(super) is_quiet: bool,
}

/// What differs between the runs of one object type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    /// Whether the informer requests streamed lists.
    pub(super) streams: bool,
    /// Whether objects are packed.
    pub(super) packs: bool,
}

impl<O: Texted> World<O> {
    /// Creates a server with some objects, and an informer that is not started.
    pub(super) fn new(setting: Setting, random: &mut fastrand::Rng) -> Self {
        let server = server_at_10();
        let states = States::default();
        change(&server, &states, random);
        let proxy = Proxy::new(server.clone());
        let (seed, resync) = (random.u64(..), random.bool().then(|| Duration::from_secs(random.u64(5..300))));
        let configure = move |builder: InformerBuilder<O>| {
            let builder = builder.name("things").on_error(|_| {}).on_quarantine(|_| {}).reflector(|reflector| {
                let reflector = reflector.backoff(Backoff::default().seed(seed));
                if setting.streams { reflector } else { reflector.without_streaming() }
            });
            builder.resync_every(resync.unwrap_or_default())
        };
        let factory = SharedInformerFactory::builder(proxy.client());
        let factory = if setting.packs { factory.memory_budget(0) } else { factory };
        Self {
            backup: server.backup(),
            server,
            proxy,
            informer: factory.configure::<O>(configure).build().informer::<O>(),
            states,
            waits: Vec::new(),
            started: Instant::now(),
            restores: Arc::default(),
            is_quiet: false,
        }
    }

    pub(super) fn change(&mut self, random: &mut fastrand::Rng) {
        for (key, version) in change(&self.server, &self.states, random) {
            if random.u32(0..4) == 0 {
                let restores = Arc::clone(&self.restores);
                self.waits.push(tokio::spawn(wait_for(self.informer.clone(), key, version, restores)));
            }
        }
    }
}

/// Decision 13: the cache has the written object, or a newer state. After a restored backup this proves nothing: the version may be of
/// one history and the cache of the other.
async fn wait_for<O: Texted>(
    informer: SharedInformer<O>,
    key: String,
    version: String,
    restores: Arc<AtomicUsize>,
) -> Option<String> {
    let (key, version): (Key, ResourceVersion) = (key.parse().unwrap(), version.as_str().into());
    let waited = informer.wait_for(&key, &version, Duration::from_secs(3000)).await;
    let cache = informer.lister().version();
    match waited {
        Ok(Some(object)) if object.version().compare(&version) == Some(Ordering::Less) => {
            Some(format!("{key}@{version} was waited for, and came as {object:?}"))
        }
        Ok(None) if cache.as_ref().is_none_or(|cache| cache.compare(&version) == Some(Ordering::Less)) => {
            Some(format!("{key}@{version} was waited for, and said to be gone by a cache at {cache:?}"))
        }
        Ok(_) | Err(_) => None,
    }
    .filter(|_| restores.load(atomic::Ordering::Relaxed) == 0)
}

/// Changes objects, and records their new states.
fn change(server: &ApiServer, states: &States, random: &mut fastrand::Rng) -> Vec<(String, String)> {
    let mut written = Vec::new();
    for _ in 0..random.usize(0..6) {
        let name = format!("c{}", random.u32(0..8));
        if random.u32(0..4) == 0 {
            // The object may not exist.
            let _ = server.delete("configmaps", &format!("shop/{name}"));
            continue;
        }
        written.push(put(server, states, &name, random));
    }
    written
}

/// Writes an object, and records its new state; returns its key and version.
pub(super) fn put(server: &ApiServer, states: &States, name: &str, random: &mut fastrand::Rng) -> (String, String) {
    let text = format!("text {}", random.u32(..));
    let stored = server.put("configmaps", config_map(name, &text)).unwrap();
    let version = stored["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    states.lock().unwrap().entry((format!("shop/{name}"), version.clone())).or_default().insert(text);
    (format!("shop/{name}"), version)
}

pub(super) fn cache<O: Texted>(informer: &SharedInformer<O>) -> BTreeMap<String, String> {
    informer.lister().list().iter().map(|object| (object.key().to_string(), shown(object))).collect()
}

/// Waits until the cache equals the server, except for quarantined objects.
pub(super) async fn converges<O: Texted>(informer: &SharedInformer<O>, server: &ApiServer) -> bool {
    for _ in 0..400 {
        let quarantined: BTreeSet<_> =
            informer.quarantined().into_iter().filter_map(|bad| bad.key.map(|key| key.to_string())).collect();
        let except = |mut state: BTreeMap<String, String>| {
            state.retain(|key, _| !quarantined.contains(key));
            state
        };
        if informer.is_synced() && except(cache(informer)) == except(contents(server)) {
            return true;
        }
        sleep_seconds(10.0).await;
    }
    false
}

//! Whether everything is as it should be: every cache, and what every handler knows, equals the server.

use std::collections::BTreeMap;
use std::time::Duration;

use informant::Key;
use informant::SharedInformer;
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;
use tokio::time::sleep;

use super::follower::Known;
use super::world::World;

/// What came of the comparison.
#[derive(Debug, Serialize)]
pub struct Verdict {
    pub verified: bool,
    pub caches: usize,
    pub histories: usize,
    pub pods: usize,
    pub nodes: usize,
    /// What is not as it should be.
    pub differences: Vec<String>,
}

/// How long caches and handlers may take to catch up when nothing changes any more.
const PATIENCE: Duration = Duration::from_secs(60);

impl Verdict {
    /// Compares, as soon as all have caught up.
    pub async fn of(world: &World) -> Self {
        let begun = Instant::now();
        loop {
            let verdict = Self::now(world);
            if verdict.is_good() || begun.elapsed() > PATIENCE {
                return verdict;
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    pub fn is_good(&self) -> bool {
        self.verified
    }

    fn now(world: &World) -> Self {
        let expected = BTreeMap::from([("pods", on_server(world, "pods")), ("nodes", on_server(world, "nodes"))]);
        let mut differences = Vec::new();
        let mut compare = |what: String, kind: &str, found: &Known| {
            let wrong = differing(&expected[kind], found);
            if wrong > 0 {
                differences.push(format!("{what}: {wrong} {kind} are not as the server has them"));
            }
        };
        compare("the cache".into(), "pods", &in_cache(&world.pods));
        compare("the cache".into(), "nodes", &in_cache(&world.nodes));
        for following in &world.followers {
            let name = following.registration.name();
            compare(format!("handler {name}"), following.kind, &following.follower.known());
        }
        for following in &world.followers {
            let nonsense = following.follower.counts().nonsense;
            if nonsense > 0 {
                let name = following.registration.name();
                differences.push(format!("handler {name}: {nonsense} events of {} made no sense", following.kind));
            }
        }
        Self {
            verified: differences.is_empty(),
            caches: 2,
            histories: world.followers.len(),
            pods: expected["pods"].len(),
            nodes: expected["nodes"].len(),
            differences,
        }
    }
}

fn on_server(world: &World, kind: &str) -> Known {
    let objects = world.server.list(kind).unwrap_or_default();
    let state = |object: &Value| {
        let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
        (Key::namespaced(text("namespace"), text("name")), (text("uid").into(), text("resourceVersion").into()))
    };
    objects.iter().map(state).collect()
}

fn in_cache<O: Send + Sync + 'static>(informer: &SharedInformer<O>) -> Known {
    let objects = informer.lister().list();
    objects.iter().map(|object| (object.key().clone(), (object.uid().clone(), object.version().clone()))).collect()
}

/// How many objects only one of them has, or in another state.
fn differing(expected: &Known, found: &Known) -> usize {
    let missing = expected.iter().filter(|(key, state)| found.get(key) != Some(state)).count();
    missing + found.keys().filter(|key| !expected.contains_key(key)).count()
}

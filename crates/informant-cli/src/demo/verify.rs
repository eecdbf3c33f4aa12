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

/// How long nothing may come along before those who have not caught up are given up.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a cache or a handler has come to know.
struct Found {
    who: String,
    kind: &'static str,
    known: Known,
    /// How many events it has not heard of yet.
    waiting: usize,
    /// How many events made no sense to it.
    nonsense: u64,
}

impl Verdict {
    /// Compares, as soon as all have caught up.
    pub async fn of(world: &World) -> Self {
        let mut since = Instant::now();
        let mut before = Vec::new();
        loop {
            let delivered: Vec<_> =
                world.followers.iter().map(|following| following.registration.status().delivered).collect();
            if delivered != before {
                (since, before) = (Instant::now(), delivered);
            }
            let has_given_up = since.elapsed() > PATIENCE;
            // Comparing takes time, and is in vain while some are busy.
            if has_given_up || world.followers.iter().all(|following| following.registration.backlog() == 0) {
                let verdict = Self::now(world);
                if has_given_up || verdict.is_good() {
                    return verdict;
                }
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    pub fn is_good(&self) -> bool {
        self.verified
    }

    fn now(world: &World) -> Self {
        let expected = BTreeMap::from([("pods", on_server(world, "pods")), ("nodes", on_server(world, "nodes"))]);
        let cache = |kind, known| Found { who: "the cache".to_owned(), kind, known, waiting: 0, nonsense: 0 };
        let mut found = vec![cache("pods", in_cache(&world.pods)), cache("nodes", in_cache(&world.nodes))];
        found.extend(world.followers.iter().map(|following| Found {
            who: format!("handler {}", following.registration.name()),
            kind: following.kind,
            known: following.follower.known(),
            waiting: following.registration.backlog(),
            nonsense: following.follower.counts().nonsense,
        }));
        let differences = differences(&expected, &found);
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

/// What is not as it should be, by kind.
fn differences(expected: &BTreeMap<&str, Known>, found: &[Found]) -> Vec<String> {
    let mut differences = Vec::new();
    for Found { who, kind, known, waiting, nonsense } in found {
        let wrong = differing(&expected[kind], known);
        if *waiting > 0 {
            differences.push(format!("{who}: has not caught up, {waiting} events of {kind} wait"));
        } else if wrong > 0 {
            differences.push(format!("{who}: {wrong} {kind} are not as the server has them"));
        }
        if *nonsense > 0 {
            differences.push(format!("{who}: {nonsense} events of {kind} made no sense"));
        }
    }
    differences
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

#[cfg(test)]
mod tests {
    use super::*;

    fn known(objects: &[(&str, &str, &str)]) -> Known {
        let state = |(name, uid, version): &(&str, &str, &str)| {
            (Key::namespaced("shop", name), ((*uid).into(), (*version).into()))
        };
        objects.iter().map(state).collect()
    }

    fn told(objects: &[(&str, &str, &str)], waiting: usize, nonsense: u64) -> Vec<String> {
        let expected = BTreeMap::from([("pods", known(&[("a", "u1", "1"), ("b", "u2", "2")]))]);
        let found = Found { who: "handler x".to_owned(), kind: "pods", known: known(objects), waiting, nonsense };
        differences(&expected, &[found])
    }

    #[test]
    fn whoever_knows_exactly_what_the_server_has_is_right() {
        assert!(told(&[("a", "u1", "1"), ("b", "u2", "2")], 0, 0).is_empty());
    }

    #[test]
    fn every_difference_is_found() {
        let wrong = |objects: &[(&str, &str, &str)]| told(objects, 0, 0).concat();

        assert_eq!(wrong(&[("a", "u1", "1")]), "handler x: 1 pods are not as the server has them", "one is missing");
        assert_eq!(wrong(&[]), "handler x: 2 pods are not as the server has them");
        assert!(wrong(&[("a", "u1", "1"), ("b", "u2", "1")]).contains(": 1 pods"), "an old state");
        assert!(wrong(&[("a", "u1", "1"), ("b", "u9", "2")]).contains(": 1 pods"), "another life");
        assert!(wrong(&[("a", "u1", "1"), ("b", "u2", "2"), ("c", "u3", "3")]).contains(": 1 pods"), "one too many");
    }

    #[test]
    fn events_that_made_no_sense_or_still_wait_are_told() {
        let right = [("a", "u1", "1"), ("b", "u2", "2")];
        assert_eq!(told(&right, 0, 3), ["handler x: 3 events of pods made no sense"]);
        assert_eq!(told(&[], 7, 0), ["handler x: has not caught up, 7 events of pods wait"]);
    }
}

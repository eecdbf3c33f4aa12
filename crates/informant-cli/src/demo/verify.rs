//! Compares every cache, and the object states that every handler has recorded, with the server.

use std::{collections::BTreeMap, time::Duration};

use informant::{Key, SharedInformer};
use serde::Serialize;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{recorder::ObjectStates, scenario::Scenario};

/// The result of the comparison.
#[derive(Debug, Serialize)]
pub struct Verdict {
    pub verified: bool,
    pub caches: usize,
    pub handlers: usize,
    pub pods: usize,
    pub nodes: usize,
    /// One line per difference; empty if everything is equal.
    pub differences: Vec<String>,
}

/// If no handler receives an event for this long, the handlers that have not caught up have failed.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The object states of a cache or a handler.
struct Observed {
    name: String,
    kind: &'static str,
    states: ObjectStates,
    /// The number of undelivered events.
    backlog: usize,
    /// The number of events that contradicted earlier ones.
    inconsistent: u64,
}

impl Verdict {
    /// Waits until all handlers have caught up, then compares.
    pub async fn of(scenario: &Scenario) -> Self {
        let mut since = Instant::now();
        let mut before = Vec::new();
        loop {
            let delivered: Vec<_> =
                scenario.handlers.iter().map(|handler| handler.registration.status().delivered).collect();
            if delivered != before {
                (since, before) = (Instant::now(), delivered);
            }
            let has_stalled = since.elapsed() > STALL_TIMEOUT;
            // The comparison is expensive, and would fail while events are undelivered.
            if has_stalled || scenario.handlers.iter().all(|handler| handler.registration.backlog() == 0) {
                let verdict = Self::compare(scenario);
                if has_stalled || verdict.is_verified() {
                    return verdict;
                }
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    pub fn is_verified(&self) -> bool {
        self.verified
    }

    fn compare(scenario: &Scenario) -> Self {
        let expected = BTreeMap::from([("pods", on_server(scenario, "pods")), ("nodes", on_server(scenario, "nodes"))]);
        let cache = |kind, states| Observed { name: "cache".to_owned(), kind, states, backlog: 0, inconsistent: 0 };
        let mut observed = vec![cache("pods", in_cache(&scenario.pods)), cache("nodes", in_cache(&scenario.nodes))];
        observed.extend(scenario.handlers.iter().map(|handler| Observed {
            name: format!("handler {}", handler.registration.name()),
            kind: handler.kind,
            states: handler.recorder.states(),
            backlog: handler.registration.backlog(),
            inconsistent: handler.recorder.counts().inconsistent,
        }));
        let differences = differences(&expected, &observed);
        Self {
            verified: differences.is_empty(),
            caches: 2,
            handlers: scenario.handlers.len(),
            pods: expected["pods"].len(),
            nodes: expected["nodes"].len(),
            differences,
        }
    }
}

/// Describes each difference; `expected` has the server's objects by kind.
fn differences(expected: &BTreeMap<&str, ObjectStates>, observed: &[Observed]) -> Vec<String> {
    let mut differences = Vec::new();
    for Observed { name, kind, states, backlog, inconsistent } in observed {
        let wrong = differing(&expected[kind], states);
        if *backlog > 0 {
            differences.push(format!("{name}: {backlog} events of {kind} were not delivered"));
        } else if wrong > 0 {
            differences.push(format!("{name}: {wrong} {kind} differ from the server"));
        }
        if *inconsistent > 0 {
            differences.push(format!("{name}: {inconsistent} events of {kind} contradicted earlier events"));
        }
    }
    differences
}

fn on_server(scenario: &Scenario, kind: &str) -> ObjectStates {
    let objects = scenario.server.list(kind).unwrap_or_default();
    let state = |object: &Value| {
        let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
        (Key::namespaced(text("namespace"), text("name")), (text("uid").into(), text("resourceVersion").into()))
    };
    objects.iter().map(state).collect()
}

fn in_cache<O: Send + Sync + 'static>(informer: &SharedInformer<O>) -> ObjectStates {
    let objects = informer.lister().list();
    objects.iter().map(|object| (object.key().clone(), (object.uid().clone(), object.version().clone()))).collect()
}

/// Counts the objects that only one side has, or that differ in uid or version.
fn differing(expected: &ObjectStates, observed: &ObjectStates) -> usize {
    let missing = expected.iter().filter(|(key, state)| observed.get(key) != Some(state)).count();
    missing + observed.keys().filter(|key| !expected.contains_key(key)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(objects: &[(&str, &str, &str)]) -> ObjectStates {
        let state = |(name, uid, version): &(&str, &str, &str)| {
            (Key::namespaced("shop", name), ((*uid).into(), (*version).into()))
        };
        objects.iter().map(state).collect()
    }

    fn differences_of(objects: &[(&str, &str, &str)], backlog: usize, inconsistent: u64) -> Vec<String> {
        let expected = BTreeMap::from([("pods", states(&[("a", "u1", "1"), ("b", "u2", "2")]))]);
        let name = "handler x".to_owned();
        differences(&expected, &[Observed { name, kind: "pods", states: states(objects), backlog, inconsistent }])
    }

    #[test]
    fn a_handler_with_the_states_of_the_server_has_no_differences() {
        assert!(differences_of(&[("a", "u1", "1"), ("b", "u2", "2")], 0, 0).is_empty());
    }

    #[test]
    fn every_difference_is_found() {
        let wrong = |objects: &[(&str, &str, &str)]| differences_of(objects, 0, 0).concat();

        assert_eq!(wrong(&[("a", "u1", "1")]), "handler x: 1 pods differ from the server", "one is missing");
        assert_eq!(wrong(&[]), "handler x: 2 pods differ from the server");
        assert!(wrong(&[("a", "u1", "1"), ("b", "u2", "1")]).contains(": 1 pods"), "an old state");
        assert!(wrong(&[("a", "u1", "1"), ("b", "u9", "2")]).contains(": 1 pods"), "another incarnation");
        assert!(wrong(&[("a", "u1", "1"), ("b", "u2", "2"), ("c", "u3", "3")]).contains(": 1 pods"), "one too many");
    }

    #[test]
    fn contradictory_and_undelivered_events_are_differences() {
        let right = [("a", "u1", "1"), ("b", "u2", "2")];
        assert_eq!(differences_of(&right, 0, 3), ["handler x: 3 events of pods contradicted earlier events"]);
        assert_eq!(differences_of(&[], 7, 0), ["handler x: 7 events of pods were not delivered"]);
    }
}

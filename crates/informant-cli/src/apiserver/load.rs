//! Parses the value of `--load`, such as `pods=1000,nodes=20,rate=50`, and creates the objects.

use std::str::FromStr;

use informant_apiserver::{ApiError, ApiServer, Load, LoadGenerator};
use serde_json::json;

use crate::{arguments::UsageError, kinds};

/// The value of `--load`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadPlan {
    /// Number of objects by resource, such as `deployments.apps`.
    kinds: Vec<(String, usize)>,
    /// Changes per second.
    rate: Option<f64>,
    namespaces: Option<usize>,
}

/// The largest number of objects per kind; a larger one is most likely a mistake.
const MAX_OBJECTS: usize = 1_000_000;

impl FromStr for LoadPlan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut plan = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let invalid =
                || format!("{part:?} is not a valid load; expected a value such as pods=1000,nodes=20,rate=50");
            let (name, value) = part.split_once('=').ok_or_else(invalid)?;
            let count = || value.parse().ok().filter(|count: &usize| *count <= MAX_OBJECTS).ok_or_else(invalid);
            let is_duplicate = match name {
                "" => return Err(invalid()),
                "rate" => {
                    let rate = value.parse().ok().filter(|rate: &f64| (0.0..=100_000.0).contains(rate));
                    plan.rate.replace(rate.ok_or_else(invalid)?).is_some()
                }
                "namespaces" => {
                    let count = count().ok().filter(|count| *count > 0);
                    plan.namespaces.replace(count.ok_or_else(invalid)?).is_some()
                }
                name => {
                    let kind = kinds::full_name(name);
                    let is_duplicate = plan.kinds.iter().any(|(other, _)| *other == kind);
                    plan.kinds.push((kind, count()?));
                    is_duplicate
                }
            };
            if is_duplicate {
                return Err(format!("{name} is given twice"));
            }
        }
        match plan.rate() > 0.0 && plan.kinds.iter().all(|(_, count)| *count == 0) {
            true => Err("rate needs objects to change, such as pods=1000,rate=50".to_owned()),
            false => Ok(plan),
        }
    }
}

impl LoadPlan {
    /// Checks that the server has all kinds of the load.
    pub fn check(&self, server: &ApiServer) -> Result<(), UsageError> {
        for (kind, _) in &self.kinds {
            server.count(kind).map_err(|error| UsageError(format!("--load: {error}")))?;
        }
        Ok(())
    }

    /// Creates the namespaces and the objects; returns the generators that change the objects, each with its changes per second.
    pub async fn fill(&self, server: &ApiServer, seed: u64) -> Result<Vec<(LoadGenerator, f64)>, ApiError> {
        let namespaces = self.namespaces.unwrap_or(if self.kinds.is_empty() { 0 } else { 5 });
        for number in 0..namespaces {
            server.put("namespaces", namespace(&format!("team-{number}")))?;
        }
        // If the load has no nodes, pods are assigned to 100 nodes that do not exist.
        let nodes = self.kinds.iter().find(|(kind, _)| kind == "nodes").map_or(100, |(_, count)| *count);
        let mut makers = Vec::new();
        for (kind, count) in &self.kinds {
            let load = Load::of(kind, *count).namespaces(namespaces).nodes(nodes).seed(seed);
            let objects = load.fill(server).await?;
            let rate = self.rate_of(*count);
            if rate > 0.0 {
                makers.push((objects, rate));
            }
        }
        Ok(makers)
    }

    fn rate(&self) -> f64 {
        self.rate.unwrap_or(0.0)
    }

    /// The changes per second for a kind with `count` objects; proportional to `count`.
    fn rate_of(&self, count: usize) -> f64 {
        let all: usize = self.kinds.iter().map(|(_, count)| count).sum();
        self.rate() * count as f64 / all.max(1) as f64
    }
}

fn namespace(name: &str) -> serde_json::Value {
    let labels = json!({"kubernetes.io/metadata.name": name});
    json!({"metadata": {"name": name, "labels": labels}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_has_counts_by_kind_and_settings() {
        let plan: LoadPlan = "pods=1000, nodes=20,rate=0.5,namespaces=3".parse().unwrap();
        assert_eq!(plan.kinds, [("pods".into(), 1000), ("nodes".into(), 20)]);
        assert_eq!((plan.rate, plan.namespaces), (Some(0.5), Some(3)));
        assert_eq!((plan.rate_of(1000) * 1020.0, plan.rate_of(0)), (500.0, 0.0), "each kind has a proportional rate");
        let plan: LoadPlan = "po=1,deploy=2".parse().unwrap();
        assert_eq!(plan.kinds, [("pods".into(), 1), ("deployments.apps".into(), 2)], "short names are expanded");
        assert_eq!("".parse::<LoadPlan>().unwrap(), LoadPlan::default());

        for bad in [
            "pods",
            "pods=many",
            "=5",
            "pods=2000000",
            "rate=5",
            "pods=0,rate=5",
            "pods=1,rate=-1",
            "namespaces=0",
            "pods=1,pods=2",
            "deployments=1,deployments.apps=2",
            "pods=1,rate=1,rate=2",
            "namespaces=1,namespaces=2",
        ] {
            assert!(bad.parse::<LoadPlan>().is_err(), "{bad}");
        }
    }
}

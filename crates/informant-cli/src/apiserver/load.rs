//! What is in the server, and how it changes: `pods=1000,nodes=20,rate=50`.

use std::str::FromStr;

use informant_apiserver::ApiError;
use informant_apiserver::ApiServer;
use informant_apiserver::Load;
use informant_apiserver::LoadGenerator;
use serde_json::json;

use crate::arguments::AskedWrongly;
use crate::kinds;

/// How many of what, and how often it changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadPlan {
    /// By their full names.
    kinds: Vec<(String, usize)>,
    /// Changes in a second.
    rate: Option<f64>,
    namespaces: Option<usize>,
}

/// More than this is no load but a mistake.
const MOST: usize = 1_000_000;

impl FromStr for LoadPlan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut plan = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let how = || format!("{part:?} is not a load; write it as in pods=1000,nodes=20,rate=50");
            let (name, value) = part.split_once('=').ok_or_else(how)?;
            let count = || value.parse().ok().filter(|count: &usize| *count <= MOST).ok_or_else(how);
            let is_double = match name {
                "" => return Err(how()),
                "rate" => {
                    let rate = value.parse().ok().filter(|rate: &f64| (0.0..=100_000.0).contains(rate));
                    plan.rate.replace(rate.ok_or_else(how)?).is_some()
                }
                "namespaces" => {
                    let count = count().ok().filter(|count| *count > 0);
                    plan.namespaces.replace(count.ok_or_else(how)?).is_some()
                }
                name => {
                    let kind = kinds::full_name(name);
                    let is_double = plan.kinds.iter().any(|(other, _)| *other == kind);
                    plan.kinds.push((kind, count()?));
                    is_double
                }
            };
            if is_double {
                return Err(format!("{name} is there twice"));
            }
        }
        match plan.rate() > 0.0 && plan.kinds.iter().all(|(_, count)| *count == 0) {
            true => Err("a rate of changes needs objects to change, as in pods=1000,rate=50".to_owned()),
            false => Ok(plan),
        }
    }
}

impl LoadPlan {
    /// Whether the server has these kinds.
    pub fn check(&self, server: &ApiServer) -> Result<(), AskedWrongly> {
        let unknown = self.kinds.iter().find(|(kind, _)| server.count(kind).is_err());
        unknown.map_or(Ok(()), |(kind, _)| Err(AskedWrongly::unknown_kind("--load", kind)))
    }

    /// Makes the objects, and the namespaces that they are in; gives what changes them, and how often.
    pub async fn fill(&self, server: &ApiServer, seed: u64) -> Result<Vec<(LoadGenerator, f64)>, ApiError> {
        let namespaces = self.namespaces.unwrap_or(if self.kinds.is_empty() { 0 } else { 5 });
        for number in 0..namespaces {
            server.put("namespaces", namespace(&format!("team-{number}")))?;
        }
        // Without nodes of their own, pods are placed on a hundred that nobody made.
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

    /// The share of the changes that so many objects have.
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
    fn a_load_is_kinds_and_how_often_they_change() {
        let plan: LoadPlan = "pods=1000, nodes=20,rate=0.5,namespaces=3".parse().unwrap();
        assert_eq!(plan.kinds, [("pods".into(), 1000), ("nodes".into(), 20)]);
        assert_eq!((plan.rate, plan.namespaces), (Some(0.5), Some(3)));
        assert_eq!((plan.rate_of(1000) * 1020.0, plan.rate_of(0)), (500.0, 0.0), "each kind has its share");
        let plan: LoadPlan = "po=1,deploy=2".parse().unwrap();
        assert_eq!(plan.kinds, [("pods".into(), 1), ("deployments.apps".into(), 2)], "by all names of a kind");
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

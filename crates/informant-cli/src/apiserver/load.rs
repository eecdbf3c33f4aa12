//! What is in the server, and how it changes: `pods=1000,nodes=20,rate=50`.

use std::str::FromStr;

use informant_apiserver::ApiError;
use informant_apiserver::ApiServer;
use informant_apiserver::Load;
use informant_apiserver::LoadMaker;
use serde_json::json;

use crate::arguments::AskedWrongly;

/// How many of what, and how often it changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadPlan {
    kinds: Vec<(String, usize)>,
    /// Changes in a second.
    rate: f64,
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
            if name == "rate" {
                plan.rate = value.parse().ok().filter(|rate: &f64| (0.0..=100_000.0).contains(rate)).ok_or_else(how)?;
                continue;
            }
            let count: usize = value.parse().ok().filter(|count| *count <= MOST).ok_or_else(how)?;
            if plan.kinds.iter().any(|(kind, _)| kind == name) {
                return Err(format!("{name} is there twice"));
            }
            match name {
                "namespaces" if count > 0 => plan.namespaces = Some(count),
                "" | "namespaces" => return Err(how()),
                name => plan.kinds.push((name.to_owned(), count)),
            }
        }
        match plan.rate > 0.0 && plan.kinds.iter().all(|(_, count)| *count == 0) {
            true => Err("a rate of changes needs objects to change, as in pods=1000,rate=50".to_owned()),
            false => Ok(plan),
        }
    }
}

/// Changes the objects of a kind, forever.
pub struct Maker {
    objects: LoadMaker,
    rate: f64,
}

impl LoadPlan {
    /// Whether the server has these kinds.
    pub fn check(&self, server: &ApiServer) -> Result<(), AskedWrongly> {
        let unknown = self.kinds.iter().find(|(kind, _)| server.count(kind).is_err());
        unknown.map_or(Ok(()), |(kind, _)| Err(AskedWrongly::unknown_kind("--load", kind)))
    }

    /// Makes the objects, and the namespaces that they are in; gives what changes them.
    pub async fn fill(&self, server: &ApiServer, seed: u64) -> Result<Vec<Maker>, ApiError> {
        server.put("namespaces", namespace("default"))?;
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
                makers.push(Maker { objects, rate });
            }
        }
        Ok(makers)
    }

    /// The share of the changes that so many objects have.
    fn rate_of(&self, count: usize) -> f64 {
        let all: usize = self.kinds.iter().map(|(_, count)| count).sum();
        self.rate * count as f64 / all.max(1) as f64
    }
}

fn namespace(name: &str) -> serde_json::Value {
    let labels = json!({"kubernetes.io/metadata.name": name});
    json!({"metadata": {"name": name, "labels": labels}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}})
}

impl Maker {
    /// Goes on until it fails, which it should not.
    pub async fn churn(mut self) -> ApiError {
        loop {
            if let Err(error) = self.objects.churn(self.rate, u64::MAX).await {
                return error;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_kinds_and_how_often_they_change() {
        let plan: LoadPlan = "pods=1000, nodes=20,rate=0.5,namespaces=3".parse().unwrap();
        assert_eq!(plan.kinds, [("pods".into(), 1000), ("nodes".into(), 20)]);
        assert_eq!((plan.rate, plan.namespaces), (0.5, Some(3)));
        assert_eq!((plan.rate_of(1000) * 1020.0, plan.rate_of(0)), (500.0, 0.0), "each kind has its share");
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
        ] {
            assert!(bad.parse::<LoadPlan>().is_err(), "{bad}");
        }
    }
}

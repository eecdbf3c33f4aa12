//! Eviction of pods, and their binding to nodes.
//!
//! - **In:** a pod's key, and the terms of an eviction or the binding that a client sent.
//! - **Out:** the deleted pod for an eviction, nothing for a binding; or the error that kube-apiserver sends.
//! - **Knows nothing of:** HTTP.

use serde_json::{Value, json};

use crate::{
    error::ApiError,
    objects::{
        Key, Object, rules,
        rules::{DeleteTerms, Part, Updated},
        scale,
    },
    registry::{Served, kind::Kind},
    select::Selector,
    storage::Collection,
    world::{Deleted, Run, World},
};

const BUDGETS: &str = "poddisruptionbudgets.policy";

impl World {
    /// Deletes a pod, if each disruption budget that selects it allows one more disruption.
    pub(crate) fn evict(
        &mut self,
        pods: &Served,
        key: Key,
        terms: &DeleteTerms,
        now: &str,
        run: Run,
    ) -> Result<Deleted, ApiError> {
        self.check_namespace(pods, key.namespace(), key.name())?;
        let pod = self.get(pods, &key)?;
        let phase = pod.decode().field("status")["phase"].take();
        // Budgets do not count pods that do not run.
        let is_counted = !["Pending", "Succeeded", "Failed"].iter().any(|without| phase == *without);
        let budgets = if is_counted { self.budgets_of(pods, &key) } else { Vec::new() };
        if let [_, _, ..] = budgets[..] {
            let why =
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(ApiError::Internal(why.to_owned()));
        }
        for (budgets, budget_key) in budgets {
            self.take_disruption(&budgets, budget_key, now, run)?;
        }
        self.delete(pods, key, terms, now, run)
    }

    /// The budgets whose selector matches the pod.
    fn budgets_of(&self, pods: &Served, key: &Key) -> Vec<(Served, Key)> {
        let (Some(budgets), Ok(pod)) = (self.registry.find(BUDGETS), self.get(pods, key)) else { return Vec::new() };
        let all = self.storage.collection(budgets.collection).into_iter().flat_map(Collection::objects);
        let matches = |budget: &Object| {
            let selector = budget.field("spec")["selector"].take();
            let parsed = Selector::new(&pods.kind, key.namespace(), &scale::selector(&selector), "");
            selector.is_object() && parsed.is_ok_and(|selector| selector.matches(key, pod))
        };
        let of_pod = all.filter(|(budget, _)| budget.is_in(key.namespace()));
        let of_pod = of_pod.filter(|(_, budget)| matches(&budget.decode()));
        of_pod.map(|(key, _)| (budgets.clone(), key.clone())).collect()
    }

    /// Reduces the number of allowed disruptions of a budget by one; fails if it is 0.
    fn take_disruption(&mut self, budgets: &Served, key: Key, now: &str, run: Run) -> Result<(), ApiError> {
        let mut budget = self.get(budgets, &key)?.decode();
        let mut status = budget.field("status");
        let allowed = status["disruptionsAllowed"].as_i64().unwrap_or(0);
        if allowed < 1 {
            return Err(ApiError::DisruptionRefused { budget: key.name().to_owned() });
        }
        status["disruptionsAllowed"] = json!(allowed - 1);
        budget.set_field("status", &status);
        self.update(budgets, key, budget, Part::Status, now, run).map(drop)
    }

    /// Assigns a pod to the node in a binding.
    pub(crate) fn bind(
        &mut self,
        pods: &Served,
        key: Key,
        binding: &Object,
        now: &str,
        run: Run,
    ) -> Result<(), ApiError> {
        let target = binding.field("target");
        let node = target["name"].as_str().unwrap_or_default();
        if !["", "Node"].contains(&target["kind"].as_str().unwrap_or_default()) {
            return Err(ApiError::Internal("target.kind: Unsupported value: supported values: \"Node\"".to_owned()));
        }
        if node.is_empty() {
            return Err(ApiError::Internal("target.name: Required value".to_owned()));
        }
        self.check_namespace(pods, key.namespace(), key.name())?;
        let old = self.get(pods, &key)?.clone();
        let before = old.decode();
        let mut pod = before.clone();
        let mut spec = pod.field("spec");
        let pod_binding = Kind::new("", "v1", "Pod", "pods/binding");
        let name = key.name();
        let uid = binding.text("uid");
        if !uid.is_empty() && uid != pod.text("uid") {
            let why =
                format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", pod.text("uid"));
            return Err(ApiError::conflict(&pod_binding, name, why));
        }
        if pod.is_being_deleted() {
            let why = format!("pod {name} is being deleted, cannot be assigned to a host");
            return Err(ApiError::conflict(&pod_binding, name, why));
        }
        if let Some(assigned) = spec["nodeName"].as_str().filter(|assigned| !assigned.is_empty()) {
            let why = format!("pod {name} is already assigned to node {assigned:?}");
            return Err(ApiError::conflict(&pod_binding, name, why));
        }
        for field in ["annotations", "labels"] {
            let sent = binding.metadata.get(field).and_then(Value::as_object);
            let mut all = pod.metadata.get(field).and_then(Value::as_object).cloned().unwrap_or_default();
            all.extend(sent.cloned().unwrap_or_default());
            if !all.is_empty() {
                pod.set(field, all);
            }
        }
        spec["nodeName"] = json!(node);
        pod.set_field("spec", &spec);
        let mut status = pod.field("status");
        set_scheduled(&mut status, now);
        pod.set_field("status", &status);
        let mut updated = rules::put(&pods.kind, &key, &before, pod)?;
        // A binding changes the spec, but not the generation.
        if let (Updated::Changed(bound), Some(generation)) = (&mut updated, before.metadata.get("generation")) {
            bound.set("generation", generation.clone());
        }
        self.carry_out(pods, key, old, updated, run).map(drop)
    }
}

/// Replaces the condition `PodScheduled`, or adds it.
fn set_scheduled(status: &mut Value, now: &str) {
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    conditions.retain(|condition| condition["type"] != "PodScheduled");
    conditions.push(json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": now}));
    status["conditions"] = conditions.into();
}

//! The rules of injected faults and interceptors: each request is matched against all of them, in the order in which they were added.
//!
//! - **In:** rules; each request, as it is logged.
//! - **Out:** the faults and interceptors that hit a request; how many requests each rule has hit.
//! - **Knows nothing of:** what a fault or an interceptor does.

use crate::{
    faults::{Fault, On, intercept::Interceptor},
    log::LoggedRequest,
    registry::kind::means,
    select::selected_name,
};

/// Identifies an injected fault or an interceptor, for [`ApiServer::remove_fault`](crate::ApiServer::remove_fault) and
/// [`ApiServer::fault_hits`](crate::ApiServer::fault_hits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FaultId(u64);

/// All rules, in the order in which they were injected.
pub(crate) struct Plan {
    rules: Vec<Rule>,
    seed: u64,
    made: u64,
}

struct Rule {
    id: FaultId,
    on: On,
    effect: Effect,
    /// The number of matching requests.
    met: usize,
    /// The number of requests that the rule hit.
    struck: usize,
    /// Each rule has its own random generator, so that another rule does not change which requests this one hits.
    chance: fastrand::Rng,
}

/// What a rule does with the requests that it hits.
#[derive(Clone)]
pub(crate) enum Effect {
    Fault(Fault),
    Intercept(Interceptor),
}

/// The faults and interceptors that hit one request.
#[derive(Default)]
pub(crate) struct Hits {
    pub(crate) faults: Vec<Fault>,
    pub(crate) interceptors: Vec<Interceptor>,
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Self {
        Self { rules: Vec::new(), seed, made: 0 }
    }

    pub(crate) fn add(&mut self, on: On, effect: Effect) -> FaultId {
        let id = FaultId(self.made);
        self.made += 1;
        let chance = fastrand::Rng::with_seed(self.seed ^ id.0.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        self.rules.push(Rule { id, on, effect, met: 0, struck: 0, chance });
        id
    }

    pub(crate) fn remove(&mut self, id: FaultId) {
        self.rules.retain(|rule| rule.id != id);
    }

    pub(crate) fn clear(&mut self) {
        self.rules.clear();
    }

    /// The number of requests that a rule has hit; `None` if the rule was removed.
    pub(crate) fn struck(&self, id: FaultId) -> Option<usize> {
        self.rules.iter().find(|rule| rule.id == id).map(|rule| rule.struck)
    }

    /// Counts a request in every rule that matches it, and returns what hits it.
    pub(crate) fn strike(&mut self, request: &LoggedRequest) -> Hits {
        let mut hits = Hits::default();
        for rule in self.rules.iter_mut().filter_map(|rule| rule.strike(request).then_some(&rule.effect)) {
            match rule {
                Effect::Fault(fault) => hits.faults.push(fault.clone()),
                Effect::Intercept(interceptor) => hits.interceptors.push(interceptor.clone()),
            }
        }
        hits
    }
}

impl Rule {
    fn strike(&mut self, request: &LoggedRequest) -> bool {
        let is_concerned = match &self.effect {
            Effect::Fault(fault) => fault.concerns(request.verb, request.token.is_some()),
            Effect::Intercept(_) => true,
        };
        let fits = is_concerned && self.on.selects(request);
        if !fits || self.on.times.is_some_and(|times| self.struck >= times) {
            return false;
        }
        self.met += 1;
        let strikes = self.met > self.on.skip && self.chance.f64() < self.on.probability;
        self.struck += usize::from(strikes);
        strikes
    }
}

impl On {
    fn selects(&self, request: &LoggedRequest) -> bool {
        let is_named = |name: &String| {
            request.name == *name || selected_name(&request.field_selector).is_some_and(|selected| selected == *name)
        };
        self.verbs.as_ref().is_none_or(|verbs| verbs.contains(&request.verb))
            && self.resource.as_ref().is_none_or(|name| means(name, &request.resource))
            && self.namespace.as_ref().is_none_or(|namespace| request.namespace == *namespace)
            && self.name.as_ref().is_none_or(is_named)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::http::request::ApiRequest;

    const LIST: &str = "/api/v1/pods";

    fn get(uri: &str) -> LoggedRequest {
        let (parts, ()) = http::Request::get(uri).body(()).unwrap().into_parts();
        let request = ApiRequest::read(&parts.method, &parts.uri).unwrap();
        LoggedRequest::new(Duration::ZERO, &parts, Some(&request))
    }

    fn strikes(on: On, requests: &[&str]) -> String {
        let mut plan = Plan::new(7);
        plan.add(on, Effect::Fault(Fault::Refuse));
        requests.iter().map(|uri| if plan.strike(&get(uri)).faults.is_empty() { '.' } else { 'x' }).collect()
    }

    #[test]
    fn a_rule_strikes_by_verb_and_kind() {
        let requests = [
            LIST,
            "/api/v1/pods?watch=1",
            "/api/v1/pods?watch=1&sendInitialEvents=true",
            "/apis/apps/v1/deployments?watch=1",
            "/version",
        ];

        assert_eq!(strikes(On::any(), &requests), "xxxxx");
        assert_eq!(strikes(On::watch(), &requests), ".xxx.");
        assert_eq!(strikes(On::watch_list(), &requests), "..x..");
        assert_eq!(strikes(On::any().of("pods"), &requests), "xxx..");
        assert_eq!(strikes(On::any().of("deployments"), &requests), "...x.");
        assert_eq!(strikes(On::list().of("deployments.apps"), &requests), ".....");
    }

    #[test]
    fn a_rule_strikes_by_namespace_and_name() {
        let requests = [
            LIST,
            "/api/v1/namespaces/bank/pods",
            "/api/v1/namespaces/bank/pods/web/status",
            "/api/v1/namespaces/shop/pods/web",
            "/api/v1/namespaces/shop/pods/web-2",
            "/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3Da,metadata.name%3D%3Dweb",
            "/api/v1/pods?fieldSelector=metadata.name!%3Dweb",
        ];

        assert_eq!(strikes(On::any().in_namespace("bank"), &requests), ".xx....");
        assert_eq!(strikes(On::any().named("web"), &requests), "..xx.x.");
        assert_eq!(strikes(On::any().in_namespace("bank").named("web"), &requests), "..x....");
        assert_eq!(strikes(On::watch().named("web"), &requests), ".....x.");
    }

    #[test]
    fn a_rule_counts_the_requests_that_fit() {
        let requests = [LIST; 5];

        assert_eq!(strikes(On::list().once(), &requests), "x....");
        assert_eq!(strikes(On::list().skip(1).times(2), &requests), ".xx..");
        assert_eq!(strikes(On::list().skip(3), &requests), "...xx");
    }

    #[test]
    fn chance_is_repeated_by_its_seed() {
        let requests = [LIST; 40];
        let run = strikes(On::any().with_probability(0.5), &requests);

        assert_eq!(run, strikes(On::any().with_probability(0.5), &requests));
        assert!(run.contains('x') && run.contains('.'));
        assert_eq!(strikes(On::any().with_probability(0.0), &requests), ".".repeat(40));
    }

    #[test]
    fn one_more_rule_changes_nothing_for_the_others() {
        let run = |more: bool| {
            let mut plan = Plan::new(7);
            let rule = plan.add(On::any().with_probability(0.5), Effect::Fault(Fault::Refuse));
            if more {
                plan.add(On::any().with_probability(0.5), Effect::Fault(Fault::Hang));
            }
            let mut struck = Vec::new();
            for _ in 0..40 {
                plan.strike(&get(LIST));
                struck.push(plan.struck(rule));
            }
            struck
        };

        assert_eq!(run(false), run(true));
    }

    #[test]
    fn a_request_that_a_fault_cannot_concern_does_not_count() {
        let mut plan = Plan::new(7);
        let rule = plan.add(On::list().once(), Effect::Fault(Fault::ExpireToken));

        assert_eq!(plan.strike(&get(LIST)).faults, []);
        assert_eq!(plan.struck(rule), Some(0));
        assert_eq!(plan.strike(&get("/api/v1/pods?continue=x")).faults, [Fault::ExpireToken]);
    }
}

//! The faults that the server injects in the demo.

use std::time::Duration;

use clap::ValueEnum;
use informant_apiserver::{ApiServer, CutAfter, Fault, LoggedRequest, On, Verb};

use super::scenario::SHARE_OF_NODES;

/// How many faults are injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FaultLevel {
    /// No faults
    None,
    /// Cut watches, one expired version, one 429 (Too Many Requests)
    Some,
    /// Every watch is cut soon, and about 40 % of all requests fail, in five ways
    Storm,
}

impl FaultLevel {
    /// Adds faults for requests for pods and nodes. `changes` is the approximate number of changes in the whole run.
    pub fn inject(self, server: &ApiServer, changes: f64) {
        let pods = WatchedKind { server, kind: "pods", changes: changes * (1.0 - SHARE_OF_NODES) };
        let nodes = WatchedKind { server, kind: "nodes", changes: changes * SHARE_OF_NODES };
        match self {
            Self::None => {}
            Self::Some => {
                // The first watch is cut after a tenth of the changes; the next one gets 410; the list after that gets 429.
                pods.inject(On::watch().once(), Fault::cut_after_events(pods.first_list() + pods.part(10)));
                pods.inject(On::watch().skip(1).once(), Fault::status(410));
                pods.inject(On::any().skip(2).once(), Fault::too_many_requests(Duration::from_secs(1)));
                nodes.inject(On::watch().once(), Fault::cut_after_events(nodes.first_list() + nodes.part(5)));
            }
            Self::Storm => {
                for kind in [pods, nodes] {
                    let part = kind.part(20);
                    // A streamed list is completed before its watch is cut.
                    kind.inject(On::watch_list(), Fault::cut_after_events(kind.first_list() + part));
                    kind.inject(On::verbs([Verb::Watch]), Fault::cut_after_events(part));
                    let often = |fault| kind.inject(On::any().with_probability(0.1), fault);
                    often(Fault::status(410));
                    often(Fault::status(503));
                    often(Fault::too_many_requests(Duration::from_secs(1)));
                    often(Fault::Drop);
                    often(Fault::Truncate);
                }
            }
        }
    }
}

/// Describes the fault of a request: `pods: the server answers 410, the version has expired`. `None` if it has none.
pub fn describe(request: &LoggedRequest) -> Option<String> {
    let fault = request.faults.iter().min_by_key(|fault| rank(fault))?;
    let what = if let Fault::Drop = fault {
        "the connection is closed without an answer".to_owned()
    } else if let Fault::Status { code, .. } = fault {
        answered(*code)
    } else if let Fault::Truncate = fault {
        "the answer is cut off in the middle".to_owned()
    } else if let Fault::Cut { after: CutAfter::Events(events), .. } = fault {
        format!("the open watch is cut after {events} events")
    } else {
        format!("{fault:?}")
    };
    Some(format!("{}: {what}", request.resource))
}

fn answered(code: u16) -> String {
    let meaning = match code {
        410 => ", the version has expired",
        429 => ", too many requests",
        503 => ", unavailable",
        _ => "",
    };
    format!("the server answers {code}{meaning}")
}

/// The precedence of a fault; of several faults, the client observes the one with the lowest rank.
fn rank(fault: &Fault) -> u8 {
    if let Fault::Drop = fault {
        0
    } else if let Fault::Status { .. } = fault {
        1
    } else if let Fault::Truncate = fault {
        2
    } else {
        3
    }
}

/// A kind that an informer watches while it changes.
struct WatchedKind<'a> {
    server: &'a ApiServer,
    kind: &'static str,
    /// The approximate number of changes in the whole run.
    changes: f64,
}

impl WatchedKind<'_> {
    fn inject(&self, on: On, fault: Fault) {
        self.server.inject(on.of(self.kind), fault);
    }

    /// The number of events in a streamed list.
    fn first_list(&self) -> usize {
        self.server.count(self.kind).unwrap_or_default() + 1
    }

    /// The n-th part of the changes, limited so that faults occur even if the machine is too slow for the load.
    fn part(&self, of: usize) -> usize {
        ((self.changes / of as f64) as usize).clamp(2, 500)
    }
}

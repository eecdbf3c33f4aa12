//! What goes wrong in the demo.

use std::time::Duration;

use clap::ValueEnum;
use informant_apiserver::ApiServer;
use informant_apiserver::CutAfter;
use informant_apiserver::Fault;
use informant_apiserver::LoggedRequest;
use informant_apiserver::On;
use informant_apiserver::Verb;

use super::world::SHARE_OF_NODES;

/// How much goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Faults {
    /// Nothing
    None,
    /// Watches break, one expires, the server is busy once
    Some,
    /// Every watch breaks soon, and one request in ten fails in each of five ways
    Storm,
}

impl Faults {
    /// Has the server do it to the requests for pods and nodes. About so many changes come in the whole time.
    pub fn inject(self, server: &ApiServer, changes: f64) {
        let pods = Followed { server, kind: "pods", changes: changes * (1.0 - SHARE_OF_NODES) };
        let nodes = Followed { server, kind: "nodes", changes: changes * SHARE_OF_NODES };
        match self {
            Self::None => {}
            Self::Some => {
                // The first watch breaks after a tenth; then its version has expired; then the server is busy.
                pods.inject(On::watch().once(), Fault::cut_after_events(pods.first_list() + pods.part(10)));
                pods.inject(On::watch().skip(1).once(), Fault::status(410));
                pods.inject(On::any().skip(2).once(), Fault::too_many_requests(Duration::from_secs(1)));
                nodes.inject(On::watch().once(), Fault::cut_after_events(nodes.first_list() + nodes.part(5)));
            }
            Self::Storm => {
                for followed in [pods, nodes] {
                    let part = followed.part(20);
                    // A streamed list is to come to its end before its watch breaks.
                    followed.inject(On::watch_list(), Fault::cut_after_events(followed.first_list() + part));
                    followed.inject(On::verbs([Verb::Watch]), Fault::cut_after_events(part));
                    let often = |fault| followed.inject(On::any().with_probability(0.1), fault);
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

/// What the server does to a request, in words: `pods: the server answers 410, the version has expired`. `None` if nothing.
pub fn described(request: &LoggedRequest) -> Option<String> {
    let fault = request.faults.iter().min_by_key(|fault| rank(fault))?;
    let what = if let Fault::Drop = fault {
        "the connection is closed without an answer".to_owned()
    } else if let Fault::Status { code, .. } = fault {
        answered(*code)
    } else if let Fault::Truncate = fault {
        "the answer ends in the middle".to_owned()
    } else if let Fault::Cut { after: CutAfter::Events(events), .. } = fault {
        format!("the open watch breaks after {events} events")
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

/// Of several faults, the lowest is the one that the client sees.
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

/// A kind that is followed while it changes.
struct Followed<'a> {
    server: &'a ApiServer,
    kind: &'static str,
    /// About so many come in the whole time.
    changes: f64,
}

impl Followed<'_> {
    fn inject(&self, on: On, fault: Fault) {
        self.server.inject(on.of(self.kind), fault);
    }

    /// How many events a streamed list begins with.
    fn first_list(&self) -> usize {
        self.server.count(self.kind).unwrap_or_default() + 1
    }

    /// One in so many of its changes. A machine may not keep up with the load, and faults are to be seen all the same.
    fn part(&self, of: usize) -> usize {
        ((self.changes / of as f64) as usize).clamp(2, 500)
    }
}

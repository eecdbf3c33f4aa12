//! What goes wrong in the demo.

use std::time::Duration;

use clap::ValueEnum;
use informant_apiserver::ApiServer;
use informant_apiserver::Fault;
use informant_apiserver::On;
use informant_apiserver::Verb;

use super::world::NODES;

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
    /// Has the server do it to the requests for pods and nodes. About so many events come in the whole time.
    pub fn inject(self, server: &ApiServer, events: u64) {
        let events = usize::try_from(events).unwrap_or(usize::MAX);
        // A machine may not keep up with the load, and faults are to be seen all the same.
        let part = |of: usize| (events / of).clamp(10, 500);
        match self {
            Self::None => {}
            Self::Some => {
                // The first watch breaks after a tenth; then its version has expired; then the server is busy.
                server.inject(On::watch().of("pods").once(), Fault::cut_after_events(first_list(server) + part(10)));
                server.inject(On::watch().of("pods").skip(1).once(), Fault::status(410));
                server.inject(On::any().of("pods").skip(2).once(), Fault::too_many_requests(Duration::from_secs(1)));
                server.inject(On::watch().of("nodes").once(), Fault::cut_after_events(NODES + part(20)));
            }
            Self::Storm => {
                for kind in ["pods", "nodes"] {
                    // A streamed list is to come to its end before its watch breaks.
                    server.inject(On::watch_list().of(kind), Fault::cut_after_events(first_list(server) + part(20)));
                    server.inject(On::verbs([Verb::Watch]).of(kind), Fault::cut_after_events(part(20)));
                    let often = |fault| server.inject(On::any().of(kind).with_probability(0.1), fault);
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

/// How many events a streamed list begins with.
fn first_list(server: &ApiServer) -> usize {
    server.count("pods").unwrap_or_default() + 1
}

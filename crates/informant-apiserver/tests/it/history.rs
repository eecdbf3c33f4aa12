//! Random histories: each watch sends exactly the changes since its start, in order.

use std::{collections::BTreeMap, time::Duration};

use informant_apiserver::ApiServer;
use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use crate::{
    random,
    support::{Lines, Web, version},
};

/// Namespace, name, and the value of the label.
#[derive(Clone, Debug)]
enum Op {
    Put {
        object: usize,
        tier: usize,
    },
    Delete {
        object: usize,
    },
    /// Starts a watch at this fraction of the history; `None` for a watch that starts with the current objects.
    Watch {
        from: Option<f64>,
        choice: Choice,
    },
    /// One of the watches reads all available events.
    Read {
        watch: usize,
    },
    Compact,
}

/// The objects that a watch selects.
#[derive(Clone, Copy, Debug)]
enum Choice {
    All,
    Namespace,
    Tier(usize),
    Name,
}

const OBJECTS: usize = 6;

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let choice = prop_oneof![
        Just(Choice::All),
        Just(Choice::Namespace),
        (0..3_usize).prop_map(Choice::Tier),
        Just(Choice::Name)
    ];
    let op = prop_oneof![
        8 => (0..OBJECTS, 0..3_usize).prop_map(|(object, tier)| Op::Put { object, tier }),
        4 => (0..OBJECTS).prop_map(|object| Op::Delete { object }),
        2 => (proptest::option::of(0.0..=1.0), choice).prop_map(|(from, choice)| Op::Watch { from, choice }),
        2 => (0..8_usize).prop_map(|watch| Op::Read { watch }),
        1 => Just(Op::Compact),
    ];
    vec(op, 1..60)
}

fn key(object: usize) -> (String, String) {
    (format!("team-{}", object % 2), format!("map-{object}"))
}

impl Choice {
    fn path(self) -> &'static str {
        match self {
            Self::Namespace => "/api/v1/namespaces/team-1/configmaps",
            Self::All | Self::Tier(_) | Self::Name => "/api/v1/configmaps",
        }
    }

    fn query(self) -> String {
        match self {
            Self::All | Self::Namespace => String::new(),
            Self::Tier(tier) => format!("labelSelector=tier%3D{tier}"),
            Self::Name => "fieldSelector=metadata.name%3Dmap-2".into(),
        }
    }

    fn matches(self, object: usize, tier: usize) -> bool {
        match self {
            Self::All => true,
            Self::Namespace => object % 2 == 1,
            Self::Tier(wanted) => tier == wanted,
            Self::Name => object == 2,
        }
    }
}

/// The model of the server: all changes.
#[derive(Default)]
struct Model {
    /// Version, object, and its tier since that version; `None` if the object was deleted.
    past: Vec<(u64, usize, Option<usize>)>,
}

impl Model {
    /// The state at a version.
    fn state(&self, at: u64) -> BTreeMap<usize, usize> {
        let mut state = BTreeMap::new();
        for (_, object, tier) in self.past.iter().filter(|(version, _, _)| *version <= at) {
            match tier {
                Some(tier) => state.insert(*object, *tier),
                None => state.remove(object),
            };
        }
        state
    }

    /// The expected events of a watch of these objects after a version.
    fn events(&self, after: u64, choice: Choice) -> Vec<ReceivedEvent> {
        let mut state = self.state(after);
        let mut events = Vec::new();
        for (version, object, tier) in self.past.iter().filter(|(version, _, _)| *version > after) {
            let matched = state.get(object).is_some_and(|tier| choice.matches(*object, *tier));
            let matches = tier.is_some_and(|tier| choice.matches(*object, tier));
            let kind = match (matched, matches) {
                (false, false) => None,
                (false, true) => Some("ADDED"),
                (true, true) => Some("MODIFIED"),
                (true, false) => Some("DELETED"),
            };
            events.extend(kind.map(|kind| (kind.to_owned(), *object, *version)));
            match tier {
                Some(tier) => state.insert(*object, *tier),
                None => state.remove(object),
            };
        }
        events
    }
}

/// Type, object, version.
type ReceivedEvent = (String, usize, u64);

/// A watch, and all events that it has sent.
struct Follower {
    lines: Lines,
    choice: Choice,
    start: u64,
    /// The expected initial objects, if the watch starts with them.
    initial: Vec<usize>,
    received: Vec<ReceivedEvent>,
}

impl Follower {
    /// Reads all available events. The clock is paused, so the timeout takes no real time.
    async fn read(&mut self) {
        while let Ok(Ok(Some(event))) = tokio::time::timeout(Duration::from_millis(1), self.lines.try_next()).await {
            self.received.push(received(&event));
        }
    }
}

fn received(event: &Value) -> ReceivedEvent {
    let object = &event["object"];
    let number = object["metadata"]["name"].as_str().unwrap().trim_start_matches("map-").parse().unwrap();
    (event["type"].as_str().unwrap().to_owned(), number, version(object))
}

#[test]
fn every_watch_tells_exactly_what_happened_since_its_start() {
    random::check(600, ops(), |ops| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(run(ops));
    });
}

async fn run(ops: Vec<Op>) {
    let server = ApiServer::new();
    let web = Web::in_process(&server);
    let (mut model, mut followers, mut compacted) = (Model::default(), Vec::<Follower>::new(), server.version());
    for (step, op) in ops.into_iter().enumerate() {
        match op {
            Op::Put { object, tier } => {
                let (namespace, name) = key(object);
                let metadata = json!({"namespace": namespace, "name": name, "labels": {"tier": tier.to_string()}});
                let stored =
                    server.put("configmaps", json!({"metadata": metadata, "data": {"step": step.to_string()}}));
                model.past.push((version(&stored.unwrap()), object, Some(tier)));
            }
            Op::Delete { object } => {
                let (namespace, name) = key(object);
                match server.delete("configmaps", &format!("{namespace}/{name}")) {
                    Ok(deleted) => model.past.push((version(&deleted), object, None)),
                    Err(error) => assert_eq!(error.code(), 404),
                }
            }
            Op::Compact => {
                server.compact();
                compacted = server.version();
            }
            Op::Watch { from: None, choice } => {
                let start = server.version();
                let lines = web.watch(choice.path(), &choice.query()).await;
                let state = model.state(start).into_iter();
                let initial = state.filter(|(object, tier)| choice.matches(*object, *tier)).map(|(object, _)| object);
                followers.push(Follower { lines, choice, start, initial: initial.collect(), received: Vec::new() });
            }
            Op::Watch { from: Some(part), choice } => {
                let range = server.version() - compacted;
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    clippy::cast_precision_loss,
                    reason = "small numbers"
                )]
                let start = compacted + (range as f64 * part) as u64;
                let lines = web.watch(choice.path(), &format!("resourceVersion={start}&{}", choice.query())).await;
                followers.push(Follower { lines, choice, start, initial: Vec::new(), received: Vec::new() });
            }
            Op::Read { watch } => {
                if let Some(follower) = followers.get_mut(watch) {
                    follower.read().await;
                }
            }
        }
    }

    for follower in &mut followers {
        follower.read().await;
        let (initial, changes) = follower.received.split_at(follower.initial.len());
        let mut began_with = initial.iter().map(|(kind, object, _)| (kind.as_str(), *object)).collect::<Vec<_>>();
        began_with.sort_unstable();
        let expected = follower.initial.iter().map(|object| ("ADDED", *object)).collect::<Vec<_>>();
        assert_eq!(began_with, expected);
        assert_eq!(changes, model.events(follower.start, follower.choice), "in order, none missing, none twice");
    }
    let listed = server.list("configmaps").unwrap();
    assert_eq!(listed.len(), model.state(server.version()).len());
    assert_eq!(server.open_watches("configmaps"), followers.len());
    lists_agree(&web, &model, compacted, server.version()).await;
}

/// Every version in the history can be listed, in pages and as a whole.
async fn lists_agree(web: &Web, model: &Model, from: u64, to: u64) {
    for at in from.max(2)..=to {
        let path = format!("/api/v1/configmaps?resourceVersion={at}&resourceVersionMatch=Exact&limit=2");
        let mut page = web.get(&path).await;
        let mut listed = BTreeMap::new();
        loop {
            for item in page.body["items"].as_array().unwrap() {
                let number = item["metadata"]["name"].as_str().unwrap().trim_start_matches("map-").parse().unwrap();
                let tier = item["metadata"]["labels"]["tier"].as_str().unwrap().parse().unwrap();
                assert_eq!(listed.insert(number, tier), None, "no object twice");
            }
            assert_eq!(page.version(), at);
            match page.text("/metadata/continue") {
                "" => break,
                token => page = web.get(&format!("/api/v1/configmaps?limit=2&continue={token}")).await,
            }
        }
        assert_eq!(listed, model.state(at), "at version {at}");
    }
}

//! Many random changes, after which caches and handlers agree with the server.

use std::collections::BTreeSet;

use informant::Cached;
use tokio::time::timeout;

use super::{
    cluster::{Cluster, LONG},
    pod_types::PodType,
    pods::in_cache,
};
use crate::{
    random,
    support::{
        informers::{Probe, wait_until},
        show_objects,
    },
};

super::for_every_pod_type!(a_storm_of_changes_ends_with_caches_and_handlers_that_agree_with_the_server);

const APPS: [&str; 4] = ["web", "db", "api", "cache"];
const NODES: [&str; 3] = ["n1", "n2", "n3"];

/// P1, P2, P4, P6
#[expect(clippy::print_stderr, reason = "a failing test shows the seed")]
async fn a_storm_of_changes_ends_with_caches_and_handlers_that_agree_with_the_server<F: PodType>() {
    let steps = proptest::collection::vec((0..12_usize, 0..APPS.len(), 0..NODES.len(), 0..4_u32), 150);
    let (steps, seed) = random::one(&steps);
    eprintln!("repeat with INFORMANT_SEED={seed}");
    let cluster = Cluster::start().await;
    let pods = cluster.namespace("shop").await;
    let factory = cluster.factory();
    let informer = factory.request::<F>().in_namespace(&pods.namespace).informer().unwrap();
    let by_node = informer.add_index("node", |pod: &Cached<F>| pod.seen().node).unwrap();
    let (early, late) = (Probe::new(), Probe::new());
    informer.subscribe().handler(early.handler()).unwrap();
    factory.start();

    let mut alive = BTreeSet::new();
    for (step, (pod, app, node, what)) in steps.into_iter().enumerate() {
        let (name, app, node) = (format!("pod-{pod:02}"), APPS[app], NODES[node]);
        match (alive.contains(&name), what) {
            (false, _) => {
                pods.create(&name, node, app).await;
                alive.insert(name);
            }
            (true, 0) => {
                pods.delete(&name).await;
                alive.remove(&name);
            }
            (true, _) => drop(pods.label(&name, app).await),
        }
        if step == 75 {
            informer.subscribe().handler(late.handler()).unwrap();
        }
    }

    let on_server = pods.on_server().await;
    let caught_up = async { wait_until(|| in_cache(&informer.lister()) == on_server).await };
    timeout(LONG, caught_up).await.unwrap();
    let cached = show_objects(informer.lister().list());
    wait_until(|| early.known() == cached && late.known() == cached).await;
    for node in NODES {
        let expected = on_server.values().filter(|(_, seen)| seen.node.as_deref() == Some(node)).count();
        assert_eq!(by_node.count(node), expected);
    }
    factory.stop().await.unwrap();
}

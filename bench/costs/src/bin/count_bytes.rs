//! Prints the bytes that are allocated for each pod: after the first list, after a change of each, and by relists.
#![allow(clippy::print_stdout, reason = "the figures are the result")]
#![allow(clippy::unwrap_used, reason = "a benchmark may stop")]

use std::time::Duration;

use allocation_counter::measure;
use informant::{Lazy, OfKind, SharedInformer, index};
use informant_costs::{PODS, Stage, relists::Relists};
use k8s_openapi::api::core::v1::Pod;

/// Prints the bytes of an informer and its cache, divided by the number of pods.
fn print<O: OfKind>(name: &str, is_packed: bool, add_indexes: impl Fn(&SharedInformer<O>)) {
    let stage = Stage::<O>::new(is_packed);
    add_indexes(&stage.pods);
    let listed = measure(|| stage.runtime.block_on(stage.list()));
    let followed = measure(|| stage.runtime.block_on(stage.follow()));
    let each = |bytes: i64| bytes / PODS as i64;
    println!("{name}, bytes per object: {}", each(listed.bytes_current));
    println!("{name}, bytes per object at the peak of the list: {}", each(listed.bytes_max as i64));
    println!("{name}, bytes per object after the events: {}", each(listed.bytes_current + followed.bytes_current));
}

/// Prints the most bytes of an informer of packed pods while a restored server is listed, divided by the number of pods.
fn print_restore() {
    let relists = Relists { pods: PODS, relists: 1, changes: 100, restores: true };
    let stage = relists.stage(0);
    let restored = measure(|| {
        stage.runtime.block_on(async {
            stage.factory.start();
            stage.factory.synced().await.unwrap();
            while stage.pods.status().source.lists < 2 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
    });
    println!(
        "packed, bytes per object at the peak of the list of a restored server: {}",
        restored.bytes_max / PODS as u64
    );
}

/// Prints how many bytes are allocated for 20,000 pods with a budget of 64 MB, after ten relists with changes between them, when what can be
/// packed is packed.
fn print_budget() {
    const BUDGET: usize = 64_000_000;
    let relists = Relists { pods: 20_000, relists: 10, changes: 2000, restores: false };
    let stage = relists.stage(BUDGET);
    let relisted = measure(|| {
        stage.runtime.block_on(async {
            stage.factory.start();
            let last = (relists.version(relists.relists) as u64).into();
            stage.pods.caught_up_to(&last, Duration::from_secs(600)).await.unwrap();
            while stage.pods.status().bytes > BUDGET {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
    });
    println!("lazy with a budget of 64 MB, kB after ten relists of 20,000 pods: {}", relisted.bytes_current / 1000);
}

fn main() {
    let two_indexes = |pods: &SharedInformer<Lazy<Pod>>| {
        pods.add_index("app", index::label("app")).unwrap();
        pods.add_index("node", index::field("spec.nodeName").unwrap()).unwrap();
    };
    print::<Lazy<Pod>>("lazy", false, |_| {});
    print::<Lazy<Pod>>("lazy with two indexes", false, two_indexes);
    print::<Lazy<Pod>>("packed with two indexes", true, two_indexes);
    print::<Pod>("eager", false, |_| {});
    print_restore();
    print_budget();
}

//! Prints the bytes that are allocated for each pod, after the first list and after a change of each.
#![allow(clippy::print_stdout, reason = "the figures are the result")]
#![allow(clippy::unwrap_used, reason = "a benchmark may stop")]

use allocation_counter::measure;
use informant::{Lazy, OfKind, SharedInformer, index};
use informant_costs::{PODS, Stage};
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

fn main() {
    let two_indexes = |pods: &SharedInformer<Lazy<Pod>>| {
        pods.add_index("app", index::label("app")).unwrap();
        pods.add_index("node", index::field("spec.nodeName").unwrap()).unwrap();
    };
    print::<Lazy<Pod>>("lazy", false, |_| {});
    print::<Lazy<Pod>>("lazy with two indexes", false, two_indexes);
    print::<Lazy<Pod>>("packed with two indexes", true, two_indexes);
    print::<Pod>("eager", false, |_| {});
}

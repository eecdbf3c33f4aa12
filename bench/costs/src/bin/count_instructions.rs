//! Lists pods and follows their changes; valgrind counts the instructions of one of the two.
//!
//! usage: count_instructions lazy|packed|eager list|follow
#![allow(clippy::unwrap_used, reason = "a benchmark may stop")]

use std::pin::pin;

use informant::{Lazy, OfKind};
use informant_costs::{Stage, counted};
use k8s_openapi::api::core::v1::Pod;

fn run<O: OfKind>(phase: &str, is_packed: bool) {
    let stage = Stage::<O>::new(is_packed);
    match phase {
        "list" => counted(&stage.runtime, pin!(stage.list())),
        "follow" => {
            stage.runtime.block_on(stage.list());
            counted(&stage.runtime, pin!(stage.follow()));
        }
        other => panic!("no phase is called {other}"),
    }
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match &arguments[0][..] {
        "lazy" => run::<Lazy<Pod>>(&arguments[1], false),
        "packed" => run::<Lazy<Pod>>(&arguments[1], true),
        "eager" => run::<Pod>(&arguments[1], false),
        other => panic!("no object type is called {other}"),
    }
}

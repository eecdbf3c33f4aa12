//! The pods are what the measurements need.

use k8s_openapi::api::core::v1::Pod;

use crate::pods::Pods;

#[test]
fn pods_decode_and_are_in_the_order_of_their_keys() {
    let pods = Pods::new(2000, 30);
    let mut keys = Vec::new();
    for number in 0..pods.len() {
        let mut text = Vec::new();
        pods.write(number, 7, 1, &mut text);
        let pod: Pod = serde_json::from_slice(&text).unwrap();
        let name = |pod: &Pod| Some([pod.metadata.namespace.clone()?, pod.metadata.name.clone()?].join("/"));
        assert_eq!(name(&pod).unwrap(), pods.key(number));
        keys.push(pods.key(number));
    }

    assert!(keys.is_sorted_by(|a, b| a < b));
}

#[test]
fn a_restart_changes_a_small_part_of_a_pod() {
    let pods = Pods::new(2000, 30);
    let text = |restarts| {
        let mut text = Vec::new();
        pods.write(77, 7, restarts, &mut text);
        text
    };
    let (before, after) = (text(0), text(1));

    let changed = before.iter().zip(&after).filter(|(a, b)| a != b).count();
    assert!(before.len() == after.len() && (1..200).contains(&changed), "{changed}");
}

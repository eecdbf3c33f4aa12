//! `informant apiserver`, as other programs find it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use serde_json::json;

use crate::metrics::address;
use crate::metrics::page;
use crate::support::Running;
use crate::support::Server;
use crate::support::fresh_file;
use crate::support::run;
use crate::support::said;
use crate::support::text;

#[tokio::test]
async fn others_find_it_by_its_kubeconfig() {
    let file = fresh_file("kubeconfig");
    let path = file.to_str().unwrap();
    let server = Server::start(&["--kubeconfig-out", path]);
    server.put("prices", json!({})).await;

    assert_eq!(said(&["get", "cm", "-n", "shop", "-o", "name", "--kubeconfig", path]), "configmap/prices\n");
    assert_eq!(
        said(&["get", "ns", "-o", "name", "--kubeconfig", path, "--context", "informant"]),
        "namespace/default\n"
    );
    let from_environment =
        crate::support::informant().env("KUBECONFIG", path).args(["get", "ns", "-o", "name"]).output();
    assert_eq!(text(&from_environment.unwrap().stdout), "namespace/default\n");

    drop(server);
    let again = Server::start(&["--kubeconfig-out", path]);
    assert!(std::fs::read_to_string(&file).unwrap().contains(&again.url), "its own file is written anew");
}

/// A link leads to the file that is meant, and an empty file is nobody's.
#[cfg(unix)]
#[tokio::test]
async fn a_kubeconfig_is_written_where_a_link_leads() {
    let (file, link) = (fresh_file("linked-kubeconfig"), fresh_file("link-to-kubeconfig"));
    std::fs::write(&file, "").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();

    let server = Server::start(&["--kubeconfig-out", link.to_str().unwrap()]);

    assert!(link.is_symlink());
    assert!(std::fs::read_to_string(&file).unwrap().contains(&server.url));

    // Also if nothing is there yet.
    std::fs::remove_file(&file).unwrap();
    let again = Server::start(&["--kubeconfig-out", link.to_str().unwrap()]);
    assert!(link.is_symlink());
    assert!(std::fs::read_to_string(&file).unwrap().contains(&again.url));
}

#[test]
fn a_kubeconfig_that_cannot_be_written_is_said() {
    let nowhere = crate::support::nowhere().join("kubeconfig");
    for (file, said) in [
        (nowhere.to_str().unwrap(), "cannot be written: No such file"),
        (env!("CARGO_TARGET_TMPDIR"), "is there already"),
    ] {
        let output = run(&["apiserver", "--kubeconfig-out", file]);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains(said), "{output:?}");
        assert!(output.stdout.is_empty(), "it does not serve");
    }
}

#[test]
fn a_port_that_is_taken_is_said() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for option in ["--listen", "--metrics"] {
        let output = run(&["apiserver", option, &address]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1));
        assert!(said.contains(&address) && said.contains("is something else there?"), "{said}");
    }
}

#[test]
fn a_kubeconfig_of_others_is_not_written_over() {
    let file = fresh_file("foreign-kubeconfig");
    std::fs::write(&file, "apiVersion: v1\nkind: Config\n").unwrap();

    let output = run(&["apiserver", "--kubeconfig-out", file.to_str().unwrap(), "--metrics", "0"]);

    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("was not written by this command"), "{said}");
    assert_eq!(said.lines().count(), 1, "it is known before anything else begins: {said}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "apiVersion: v1\nkind: Config\n");
}

#[tokio::test]
async fn a_load_is_there_and_changes() {
    let server = Server::start(&["--load", "pods=30,nodes=3,configmaps=10,rate=100,namespaces=2", "--seed", "3"]);

    let count = |kind: &str| server.said(&["get", kind, "-A", "-o", "name"]).lines().count();
    assert!((15..=60).contains(&count("pods")) && (1..=6).contains(&count("nodes")) && (5..=20).contains(&count("cm")));
    assert_eq!(server.said(&["get", "ns", "-o", "name"]), "namespace/default\nnamespace/team-0\nnamespace/team-1\n");
    let changes = server.said(&["watch", "pods", "-A", "--no-initial", "--exit-after", "20", "-o", "name"]);
    assert_eq!(changes.lines().count(), 20);
}

#[tokio::test]
async fn the_same_seed_makes_the_same_changes() {
    // Which object each version is of, as far as it was seen.
    let changes = |seed: &str| {
        let server = Server::start(&["--load", "configmaps=50,rate=100", "--seed", seed]);
        let watching = server.watch(&["cm", "-A", "-o", "json", "--no-object"]);
        let events = (0..150).map(|_| watching.event()).filter(|event| event["type"] != "SYNCED");
        let of_version = |event: Value| Some((event["resourceVersion"].as_str()?.to_owned(), event["key"].to_string()));
        events.filter_map(of_version).collect::<BTreeMap<_, _>>()
    };
    let differing = |one: &BTreeMap<String, String>, other: &BTreeMap<String, String>| {
        let common = one.iter().filter_map(|(version, key)| Some((key, other.get(version)?)));
        let common: Vec<_> = common.collect();
        assert!(common.len() > 50, "they saw the same versions");
        common.iter().filter(|(one, other)| one != other).count()
    };

    let first = changes("1");
    assert_eq!(differing(&first, &changes("1")), 0);
    assert!(differing(&first, &changes("2")) > 0);
}

/// What the load was about to change, others may have deleted.
#[tokio::test]
async fn a_load_goes_on_when_others_delete_its_objects() {
    let server = Server::start(&["--load", "configmaps=20,rate=200,namespaces=1"]);
    let configs: kube::Api<k8s_openapi::api::core::v1::ConfigMap> = kube::Api::namespaced(
        kube::Client::try_from(kube::Config::new(server.url.parse().unwrap())).unwrap(),
        "team-0",
    );
    for _ in 0..10 {
        let all = kube::api::ListParams::default();
        configs.delete_collection(&kube::api::DeleteParams::default(), &all).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    let changes = server.said(&["watch", "cm", "-A", "--no-initial", "--exit-after", "50", "-o", "name"]);

    assert_eq!(changes.lines().count(), 50);
}

#[tokio::test]
async fn faults_come_on_command_and_are_survived() {
    let server = Server::start(&["--metrics", "0", "--load", "pods=20,rate=200", "--faults", "pods/watch=cut:60x2"]);

    let watching = server.watch(&["pods", "-A", "-o", "json", "--no-object"]);

    // Two watches broke before so many came.
    for _ in 0..200 {
        watching.event();
    }
    let (_, figures) = page(&address(&server.running), "GET /metrics");
    let watches = "informant_apiserver_requests_total{verb=\"watch\",resource=\"pods\"} 2\n";
    assert!(figures.contains(watches), "{figures}");
    for level in ["some", "storm"] {
        let server = Server::start(&["--load", "pods=20", "--faults", level, "--seed", "5"]);
        assert_eq!(
            server.said(&["watch", "pods", "-A", "--until-synced", "-o", "name"]).lines().count(),
            20,
            "{level}"
        );
    }
}

#[tokio::test]
async fn it_tells_of_each_request_to_who_wants_that() {
    let server = Server::start(&["-vv"]);

    server.said(&["get", "ns", "-o", "name"]);

    server.running.complains_of("request=WL(\"\") kind=\"namespaces\"");
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_it_well_and_it_says_nothing_but_its_url() {
    for signal in ["INT", "TERM", "INT", "TERM"] {
        let mut running = Running::start(&["apiserver", "--load", "pods=10,rate=10"]);
        assert!(running.line().starts_with("http://127.0.0.1:"));

        running.signal(signal);

        assert!(running.wait().success(), "{signal}");
        assert!(running.rest().is_empty());
    }
}

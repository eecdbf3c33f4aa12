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
        said(&["get", "ns", "default", "-o", "name", "--kubeconfig", path, "--context", "informant"]),
        "namespace/default\n"
    );
    let from_environment =
        crate::support::informant().env("KUBECONFIG", path).args(["get", "ns", "-o", "name"]).output();
    let cluster = "namespace/default\nnamespace/kube-node-lease\nnamespace/kube-public\nnamespace/kube-system\n";
    assert_eq!(text(&from_environment.unwrap().stdout), format!("{cluster}namespace/shop\n"));

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
        assert!(said.contains(&address) && said.contains("Address already in use"), "{said}");
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
    assert!((27..=33).contains(&count("pods")) && (2..=4).contains(&count("nodes")) && (9..=11).contains(&count("cm")));
    assert!(server.said(&["get", "ns", "-o", "name"]).ends_with("namespace/team-0\nnamespace/team-1\n"));
    let changes = server.said(&["watch", "pods", "-A", "--no-initial", "--exit-after", "20", "-o", "name"]);
    assert_eq!(changes.lines().count(), 20);
}

#[tokio::test]
async fn the_same_seed_makes_the_same_changes() {
    let version = |object: &Value| object["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    // Which object each change is of, as far as it was seen, counted from the first object of the load.
    let changes = |seed: &str| {
        let server = Server::start(&["--load", "configmaps=50,rate=200", "--seed", seed]);
        let first: Value = serde_json::from_str(&server.said(&["get", "ns", "team-0", "-o", "json"])).unwrap();
        let first = version(&first["metadata"]);
        let watching = server.watch(&["cm", "-A", "-o", "json", "--no-object"]);
        let events = std::iter::repeat_with(|| watching.event()).filter(|event| event["type"] != "SYNCED");
        let changes = events.map(|event| (version(&event) - first, event["key"].to_string()));
        changes.take_while(|(number, _)| *number < 1000).collect::<BTreeMap<_, _>>()
    };
    let differing = |one: &BTreeMap<u64, String>, other: &BTreeMap<u64, String>| {
        let common = one.iter().filter_map(|(number, key)| Some((key, other.get(number)?)));
        let common: Vec<_> = common.collect();
        assert!(common.len() > 50, "they saw the same changes");
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

/// What has the name that is used while it is written may be somebody's.
#[cfg(unix)]
#[test]
fn a_file_of_others_beside_the_kubeconfig_stays() {
    use std::os::unix::process::CommandExt;

    let file = fresh_file("kubeconfig-beside");
    let mut command = std::process::Command::new("bash");
    // The process stays the same when it becomes another program.
    let script = r#"echo mine > "$2.$$"; echo $$; exec "$1" apiserver --kubeconfig-out "$2""#;
    command.args(["-c", script, "bash", env!("CARGO_BIN_EXE_informant")]).arg(&file).process_group(0);
    let mut running = Running::spawn(&mut command);
    let beside = format!("{}.{}", file.display(), running.line());

    assert!(running.complaint().contains("cannot be written: File exists"));

    assert_eq!(running.wait().code(), Some(1));
    assert_eq!(std::fs::read_to_string(beside).unwrap(), "mine\n");
}

#[cfg(unix)]
#[test]
fn an_interrupt_while_the_load_is_made_ends_it() {
    let mut running = Running::start(&["apiserver", "--load", "pods=1000000", "--metrics", "0"]);
    assert!(running.complaint().contains("metrics at"));

    running.signal("INT");

    assert_eq!((running.wait().code(), running.rest()), (Some(130), vec![]));
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

//! `informant apiserver`, used by other programs.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};

use crate::{
    metrics::{address, page},
    support::{Running, Server, fresh_file, run, stdout_of, text},
};

#[tokio::test]
async fn clients_connect_with_the_written_kubeconfig() {
    let file = fresh_file("kubeconfig");
    let path = file.to_str().unwrap();
    let server = Server::start(&["--kubeconfig-out", path]);
    server.put("prices", json!({})).await;

    assert_eq!(stdout_of(&["get", "cm", "-n", "shop", "-o", "name", "--kubeconfig", path]), "configmap/prices\n");
    assert_eq!(
        stdout_of(&["get", "ns", "default", "-o", "name", "--kubeconfig", path, "--context", "informant"]),
        "namespace/default\n"
    );
    let from_environment =
        crate::support::informant().env("KUBECONFIG", path).args(["get", "ns", "-o", "name"]).output();
    let cluster = "namespace/default\nnamespace/kube-node-lease\nnamespace/kube-public\nnamespace/kube-system\n";
    assert_eq!(text(&from_environment.unwrap().stdout), format!("{cluster}namespace/shop\n"));

    drop(server);
    let again = Server::start(&["--kubeconfig-out", path]);
    assert!(
        std::fs::read_to_string(&file).unwrap().contains(&again.url),
        "a file that the command has written is overwritten"
    );
}

/// An empty file may be overwritten.
#[cfg(unix)]
#[tokio::test]
async fn a_kubeconfig_is_written_to_the_target_of_a_symbolic_link() {
    let (file, link) = (fresh_file("linked-kubeconfig"), fresh_file("link-to-kubeconfig"));
    std::fs::write(&file, "").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();

    let server = Server::start(&["--kubeconfig-out", link.to_str().unwrap()]);

    assert!(link.is_symlink());
    assert!(std::fs::read_to_string(&file).unwrap().contains(&server.url));

    // The target need not exist.
    std::fs::remove_file(&file).unwrap();
    let again = Server::start(&["--kubeconfig-out", link.to_str().unwrap()]);
    assert!(link.is_symlink());
    assert!(std::fs::read_to_string(&file).unwrap().contains(&again.url));
}

#[test]
fn a_kubeconfig_that_cannot_be_written_is_an_error() {
    let missing = crate::support::missing_folder().join("kubeconfig");
    for (file, message) in [
        (missing.to_str().unwrap(), "nowhere/kubeconfig: No such file"),
        (env!("CARGO_TARGET_TMPDIR"), "already exists"),
    ] {
        let output = run(&["apiserver", "--kubeconfig-out", file]);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains(message), "{output:?}");
        assert!(output.stdout.is_empty(), "the server does not start");
    }
}

#[test]
fn a_port_in_use_is_an_error() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for option in ["--listen", "--metrics"] {
        let output = run(&["apiserver", option, &address]);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1));
        assert!(message.contains(&address) && message.contains("already in use"), "{message}");
    }
}

#[test]
fn a_kubeconfig_of_another_program_is_not_overwritten() {
    let file = fresh_file("foreign-kubeconfig");
    std::fs::write(&file, "apiVersion: v1\nkind: Config\n").unwrap();

    let output = run(&["apiserver", "--kubeconfig-out", file.to_str().unwrap(), "--metrics", "0"]);

    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(message.contains("was not written by this command"), "{message}");
    assert_eq!(message.lines().count(), 1, "the file is checked before anything else starts: {message}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "apiVersion: v1\nkind: Config\n");
}

#[tokio::test]
async fn an_object_is_deleted_with_its_owner() {
    let server = Server::start(&[]);
    server.put("owner", json!({})).await;
    let owner = kube::Resource::owner_ref(&server.configs().get("owner").await.unwrap(), &());
    let owned = json!({"metadata": {"name": "owned", "ownerReferences": [owner]}});
    let owned = serde_json::from_value(owned).unwrap();
    server.configs().create(&kube::api::PostParams::default(), &owned).await.unwrap();

    server.delete("owner").await;

    assert!(server.configs().get_opt("owned").await.unwrap().is_none());
}

#[tokio::test]
async fn a_load_creates_and_changes_objects() {
    let server = Server::start(&["--load", "pods=30,nodes=3,configmaps=10,rate=100,namespaces=2", "--seed", "3"]);

    let count = |kind: &str| server.stdout_of(&["get", kind, "-A", "-o", "name"]).lines().count();
    assert!((27..=33).contains(&count("pods")) && (2..=4).contains(&count("nodes")) && (9..=11).contains(&count("cm")));
    assert!(server.stdout_of(&["get", "ns", "-o", "name"]).ends_with("namespace/team-0\nnamespace/team-1\n"));
    let changes = server.stdout_of(&["watch", "pods", "-A", "--no-initial", "--exit-after", "20", "-o", "name"]);
    assert_eq!(changes.lines().count(), 20);
}

#[tokio::test]
async fn the_same_seed_makes_the_same_changes() {
    let version = |object: &Value| object["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    // The key of each received change, by its version relative to the first object of the load.
    let changes = |seed: &str| {
        let server = Server::start(&["--load", "configmaps=50,rate=200", "--seed", seed]);
        let first: Value = serde_json::from_str(&server.stdout_of(&["get", "ns", "team-0", "-o", "json"])).unwrap();
        let first = version(&first["metadata"]);
        let watching = server.watch(&["cm", "-A", "-o", "json", "--no-object"]);
        let events = std::iter::repeat_with(|| watching.event()).filter(|event| event["type"] != "SYNCED");
        let changes = events.map(|event| (version(&event) - first, event["key"].to_string()));
        changes.take_while(|(number, _)| *number < 1000).collect::<BTreeMap<_, _>>()
    };
    let differing = |one: &BTreeMap<u64, String>, other: &BTreeMap<u64, String>| {
        let common = one.iter().filter_map(|(number, key)| Some((key, other.get(number)?)));
        let common: Vec<_> = common.collect();
        assert!(common.len() > 50, "enough versions were received by both");
        common.iter().filter(|(one, other)| one != other).count()
    };

    let first = changes("1");
    assert_eq!(differing(&first, &changes("1")), 0);
    assert!(differing(&first, &changes("2")) > 0);
}

#[tokio::test]
async fn a_load_continues_when_a_client_deletes_its_objects() {
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

    let changes = server.stdout_of(&["watch", "cm", "-A", "--no-initial", "--exit-after", "50", "-o", "name"]);

    assert_eq!(changes.lines().count(), 50);
}

#[tokio::test]
async fn a_watch_recovers_from_injected_faults() {
    let server = Server::start(&["--metrics", "0", "--load", "pods=20,rate=200", "--faults", "pods/watch=cut:60x2"]);

    let watching = server.watch(&["pods", "-A", "-o", "json", "--no-object"]);

    // Both cut watches have ended before this many events.
    for _ in 0..200 {
        watching.event();
    }
    let (_, metrics) = page(&address(&server.running), "GET /metrics");
    let watches = "informant_apiserver_requests_total{verb=\"watch\",resource=\"pods\"} 2\n";
    assert!(metrics.contains(watches), "{metrics}");
    for level in ["some", "storm"] {
        let server = Server::start(&["--load", "pods=20", "--faults", level, "--seed", "5"]);
        assert_eq!(
            server.stdout_of(&["watch", "pods", "-A", "--until-synced", "-o", "name"]).lines().count(),
            20,
            "{level}"
        );
    }
}

#[tokio::test]
async fn each_request_is_logged_with_vv() {
    let server = Server::start(&["-vv"]);

    server.stdout_of(&["get", "ns", "-o", "name"]);

    server.running.wait_for_message("request=WL(\"\") kind=\"namespaces\"");
}

/// The temporary file has a name that another program may use.
#[cfg(unix)]
#[test]
fn an_existing_file_with_the_temporary_name_is_kept() {
    use std::os::unix::process::CommandExt;

    let file = fresh_file("kubeconfig-beside");
    let mut command = std::process::Command::new("bash");
    // `exec` keeps the process id, which is part of the temporary name.
    let script = r#"echo mine > "$2.$$"; echo $$; exec "$1" apiserver --kubeconfig-out "$2""#;
    command.args(["-c", script, "bash", env!("CARGO_BIN_EXE_informant")]).arg(&file).process_group(0);
    let mut running = Running::spawn(&mut command);
    let beside = format!("{}.{}", file.display(), running.line());

    assert!(running.stderr_line().contains("File exists"));

    assert_eq!(running.wait().code(), Some(1));
    assert_eq!(std::fs::read_to_string(beside).unwrap(), "mine\n");
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_the_server_while_the_load_is_created() {
    let mut running = Running::start(&["apiserver", "--load", "pods=1000000", "--metrics", "0"]);
    assert!(running.stderr_line().contains("metrics at"));

    running.signal("INT");

    assert_eq!((running.wait().code(), running.rest()), (Some(130), vec![]));
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_the_server_and_stdout_has_only_the_url() {
    for signal in ["INT", "TERM", "INT", "TERM"] {
        let mut running = Running::start(&["apiserver", "--load", "pods=10,rate=10"]);
        assert!(running.line().starts_with("http://127.0.0.1:"));

        running.signal(signal);

        assert!(running.wait().success(), "{signal}");
        assert!(running.rest().is_empty());
    }
}

//! What can go wrong, and what is said then: one line with the cause and what to try, and exit code 1.

use std::io::BufRead;
use std::io::BufReader;
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;
use std::time::Instant;

use serde_json::json;

use crate::support::PATIENCE;
use crate::support::Running;
use crate::support::Server;
use crate::support::fresh_file;
use crate::support::informant;
use crate::support::nowhere;
use crate::support::run;
use crate::support::said;
use crate::support::text;

/// Runs it to its bad end; gives its one complaint.
fn complaint(arguments: &[&str]) -> String {
    let output = run(arguments);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
    assert!(output.stdout.is_empty(), "{arguments:?}: nothing but results on stdout");
    assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
    said.strip_prefix("informant: ").unwrap_or_else(|| panic!("{said}")).trim_end().to_owned()
}

fn assert_says(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in {said:?}");
    }
}

/// A port at which nobody listens.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn without_a_cluster_the_demo_and_a_server_are_offered() {
    for command in ["watch", "get"] {
        assert_says(
            &complaint(&[command, "pods"]),
            &["there is no cluster", "--kubeconfig", "--server", "informant demo"],
        );
    }
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let url = format!("http://127.0.0.1:{}", free_port());

    for command in ["watch", "get"] {
        let said = complaint(&[command, "pods", "--server", &url]);
        assert_says(&said, &[&format!("cannot list pods from {url}: "), "is the server running", "refused"]);
    }
    let said = complaint(&["watch", "widgets", "--server", &url]);
    assert_says(&said, &["\"widgets\"", &url, "refused", "is the server running"]);
}

#[test]
fn a_kubeconfig_that_cannot_be_used_is_said() {
    let missing = nowhere();
    let missing = missing.to_str().unwrap();
    assert_says(&complaint(&["get", "pods", "--kubeconfig", missing]), &[missing, "cannot be read", "No such file"]);

    let file = fresh_file("bad-kubeconfig");
    let path = file.to_str().unwrap();
    std::fs::write(&file, "token: hunter2\n- nonsense").unwrap();
    let said = complaint(&["watch", "pods", "--kubeconfig", path]);
    assert_says(&said, &[&format!("the kubeconfig {path} cannot be used"), "line 2"]);
    assert!(!said.contains("hunter2"), "what is in it may be secret: {said}");

    let context = json!({"name": "here", "context": {"cluster": "here", "user": "me"}});
    let cluster = json!({"name": "here", "cluster": {"server": "http://127.0.0.1:1"}});
    let kubeconfig = json!({"contexts": [context], "clusters": [cluster], "users": [{"name": "me", "user": {}}]});
    std::fs::write(&file, kubeconfig.to_string()).unwrap();
    let said = complaint(&["get", "pods", "--kubeconfig", path, "--context", "there"]);
    assert_says(&said, &["no context \"there\"", "it has here"]);
    assert_says(
        &complaint(&["get", "pods", "--kubeconfig", path]),
        &["no current context", "--context", "it has here"],
    );
}

#[test]
fn of_several_kubeconfigs_some_may_be_missing() {
    let file = fresh_file("one-kubeconfig");
    let context = json!({"name": "here", "context": {"cluster": "here", "user": "me"}});
    let cluster = json!({"name": "here", "cluster": {"server": "http://127.0.0.1:1"}});
    let users = json!([{"name": "me", "user": {}}]);
    let kubeconfig = json!({"contexts": [context], "clusters": [cluster], "users": users, "current-context": "here"});
    std::fs::write(&file, kubeconfig.to_string()).unwrap();
    let said = |files: &str| {
        let output = informant().env("KUBECONFIG", files).args(["get", "pods"]).output().unwrap();
        text(&output.stderr)
    };
    let (missing, file) = (nowhere(), file.to_str().unwrap().to_owned());
    let missing = missing.to_str().unwrap();

    assert_says(&said(&format!("{missing}:{file}")), &["cannot list pods from http://127.0.0.1:1: "]);
    assert_says(&said(missing), &[missing, "cannot be read"]);
    assert_says(&said(""), &["there is no cluster"]);
}

/// What a plugin is called with, and what it gives, may be secret.
#[cfg(unix)]
#[test]
fn a_credential_plugin_that_fails_is_named_and_its_complaint_is_said() {
    let file = fresh_file("plugin-kubeconfig");
    let complaint_with = |command: &str, arguments: &[&str]| {
        let exec = json!({"apiVersion": "client.authentication.k8s.io/v1", "command": command, "args": arguments, "interactiveMode": "Never"});
        let context = json!({"name": "here", "context": {"cluster": "here", "user": "me"}});
        let cluster = json!({"name": "here", "cluster": {"server": "https://127.0.0.1:1"}});
        let users = json!([{"name": "me", "user": {"exec": exec}}]);
        let kubeconfig =
            json!({"contexts": [context], "clusters": [cluster], "users": users, "current-context": "here"});
        std::fs::write(&file, kubeconfig.to_string()).unwrap();
        complaint(&["get", "pods", "--kubeconfig", file.to_str().unwrap()])
    };

    assert_says(&complaint_with("no-such-plugin", &[]), &["\"no-such-plugin\"", "No such file"]);
    let failed = complaint_with("sh", &["-c", "echo hunter2; echo log in first >&2; exit 3"]);
    assert_says(&failed, &["\"sh\"", "exit status: 3", "log in first"]);
    assert!(!failed.contains("hunter2"), "{failed}");
}

/// A kubeconfig for a server and a user.
fn kubeconfig(name: &str, server: &str, user: &serde_json::Value) -> std::path::PathBuf {
    let file = fresh_file(name);
    let context = json!({"name": "here", "context": {"cluster": "here", "user": "me", "namespace": "shop"}});
    let cluster = json!({"name": "here", "cluster": {"server": server}});
    let users = json!([{"name": "me", "user": user}]);
    let kubeconfig = json!({"contexts": [context], "clusters": [cluster], "users": users, "current-context": "here"});
    std::fs::write(&file, kubeconfig.to_string()).unwrap();
    file
}

fn plugin(script: &str) -> serde_json::Value {
    json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script], "interactiveMode": "Never"}})
}

/// Parsers show what they stumble over.
#[cfg(unix)]
#[test]
fn what_a_credential_plugin_prints_is_not_said() {
    let token =
        r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"hunter2"}"#;
    for (number, printed) in
        [format!("{token},}}}}"), format!("{token}}} {token}}}"), "hunter2: [".to_owned()].iter().enumerate()
    {
        let user = plugin(&format!("echo '{printed}'"));
        let file = kubeconfig(&format!("printing-{number}"), "https://127.0.0.1:1", &user);

        let said = complaint(&["get", "pods", "--kubeconfig", file.to_str().unwrap()]);

        assert_says(&said, &["from plugin \"sh\"", "is no ExecCredential"]);
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[cfg(unix)]
#[test]
fn credentials_that_cannot_be_sent_are_said_in_a_few_lines() {
    let printed =
        r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"hunter2\n"}}"#;
    let file = kubeconfig("unsendable", "https://127.0.0.1:1", &plugin(&format!("printf %s '{printed}'")));

    let output = run(&["get", "pods", "--kubeconfig", file.to_str().unwrap()]);

    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 2), "{said}");
    assert_says(&said, &["from plugin \"sh\": no client can be made with what it gave"]);
    assert!(!said.contains("hunter2"), "{said}");
}

/// It waits for somebody to log in, for example.
#[cfg(unix)]
#[test]
fn a_credential_plugin_is_not_waited_for_longer_than_somebody_wants() {
    // It says which process it is, and is ended by whoever has seen that.
    let started = |name: &str| {
        let place = fresh_file(name);
        let user = plugin(&format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 60", place.display()));
        (place, kubeconfig(&format!("{name}-kubeconfig"), "https://127.0.0.1:1", &user))
    };
    let end = |place: &std::path::Path| {
        let begun = Instant::now();
        while !place.exists() {
            assert!(begun.elapsed() < PATIENCE, "it has not begun");
            std::thread::sleep(Duration::from_millis(10));
        }
        let id = std::fs::read_to_string(place).unwrap();
        move || assert!(Command::new("kill").arg(id.trim()).status().unwrap().success())
    };

    let (place, file) = started("patient-plugin");
    let arguments = ["get", "pods", "--kubeconfig", file.to_str().unwrap(), "--sync-timeout", "500ms"];
    assert_says(&complaint(&arguments), &["plugin \"sh\" has given no credentials in 500ms"]);
    end(&place)();
    let (place, file) = started("interrupted-plugin");
    let mut running = Running::start(&["get", "pods", "--kubeconfig", file.to_str().unwrap()]);
    let end = end(&place);
    running.signal("INT");

    assert_eq!(running.wait().code(), Some(130));
    end();
}

/// As `kubectl` takes them.
#[tokio::test]
async fn a_server_without_a_scheme_and_a_token_with_an_end_of_line_will_do() {
    let server = Server::start(&[]);
    server.put("prices", json!({})).await;
    let address = server.url.strip_prefix("http://").unwrap();
    let token = fresh_file("token");
    std::fs::write(&token, "hunter2\n").unwrap();

    for (number, user) in [json!({}), json!({"token": "hunter2\n"}), json!({"tokenFile": token})].iter().enumerate() {
        let file = kubeconfig(&format!("careless-{number}"), address, user);
        assert_eq!(said(&["get", "cm", "-o", "name", "--kubeconfig", file.to_str().unwrap()]), "configmap/prices\n");
    }
    // A token is not sent to a server that is to show a certificate, and does not.
    let mut of_tls: serde_json::Value =
        serde_json::from_slice(&std::fs::read(kubeconfig("careful", address, &json!({"token": "hunter2"}))).unwrap())
            .unwrap();
    of_tls["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = json!(true);
    let file = fresh_file("of-tls");
    std::fs::write(&file, of_tls.to_string()).unwrap();
    let secure = complaint(&["get", "cm", "--kubeconfig", file.to_str().unwrap(), "--sync-timeout", "1s"]);
    assert_says(&secure, &[&format!("from https://{address}")]);
    let file = kubeconfig("two-lines", "https://127.0.0.1:1", &json!({"token": "hunter2\nhunter3"}));
    let said = complaint(&["get", "cm", "--kubeconfig", file.to_str().unwrap()]);
    assert_says(&said, &["the token has signs in it"]);
    assert!(!said.contains("hunter"), "{said}");
}

/// Also if that one would not be reached, or has a token that this one should not see.
#[test]
fn with_a_server_no_kubeconfig_is_read_and_no_credentials_are_sent() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", server.local_addr().unwrap());
    let file = fresh_file("not-read");
    std::fs::write(&file, "token: hunter2\n- nonsense").unwrap();
    let _running = Running::spawn(informant().env("KUBECONFIG", &file).args(["get", "ns", "--server", &url]));

    let (connection, _) = server.accept().unwrap();
    let head = BufReader::new(connection).lines().map(Result::unwrap).take_while(|line| !line.is_empty());
    let head = head.collect::<Vec<_>>().join("\n").to_lowercase();

    assert!(head.starts_with("get /api/v1/namespaces") && !head.contains("authorization"), "{head}");
}

/// Its versions are none that the one before had.
#[tokio::test]
async fn another_server_at_the_same_address_is_noticed() {
    let port = free_port().to_string();
    let mut server = Server::start(&["--listen", &port, "--load", "configmaps=50,namespaces=1"]);
    let watching = server.watch(&["cm", "-A", "-o", "json", "--no-object"]);
    while watching.event()["type"] != "SYNCED" {}

    server.running.kill();
    watching.complains_of("may be out of date");
    let _again = Server::start(&["--listen", &port, "--load", "configmaps=3,namespaces=1"]);

    let (mut deleted, mut replaced) = (0, 0);
    while deleted < 47 || replaced < 3 {
        let event = watching.event();
        match event["type"].as_str().unwrap() {
            "DELETED" if event["missed"] == true => deleted += 1,
            "UPDATED" | "ADDED" => replaced += 1,
            other => panic!("{other}: {event}"),
        }
    }
}

/// It accepts connections and says nothing.
#[test]
fn a_server_that_does_not_answer_is_not_waited_for_forever() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());

    let of_kind = |kind: &str| complaint(&["get", kind, "--server", &url, "--sync-timeout", "500ms"]);
    assert_says(&of_kind("widgets"), &["its list of kinds did not arrive within 500ms"]);
    assert_says(&of_kind("pods"), &["not synced after 500ms"]);
}

#[tokio::test]
async fn who_may_not_ask_for_kinds_is_told_so() {
    let server = Server::start(&["--faults", "any=403"]);

    let said = complaint(&["get", "widgets", "--server", &server.url]);

    assert_says(
        &said,
        &["\"widgets\" is no built-in kind", "the server says: ", "(Forbidden, 403) (may the client's user"],
    );
}

#[tokio::test]
async fn who_may_not_list_is_told_so() {
    let server = Server::start(&["--faults", "list=403,watch=403"]);

    for command in ["watch", "get"] {
        let said = complaint(&[command, "pods", "-n", "shop", "--server", &server.url]);
        assert_says(&said, &["cannot list pods from", "grant the client's user `list` and `watch`", "403"]);
    }
}

#[tokio::test]
async fn a_resource_that_is_not_there_is_said_and_a_similar_one_offered() {
    let server = Server::start(&[]);

    assert_says(
        &complaint(&["watch", "podz", "--server", &server.url]),
        &["no resource \"podz\"", "did you mean \"pods\"?", &server.url],
    );
    assert_says(
        &complaint(&["get", "certificates.cert-manager.io", "--server", &server.url]),
        &["no resource \"certificates.cert-manager.io\""],
    );
}

#[tokio::test]
async fn waiting_ends_when_it_was_said_to_and_says_what_kept_it() {
    let server = Server::start(&["--faults", "read=503"]);

    let said = complaint(&["get", "pods", "--server", &server.url, "--sync-timeout", "1s"]);

    assert_says(&said, &["not synced after 1s", "503"]);
}

#[tokio::test]
async fn an_object_that_cannot_be_read_is_left_out_and_said_with_exit_code_1() {
    let server = Server::start(&["--load", "pods=3", "--faults", "read=bad-item:metadata.labels"]);

    let output = run(&["watch", "pods", "-A", "--until-synced", "-o", "name", "--server", &server.url]);

    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("informant: an object is left out: "), "{said}");
    assert_eq!(text(&output.stdout).lines().count(), 2);
}

/// The watch breaks after the third event, and when it is opened again its version has expired.
#[tokio::test]
async fn what_is_deleted_while_the_watch_is_down_was_missed() {
    let server = Server::start(&["--faults", "configmaps/watch=cut:3x1,configmaps/watch=410x1+1"]);
    server.put("prices", json!({"apple": "1"})).await;
    let json = server.watch(&["cm", "-A", "-o", "json"]);
    assert_eq!((json.event()["type"].take(), json.event()["type"].take()), (json!("ADDED"), json!("SYNCED")));

    server.put("prices", json!({"apple": "2"})).await;
    assert_eq!(json.event()["type"], "UPDATED");
    server.delete("prices").await;

    let deleted = json.event();
    assert_eq!((&deleted["type"], &deleted["missed"]), (&json!("DELETED"), &json!(true)), "{deleted}");
    assert_eq!(deleted["object"]["data"]["apple"], "2", "the last that was known");
}

#[tokio::test]
async fn that_the_server_is_gone_and_back_is_said() {
    let port = free_port().to_string();
    let mut server = Server::start(&["--listen", &port]);
    let mut watching = server.watch(&["cm", "-A", "-o", "json", "--no-object", "--exit-after", "1"]);
    assert_eq!(watching.event()["type"], "SYNCED");

    server.running.kill();
    watching.complains_of("may be out of date");
    let again = Server::start(&["--listen", &port, "--load", "pods=5"]);
    watching.complains_of("informer configmaps is up to date again");

    again.put("prices", json!({})).await;
    assert_eq!(watching.event()["key"], "shop/prices");
    assert!(watching.wait().success());
}

#[tokio::test]
async fn a_watch_prints_a_line_when_the_cause_of_trouble_changes() {
    let port = free_port().to_string();
    let mut server = Server::start(&["--listen", &port]);
    let watching = server.watch(&["cm", "-A", "-o", "json", "--no-object"]);
    assert_eq!(watching.event()["type"], "SYNCED");

    server.running.kill();
    watching.complains_of("may be out of date");
    let _overloaded = Server::start(&["--listen", &port, "--faults", "any=503"]);

    watching.complains_of("503");
}

#[tokio::test]
async fn a_server_that_is_down_is_waited_for_as_long_as_the_user_wants() {
    let port = free_port().to_string();
    let url = format!("http://127.0.0.1:{port}");
    let wait =
        |kind: &str| Running::start(&["get", kind, "-A", "-o", "name", "--server", &url, "--sync-timeout", "1m"]);

    let (of_kind, of_unknown_kind) = (wait("cm"), wait("widgets"));
    // Both have tried, and try again.
    of_kind.complains_of("is not synced: ");
    of_unknown_kind.complains_of("has not listed its kinds yet: ");
    let _server = Server::start(&["--listen", &port, "--load", "configmaps=1"]);

    assert_eq!(text(&of_kind.output().stdout), "configmap/configmaps-00000\n");
    assert_says(&text(&of_unknown_kind.output().stderr), &["has no resource \"widgets\""]);
}

#[test]
fn a_wait_for_a_server_that_stays_down_ends_with_the_cause() {
    let url = format!("http://127.0.0.1:{}", free_port());
    let of_kind = |kind: &str| complaint(&["get", kind, "--server", &url, "--sync-timeout", "1500ms"]);

    assert_says(&of_kind("pods"), &["cannot list pods", "not synced after 1.5s", "refused", "is the server running"]);
    assert_says(
        &of_kind("widgets"),
        &["its list of kinds did not arrive within 1.5s", "refused", "is the server running"],
    );
}

/// The namespace may have objects; the selectors match none of them.
#[tokio::test]
async fn the_message_that_no_object_matches_names_the_selectors() {
    let server = Server::start(&[]);
    server.put("prices", json!({})).await;
    let of_labels = "no configmaps in namespace \"shop\" that match label selector \"tier=hot\"";

    let watching = server.watch(&["cm", "-n", "shop", "-l", "tier=hot"]);
    assert_eq!(watching.complaint(), format!("informant: {of_labels} yet; waiting"));
    let selectors = ["-l", "tier=hot", "--field-selector", "metadata.name!=a"];
    let output = run(&[&["get", "cm", "-n", "shop", "--server", &server.url][..], &selectors].concat());
    assert_eq!(text(&output.stderr), format!("informant: {of_labels} and field selector \"metadata.name!=a\"\n"));
    let said = complaint(&["get", "cm", "prices", "-n", "shop", "-l", "tier=hot", "--server", &server.url]);
    assert_eq!(said, "configmap \"prices\" in namespace \"shop\" that matches label selector \"tier=hot\" not found");
}

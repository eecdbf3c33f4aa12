//! Errors: one line with the cause and the next step, and exit code 1.

use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
    process::Command,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::support::{Running, Server, TIMEOUT, fresh_file, informant, missing_folder, run, stdout_of, text};

/// Runs a command that fails; returns the one line that it prints to stderr.
fn error_message(arguments: &[&str]) -> String {
    let output = run(arguments);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {message}");
    assert!(output.stdout.is_empty(), "{arguments:?}: no results on stdout");
    assert_eq!(message.lines().count(), 1, "{arguments:?}: {message}");
    message.strip_prefix("informant: ").unwrap_or_else(|| panic!("{message}")).trim_end().to_owned()
}

fn assert_contains(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
}

/// A port that no process uses.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn without_a_cluster_the_error_suggests_a_server_and_the_demo() {
    for command in ["watch", "get"] {
        assert_contains(
            &error_message(&[command, "pods"]),
            &["no cluster is configured", "--kubeconfig", "--server", "informant demo"],
        );
    }
}

#[test]
fn an_unreachable_server_is_named() {
    let url = format!("http://127.0.0.1:{}", free_port());

    for command in ["watch", "get"] {
        let message = error_message(&[command, "pods", "--server", &url]);
        assert_contains(&message, &[&format!("cannot list pods from {url}: "), "is the server running", "refused"]);
    }
    let message = error_message(&["watch", "widgets", "--server", &url]);
    assert_contains(&message, &["\"widgets\"", &url, "refused", "check that the server is running"]);
}

#[test]
fn an_unusable_kubeconfig_is_an_error_with_the_cause() {
    let missing = missing_folder();
    let missing = missing.to_str().unwrap();
    assert_contains(
        &error_message(&["get", "pods", "--kubeconfig", missing]),
        &[missing, "cannot read the kubeconfig", "No such file"],
    );

    let file = fresh_file("bad-kubeconfig");
    let path = file.to_str().unwrap();
    std::fs::write(&file, "token: hunter2\n- nonsense").unwrap();
    let message = error_message(&["watch", "pods", "--kubeconfig", path]);
    assert_contains(&message, &[&format!("cannot use the kubeconfig {path}"), "line 2"]);
    assert!(!message.contains("hunter2"), "the content may be secret: {message}");

    let context = json!({"name": "here", "context": {"cluster": "here", "user": "me"}});
    let cluster = json!({"name": "here", "cluster": {"server": "http://127.0.0.1:1"}});
    let kubeconfig = json!({"contexts": [context], "clusters": [cluster], "users": [{"name": "me", "user": {}}]});
    std::fs::write(&file, kubeconfig.to_string()).unwrap();
    let message = error_message(&["get", "pods", "--kubeconfig", path, "--context", "there"]);
    assert_contains(&message, &["no context \"there\"", "its contexts are: here"]);
    assert_contains(
        &error_message(&["get", "pods", "--kubeconfig", path]),
        &["no current context", "--context", "its contexts are: here"],
    );
}

#[test]
fn some_of_several_kubeconfigs_may_be_missing() {
    let file = fresh_file("one-kubeconfig");
    let context = json!({"name": "here", "context": {"cluster": "here", "user": "me"}});
    let cluster = json!({"name": "here", "cluster": {"server": "http://127.0.0.1:1"}});
    let users = json!([{"name": "me", "user": {}}]);
    let kubeconfig = json!({"contexts": [context], "clusters": [cluster], "users": users, "current-context": "here"});
    std::fs::write(&file, kubeconfig.to_string()).unwrap();
    let message = |files: &str| {
        let output = informant().env("KUBECONFIG", files).args(["get", "pods"]).output().unwrap();
        text(&output.stderr)
    };
    let (missing, file) = (missing_folder(), file.to_str().unwrap().to_owned());
    let missing = missing.to_str().unwrap();

    assert_contains(&message(&format!("{missing}:{file}")), &["cannot list pods from http://127.0.0.1:1: "]);
    assert_contains(&message(missing), &[missing, "cannot read the kubeconfig"]);
    assert_contains(&message(""), &["no cluster is configured"]);
}

/// The arguments and the stdout of a plugin may be secret; its stderr is quoted.
#[cfg(unix)]
#[test]
fn a_failed_credential_plugin_is_named_with_its_stderr() {
    let file = fresh_file("plugin-kubeconfig");
    let error_with = |command: &str, arguments: &[&str]| {
        let exec = json!({"apiVersion": "client.authentication.k8s.io/v1", "command": command, "args": arguments, "interactiveMode": "Never"});
        let context = json!({"name": "here", "context": {"cluster": "here", "user": "me"}});
        let cluster = json!({"name": "here", "cluster": {"server": "https://127.0.0.1:1"}});
        let users = json!([{"name": "me", "user": {"exec": exec}}]);
        let kubeconfig =
            json!({"contexts": [context], "clusters": [cluster], "users": users, "current-context": "here"});
        std::fs::write(&file, kubeconfig.to_string()).unwrap();
        error_message(&["get", "pods", "--kubeconfig", file.to_str().unwrap()])
    };

    assert_contains(&error_with("no-such-plugin", &[]), &["\"no-such-plugin\"", "No such file"]);
    let failed = error_with("sh", &["-c", "echo hunter2; echo log in first >&2; exit 3"]);
    assert_contains(&failed, &["\"sh\"", "exit status: 3", "log in first"]);
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

/// A parser's error may quote its input.
#[cfg(unix)]
#[test]
fn the_stdout_of_a_credential_plugin_is_not_printed() {
    let token =
        r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"hunter2"}"#;
    for (number, printed) in
        [format!("{token},}}}}"), format!("{token}}} {token}}}"), "hunter2: [".to_owned()].iter().enumerate()
    {
        let user = plugin(&format!("echo '{printed}'"));
        let file = kubeconfig(&format!("printing-{number}"), "https://127.0.0.1:1", &user);

        let message = error_message(&["get", "pods", "--kubeconfig", file.to_str().unwrap()]);

        assert_contains(&message, &["from credential plugin \"sh\"", "other than an ExecCredential"]);
        assert!(!message.contains("hunter2"), "{message}");
    }
}

#[cfg(unix)]
#[test]
fn credentials_that_cannot_be_sent_are_an_error() {
    let printed =
        r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"hunter2\n"}}"#;
    let file = kubeconfig("unsendable", "https://127.0.0.1:1", &plugin(&format!("printf %s '{printed}'")));

    let output = run(&["get", "pods", "--kubeconfig", file.to_str().unwrap()]);

    let message = text(&output.stderr);
    assert_eq!((output.status.code(), message.lines().count()), (Some(1), 2), "{message}");
    assert_contains(&message, &["from credential plugin \"sh\": its credentials cannot be sent"]);
    assert!(!message.contains("hunter2"), "{message}");
}

/// A plugin may wait for the user to log in.
#[cfg(unix)]
#[test]
fn a_credential_plugin_that_hangs_is_given_up_after_the_sync_timeout_or_an_interrupt() {
    // The plugin writes its process id to a file; `end` waits for the file and ends the process.
    let started = |name: &str| {
        let place = fresh_file(name);
        let user = plugin(&format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 60", place.display()));
        (place, kubeconfig(&format!("{name}-kubeconfig"), "https://127.0.0.1:1", &user))
    };
    let end = |place: &std::path::Path| {
        let started = Instant::now();
        while !place.exists() {
            assert!(started.elapsed() < TIMEOUT, "the plugin has not started");
            std::thread::sleep(Duration::from_millis(10));
        }
        let id = std::fs::read_to_string(place).unwrap();
        move || assert!(Command::new("kill").arg(id.trim()).status().unwrap().success())
    };

    let (place, file) = started("patient-plugin");
    let arguments = ["get", "pods", "--kubeconfig", file.to_str().unwrap(), "--sync-timeout", "500ms"];
    assert_contains(&error_message(&arguments), &["credential plugin \"sh\" is still running after 500ms"]);
    end(&place)();
    let (place, file) = started("interrupted-plugin");
    let mut running = Running::start(&["get", "pods", "--kubeconfig", file.to_str().unwrap()]);
    let end = end(&place);
    running.signal("INT");

    assert_eq!(running.wait().code(), Some(130));
    end();
}

/// `kubectl` accepts both.
#[tokio::test]
async fn a_server_without_a_scheme_and_a_token_with_a_line_break_are_accepted() {
    let server = Server::start(&[]);
    server.put("prices", json!({})).await;
    let address = server.url.strip_prefix("http://").unwrap();
    let token = fresh_file("token");
    std::fs::write(&token, "hunter2\n").unwrap();

    for (number, user) in [json!({}), json!({"token": "hunter2\n"}), json!({"tokenFile": token})].iter().enumerate() {
        let file = kubeconfig(&format!("careless-{number}"), address, user);
        assert_eq!(
            stdout_of(&["get", "cm", "-o", "name", "--kubeconfig", file.to_str().unwrap()]),
            "configmap/prices\n"
        );
    }
    // With TLS settings the scheme is https, so a token is not sent to a server without a certificate.
    let mut of_tls: serde_json::Value =
        serde_json::from_slice(&std::fs::read(kubeconfig("careful", address, &json!({"token": "hunter2"}))).unwrap())
            .unwrap();
    of_tls["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = json!(true);
    let file = fresh_file("of-tls");
    std::fs::write(&file, of_tls.to_string()).unwrap();
    let secure = error_message(&["get", "cm", "--kubeconfig", file.to_str().unwrap(), "--sync-timeout", "1s"]);
    assert_contains(&secure, &[&format!("from https://{address}")]);
    let file = kubeconfig("two-lines", "https://127.0.0.1:1", &json!({"token": "hunter2\nhunter3"}));
    let message = error_message(&["get", "cm", "--kubeconfig", file.to_str().unwrap()]);
    assert_contains(&message, &["the token contains characters that cannot be sent"]);
    assert!(!message.contains("hunter"), "{message}");
}

/// The kubeconfig may be invalid, or have a token for another server.
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

/// The second server starts at a later version than the first one has reached.
#[tokio::test]
async fn a_watch_relists_when_another_server_starts_at_the_same_address() {
    let port = free_port().to_string();
    let mut server = Server::start(&["--listen", &port, "--load", "configmaps=50,namespaces=1"]);
    let watching = server.watch(&["cm", "-A", "-o", "json", "--no-object"]);
    while watching.event()["type"] != "SYNCED" {}

    server.running.kill();
    watching.wait_for_message("may be out of date");
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

/// The server accepts connections and sends no answer.
#[test]
fn a_server_that_does_not_answer_is_given_up_after_the_sync_timeout() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());

    let of_kind = |kind: &str| error_message(&["get", kind, "--server", &url, "--sync-timeout", "500ms"]);
    assert_contains(&of_kind("widgets"), &["the list did not arrive within 500ms"]);
    assert_contains(&of_kind("pods"), &["not synced after 500ms"]);
}

#[tokio::test]
async fn a_user_without_permission_for_discovery_gets_an_error() {
    let server = Server::start(&["--faults", "any=403"]);

    let message = error_message(&["get", "widgets", "--server", &server.url]);

    assert_contains(
        &message,
        &["\"widgets\" is not a built-in kind", "the server answered: ", "(Forbidden, 403) (the client's user lacks"],
    );
}

#[tokio::test]
async fn a_user_without_permission_to_list_gets_an_error() {
    let server = Server::start(&["--faults", "list=403,watch=403"]);

    for command in ["watch", "get"] {
        let message = error_message(&[command, "pods", "-n", "shop", "--server", &server.url]);
        assert_contains(&message, &["cannot list pods from", "grant the client's user `list` and `watch`", "403"]);
    }
}

#[tokio::test]
async fn an_unknown_resource_is_an_error_with_a_similar_name() {
    let server = Server::start(&[]);

    assert_contains(
        &error_message(&["watch", "podz", "--server", &server.url]),
        &["no resource \"podz\"", "did you mean \"pods\"?", &server.url],
    );
    assert_contains(
        &error_message(&["get", "certificates.cert-manager.io", "--server", &server.url]),
        &["no resource \"certificates.cert-manager.io\""],
    );
}

#[tokio::test]
async fn the_sync_timeout_ends_the_command_with_the_last_error() {
    let server = Server::start(&["--faults", "read=503"]);

    let message = error_message(&["get", "pods", "--server", &server.url, "--sync-timeout", "1s"]);

    assert_contains(&message, &["not synced after 1s", "503"]);
}

#[tokio::test]
async fn an_object_that_cannot_be_decoded_is_skipped_with_a_message_and_exit_code_1() {
    let server = Server::start(&["--load", "pods=3", "--faults", "read=bad-item:metadata.labels"]);

    let output = run(&["watch", "pods", "-A", "--until-synced", "-o", "name", "--server", &server.url]);

    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.starts_with("informant: skipped an object that cannot be decoded: "), "{message}");
    assert_eq!(text(&output.stdout).lines().count(), 2);
}

/// The watch is cut after the third event; the next one gets 410.
#[tokio::test]
async fn a_deletion_while_the_watch_is_down_is_a_missed_delete() {
    let server = Server::start(&["--faults", "configmaps/watch=cut:3x1,configmaps/watch=410x1+1"]);
    server.put("prices", json!({"apple": "1"})).await;
    let json = server.watch(&["cm", "-A", "-o", "json"]);
    assert_eq!((json.event()["type"].take(), json.event()["type"].take()), (json!("ADDED"), json!("SYNCED")));

    server.put("prices", json!({"apple": "2"})).await;
    assert_eq!(json.event()["type"], "UPDATED");
    server.delete("prices").await;

    let deleted = json.event();
    assert_eq!((&deleted["type"], &deleted["missed"]), (&json!("DELETED"), &json!(true)), "{deleted}");
    assert_eq!(deleted["object"]["data"]["apple"], "2", "the last known state");
}

#[tokio::test]
async fn messages_report_that_the_server_is_down_and_up_again() {
    let port = free_port().to_string();
    let mut server = Server::start(&["--listen", &port]);
    let mut watching = server.watch(&["cm", "-A", "-o", "json", "--no-object", "--exit-after", "1"]);
    assert_eq!(watching.event()["type"], "SYNCED");

    server.running.kill();
    watching.wait_for_message("may be out of date");
    let again = Server::start(&["--listen", &port, "--load", "pods=5"]);
    watching.wait_for_message("informer configmaps is up to date again");

    again.put("prices", json!({})).await;
    assert_eq!(watching.event()["key"], "shop/prices");
    assert!(watching.wait().success());
}

#[tokio::test]
async fn a_watch_prints_a_message_when_the_cause_of_a_problem_changes() {
    let port = free_port().to_string();
    let mut server = Server::start(&["--listen", &port]);
    let watching = server.watch(&["cm", "-A", "-o", "json", "--no-object"]);
    assert_eq!(watching.event()["type"], "SYNCED");

    server.running.kill();
    watching.wait_for_message("may be out of date");
    let _overloaded = Server::start(&["--listen", &port, "--faults", "any=503"]);

    watching.wait_for_message("503");
}

#[tokio::test]
async fn with_a_sync_timeout_the_command_waits_for_a_server_that_is_down() {
    let port = free_port().to_string();
    let url = format!("http://127.0.0.1:{port}");
    let wait =
        |kind: &str| Running::start(&["get", kind, "-A", "-o", "name", "--server", &url, "--sync-timeout", "1m"]);

    let (of_kind, of_unknown_kind) = (wait("cm"), wait("widgets"));
    // Both have failed at least once, and retry.
    of_kind.wait_for_message("is not synced: ");
    of_unknown_kind.wait_for_message("has not listed its kinds yet: ");
    let _server = Server::start(&["--listen", &port, "--load", "configmaps=1"]);

    assert_eq!(text(&of_kind.output().stdout), "configmap/configmaps-00000\n");
    assert_contains(&text(&of_unknown_kind.output().stderr), &["has no resource \"widgets\""]);
}

#[test]
fn the_sync_timeout_for_a_server_that_is_down_ends_with_the_cause() {
    let url = format!("http://127.0.0.1:{}", free_port());
    let of_kind = |kind: &str| error_message(&["get", kind, "--server", &url, "--sync-timeout", "1500ms"]);

    assert_contains(
        &of_kind("pods"),
        &["cannot list pods", "not synced after 1.5s", "refused", "is the server running"],
    );
    assert_contains(
        &of_kind("widgets"),
        &["the list did not arrive within 1.5s", "refused", "check that the server is running"],
    );
}

/// The namespace may have objects; the selectors match none of them.
#[tokio::test]
async fn the_message_that_no_object_matches_names_the_selectors() {
    let server = Server::start(&[]);
    server.put("prices", json!({})).await;
    let of_labels = "no configmaps in namespace \"shop\" that match label selector \"tier=hot\"";

    let watching = server.watch(&["cm", "-n", "shop", "-l", "tier=hot"]);
    assert_eq!(watching.stderr_line(), format!("informant: {of_labels} yet; waiting"));
    let selectors = ["-l", "tier=hot", "--field-selector", "metadata.name!=a"];
    let output = run(&[&["get", "cm", "-n", "shop", "--server", &server.url][..], &selectors].concat());
    assert_eq!(text(&output.stderr), format!("informant: {of_labels} and field selector \"metadata.name!=a\"\n"));
    let message = error_message(&["get", "cm", "prices", "-n", "shop", "-l", "tier=hot", "--server", &server.url]);
    assert_eq!(
        message,
        "configmap \"prices\" in namespace \"shop\" that matches label selector \"tier=hot\" not found"
    );
}

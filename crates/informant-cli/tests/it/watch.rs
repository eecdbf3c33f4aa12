//! `informant watch`, against an `informant apiserver` whose objects a client changes.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::{
    metrics::{address, wait_for_page},
    support::{Running, Server, UNPRINTABLE, informant, lists, run, text},
};

/// The fields type, key, initial and missed of an event.
fn summary(event: &Value) -> (&str, Option<&str>, bool, bool) {
    let mark = |name: &str| event[name].as_bool().unwrap();
    (event["type"].as_str().unwrap(), event["key"].as_str(), mark("initial"), mark("missed"))
}

#[tokio::test]
async fn changes_by_a_client_are_printed_as_events() {
    let server = Server::start(&[]);
    server.put("old", json!({"a": "1"})).await;
    let watching = server.watch(&["configmaps", "-n", "shop", "-o", "json"]);
    let old = watching.event();
    assert_eq!(summary(&old), ("ADDED", Some("shop/old"), true, false));
    assert_eq!(old["object"]["data"]["a"], "1");
    assert_eq!(
        (&old["object"]["kind"], &old["resourceVersion"]),
        (&json!("ConfigMap"), &old["object"]["metadata"]["resourceVersion"])
    );
    let synced = watching.event();
    assert_eq!(summary(&synced), ("SYNCED", None, false, false));
    assert!(synced["object"].is_null() && synced["resourceVersion"].is_string(), "{synced}");

    server.put("new", json!({"a": "1"})).await;
    assert_eq!(summary(&watching.event()), ("ADDED", Some("shop/new"), false, false));

    let label = Patch::Merge(json!({"metadata": {"labels": {"tier": "db"}}}));
    server.configs().patch("new", &PatchParams::default(), &label).await.unwrap();
    let labelled = watching.event();
    assert_eq!(summary(&labelled), ("UPDATED", Some("shop/new"), false, false));
    assert_eq!(labelled["object"]["metadata"]["labels"]["tier"], "db");

    server.delete("new").await;
    let deleted = watching.event();
    assert_eq!(summary(&deleted), ("DELETED", Some("shop/new"), false, false));
    assert_eq!(deleted["object"]["metadata"]["labels"]["tier"], "db", "the last state");
}

#[tokio::test]
async fn only_selected_objects_are_printed() {
    let server = Server::start(&[]);
    server.put_labelled("a", json!({"app": "web"}), json!({})).await;
    server.put_labelled("b", json!({"app": "db"}), json!({})).await;
    let keys = |arguments: &[&str]| {
        let watch = ["watch", "cm", "--until-synced", "-o", "name", "--server", &server.url];
        let mut names: Vec<_> = Running::start(&[&watch, arguments].concat()).rest();
        names.sort();
        names.join(" ")
    };

    assert_eq!(keys(&["-A"]), "configmap/a configmap/b");
    assert_eq!(keys(&[]), "", "the namespace is default");
    assert_eq!(keys(&["-n", "shop", "-l", "app=web"]), "configmap/a");
    assert_eq!(keys(&["-n", "shop", "--field-selector", "metadata.name=b"]), "configmap/b");
    assert_eq!(keys(&["b", "-n", "shop"]), "configmap/b");
    assert_eq!(keys(&["b", "-n", "shop", "--field-selector", "metadata.name!=b"]), "");
}

#[tokio::test]
async fn one_object_can_be_selected_by_resource_and_name() {
    let server = Server::start(&[]);
    server.put("a", json!({})).await;
    server.put("b", json!({})).await;

    assert_eq!(
        server.stdout_of(&["watch", "configmap/b", "-n", "shop", "--until-synced", "-o", "name"]),
        "configmap/b\n"
    );
}

#[tokio::test]
async fn exit_after_and_until_synced_end_the_watch() {
    let server = Server::start(&[]);
    for name in ["a", "b", "c"] {
        server.put(name, json!({})).await;
    }

    let two = server.stdout_of(&["watch", "cm", "-A", "-o", "json", "--no-object", "--exit-after", "2"]);
    assert_eq!(two.lines().count(), 2, "{two}");
    assert!(!two.contains("\"object\""), "{two}");
    let synced =
        server.stdout_of(&["watch", "cm", "-A", "-o", "json", "--no-initial", "--until-synced", "--no-object"]);
    assert_eq!(synced.lines().count(), 1, "{synced}");
    assert!(synced.starts_with(r#"{"type":"SYNCED","key":null,"resourceVersion":""#), "{synced}");
}

#[tokio::test]
async fn no_initial_omits_existing_objects() {
    let server = Server::start(&[]);
    server.put("old", json!({})).await;
    let mut watching = server.watch(&["cm", "-A", "-o", "json", "--no-initial", "--exit-after", "1"]);
    assert_eq!(watching.event()["type"], "SYNCED");

    server.put("new", json!({})).await;

    assert_eq!(summary(&watching.event()), ("ADDED", Some("shop/new"), false, false));
    assert!(watching.wait().success() && watching.rest().is_empty());
}

#[tokio::test]
async fn a_table_has_a_row_for_each_event() {
    let server = Server::start(&[]);
    server.put("prices", json!({"apple": "1", "pear": "2"})).await;
    let watching = server.watch(&["cm", "-A", "--exit-after", "3"]);
    let columns = |line: String| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
    assert_eq!(columns(watching.line()), "EVENT NAMESPACE NAME DATA AGE");
    let row = columns(watching.line());
    assert!(row.starts_with("ADDED shop prices 2 "), "{row}");

    server.put("prices", json!({"apple": "1"})).await;
    server.delete("prices").await;

    let rows: Vec<_> = watching.rest().into_iter().map(columns).collect();
    assert!(rows[0].starts_with("UPDATED shop prices 1 ") && rows[1].starts_with("DELETED shop prices 1 "), "{rows:?}");
    assert_eq!(rows.len(), 2);
}

#[tokio::test]
async fn yaml_is_one_valid_document_per_event() {
    let server = Server::start(&[]);
    server.put("prices", json!({"apple": "1", "note": "two\nlines: yes", "on": "true"})).await;

    let yaml = server.stdout_of(&["watch", "cm", "-n", "shop", "-o", "yaml", "--until-synced"]);

    let mut lines = yaml.lines();
    assert_eq!(lines.next(), Some("---"));
    let comment = lines.next().unwrap();
    assert!(comment.starts_with("# ADDED shop/prices ") && comment.ends_with(" (initial)"), "{comment}");
    assert!(yaml.lines().last().unwrap().starts_with("# SYNCED "), "{yaml}");
    let read: Value = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(read["data"], json!({"apple": "1", "note": "two\nlines: yes", "on": "true"}));
    assert_eq!(read["kind"], "ConfigMap");
}

#[tokio::test]
async fn a_diff_lists_only_changed_fields() {
    let server = Server::start(&[]);
    server.put("prices", json!({"apple": "1", "pear": "2"})).await;
    let watching = server.watch(&["cm", "-n", "shop", "-o", "diff"]);
    assert!(watching.line().starts_with("ADDED shop/prices "));

    server.put_labelled("prices", json!({"app.io/tier": "db"}), json!({"apple": "3", "fig": "4"})).await;
    server.delete("prices").await;

    let headline = watching.line();
    assert!(headline.starts_with("UPDATED shop/prices ") && headline.contains(" → "), "{headline}");
    assert_eq!(watching.line(), r#"  ~ data.apple: "1" → "3""#);
    assert_eq!(watching.line(), r#"  + data.fig: "4""#);
    assert_eq!(watching.line(), r#"  - data.pear: "2""#);
    assert_eq!(watching.line(), r#"  + metadata.labels.app\.io/tier: "db""#);
    assert!(watching.line().starts_with("DELETED shop/prices "));
}

#[tokio::test]
async fn colours_are_used_in_a_pipe_only_with_color_always() {
    let server = Server::start(&[]);
    server.put("prices", json!({})).await;
    let arguments = ["watch", "cm", "-n", "shop", "--until-synced", "-o"];

    for (format, expected) in
        [("diff", "\x1b[32mADDED\x1b[0m shop/prices"), ("table", "\x1b[32mADDED\x1b[0m     prices")]
    {
        let colourful = server.stdout_of(&[&arguments[..], &[format, "--color", "always"]].concat());
        assert!(colourful.contains(expected), "{colourful:?}");
        assert!(
            !server.stdout_of(&[&arguments[..], &[format]].concat()).contains('\x1b'),
            "no colours in a pipe by default"
        );
    }
}

#[tokio::test]
async fn every_object_type_prints_the_same_object() {
    let server = Server::start(&[]);
    server.put_labelled("prices", json!({"app": "web"}), json!({"apple": "1"})).await;
    let object = |arguments: &[&str]| {
        let event = server.stdout_of(&[&["watch", "cm", "-A", "-o", "json", "--exit-after", "1"], arguments].concat());
        serde_json::from_str::<Value>(&event).unwrap()["object"].take()
    };

    let lazy = object(&["--lazy"]);
    assert_eq!(lazy["data"]["apple"], "1");
    assert_eq!(object(&[]), lazy);
    assert_eq!(object(&["--lazy=false"]), lazy);
    for metadata in [object(&["--metadata-only"]), object(&["--metadata-only", "--lazy=false"])] {
        assert_eq!(metadata["metadata"], lazy["metadata"]);
        assert_eq!((&metadata["data"], &metadata["kind"]), (&Value::Null, &json!("PartialObjectMetadata")));
    }
    let table = server.stdout_of(&["watch", "cm", "-A", "--metadata-only", "--exit-after", "1"]);
    assert!(table.contains("LABELS") && table.contains("app=web") && !table.contains("DATA"), "{table}");
}

/// Names and values of an object may contain control characters.
#[tokio::test(flavor = "multi_thread")]
async fn control_characters_are_not_printed_in_any_format_but_json() {
    let server = informant_apiserver::ApiServer::new();
    let put = |value: &str| {
        let data = json!({"k\u{1b}[31m": format!("{value}\u{1b}]0;x\u{7}\u{9b}\u{7f}")});
        server.put("configmaps", json!({"metadata": {"namespace": "default", "name": "a"}, "data": data})).unwrap();
    };
    put("1");
    let listening = server.listen(([127, 0, 0, 1], 0)).await.unwrap();
    let url = listening.url();

    for format in ["diff", "table", "name", "yaml"] {
        let watching = Running::start(&["watch", "cm", "-o", format, "--server", &url, "--exit-after", "2"]);
        let first = watching.line();
        put(&format!("{format} 2"));
        let lines = [vec![first], watching.rest()].concat().join("\n");
        assert!(!lines.contains(|one: char| one.is_control() && one != '\n'), "{format}: {lines:?}");
    }
}

/// The object has a number that is out of range. JSON is printed unparsed; the other formats skip the event with a message.
#[tokio::test(flavor = "multi_thread")]
async fn an_unprintable_object_is_skipped_with_a_message_and_exit_code_1() {
    let listening = lists(UNPRINTABLE).await;
    let url = listening.url();

    for (kind, format, lines) in [("cm", "json", 2), ("secrets", "json", 1), ("secrets", "yaml", 1), ("cm", "table", 0)]
    {
        let mut watching = Running::start(&["watch", kind, "-o", format, "--server", &url, "--until-synced"]);
        let written = watching.rest();
        assert_eq!(written.len(), lines, "{kind} {format}: {written:?}");
        let is_complete = lines == 2;
        if !is_complete {
            watching.wait_for_message("skipped an event that cannot be printed: ");
        }
        assert_eq!(watching.wait().success(), is_complete, "{kind} {format}");
    }
}

/// The widths of the columns are known with the first row.
#[tokio::test]
async fn the_header_of_a_table_is_printed_with_the_first_row() {
    let server = Server::start(&[]);
    let watching = server.watch(&["cm", "-A", "--exit-after", "1", "--metrics", "0"]);
    let address = address(&watching);
    wait_for_page(&address, "GET /readyz", |ready| ready == "ok\n");

    server.put("a-name-that-is-longer-than-its-header", json!({})).await;

    let lines = watching.rest();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[0].find("DATA"), lines[1].find("0  "), "{lines:?}");
}

#[tokio::test]
async fn objects_are_printed_again_at_each_resync() {
    let server = Server::start(&[]);
    server.put("prices", json!({})).await;
    let watching = server.watch(&["cm", "-A", "-o", "json", "--no-object", "--resync", "1s"]);
    assert_eq!((watching.event()["type"].take(), watching.event()["type"].take()), (json!("ADDED"), json!("SYNCED")));

    assert_eq!(summary(&watching.event()), ("SYNC", Some("shop/prices"), false, false));
    assert_eq!(summary(&watching.event()), ("SYNC", Some("shop/prices"), false, false));
}

#[tokio::test]
async fn values_of_secrets_are_printed_only_with_show_secrets() {
    let server = Server::start(&[]);
    let secret = |password: &str| -> Secret {
        let annotations = json!({"kubectl.kubernetes.io/last-applied-configuration": format!("{{\"data\":{{\"password\":\"{password}\"}}}}")});
        serde_json::from_value(
            json!({"metadata": {"name": "db", "annotations": annotations}, "data": {"password": password}}),
        )
        .unwrap()
    };
    server.create_shop().await;
    server.secrets().create(&PostParams::default(), &secret("aHVudGVyMg==")).await.unwrap();

    for format in ["table", "json", "yaml", "name", "diff"] {
        for object_type in ["--lazy", "--lazy=false", "--metadata-only"] {
            let shown =
                server.stdout_of(&["watch", "secrets", "-n", "shop", "--until-synced", "-o", format, object_type]);
            assert!(shown.contains("db") && !shown.contains("aHVudGVyMg"), "{format} {object_type}: {shown}");
        }
    }
    let shown = server.stdout_of(&["watch", "secrets", "-n", "shop", "--until-synced", "-o", "json", "--show-secrets"]);
    assert!(shown.contains("aHVudGVyMg=="), "{shown}");
    let hidden = server.stdout_of(&["watch", "secrets", "-n", "shop", "--until-synced", "-o", "json"]);
    assert!(hidden.contains("(hidden, 12 characters)"), "{hidden}");

    let mut running = server.watch(&["secrets", "-n", "shop", "-o", "diff", "--exit-after", "2"]);
    assert!(running.line().starts_with("ADDED shop/db"));
    server.secrets().replace("db", &PostParams::default(), &secret("c2VjcmV0MTI=")).await.unwrap();
    let changed = running.rest().join("\n");
    assert!(running.wait().success());
    assert!(
        changed.contains("data.password") && !changed.contains("c2VjcmV0") && !changed.contains("aHVud"),
        "{changed}"
    );
}

/// Stdout is not read while a few pods change all the time; the pipe holds about ten events.
#[tokio::test]
async fn waiting_events_are_coalesced_above_the_limit() {
    const CHANGES: u64 = 1500;
    let server = Server::start(&["--load", "pods=5,rate=500", "--metrics", "0"]);
    let metrics = address(&server.running);
    let mut command = informant();
    command.args(["watch", "pods", "-A", "-o", "json", "--coalesce-above", "5", "--server", &server.url]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut events = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let version = |event: &Value| event["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    let later = version(&events.next().unwrap()) + CHANGES;
    let is_later = |line: &str| {
        let version = line.strip_prefix("informant_apiserver_version ");
        version.is_some_and(|version| version.parse::<u64>().unwrap() > later)
    };
    wait_for_page(&metrics, "GET /metrics", |metrics| metrics.lines().any(is_later));

    let printed = events.take_while(|event| version(event) < later).count();

    child.kill().unwrap();
    child.wait().unwrap();
    assert!((1..300).contains(&printed), "{printed} of {CHANGES} changes were printed");
}

#[cfg(unix)]
#[tokio::test]
async fn an_interrupt_ends_a_watch_with_exit_code_0() {
    let server = Server::start(&["--load", "pods=20,rate=50"]);
    for signal in ["INT", "TERM"] {
        let mut watching = server.watch(&["pods", "-A", "-o", "json"]);
        watching.event();

        watching.signal(signal);

        assert!(watching.wait().success(), "{signal}");
        assert!(watching.rest().iter().all(|line| serde_json::from_str::<Value>(line).is_ok()), "no line is cut off");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn an_interrupt_before_until_synced_or_exit_after_has_exit_code_130() {
    let server = Server::start(&["--faults", "read=hang"]);
    for end in [&["--until-synced"][..], &["--exit-after", "1"]] {
        let mut watching = server.watch(&[&["cm", "-A", "--metrics", "0"], end].concat());
        address(&watching);

        watching.signal("INT");

        assert_eq!((watching.wait().code(), watching.rest()), (Some(130), vec![]), "{end:?}");
    }
}

/// No further event arrives, so no write would detect the closed pipe.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_closed_pipe_ends_a_watch_without_a_further_event() {
    let server = Server::start(&[]);
    server.put("prices", json!({})).await;
    let watch = format!("timeout 60 {} watch cm -A --server {}", env!("CARGO_BIN_EXE_informant"), server.url);

    let output = Command::new("bash").args(["-o", "pipefail", "-c", &format!("{watch} | head -2")]).output().unwrap();

    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), 2, "{output:?}");
}

#[tokio::test]
async fn a_closed_pipe_is_not_a_failure_of_a_watch() {
    let server = Server::start(&["--load", "pods=50,rate=100"]);
    let shell = format!("{} watch pods -A -o json --server {} | head -3", env!("CARGO_BIN_EXE_informant"), server.url);

    let output = Command::new("bash").args(["-o", "pipefail", "-c", &shell]).output().unwrap();

    assert!(output.status.success(), "{output:?}");
    assert_eq!((output.stdout.iter().filter(|byte| **byte == b'\n').count(), output.stderr.len()), (3, 0));
}

/// Stdout is not read, so the command is blocked in a write.
#[cfg(unix)]
#[tokio::test]
async fn an_interrupt_ends_a_command_even_if_stdout_is_not_read() {
    // More than a megabyte; a pipe holds 64 kB.
    let server = Server::start(&["--load", "pods=300"]);
    for (arguments, code) in [(["watch", "pods", "-A", "-o", "json"], 0), (["get", "pods", "-A", "-o", "json"], 130)] {
        let mut command = informant();
        command.args(arguments).args(["--server", &server.url, "-vv"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(stderr.any(|line| line.unwrap().contains("synced")));

        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());

        assert!(stderr.all(|line| line.is_ok()), "stderr can be read until the command ends");
        assert_eq!(child.wait().unwrap().code(), Some(code), "{arguments:?}");
    }
}

#[tokio::test]
async fn a_message_reports_that_no_object_exists() {
    let server = Server::start(&[]);
    let watching = server.watch(&["cm", "prices", "-n", "shop", "-o", "name"]);
    assert_eq!(watching.stderr_line(), "informant: no configmap \"prices\" in namespace \"shop\" yet; waiting");
    server.put("prices", json!({})).await;
    assert_eq!(watching.line(), "configmap/prices");

    let of_all = run(&["watch", "cm", "-n", "nowhere", "--until-synced", "--server", &server.url]);
    assert_eq!(
        (of_all.status.code(), text(&of_all.stderr).as_str()),
        (Some(0), "informant: no configmaps in namespace \"nowhere\"\n")
    );
    let of_one = run(&["watch", "cm", "costs", "-n", "shop", "--until-synced", "--server", &server.url]);
    assert_eq!(
        (of_one.status.code(), text(&of_one.stderr).as_str()),
        (Some(1), "informant: configmap \"costs\" in namespace \"shop\" not found\n"),
        "the message of get"
    );
}

#[tokio::test]
async fn existing_objects_are_printed_in_the_order_of_the_server() {
    let server = Server::start(&["--load", "configmaps=200"]);

    let printed = server.stdout_of(&["watch", "cm", "-A", "--until-synced", "-o", "json", "--no-object"]);

    let events = printed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let keys: Vec<_> = events.filter_map(|event| event["key"].as_str().map(str::to_owned)).collect();
    assert!(keys.len() == 200 && keys.is_sorted(), "{keys:?}");
}

//! Output in a terminal.

use std::{
    io::{Read, Write},
    sync::{Arc, mpsc},
    time::Instant,
};

use pty_process::{Size, blocking::Command};
use serde_json::json;

use crate::support::{CLEARED_VARIABLES, Server, TIMEOUT, missing_folder};

/// The output of a command in a terminal.
struct Terminal {
    screen: vt100::Parser,
    /// The raw output.
    bytes: Vec<u8>,
    /// The content of the screen after each write.
    screens: Vec<String>,
    success: bool,
}

/// Runs a command in a terminal of 80 columns and 24 rows until it ends.
fn run(arguments: &[&str], environment: &[(&str, &str)]) -> Terminal {
    run_at(24, 80, arguments, environment)
}

fn run_at(rows: u16, columns: u16, arguments: &[&str], environment: &[(&str, &str)]) -> Terminal {
    run_until(None, rows, columns, arguments, environment)
}

/// Sends Ctrl-C when the screen contains `enough`.
fn run_until(
    enough: Option<&str>,
    rows: u16,
    columns: u16,
    arguments: &[&str],
    environment: &[(&str, &str)],
) -> Terminal {
    let (terminal, inside) = pty_process::blocking::open().unwrap();
    terminal.resize(Size::new(rows, columns)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_informant"))
        .args(arguments)
        .env("HOME", missing_folder())
        .env("TERM", "xterm");
    for name in CLEARED_VARIABLES {
        command = command.env_remove(name);
    }
    let mut child = command.envs(environment.iter().copied()).spawn(inside).unwrap();
    let (sender, receiver) = mpsc::channel();
    let terminal = Arc::new(terminal);
    let reader = Arc::clone(&terminal);
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        // The read fails when the process has ended.
        while let Ok(count @ 1..) = (&*reader).read(&mut buffer) {
            sender.send(buffer[..count].to_vec()).unwrap();
        }
    });
    let (mut screen, mut bytes, mut screens) = (vt100::Parser::new(rows, columns, 1000), Vec::new(), Vec::new());
    let mut enough = enough;
    let started = Instant::now();
    while let Ok(part) = receiver.recv_timeout(TIMEOUT.saturating_sub(started.elapsed())) {
        screen.process(&part);
        bytes.extend(part);
        let content = screen.screen().contents();
        if enough.take_if(|enough| content.contains(*enough)).is_some() {
            (&*terminal).write_all(b"\x03").unwrap();
        }
        screens.push(content);
    }
    if started.elapsed() >= TIMEOUT {
        let _ = child.kill();
        let _ = child.wait();
        panic!("the command has not ended: {}", screen.screen().contents());
    }
    Terminal { screen, bytes, screens, success: child.wait().unwrap().success() }
}

impl Terminal {
    fn contents(&self) -> String {
        self.screen.screen().contents()
    }
}

#[test]
fn the_demo_is_redrawn_in_place_and_its_verdict_stays() {
    let terminal = run(&["demo", "--duration", "2s", "--pods", "50", "--rate", "50"], &[]);

    let contents = terminal.contents();
    assert!(terminal.success, "{contents}");
    assert_eq!(contents.matches("API server   version").count(), 1, "{contents}");
    assert!(contents.contains("verified: 2 caches and 4 handlers"), "{contents}");
    assert!(contents.starts_with("informant demo: "), "nothing has scrolled off: {contents}");
    for word in ["missed", "coalesced", "slow", "late"] {
        assert!(contents.lines().any(|line| line.starts_with(&format!("{word} "))), "{word} is explained: {contents}");
    }
    let redrawn = String::from_utf8_lossy(&terminal.bytes).matches("\x1b[J").count();
    assert!(redrawn >= 5, "the screen was redrawn {redrawn} times");
}

#[test]
fn the_demo_in_a_tall_terminal_has_past_faults_and_averages() {
    let terminal = run_at(50, 100, &["demo", "--duration", "3s", "--pods", "50", "--rate", "100"], &[]);

    let contents = terminal.contents();
    assert!(contents.starts_with("informant demo: "), "nothing has scrolled off: {contents}");
    assert!(contents.lines().any(|line| line.starts_with("average      per second ")), "{contents}");
    let mut history = contents.lines().skip_while(|line| *line != "faults so far, newest first").skip(1);
    assert!(history.next().is_some_and(|fault| fault.contains(" s  ") && fault.contains(": the ")), "{contents}");
    assert!(terminal.success && contents.contains("verified: 2 caches and 4 handlers"), "{contents}");
}

/// At the end no fault is active, and the last one is named.
#[test]
fn the_demo_names_the_fault_that_is_active_or_the_last_one() {
    let terminal = run(&["demo", "--duration", "2s", "--pods", "50", "--rate", "50"], &[]);

    let contents = terminal.contents();
    let fault = contents.lines().find_map(|line| line.strip_prefix("fault now    ")).unwrap_or_default();
    assert!(["pods: the ", "nodes: the "].iter().any(|named| fault.contains(named)), "{contents}");
}

#[test]
fn the_demo_uses_colours_in_a_terminal_unless_no_color_is_set() {
    let arguments = ["demo", "--duration", "1s", "--pods", "50", "--rate", "50"];
    let is_coloured = |terminal: &Terminal| String::from_utf8_lossy(&terminal.bytes).contains("\x1b[32m");

    assert!(is_coloured(&run(&arguments, &[])));
    assert!(!is_coloured(&run(&arguments, &[("NO_COLOR", "1")])));
}

#[test]
fn ctrl_c_ends_the_demo_with_its_verdict() {
    let arguments = ["demo", "--duration", "1h", "--pods", "50", "--rate", "50"];

    let terminal = run_until(Some("API server   version"), 24, 80, &arguments, &[]);

    assert!(terminal.success && terminal.contents().contains("verified: 2 caches"), "{}", terminal.contents());
}

#[test]
fn the_api_server_in_a_terminal_suggests_a_command_and_ends_with_ctrl_c() {
    let terminal = run_until(Some("http://127.0.0.1:"), 24, 120, &["apiserver", "--listen", "0"], &[]);

    let contents = terminal.contents();
    assert!(terminal.success, "{contents}");
    assert!(contents.contains("serving until Ctrl-C; try `informant watch pods -A --server http://"), "{contents}");
}

#[test]
fn the_demo_fits_into_small_terminals() {
    for (rows, columns) in [(24, 40), (8, 80)] {
        let terminal = run_at(rows, columns, &["demo", "--duration", "2s", "--pods", "50", "--rate", "50"], &[]);

        // The last screen may be empty, between two drawings.
        let drawn = |content: &&String| !content.is_empty() && !content.contains("verified");
        let before_the_end = terminal.screens.iter().rev().find(drawn).unwrap();
        assert!(before_the_end.starts_with("informant demo: "), "nothing has scrolled off: {before_the_end}");
        assert!(terminal.success);
    }
}

#[test]
fn the_demo_prints_lines_in_a_dumb_terminal() {
    let terminal = run(&["demo", "--duration", "2s", "--pods", "50", "--rate", "50"], &[("TERM", "dumb")]);

    assert!(!terminal.bytes.contains(&b'\x1b'), "{}", terminal.contents());
    assert!(terminal.contents().contains("verified: 2 caches"), "{}", terminal.contents());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_uses_colours_in_a_terminal_unless_no_color_is_set() {
    let server = Server::start(&[]);
    server.put("prices", json!({})).await;
    let arguments = ["watch", "cm", "-A", "--until-synced", "--server", &server.url];

    let colourful = run(&arguments, &[]);
    assert!(String::from_utf8_lossy(&colourful.bytes).contains("\x1b[32mADDED"), "{:?}", colourful.contents());
    let plain = run(&arguments, &[("NO_COLOR", "1")]);
    assert!(!String::from_utf8_lossy(&plain.bytes).contains("\x1b[32m"), "{:?}", plain.contents());
    assert!(plain.contents().contains("ADDED") && plain.success);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_progress_line_is_drawn_during_the_sync_and_then_removed() {
    let server = Server::start(&["--load", "pods=3", "--faults", "read=delay:1500ms"]);

    let terminal = run(&["watch", "pods", "-A", "--until-synced", "--server", &server.url], &[]);
    let narrow = run_at(24, 20, &["watch", "pods", "-A", "--until-synced", "--server", &server.url], &[]);

    assert!(narrow.contents().starts_with("EVENT"), "the progress line is removed: {}", narrow.contents());
    let has_progress = |content: &String| content.contains("informer pods is syncing: 0 objects so far");
    assert!(terminal.screens.iter().any(has_progress), "{:?}", terminal.screens);
    let contents = terminal.contents();
    assert!(contents.starts_with("EVENT") && !contents.contains("syncing") && terminal.success, "{contents}");
}

/// The delay makes the sync long enough for a progress line.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_during_the_sync_replaces_the_progress_line() {
    let server = Server::start(&["--load", "pods=3", "--faults", "read=bad-item:metadata.labels,read=delay:1s"]);

    let terminal = run_at(24, 200, &["watch", "pods", "-A", "--until-synced", "--server", &server.url], &[]);

    let contents = terminal.contents();
    assert!(terminal.screens.iter().any(|content| content.contains("is syncing")), "{:?}", terminal.screens);
    assert!(contents.starts_with("informant: skipped an object that cannot be decoded: "), "{contents}");
    assert!(!contents.contains("syncing"), "{contents}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_leaves_the_terminal_clean() {
    let server = Server::start(&["--faults", "list=hang,watch=hang"]);

    for command in ["get", "watch"] {
        let arguments = [command, "pods", "--server", &server.url];
        let terminal = run_until(Some("is syncing"), 24, 80, &arguments, &[]);
        assert_eq!((terminal.contents().trim(), terminal.success), ("", command == "watch"), "{command}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_leaves_the_terminal_clean() {
    let server = Server::start(&["--faults", "list=403,watch=403"]);

    let terminal = run(&["get", "pods", "--server", &server.url], &[]);

    assert!(terminal.contents().starts_with("informant: cannot list pods from"), "{}", terminal.contents());
    assert!(!terminal.success);
}

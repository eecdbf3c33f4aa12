//! In a terminal: what a person would see.

use std::io::Read;
use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Instant;

use pty_process::Size;
use pty_process::blocking::Command;
use serde_json::json;

use crate::support::ELSEWHERE;
use crate::support::PATIENCE;
use crate::support::Server;
use crate::support::nowhere;

/// What was written, as a terminal shows it.
struct Terminal {
    screen: vt100::Parser,
    /// All of it, as it came.
    bytes: Vec<u8>,
    /// Every picture that was there.
    pictures: Vec<String>,
    success: bool,
}

/// Runs it in a terminal, to its end.
fn seen(arguments: &[&str], environment: &[(&str, &str)]) -> Terminal {
    seen_at(24, 80, arguments, environment)
}

fn seen_at(rows: u16, columns: u16, arguments: &[&str], environment: &[(&str, &str)]) -> Terminal {
    seen_until(None, rows, columns, arguments, environment)
}

/// Somebody presses Ctrl-C on seeing this.
fn seen_until(
    enough: Option<&str>,
    rows: u16,
    columns: u16,
    arguments: &[&str],
    environment: &[(&str, &str)],
) -> Terminal {
    let (terminal, inside) = pty_process::blocking::open().unwrap();
    terminal.resize(Size::new(rows, columns)).unwrap();
    let mut command =
        Command::new(env!("CARGO_BIN_EXE_informant")).args(arguments).env("HOME", nowhere()).env("TERM", "xterm");
    for name in ELSEWHERE {
        command = command.env_remove(name);
    }
    let mut child = command.envs(environment.iter().copied()).spawn(inside).unwrap();
    let (sender, receiver) = mpsc::channel();
    let terminal = Arc::new(terminal);
    let reader = Arc::clone(&terminal);
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        // It ends with an error when the other side is closed.
        while let Ok(count @ 1..) = (&*reader).read(&mut buffer) {
            sender.send(buffer[..count].to_vec()).unwrap();
        }
    });
    let (mut screen, mut bytes, mut pictures) = (vt100::Parser::new(rows, columns, 1000), Vec::new(), Vec::new());
    let mut enough = enough;
    let begun = Instant::now();
    while let Ok(part) = receiver.recv_timeout(PATIENCE.saturating_sub(begun.elapsed())) {
        screen.process(&part);
        bytes.extend(part);
        let picture = screen.screen().contents();
        if enough.take_if(|enough| picture.contains(*enough)).is_some() {
            (&*terminal).write_all(b"\x03").unwrap();
        }
        pictures.push(picture);
    }
    if begun.elapsed() >= PATIENCE {
        let _ = child.kill();
        let _ = child.wait();
        panic!("it has not ended: {}", screen.screen().contents());
    }
    Terminal { screen, bytes, pictures, success: child.wait().unwrap().success() }
}

impl Terminal {
    fn contents(&self) -> String {
        self.screen.screen().contents()
    }
}

#[test]
fn the_demo_is_redrawn_in_place_and_its_verdict_stays() {
    let terminal = seen(&["demo", "--duration", "2s", "--pods", "50", "--rate", "50"], &[]);

    let contents = terminal.contents();
    assert!(terminal.success, "{contents}");
    assert_eq!(contents.matches("API server   version").count(), 1, "{contents}");
    assert!(contents.contains("verified: 2 caches and 4 handlers"), "{contents}");
    assert!(contents.starts_with("informant demo: "), "nothing has scrolled away: {contents}");
    for word in ["missed", "coalesced", "slow", "late"] {
        assert!(contents.lines().any(|line| line.starts_with(&format!("{word} "))), "{word} is explained: {contents}");
    }
    let redrawn = String::from_utf8_lossy(&terminal.bytes).matches("\x1b[J").count();
    assert!(redrawn >= 5, "it is alive: {redrawn}");
}

/// Some fault was active at some time, and is the last one when all are over.
#[test]
fn the_demo_names_the_fault_that_is_active_or_the_last_one() {
    let terminal = seen(&["demo", "--duration", "2s", "--pods", "50", "--rate", "50"], &[]);

    let contents = terminal.contents();
    let fault = contents.lines().find_map(|line| line.strip_prefix("fault now    ")).unwrap_or_default();
    assert!(["pods: the ", "nodes: the "].iter().any(|named| fault.contains(named)), "{contents}");
}

#[test]
fn the_demo_has_colours_in_a_terminal_unless_they_are_not_wanted() {
    let arguments = ["demo", "--duration", "1s", "--pods", "50", "--rate", "50"];
    let is_coloured = |terminal: &Terminal| String::from_utf8_lossy(&terminal.bytes).contains("\x1b[32m");

    assert!(is_coloured(&seen(&arguments, &[])));
    assert!(!is_coloured(&seen(&arguments, &[("NO_COLOR", "1")])));
}

#[test]
fn ctrl_c_ends_the_demo_with_its_verdict() {
    let arguments = ["demo", "--duration", "1h", "--pods", "50", "--rate", "50"];

    let terminal = seen_until(Some("API server   version"), 24, 80, &arguments, &[]);

    assert!(terminal.success && terminal.contents().contains("verified: 2 caches"), "{}", terminal.contents());
}

#[test]
fn a_server_in_a_terminal_says_what_to_try_and_ends_with_ctrl_c() {
    let terminal = seen_until(Some("http://127.0.0.1:"), 24, 120, &["apiserver", "--listen", "0"], &[]);

    let contents = terminal.contents();
    assert!(terminal.success, "{contents}");
    assert!(contents.contains("it serves, until Ctrl-C; try `informant watch pods -A --server http://"), "{contents}");
}

#[test]
fn the_demo_fits_every_terminal() {
    for (rows, columns) in [(24, 40), (8, 80)] {
        let terminal = seen_at(rows, columns, &["demo", "--duration", "2s", "--pods", "50", "--rate", "50"], &[]);

        // One may have been taken when the one before had been wiped off.
        let drawn = |picture: &&String| !picture.is_empty() && !picture.contains("verified");
        let before_the_end = terminal.pictures.iter().rev().find(drawn).unwrap();
        assert!(before_the_end.starts_with("informant demo: "), "nothing has scrolled away: {before_the_end}");
        assert!(terminal.success);
    }
}

#[test]
fn a_dumb_terminal_gets_lines() {
    let terminal = seen(&["demo", "--duration", "2s", "--pods", "50", "--rate", "50"], &[("TERM", "dumb")]);

    assert!(!terminal.bytes.contains(&b'\x1b'), "{}", terminal.contents());
    assert!(terminal.contents().contains("verified: 2 caches"), "{}", terminal.contents());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_has_colours_in_a_terminal_unless_they_are_not_wanted() {
    let server = Server::start(&[]);
    server.put("prices", json!({})).await;
    let arguments = ["watch", "cm", "-A", "--until-synced", "--server", &server.url];

    let colourful = seen(&arguments, &[]);
    assert!(String::from_utf8_lossy(&colourful.bytes).contains("\x1b[32mADDED"), "{:?}", colourful.contents());
    let plain = seen(&arguments, &[("NO_COLOR", "1")]);
    assert!(!String::from_utf8_lossy(&plain.bytes).contains("\x1b[32m"), "{:?}", plain.contents());
    assert!(plain.contents().contains("ADDED") && plain.success);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_progress_line_is_there_while_it_syncs_and_then_gone() {
    let server = Server::start(&["--load", "pods=3", "--faults", "read=delay:1500ms"]);

    let terminal = seen(&["watch", "pods", "-A", "--until-synced", "--server", &server.url], &[]);
    let narrow = seen_at(24, 20, &["watch", "pods", "-A", "--until-synced", "--server", &server.url], &[]);

    assert!(narrow.contents().starts_with("EVENT"), "nothing is left of it: {}", narrow.contents());
    let is_there = |picture: &String| picture.contains("informer pods is syncing: 0 objects so far");
    assert!(terminal.pictures.iter().any(is_there), "{:?}", terminal.pictures);
    let contents = terminal.contents();
    assert!(contents.starts_with("EVENT") && !contents.contains("syncing") && terminal.success, "{contents}");
}

/// The second request comes a second after the first, so that there is a line to draw over.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_meanwhile_stands_in_a_line_of_its_own() {
    let server = Server::start(&["--load", "pods=3", "--faults", "read=bad-item:metadata.labels,read=delay:1s"]);

    let terminal = seen_at(24, 200, &["watch", "pods", "-A", "--until-synced", "--server", &server.url], &[]);

    let contents = terminal.contents();
    assert!(terminal.pictures.iter().any(|picture| picture.contains("is syncing")), "{:?}", terminal.pictures);
    assert!(contents.starts_with("informant: an object is left out: "), "{contents}");
    assert!(!contents.contains("syncing"), "{contents}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_leaves_the_terminal_clean() {
    let server = Server::start(&["--faults", "list=hang,watch=hang"]);

    for command in ["get", "watch"] {
        let arguments = [command, "pods", "--server", &server.url];
        let terminal = seen_until(Some("is syncing"), 24, 80, &arguments, &[]);
        assert_eq!((terminal.contents().trim(), terminal.success), ("", command == "watch"), "{command}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_leaves_the_terminal_clean() {
    let server = Server::start(&["--faults", "list=403,watch=403"]);

    let terminal = seen(&["get", "pods", "--server", &server.url], &[]);

    assert!(terminal.contents().starts_with("informant: cannot list pods from"), "{}", terminal.contents());
    assert!(!terminal.success);
}

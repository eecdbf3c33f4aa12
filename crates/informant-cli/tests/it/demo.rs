//! The demo, run as a person would.

use std::io::BufRead;
use std::io::BufReader;
use std::io::Write;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;
use std::time::Instant;

use serde_json::Value;

use crate::support::PATIENCE;
use crate::support::Running;
use crate::support::informant;
use crate::support::run;
use crate::support::text;

fn demo(arguments: &[&str]) -> Output {
    run(&[&["demo"], arguments].concat())
}

/// So few changes that also a busy machine makes enough of them to come to the faults.
#[test]
fn the_demo_verifies_with_every_fault_level_and_several_seeds() {
    for (faults, seed) in [("none", "1"), ("some", "2"), ("some", "3"), ("storm", "4"), ("storm", "5")] {
        let output =
            demo(&["--json", "--duration", "4s", "--pods", "200", "--rate", "100", "--faults", faults, "--seed", seed]);
        let (said, complaints) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{faults} {seed}: {said}{complaints}");

        let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let (last, before) = lines.split_last().unwrap();
        assert_eq!(last["verified"], true, "{last}");
        assert_eq!((&last["caches"], &last["histories"], &last["nodes"]), (&2.into(), &4.into(), &20.into()));
        assert!(before.iter().any(|line| line["events_per_second"]["updated"].as_u64().unwrap() > 0), "{said}");
        assert!(before.len() >= 3 && before.iter().all(|line| line["informers"][1]["name"] == "pods"), "{said}");
        assert!(
            last["picture"]["handlers"].as_array().unwrap().iter().all(|handler| handler["counts"]["nonsense"] == 0)
        );
        for informer in last["picture"]["informers"].as_array().unwrap() {
            let trouble = informer["relists"].as_u64().unwrap() + informer["watch_restarts"].as_u64().unwrap();
            assert_eq!(trouble > 0, faults != "none", "{last}");
        }
        assert_eq!(complaints, "", "nothing else is said");
    }
}

#[test]
fn what_is_piped_is_plain_lines_and_a_verdict() {
    let output = demo(&["--duration", "2s", "--pods", "50", "--rate", "100"]);

    let said = text(&output.stdout);
    assert!(output.status.success() && !said.contains('\x1b'), "{said}");
    assert!(said.starts_with("informant demo: ") && said.contains("events/s  nodes "), "{said}");
    let faults = ["fault now: ", "last fault: "];
    assert!(said.lines().rev().nth(1).is_some_and(|line| faults.iter().any(|fault| line.contains(fault))), "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("verified: 2 caches and 4 handlers know exactly what the server has"), "{last}");
    assert!(said.lines().count() >= 3, "{said}");
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_it_with_the_verification() {
    let arguments = ["demo", "--json", "--duration", "1h", "--pods", "50", "--rate", "100"];
    for signal in ["INT", "TERM"] {
        let mut running = Running::start(&arguments);
        running.event();

        running.signal(signal);

        let last: Value = serde_json::from_str(running.rest().last().unwrap()).unwrap();
        assert_eq!(last["verified"], true, "{last}");
        assert!(running.wait().success());
    }
}

#[cfg(unix)]
#[test]
fn an_interrupt_before_there_is_anything_to_verify_ends_it() {
    let mut running = Running::start(&["demo", "--json", "--pods", "100000", "--metrics", "0"]);
    assert!(running.complaint().contains("metrics at"));

    running.signal("INT");

    assert_eq!((running.wait().code(), running.rest()), (Some(130), vec![]));
}

/// The pipe is full: it is stuck in writing what nobody wants to know.
#[cfg(unix)]
#[test]
fn two_interrupts_end_it_also_if_nobody_reads() {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut other = writer.try_clone().unwrap();
    // It ends with the reader.
    let filling = std::thread::spawn(move || other.write_all(&[b'\n'; 1 << 20]).unwrap_err());
    let mut command = informant();
    command.args(["demo", "--json", "--duration", "1h", "--pods", "50", "-v"]);
    let mut running = command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    let mut complaints = BufReader::new(running.stderr.take().unwrap()).lines();
    assert!(complaints.any(|line| line.unwrap().contains("started")));
    let id = running.id().to_string();

    // Signals of one kind that come together are one, so it is told until it ends.
    let begun = Instant::now();
    let code = loop {
        if let Some(status) = running.try_wait().unwrap() {
            break status.code();
        }
        assert!(begun.elapsed() < PATIENCE, "it has not ended");
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        std::thread::sleep(std::time::Duration::from_millis(50));
    };

    assert_eq!(code, Some(130));
    drop(reader);
    filling.join().unwrap();
}

#[test]
fn faults_strike_also_if_the_machine_does_not_keep_up() {
    let output = demo(&["--json", "--duration", "3s", "--pods", "100", "--rate", "20000", "--faults", "storm"]);

    let last: Value = serde_json::from_str(text(&output.stdout).lines().last().unwrap()).unwrap();
    assert_eq!(last["verified"], true, "{last}");
    let pods = &last["picture"]["informers"][1];
    assert!(pods["relists"].as_u64().unwrap() + pods["watch_restarts"].as_u64().unwrap() > 0, "{pods}");
}

#[test]
fn whoever_stops_reading_is_no_failure() {
    let mut running = informant().args(["demo", "--json", "--duration", "3s"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    drop(lines);

    assert!(running.wait().unwrap().success());
}

#[test]
fn who_asks_for_logs_gets_them_on_stderr() {
    let output = demo(&["--json", "--duration", "1s", "--pods", "20", "--rate", "10", "-v"]);

    assert!(output.status.success());
    assert!(text(&output.stderr).contains("started"), "{}", text(&output.stderr));
    assert!(text(&output.stdout).lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
}

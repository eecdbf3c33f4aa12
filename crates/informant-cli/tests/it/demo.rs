//! `informant demo`.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Command, Output, Stdio},
    time::Instant,
};

use serde_json::Value;

use crate::support::{Running, TIMEOUT, informant, run, text};

fn demo(arguments: &[&str]) -> Output {
    run(&[&["demo"], arguments].concat())
}

/// The rate is low, so that a busy machine also makes enough changes to trigger the faults.
#[test]
fn the_demo_verifies_with_every_fault_level_and_several_seeds() {
    for (faults, seed) in [("none", "1"), ("some", "2"), ("some", "3"), ("storm", "4"), ("storm", "5")] {
        let output =
            demo(&["--json", "--duration", "4s", "--pods", "200", "--rate", "100", "--faults", faults, "--seed", seed]);
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{faults} {seed}: {stdout}{stderr}");

        let lines: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let (last, before) = lines.split_last().unwrap();
        assert_eq!(last["verified"], true, "{last}");
        let rates = lines.iter().map(|line| &line["events_per_second"]).chain([&last["average_events_per_second"]]);
        let added = rates.map(|rate| rate["added"].as_u64().unwrap_or_default());
        assert!(added.max() < Some(100), "the initial list does not count: {stdout}");
        assert_eq!((&last["caches"], &last["handlers"], &last["nodes"]), (&2.into(), &4.into(), &20.into()));
        assert!(before.iter().any(|line| line["events_per_second"]["updated"].as_u64() > Some(0)), "{stdout}");
        assert!(before.len() >= 3 && before.iter().all(|line| line["informers"][1]["name"] == "pods"), "{stdout}");
        assert!(
            last["stats"]["handlers"].as_array().unwrap().iter().all(|handler| handler["counts"]["inconsistent"] == 0)
        );
        for informer in last["stats"]["informers"].as_array().unwrap() {
            let recoveries = informer["relists"].as_u64().unwrap() + informer["watch_restarts"].as_u64().unwrap();
            assert_eq!(recoveries > 0, faults != "none", "{last}");
        }
        assert_eq!(stderr, "", "no messages");
    }
}

#[test]
fn output_to_a_pipe_is_plain_lines_and_a_verdict() {
    let output = demo(&["--duration", "2s", "--pods", "50", "--rate", "100"]);

    let stdout = text(&output.stdout);
    assert!(output.status.success() && !stdout.contains('\x1b'), "{stdout}");
    assert!(stdout.starts_with("informant demo: ") && stdout.contains("events/s  nodes "), "{stdout}");
    let faults = ["fault now: ", "last fault: "];
    assert!(
        stdout
            .lines()
            .rev()
            .find(|line| line.contains("backlog: "))
            .is_some_and(|line| faults.iter().any(|fault| line.contains(fault))),
        "{stdout}"
    );
    let last = stdout.lines().last().unwrap();
    assert!(last.starts_with("verified: 2 caches and 4 handlers match the server"), "{last}");
    assert!(stdout.lines().count() >= 3, "{stdout}");
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_the_demo_with_the_verification() {
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
fn an_interrupt_before_the_informers_start_ends_the_demo_without_verification() {
    let mut running = Running::start(&["demo", "--json", "--pods", "100000", "--metrics", "0"]);
    assert!(running.stderr_line().contains("metrics at"));

    running.signal("INT");

    assert_eq!((running.wait().code(), running.rest()), (Some(130), vec![]));
}

/// The pipe is full, so the demo is blocked in a write.
#[cfg(unix)]
#[test]
fn two_interrupts_end_the_demo_even_if_stdout_is_not_read() {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut other = writer.try_clone().unwrap();
    // The write fails when the reader is dropped.
    let filling = std::thread::spawn(move || other.write_all(&[b'\n'; 1 << 20]).unwrap_err());
    let mut command = informant();
    command.args(["demo", "--json", "--duration", "1h", "--pods", "50", "-v"]);
    let mut running = command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(running.stderr.take().unwrap()).lines();
    assert!(stderr.any(|line| line.unwrap().contains("started")));
    let id = running.id().to_string();

    // Two signals that arrive together count as one, so the signal is repeated until the process ends.
    let started = Instant::now();
    let code = loop {
        if let Some(status) = running.try_wait().unwrap() {
            break status.code();
        }
        assert!(started.elapsed() < TIMEOUT, "the process has not ended");
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        std::thread::sleep(std::time::Duration::from_millis(50));
    };

    assert_eq!(code, Some(130));
    drop(reader);
    filling.join().unwrap();
}

#[test]
fn faults_occur_even_if_the_machine_is_too_slow_for_the_load() {
    let output = demo(&["--json", "--duration", "3s", "--pods", "100", "--rate", "20000", "--faults", "storm"]);

    let last: Value = serde_json::from_str(text(&output.stdout).lines().last().unwrap()).unwrap();
    assert_eq!(last["verified"], true, "{last}");
    let pods = &last["stats"]["informers"][1];
    assert!(pods["relists"].as_u64().unwrap() + pods["watch_restarts"].as_u64().unwrap() > 0, "{pods}");
}

#[test]
fn a_closed_pipe_is_not_a_failure_of_the_demo() {
    let mut running = informant().args(["demo", "--json", "--duration", "3s"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    drop(lines);

    assert!(running.wait().unwrap().success());
}

#[test]
fn logs_are_written_to_stderr() {
    let output = demo(&["--json", "--duration", "1s", "--pods", "20", "--rate", "10", "-v"]);

    assert!(output.status.success());
    assert!(text(&output.stderr).contains("started"), "{}", text(&output.stderr));
    assert!(text(&output.stdout).lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
}

//! Compares informant, kube-runtime and client-go: CPU time and memory to bring pods into a cache and to follow their changes.
//!
//! Each client is a process of its own, which follows the same server; the server is in this process. The clients run alternately, in
//! several rounds, and each is compared with the others of its round. `bench/compare` builds and runs this.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "tables and progress")]
#![allow(clippy::unwrap_used, reason = "a benchmark may stop")]

mod clients;
mod pods;
mod report;
mod server;
#[cfg(test)]
mod tests;

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use clap::{Parser, Subcommand};

use self::{clients::Follow, pods::Pods, report::Report, server::Server};

/// Compares informant, kube-runtime and client-go: CPU time and memory.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    /// Follow a million pods, too, with informant alone: up to 6 GB of memory.
    #[arg(long)]
    million: bool,
    /// How often each client runs.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The number of pods.
    #[arg(long, default_value_t = 20_000)]
    pods: usize,
    /// Write all measurements to a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The program with client-go.
    #[arg(long, value_name = "PROGRAM")]
    client_go: Option<PathBuf>,
    #[command(subcommand)]
    client: Option<Client>,
}

#[derive(Subcommand)]
enum Client {
    /// Run as a client; standard output and input are the other end of a comparison.
    #[command(hide = true)]
    Follow(Follow),
}

/// The clients: the name in the results, and the arguments of `comparison follow`.
const CLIENTS: [(&str, &[&str]); 6] = [
    (report::TRANSPORT, &["transport"]),
    (report::LAZY, &["informant"]),
    ("lazy, indexed", &["informant", "--index"]),
    (report::PACKED, &["informant", "--packed"]),
    (report::PACKED_INDEXED, &["informant", "--packed", "--index"]),
    (report::KUBE_RUNTIME, &["kube-runtime"]),
];
/// The clients that follow a million pods.
const OF_A_MILLION: [&str; 2] = ["lazy, indexed", report::PACKED_INDEXED];

/// What a client did with some pods.
#[derive(Clone, serde::Serialize)]
pub struct Measurement {
    client: &'static str,
    pods: usize,
    shapes: usize,
    events: usize,
    round: usize,
    /// CPU time of the first list, in µs.
    sync: f64,
    /// CPU time of all events, in µs.
    follow: f64,
    /// Resident memory in kB: before the first request, when the cache has all pods, a second later, and after the events.
    before: f64,
    synced: f64,
    settled: f64,
    followed: f64,
    /// The most resident memory that the process ever had, in kB.
    peak: f64,
}

/// A running client.
struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Process {
    /// Starts a client, with the arguments that all clients have.
    fn start(mut command: Command, server: &Server) -> Self {
        let replay = &server.replay;
        let (pods, version) = (replay.pods.len().to_string(), replay.last_version().to_string());
        command.args([format!("http://{}", server.address), pods, version, replay.last_key()]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    /// Waits until the client prints its CPU time at a stage, in µs.
    fn reaches(&mut self, stage: &str) -> f64 {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.strip_prefix(stage).unwrap_or_else(|| panic!("the client stopped before {stage}")).trim().parse().unwrap()
    }

    /// Lets the client go on, and returns its CPU time.
    fn leaves(&mut self, stage: &str) -> f64 {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        self.reaches(stage)
    }

    /// Reads a figure of the kernel about the memory of the process, in kB.
    fn memory(&self, name: &str) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.unwrap().trim().trim_end_matches(" kB").parse().unwrap()
    }
}

fn measure(client: &'static str, command: Command, server: &Server, shapes: usize, round: usize) -> Measurement {
    server.begin();
    let mut process = Process::start(command, server);
    process.reaches("started");
    let before = process.memory("VmRSS");
    let started = process.leaves("started");
    let listed = process.reaches("synced");
    let synced = process.memory("VmRSS");
    // The allocator and the garbage collector return memory a little later.
    std::thread::sleep(Duration::from_secs(1));
    let settled = process.memory("VmRSS");
    let following = process.leaves("synced");
    server.send_events();
    let all_followed = process.reaches("followed");
    let followed = process.memory("VmRSS");
    let peak = process.memory("VmHWM");
    // Its standard input ends here.
    assert!(process.child.wait().unwrap().success());
    Measurement {
        client,
        pods: server.replay.pods.len(),
        shapes,
        events: server.replay.events,
        round,
        sync: listed - started,
        follow: all_followed - following,
        before,
        synced,
        settled,
        followed,
        peak,
    }
}

/// A command with the arguments of a client.
fn follow(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.arg("follow").args(arguments);
    command
}

/// Converts a stream of events to protobuf with the program of client-go.
fn convert(program: &Path, events: &[u8]) -> Vec<u8> {
    let mut command = Command::new(program);
    let mut child = command.arg("convert").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || input.write_all(events).unwrap());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        output.stdout
    })
}

fn main() {
    let arguments = Arguments::parse();
    if let Some(Client::Follow(follow)) = arguments.client {
        return follow.run();
    }
    let ours = std::env::current_exe().unwrap();
    let client_go = arguments.client_go.as_deref();
    let mut report = Report::default();
    for shapes in [1, 30] {
        let convert = client_go.map(|program| |events: &[u8]| convert(program, events));
        let server = Server::start(Pods::new(arguments.pods, shapes), arguments.pods, convert);
        for round in 0..arguments.rounds {
            for (name, client) in CLIENTS {
                report.add(measure(name, follow(&ours, client), &server, shapes, round));
            }
            if let Some(program) = client_go {
                report.add(measure(report::CLIENT_GO, follow(program, &[]), &server, shapes, round));
            }
        }
    }
    for shapes in [30, 1000].into_iter().filter(|_| arguments.million) {
        let server = Server::start(Pods::new(1_000_000, shapes), 100_000, None::<fn(&[u8]) -> Vec<u8>>);
        for (name, client) in CLIENTS.into_iter().filter(|(name, _)| OF_A_MILLION.contains(name)) {
            report.add(measure(name, follow(&ours, client), &server, shapes, 0));
        }
    }
    report.judge();
    report.print();
    if let Some(file) = arguments.json {
        report.write(&file);
    }
}

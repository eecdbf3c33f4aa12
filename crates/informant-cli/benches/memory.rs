//! Peak memory of `informant watch` with 40,000 pods, compared with a program that uses only the library.
//!
//! Each process runs three times. The peak is read from `/proc`, so the benchmark needs Linux.
//!
//! `cargo bench -p informant-cli`
#![allow(clippy::print_stdout, reason = "the table is the result")]
#![allow(clippy::unwrap_used, reason = "a benchmark may stop")]

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use informant::{Event, Lazy, Object, SharedInformerFactory};
use informant_apiserver::{ApiServer, Load};
use k8s_openapi::api::core::v1::Pod;
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};

const PODS: usize = 40_000;
const ROUNDS: usize = 3;

/// The argument with which this program runs itself as the program that only uses the library.
const LIBRARY: &str = "--library-alone";

fn main() {
    if !cfg!(target_os = "linux") {
        println!("this benchmark needs Linux: it reads the peak memory of a process from /proc");
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let arguments: Vec<_> = std::env::args().collect();
    match arguments.iter().position(|argument| argument == LIBRARY) {
        Some(position) => runtime.block_on(library(&arguments[position + 1], &arguments[position + 2])),
        None => runtime.block_on(compare()),
    }
}

async fn library(object_type: &str, url: &str) {
    match object_type {
        "lazy" => watch_pods::<Lazy<DynamicObject>>(url).await,
        "metadata" => watch_pods::<Lazy<PartialObjectMeta<DynamicObject>>>(url).await,
        "decoded" => watch_pods::<DynamicObject>(url).await,
        other => panic!("{other} is not an object type"),
    }
}

/// Does what `informant watch` does, without printing: reads a stream of events. Prints a line when the informer is synced.
async fn watch_pods<O: Object>(url: &str) {
    let client = kube::Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap();
    let factory = SharedInformerFactory::new(client);
    let pods = factory.request_dynamic::<O>(&ApiResource::erase::<Pod>(&())).informer().unwrap();
    let mut events = pods.subscribe().stream().unwrap();
    factory.start();
    let mut events_received = 0;
    while let Some(event) = events.next().await {
        match event {
            Event::Synced => println!("{events_received}"),
            Event::Added { .. } | Event::Updated { .. } | Event::Resynced(_) | Event::Deleted(_) => {
                events_received += 1;
            }
        }
    }
}

async fn compare() {
    let server = ApiServer::new();
    Load::of("pods", PODS).fill(&server).await.unwrap();
    let listening = server.listen(([127, 0, 0, 1], 0)).await.unwrap();
    println!("Peak memory with {PODS} pods: range of {ROUNDS} runs, ratio of the medians.");
    println!("| {:<64} | {:>14} | {:>29} | {:>6} |", "command", "peak memory", "compared with", "ratio");
    println!("|{:-<66}|{:->16}|{:->31}|{:->8}|", "", ":", ":", ":");
    for (object_type, arguments) in [
        ("lazy", &["--lazy", "--no-object", "-o", "json"][..]),
        ("lazy", &["--lazy", "-o", "json"]),
        ("lazy", &["-o", "table"]),
        ("metadata", &["--metadata-only", "-o", "name"]),
        ("decoded", &["--lazy=false", "-o", "json"]),
    ] {
        let url = listening.url();
        let measured = tokio::task::spawn_blocking(move || {
            let rounds = (0..ROUNDS).map(|_| (watch(arguments, &url), library_alone(object_type, &url)));
            rounds.collect::<Vec<_>>()
        });
        let (watch, library): (Vec<_>, Vec<_>) = measured.await.unwrap().into_iter().unzip();
        let ratio = median(&watch) / median(&library);
        let command = format!("informant watch pods -A {}", arguments.join(" "));
        let peer = format!("library alone: {}", range(&library));
        println!("| {command:<64} | {:>14} | {peer:>29} | {ratio:>6.2} |", range(&watch));
    }
    listening.stop().await;
}

fn watch(arguments: &[&str], url: &str) -> f64 {
    let mut command = Command::new(env!("CARGO_BIN_EXE_informant"));
    // One more than there are pods, so that the process still runs when its memory is read.
    let exit_after = (PODS + 1).to_string();
    command.args(["watch", "pods", "-A", "--server", url, "--exit-after", &exit_after]).args(arguments);
    let header = usize::from(arguments.contains(&"table"));
    peak_after(&mut command, PODS + header)
}

fn library_alone(object_type: &str, url: &str) -> f64 {
    peak_after(Command::new(std::env::current_exe().unwrap()).args([LIBRARY, object_type, url]), 1)
}

/// The peak memory in MB of a command when it has printed this many lines.
fn peak_after(command: &mut Command, lines: usize) -> f64 {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut written = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..lines {
        written.next().unwrap().unwrap();
    }
    let peak = peak(&child);
    child.kill().unwrap();
    child.wait().unwrap();
    peak
}

fn peak(child: &Child) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1000.0
}

fn sorted(figures: &[f64]) -> Vec<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn median(figures: &[f64]) -> f64 {
    sorted(figures)[figures.len() / 2]
}

fn range(figures: &[f64]) -> String {
    let sorted = sorted(figures);
    format!("{:.1}–{:.1} MB", sorted[0], sorted[figures.len() - 1])
}

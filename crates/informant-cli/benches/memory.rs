//! Memory of `informant watch` beside that of a program that does the same with the library alone: the most that each process
//! has had, while it follows 40,000 pods of one server. Each runs three times. Linux tells it in `/proc`.
//!
//! `cargo bench -p informant-cli`
#![allow(clippy::print_stdout, reason = "the table is the result")]
#![allow(clippy::unwrap_used, reason = "a benchmark may stop")]

use std::io::BufRead;
use std::io::BufReader;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;

use futures_util::StreamExt;
use informant::Event;
use informant::Lazy;
use informant::Object;
use informant::SharedInformerFactory;
use informant_apiserver::ApiServer;
use informant_apiserver::Load;
use k8s_openapi::api::core::v1::Pod;
use kube::core::ApiResource;
use kube::core::DynamicObject;
use kube::core::PartialObjectMeta;

const PODS: usize = 40_000;
const ROUNDS: usize = 3;

/// By this argument the program runs itself as the one that is compared with.
const LIBRARY: &str = "--library-alone";

fn main() {
    if !cfg!(target_os = "linux") {
        println!("only Linux tells how much memory a process has had");
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let arguments: Vec<_> = std::env::args().collect();
    match arguments.iter().position(|argument| argument == LIBRARY) {
        Some(position) => runtime.block_on(library(&arguments[position + 1], &arguments[position + 2])),
        None => runtime.block_on(compare()),
    }
}

async fn library(form: &str, url: &str) {
    match form {
        "lazy" => follow::<Lazy<DynamicObject>>(url).await,
        "metadata" => follow::<Lazy<PartialObjectMeta<DynamicObject>>>(url).await,
        "decoded" => follow::<DynamicObject>(url).await,
        other => panic!("{other} is no form"),
    }
}

/// What `informant watch` does, but for writing: a stream of everything. Says when it has heard of all that is there.
async fn follow<O: Object>(url: &str) {
    let client = kube::Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap();
    let factory = SharedInformerFactory::new(client);
    let pods = factory.request_dynamic::<O>(&ApiResource::erase::<Pod>(&())).informer().unwrap();
    let mut events = pods.stream().unwrap();
    factory.start();
    let mut heard = 0;
    while let Some(event) = events.next().await {
        match event {
            Event::Synced => println!("{heard}"),
            Event::Added { .. } | Event::Updated { .. } | Event::Resynced(_) | Event::Deleted(_) => heard += 1,
        }
    }
}

async fn compare() {
    let server = ApiServer::new();
    Load::of("pods", PODS).fill(&server).await.unwrap();
    let listening = server.listen(([127, 0, 0, 1], 0)).await.unwrap();
    println!("{PODS} pods, most memory in MB, of {ROUNDS} runs");
    println!("{:<44} {:>17} {:>17} {:>6}", "informant watch pods -A", "watch", "library alone", "ratio");
    for (form, arguments) in [
        ("lazy", &["--lazy", "--no-object", "-o", "json"][..]),
        ("lazy", &["--lazy", "-o", "json"]),
        ("lazy", &["-o", "table"]),
        ("metadata", &["--metadata-only", "-o", "name"]),
        ("decoded", &["--lazy=false", "-o", "json"]),
    ] {
        let url = listening.url();
        let measured = tokio::task::spawn_blocking(move || {
            let rounds = (0..ROUNDS).map(|_| (watch(arguments, &url), alone(form, &url)));
            rounds.collect::<Vec<_>>()
        });
        let (watch, library): (Vec<_>, Vec<_>) = measured.await.unwrap().into_iter().unzip();
        let ratio = middle(&watch) / middle(&library);
        println!("{:<44} {:>17} {:>17} {ratio:>6.2}", arguments.join(" "), range(&watch), range(&library));
    }
    listening.stop().await;
}

fn watch(arguments: &[&str], url: &str) -> f64 {
    let mut command = Command::new(env!("CARGO_BIN_EXE_informant"));
    // One more than there are, so that it is still there when it is looked at.
    let exit_after = (PODS + 1).to_string();
    command.args(["watch", "pods", "-A", "--server", url, "--exit-after", &exit_after]).args(arguments);
    let header = usize::from(arguments.contains(&"table"));
    most(&mut command, PODS + header)
}

fn alone(form: &str, url: &str) -> f64 {
    most(Command::new(std::env::current_exe().unwrap()).args([LIBRARY, form, url]), 1)
}

/// The most memory in MB that a command has had when it has written so many lines.
fn most(command: &mut Command, lines: usize) -> f64 {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut written = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..lines {
        written.next().unwrap().unwrap();
    }
    let most = peak(&child);
    child.kill().unwrap();
    child.wait().unwrap();
    most
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

fn middle(figures: &[f64]) -> f64 {
    sorted(figures)[figures.len() / 2]
}

fn range(figures: &[f64]) -> String {
    let sorted = sorted(figures);
    format!("{:.1}–{:.1}", sorted[0], sorted[figures.len() - 1])
}

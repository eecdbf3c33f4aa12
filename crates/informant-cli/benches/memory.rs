//! Memory of `informant watch` beside that of a program that does the same with the library alone: the most that each process
//! has had, while it follows 40,000 pods of one server. Linux tells it in `/proc`.
//!
//! `cargo bench -p informant-cli`
#![allow(clippy::print_stdout, reason = "the table is the result")]
#![allow(clippy::unwrap_used, reason = "a benchmark may stop")]

use std::io::BufRead;
use std::io::BufReader;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use informant::Handler;
use informant::Lazy;
use informant::SharedInformerFactory;
use informant_apiserver::ApiServer;
use informant_apiserver::Load;
use k8s_openapi::api::core::v1::Pod;
use kube::core::ApiResource;
use kube::core::DynamicObject;

const PODS: usize = 40_000;

/// By this argument the program runs itself as the one that is compared with.
const LIBRARY: &str = "--library-alone";

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let arguments: Vec<_> = std::env::args().collect();
    match arguments.iter().position(|argument| argument == LIBRARY) {
        Some(position) => runtime.block_on(library(&arguments[position + 1])),
        None => runtime.block_on(compare()),
    }
}

/// What `informant watch` does, but for writing: an informer, and somebody who hears of everything.
async fn library(url: &str) {
    let client = kube::Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap();
    let factory = SharedInformerFactory::new(client);
    let pods = factory.request_dynamic::<Lazy<DynamicObject>>(&ApiResource::erase::<Pod>(&())).informer().unwrap();
    let heard = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&heard);
    let count = Handler::<Lazy<DynamicObject>>::new().on_add(move |_, _| {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    let registration = pods.add_handler(count).unwrap();
    factory.start();
    registration.synced().await.unwrap();
    println!("{}", heard.load(Ordering::Relaxed));
    // Until it was looked at.
    std::future::pending().await
}

async fn compare() {
    let server = ApiServer::new();
    Load::of("pods", PODS).fill(&server).await.unwrap();
    let listening = server.listen(([127, 0, 0, 1], 0)).await.unwrap();
    let url = listening.url();

    let mut baseline = Command::new(std::env::current_exe().unwrap());
    let library = tokio::task::spawn_blocking({
        let url = url.clone();
        move || most(baseline.args([LIBRARY, &url]), 1)
    });
    let library = library.await.unwrap();
    println!("{:<56} {:>9} {:>9} {:>6}", "40,000 pods, most memory in MB", "watch", "library", "ratio");
    for (name, more) in [
        ("watch --lazy --no-object -o json", &["-o", "json", "--lazy", "--no-object"][..]),
        ("watch --lazy -o json", &["-o", "json", "--lazy"]),
        ("watch (a table)", &[]),
        ("watch --metadata-only", &["--metadata-only"]),
        ("watch --lazy=false -o json --no-object", &["-o", "json", "--lazy=false", "--no-object"]),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_informant"));
        // One more than there are, so that it is still there when it is looked at.
        let exit_after = (PODS + 1).to_string();
        command.args(["watch", "pods", "-A", "--server", &url, "--exit-after", &exit_after]).args(more);
        let lines = if more.contains(&"-o") { PODS } else { PODS + 1 };
        let most = tokio::task::spawn_blocking(move || most(&mut command, lines)).await.unwrap();
        println!("{name:<56} {:>9.1} {:>9.1} {:>6.2}", most / 1e3, library / 1e3, most / library);
    }
    listening.stop().await;
}

/// The most memory in kB that a command has had when it has written so many lines.
fn most(command: &mut Command, lines: usize) -> f64 {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
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
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

//! Shared by the benchmarks: realistic objects, and a table of results with the peer that each is compared with.
#![allow(dead_code, reason = "each benchmark uses a part of this module")]
#![allow(clippy::print_stdout, reason = "the table is the result")]

pub mod feed;
pub mod pipeline;
pub mod static_server;

use informant::{Cached, Identity, Key, Uid};

/// The number of objects.
pub const KEYS: usize = 100_000;

/// The content of an object besides its identity: its index values.
#[derive(Clone)]
pub struct Content {
    pub node: u32,
    pub app: u32,
}

/// A projection of a pod with two fields.
#[derive(serde::Deserialize)]
pub struct PodNode {
    pub spec: PodNodeSpec,
    pub status: PodNodeStatus,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodNodeSpec {
    pub node_name: Option<String>,
}

#[derive(serde::Deserialize)]
pub struct PodNodeStatus {
    pub phase: Option<String>,
}

informant::projection!(PodNode of k8s_openapi::api::core::v1::Pod);

/// A realistic key: one of 50 namespaces, and a name like that of a ReplicaSet's pod.
pub fn key(number: usize) -> Key {
    Key::namespaced(&format!("team-{}", number % 50), &format!("web-{}-7c9f8d6b5d-x{number:05}", number % 1000))
}

pub fn identity(number: usize, version: usize) -> Identity {
    Identity {
        key: key(number),
        uid: Uid::new(format!("0b7d2f1e-9a54-4c55-8f0e-{number:012}")),
        version: version.to_string().as_str().into(),
    }
}

pub fn object(number: usize, version: usize) -> Cached<Content> {
    let content = Content { node: (number % 1000) as u32, app: ((number + version) % 200) as u32 };
    Cached::new(identity(number, version), content)
}

/// The numbers below `KEYS` in a random order, so that the processor cannot prefetch.
pub fn shuffled() -> Vec<usize> {
    let mut numbers: Vec<_> = (0..KEYS).collect();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for position in (1..KEYS).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        numbers.swap(position, (state % (position as u64 + 1)) as usize);
    }
    numbers
}

/// CPU time of this thread, in microseconds.
pub fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1000.0
}

/// Formats a number with thousands separators: `20,000`.
pub fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// The unit of the values in a table.
#[derive(Clone, Copy)]
pub enum Unit {
    /// Printed as ns or µs.
    Nanoseconds,
    /// Printed as B or kB.
    Bytes,
}

impl Unit {
    fn format(self, value: f64) -> String {
        let (small, large, decimals) = match self {
            Self::Nanoseconds => ("ns", "µs", 1),
            Self::Bytes => ("B", "kB", 0),
        };
        if value < 1000.0 { format!("{value:.decimals$} {small}") } else { format!("{:.1} {large}", value / 1000.0) }
    }
}

/// A Markdown table: one row per measurement, which can be read without the others.
#[derive(Clone, Copy)]
pub struct Table {
    unit: Unit,
}

impl Table {
    /// Prints the header.
    pub fn new(unit: Unit) -> Self {
        println!(
            "\n| {:<82} | {:>10} | {:>48} | {:>6} | {:>7} |",
            "measured", "informant", "compared with", "ratio", "aim"
        );
        println!("|{:-<84}|{:->12}|{:->50}|{:->8}|{:->9}|", "", ":", ":", ":", ":");
        Self { unit }
    }

    /// Prints a row: the result, the peer with its result, their ratio, and the ratio that we aim at; `!` marks a missed aim.
    pub fn row(self, name: &str, ours: f64, (peer, theirs): (&str, f64), aim: Option<f64>) {
        print_row(name, &self.unit.format(ours), &format!("{peer}: {}", self.unit.format(theirs)), ours / theirs, aim);
    }
}

fn print_row(name: &str, ours: &str, peer: &str, ratio: f64, aim: Option<f64>) {
    let aim = match aim {
        None => String::new(),
        Some(aim) if ratio <= aim => format!("≤ {aim}"),
        Some(aim) => format!("≤ {aim} !"),
    };
    println!("| {name:<82} | {ours:>10} | {peer:>48} | {ratio:>6.2} | {aim:>7} |");
}

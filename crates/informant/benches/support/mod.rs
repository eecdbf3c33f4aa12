//! What both benchmarks share: realistic objects, and a table of ratios.
#![allow(dead_code, reason = "each benchmark uses a part of it")]
#![allow(clippy::print_stdout, reason = "the table is the result")]

pub mod feed;
pub mod pipeline;
pub mod static_server;

use informant::Cached;
use informant::Key;
use informant::Uid;
use informant::object::Identity;

/// How many objects there are.
pub const KEYS: usize = 100_000;

/// What an object holds besides its identity: its index values.
#[derive(Clone)]
pub struct Content {
    pub node: u32,
    pub app: u32,
}

/// A real-looking key: 50 namespaces, names as a ReplicaSet makes them.
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

/// The numbers below `KEYS` in an order that no cache of the processor can guess.
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

pub fn print_head(ours: &str, baseline: &str) {
    println!("\n| {:<52} | {ours:>12} | {baseline:>12} | {:>6} | {:>7} |", "", "ratio", "aim");
    println!("|{:-<54}|{:->14}|{:->14}|{:->8}|{:->9}|", "", ":", ":", ":", ":");
}

/// One line: ours, the baseline, their ratio, and what we aim at.
pub fn print_row(name: &str, ours: f64, baseline: f64, aim: Option<f64>) {
    let ratio = ours / baseline;
    let aim = match aim {
        None => String::new(),
        Some(aim) if ratio <= aim => format!("≤ {aim}"),
        Some(aim) => format!("≤ {aim} !"),
    };
    println!("| {name:<52} | {ours:>12.1} | {baseline:>12.1} | {ratio:>6.2} | {aim:>7} |");
}

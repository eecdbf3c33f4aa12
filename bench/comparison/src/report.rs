//! The results: a table for each set of pods, and the ratios that the project promises.

use std::path::Path;

use serde::Serialize;

use crate::Measurement;

pub const TRANSPORT: &str = "transport";
pub const LAZY: &str = "lazy";
pub const PACKED: &str = "packed";
pub const PACKED_INDEXED: &str = "packed, indexed";
pub const KUBE_RUNTIME: &str = "kube-runtime";
pub const CLIENT_GO: &str = "client-go";

/// All measurements.
#[derive(Default, Serialize)]
pub struct Report {
    measurements: Vec<Measurement>,
    bars: Vec<Bar>,
}

/// A figure of a measurement.
type Figure = fn(&Measurement) -> f64;

/// CPU time per object of the first list, in µs.
const SYNC: Figure = |measured| measured.sync / measured.pods as f64;
/// CPU time per event, in µs.
const EVENT: Figure = |measured| measured.follow / measured.events as f64;
/// Memory that the process needs for an object, in kB: what it has after the first list, without what it had before.
const MEMORY: Figure = |measured| (measured.settled - measured.before) * 1.024 / measured.pods as f64;
/// The same at the worst moment.
const PEAK: Figure = |measured| (measured.peak - measured.before) * 1.024 / measured.pods as f64;
/// Memory of the whole process, in GB.
const RESIDENT: Figure = |measured| measured.settled * 1.024e-6;
const RESIDENT_PEAK: Figure = |measured| measured.peak * 1.024e-6;

/// The columns of a table: name and figure.
const COLUMNS: [(&str, Figure); 6] = [
    ("sync, µs per object", SYNC),
    ("event, µs", EVENT),
    ("memory, kB per object", MEMORY),
    ("peak, kB per object", PEAK),
    ("resident, MB", |measured| RESIDENT(measured) * 1000.0),
    ("peak, MB", |measured| RESIDENT_PEAK(measured) * 1000.0),
];

/// Ratios that are promised: a client, one that it is compared with, and the highest ratios of sync, event and memory.
const RATIOS: [(&str, &str, [f64; 3]); 3] = [
    (LAZY, KUBE_RUNTIME, [0.14, 0.10, 0.125]),
    (PACKED, KUBE_RUNTIME, [0.28, 0.21, 0.025]),
    (LAZY, CLIENT_GO, [0.25, 0.18, 0.25]),
];

/// A promised limit, and what was measured.
#[derive(Serialize)]
struct Bar {
    pods: usize,
    shapes: usize,
    name: String,
    measured: Spread,
    limit: f64,
}

/// A figure in several rounds.
#[derive(Clone, Copy, Serialize)]
struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    /// `None` without a value.
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<_> = values.collect();
        values.sort_by(f64::total_cmp);
        let median = *values.get(values.len() / 2)?;
        Some(Self { median, least: values[0], most: *values.last()? })
    }

    fn over(self, divisor: f64) -> Self {
        Self { median: self.median / divisor, least: self.least / divisor, most: self.most / divisor }
    }

    fn text(self) -> String {
        let decimals = if self.median < 1.0 { 3 } else { 1 };
        format!("{:.decimals$} ({:.decimals$}–{:.decimals$})", self.median, self.least, self.most)
    }
}

impl Report {
    pub fn add(&mut self, measured: Measurement) {
        eprintln!(
            "{}, {} pods, {} shapes, round {}: sync {:.1} µs, event {:.1} µs, {:.2} kB",
            measured.client,
            measured.pods,
            measured.shapes,
            measured.round + 1,
            SYNC(&measured),
            EVENT(&measured),
            MEMORY(&measured)
        );
        self.measurements.push(measured);
    }

    /// The sets of pods: number and shapes.
    fn sets(&self) -> Vec<(usize, usize)> {
        let mut sets: Vec<_> = self.measurements.iter().map(|measured| (measured.pods, measured.shapes)).collect();
        sets.dedup();
        sets
    }

    fn of(&self, set: (usize, usize), client: &str) -> impl Iterator<Item = &Measurement> {
        let is_asked = move |m: &&Measurement| (m.pods, m.shapes) == set && m.client == client;
        self.measurements.iter().filter(is_asked)
    }

    /// Combines a figure of two clients in each round.
    fn combined(
        &self,
        set: (usize, usize),
        [one, other]: [&str; 2],
        figure: Figure,
        combine: fn(f64, f64) -> f64,
    ) -> Option<Spread> {
        let pairs = self.of(set, one).zip(self.of(set, other));
        Spread::of(pairs.map(|(one, other)| combine(figure(one), figure(other))))
    }

    /// Compares what was measured with what is promised.
    pub fn judge(&mut self) {
        let sets = self.sets();
        let mut bars = Vec::new();
        let mut bar = |(pods, shapes), name: String, measured: Option<Spread>, limit| {
            bars.extend(measured.map(|measured| Bar { pods, shapes, name, measured, limit }));
        };
        let per_object = [("sync CPU", SYNC), ("event CPU", EVENT), ("memory", MEMORY)];
        for set @ (pods, shapes) in sets {
            for (one, other, limits) in RATIOS {
                for ((name, figure), limit) in per_object.into_iter().zip(limits) {
                    let ratio = self.combined(set, [one, other], figure, |one, other| one / other);
                    bar(set, format!("{one} / {other}: {name}"), ratio, limit);
                }
            }
            for (name, figure) in [("object", SYNC), ("event", EVENT)] {
                let rest = self.combined(set, [LAZY, TRANSPORT], figure, |lazy, transport| lazy - transport);
                bar(set, format!("lazy minus transport: µs per {name}"), rest, 7.5);
            }
            if (pods, shapes) != (1_000_000, 30) {
                continue;
            }
            let measured = |figure: Figure| Spread::of(self.of(set, PACKED_INDEXED).map(figure));
            bar(set, "packed, indexed: resident memory, GB".into(), measured(RESIDENT), 1.0);
            bar(set, "packed, indexed: peak memory, GB".into(), measured(RESIDENT_PEAK), 1.3);
            let few =
                self.measurements.iter().filter(|m| m.pods < pods && m.shapes == shapes && m.client == PACKED_INDEXED);
            let growth = Spread::of(few.map(SYNC)).zip(measured(SYNC)).map(|(few, many)| many.over(few.median));
            bar(set, "packed, indexed: sync CPU per object, of that with fewer pods".into(), growth, 1.2);
        }
        self.bars = bars;
    }

    pub fn print(&self) {
        for set @ (pods, shapes) in self.sets() {
            println!("\n{pods} pods of {shapes} shapes: the median of all rounds, and the least and the most.\n");
            let names: Vec<_> = COLUMNS.iter().map(|(name, _)| *name).collect();
            println!("| client | {} |\n| ---{} |", names.join(" | "), " | ---:".repeat(names.len()));
            let in_first_round = self.measurements.iter().filter(|m| (m.pods, m.shapes, m.round) == (pods, shapes, 0));
            for Measurement { client, .. } in in_first_round {
                let cells = COLUMNS.iter().filter_map(|(_, figure)| Spread::of(self.of(set, client).map(figure)));
                println!("| {client} | {} |", cells.map(Spread::text).collect::<Vec<_>>().join(" | "));
            }
        }
        println!("\n| promised | pods | shapes | measured | limit | |\n| --- | ---: | ---: | ---: | ---: | --- |");
        for Bar { pods, shapes, name, measured, limit } in &self.bars {
            let verdict = if measured.median <= *limit { "met" } else { "missed" };
            println!("| {name} | {pods} | {shapes} | {} | {limit} | {verdict} |", measured.text());
        }
    }

    pub fn write(&self, file: &Path) {
        std::fs::write(file, serde_json::to_string_pretty(self).unwrap()).unwrap();
    }
}

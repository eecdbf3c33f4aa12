//! Prints the demo's stats: redrawn in place in a terminal (laid out by `screen`), line by line elsewhere, or as JSON.

use std::{io, time::Duration};

use serde_json::json;

use super::{
    rates::{Rates, WINDOW},
    screen,
    screen::{counted, recoveries},
    stats::DemoStats,
    verify::Verdict,
};
use crate::output::{
    Paint, Stdout,
    paint::Color,
    sanitized,
    stdout::{StdoutError, StdoutState},
    terminal,
};

/// Writes stats to stdout.
pub struct Renderer {
    mode: OutputMode,
    stdout: Stdout,
    rates: Rates,
}

enum OutputMode {
    Json,
    /// One line per second; title and legend are printed before the first one.
    Lines {
        has_header: bool,
    },
    /// Redrawn in place; `lines` is the number of lines drawn.
    Terminal {
        lines: usize,
        paint: Paint,
    },
}

impl Renderer {
    pub fn new(json: bool) -> Self {
        let mode = match (json, terminal::of(&io::stdout())) {
            (true, _) => OutputMode::Json,
            (false, Some(_)) => OutputMode::Terminal { lines: 0, paint: Paint::new(Color::Auto) },
            (false, None) => OutputMode::Lines { has_header: false },
        };
        Self { mode, stdout: Stdout::new(), rates: Rates::default() }
    }

    /// The time between two outputs.
    pub fn interval(&self) -> Duration {
        match self.mode {
            OutputMode::Terminal { .. } => Duration::from_millis(200),
            OutputMode::Json | OutputMode::Lines { .. } => Duration::from_secs(1),
        }
    }

    /// Prints stats; returns whether stdout is still open.
    pub async fn stats(&mut self, stats: &DemoStats) -> Result<StdoutState, StdoutError> {
        self.rates.add(stats);
        let text = match &mut self.mode {
            OutputMode::Json => {
                let mut line = json!(stats);
                line["events_per_second"] = json!(self.rates.current());
                line.to_string()
            }
            OutputMode::Lines { has_header } => {
                let header = if std::mem::replace(has_header, true) { String::new() } else { header() };
                format!("{header}{}", line(stats, &self.rates))
            }
            OutputMode::Terminal { lines, paint } => {
                let back = if *lines > 0 { format!("\x1b[{lines}A\r\x1b[J") } else { String::new() };
                // Read each time: the user may have resized the terminal.
                let room = drawable_size();
                let shown: Vec<_> = screen::screen(stats, &self.rates, room)
                    .iter()
                    .take(room.rows)
                    .map(|line| line.paint(*paint, room.columns))
                    .collect();
                *lines = shown.len();
                format!("{back}{}", shown.join("\n"))
            }
        };
        self.print(&text).await
    }

    /// Prints the last stats and the result of the verification.
    pub async fn end(&mut self, stats: &DemoStats, verdict: &Verdict) -> Result<StdoutState, StdoutError> {
        match self.mode {
            OutputMode::Json => {
                let mut last = json!(verdict);
                last["stats"] = json!(stats);
                last["average_events_per_second"] = json!(self.rates.average());
                self.print(&last.to_string()).await
            }
            OutputMode::Lines { .. } => match self.stats(stats).await? {
                StdoutState::Open => {
                    let average = self.rates.average().map(|rate| format!("average: {rate}\n")).unwrap_or_default();
                    self.print(&format!("{average}{}", summary(stats, verdict))).await
                }
                StdoutState::Closed => Ok(StdoutState::Closed),
            },
            OutputMode::Terminal { paint, .. } => match self.stats(stats).await? {
                StdoutState::Open => {
                    let columns = drawable_size().columns;
                    let summary = summary(stats, verdict);
                    let lines = summary.lines().flat_map(|line| screen::wrapped(line, columns, "  "));
                    let color = if verdict.is_verified() { Paint::green } else { Paint::red };
                    let painted: Vec<_> = lines.map(|line| color(paint, &line)).collect();
                    self.print(&painted.join("\n")).await
                }
                StdoutState::Closed => Ok(StdoutState::Closed),
            },
        }
    }

    async fn print(&mut self, text: &str) -> Result<StdoutState, StdoutError> {
        self.stdout.write(format!("{text}\n").as_bytes()).await
    }
}

fn line(stats: &DemoStats, rates: &Rates) -> String {
    let rate = rates.current().map_or_else(|| "starting".to_owned(), |rate| rate.to_string());
    let informers = stats.informers.iter().map(|informer| {
        let (name, objects) = (&informer.name, informer.objects);
        format!("{name} {objects} ({}, {})", informer.activity, recoveries(informer))
    });
    let handlers =
        stats.handlers.iter().map(|handler| format!("{}/{} {}", handler.name, handler.kind, handler.backlog));
    let faults = match (&stats.active_faults[..], &stats.last_fault) {
        ([], None) => String::new(),
        ([], Some(last)) => format!("; last fault: {last}"),
        (faults, _) => format!("; fault now: {}", faults.join(", ")),
    };
    let line = format!(
        "{:5.1} s  {rate}  {}; backlog: {}{faults}",
        stats.seconds,
        informers.collect::<Vec<_>>().join("; "),
        handlers.collect::<Vec<_>>().join(", ")
    );
    sanitized(&line).into_owned()
}

/// The part of the terminal that can be redrawn.
fn drawable_size() -> terminal::Size {
    terminal::of(&io::stdout()).unwrap_or(terminal::DEFAULT_SIZE).drawable()
}

/// Title and legend, printed above the first line.
fn header() -> String {
    let rate = format!(
        "events/s: + added, ~ updated, - deleted, over the last {WINDOW} s; backlog: events that wait for a handler"
    );
    let legend = screen::LEGEND.iter().filter(|line| line.starts_with("slow") || line.starts_with("late"));
    let legend: String = legend.map(|line| format!("{line}\n")).collect();
    format!("{}\n{rate}\n{legend}", screen::TITLE)
}

fn summary(stats: &DemoStats, verdict: &Verdict) -> String {
    let Verdict { caches, handlers, pods, nodes, differences, .. } = verdict;
    let relists: u64 = stats.informers.iter().map(|informer| informer.relists).sum();
    let restarts: u64 = stats.informers.iter().map(|informer| informer.watch_restarts).sum();
    let (relists, restarts) = (counted(relists, "relist", "s"), counted(restarts, "watch restart", "s"));
    match differences.is_empty() {
        true => format!(
            "verified: {caches} caches and {handlers} handlers match the server ({pods} pods, {nodes} nodes), \
             after {relists} and {restarts}"
        ),
        false => format!("NOT verified:\n  {}", differences.join("\n  ")),
    }
}

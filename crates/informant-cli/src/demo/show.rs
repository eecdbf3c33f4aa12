//! How the demo is told: redrawn in place in a terminal, line by line elsewhere, or as JSON.

use std::io;
use std::io::IsTerminal;
use std::io::Write;
use std::time::Duration;

use serde_json::json;

use super::picture::Picture;
use super::verify::Verdict;

/// Tells people, or programs.
pub struct Show {
    manner: Manner,
    /// The picture before, to say how much there is in a second.
    before: Option<(f64, u64)>,
}

enum Manner {
    Json,
    Lines,
    /// In place; how many lines stand there now.
    Terminal { lines: usize },
}

/// As wide as every terminal is.
const WIDTH: usize = 79;

impl Show {
    pub fn new(json: bool) -> Self {
        let manner = match (json, io::stdout().is_terminal()) {
            (true, _) => Manner::Json,
            (false, true) => Manner::Terminal { lines: 0 },
            (false, false) => Manner::Lines,
        };
        Self { manner, before: None }
    }

    /// How often there is something new to tell.
    pub fn pause(&self) -> Duration {
        match self.manner {
            Manner::Terminal { .. } => Duration::from_millis(200),
            Manner::Json | Manner::Lines => Duration::from_secs(1),
        }
    }

    pub fn picture(&mut self, picture: &Picture) -> io::Result<()> {
        let rate = self.rate(picture);
        match &mut self.manner {
            Manner::Json => print(&serde_json::to_string(picture)?),
            Manner::Lines => print(&line(picture, rate)),
            Manner::Terminal { lines } => {
                let screen = screen(picture, rate);
                let back = if *lines > 0 { format!("\x1b[{lines}A\x1b[J") } else { String::new() };
                *lines = screen.len();
                print(&format!("{back}{}", screen.join("\n")))
            }
        }
    }

    pub fn end(&mut self, picture: &Picture, verdict: &Verdict) -> io::Result<()> {
        match self.manner {
            Manner::Json => {
                let mut last = serde_json::to_value(verdict)?;
                last["picture"] = json!(picture);
                print(&last.to_string())
            }
            Manner::Lines | Manner::Terminal { .. } => {
                self.picture(picture)?;
                print(&summary(picture, verdict))
            }
        }
    }

    /// Events in a second since the picture before.
    fn rate(&mut self, picture: &Picture) -> f64 {
        let events = picture.informers.iter().map(|informer| informer.events).sum();
        let (then, before) = self.before.replace((picture.seconds, events)).unwrap_or((0.0, 0));
        match picture.seconds - then {
            passed if passed > 0.0 => events.saturating_sub(before) as f64 / passed,
            _ => 0.0,
        }
    }
}

/// Whoever reads it may have gone; that is no failure.
fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        outcome => outcome,
    }
}

fn line(picture: &Picture, rate: f64) -> String {
    let informers = picture.informers.iter().map(|informer| {
        let (name, objects) = (&informer.name, informer.objects);
        format!("{name} {objects} ({}, {} relists, {} restarts)", informer.doing, informer.relists, informer.watch_restarts)
    });
    let handlers = picture.handlers.iter().map(|handler| format!("{}/{} {}", handler.name, handler.kind, handler.backlog));
    format!(
        "{:5.1} s  {rate:5.0} events/s  {}; waiting: {}",
        picture.seconds,
        informers.collect::<Vec<_>>().join("; "),
        handlers.collect::<Vec<_>>().join(", ")
    )
}

fn screen(picture: &Picture, rate: f64) -> Vec<String> {
    let mut lines = vec![
        format!("API server   version {}, {} pods", picture.server_version, picture.server_pods),
        format!("     │       {:.1} s, {rate:.0} events/s", picture.seconds),
    ];
    for informer in &picture.informers {
        lines.push(format!("     ├─▶ {:<7} {}", informer.name, informer.doing));
        lines.push(format!(
            "     │     queue {:<4} cache {} objects at version {}, {} relists, {} restarts",
            informer.queued, informer.objects, informer.version, informer.relists, informer.watch_restarts
        ));
    }
    lines.push("     ▼       handler     waiting  behind   added updated deleted missed merged".into());
    for handler in &picture.handlers {
        let counts = handler.counts;
        lines.push(format!(
            "     {:<5}   {:<10} {:>8} {:>7} {:>7} {:>7} {:>7} {:>6} {:>6}",
            handler.kind,
            handler.name,
            handler.backlog,
            handler.behind,
            counts.added,
            counts.updated,
            counts.deleted,
            counts.missed,
            handler.merged
        ));
    }
    if let Some((node, pods)) = &picture.busiest_node {
        lines.push(format!("by index     {node} has most pods: {pods}"));
    }
    lines.extend(picture.problems.iter().map(|problem| format!("! {problem}")));
    lines.iter().map(|line| line.chars().take(WIDTH).collect()).collect()
}

fn summary(picture: &Picture, verdict: &Verdict) -> String {
    let Verdict { caches, histories, pods, nodes, differences, .. } = verdict;
    let relists: u64 = picture.informers.iter().map(|informer| informer.relists).sum();
    let restarts: u64 = picture.informers.iter().map(|informer| informer.watch_restarts).sum();
    match differences.is_empty() {
        true => format!(
            "verified: {caches} caches and {histories} handlers know exactly what the server has ({pods} pods, {nodes} nodes), \
             after {relists} relists and {restarts} restarted watches"
        ),
        false => format!("NOT verified:\n  {}", differences.join("\n  ")),
    }
}

//! How the demo is shown: redrawn in place in a terminal (`screen`), line by line elsewhere, or as JSON.

use std::fmt;
use std::io;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use super::follower::Counts;
use super::picture::Picture;
use super::screen;
use super::screen::counted;
use super::screen::trouble;
use super::verify::Verdict;
use super::world::SCHEDULER;
use crate::output::Paint;
use crate::output::Stdout;
use crate::output::harmless;
use crate::output::paint::Color;
use crate::output::stdout::Audience;
use crate::output::stdout::StdoutError;
use crate::output::terminal;

/// Tells people, or programs.
pub struct Show {
    manner: Manner,
    stdout: Stdout,
    /// When the picture before was taken, and what had been heard of then.
    before: (f64, Counts),
}

enum Manner {
    Json,
    /// Title and legend stand above the first line.
    Lines {
        has_begun: bool,
    },
    /// In place; how many lines stand there now.
    Terminal {
        lines: usize,
        paint: Paint,
    },
}

/// Events in a second.
#[derive(Clone, Copy, Serialize)]
pub struct Rate {
    pub added: u64,
    pub updated: u64,
    pub deleted: u64,
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { added, updated, deleted } = self;
        write!(f, "+{added} ~{updated} -{deleted} events/s")
    }
}

impl Show {
    pub fn new(json: bool) -> Self {
        let manner = match (json, terminal::of(&io::stdout())) {
            (true, _) => Manner::Json,
            (false, Some(_)) => Manner::Terminal { lines: 0, paint: Paint::new(Color::Auto) },
            (false, None) => Manner::Lines { has_begun: false },
        };
        Self { manner, stdout: Stdout::new(), before: (0.0, Counts::default()) }
    }

    /// How often there is something new to tell.
    pub fn pause(&self) -> Duration {
        match self.manner {
            Manner::Terminal { .. } => Duration::from_millis(200),
            Manner::Json | Manner::Lines { .. } => Duration::from_secs(1),
        }
    }

    /// Says whether somebody still reads.
    pub async fn picture(&mut self, picture: &Picture) -> Result<Audience, StdoutError> {
        let rate = self.rate(picture);
        let text = match &mut self.manner {
            Manner::Json => {
                let mut line = json!(picture);
                line["events_per_second"] = json!(rate);
                line.to_string()
            }
            Manner::Lines { has_begun } => {
                let head = if std::mem::replace(has_begun, true) { String::new() } else { head() };
                format!("{head}{}", line(picture, rate))
            }
            Manner::Terminal { lines, paint } => {
                let back = if *lines > 0 { format!("\x1b[{lines}A\r\x1b[J") } else { String::new() };
                // It may have another size than before.
                let room = room();
                let shown: Vec<_> = screen::screen(picture, rate, room)
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

    pub async fn end(&mut self, picture: &Picture, verdict: &Verdict) -> Result<Audience, StdoutError> {
        match self.manner {
            Manner::Json => {
                let mut last = json!(verdict);
                last["picture"] = json!(picture);
                self.print(&last.to_string()).await
            }
            Manner::Lines { .. } => match self.picture(picture).await? {
                Audience::Reads => self.print(&summary(picture, verdict)).await,
                Audience::Gone => Ok(Audience::Gone),
            },
            Manner::Terminal { paint, .. } => match self.picture(picture).await? {
                Audience::Reads => {
                    let columns = room().columns;
                    let summary = summary(picture, verdict);
                    let lines = summary.lines().flat_map(|line| screen::wrapped(line, columns, "  "));
                    let color = if verdict.is_good() { Paint::green } else { Paint::red };
                    let painted: Vec<_> = lines.map(|line| color(paint, &line)).collect();
                    self.print(&painted.join("\n")).await
                }
                Audience::Gone => Ok(Audience::Gone),
            },
        }
    }

    async fn print(&mut self, text: &str) -> Result<Audience, StdoutError> {
        self.stdout.write(format!("{text}\n").as_bytes()).await
    }

    /// Events in a second since the picture before, as the first handler of each kind has heard of them.
    fn rate(&mut self, picture: &Picture) -> Rate {
        let first = picture.handlers.iter().filter(|handler| handler.name == SCHEDULER);
        let heard = first.fold(Counts::default(), |sum, handler| Counts {
            added: sum.added + handler.counts.added,
            updated: sum.updated + handler.counts.updated,
            deleted: sum.deleted + handler.counts.deleted + handler.counts.missed,
            ..sum
        });
        let (then, before) = std::mem::replace(&mut self.before, (picture.seconds, heard));
        let passed = (picture.seconds - then).max(0.001);
        let in_a_second = |now: u64, before: u64| (now.saturating_sub(before) as f64 / passed).round() as u64;
        Rate {
            added: in_a_second(heard.added, before.added),
            updated: in_a_second(heard.updated, before.updated),
            deleted: in_a_second(heard.deleted, before.deleted),
        }
    }
}

fn line(picture: &Picture, rate: Rate) -> String {
    let informers = picture.informers.iter().map(|informer| {
        let (name, objects) = (&informer.name, informer.objects);
        format!("{name} {objects} ({}, {})", informer.doing, trouble(informer))
    });
    let handlers =
        picture.handlers.iter().map(|handler| format!("{}/{} {}", handler.name, handler.kind, handler.backlog));
    let faults = match (&picture.active_faults[..], &picture.last_fault) {
        ([], None) => String::new(),
        ([], Some(last)) => format!("; last fault: {last}"),
        (faults, _) => format!("; fault now: {}", faults.join(", ")),
    };
    let line = format!(
        "{:5.1} s  {rate}  {}; waiting: {}{faults}",
        picture.seconds,
        informers.collect::<Vec<_>>().join("; "),
        handlers.collect::<Vec<_>>().join(", ")
    );
    harmless(&line).into_owned()
}

/// As much of the terminal as can be drawn over.
fn room() -> terminal::Size {
    terminal::of(&io::stdout()).unwrap_or(terminal::USUAL).room()
}

/// Title and legend of the lines.
fn head() -> String {
    let rate = "+ added, ~ updated, - deleted; waiting: events that a handler has not received yet";
    let legend = screen::LEGEND.iter().filter(|line| line.starts_with("slow") || line.starts_with("late"));
    let legend: String = legend.map(|line| format!("{line}\n")).collect();
    format!("{}\n{rate}\n{legend}", screen::TITLE)
}

fn summary(picture: &Picture, verdict: &Verdict) -> String {
    let Verdict { caches, histories, pods, nodes, differences, .. } = verdict;
    let relists: u64 = picture.informers.iter().map(|informer| informer.relists).sum();
    let restarts: u64 = picture.informers.iter().map(|informer| informer.watch_restarts).sum();
    let (relists, restarts) = (counted(relists, "relist", "s"), counted(restarts, "restarted watch", "es"));
    match differences.is_empty() {
        true => format!(
            "verified: {caches} caches and {histories} handlers know exactly what the server has ({pods} pods, {nodes} nodes), \
             after {relists} and {restarts}"
        ),
        false => format!("NOT verified:\n  {}", differences.join("\n  ")),
    }
}

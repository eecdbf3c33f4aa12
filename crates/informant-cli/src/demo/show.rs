//! How the demo is told: redrawn in place in a terminal, line by line elsewhere, or as JSON.

use std::fmt;
use std::io;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use super::follower::Counts;
use super::picture::InformerFigures;
use super::picture::Picture;
use super::verify::Verdict;
use super::world::SCHEDULER;
use crate::output::Stdout;
use crate::output::harmless;
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
    Lines,
    /// In place; how many lines stand there now.
    Terminal {
        lines: usize,
    },
}

/// Events in a second.
#[derive(Clone, Copy, Serialize)]
struct Rate {
    added: u64,
    updated: u64,
    deleted: u64,
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
            (false, Some(_)) => Manner::Terminal { lines: 0 },
            (false, None) => Manner::Lines,
        };
        Self { manner, stdout: Stdout::new(), before: (0.0, Counts::default()) }
    }

    /// How often there is something new to tell.
    pub fn pause(&self) -> Duration {
        match self.manner {
            Manner::Terminal { .. } => Duration::from_millis(200),
            Manner::Json | Manner::Lines => Duration::from_secs(1),
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
            Manner::Lines => line(picture, rate),
            Manner::Terminal { lines } => {
                let back = if *lines > 0 { format!("\x1b[{lines}A\r\x1b[J") } else { String::new() };
                let whole = screen(picture, rate);
                // It may have another size than before.
                let shown = match terminal::of(&io::stdout()) {
                    Some(size) => size.cut(&whole),
                    None => whole,
                };
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
            Manner::Lines | Manner::Terminal { .. } => match self.picture(picture).await? {
                Audience::Reads => self.print(&summary(picture, verdict)).await,
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
    let line = format!(
        "{:5.1} s  {rate}  {}; waiting: {}",
        picture.seconds,
        informers.collect::<Vec<_>>().join("; "),
        handlers.collect::<Vec<_>>().join(", ")
    );
    harmless(&line).into_owned()
}

fn screen(picture: &Picture, rate: Rate) -> Vec<String> {
    let mut lines = vec![
        format!("API server   version {}, {} pods", picture.server_version, picture.server_pods),
        format!("     │       {:.1} s, {rate}", picture.seconds),
    ];
    for informer in &picture.informers {
        lines.push(format!("     ├─▶ {:<7} {}", informer.name, informer.doing));
        lines.push(format!(
            "     │     queue {:<4} cache {} objects at version {}, {}",
            informer.queued,
            informer.objects,
            informer.version,
            trouble(informer)
        ));
    }
    lines.push("     ▼       handler     waiting  lag ms   added updated deleted missed merged".into());
    for handler in &picture.handlers {
        let counts = handler.counts;
        lines.push(format!(
            "     {:<5}   {:<10} {:>8} {:>7} {:>7} {:>7} {:>7} {:>6} {:>6}",
            handler.kind,
            handler.name,
            handler.backlog,
            handler.lag_ms,
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
    lines.iter().map(|line| harmless(line).into_owned()).collect()
}

/// What it has been through.
fn trouble(informer: &InformerFigures) -> String {
    format!("{}, {}", counted(informer.relists, "relist", "s"), counted(informer.watch_restarts, "restart", "s"))
}

/// `1 relist`, `2 relists`.
fn counted(number: u64, what: &str, of_several: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { of_several })
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

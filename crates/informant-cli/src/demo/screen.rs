//! What a terminal shows of the demo: a picture with a title, the active fault and a legend.
//!
//! - **In:** all figures of a moment.
//! - **Out:** lines, each with its colour. They fit 80 columns and 23 rows; the legend stands last, so that a smaller terminal cuts it
//!   first.
//! - **Knows nothing of:** the terminal, and how lines are redrawn.

use super::picture::InformerFigures;
use super::picture::Picture;
use super::show::Rate;
use crate::output::Paint;
use crate::output::harmless;
use crate::output::table::Painting;
use crate::output::terminal::Size;

/// What the demo shows, in one line.
pub const TITLE: &str = "informant demo: informers and handlers follow an API server through faults";

/// The words of the table that need one.
pub const LEGEND: [&str; 4] = [
    "missed     deletes found by a new list, because the watch was down at the time",
    "coalesced  events combined with a newer one of the same object while they waited",
    "slow       a handler that takes milliseconds for each event and falls behind",
    "late       a handler that joins after half of the time and catches up",
];

/// As many lines of a problem as fit.
const LINES_OF_A_PROBLEM: usize = 2;

/// A line and its colour.
pub struct Line {
    pub text: String,
    painting: Option<Painting>,
}

impl Line {
    fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), painting: None }
    }

    fn painted(painting: Painting, text: impl Into<String>) -> Self {
        Self { text: text.into(), painting: Some(painting) }
    }

    /// The line in its colour, if there are colours; as much of it as fits in so many columns.
    pub fn paint(&self, paint: Paint, columns: usize) -> String {
        let shown: String = self.text.chars().take(columns).collect();
        match self.painting {
            Some(painting) => painting(paint, &shown),
            None => shown,
        }
    }
}

/// The picture, for a terminal with this room.
pub fn screen(picture: &Picture, rate: Rate, room: Size) -> Vec<Line> {
    let mut lines = vec![
        Line::painted(Paint::bold, TITLE),
        Line::plain(format!("API server   version {}, {} pods", picture.server_version, picture.server_pods)),
        Line::plain(format!(
            "     │       {:.1} s; per second {} added, {} updated, {} deleted",
            picture.seconds, rate.added, rate.updated, rate.deleted
        )),
    ];
    lines.extend(picture.informers.iter().flat_map(informer));
    lines.push(Line::painted(
        Paint::bold,
        "     ▼       handler     waiting  lag ms   added updated deleted missed coalesced",
    ));
    for handler in &picture.handlers {
        let counts = handler.counts;
        lines.push(Line::plain(format!(
            "     {:<5}   {:<10} {:>8} {:>7} {:>7} {:>7} {:>7} {:>6} {:>9}",
            handler.kind,
            handler.name,
            handler.backlog,
            handler.lag_ms,
            counts.added,
            counts.updated,
            counts.deleted,
            counts.missed,
            handler.coalesced
        )));
    }
    if let Some((node, pods)) = &picture.busiest_node {
        lines.push(Line::plain(format!("by index     {node} has most pods: {pods}")));
    }
    lines.extend(faults(picture));
    for problem in &picture.problems {
        let wrapped = wrapped(&format!("problem      {}", harmless(problem)), room.columns, "             ");
        lines.extend(wrapped.into_iter().take(LINES_OF_A_PROBLEM).map(|line| Line::painted(Paint::red, line)));
    }
    if lines.len() + LEGEND.len() < room.rows {
        lines.push(Line::plain(""));
    }
    lines.extend(LEGEND.map(|line| Line::painted(Paint::faint, line)));
    lines
}

fn informer(informer: &InformerFigures) -> [Line; 2] {
    let painting = if informer.is_watching { Paint::green } else { Paint::yellow };
    let InformerFigures { name, queued, objects, version, .. } = informer;
    let doing = format!("     ├─▶ {name:<7} queue {queued:<5} {}", harmless(&informer.doing));
    let held = match &**version {
        "" => "nothing cached yet".to_owned(),
        version => format!("{objects} cached at version {version}"),
    };
    [Line::painted(painting, doing), Line::plain(format!("     │           {held}, {}", trouble(informer)))]
}

/// What goes wrong now; if nothing does, what went wrong last.
fn faults(picture: &Picture) -> Vec<Line> {
    if picture.active_faults.is_empty() {
        let last = picture.last_fault.as_ref().map(|fault| format!("; last: {fault}"));
        return vec![Line::plain(format!("fault now    none{}", last.unwrap_or_default()))];
    }
    let faults = picture.active_faults.iter();
    faults.map(|fault| Line::painted(Paint::yellow, format!("fault now    {fault}"))).collect()
}

/// What an informer has been through.
pub fn trouble(informer: &InformerFigures) -> String {
    format!("{}, {}", counted(informer.relists, "relist", "s"), counted(informer.watch_restarts, "restart", "s"))
}

/// `1 relist`, `2 relists`.
pub fn counted(number: u64, what: &str, plural_suffix: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { plural_suffix })
}

/// The text in lines of at most so many columns, broken between words; all but the first begin with `indent`.
pub fn wrapped(text: &str, columns: usize, indent: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_inclusive(' ') {
        let width = lines.last().map_or(0, |line| line.chars().count());
        if width > indent.len() && width + word.trim_end().chars().count() > columns {
            lines.push(indent.to_owned());
        }
        lines.last_mut().into_iter().for_each(|line| line.push_str(word));
    }
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::follower::Counts;
    use super::super::picture::HandlerFigures;
    use super::*;

    /// The picture of a long run in trouble, with large numbers.
    fn picture() -> Picture {
        let informer = |name: &str| InformerFigures {
            name: name.to_owned(),
            doing: "retrying: the server answered 410".to_owned(),
            is_watching: false,
            objects: 100_000,
            version: "12345678".to_owned(),
            queued: 1234,
            relists: 12,
            watch_restarts: 123,
            events: 1_234_567,
        };
        let counts = Counts { added: 1_234_567, updated: 1_234_567, deleted: 1_234_567, missed: 12_345, nonsense: 0 };
        let handler = |name: &str, kind| HandlerFigures {
            name: name.to_owned(),
            kind,
            is_synced: true,
            backlog: 1_234_567,
            lag_ms: 123_456,
            coalesced: 123_456,
            counts,
        };
        Picture {
            seconds: 12_345.6,
            server_version: 12_345_678,
            server_pods: 100_000,
            informers: vec![informer("nodes"), informer("pods")],
            handlers: vec![
                handler("scheduler", "pods"),
                handler("scheduler", "nodes"),
                handler("slow", "pods"),
                handler("late", "pods"),
            ],
            busiest_node: Some(("node-19".to_owned(), 12_345)),
            active_faults: vec!["nodes: the open watch breaks after 500 events".to_owned(); 2],
            last_fault: None,
            problems: vec![
                "informer pods may be out of date: opening a watch of pods failed: the server says: no"
                    .to_owned();
                2
            ],
        }
    }

    #[test]
    fn all_of_it_fits_a_terminal_of_80_columns_and_24_rows_also_in_a_long_run_in_trouble() {
        let rate = Rate { added: 100_000, updated: 100_000, deleted: 100_000 };

        let lines = screen(&picture(), rate, Size { columns: 79, rows: 23 });

        assert!(lines.len() < 24, "{}", lines.len());
        for line in &lines {
            assert!(line.text.chars().count() < 80, "{} {}", line.text.chars().count(), line.text);
        }
        let text: Vec<_> = lines.iter().map(|line| &*line.text).collect();
        assert_eq!(text[0], TITLE);
        assert_eq!(text[text.len() - 4..], LEGEND);
    }

    #[test]
    fn without_a_fault_the_last_one_is_named() {
        let mut picture = picture();
        picture.active_faults.clear();
        assert_eq!(faults(&picture)[0].text, "fault now    none");

        picture.last_fault = Some("pods: the server answers 410, the version has expired".to_owned());

        let line = &faults(&picture)[0].text;
        assert_eq!(line, "fault now    none; last: pods: the server answers 410, the version has expired");
    }

    #[test]
    fn long_texts_are_broken_between_words() {
        assert_eq!(wrapped("a bb ccc dddd", 8, "  "), ["a bb ccc", "  dddd"]);
        assert_eq!(wrapped("alongword b", 4, "  "), ["alongword", "  b"]);
    }
}

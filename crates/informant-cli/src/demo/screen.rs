//! The layout of the demo in a terminal: title, server, informers, handlers, faults and a legend.
//!
//! - **In:** stats and rates.
//! - **Out:** lines, each with its colour. They fit into 80 columns and 23 rows; the legend comes last, so that a smaller terminal cuts
//!   it off first. A taller terminal also has the past faults, and at the end the average rates.
//! - **Knows nothing of:** the terminal, and how lines are redrawn.

use super::{
    rates::{Rate, Rates},
    stats::{DemoStats, InformerStats},
};
use crate::output::{Paint, sanitized, table::ColorFn, terminal::Size};

/// The first line.
pub const TITLE: &str = "informant demo: informers follow an API server while it injects faults";

/// Explains the columns and handlers of the table.
pub const LEGEND: [&str; 4] = [
    "missed     deletes found by a relist, because the watch was down at the time",
    "coalesced  waiting events combined with a newer event of the same object",
    "slow       a handler that takes milliseconds per event and falls behind",
    "late       a handler that is added after half of the time and catches up",
];

/// The number of lines for each problem.
const LINES_PER_PROBLEM: usize = 2;

/// The rows that stay free below the past faults, for the verdict.
const VERDICT_ROWS: usize = 3;

/// The fewest rows for the past faults and the average rate: an empty one, two headers, and two faults.
const SHORTEST_HISTORY: usize = 5;

/// A line and its colour.
pub struct Line {
    pub text: String,
    painting: Option<ColorFn>,
}

impl Line {
    fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), painting: None }
    }

    fn painted(painting: ColorFn, text: impl Into<String>) -> Self {
        Self { text: text.into(), painting: Some(painting) }
    }

    /// The line in its colour, cut off after `columns` characters.
    pub fn paint(&self, paint: Paint, columns: usize) -> String {
        let shown: String = self.text.chars().take(columns).collect();
        match self.painting {
            Some(painting) => painting(paint, &shown),
            None => shown,
        }
    }
}

/// Lays out stats for a terminal of this size.
pub fn screen(stats: &DemoStats, rates: &Rates, room: Size) -> Vec<Line> {
    let rate = rates
        .current()
        .map(|rate| format!("; per second {} added, {} updated, {} deleted", rate.added, rate.updated, rate.deleted));
    let mut lines = vec![
        Line::painted(Paint::bold, TITLE),
        Line::plain(format!("API server   version {}, {} pods", stats.server_version, stats.server_pods)),
        Line::plain(format!("     │       {:.1} s{}", stats.seconds, rate.unwrap_or_default())),
    ];
    lines.extend(stats.informers.iter().flat_map(informer));
    lines.push(Line::painted(
        Paint::bold,
        "     ▼       handler   backlog  lag ms   added updated deleted missed coalesced",
    ));
    for handler in &stats.handlers {
        let counts = handler.counts;
        lines.push(Line::plain(format!(
            "     {:<5}   {:<9} {:>7} {:>7} {:>7} {:>7} {:>7} {:>6} {:>9}",
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
    if let Some((node, pods)) = &stats.busiest_node {
        lines.push(Line::plain(format!("by index     {node} has the most pods: {pods}")));
    }
    lines.extend(faults(stats));
    for problem in &stats.problems {
        let wrapped = wrapped(&format!("problem      {}", sanitized(problem)), room.columns, "             ");
        lines.extend(wrapped.into_iter().take(LINES_PER_PROBLEM).map(|line| Line::painted(Paint::red, line)));
    }
    if lines.len() + LEGEND.len() < room.rows {
        lines.push(Line::plain(""));
    }
    lines.extend(LEGEND.map(|line| Line::painted(Paint::faint, line)));
    lines.extend(history(stats, rates, room.rows.saturating_sub(lines.len() + VERDICT_ROWS)));
    lines
}

fn informer(informer: &InformerStats) -> [Line; 2] {
    let painting = if informer.is_watching { Paint::green } else { Paint::yellow };
    let InformerStats { name, queued, objects, version, .. } = informer;
    let activity = format!("     ├─▶ {name:<7} queue {queued:<5} {}", sanitized(&informer.activity));
    let cached = match &**version {
        "" => "nothing cached yet".to_owned(),
        version => format!("{objects} cached at version {version}"),
    };
    [Line::painted(painting, activity), Line::plain(format!("     │       {cached}, {}", recoveries(informer)))]
}

/// The active faults; without any, the last one.
fn faults(stats: &DemoStats) -> Vec<Line> {
    if stats.active_faults.is_empty() {
        let last = stats.last_fault.as_ref().map(|fault| format!("; last: {fault}"));
        return vec![Line::plain(format!("fault now    none{}", last.unwrap_or_default()))];
    }
    let faults = stats.active_faults.iter();
    faults.map(|fault| Line::painted(Paint::yellow, format!("fault now    {fault}"))).collect()
}

/// The average rate, after the load has stopped, and the past faults, in at most this many rows.
fn history(stats: &DemoStats, rates: &Rates, rows: usize) -> Vec<Line> {
    let mut lines = vec![Line::plain("")];
    if let Some(Rate { added, updated, deleted }) = rates.average().filter(|_| !stats.is_loaded) {
        let average = format!("average      per second {added} added, {updated} updated, {deleted} deleted");
        lines.push(Line::plain(average));
    }
    if !stats.fault_history.is_empty() {
        lines.push(Line::painted(Paint::bold, "faults so far, newest first"));
        lines.extend(stats.fault_history.iter().map(Line::plain));
    }
    if rows < SHORTEST_HISTORY {
        return Vec::new();
    }
    lines.truncate(rows);
    lines
}

/// The relists and watch restarts of an informer.
pub fn recoveries(informer: &InformerStats) -> String {
    format!("{}, {}", counted(informer.relists, "relist", "s"), counted(informer.watch_restarts, "watch restart", "s"))
}

/// Formats a number with its unit: `1 relist`, `2 relists`.
pub fn counted(number: u64, what: &str, plural_suffix: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { plural_suffix })
}

/// Wraps a text between words into lines of at most `columns` characters; all lines but the first begin with `indent`.
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
    use super::{
        super::{recorder::Counts, stats::HandlerStats},
        *,
    };

    /// Stats with large numbers and every kind of problem.
    fn stats() -> DemoStats {
        let informer = |name: &str| InformerStats {
            name: name.to_owned(),
            activity: "retrying: the server answered 410".to_owned(),
            is_watching: false,
            objects: 100_000,
            version: "12345678".to_owned(),
            queued: 1234,
            relists: 12,
            watch_restarts: 123,
            events: 1_234_567,
        };
        let counts =
            Counts { added: 1_234_567, updated: 1_234_567, deleted: 1_234_567, missed: 12_345, ..Counts::default() };
        let handler = |name: &str, kind| HandlerStats {
            name: name.to_owned(),
            kind,
            is_synced: true,
            backlog: 1_234_567,
            lag_ms: 123_456,
            coalesced: 123_456,
            counts,
        };
        DemoStats {
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
            active_faults: vec!["nodes: the open watch is cut after 500 events".to_owned(); 2],
            fault_history: (1..=200).map(|second| format!("{second:6.1} s  pods: the server answers 429")).collect(),
            is_loaded: false,
            last_fault: None,
            problems: vec![
                "informer pods may be out of date: opening a watch of pods failed: the server answered: no"
                    .to_owned();
                2
            ],
        }
    }

    /// Rates of 100,000 events per second.
    fn fast() -> Rates {
        let mut rates = Rates::default();
        for seconds in [0, 10] {
            let count = 100_000 * seconds;
            let counts = Counts { added: count, updated: count, deleted: count, ..Counts::default() };
            let mut stats = DemoStats { seconds: seconds as f64, is_loaded: true, ..stats() };
            stats.handlers.iter_mut().for_each(|handler| handler.counts = counts);
            stats.handlers.truncate(1);
            rates.add(&stats);
        }
        rates
    }

    #[test]
    fn the_screen_fits_into_80_columns_and_24_rows_with_large_numbers_and_problems() {
        let lines = screen(&stats(), &fast(), Size { columns: 79, rows: 23 });

        assert!(lines.len() < 24, "{}", lines.len());
        for line in &lines {
            assert!(line.text.chars().count() < 80, "{} {}", line.text.chars().count(), line.text);
        }
        let text: Vec<_> = lines.iter().map(|line| &*line.text).collect();
        assert_eq!(text[0], TITLE);
        assert_eq!(text[text.len() - 4..], LEGEND);
    }

    #[test]
    fn a_tall_screen_ends_with_the_past_faults_and_the_average() {
        let rows = |rows| screen(&stats(), &fast(), Size { columns: 79, rows }).into_iter().map(|line| line.text);
        let lines: Vec<_> = rows(50).collect();

        let after_legend: Vec<_> = lines.iter().skip_while(|line| **line != LEGEND[3]).skip(2).collect();
        assert_eq!(after_legend[0], "average      per second 100000 added, 100000 updated, 100000 deleted");
        assert_eq!(after_legend[1], "faults so far, newest first");
        assert_eq!(after_legend[2], "     1 s  pods: the server answers 429");
        assert_eq!((lines.len(), after_legend.len()), (50 - VERDICT_ROWS, 22), "the verdict has room");
        let still_loaded = DemoStats { is_loaded: true, ..stats() };
        let lines = screen(&still_loaded, &fast(), Size { columns: 79, rows: 50 });
        assert!(lines.iter().all(|line| !line.text.starts_with("average")));
    }

    #[test]
    fn without_a_fault_the_last_one_is_named() {
        let mut stats = stats();
        stats.active_faults.clear();
        assert_eq!(faults(&stats)[0].text, "fault now    none");

        stats.last_fault = Some("pods: the server answers 410, the version has expired".to_owned());

        let line = &faults(&stats)[0].text;
        assert_eq!(line, "fault now    none; last: pods: the server answers 410, the version has expired");
    }

    #[test]
    fn long_texts_are_wrapped_between_words() {
        assert_eq!(wrapped("a bb ccc dddd", 8, "  "), ["a bb ccc", "  dddd"]);
        assert_eq!(wrapped("alongword b", 4, "  "), ["alongword", "  b"]);
    }
}

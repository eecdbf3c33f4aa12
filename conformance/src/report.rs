//! The table of results.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use crate::{
    cases::Case,
    stage::{Failure, Measured},
};

/// The client may use this share of a core while it can reach no server.
const CPU_LIMIT: f64 = 0.01;

/// The client's resident memory may grow by a quarter and this many bytes: the allocator keeps some of what was freed, also by the
/// client's answers to the tests.
const MEMORY_LIMIT: u64 = 16 << 20;

/// The results so far.
#[derive(Default)]
pub struct Table {
    rows: Vec<Row>,
    /// The case that has no result yet.
    running: Option<String>,
}

struct Row {
    name: String,
    verdict: Verdict,
    measured: Measured,
    bar: Option<Duration>,
}

enum Verdict {
    Passed,
    Failed(String),
}

impl Table {
    /// Notes that a case or a suite begins.
    pub fn start(&mut self, name: &str) {
        self.running = Some(name.to_owned());
    }

    pub fn running(&self) -> Option<&str> {
        self.running.as_deref()
    }

    /// Adds a case, and returns false if it failed. `bar` is the time that is allowed in this run.
    pub fn add(
        &mut self,
        case: &Case,
        bar: Duration,
        is_quick: bool,
        outcome: Result<(), Failure>,
        measured: Measured,
    ) -> bool {
        let outcome = match outcome {
            Ok(()) => check(case, is_quick, &measured).and_then(|()| check_bar(bar, &measured)),
            Err(Failure::Broken(what)) => Err(Failure::Broken(what)),
            Err(failure) => check_resources(is_quick, &measured).and(Err(failure)),
        };
        let has_passed = outcome.is_ok();
        let verdict = outcome.map_or_else(|failure| Verdict::Failed(failure.to_string()), |()| Verdict::Passed);
        self.push(Row { name: case.name.into(), verdict, measured, bar: Some(bar) });
        has_passed
    }

    /// Adds a suite.
    pub fn add_suite(&mut self, name: &str, result: Result<String, String>) {
        match result {
            Ok(note) => {
                let measured = Measured { note: Some(note), ..Measured::default() };
                self.push(Row { name: name.into(), verdict: Verdict::Passed, measured, bar: None });
            }
            Err(failure) => self.add_failure(name, &failure),
        }
    }

    /// Adds a case or a suite that did not end.
    pub fn add_failure(&mut self, name: &str, failure: &str) {
        let verdict = Verdict::Failed(failure.to_owned());
        self.push(Row { name: name.into(), verdict, measured: Measured::default(), bar: None });
    }

    fn push(&mut self, row: Row) {
        self.running = None;
        self.rows.push(row);
    }

    pub fn failed(&self) -> usize {
        self.rows.iter().filter(|row| matches!(row.verdict, Verdict::Failed(_))).count()
    }

    /// One line for the last row.
    pub fn last_line(&self) -> String {
        self.rows.last().map(Row::line).unwrap_or_default()
    }

    /// The table, then what each case reported.
    pub fn markdown(&self) -> String {
        let mut text = String::from(
            "| case | result | recoveries | p50 s | p95 s | worst s | bar s | requests | CPU while down | memory MB | also |\n\
             | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n",
        );
        self.rows.iter().for_each(|row| text += &row.line());
        for row in &self.rows {
            let messages = messages(&row.measured.log);
            if row.measured.problems.is_empty() && messages.is_empty() && matches!(row.verdict, Verdict::Passed) {
                continue;
            }
            let _ = writeln!(text, "\n**{}**\n", row.name);
            match &row.verdict {
                Verdict::Passed => {}
                Verdict::Failed(failure) => drop(writeln!(text, "- failed: {failure}")),
            }
            for problem in &row.measured.problems {
                let _ = writeln!(text, "- problem: {problem}");
            }
            for (message, count) in messages {
                let _ = writeln!(text, "- log, {count} times: {message}");
            }
        }
        text
    }
}

impl Row {
    fn line(&self) -> String {
        let mut sorted = self.measured.recoveries.clone();
        sorted.sort();
        let percentile = |percent| seconds(quantile(&sorted, percent));
        let (cpu, down) = self.measured.cpu_while_down;
        let cpu = match down.is_zero() {
            true => String::new(),
            false => format!("{:.2} %", 100.0 * cpu.as_secs_f64() / down.as_secs_f64()),
        };
        let (before, after) = self.measured.resident_bytes;
        let memory = if after == 0 { String::new() } else { format!("{} → {}", before >> 20, after >> 20) };
        format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {cpu} | {memory} | {} |\n",
            self.name,
            match &self.verdict {
                Verdict::Passed => "passed",
                Verdict::Failed(_) => "**failed**",
            },
            sorted.len(),
            percentile(50),
            percentile(95),
            percentile(100),
            self.bar.map(|bar| bar.as_secs().to_string()).unwrap_or_default(),
            self.measured.requests,
            self.measured.note.as_deref().unwrap_or_default(),
        )
    }
}

fn check_bar(bar: Duration, measured: &Measured) -> Result<(), Failure> {
    let mut sorted = measured.recoveries.clone();
    sorted.sort();
    let p95 = quantile(&sorted, 95).ok_or_else(|| Failure::Broken("nothing was measured".into()))?;
    if p95 > bar {
        return Err(Failure::Late(format!(
            "right after {:.1} s, and the bar is {} s",
            p95.as_secs_f64(),
            bar.as_secs()
        )));
    }
    Ok(())
}

/// Checks everything but the time.
fn check(case: &Case, is_quick: bool, measured: &Measured) -> Result<(), Failure> {
    let names_change = |text: &str| text.contains("history changed") || text.contains("history has changed");
    if case.names_change && !names_change(&measured.log) && !measured.problems.iter().any(|text| names_change(text)) {
        return Err(Failure::Broken("neither the log nor `problems()` names the history change".into()));
    }
    check_resources(is_quick, measured)
}

/// Checks CPU time and memory, unless the run is quick: a busy machine could break the limits.
fn check_resources(is_quick: bool, measured: &Measured) -> Result<(), Failure> {
    if is_quick {
        return Ok(());
    }
    let (cpu, down) = measured.cpu_while_down;
    if cpu.as_secs_f64() > CPU_LIMIT * down.as_secs_f64() {
        return Err(Failure::Broken(format!("the client used {cpu:?} of CPU time in {down:?} without a server")));
    }
    let (before, after) = measured.resident_bytes;
    if after > before + before / 4 + MEMORY_LIMIT {
        return Err(Failure::Broken(format!("the client's memory grew from {} to {} MB", before >> 20, after >> 20)));
    }
    Ok(())
}

/// The smallest of the sorted times that so many percent of them do not exceed.
fn quantile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

fn seconds(time: Option<Duration>) -> String {
    time.map(|time| format!("{:.1}", time.as_secs_f64())).unwrap_or_default()
}

/// The messages of warnings and errors in a client's log, without their fields, and how often each was logged.
fn messages(log: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let lines = log.lines().filter(|line| line.contains(" WARN ") || line.contains(" ERROR "));
    // `TIME LEVEL SPAN: TARGET: MESSAGE informer=… error=…`; the client's own code logs nothing, kube logs each failed request.
    let texts = lines.filter_map(|line| line.split_once(" informant::")?.1.split_once(": "));
    for (_, text) in texts {
        let message = text.split(" informer=").next().unwrap_or(text);
        *counts.entry(message.to_owned()).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{messages, quantile};

    #[test]
    fn the_quantile_is_one_of_the_times() {
        let times: Vec<_> = (1..=10).map(Duration::from_secs).collect();

        assert_eq!(quantile(&times, 50), Some(Duration::from_secs(5)));
        assert_eq!(quantile(&times, 95), Some(Duration::from_secs(10)));
        assert_eq!(quantile(&times[..1], 50), Some(Duration::from_secs(1)));
        assert_eq!(quantile(&[], 50), None);
    }

    #[test]
    fn messages_of_a_log_are_counted_without_their_fields() {
        let log = "2026-01-01T00:00:00Z  WARN informer{informer=\"pods\"}: informant::x: a list failed; retrying informer=pods error=e: f\n\
                   2026-01-01T00:00:01Z  WARN informant::x: a list failed; retrying informer=nodes\n\
                   2026-01-01T00:00:02Z  INFO informant::x: started informer=nodes\n";

        assert_eq!(messages(log).into_iter().collect::<Vec<_>>(), [("a list failed; retrying".to_owned(), 2)]);
    }
}

//! What is said besides results. Nobody may be there to read it, which is no failure.

use std::error::Error;
use std::io;
use std::io::Write;
use std::sync::Arc;

use informant::listwatch::ListWatchError;

use super::harmless;
use super::terminal;

/// A line on stderr; in a terminal, over a line that is redrawn.
pub fn say(text: &str) {
    let mut stderr = io::stderr().lock();
    let over = if terminal::of(&stderr).is_some() { terminal::OVER } else { "" };
    // At once, so that nobody else writes in between. There is nobody to tell that it failed.
    let _ = stderr.write_all(format!("{over}informant: {}\n", harmless(text)).as_bytes());
}

/// An error and its causes, without repetitions, and then what can be done about it.
pub fn in_one_line(error: &(dyn Error + 'static)) -> String {
    let mut line = String::new();
    let mut advice = None;
    for error in std::iter::successors(Some(error), |error| (*error).source()).take(16) {
        let shared = error.downcast_ref::<Arc<ListWatchError>>().map(|error| &**error);
        advice = advice.or(error.downcast_ref::<ListWatchError>().or(shared).and_then(ListWatchError::advice));
        let cause = error.to_string();
        if line.is_empty() {
            line = cause;
        } else if !line.ends_with(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    if let Some(advice) = advice {
        line = format!("{line} ({advice})");
    }
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

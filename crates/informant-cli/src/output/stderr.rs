//! Messages on stderr. A failure to write them is ignored: stderr may be closed.

use std::{error::Error, io, io::Write};

use informant::error::Report;

use super::{sanitized, terminal};

/// Prints one line to stderr; in a terminal, it overwrites the progress line.
pub fn print_message(text: &str) {
    let mut stderr = io::stderr().lock();
    let clear = if terminal::of(&stderr).is_some() { terminal::CLEAR_LINE } else { "" };
    // One write, so that lines of other tasks do not get in between. If it fails, there is nowhere to report it.
    let _ = stderr.write_all(format!("{clear}informant: {}\n", sanitized(text)).as_bytes());
}

/// Formats an error with its chain of causes, without repetitions, followed by advice if there is any.
pub fn in_one_line(error: &(dyn Error + 'static)) -> String {
    format!("{:#}", Report::new(error))
}

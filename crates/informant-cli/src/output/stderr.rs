//! What is said besides results. Nobody may be there to read it, which is no failure.

use std::error::Error;
use std::io;
use std::io::Write;

use super::harmless;
use super::terminal;

/// A line on stderr; in a terminal, over a line that is redrawn.
pub fn say(text: &str) {
    let mut stderr = io::stderr().lock();
    let over = if terminal::of(&stderr).is_some() { terminal::OVER } else { "" };
    // At once, so that nobody else writes in between. There is nobody to tell that it failed.
    let _ = stderr.write_all(format!("{over}informant: {}\n", harmless(text)).as_bytes());
}

/// An error and what stands behind it; but for what was said already, as errors of others often do.
pub fn in_one_line(error: &dyn Error) -> String {
    let causes = std::iter::successors(Some(error), |error| (*error).source()).take(16);
    let mut said = String::new();
    for cause in causes.map(ToString::to_string) {
        if said.is_empty() {
            said = cause;
        } else if !said.ends_with(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

//! The terminal that a stream goes to, if it goes to one in which lines can be drawn over.

use std::io::IsTerminal;

use terminal_size::Height;
use terminal_size::Width;

/// How much fits on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub columns: usize,
    pub rows: usize,
}

/// Goes to the beginning of the line, and empties it.
pub const OVER: &str = "\r\x1b[K";

/// As old terminals are, and those that do not say.
pub const USUAL: Size = Size { columns: 80, rows: 24 };

/// The size of a stream's terminal; none if it is no terminal, or a dumb one.
#[cfg(unix)]
pub fn of(stream: &(impl IsTerminal + std::os::fd::AsFd)) -> Option<Size> {
    is_there(stream).then(|| size(terminal_size::terminal_size_of(stream)))
}

/// The size of a stream's terminal; none if it is no terminal, or a dumb one.
#[cfg(not(unix))]
pub fn of(stream: &impl IsTerminal) -> Option<Size> {
    is_there(stream).then(|| size(terminal_size::terminal_size()))
}

fn is_there(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("TERM").is_none_or(|name| name != "dumb")
}

fn size(told: Option<(Width, Height)>) -> Size {
    told.map_or(USUAL, |(Width(columns), Height(rows))| match (columns, rows) {
        (0, _) | (_, 0) => USUAL,
        (columns, rows) => Size { columns: columns.into(), rows: rows.into() },
    })
}

impl Size {
    /// As much as can be drawn over later: one less than fits, in both directions.
    pub fn room(self) -> Self {
        Self { columns: self.columns.saturating_sub(1), rows: self.rows.saturating_sub(1).max(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redrawing_leaves_one_column_and_one_row_free() {
        assert_eq!(Size { columns: 80, rows: 24 }.room(), Size { columns: 79, rows: 23 });
        assert_eq!(Size { columns: 80, rows: 1 }.room(), Size { columns: 79, rows: 1 });
        assert_eq!(size(Some((Width(0), Height(0)))), USUAL);
    }
}

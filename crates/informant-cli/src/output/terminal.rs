//! The size of the terminal that a stream is connected to, if lines can be redrawn in it.

use std::io::IsTerminal;

use terminal_size::{Height, Width};

/// The size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub columns: usize,
    pub rows: usize,
}

/// Moves the cursor to the beginning of the line and clears the line.
pub const CLEAR_LINE: &str = "\r\x1b[K";

/// The size that is assumed for a terminal that does not report one.
pub const DEFAULT_SIZE: Size = Size { columns: 80, rows: 24 };

/// Returns the size of a stream's terminal; `None` if the stream is not a terminal, or `TERM` is `dumb`.
#[cfg(unix)]
pub fn of(stream: &(impl IsTerminal + std::os::fd::AsFd)) -> Option<Size> {
    can_redraw(stream).then(|| size(terminal_size::terminal_size_of(stream)))
}

/// Returns the size of a stream's terminal; `None` if the stream is not a terminal, or `TERM` is `dumb`.
#[cfg(not(unix))]
pub fn of(stream: &impl IsTerminal) -> Option<Size> {
    can_redraw(stream).then(|| size(terminal_size::terminal_size()))
}

fn can_redraw(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("TERM").is_none_or(|name| name != "dumb")
}

fn size(reported: Option<(Width, Height)>) -> Size {
    reported.map_or(DEFAULT_SIZE, |(Width(columns), Height(rows))| match (columns, rows) {
        (0, _) | (_, 0) => DEFAULT_SIZE,
        (columns, rows) => Size { columns: columns.into(), rows: rows.into() },
    })
}

impl Size {
    /// The part that can be redrawn: one column and one row less, so that the terminal neither wraps nor scrolls.
    pub fn drawable(self) -> Self {
        Self { columns: self.columns.saturating_sub(1), rows: self.rows.saturating_sub(1).max(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redrawing_leaves_one_column_and_one_row_free() {
        assert_eq!(Size { columns: 80, rows: 24 }.drawable(), Size { columns: 79, rows: 23 });
        assert_eq!(Size { columns: 80, rows: 1 }.drawable(), Size { columns: 79, rows: 1 });
        assert_eq!(size(Some((Width(0), Height(0)))), DEFAULT_SIZE);
    }
}

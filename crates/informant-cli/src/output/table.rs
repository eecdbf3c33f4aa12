//! A table whose columns are as wide as their widest cell so far.

use std::{borrow::Cow, fmt::Write};

use super::{Paint, sanitized};

/// A table that grows while it is printed. The headers are printed with the first rows.
#[derive(Debug)]
pub struct Table {
    widths: Vec<usize>,
    headers: Option<Row>,
    /// Rows that have not been taken.
    pending: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    cells: Vec<String>,
    paint: Option<ColorFn>,
}

/// Colours a text.
pub type ColorFn = fn(Paint, &str) -> String;

/// The number of spaces between two columns.
const GAP: usize = 3;

impl Table {
    pub fn new(headers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let cells: Vec<String> = headers.into_iter().map(|header| sanitized(&header.into()).into_owned()).collect();
        let widths = cells.iter().map(|header| header.chars().count()).collect();
        Self { widths, headers: Some(Row { cells, paint: None }), pending: Vec::new() }
    }

    /// Omits the headers.
    #[must_use]
    pub fn without_headers(self) -> Self {
        Self { widths: vec![0; self.widths.len()], headers: None, ..self }
    }

    /// Adds a row; `paint` colours its first cell.
    pub fn add(&mut self, cells: impl IntoIterator<Item = String>, paint: Option<ColorFn>) {
        let cells: Vec<_> = cells.into_iter().map(|cell| sanitized(&cell).into_owned()).collect();
        for (width, cell) in self.widths.iter_mut().zip(&cells) {
            *width = (*width).max(cell.chars().count());
        }
        self.pending.push(Row { cells, paint });
    }

    /// The approximate size in bytes of the rows that have not been taken.
    pub fn len(&self) -> usize {
        self.pending.len() * self.widths.iter().map(|width| width + GAP).sum::<usize>()
    }

    /// Formats the rows that have not been taken.
    pub fn take(&mut self, paint: Paint) -> String {
        let mut text = String::new();
        let headers = if self.pending.is_empty() { None } else { self.headers.take() };
        for Row { cells, paint: color } in headers.into_iter().chain(self.pending.drain(..)) {
            let mut blanks = 0;
            for (position, (cell, width)) in cells.iter().zip(&self.widths).enumerate() {
                let painted = match color {
                    Some(color) if position == 0 => Cow::Owned(color(paint, cell)),
                    Some(_) | None => Cow::Borrowed(cell),
                };
                // Spaces are written before a cell, never at the end of a line.
                if !cell.is_empty() {
                    // Writing to a `String` cannot fail.
                    let _ = write!(text, "{:blanks$}{painted}", "");
                    blanks = 0;
                }
                blanks += width - cell.chars().count() + GAP;
            }
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Paint, paint::Color},
        *,
    };

    fn row(cells: &[&str]) -> Vec<String> {
        cells.iter().map(|cell| (*cell).to_owned()).collect()
    }

    #[test]
    fn columns_grow_and_lines_have_no_trailing_spaces() {
        let mut table = Table::new(["NAME", "AGE"]);
        assert_eq!(table.take(Paint::new(Color::Never)), "", "the width is known with the first row");
        table.add(row(&["a-long-name", ""]), None);
        assert_eq!(table.take(Paint::new(Color::Never)), "NAME          AGE\na-long-name\n");

        table.add(row(&["b", "1s"]), Some(Paint::green));
        assert_eq!(table.take(Paint::new(Color::Always)), "\u{1b}[32mb\u{1b}[0m             1s\n");
        assert_eq!(table.take(Paint::new(Color::Always)), "");
    }

    #[test]
    fn headers_can_be_omitted() {
        let mut table = Table::new(["A-LONG-NAME", "AGE"]).without_headers();
        table.add(row(&["a", "1s"]), None);

        assert_eq!(table.take(Paint::new(Color::Never)), "a   1s\n");
    }

    #[test]
    fn control_characters_in_cells_are_removed() {
        let mut table = Table::new(["MESSAGE", "X"]);
        table.add(row(&["\u{1b}[2Jhi\nthere\n", ""]), None);

        assert_eq!(table.take(Paint::new(Color::Never)).lines().last(), Some("[2Jhi there"));
    }
}

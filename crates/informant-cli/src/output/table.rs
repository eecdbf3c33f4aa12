//! Rows in columns that are as wide as what has stood in them so far.

use std::borrow::Cow;
use std::fmt::Write;

use super::Paint;
use super::harmless;

/// A table that grows. Its headers stand above its first row.
#[derive(Debug)]
pub struct Table {
    widths: Vec<usize>,
    headers: Option<Row>,
    waiting: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    cells: Vec<String>,
    paint: Option<Painting>,
}

/// Which colour.
pub type Painting = fn(Paint, &str) -> String;

/// What stands between two columns.
const GAP: usize = 3;

impl Table {
    pub fn new(headers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let cells: Vec<String> = headers.into_iter().map(|header| harmless(&header.into()).into_owned()).collect();
        let widths = cells.iter().map(|header| header.chars().count()).collect();
        Self { widths, headers: Some(Row { cells, paint: None }), waiting: Vec::new() }
    }

    /// Nothing stands above the rows.
    #[must_use]
    pub fn without_headers(self) -> Self {
        Self { widths: vec![0; self.widths.len()], headers: None, ..self }
    }

    /// One more row, its first cell painted.
    pub fn add(&mut self, cells: impl IntoIterator<Item = String>, paint: Option<Painting>) {
        let cells: Vec<_> = cells.into_iter().map(|cell| harmless(&cell).into_owned()).collect();
        for (width, cell) in self.widths.iter_mut().zip(&cells) {
            *width = (*width).max(cell.chars().count());
        }
        self.waiting.push(Row { cells, paint });
    }

    /// How much waits to be written, roughly.
    pub fn len(&self) -> usize {
        self.waiting.len() * self.widths.iter().map(|width| width + GAP).sum::<usize>()
    }

    /// The rows that were not written yet.
    pub fn take(&mut self, paint: Paint) -> String {
        let mut text = String::new();
        let headers = if self.waiting.is_empty() { None } else { self.headers.take() };
        for Row { cells, paint: color } in headers.into_iter().chain(self.waiting.drain(..)) {
            let mut blanks = 0;
            for (position, (cell, width)) in cells.iter().zip(&self.widths).enumerate() {
                // Nothing stands at the end of a line that cannot be seen.
                let painted = match color {
                    Some(color) if position == 0 => Cow::Owned(color(paint, cell)),
                    Some(_) | None => Cow::Borrowed(cell),
                };
                if !cell.is_empty() {
                    // Writing to a string does not fail.
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
    use super::super::Paint;
    use super::super::paint::Color;
    use super::*;

    fn row(cells: &[&str]) -> Vec<String> {
        cells.iter().map(|cell| (*cell).to_owned()).collect()
    }

    #[test]
    fn columns_grow_and_lines_end_where_their_text_does() {
        let mut table = Table::new(["NAME", "AGE"]);
        assert_eq!(table.take(Paint::new(Color::Never)), "", "how wide it is is not known yet");
        table.add(row(&["a-long-name", ""]), None);
        assert_eq!(table.take(Paint::new(Color::Never)), "NAME          AGE\na-long-name\n");

        table.add(row(&["b", "1s"]), Some(Paint::green));
        assert_eq!(table.take(Paint::new(Color::Always)), "\u{1b}[32mb\u{1b}[0m             1s\n");
        assert_eq!(table.take(Paint::new(Color::Always)), "");
    }

    #[test]
    fn headers_can_be_left_out() {
        let mut table = Table::new(["A-LONG-NAME", "AGE"]).without_headers();
        table.add(row(&["a", "1s"]), None);

        assert_eq!(table.take(Paint::new(Color::Never)), "a   1s\n");
    }

    #[test]
    fn what_a_terminal_would_obey_is_left_out() {
        let mut table = Table::new(["MESSAGE", "X"]);
        table.add(row(&["\u{1b}[2Jhi\nthere\n", ""]), None);

        assert_eq!(table.take(Paint::new(Color::Never)).lines().last(), Some("[2Jhi there"));
    }
}

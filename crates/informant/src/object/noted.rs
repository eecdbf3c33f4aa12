//! The values that a scan notes for indexes, so that no index reads the JSON again.
//!
//! - **In:** the paths that indexes have asked for; the ranges of their values in the JSON.
//! - **Out:** the same values, written behind the JSON of each object and read from there.
//! - **Knows nothing of:** indexes.
//!
//! An index function asks for its path when it is called for the first time. Objects that were scanned before have no note of it, and their JSON is read
//! instead.
//!
//! Behind the JSON are one digit, the number of fields that the scan notes, and the values: for each of them one digit, which says what field it is of,
//! its JSON, and a line feed. Compact JSON has none.

use std::ops::Range;

use parking_lot::RwLock;

use super::{FieldPath, scan::FieldRules};

/// The paths whose values are noted for the objects of one source.
#[derive(Default)]
pub struct NotedFields(RwLock<Vec<FieldPath>>);

/// The largest number of noted fields, so that one digit is enough.
const MOST: usize = 8;

impl NotedFields {
    /// Returns the number of a path, which is noted from now on; `None` if it cannot be.
    pub(super) fn number(&self, path: &FieldPath) -> Option<u8> {
        let position = |paths: &[FieldPath]| paths.iter().position(|other| other == path);
        let known = position(&self.0.read());
        let position = known.or_else(|| {
            let mut paths = self.0.write();
            // A scan writes other members in the place of apiVersion and kind.
            let is_type = matches!(path.names().next(), Some("apiVersion" | "kind"));
            if let Some(position) = position(&paths) {
                return Some(position);
            }
            (paths.len() < MOST && !is_type).then(|| {
                paths.push(path.clone());
                paths.len() - 1
            })
        });
        position.and_then(|position| u8::try_from(position).ok())
    }

    /// Adds the paths that are not among these rules yet.
    #[inline]
    pub(super) fn add_new(&self, rules: &mut FieldRules) {
        let paths = self.0.read();
        for path in &paths[rules.noted.into()..] {
            rules.tree.note(path, rules.noted);
            rules.noted += 1;
        }
    }
}

/// Writes values behind the JSON that they are parts of. `fields` is the number of fields that were noted.
pub(super) fn append(json: &mut Vec<u8>, fields: u8, values: &[(u8, Range<usize>)]) {
    if fields == 0 {
        return;
    }
    json.push(b'0' + fields);
    for (number, range) in values {
        json.push(b'0' + number);
        json.extend_from_within(range.clone());
        json.push(b'\n');
    }
}

/// Returns the JSON of the values of a field, from what is written behind the JSON; `None` if the field was not noted.
pub(super) fn values(noted: &str, number: u8) -> Option<impl Iterator<Item = &str>> {
    let digit = char::from(b'0' + number);
    let mut characters = noted.chars();
    characters.next().filter(|fields| *fields > digit)?;
    Some(characters.as_str().split_terminator('\n').filter_map(move |value| value.strip_prefix(digit)))
}

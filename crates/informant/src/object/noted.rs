//! The values that a scan notes for indexes and filters, so that they need not read the JSON again.
//!
//! - **In:** the paths that index functions read; the ranges of their values in the JSON.
//! - **Out:** the same values, written behind the JSON of each object and read from there.
//! - **Knows nothing of:** indexes.
//!
//! The paths are those of all index functions of the program, because an index function is made before it is given to an informer. So the values at a
//! path are noted in the objects of every kind that has such a field.
//!
//! Behind the JSON are the number of fields that the scan notes, as one character, and for each value a line of its field's character and its JSON, such as
//! `10"node-1"` and a line feed. Compact JSON has no line feeds.

use std::ops::Range;

use parking_lot::RwLock;

use super::{FieldPath, scan::FieldRules};

/// The paths whose values are noted.
static PATHS: RwLock<Vec<FieldPath>> = RwLock::new(Vec::new());

/// The largest number of paths. The values at other paths are read from the JSON.
const MAX_PATHS: usize = 32;

/// Values of this length together are noted for every object; longer ones only if they are at most an eighth of the JSON.
const ALWAYS_NOTED: usize = 256;

/// The character of the first field.
const FIRST: u8 = b'0';

/// Notes the values at a path from now on, unless there are many paths already.
pub(crate) fn note_path(path: &FieldPath) {
    let mut paths = PATHS.write();
    // A scan writes other members in the place of apiVersion and kind.
    let is_type = matches!(path.names().next(), Some("apiVersion" | "kind"));
    if paths.len() < MAX_PATHS && !is_type && !paths.contains(path) {
        paths.push(path.clone());
    }
}

/// Returns the number under which the values at a path are noted; `None` if they are not.
pub(super) fn number_of(path: &[impl AsRef<str>]) -> Option<u8> {
    let names = || path.iter().map(AsRef::as_ref);
    let position = PATHS.read().iter().position(|noted| noted.names().eq(names()))?;
    u8::try_from(position).ok()
}

/// Adds the paths that these rules do not have yet.
#[inline]
pub(super) fn add_new(rules: &mut FieldRules) {
    for path in &PATHS.read()[rules.noted.into()..] {
        rules.tree.note(path, rules.noted);
        rules.noted += 1;
    }
}

/// Writes values behind the JSON that they are parts of. `fields` is the number of fields that were noted. While the values would make the JSON much
/// longer, leaves out those of the field with the longest ones, and writes an empty value instead.
pub(super) fn append(json: &mut Vec<u8>, fields: u8, values: &[(u8, Range<usize>)]) {
    if fields == 0 {
        return;
    }
    let mut lengths = [0; MAX_PATHS];
    values.iter().for_each(|(number, range)| lengths[usize::from(*number)] += range.len());
    let mut left_out = 0_u32;
    while lengths.iter().sum::<usize>() > ALWAYS_NOTED.max(json.len() / 8) {
        let longest = (0..MAX_PATHS).max_by_key(|number| lengths[*number]).unwrap_or_default();
        lengths[longest] = 0;
        left_out |= 1 << longest;
    }
    json.push(FIRST + fields);
    for (number, range) in values.iter().filter(|(number, _)| left_out & (1 << number) == 0) {
        json.push(FIRST + number);
        json.extend_from_within(range.clone());
        json.push(b'\n');
    }
    for number in (0..fields).filter(|number| left_out & (1 << number) != 0) {
        json.extend([FIRST + number, b'\n']);
    }
}

/// Returns the JSON of the values of a field, from what is written behind the JSON; `None` if the field was not noted, or was left out.
pub(super) fn values(noted: &str, number: u8) -> Option<impl Iterator<Item = &str>> {
    let digit = char::from(FIRST + number);
    let mut characters = noted.chars();
    characters.next().filter(|fields| *fields > digit)?;
    let values = characters.as_str().split_terminator('\n').filter_map(move |value| value.strip_prefix(digit));
    (!values.clone().any(str::is_empty)).then_some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_field_with_the_longest_values_is_left_out() {
        let long = format!("{:?}", "x".repeat(200));
        let json = format!(r#"["n1",{long},{long},7]"#);
        let mut text = json.clone().into_bytes();
        let at = |start| start..start + long.len();
        let values_in = [(0, 1..5), (1, at(6)), (1, at(7 + long.len())), (2, json.len() - 2..json.len() - 1)];

        append(&mut text, 4, &values_in);

        let noted = std::str::from_utf8(&text[json.len()..]).unwrap();
        let values_of = |number| Some(values(noted, number)?.collect::<Vec<_>>());
        assert_eq!(values_of(0), Some(vec!["\"n1\""]));
        assert_eq!(values_of(1), None, "its values are longer than 256 bytes");
        assert_eq!(values_of(2), Some(vec!["7"]));
        assert_eq!(values_of(3), Some(vec![]), "noted, and the object has no value");
        assert_eq!(values_of(4), None, "not noted");
    }
}

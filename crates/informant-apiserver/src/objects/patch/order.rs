//! The order of the items of a list that a strategic patch changed.
//!
//! - **In:** the items, where they were before, and in which order the patch names them.
//! - **Out:** the items in their order.
//! - **Knows nothing of:** how they were changed.

use std::collections::HashMap;

use serde_json::Value;

use crate::error::ApiError;

/// What tells the items of a list apart.
#[derive(Clone, Copy)]
pub(super) enum Key {
    /// The value of a field.
    Field(&'static str),
    /// All of it.
    Whole,
}

/// Where items are in a list, by what tells them apart; of several that are the same, the first.
pub(super) type Places = HashMap<String, usize>;

impl Key {
    pub(super) fn name(self, item: &Value) -> Option<String> {
        match self {
            Self::Field(field) => item.get(field).map(Value::to_string),
            Self::Whole => Some(item.to_string()),
        }
    }

    pub(super) fn check(self, item: &Value) -> Result<(), ApiError> {
        match self {
            Self::Field(field) if item.get(field).is_none() => {
                Err(ApiError::Internal(format!("map: {item} does not contain declared merge key: {field}")))
            }
            Self::Field(_) | Self::Whole => Ok(()),
        }
    }

    pub(super) fn places(self, items: &[Value]) -> Places {
        let names = items.iter().enumerate().filter_map(|(place, item)| Some((self.name(item)?, place)));
        // The first is put in last.
        names.rev().collect()
    }

    pub(super) fn place(self, item: &Value, places: &Places) -> Option<usize> {
        places.get(&self.name(item)?).copied()
    }
}

/// The order in which a patch names items; or another one, if it says so.
///
/// The others stay where they were before the change.
pub(super) fn put_in_order(
    items: &mut Vec<Value>,
    before: &Places,
    named: &[Value],
    order: Option<&[Value]>,
    key: Key,
) -> Result<(), ApiError> {
    if let Some(order) = order.filter(|order| !order.is_empty()) {
        order.iter().try_for_each(|item| key.check(item))?;
        let mut rest = order.iter().map(|item| key.name(item));
        if !named.iter().map(|item| key.name(item)).all(|name| rest.any(|ordered| ordered == name)) {
            let why = "the order of a list in the patch is not that of its $setElementOrder list";
            return Err(ApiError::Internal(why.into()));
        }
    }
    *items = arrange(std::mem::take(items), order.unwrap_or(named), before, key);
    Ok(())
}

/// Those items that are wanted in an order have it; the others stay in that of before, and before those wanted ones before
/// which they were.
fn arrange(items: Vec<Value>, wanted: &[Value], before: &Places, key: Key) -> Vec<Value> {
    let wanted = key.places(wanted);
    let (mut ordered, mut others): (Vec<_>, Vec<_>) =
        items.into_iter().partition(|item| key.place(item, &wanted).is_some());
    ordered.sort_by_cached_key(|item| key.place(item, &wanted));
    // What is new and has no place in the order comes last.
    others.sort_by_cached_key(|item| key.place(item, before).unwrap_or(usize::MAX));
    let mut others = others.into_iter().peekable();
    let mut arranged = Vec::new();
    for item in ordered {
        if let Some(place) = key.place(&item, before) {
            let was_before = |other: &Value| key.place(other, before).is_some_and(|other| other < place);
            while let Some(other) = others.next_if(was_before) {
                arranged.push(other);
            }
        }
        arranged.push(item);
    }
    arranged.extend(others);
    arranged
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn arranged(items: &[&str], wanted: &[&str], before: &[&str]) -> Vec<String> {
        let values = |names: &[&str]| names.iter().map(|name| json!(name)).collect::<Vec<_>>();
        let before = Key::Whole.places(&values(before));
        let arranged = arrange(values(items), &values(wanted), &before, Key::Whole);
        arranged.iter().map(|item| item.as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn what_is_not_named_stays_before_what_it_was_before() {
        assert_eq!(arranged(&["a", "b", "c"], &["c", "a"], &["a", "b", "c"]), ["b", "c", "a"]);
        assert_eq!(arranged(&["a", "b", "c"], &["a"], &["c", "a", "b"]), ["c", "a", "b"]);
    }

    #[test]
    fn what_is_new_comes_first_if_it_is_named_and_else_last() {
        assert_eq!(arranged(&["a", "b", "d"], &["d"], &["a", "b"]), ["d", "a", "b"]);
        assert_eq!(arranged(&["d", "a", "b"], &[], &["a", "b"]), ["a", "b", "d"]);
    }

    #[test]
    fn of_several_that_are_the_same_the_first_has_the_place() {
        assert_eq!(Key::Whole.places(&[json!("a"), json!("b"), json!("a")])["\"a\""], 0);
        assert_eq!(arranged(&["a", "a", "b"], &["b", "a"], &["a", "a", "b"]), ["b", "a", "a"]);
    }
}

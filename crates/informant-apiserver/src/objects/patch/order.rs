//! The order of items after a strategic merge patch of a list.
//!
//! - **In:** the patched items, their earlier positions, and the order in the patch.
//! - **Out:** the ordered items.
//! - **Knows nothing of:** how the patch changed the items.

use std::collections::HashMap;

use serde_json::Value;

use crate::error::ApiError;

/// What identifies an item of a list.
#[derive(Clone, Copy)]
pub(super) enum Key {
    /// The value of a field.
    Field(&'static str),
    /// The whole item.
    Whole,
}

/// The positions of items in a list, by their key. For equal keys, the position of the first item.
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
        // Reversed, so that the first of several equal keys wins.
        names.rev().collect()
    }

    pub(super) fn place(self, item: &Value, places: &Places) -> Option<usize> {
        places.get(&self.name(item)?).copied()
    }
}

/// Sorts items into the order of the `$setElementOrder` list, or of the patch if there is none.
///
/// Items that the order does not contain keep their earlier positions.
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

/// Sorts the wanted items into the wanted order. The others keep their earlier order, and stay before the wanted items that they
/// preceded.
fn arrange(items: Vec<Value>, wanted: &[Value], before: &Places, key: Key) -> Vec<Value> {
    let wanted = key.places(wanted);
    let (mut ordered, mut others): (Vec<_>, Vec<_>) =
        items.into_iter().partition(|item| key.place(item, &wanted).is_some());
    ordered.sort_by_cached_key(|item| key.place(item, &wanted));
    // New items without a wanted position come last.
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

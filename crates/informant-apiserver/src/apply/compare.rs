//! Finds the fields in which two states of an object differ.
//!
//! - **In:** two states, and their type.
//! - **Out:** the fields that were added or changed, and those that were removed.
//! - **Knows nothing of:** managers.

use serde_json::{Map, Value};

use super::{
    element::Element,
    set::FieldSet,
    view::{Items, View, items, view},
};
use crate::schema::{Field, Type};

/// The difference between two states.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Difference {
    /// The fields that the new state has and the old one has not, or with another value.
    pub(crate) changed: FieldSet,
    pub(crate) removed: FieldSet,
}

impl Difference {
    pub(super) fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.removed.is_empty()
    }

    pub(super) fn insert(&mut self, step: Element, inner: Self) {
        if !inner.removed.is_empty() {
            self.removed.insert(step.clone(), inner.removed);
        }
        self.changed.insert(step, inner.changed);
    }

    /// Notes that a whole value differs.
    fn note(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (Some(_), None) => self.removed.is_member = true,
            (_, _) if old != new => self.changed.is_member = true,
            (_, _) => {}
        }
    }
}

/// Compares two values of a type; `None` for an absent one.
pub(super) fn compare(of: Type<'_>, old: Option<&Value>, new: Option<&Value>) -> Difference {
    let mut found = Difference::default();
    match (view(of, old), view(of, new)) {
        (View::Map(old_map), View::Map(new_map)) => {
            compare_maps(of, old_map, new_map, &mut found);
            found.changed.is_member |= old.is_none();
            found.removed.is_member |= new.is_none();
        }
        (View::Map(map), View::Empty) => {
            compare_maps(of, map, &Map::new(), &mut found);
            found.removed.is_member |= new.is_none();
        }
        (View::Empty, View::Map(map)) => {
            compare_maps(of, &Map::new(), map, &mut found);
            found.changed.is_member |= old.is_none();
        }
        (View::List(kind, old_list), View::List(_, new_list)) => match (items(kind, old_list), items(kind, new_list)) {
            (Ok(old_items), Ok(new_items)) => compare_items(of, &old_items, &new_items, &mut found),
            // Items that cannot be told apart: the list is compared as a whole.
            (_, _) => found.note(old, new),
        },
        (View::List(kind, list), View::Empty) => {
            compare_list_with_none(of, items(kind, list), true, &mut found);
            found.removed.is_member |= new.is_none();
        }
        (View::Empty, View::List(kind, list)) => {
            compare_list_with_none(of, items(kind, list), false, &mut found);
            found.changed.is_member |= old.is_none();
        }
        // A value that became one of another type.
        (View::Map(map), View::Leaf | View::List(..)) => {
            compare_maps(of, map, &Map::new(), &mut found);
            found.note(old, new);
        }
        (View::Leaf | View::List(..), View::Map(map)) => {
            compare_maps(of, &Map::new(), map, &mut found);
            found.note(old, new);
        }
        (View::Leaf | View::Empty | View::List(..), View::Leaf)
        | (View::Leaf, View::Empty | View::List(..))
        | (View::Empty, View::Empty) => found.note(old, new),
    }
    found
}

fn compare_list_with_none(of: Type<'_>, list: Result<Items<'_>, String>, is_old: bool, found: &mut Difference) {
    match (list, is_old) {
        (Ok(list), true) => compare_items(of, &list, &Items::new(), found),
        (Ok(list), false) => compare_items(of, &Items::new(), &list, found),
        (Err(_), _) => found.changed.is_member = true,
    }
}

pub(super) fn compare_maps(of: Type<'_>, old: &Map<String, Value>, new: &Map<String, Value>, found: &mut Difference) {
    let names = old.keys().chain(new.keys().filter(|name| !old.contains_key(*name)));
    for name in names {
        let (before, after) = (old.get(name), new.get(name));
        if before != after {
            let (inner, field) = of.field(name).unwrap_or((Type::any(), None));
            let inner = compare(inner, or_empty(field, before), or_empty(field, after));
            found.insert(Element::field(name), inner);
        }
    }
}

/// An absent or empty value as an empty one, if kube-apiserver has the field in each object.
pub(super) fn or_empty<'a>(field: Option<&Field>, value: Option<&'a Value>) -> Option<&'a Value> {
    static EMPTY: Value = Value::Null;
    let is_empty = value.is_none_or(|value| value.as_object().is_some_and(Map::is_empty));
    if is_empty && field.is_some_and(|field| field.is_always_there) { Some(&EMPTY) } else { value }
}

fn compare_items(of: Type<'_>, old: &Items<'_>, new: &Items<'_>, found: &mut Difference) {
    let none = Vec::new();
    let steps = old.keys().chain(new.keys().filter(|step| !old.contains_key(*step)));
    for step in steps {
        let (before, after) = (old.get(step).unwrap_or(&none), new.get(step).unwrap_or(&none));
        let inner = match (&before[..], &after[..]) {
            ([] | [_], [] | [_]) => compare(of.items(), before.first().copied(), after.first().copied()),
            // Items that occur several times belong together.
            ([_, _, ..], [_, _, ..]) => {
                let mut inner = Difference::default();
                inner.changed.is_member = before != after;
                inner
            }
            ([_, _, ..], [] | [_]) => {
                let mut inner = Difference::default();
                if let Some(after) = after.first() {
                    inner = compare(of.items(), None, Some(after));
                }
                inner.removed.is_member = true;
                inner
            }
            ([] | [_], [_, _, ..]) => {
                let mut inner = Difference::default();
                if let Some(before) = before.first() {
                    inner = compare(of.items(), Some(before), None);
                }
                inner.changed.is_member = true;
                inner
            }
        };
        found.insert(step.clone(), inner);
    }
}

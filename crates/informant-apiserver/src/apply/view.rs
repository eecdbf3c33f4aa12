//! How a value is walked: its type, and what it is.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::element::Element;
use crate::schema::{ListKind, Shape, Type};

/// A value, as far as its type lets it be divided.
#[derive(Clone, Copy, Debug)]
pub(super) enum View<'a> {
    /// It has one owner.
    Leaf,
    /// It is absent or null, or a map or list without content.
    Empty,
    /// A map with fields of their own, which is not empty.
    Map(&'a Map<String, Value>),
    /// A list whose items are told apart, which is not empty.
    List(&'a ListKind, &'a [Value]),
}

/// Looks at a value as one of this type. A value of another type is a leaf.
pub(super) fn view<'a>(of: Type<'a>, value: Option<&'a Value>) -> View<'a> {
    let Some(value) = value else { return View::Empty };
    match (of.shape, value) {
        (Shape::Map { is_atomic: false, .. } | Shape::Any | Shape::Metadata | Shape::List { .. }, Value::Null) => {
            View::Empty
        }
        (Shape::Map { is_atomic: false, .. } | Shape::Any | Shape::Metadata, Value::Object(map)) => {
            match map.is_empty() {
                true => View::Empty,
                false => View::Map(map),
            }
        }
        (Shape::List { kind: kind @ (ListKind::Set | ListKind::Map(_)), .. }, Value::Array(list)) => {
            if list.is_empty() { View::Empty } else { View::List(kind, list) }
        }
        (
            Shape::Scalar(_) | Shape::Map { .. } | Shape::List { .. } | Shape::Any | Shape::Whole | Shape::Metadata,
            _,
        ) => View::Leaf,
    }
}

/// The items of a list by their step; several for a step if they are duplicates.
pub(super) type Items<'a> = BTreeMap<Element, Vec<&'a Value>>;

/// Orders the items of a list by their steps. The error names an item that cannot be told from others.
pub(super) fn items<'a>(kind: &ListKind, list: &'a [Value]) -> Result<Items<'a>, String> {
    let mut items = Items::new();
    for (place, item) in list.iter().enumerate() {
        let step = Element::of_item(kind, place, item).map_err(|why| format!("element {place}: {why}"))?;
        items.entry(step).or_default().push(item);
    }
    Ok(items)
}

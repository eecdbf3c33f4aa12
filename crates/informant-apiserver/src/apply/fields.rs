//! The fields that a value has, and the same value without some of them.
//!
//! - **In:** a value, and its type.
//! - **Out:** its fields; the value without the fields of a set.
//! - **Knows nothing of:** managers.

use serde_json::Value;

use super::{
    element::Element,
    set::FieldSet,
    view::{View, items, view},
};
use crate::schema::Type;

/// The fields of a value.
pub(super) fn field_set(of: Type<'_>, value: &Value) -> FieldSet {
    match view(of, Some(value)) {
        View::Leaf => FieldSet::leaf(),
        View::Empty => FieldSet::default(),
        View::Map(map) => {
            let mut set = FieldSet::default();
            for (name, value) in map {
                let (inner, field) = of.field(name).unwrap_or((Type::any(), None));
                let mut fields = field_set(inner, value);
                let is_empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                fields.is_member |= is_empty || field.is_none();
                set.insert(Element::field(name), fields);
            }
            set
        }
        View::List(kind, list) => {
            let Ok(items) = items(kind, list) else { return FieldSet::leaf() };
            let mut set = FieldSet::default();
            for (step, values) in items {
                let mut fields = match values[..] {
                    [value] => field_set(of.items(), value),
                    _ => FieldSet::default(),
                };
                fields.is_member = true;
                set.insert(step, fields);
            }
            set
        }
    }
}

/// The set with each named field of a struct in it that contains a member.
pub(super) fn with_named_fields(of: Type<'_>, set: &FieldSet) -> FieldSet {
    let mut named = FieldSet::default();
    named.is_member = set.is_member;
    for (step, inner) in set.children() {
        let (of_inner, is_named) = match step {
            Element::Field(name) => of.field(name).map_or((Type::any(), false), |(of, field)| (of, field.is_some())),
            Element::Key(_) => (of.items(), false),
            Element::Value(_) | Element::Index(_) => (Type::any(), false),
        };
        let mut inner = with_named_fields(of_inner, inner);
        inner.is_member |= is_named;
        named.insert(step.clone(), inner);
    }
    named
}

/// The value without the members of a set. What becomes empty becomes null, as in kube-apiserver.
pub(super) fn without(of: Type<'_>, value: &Value, gone: &FieldSet) -> Value {
    let kept = |of: Type<'_>, value: &Value, step: &Element| match gone.child(step) {
        None => Some(value.clone()),
        Some(gone) if gone.is_member => None,
        Some(gone) => Some(without(of, value, gone)),
    };
    match view(of, Some(value)) {
        View::Leaf if value.is_object() || value.is_array() => Value::Null,
        View::Leaf => value.clone(),
        View::Empty => Value::Null,
        View::Map(map) => {
            let field = |(name, value): (&String, &Value)| {
                let inner = of.field(name).map_or(Type::any(), |(of, _)| of);
                Some((name.clone(), kept(inner, value, &Element::field(name))?))
            };
            let fields = map.iter().filter_map(field).collect::<serde_json::Map<_, _>>();
            if fields.is_empty() { Value::Null } else { Value::Object(fields) }
        }
        View::List(kind, list) => {
            let item = |(place, item): (usize, &Value)| match Element::of_item(kind, place, item) {
                Ok(step) => kept(of.items(), item, &step),
                Err(_) => Some(item.clone()),
            };
            let items = list.iter().enumerate().filter_map(item).collect::<Vec<_>>();
            if items.is_empty() { Value::Null } else { Value::Array(items) }
        }
    }
}

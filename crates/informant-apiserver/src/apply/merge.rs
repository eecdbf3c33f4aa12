//! Merges what a client applies into the stored object.
//!
//! - **In:** the stored value and the applied one, and their type.
//! - **Out:** the stored value with the applied one laid over it.
//! - **Knows nothing of:** managers, and fields that are no longer applied.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{
    element::Element,
    view::{View, items, view},
};
use crate::schema::{ListKind, Type};

/// Lays an applied value over a stored one.
pub(super) fn merge(of: Type<'_>, old: &Value, new: &Value) -> Value {
    match (view(of, Some(old)), view(of, Some(new))) {
        (View::Map(old), View::Map(new)) => Value::Object(merge_maps(of, old, new)),
        (View::List(kind, old_list), View::List(_, new_list)) => {
            merge_lists(of, kind, old_list, new_list).map_or_else(|_| new.clone(), Value::Array)
        }
        (View::Map(_) | View::List(..), View::Empty) => old.clone(),
        (View::Leaf | View::Empty, _)
        | (View::Map(_) | View::List(..), View::Leaf)
        | (View::Map(_), View::List(..))
        | (View::List(..), View::Map(_)) => new.clone(),
    }
}

fn merge_maps(of: Type<'_>, old: &Map<String, Value>, new: &Map<String, Value>) -> Map<String, Value> {
    let mut merged = old.clone();
    for (name, value) in new {
        let inner = of.field(name).map_or(Type::any(), |(of, _)| of);
        let value = old.get(name).map_or_else(|| value.clone(), |old| merge(inner, old, value));
        merged.insert(name.clone(), value);
    }
    merged
}

/// Merges items by their steps. The applied items keep their order; the other stored items stay where they are among them.
fn merge_lists(of: Type<'_>, kind: &ListKind, old: &[Value], new: &[Value]) -> Result<Vec<Value>, String> {
    let steps = |list: &[Value]| {
        let step = |(place, item)| Element::of_item(kind, place, item);
        list.iter().enumerate().map(step).collect::<Result<Vec<_>, _>>()
    };
    let (old_steps, new_steps) = (steps(old)?, steps(new)?);
    let old_items = items(kind, old)?;
    let applied = new_steps.iter().collect::<BTreeSet<_>>();
    let merged = |place: usize| match old_items.get(&new_steps[place]).map(Vec::as_slice) {
        Some([stored]) => merge(of.items(), stored, &new[place]),
        // Duplicates in the stored list are replaced.
        Some(_) | None => new[place].clone(),
    };

    let mut shared = new_steps.iter().filter(|step| old_items.contains_key(*step)).peekable();
    let mut all = Vec::with_capacity(old.len().max(new.len()));
    let (mut left, mut right) = (0, 0);
    // The applied items before `right`.
    let mut passed = BTreeSet::new();
    while left < old.len() || right < new.len() {
        if let (Some(step), Some(next)) = (old_steps.get(left), new_steps.get(right)) {
            if step == next {
                all.push(merged(right));
                passed.insert(next);
                (left, right) = (left + 1, right + 1);
                shared.next();
                continue;
            }
            // A stored item that is applied, but later.
            if applied.contains(step) && shared.peek().is_some_and(|next| *next != step) {
                left += 1;
                continue;
            }
        }
        if let Some(step) = old_steps.get(left) {
            if !applied.contains(step) {
                all.push(old[left].clone());
                left += 1;
                continue;
            }
            if passed.contains(step) {
                left += 1;
            }
        }
        if right < new.len() {
            all.push(merged(right));
            if shared.peek().is_some_and(|next| **next == new_steps[right]) {
                shared.next();
            }
            passed.insert(&new_steps[right]);
            right += 1;
        }
    }
    Ok(all)
}

//! What clients own that create, update or patch: the fields that they changed.
//!
//! - **In:** the states before and after a write, and its author.
//! - **Out:** the managed fields of the new state.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::{
    Author, Managers,
    compare::{Difference, compare, compare_maps, or_empty},
    element::Element,
    managers::{ManagerId, Operation},
    reset,
    set::{FieldSet, Order},
};
use crate::{objects::Object, registry::kind::Kind, schema, schema::Type};

/// The managed fields of an object after a client's write. `old` is `None` for a new object.
///
/// A client may also send managed fields, in `new`; invalid ones are ignored.
pub(crate) fn updated(kind: &Kind, old: Option<&Object>, new: &Object, author: &Author) -> Bytes {
    let stored = old.map(|old| &old.managed);
    let sent = if author.subresource.is_some() { &Bytes::new() } else { &new.managed };
    let is_same = stored == Some(sent) || sent.is_empty();
    if !is_same && is_reset(sent) {
        // Without entries, a stored object is not tracked.
        let tracks = || tracked(kind, difference(kind, None, new), Managers::default(), author);
        return old.map_or_else(tracks, |_| Bytes::new());
    }
    let sent_managers = if is_same { None } else { Managers::read(sent).ok().filter(|sent| !sent.is_empty()) };
    match (sent_managers, stored) {
        (Some(sent), _) => tracked(kind, difference(kind, old, new), sent, author),
        (None, Some(stored)) if stored.is_empty() => Bytes::new(),
        (None, Some(stored)) => {
            // Most writes of controllers change nothing.
            let difference = difference(kind, old, new);
            if difference.is_empty() {
                return stored.clone();
            }
            let managers = Managers::read(stored).unwrap_or_default();
            if managers.is_empty() { Bytes::new() } else { tracked(kind, difference, managers, author) }
        }
        (None, None) => tracked(kind, difference(kind, None, new), Managers::default(), author),
    }
}

/// An empty list, or a list with an empty entry, removes all managed fields.
fn is_reset(sent: &[u8]) -> bool {
    let entries = serde_json::from_slice::<Vec<Map<String, Value>>>(sent).unwrap_or_default();
    match &entries[..] {
        [] => sent.starts_with(b"["),
        [entry] => entry.is_empty(),
        [_, ..] => false,
    }
}

fn tracked(kind: &Kind, difference: Difference, mut managers: Managers, author: &Author) -> Bytes {
    managers.0.retain(|entry| is_known(kind, &entry.id));
    let id = ManagerId {
        name: if author.manager.is_empty() { "unknown".to_owned() } else { author.manager.clone() },
        operation: Operation::Update,
        api_version: kind.api_version(),
        subresource: author.subresource().to_owned(),
    };
    record(&mut managers, difference, |fields| reset::written(kind, author, fields), id, &author.time);
    managers.write(Order::of(kind)).into()
}

/// Gives changed fields to their author, and takes them from all others.
pub(super) fn record(
    managers: &mut Managers,
    difference: Difference,
    written: impl Fn(FieldSet) -> FieldSet,
    id: ManagerId,
    now: &str,
) {
    let (changed, removed) = (written(difference.changed), written(difference.removed));
    managers.take_from_others(None, &changed);
    managers.take_from_others(None, &removed);
    managers.add(id, reset::stripped(changed), now);
    managers.limit_updaters();
}

/// Entries of versions that are no longer served are dropped.
pub(super) fn is_known(kind: &Kind, id: &ManagerId) -> bool {
    let group = id.api_version.split_once('/').map_or("", |(group, _)| group);
    group == kind.group
}

/// The fields in which two states of an object differ.
fn difference(kind: &Kind, old: Option<&Object>, new: &Object) -> Difference {
    let of = schema::of(kind);
    let (none, empty) = (Object::default(), Map::new());
    let old = old.unwrap_or(&none);
    let mut all = Difference::default();
    let mut metadata = Difference::default();
    let of_metadata = of.field("metadata").map_or(Type::any(), |(of, _)| of);
    compare_maps(
        of_metadata,
        &old.metadata,
        if new.metadata.is_empty() { &empty } else { &new.metadata },
        &mut metadata,
    );
    all.insert(Element::field("metadata"), metadata);
    let names = old.rest.keys().chain(new.rest.keys()).collect::<BTreeSet<_>>();
    for name in names {
        let (before, after) = (old.rest.get(name), new.rest.get(name));
        if before == after {
            continue;
        }
        let read = |json: Option<&Bytes>| json.and_then(|json| serde_json::from_slice::<Value>(json).ok());
        let (before, after) = (read(before), read(after));
        let (inner, field) = of.field(name).unwrap_or((Type::any(), None));
        let inner = compare(inner, or_empty(field, before.as_ref()), or_empty(field, after.as_ref()));
        all.insert(Element::field(name), inner);
    }
    all
}

//! The managed fields of an object that is written through its scale.
//!
//! - **In:** the managed fields of the object, the replicas before and after.
//! - **Out:** the managed fields of the object after the write.
//!
//! The owner of `spec.replicas` of the scale owns the replicas of the object, which custom kinds may have at another path.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::{
    Application, Author, Managers,
    applying::{check, lay_over},
    compare::compare,
    managers::{Entry, ManagerId, Operation},
    set::{FieldSet, Order},
    updates::{is_known, record},
};
use crate::{error::ApiError, objects::scale, registry::kind::Kind, schema};

/// The path of the replicas in a scale.
const REPLICAS: [&str; 2] = ["spec", "replicas"];

/// The managed fields of an object after its scale was updated.
pub(crate) fn updated_by_scale(
    kind: &Kind,
    stored: &Bytes,
    (old, new): (&Map<String, Value>, &Map<String, Value>),
    author: &Author,
) -> Bytes {
    let Ok(managers) = Managers::read(stored) else { return stored.clone() };
    let mut of_scale = of_scale(kind, &managers);
    let (old, new) = (Value::Object(old.clone()), Value::Object(new.clone()));
    let scale = scale::kind();
    let difference = compare(schema::of(&scale), Some(&old), Some(&new));
    let replicas = FieldSet::of_path(&REPLICAS);
    if !of_scale.is_empty() {
        record(
            &mut of_scale,
            difference,
            |fields| fields.intersection(&replicas),
            id(author, Operation::Update),
            &author.time,
        );
    }
    of_object(kind, managers, of_scale).write(Order::ByText).into()
}

/// Applies a scale. Returns the new scale, and the managed fields of the object.
pub(crate) fn apply_scale(
    kind: &Kind,
    live: &Map<String, Value>,
    stored: &[u8],
    application: &Application<'_>,
) -> Result<(Value, Bytes), ApiError> {
    let scale = scale::kind();
    let of = schema::of(&scale);
    check(&scale, of, &application.fields)?;
    let managers = Managers::read(stored).unwrap_or_default();
    let mut of_scale = of_scale(kind, &managers);
    let live = Value::Object(live.clone());
    let id = id(application.author, Operation::Apply);
    let merged = lay_over(of, &live, &mut of_scale, &id, application, |fields| fields)?;
    Ok((merged, of_object(kind, managers, of_scale).write(Order::ByText).into()))
}

fn id(author: &Author, operation: Operation) -> ManagerId {
    let (name, subresource) = (author.manager.clone(), author.subresource().to_owned());
    ManagerId { name, operation, api_version: scale::kind().api_version(), subresource }
}

/// The owners of the replicas of an object, as owners of those of its scale.
fn of_scale(kind: &Kind, managers: &Managers) -> Managers {
    let path = scale::path_of_replicas(kind);
    let owners = managers.0.iter().filter(|entry| is_known(kind, &entry.id) && entry.fields.has(&path));
    let owner = |entry: &Entry| Entry {
        id: ManagerId { api_version: scale::kind().api_version(), ..entry.id.clone() },
        fields: FieldSet::of_path(&REPLICAS),
        time: entry.time.clone(),
    };
    Managers(owners.map(owner).collect())
}

/// The owners of an object, with those of its scale.
fn of_object(kind: &Kind, managers: Managers, of_scale: Managers) -> Managers {
    let path = scale::path_of_replicas(kind);
    let replicas = FieldSet::of_path(&path);
    let mut all = managers;
    all.0.retain(|entry| is_known(kind, &entry.id));
    let is_owner = |entry: &Entry| {
        let id = ManagerId { api_version: scale::kind().api_version(), ..entry.id.clone() };
        of_scale.of(&id).is_some_and(|owner| owner.fields.has(&REPLICAS))
    };
    let before = all.clone();
    for entry in &mut all.0 {
        if !is_owner(entry) {
            entry.fields = std::mem::take(&mut entry.fields).difference(&replicas);
        }
    }
    all.drop_empty();
    for owner in of_scale.0.into_iter().filter(|owner| owner.fields.has(&REPLICAS)) {
        let id = ManagerId { api_version: kind.api_version(), ..owner.id };
        // kube-apiserver writes no time into new entries of a scale.
        if !before.of(&id).is_some_and(|entry| entry.fields.has(&path)) {
            all.put(Entry { id, fields: replicas.clone(), time: None });
        }
    }
    all
}

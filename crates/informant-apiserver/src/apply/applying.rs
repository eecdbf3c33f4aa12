//! Server-side apply: a client sends the fields that it wants, and owns them.
//!
//! - **In:** the stored object, and the fields that a client applies.
//! - **Out:** the merged object, or the fields that belong to others.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::{
    Author, Managers,
    compare::{Difference, compare},
    fields::{field_set, with_named_fields, without},
    managers::{Entry, ManagerId, Operation},
    merge::merge,
    reset,
    set::{FieldSet, Order},
    typed,
    updates::is_known,
};
use crate::{
    error::{ApiError, Cause},
    registry::kind::Kind,
    schema,
    schema::Type,
};

/// What a client applies.
pub(crate) struct Application<'a> {
    pub(crate) author: &'a Author,
    pub(crate) fields: Map<String, Value>,
    /// Whether it takes fields from others.
    pub(crate) force: bool,
}

/// The manager of the fields that an object had before the first apply.
const BEFORE: &str = "before-first-apply";

/// Applies fields to an object without its managed fields; returns the new state of both. A new object is empty.
pub(crate) fn apply(
    kind: &Kind,
    live: &Map<String, Value>,
    stored: &[u8],
    application: &Application<'_>,
) -> Result<(Map<String, Value>, Bytes), ApiError> {
    let of = schema::of(kind);
    check(kind, of, &application.fields)?;
    let live = Value::Object(live.clone());
    let author = application.author;
    let mut managers = Managers::read(stored)
        .map_err(|()| ApiError::Internal("failed to decode managed fields of the stored object".into()))?;
    managers.0.retain(|entry| is_known(kind, &entry.id));
    if managers.is_empty() {
        let empty = Value::Object(Map::new());
        let all = compare(of, Some(&empty), Some(&live)).changed;
        let id = id_of(BEFORE, Operation::Update, kind, author);
        managers.add(id, reset::ownable(kind, author, all), &application.author.time);
    }
    let id = id_of(&author.manager, Operation::Apply, kind, author);
    let written = |fields: FieldSet| reset::written(kind, author, fields);
    let merged = lay_over(of, &live, &mut managers, &id, application, written)?;
    let Value::Object(merged) = merged else { return Err(ApiError::Internal("nothing was applied".into())) };
    Ok((merged, managers.write(Order::of(kind)).into()))
}

fn id_of(name: &str, operation: Operation, kind: &Kind, author: &Author) -> ManagerId {
    let (api_version, subresource) = (kind.api_version(), author.subresource().to_owned());
    ManagerId { name: name.to_owned(), operation, api_version, subresource }
}

/// Rejects fields that the kind does not have, values of the wrong type, and what clients must not apply.
pub(super) fn check(kind: &Kind, of: Type<'_>, fields: &Map<String, Value>) -> Result<(), ApiError> {
    let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, given) = (text("apiVersion"), text("kind"));
    if api_version != kind.api_version() || given != kind.kind {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        return Err(ApiError::BadRequest(format!("invalid object type: {group}/{version}, Kind={given}")));
    }
    let metadata = fields.get("metadata").and_then(Value::as_object);
    let of_metadata = |name: &str| metadata.and_then(|metadata| metadata.get(name));
    if of_metadata("managedFields").is_some_and(|managed| !managed.is_null()) {
        return Err(ApiError::BadRequest("metadata.managedFields must be nil".into()));
    }
    let name = |field: &str| of_metadata(field).and_then(Value::as_str).unwrap_or_default();
    let errors = typed::errors(of, &Value::Object(fields.clone()));
    let text = match &errors[..] {
        [] => return Ok(()),
        [one] => one.clone(),
        [_, _, ..] => format!("errors:\n  {}", errors.join("\n  ")),
    };
    Err(ApiError::Internal(format!(
        "failed to create typed patch object ({}/{}; {}/{}, Kind={}): {text}",
        name("namespace"),
        name("name"),
        kind.group,
        kind.version,
        kind.kind
    )))
}

/// Merges the fields into the object, removes those that are no longer applied, and finds conflicts.
pub(super) fn lay_over(
    of: Type<'_>,
    live: &Value,
    managers: &mut Managers,
    id: &ManagerId,
    application: &Application<'_>,
    written: impl Fn(FieldSet) -> FieldSet,
) -> Result<Value, ApiError> {
    let fields = Value::Object(application.fields.clone());
    let merged = merge(of, live, &fields);
    let last = managers.of(id).map(|entry| entry.fields.clone());
    let time = managers.of(id).and_then(|entry| entry.time.clone());
    managers.put(Entry { id: id.clone(), fields: written(field_set(of, &fields)), time });
    let merged = match last {
        Some(last) => without_unapplied(of, &merged, &last, managers),
        None => merged,
    };

    let found = compare(of, Some(live), Some(&merged));
    let found = Difference { changed: written(found.changed), removed: written(found.removed) };
    let conflicts = conflicts(managers, id, &found.changed);
    if !conflicts.is_empty() && !application.force {
        return Err(refuse(&conflicts));
    }
    managers.take_from_others(Some(id), &found.changed);
    managers.take_from_others(Some(id), &found.removed);
    if let Some(entry) = managers.0.iter_mut().find(|entry| entry.id == *id) {
        entry.fields = reset::stripped(std::mem::take(&mut entry.fields));
        if merged != *live {
            entry.time = Some(application.author.time.clone());
        }
    }
    managers.drop_empty();
    Ok(merged)
}

/// Removes what the manager applied before and does not apply now, unless somebody else owns it.
fn without_unapplied(of: Type<'_>, merged: &Value, last: &FieldSet, managers: &Managers) -> Value {
    let fields = |value: &Value| with_named_fields(of, &field_set(of, value));
    let remove = |gone: &FieldSet| without(of, merged, gone);
    let last = with_named_fields(of, last);
    let all = fields(merged);

    let mut kept = fields(&remove(&last));
    for entry in &managers.0 {
        kept.extend(with_named_fields(of, &entry.fields));
    }
    let owned = remove(&all.clone().difference(&kept));
    // What nobody owns and the manager did not apply either stays.
    remove(&all.difference(&fields(&owned)).intersection(&last))
}

/// The fields that change and belong to others, by manager.
fn conflicts(managers: &Managers, id: &ManagerId, changed: &FieldSet) -> Vec<(String, Vec<String>)> {
    let mut others = managers.0.iter().filter(|entry| entry.id != *id).collect::<Vec<_>>();
    others.sort_by_key(|entry| (entry.id.name.clone(), entry.id.operation, entry.id.api_version.clone()));
    let conflict = |entry: &Entry| (entry.id.describe(), entry.fields.intersection(changed).paths());
    others.into_iter().map(conflict).filter(|(_, paths)| !paths.is_empty()).collect()
}

fn refuse(conflicts: &[(String, Vec<String>)]) -> ApiError {
    let cause = |manager: &String, path: &String| Cause {
        reason: "FieldManagerConflict",
        field: path.clone().into(),
        message: format!("conflict with {manager}"),
    };
    let causes = conflicts.iter().flat_map(|(manager, paths)| paths.iter().map(move |path| cause(manager, path)));
    let causes = causes.collect::<Vec<_>>();
    let text = match &causes[..] {
        [one] => format!("1 conflict: {}: {}", one.message, one.field),
        _ => {
            let of_manager = |(manager, paths): &(String, Vec<String>)| {
                format!("conflicts with {manager}:\n- {}", paths.join("\n- "))
            };
            format!("{} conflicts: {}", causes.len(), conflicts.iter().map(of_manager).collect::<Vec<_>>().join("\n"))
        }
    };
    ApiError::ApplyConflict { why: format!("Apply failed with {text}"), causes }
}

//! The rules of create, update, put and delete for one object.
//!
//! - **In:** the sent object and the stored object.
//! - **Out:** the state to store, or the error that kube-apiserver sends.
//! - **Knows nothing of:** other objects, versions of the server.

use std::collections::BTreeSet;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    apply,
    apply::Managers,
    error::{ApiError, Cause},
    objects::{Key, Object, custom, defaults, propagation, propagation::Propagation, validate},
    registry::{
        kind::{Kind, Origin, Scope},
        subresource::Subresource,
    },
};

/// The part of an object that an update writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Everything, except the status if the kind has the `status` subresource.
    Main,
    /// Only the status.
    Status,
    /// Only one field of the spec or the status.
    Field {
        /// `spec` or `status`.
        of: &'static str,
        /// The field.
        name: &'static str,
    },
}

impl Part {
    /// The part that a request to an object or to one of its subresources writes.
    pub(crate) fn of(subresource: Option<Subresource>) -> Self {
        match subresource {
            Some(Subresource::Status) => Self::Status,
            Some(Subresource::Approval) => Self::Field { of: "status", name: "conditions" },
            Some(Subresource::EphemeralContainers) => Self::Field { of: "spec", name: "ephemeralContainers" },
            Some(Subresource::Finalize) => Self::Field { of: "spec", name: "finalizers" },
            Some(Subresource::Scale | Subresource::Eviction | Subresource::Binding | Subresource::Token) | None => {
                Self::Main
            }
        }
    }
}

/// Whether a request changes the state, or is a dry run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Run {
    Real,
    Dry,
}

/// The values that the server assigns to a new object.
pub(crate) struct Birth<'a> {
    pub(crate) uid: String,
    pub(crate) now: &'a str,
    /// The random suffix for `generateName`.
    pub(crate) suffix: String,
}

/// The result of an update.
#[derive(Debug, PartialEq)]
pub(crate) enum Updated {
    /// The object does not change, so there is no event.
    Same,
    Changed(Object),
    /// The update removes the last finalizer of an object that is being deleted, so the object is deleted.
    Gone(Object),
}

/// The result of a delete.
#[derive(Debug, PartialEq)]
pub(crate) enum Deletion {
    /// The object is already being deleted.
    Same,
    /// The object has finalizers and is marked as being deleted, or its finalizers change.
    Marked(Object),
    Gone(Object),
}

/// What a delete requires, and what it does with dependents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeleteTerms {
    pub(crate) preconditions: Preconditions,
    /// `None` to let the finalizers of the object decide, and then its kind.
    pub(crate) propagation: Option<Propagation>,
}

impl DeleteTerms {
    /// The terms of a delete without preconditions.
    pub(crate) fn of(propagation: Propagation) -> Self {
        Self { propagation: Some(propagation), ..Self::default() }
    }
}

/// The preconditions of a delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Preconditions {
    pub(crate) uid: Option<String>,
    pub(crate) version: Option<String>,
}

/// The longest prefix that a name generated from `generateName` keeps, without the random suffix.
const LONGEST_GENERATED_BASE: usize = 58;

/// The origin of a new object. It decides whether the object keeps the status that it was sent with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// A client, which writes the status through its subresource.
    Client,
    /// The test that runs the server.
    Owner,
}

/// The error message for a create whose object has another namespace than its path.
const OTHER_NAMESPACE: &str = "the namespace of the provided object does not match the namespace sent on the request";

/// Rejects a create whose object has another namespace than its path.
pub(crate) fn check_request_namespace(kind: &Kind, namespace: &str, object: &Object) -> Result<(), ApiError> {
    match kind.scope == Scope::Cluster || ["", namespace].contains(&object.text("namespace")) {
        true => Ok(()),
        false => Err(ApiError::BadRequest(OTHER_NAMESPACE.to_owned())),
    }
}

/// Returns the object to store for a create in this namespace (empty for cluster-scoped kinds).
pub(crate) fn create(
    kind: &Kind,
    namespace: &str,
    mut object: Object,
    birth: Birth<'_>,
    trust: Trust,
    run: Run,
) -> Result<(Key, Object), ApiError> {
    if object.text("name").is_empty() {
        let base = object.text("generateName");
        if base.is_empty() {
            let cause = Cause::required("metadata.name", "name or generateName is required");
            return Err(ApiError::invalid(kind, "", cause));
        }
        let cut = base.char_indices().nth(LONGEST_GENERATED_BASE).map_or(base.len(), |(position, _)| position);
        let name = format!("{}{}", &base[..cut], birth.suffix);
        object.set("name", name);
    }
    let name = object.text("name").to_owned();
    validate::name(kind, &name)?;
    validate::metadata(kind, &object)?;
    settle_namespace(kind, namespace, &mut object, OTHER_NAMESPACE)?;
    if trust == Trust::Client {
        validate::pod(kind, &object)?;
    }
    // In kube-apiserver the storage rejects a version in a new object, and a dry run does not reach the storage.
    if run == Run::Real && !matches!(object.text("resourceVersion"), "" | "0") {
        return Err(ApiError::Internal("resourceVersion should not be set on objects to be created".into()));
    }

    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"] {
        object.metadata.remove(field);
    }
    object.set("uid", birth.uid);
    object.set("creationTimestamp", birth.now);
    if kind.has_generation {
        object.set("generation", 1);
    }
    if kind.has(Subresource::Status) && trust == Trust::Client {
        object.rest.remove("status");
    }
    defaults::fill_in_new(kind, &mut object);
    if trust == Trust::Client {
        custom::check_new(kind, &object)?;
    }
    custom::fill_in_status(kind, &mut object);
    Ok((Key::new(namespace, &name), object))
}

/// Returns the result of a client's update of the stored object.
///
/// The fields that the author of the update changes become his.
pub(crate) fn update(kind: &Kind, key: &Key, old: &Object, mut new: Object, part: Part) -> Result<Updated, ApiError> {
    let (author, managed) = (new.author.take(), new.managed.clone());
    let complaint = format!(
        "the namespace of the object ({}) does not match the namespace on the request ({})",
        new.text("namespace"),
        key.namespace()
    );
    settle_namespace(kind, key.namespace(), &mut new, &complaint)?;
    check_state(kind, key, old, &new)?;
    validate::metadata(kind, &new)?;

    // The update ignores the sent content of the other part.
    let mut next = match part {
        Part::Main => {
            let mut next = with_kept_metadata(old, new);
            // Only the subresource `finalize` changes the finalizers in the spec of a namespace.
            if kind.is_namespace() {
                copy_field("spec", old, &mut next);
            }
            if kind.has(Subresource::Status) {
                copy_field("status", old, &mut next);
            }
            defaults::normalize(kind, &mut next);
            next
        }
        Part::Status => {
            let mut next = old.clone();
            copy_field("status", &new, &mut next);
            if kind.origin == Origin::BuiltIn {
                next.metadata = with_kept_metadata(old, new).metadata;
            }
            check_phase(kind, &next)?;
            next
        }
        Part::Field { of, name } => {
            let mut next = old.clone();
            let (mut part, mut sent) = (old.field(of), new.field(of));
            match sent.get_mut(name).map(Value::take) {
                Some(value) => part[name] = value,
                None => drop(part.as_object_mut().and_then(|part| part.remove(name))),
            }
            next.set_field(of, &part);
            next
        }
    };
    custom::check_changed(kind, old, &next, part)?;
    next.managed = managed;
    if let Some(author) = author {
        next.managed = apply::updated(kind, Some(old), &next, &author);
    }
    settle(kind, old, next)
}

/// Returns the result of [`ApiServer::put`](crate::ApiServer::put) for the stored object. The new status replaces the old one.
pub(crate) fn put(kind: &Kind, key: &Key, old: &Object, mut new: Object) -> Result<Updated, ApiError> {
    new.metadata.remove("resourceVersion");
    new.metadata.remove("uid");
    settle_namespace(kind, key.namespace(), &mut new, "the namespace of the object does not match")?;
    let mut next = with_kept_metadata(old, new);
    if kind.is_namespace() && old.is_being_deleted() {
        copy_field("spec", old, &mut next);
        copy_field("status", old, &mut next);
    }
    if next.managed.is_empty() {
        next.managed = old.managed.clone();
    }
    defaults::fill_in_new(kind, &mut next);
    settle(kind, old, next)
}

/// Returns the result of a delete of the stored object.
pub(crate) fn delete(
    kind: &Kind,
    key: &Key,
    old: &Object,
    terms: &DeleteTerms,
    now: &str,
) -> Result<Deletion, ApiError> {
    let preconditions = &terms.preconditions;
    let checks = [
        (&preconditions.uid, "uid", "UID", "The object might have been deleted and then recreated"),
        (&preconditions.version, "resourceVersion", "ResourceVersion", "The object might have been modified"),
    ];
    for (wanted, field, word, hint) in checks {
        let has = old.text(field);
        if let Some(wanted) = wanted.as_ref().filter(|wanted| *wanted != has) {
            let why = format!(
                "the {word} in the precondition ({wanted}) does not match the {word} in record ({has}). {hint}"
            );
            return Err(ApiError::conflict(kind, key.name(), why));
        }
    }
    if old.is_being_deleted() && has_spec_finalizers(kind, old) {
        return Ok(Deletion::Same);
    }
    let mut next = old.clone();
    match propagation::finalizers(kind, old, terms.propagation) {
        None => {}
        Some(none) if none.is_empty() => drop(next.metadata.remove("finalizers")),
        Some(finalizers) => next.set("finalizers", finalizers),
    }
    // A namespace is marked first, so that no object is created in it while its objects are deleted.
    let is_marked_first = kind.is_namespace() && !old.is_being_deleted();
    if next.finalizers().is_empty() && !has_spec_finalizers(kind, old) && !is_marked_first {
        return Ok(Deletion::Gone(old.clone()));
    }
    if old.is_being_deleted() {
        return Ok(if next == *old { Deletion::Same } else { Deletion::Marked(next) });
    }
    next.set("deletionTimestamp", now);
    if kind.is_namespace() {
        let mut status = next.field("status");
        status["phase"] = "Terminating".into();
        next.set_field("status", &status);
    } else {
        next.set("deletionGracePeriodSeconds", 0);
    }
    raise_generation(&mut next);
    Ok(Deletion::Marked(next))
}

/// Rejects a namespace with a wrong phase: it must be `Terminating` exactly if the namespace is being deleted.
fn check_phase(kind: &Kind, namespace: &Object) -> Result<(), ApiError> {
    let phase = namespace.field("status")["phase"].take();
    let is_deleted = namespace.is_being_deleted();
    if !kind.is_namespace() || (phase == "Terminating") == is_deleted {
        return Ok(());
    }
    let why = match is_deleted {
        true => "may only be 'Terminating' if `deletionTimestamp` is not empty",
        false => "may only be 'Active' if `deletionTimestamp` is empty",
    };
    Err(ApiError::invalid(kind, namespace.text("name"), Cause::invalid("status.Phase", &phase.to_string(), why)))
}

/// Returns true for a namespace with finalizers in its spec; such a namespace cannot be removed yet.
fn has_spec_finalizers(kind: &Kind, object: &Object) -> bool {
    kind.is_namespace() && object.field("spec")["finalizers"].as_array().is_some_and(|list| !list.is_empty())
}

/// Checks that the sent object names the uid and the version of the stored one.
fn check_state(kind: &Kind, key: &Key, old: &Object, new: &Object) -> Result<(), ApiError> {
    if !new.text("uid").is_empty() && new.text("uid") != old.text("uid") {
        let why = format!(
            "Precondition failed: UID in precondition: {}, UID in object meta: {}",
            new.text("uid"),
            old.text("uid")
        );
        return Err(ApiError::conflict(kind, key.name(), why));
    }
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        match new.metadata.get(field) {
            None => {}
            Some(same) if old.metadata.get(field).is_some_and(|old| is_same_moment(old, same)) => {}
            Some(other) => {
                let cause = Cause::invalid(format!("metadata.{field}"), &other.to_string(), "field is immutable");
                return Err(ApiError::invalid(kind, key.name(), cause));
            }
        }
    }
    match new.text("resourceVersion") {
        "" | "0" if !kind.updates_blindly => {
            let cause = Cause::invalid("metadata.resourceVersion", "0", "must be specified for an update");
            Err(ApiError::invalid(kind, key.name(), cause))
        }
        "" | "0" => Ok(()),
        version if version == old.text("resourceVersion") => Ok(()),
        _ => Err(ApiError::conflict(
            kind,
            key.name(),
            "the object has been modified; please apply your changes to the latest version and try again",
        )),
    }
}

/// Rejects a patch that changes the uid, with 422. An update with another uid gets 409 in `check_state`, because the client may mean
/// an earlier incarnation of the object.
pub(crate) fn check_uid_is_kept(kind: &Kind, old: &Object, patched: &Object) -> Result<(), ApiError> {
    let uid = patched.text("uid");
    if uid.is_empty() || uid == old.text("uid") {
        return Ok(());
    }
    let cause = Cause::invalid("metadata.uid", &format!("{uid:?}"), "field is immutable");
    Err(ApiError::invalid(kind, old.text("name"), cause))
}

/// The new object, with the metadata that a client cannot change from the old one.
fn with_kept_metadata(old: &Object, mut new: Object) -> Object {
    let kept = [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
        "selfLink",
    ];
    for field in kept {
        match old.metadata.get(field) {
            Some(value) => new.metadata.insert(field.into(), value.clone()),
            None => new.metadata.remove(field),
        };
    }
    new
}

/// Applies the rules of finalizers and generation, and finds out whether the object changes.
pub(crate) fn settle(kind: &Kind, old: &Object, mut next: Object) -> Result<Updated, ApiError> {
    if old.is_being_deleted() {
        let before = old.finalizers();
        let fresh = next.finalizers().into_iter().filter(|one| !before.contains(one)).collect::<Vec<_>>();
        if !fresh.is_empty() {
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers {fresh:?}"
            );
            return Err(ApiError::invalid(kind, old.text("name"), Cause::forbidden("metadata.finalizers", &why)));
        }
        if next.finalizers().is_empty() && !has_spec_finalizers(kind, &next) {
            return Ok(Updated::Gone(next));
        }
    }
    let changed = |field: &&String| !is_same_json(old.rest.get(*field), next.rest.get(*field));
    let fields = old.rest.keys().chain(next.rest.keys()).filter(changed).collect::<BTreeSet<_>>();
    if fields.is_empty() && next.metadata == old.metadata && is_same_but_for_times(&old.managed, &next.managed) {
        return Ok(Updated::Same);
    }
    if fields.iter().any(|field| !(kind.has(Subresource::Status) && *field == "status")) {
        raise_generation(&mut next);
    }
    Ok(Updated::Changed(next))
}

/// Returns true if two values are equal, whatever the order of their fields.
///
/// The order depends on a feature of `serde_json` that any crate of a program may enable. Values with another order have the same
/// length, so the function decodes only few of them.
fn is_same_json(left: Option<&Bytes>, right: Option<&Bytes>) -> bool {
    let read = |json: &Bytes| serde_json::from_slice::<Value>(json).ok();
    match (left, right) {
        (Some(left), Some(right)) => left == right || left.len() == right.len() && read(left) == read(right),
        (None, None) => true,
        (None, Some(_)) | (Some(_), None) => false,
    }
}

/// Returns true if two lists of managed fields differ only in their times.
fn is_same_but_for_times(old: &Bytes, new: &Bytes) -> bool {
    let equal = || Some(Managers::read(old).ok()?.equals_but_for_times(&Managers::read(new).ok()?));
    old == new || equal().unwrap_or(false)
}

fn raise_generation(object: &mut Object) {
    if let Some(generation) = object.metadata.get("generation").and_then(Value::as_u64) {
        object.set("generation", generation + 1);
    }
}

/// Returns true if two values are equal, or are the same time in different formats.
fn is_same_moment(left: &Value, right: &Value) -> bool {
    let time = |value: &Value| value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    left == right || time(left).is_some_and(|left| Some(left) == time(right))
}

/// Copies a field from `from` to `to`; removes it from `to` if `from` does not have it.
fn copy_field(name: &str, from: &Object, to: &mut Object) {
    match from.rest.get(name) {
        Some(value) => to.rest.insert(name.into(), value.clone()),
        None => to.rest.remove(name),
    };
}

/// Sets the namespace of the object to that of the request; fails if the object has another one.
fn settle_namespace(kind: &Kind, namespace: &str, object: &mut Object, complaint: &str) -> Result<(), ApiError> {
    match kind.scope {
        Scope::Cluster => {
            object.metadata.remove("namespace");
        }
        Scope::Namespaced => {
            if !object.text("namespace").is_empty() && object.text("namespace") != namespace {
                return Err(ApiError::BadRequest(complaint.into()));
            }
            object.set("namespace", namespace);
        }
    }
    Ok(())
}

//! Reviews: requests that ask which user a token belongs to, or whether a user may do something.
//!
//! - **In:** a review, the user of the request, and the time.
//! - **Out:** the review with its status filled in; every access is allowed.
//! - **Knows nothing of:** HTTP, stored objects.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    access::{User, token::Claims},
    error::{ApiError, Cause},
    objects::Object,
    registry::kind::Kind,
};

/// Fills in the status of a review.
pub(crate) fn answer(kind: &Kind, review: &Object, user: &User, now: Timestamp) -> Result<Value, ApiError> {
    let spec = review.field("spec");
    let status = match &*kind.kind {
        "SelfSubjectReview" => json!({"userInfo": user.as_json()}),
        "TokenReview" => token_status(spec["token"].as_str().unwrap_or_default(), now)?,
        "SelfSubjectRulesReview" => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        _ => {
            check_access(kind, &spec)?;
            json!({"allowed": true, "reason": "the server has no access control"})
        }
    };
    let mut answer = json!({"kind": kind.kind, "apiVersion": kind.api_version(), "metadata": review.metadata});
    if review.rest.contains_key("spec") {
        answer["spec"] = spec;
    }
    answer["status"] = status;
    Ok(answer)
}

fn token_status(token: &str, now: Timestamp) -> Result<Value, ApiError> {
    if token.is_empty() {
        return Err(ApiError::BadRequest("token is required for TokenReview in authentication".to_owned()));
    }
    Ok(match Claims::read(token, now) {
        Some(claims) => {
            let user = User::service_account(&claims).as_json();
            json!({"authenticated": true, "user": user, "audiences": claims.audiences()})
        }
        None => json!({"user": {}, "error": "invalid bearer token"}),
    })
}

/// Checks that a review names exactly one access and, unless it is about its sender, a user or a group.
fn check_access(kind: &Kind, spec: &Value) -> Result<(), ApiError> {
    let is_there = |field: &str| spec.get(field).is_some_and(|value| !value.is_null());
    let invalid = |field: &'static str, why: &str| Err(ApiError::invalid(kind, "", Cause::invalid(field, "null", why)));
    match (is_there("resourceAttributes"), is_there("nonResourceAttributes")) {
        (true, true) => {
            return invalid("spec.nonResourceAttributes", "cannot be specified in combination with resourceAttributes");
        }
        (false, false) => {
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            return invalid("spec.resourceAttributes", why);
        }
        (true, false) | (false, true) => {}
    }
    let is_empty = |field: &str| spec[field].as_str().is_none_or(str::is_empty);
    let has_groups = spec["groups"].as_array().is_some_and(|groups| !groups.is_empty());
    match kind.kind != "SelfSubjectAccessReview" && is_empty("user") && !has_groups {
        true => invalid("spec.user", "at least one of user or group must be specified"),
        false => Ok(()),
    }
}

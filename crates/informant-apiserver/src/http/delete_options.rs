//! The options of a delete.
//!
//! - **In:** the body and the query of a request.
//! - **Out:** the options, or the error that kube-apiserver sends for invalid ones.
//! - **Knows nothing of:** the objects.

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{
    error::{ApiError, Cause},
    http::params::Params,
    objects::{
        propagation::Propagation,
        rules::{DeleteTerms, Preconditions, Run},
    },
};

/// The options of a delete.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeleteOptions {
    kind: Option<String>,
    propagation_policy: Option<String>,
    orphan_dependents: Option<bool>,
    preconditions: Option<SentPreconditions>,
    dry_run: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SentPreconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

impl DeleteOptions {
    /// Reads the options of a delete from its body, or from its query if the body is empty.
    pub(crate) fn of_request(body: &[u8], params: &Params) -> Result<Self, ApiError> {
        if !body.is_empty() {
            return Self::read(body);
        }
        let propagation_policy = params.propagation_policy.clone();
        Self { propagation_policy, orphan_dependents: params.orphan_dependents, ..Self::default() }.checked()
    }

    /// Reads options from JSON.
    pub(crate) fn read(json: &[u8]) -> Result<Self, ApiError> {
        let unreadable = |error| ApiError::BadRequest(format!("the DeleteOptions provided cannot be read: {error}"));
        // Read as a map first, because serde also accepts a list for a struct.
        let fields: Map<String, Value> = serde_json::from_slice(json).map_err(unreadable)?;
        serde_json::from_value::<Self>(fields.into()).map_err(unreadable)?.checked()
    }

    /// Rejects options that are unknown or contradict each other.
    fn checked(self) -> Result<Self, ApiError> {
        if let Some(kind) = self.kind.as_ref().filter(|kind| !["", "DeleteOptions"].contains(&kind.as_str())) {
            return Err(ApiError::BadRequest(format!(
                "the body of a delete must be DeleteOptions, but its kind is {kind}"
            )));
        }
        if let (Some(policy), Some(_)) = (&self.propagation_policy, self.orphan_dependents) {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            let cause = Cause::invalid("propagationPolicy", &format!("{policy:?}"), why);
            return Err(ApiError::invalid_meta("DeleteOptions", cause));
        }
        if let Some(policy) = self.propagation_policy.as_ref().filter(|policy| read_policy(policy).is_none()) {
            let supported = r#""Foreground", "Background", "Orphan", "nil""#;
            let cause = Cause::unsupported("propagationPolicy", &format!("{policy:?}"), supported);
            return Err(ApiError::invalid_meta("DeleteOptions", cause));
        }
        match &self.dry_run {
            Some(stages) if stages.iter().any(|stage| stage != "All") => {
                let cause = Cause::unsupported("dryRun", &format!("{stages:?}"), "\"All\"");
                Err(ApiError::invalid_meta("DeleteOptions", cause))
            }
            None | Some(_) => Ok(self),
        }
    }

    /// Returns whether the delete is a dry run, by the query (`asked`) or by these options.
    pub(crate) fn run(&self, asked: Run) -> Run {
        if self.dry_run.as_ref().is_some_and(|stages| !stages.is_empty()) { Run::Dry } else { asked }
    }

    pub(crate) fn terms(&self) -> DeleteTerms {
        let sent = self.preconditions.as_ref();
        let preconditions = Preconditions {
            uid: sent.and_then(|sent| sent.uid.clone()),
            version: sent.and_then(|sent| sent.resource_version.clone()),
        };
        let deprecated = self.orphan_dependents.map(|orphan| match orphan {
            true => Propagation::Orphan,
            false => Propagation::Background,
        });
        let propagation = self.propagation_policy.as_deref().and_then(read_policy).or(deprecated);
        DeleteTerms { preconditions, propagation }
    }

    /// The status code of the response for an object that stays until its finalizers are removed.
    pub(crate) fn waiting_code(&self) -> StatusCode {
        if self.orphan_dependents == Some(false) { StatusCode::ACCEPTED } else { StatusCode::OK }
    }
}

fn read_policy(name: &str) -> Option<Propagation> {
    match name {
        "Background" => Some(Propagation::Background),
        "Foreground" => Some(Propagation::Foreground),
        "Orphan" => Some(Propagation::Orphan),
        _ => None,
    }
}

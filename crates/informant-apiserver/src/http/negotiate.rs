//! Content negotiation: reads the representation of objects that a client requests from its `Accept` header.

use crate::{error::ApiError, objects::encoded::Form};

/// What the response contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerTo {
    /// Single objects, for a get, a watch or a write.
    One,
    /// A list.
    List,
}

/// What a client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Objects(Form),
    /// A table, as `kubectl get` requests it.
    Table,
}

/// The first entry of the `Accept` header that the server supports.
pub(crate) fn wanted(accept: &str, answer: AnswerTo) -> Result<Wanted, ApiError> {
    if accept.trim().is_empty() {
        return Ok(Wanted::Objects(Form::Full));
    }
    accept.split(',').find_map(|clause| wanted_by(clause, answer)).ok_or(ApiError::NotAcceptable)
}

/// Like [`wanted`], for responses that cannot be tables.
pub(crate) fn form(accept: &str, answer: AnswerTo) -> Result<Form, ApiError> {
    if accept.trim().is_empty() {
        return Ok(Form::Full);
    }
    let form = |clause| match wanted_by(clause, answer)? {
        Wanted::Objects(form) => Some(form),
        Wanted::Table => None,
    };
    accept.split(',').find_map(form).ok_or(ApiError::NotAcceptable)
}

/// Returns true if the client prefers an aggregated discovery document to a plain one; an error if it accepts neither.
pub(crate) fn wants_aggregated(accept: &str) -> Result<bool, ApiError> {
    if accept.trim().is_empty() {
        return Ok(false);
    }
    let is_known = |names: &(&str, &str, &str)| {
        matches!(names, ("", _, _) | ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2"))
    };
    let known = accept.split(',').filter_map(json_type).find(is_known);
    known.map(|(kind, _, _)| !kind.is_empty()).ok_or(ApiError::NotAcceptable)
}

/// The kind, group and version that a clause requests for JSON; empty if it names none. `None` for other media types.
fn json_type(clause: &str) -> Option<(&str, &str, &str)> {
    let mut parts = clause.split(';').map(str::trim);
    if !matches!(parts.next()?, "application/json" | "application/*" | "*/*") {
        return None;
    }
    let (mut kind, mut group, mut version) = ("", "", "");
    for part in parts {
        match part.split_once('=') {
            Some(("as", value)) => kind = value,
            Some(("g", value)) => group = value,
            Some(("v", value)) => version = value,
            // Weights are ignored, and JSON is always UTF-8.
            _ => {}
        }
    }
    Some((kind, group, version))
}

fn wanted_by(clause: &str, answer: AnswerTo) -> Option<Wanted> {
    let (kind, group, version) = json_type(clause)?;
    let metadata = match answer {
        AnswerTo::One => "PartialObjectMetadata",
        AnswerTo::List => "PartialObjectMetadataList",
    };
    match kind {
        "" => Some(Wanted::Objects(Form::Full)),
        _ if (group, version) != ("meta.k8s.io", "v1") => None,
        "Table" => Some(Wanted::Table),
        kind if kind == metadata => Some(Wanted::Objects(Form::Metadata)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aggregated_document_is_served_to_clients_that_name_it_before_plain_json() {
        let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

        let wants_aggregated = |accept: &str| wants_aggregated(accept).ok();
        assert_eq!(wants_aggregated(aggregated), Some(true));
        let older = aggregated.replace("v2", "v2beta1");
        assert_eq!(wants_aggregated(&format!("{older},{aggregated},application/json")), Some(true));
        assert_eq!(wants_aggregated(&format!("application/json,{aggregated}")), Some(false));
        assert_eq!(wants_aggregated(&older), None);
        assert_eq!(wants_aggregated("*/*"), Some(false));
        assert_eq!(wants_aggregated(""), Some(false));
    }

    #[test]
    fn the_first_form_that_can_be_given_is_taken() {
        let one = |accept: &str| form(accept, AnswerTo::One).ok();
        let list = |accept: &str| form(accept, AnswerTo::List).ok();
        let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";

        assert_eq!(one(""), Some(Form::Full));
        assert_eq!(one("*/*"), Some(Form::Full));
        assert_eq!(one(metadata), Some(Form::Metadata));
        assert_eq!(list(metadata), None);
        assert_eq!(list("application/json; as=PartialObjectMetadataList; g=meta.k8s.io; v=v1"), Some(Form::Metadata));
        assert_eq!(one(&format!("{metadata},application/json")), Some(Form::Metadata));
        assert_eq!(one(&format!("{table},application/json")), Some(Form::Full));
        assert_eq!(one("application/vnd.kubernetes.protobuf, application/json;q=0.9"), Some(Form::Full));
        assert_eq!(one("application/vnd.kubernetes.protobuf"), None);
        assert_eq!(one("text/html"), None);
        let with_tables = |accept: &str| wanted(accept, AnswerTo::List).ok();
        assert_eq!(with_tables(&format!("{table},application/json")), Some(Wanted::Table));
        assert_eq!(with_tables("application/json;as=Table;v=v1beta1;g=meta.k8s.io"), None);
        assert_eq!(with_tables(&format!("application/json,{table}")), Some(Wanted::Objects(Form::Full)));
    }
}

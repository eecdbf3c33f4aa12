//! Field managers: the names of clients, under which they own fields; and the bodies of server-side apply.
//!
//! - **In:** parameters, the `User-Agent` header, a body in YAML or JSON.
//! - **Out:** the name; the applied fields; or the error that kube-apiserver sends.

use serde_json::{Map, Value};

use crate::{
    error::{ApiError, Cause},
    http::params::Params,
};

/// The content type of a server-side apply.
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

/// The longest name, in bytes.
const LONGEST: usize = 128;

/// The name of a client: the one that it gives, or the first part of its `User-Agent`.
pub(super) fn name(given: &str, user_agent: &str) -> String {
    if !given.is_empty() {
        return given.to_owned();
    }
    let product = user_agent.split('/').next().unwrap_or_default();
    let mut name = String::new();
    for letter in product.chars().filter(|letter| !letter.is_control()) {
        if name.len() + letter.len_utf8() > LONGEST {
            break;
        }
        name.push(letter);
    }
    name
}

/// Checks the parameters `fieldManager` and `force` of a write.
pub(super) fn check(options: &str, is_apply: bool, params: &Params) -> Result<(), ApiError> {
    let name = &params.field_manager;
    let cause = if is_apply && name.is_empty() {
        Cause::required("fieldManager", "is required for apply patch")
    } else if !is_apply && params.force.is_some() && options == "PatchOptions" {
        Cause::forbidden("force", "may not be specified for non-apply patch")
    } else if name.len() > LONGEST {
        let message = format!("Too long: may not be more than {LONGEST} bytes");
        Cause { reason: "FieldValueTooLong", field: "fieldManager".into(), message }
    } else if let Some((place, letter)) = name.char_indices().find(|(_, letter)| letter.is_control()) {
        let why = format!("invalid character U+{:04X} (at position {place})", u32::from(letter));
        Cause::invalid("fieldManager", &format!("{name:?}"), &why)
    } else {
        return Ok(());
    };
    Err(ApiError::invalid_meta(options, cause))
}

/// Reads the body of a server-side apply. JSON is YAML, too.
pub(super) fn read_application(body: &[u8]) -> Result<Map<String, Value>, ApiError> {
    let value = match serde_json::from_slice::<Value>(body) {
        Ok(value) => value,
        Err(_) => serde_saphyr::from_slice_with_options::<Option<Value>>(body, yaml())
            .map_err(|error| ApiError::BadRequest(format!("error encoding patch: {error}")))?
            .unwrap_or_default(),
    };
    match value {
        Value::Object(fields) => Ok(fields),
        Value::Null => Ok(Map::new()),
        Value::Bool(_) => Err(no_map("bool")),
        Value::Number(_) => Err(no_map("number")),
        Value::String(_) => Err(no_map("string")),
        Value::Array(_) => Err(no_map("array")),
    }
}

/// As in Kubernetes, `0400` is an octal number.
fn yaml() -> serde_saphyr::Options {
    serde_saphyr::options! { legacy_octal_numbers: true }
}

fn no_map(found: &str) -> ApiError {
    let why = "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal";
    ApiError::BadRequest(format!("error decoding patch: {why} {found} into Go value of type map[string]interface {{}}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_without_a_name_is_called_after_its_user_agent() {
        assert_eq!(name("", "kubectl/v1.37 (linux/amd64)"), "kubectl");
        assert_eq!(name("me", "kubectl/v1.37"), "me");
        assert_eq!(name("", ""), "");
        assert_eq!(name("", &"x".repeat(200)).len(), LONGEST);
    }
}

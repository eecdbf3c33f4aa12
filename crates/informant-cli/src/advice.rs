//! Tips for users who pass options of `kubectl` that this program does not have.
//!
//! - **In:** clap's error for an unknown argument or output format of `get` and `watch`.
//! - **Out:** the same error, with a tip in place of clap's guess at a similarly spelled option.

use clap::{
    Error,
    builder::StyledStr,
    error::{ContextKind, ContextValue, ErrorKind},
};

const USE_JSON: &str = "-o json prints whole objects; select fields with a tool such as jq";

/// Adds a tip to an error, if there is one for it.
pub fn with_advice(mut error: Error) -> Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(_) | None => String::new(),
    };
    let (argument, value) = (text(ContextKind::InvalidArg), text(ContextKind::InvalidValue));
    let usage = match error.get(ContextKind::Usage) {
        Some(ContextValue::StyledStr(usage)) => usage.to_string(),
        Some(_) | None => String::new(),
    };
    let is_get_or_watch = ["informant get ", "informant watch "].iter().any(|command| usage.contains(command));
    let advice = if error.kind() == ErrorKind::InvalidValue && argument.starts_with("--output") {
        of_format(&value)
    } else if error.kind() == ErrorKind::UnknownArgument && is_get_or_watch {
        of_argument(&argument)
    } else {
        None
    };
    if let Some(advice) = advice {
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::SuggestedValue);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(advice)]));
    }
    error
}

fn of_argument(argument: &str) -> Option<&'static str> {
    match argument.split('=').next().unwrap_or_default() {
        "-w" | "--watch" | "--watch-only" => Some("use `informant watch` to follow changes"),
        "--as"
        | "--as-group"
        | "--as-uid"
        | "--user"
        | "--cluster"
        | "--token"
        | "--username"
        | "--password"
        | "--certificate-authority"
        | "--client-certificate"
        | "--client-key"
        | "--insecure-skip-tls-verify" => {
            Some("clusters and users are configured in the kubeconfig; select a context with --context")
        }
        "-L"
        | "--label-columns"
        | "--show-labels"
        | "--sort-by"
        | "--template"
        | "--show-managed-fields"
        | "--show-kind" => Some(USE_JSON),
        "--ignore-not-found" => {
            Some("--field-selector metadata.name=NAME lists the object if it exists, and succeeds if it does not")
        }
        "--request-timeout" => Some("--sync-timeout limits how long the first list may take"),
        name if !name.starts_with('-') => {
            Some("only one name is accepted; omit it to select all objects, or select by label with -l")
        }
        _ => None,
    }
}

fn of_format(format: &str) -> Option<&'static str> {
    let language = format.split('=').next().unwrap_or_default();
    match language {
        "jsonpath"
        | "jsonpath-as-json"
        | "jsonpath-file"
        | "go-template"
        | "go-template-file"
        | "template"
        | "templatefile"
        | "custom-columns"
        | "custom-columns-file" => Some(USE_JSON),
        _ => None,
    }
}

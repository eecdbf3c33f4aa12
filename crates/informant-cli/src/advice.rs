//! What to do instead, for those who ask as they would ask `kubectl`.
//!
//! - **In:** what clap says of arguments that `get` and `watch` do not take.
//! - **Out:** the same, with advice in place of a guess that would mislead.

use clap::Error;
use clap::builder::StyledStr;
use clap::error::ContextKind;
use clap::error::ContextValue;
use clap::error::ErrorKind;

const EVERYTHING: &str = "-o json has everything, for jq and others";

/// Puts advice into an error, if there is some.
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
    let is_about_objects = ["informant get ", "informant watch "].iter().any(|command| usage.contains(command));
    let advice = if error.kind() == ErrorKind::InvalidValue && argument.starts_with("--output") {
        of_format(&value)
    } else if error.kind() == ErrorKind::UnknownArgument && is_about_objects {
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
        "-w" | "--watch" | "--watch-only" => Some("`informant watch` follows objects"),
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
        | "--insecure-skip-tls-verify" => Some("who asks whom is said in the kubeconfig; choose with --context"),
        "-L"
        | "--label-columns"
        | "--show-labels"
        | "--sort-by"
        | "--template"
        | "--show-managed-fields"
        | "--show-kind" => Some(EVERYTHING),
        "--ignore-not-found" => Some("--field-selector metadata.name=NAME lists it, or nothing"),
        "--request-timeout" => Some("--sync-timeout says how long the first list may take"),
        name if !name.starts_with('-') => {
            Some("one object at a time; leave the name out for all, or select some with -l")
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
        | "custom-columns-file" => Some(EVERYTHING),
        _ => None,
    }
}

//! The columns of events, in both API groups.

use serde_json::Value;

use super::{Column, NAME, ages::age_of, number, since, str, text};

const FIRST_SEEN: [&str; 3] = ["/firstTimestamp", "/deprecatedFirstTimestamp", "/eventTime"];

/// As in kube-apiserver, the first column is the time of the last occurrence and the last one the name.
pub(super) fn columns() -> Vec<Column> {
    vec![
        since("Last Seen", |event, now| {
            let last = ["/series/lastObservedTime", "/lastTimestamp", "/deprecatedLastTimestamp"];
            age_of(any(event, &[&last[..], &FIRST_SEEN].concat()), now)
        }),
        text("Type", |event| str(event, "/type").into()),
        text("Reason", |event| str(event, "/reason").into()),
        text("Object", |event| {
            let kind = any(event, &["/involvedObject/kind", "/regarding/kind"]).to_lowercase();
            let name = any(event, &["/involvedObject/name", "/regarding/name"]);
            if kind.is_empty() { name.into() } else { format!("{kind}/{name}").into() }
        }),
        text("Subobject", |event| any(event, &["/involvedObject/fieldPath", "/regarding/fieldPath"]).into()).wide(),
        text("Source", |event| {
            let who =
                ["/source/component", "/deprecatedSource/component", "/reportingComponent", "/reportingController"];
            let place = ["/source/host", "/deprecatedSource/host", "/reportingInstance"];
            let source = [any(event, &who), any(event, &place)];
            source.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ").into()
        })
        .wide(),
        text("Message", |event| any(event, &["/message", "/note"]).trim().into()),
        since("First Seen", |event, now| age_of(any(event, &FIRST_SEEN), now)).wide(),
        text("Count", |event| {
            let counts = ["/series/count", "/count", "/deprecatedCount"];
            counts.iter().map(|pointer| number(event, pointer)).find(|count| *count != 0).unwrap_or(1).into()
        })
        .wide(),
        NAME.wide(),
    ]
}

/// The first of these fields with a value; the API groups have different names for them.
fn any<'a>(event: &'a Value, pointers: &[&str]) -> &'a str {
    pointers.iter().map(|pointer| str(event, pointer)).find(|text| !text.is_empty()).unwrap_or_default()
}

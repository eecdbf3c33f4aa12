//! What goes wrong, in a few letters: `[RESOURCE/]VERB=FAULT[@CHANCE][xTIMES][+SKIPPED]`, separated by commas.

use std::str::FromStr;
use std::time::Duration;

use informant_apiserver::ApiServer;
use informant_apiserver::Fault;
use informant_apiserver::On;
use informant_apiserver::Verb;

use crate::arguments::duration;

/// Rules, as somebody asks for them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    rules: Vec<(On, Fault)>,
    /// By this chance, watches break after so many events; streamed lists come to their end before.
    breaks: Option<(f64, usize)>,
}

/// One in ten watches expires, the server is busy at times.
const SOME: &str = "watch=410@0.1,read=429@0.1";

/// Everything, all the time.
const STORM: &str = "watch=410@0.1,any=429@0.1,any=503@0.1,any=drop@0.1,read=truncate@0.1,any=delay:50ms@0.2";

impl FromStr for Rules {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (rules, breaks) = match text {
            "none" | "" => ("", None),
            "some" => (SOME, Some((0.5, 200))),
            "storm" => (STORM, Some((1.0, 50))),
            rules => (rules, None),
        };
        let parts = rules.split(',').map(str::trim).filter(|rule| !rule.is_empty());
        Ok(Self { rules: parts.map(rule).collect::<Result<_, _>>()?, breaks })
    }
}

impl Rules {
    pub fn inject(&self, server: &ApiServer) {
        for (on, fault) in &self.rules {
            server.inject(on.clone(), fault.clone());
        }
        let Some((chance, events)) = self.breaks else { return };
        // A load may double.
        let most = server.kinds().iter().filter_map(|kind| server.count(&kind.resource()).ok()).max().unwrap_or(0);
        let breaks = |on: On, events| server.inject(on.with_probability(chance), Fault::cut_after_events(events));
        breaks(On::watch_list(), 2 * most + 1 + events);
        breaks(On::verbs([Verb::Watch]), events);
    }
}

fn rule(text: &str) -> Result<(On, Fault), String> {
    let (what, fault) =
        text.split_once('=').ok_or_else(|| format!("{text:?} is no rule; write it as in pods/watch=410@0.5x2"))?;
    let (resource, verb) = what.split_once('/').map_or((None, what), |(resource, verb)| (Some(resource), verb));
    let mut on = requests(verb)?;
    if let Some(resource) = resource {
        on = on.of(resource);
    }
    let (fault, skipped) = suffix(fault, '+');
    if let Some(skipped) = skipped {
        on = on.skip(skipped.parse().map_err(|_| format!("{skipped:?} in {text:?} is no number of requests"))?);
    }
    let (fault, times) = suffix(fault, 'x');
    if let Some(times) = times {
        on = on.times(times.parse().map_err(|_| format!("{times:?} in {text:?} is no number of times"))?);
    }
    let (fault, chance) = suffix(fault, '@');
    if let Some(chance) = chance {
        let probability = chance.parse().ok().filter(|chance| (0.0..=1.0).contains(chance));
        on = on.with_probability(probability.ok_or_else(|| format!("{chance:?} in {text:?} is no chance: 0 to 1"))?);
    }
    Ok((on, named(fault)?))
}

/// What follows the last mark, if it is a number; `spec.x1` is the name of a field.
fn suffix(text: &str, mark: char) -> (&str, Option<&str>) {
    match text.rsplit_once(mark) {
        Some((before, number))
            if number.starts_with(|first: char| first.is_ascii_digit()) && !before.ends_with(['.', ':']) =>
        {
            (before, Some(number))
        }
        Some(_) | None => (text, None),
    }
}

fn requests(verb: &str) -> Result<On, String> {
    Ok(match verb {
        "any" => On::any(),
        "read" => On::verbs([Verb::Get, Verb::List, Verb::Watch, Verb::WatchList]),
        "write" => On::writes(),
        "list" => On::list(),
        "watch" => On::watch(),
        "get" => On::verbs([Verb::Get]),
        "create" => On::verbs([Verb::Create]),
        "update" => On::verbs([Verb::Update]),
        "patch" => On::verbs([Verb::Patch]),
        "delete" => On::verbs([Verb::Delete, Verb::DeleteCollection]),
        other => {
            return Err(format!(
                "{other:?} is no verb; there are any, read, write, list, watch, get, create, update, patch and delete"
            ));
        }
    })
}

fn named(text: &str) -> Result<Fault, String> {
    let (name, detail) = text.split_once(':').map_or((text, None), |(name, detail)| (name, Some(detail)));
    let needs = || format!("{text:?} needs a number, as in {name}:100");
    let number = || detail.and_then(|detail| detail.parse::<u32>().ok()).ok_or_else(needs);
    let fault = match (name, detail) {
        ("delay", Some(time)) => Fault::Delay(duration(time)?),
        ("bad-item", Some(field)) => Fault::BadItem { field: field.to_owned() },
        ("cut", _) => Fault::cut_after_events(number()? as usize),
        ("freeze", _) => Fault::freeze_after_events(number()? as usize),
        ("stale", _) => Fault::Stale { versions: u64::from(number()?) },
        ("refuse", None) => Fault::Refuse,
        ("drop", None) => Fault::Drop,
        ("hang", None) => Fault::Hang,
        ("garbage", None) => Fault::Garbage,
        ("truncate", None) => Fault::Truncate,
        ("wrong-kind", None) => Fault::WrongKind,
        ("expire-token", None) => Fault::ExpireToken,
        ("no-bookmarks", None) => Fault::NoBookmarks,
        ("no-streaming", None) => Fault::WatchListRefused,
        ("429", None) => Fault::too_many_requests(Duration::from_secs(1)),
        (code, None) => match code.parse() {
            Ok(code @ 400..=599) => Fault::status(code),
            Ok(_) | Err(_) => return Err(format!("{text:?} is no fault; `informant apiserver --help` lists them")),
        },
        (_, Some(_)) => return Err(format!("{text:?} is no fault; `informant apiserver --help` lists them")),
    };
    Ok(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Vec<(On, Fault)> {
        text.parse::<Rules>().unwrap().rules
    }

    #[test]
    fn rules_say_what_happens_to_which_requests() {
        assert_eq!(
            rules("pods/watch=410@0.5x2+1, any=delay:200ms,deployments.apps/list=expire-token"),
            [
                (On::watch().of("pods").skip(1).times(2).with_probability(0.5), Fault::status(410)),
                (On::any(), Fault::Delay(Duration::from_millis(200))),
                (On::list().of("deployments.apps"), Fault::ExpireToken),
            ]
        );
        assert_eq!(rules("watch=cut:100x3"), [(On::watch().times(3), Fault::cut_after_events(100))]);
        let bad_item = Fault::BadItem { field: "spec.x1".into() };
        assert_eq!(rules("list=bad-item:spec.x1"), [(On::list(), bad_item)]);
        assert!(rules("none").is_empty() && rules("").is_empty());
        assert!(!rules("some").is_empty() && rules("storm").len() > rules("some").len());
    }

    #[test]
    fn what_is_no_rule_is_said() {
        for bad in [
            "few",
            "watch",
            "watch=",
            "fly=410",
            "watch=200",
            "watch=cut",
            "watch=cut:x",
            "watch=410@2",
            "watch=410x1.5",
            "watch=410+1s",
            "any=delay:soon",
            "any=drop:1",
        ] {
            assert!(bad.parse::<Rules>().is_err(), "{bad}");
        }
    }
}

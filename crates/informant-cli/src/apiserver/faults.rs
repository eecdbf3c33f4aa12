//! Parses the value of `--faults`: a level, or rules `[RESOURCE/]VERB=FAULT[@PROBABILITY][xTIMES][+SKIP]`, separated by commas.

use std::{str::FromStr, time::Duration};

use informant_apiserver::{ApiServer, Fault, On, Verb};

use crate::{
    arguments::{UsageError, duration},
    kinds,
};

/// The value of `--faults`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultRules {
    rules: Vec<Rule>,
    /// Probability that a watch is cut, and after how many events. Streamed lists are completed before.
    cuts: Option<(f64, usize)>,
}

#[derive(Clone, Debug, PartialEq)]
struct Rule {
    /// `None` for all resources.
    resource: Option<String>,
    on: On,
    fault: Fault,
}

/// The rules of the level `some`, besides cut watches.
const SOME: &str = "watch=410@0.1,read=429@0.1";

/// The rules of the level `storm`, besides cut watches.
const STORM: &str = "watch=410@0.1,any=429@0.1,any=503@0.1,any=drop@0.1,read=truncate@0.1,any=delay:50ms@0.2";

impl FromStr for FaultRules {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (rules, cuts) = match text {
            "none" | "" => ("", None),
            "some" => (SOME, Some((0.5, 200))),
            "storm" => (STORM, Some((1.0, 50))),
            rules => (rules, None),
        };
        let parts = rules.split(',').map(str::trim).filter(|rule| !rule.is_empty());
        Ok(Self { rules: parts.map(rule).collect::<Result<_, _>>()?, cuts })
    }
}

impl FaultRules {
    /// Adds the rules to the server.
    pub fn inject(&self, server: &ApiServer) -> Result<(), UsageError> {
        for kind in self.rules.iter().filter_map(|rule| rule.resource.as_ref()) {
            server.check_kind(kind).map_err(|error| UsageError(format!("--faults: {error}")))?;
        }
        for Rule { on, fault, .. } in &self.rules {
            server.inject(on.clone(), fault.clone());
        }
        Ok(())
    }

    /// Adds the faults that cut watches, if the level has any. Must be called after the load has been created, because streamed lists
    /// are to be completed before the cut.
    pub fn cut_watches(&self, server: &ApiServer) {
        let Some((probability, events)) = self.cuts else { return };
        let most = server.kinds().iter().filter_map(|kind| server.count(&kind.resource()).ok()).max().unwrap_or(0);
        let cut = |on: On, events| server.inject(on.with_probability(probability), Fault::cut_after_events(events));
        // The load may double the number of objects.
        cut(On::watch_list(), 2 * most + 1 + events);
        cut(On::verbs([Verb::Watch]), events);
    }
}

fn rule(text: &str) -> Result<Rule, String> {
    let not_a_rule = || format!("{text:?} is not a fault level or rule; expected a rule such as pods/watch=410@0.5x2");
    let (what, mut fault) = text.split_once('=').ok_or_else(not_a_rule)?;
    let (resource, verb) = what.split_once('/').map_or((None, what), |(resource, verb)| (Some(resource), verb));
    let mut on = requests(verb)?;
    if resource == Some("") {
        return Err(not_a_rule());
    }
    let resource = resource.map(kinds::full_name);
    if let Some(resource) = &resource {
        on = on.of(resource);
    }
    let mut marks = Vec::new();
    while let Some((before, mark, number)) = suffix(fault) {
        if marks.contains(&mark) {
            return Err(format!("{text:?} contains {mark:?} twice"));
        }
        marks.push(mark);
        let bad = |what: &str| format!("{number:?} in {text:?} is not a {what}");
        on = match mark {
            '@' => {
                let probability = number.parse().ok().filter(|probability| *probability > 0.0 && *probability <= 1.0);
                on.with_probability(probability.ok_or_else(|| bad("probability above 0 and up to 1"))?)
            }
            'x' => {
                on.times(number.parse().ok().filter(|times| *times > 0).ok_or_else(|| bad("number of times above 0"))?)
            }
            _ => on.skip(number.parse().map_err(|_| bad("number of requests"))?),
        };
        fault = before;
    }
    Ok(Rule { resource, on, fault: named(fault)? })
}

/// Splits off the last suffix: the text before it, its mark, and its number. The `x2` in `bad-item:spec.max2` is part of a field name.
fn suffix(text: &str) -> Option<(&str, char, &str)> {
    let (place, mark) = text.char_indices().rev().find(|(_, mark)| ['@', 'x', '+'].contains(mark))?;
    let (before, number) = (&text[..place], &text[place + 1..]);
    let is_number = mark != 'x' || number.starts_with(|first: char| first.is_ascii_digit());
    let is_field = mark == 'x' && before.starts_with("bad-item:") && !before.contains(['@', '+']);
    (is_number && !is_field && !before.ends_with(':')).then_some((before, mark, number))
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
                "{other:?} is not a verb; expected any, read, write, list, watch, get, create, update, patch or delete"
            ));
        }
    })
}

fn named(text: &str) -> Result<Fault, String> {
    let (name, detail) = text.split_once(':').map_or((text, None), |(name, detail)| (name, Some(detail)));
    let needs = || format!("{text:?} needs a number, such as {name}:100");
    let number = || detail.and_then(|detail| detail.parse::<u32>().ok()).ok_or_else(needs);
    let fault = match (name, detail) {
        ("delay", Some(time)) => Fault::Delay(duration(time)?),
        ("bad-item", Some(field)) if !field.is_empty() => Fault::BadItem { field: field.to_owned() },
        ("cut", _) => Fault::cut_after_events(number()? as usize),
        ("freeze", _) => Fault::freeze_after_events(number()? as usize),
        ("stale", _) => Fault::Stale { versions: u64::from(number()?) },
        ("refuse", None) => Fault::Refuse,
        ("drop", None) => Fault::Drop,
        ("lose-answer", None) => Fault::LoseResponse,
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
            Ok(_) | Err(_) => {
                return Err(format!("{text:?} is not a fault; `informant apiserver --help` lists all faults"));
            }
        },
        (_, Some(_)) => return Err(format!("{text:?} is not a fault; `informant apiserver --help` lists all faults")),
    };
    Ok(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Vec<(On, Fault)> {
        text.parse::<FaultRules>().unwrap().rules.into_iter().map(|rule| (rule.on, rule.fault)).collect()
    }

    #[test]
    fn a_rule_has_requests_a_fault_and_optional_limits() {
        assert_eq!(
            rules("pods/watch=410@0.5x2+1, any=delay:200ms,deployments.apps/list=expire-token"),
            [
                (On::watch().of("pods").skip(1).times(2).with_probability(0.5), Fault::status(410)),
                (On::any(), Fault::Delay(Duration::from_millis(200))),
                (On::list().of("deployments.apps"), Fault::ExpireToken),
            ]
        );
        assert_eq!(
            rules("pods/create=lose-answerx2"),
            [(On::verbs([Verb::Create]).of("pods").times(2), Fault::LoseResponse)]
        );
        assert_eq!(rules("watch=cut:100x3"), [(On::watch().times(3), Fault::cut_after_events(100))]);
        assert_eq!(rules("watch=410+1x2@.5"), rules("watch=410@0.5x2+1"), "in any order");
        for field in ["spec.x1", "spec.max2", "x1"] {
            let bad_item = Fault::BadItem { field: field.into() };
            assert_eq!(rules(&format!("list=bad-item:{field}")), [(On::list(), bad_item.clone())]);
            assert_eq!(rules(&format!("list=bad-item:{field}+1x2")), [(On::list().skip(1).times(2), bad_item)]);
        }
        assert!(rules("none").is_empty() && rules("").is_empty());
        assert!(!rules("some").is_empty() && rules("storm").len() > rules("some").len());
    }

    #[test]
    fn invalid_rules_are_rejected() {
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
            "watch=410@-1",
            "watch=410@0",
            "watch=410x0",
            "/watch=410",
            "watch=410@0.5@0.1",
            "list=bad-item:",
            "any=delay:soon",
            "any=drop:1",
        ] {
            assert!(bad.parse::<FaultRules>().is_err(), "{bad}");
        }
    }
}

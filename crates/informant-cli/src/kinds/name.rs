//! Matches names with kinds by `kubectl`'s rules: `NAME`, `NAME.GROUP` or `NAME.VERSION.GROUP`, where `NAME` is the plural, singular or
//! short name or the kind itself, in upper or lower case.

use std::fmt;

use super::Kind;

/// The name of a kind, as the user typed it.
#[derive(Clone, PartialEq, Eq)]
pub struct KindName {
    text: String,
}

impl fmt::Debug for KindName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl KindName {
    pub fn new(text: &str) -> Self {
        Self { text: text.to_owned() }
    }

    /// Splits the name at the first dot.
    fn parts(&self) -> (String, Option<&str>) {
        match self.text.split_once('.') {
            Some((name, "")) => (name.to_lowercase(), None),
            Some((name, rest)) => (name.to_lowercase(), Some(rest)),
            None => (self.text.to_lowercase(), None),
        }
    }

    /// Returns true if the name may refer to a kind of this API group. `widgets.v1.example.com` may be in `example.com` or in
    /// `v1.example.com`; a name without a dot may be in any group.
    pub(super) fn may_be_of_group(&self, group: &str) -> bool {
        let (_, Some(rest)) = self.parts() else { return true };
        let after_version = rest.split_once('.').map_or("", |(_, group)| group);
        group.starts_with(rest) || group == after_version
    }

    /// Returns the first kind that matches. A full group name takes precedence over a prefix of one.
    pub(super) fn find_in<'a>(&self, kinds: &'a [Kind]) -> Option<&'a Kind> {
        let exact = kinds.iter().find(|kind| self.matches(kind, |group, typed| group == typed));
        exact.or_else(|| kinds.iter().find(|kind| self.matches(kind, |group, typed| group.starts_with(typed))))
    }

    fn matches(&self, kind: &Kind, group_matches: impl Fn(&str, &str) -> bool) -> bool {
        let (name, rest) = self.parts();
        let resource = &kind.resource;
        if !(resource.plural == name
            || kind.singular == name
            || kind.short_names.contains(&name)
            || resource.kind.to_lowercase() == name)
        {
            return false;
        }
        let Some(rest) = rest else { return true };
        let (version, group) = rest.split_once('.').unwrap_or((rest, ""));
        (resource.version == version && resource.group == group)
            || (!rest.is_empty() && group_matches(&resource.group, rest))
    }

    /// Returns the most similar name, for a "did you mean" hint.
    pub(super) fn similar_in<'a>(&self, kinds: impl Iterator<Item = &'a Kind>) -> Option<String> {
        let (name, rest) = self.parts();
        let similarity = |other: &str| strsim::jaro_winkler(&name, other);
        let best = |kind: &Kind| similarity(&kind.resource.plural).max(similarity(&kind.singular));
        let scored = kinds.map(|kind| (best(kind), kind)).filter(|(score, _)| *score >= 0.8);
        // Of equally similar names the first one wins: core kinds come before others.
        let (_, kind) = scored.fold(None, |best: Option<(f64, &Kind)>, next| match best {
            Some(best) if best.0 >= next.0 => Some(best),
            Some(_) | None => Some(next),
        })?;
        let resource = &kind.resource;
        Some(match (rest, &*resource.group) {
            (None, _) | (_, "") => resource.plural.clone(),
            (Some(_), group) => format!("{}.{group}", resource.plural),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{super::built_in, *};

    fn found(name: &str) -> Option<(String, String)> {
        let name = KindName::new(name);
        let kinds = built_in::kinds();
        name.find_in(&kinds).map(|kind| (kind.resource.plural.clone(), kind.resource.api_version.clone()))
    }

    #[test]
    fn a_kind_is_found_by_each_of_its_names() {
        for name in [
            "deployments",
            "deployment",
            "deploy",
            "Deployment",
            "deployments.apps",
            "Deployment.apps",
            "deploy.v1.apps",
            "deploy.app",
        ] {
            assert_eq!(found(name), Some(("deployments".into(), "apps/v1".into())), "{name}");
        }
        for name in ["po", "pod", "PODS", "pods.", "pods.v1", "pods.v1."] {
            assert_eq!(found(name), Some(("pods".into(), "v1".into())), "{name}");
        }
        assert_eq!(found("ev"), Some(("events".into(), "v1".into())), "the core group comes first");
        assert_eq!(found("ev.events.k8s.io"), Some(("events".into(), "events.k8s.io/v1".into())));
    }

    #[test]
    fn a_name_of_no_kind_is_not_found() {
        for name in ["", ".", "podz", "pods.apps", "deployments.v1beta1.apps", "deployments.v1.", "widgets.example.com"]
        {
            assert_eq!(found(name), None, "{name}");
        }
    }

    #[test]
    fn the_most_similar_name_is_suggested() {
        let similar = |name: &str| KindName::new(name).similar_in(built_in::kinds().iter());
        assert_eq!(similar("podz").as_deref(), Some("pods"));
        assert_eq!(similar("deploymets.apps").as_deref(), Some("deployments.apps"));
        assert_eq!(similar("zzz"), None);
    }
}

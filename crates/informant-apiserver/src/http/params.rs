//! The query parameters of a request.
//!
//! - **In:** the query of a URI.
//! - **Out:** its parameters, the version of a list and the start of a watch; or the error that kube-apiserver sends for invalid combinations.

use std::time::Duration;

use crate::{
    error::{ApiError, Cause},
    http::table::IncludeObject,
    list::Moment,
    storage::token::Token,
    watch::Start,
};

/// The parameters of lists, watches and writes. All others are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Params {
    pub(crate) resource_version: String,
    pub(crate) resource_version_match: String,
    /// 0 for no limit.
    pub(crate) limit: u64,
    pub(crate) continue_token: String,
    pub(crate) label_selector: String,
    pub(crate) field_selector: String,
    pub(crate) watch: bool,
    send_initial_events: Option<bool>,
    pub(crate) allow_bookmarks: bool,
    /// Negative for a watch that ends at once.
    pub(crate) timeout_seconds: Option<i64>,
    /// Present but empty for `dryRun=`, which is invalid.
    pub(crate) dry_run: Option<String>,
    pub(crate) field_validation: String,
    pub(crate) field_manager: String,
    pub(crate) force: Option<bool>,
    include_object: String,
    pub(crate) propagation_policy: Option<String>,
    pub(crate) orphan_dependents: Option<bool>,
}

impl Params {
    pub(crate) fn read(query: &str) -> Result<Self, ApiError> {
        let mut params = Self::default();
        // In reverse order, so that the first of several equal parameters wins.
        for (name, value) in form_urlencoded::parse(query.as_bytes()).collect::<Vec<_>>().into_iter().rev() {
            match &*name {
                "resourceVersion" => params.resource_version = value.into_owned(),
                "resourceVersionMatch" => params.resource_version_match = value.into_owned(),
                "limit" => params.limit = number(&name, &value)?.unwrap_or(0),
                "continue" => params.continue_token = value.into_owned(),
                "labelSelector" => params.label_selector = value.into_owned(),
                "fieldSelector" => params.field_selector = value.into_owned(),
                "watch" => params.watch = is_true(&value),
                "sendInitialEvents" => params.send_initial_events = Some(is_true(&value)),
                "allowWatchBookmarks" => params.allow_bookmarks = is_true(&value),
                "timeoutSeconds" => params.timeout_seconds = whole(&name, &value)?.filter(|seconds| *seconds != 0),
                "dryRun" => params.dry_run = Some(value.into_owned()),
                "fieldValidation" => params.field_validation = value.into_owned(),
                "fieldManager" => params.field_manager = value.into_owned(),
                "force" => params.force = Some(is_true(&value)),
                "propagationPolicy" => params.propagation_policy = Some(value.into_owned()),
                "orphanDependents" => params.orphan_dependents = Some(is_true(&value)),
                "includeObject" => params.include_object = value.into_owned(),
                _ => {}
            }
        }
        Ok(params)
    }

    /// Turns the parameters into those of a watch; of one object, if a name is given.
    pub(crate) fn make_watch(&mut self, name: &str) {
        self.watch = true;
        if !name.is_empty() {
            let separator = if self.field_selector.is_empty() { "" } else { "," };
            self.field_selector = format!("metadata.name={name}{separator}{}", self.field_selector);
        }
    }

    /// The requested duration of a watch.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout_seconds.map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
    }

    pub(crate) fn wants_initial_events(&self) -> bool {
        self.send_initial_events == Some(true)
    }

    /// The part of the object that each row of a table includes.
    pub(crate) fn include_object(&self) -> Result<IncludeObject, ApiError> {
        match &*self.include_object {
            "" | "Metadata" => Ok(IncludeObject::Metadata),
            "Object" => Ok(IncludeObject::Object),
            "None" => Ok(IncludeObject::None),
            other => Err(ApiError::BadRequest(format!("unrecognized includeObject value: {other:?}"))),
        }
    }

    /// The requested version; `None` for "" and "0".
    pub(crate) fn version(&self) -> Result<Option<u64>, ApiError> {
        match self.resource_version.as_str() {
            "" | "0" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                ApiError::BadRequest(format!("resourceVersion: Invalid value: \"{text}\": it must be a whole number"))
            }),
        }
    }

    /// The version that a list requests.
    pub(crate) fn moment(&self) -> Result<Moment, ApiError> {
        self.check_match_of_list()?;
        if !self.continue_token.is_empty() {
            if self.version()?.is_some() {
                let why = "specifying resource version is not allowed when using continue";
                return Err(ApiError::BadRequest(why.into()));
            }
            let token = Token::decode(&self.continue_token);
            let bad = || ApiError::BadRequest("continue key is not valid: it was not issued by this server".into());
            return token.map(Moment::Continue).ok_or_else(bad);
        }
        let legacy_exact = self.limit > 0 && self.resource_version_match.is_empty();
        Ok(match self.version()? {
            None if self.resource_version == "0" => Moment::Any,
            None => Moment::Newest,
            Some(version) if self.resource_version_match == "Exact" || legacy_exact => Moment::Exactly(version),
            Some(version) => Moment::NotOlderThan(version),
        })
    }

    fn check_match_of_list(&self) -> Result<(), ApiError> {
        let forbid = |field, why| Err(ApiError::invalid_options(Cause::forbidden(field, why)));
        if self.send_initial_events.is_some() {
            return forbid("sendInitialEvents", "sendInitialEvents is forbidden for list");
        }
        let field = "resourceVersionMatch";
        match self.resource_version_match.as_str() {
            "" => Ok(()),
            "Exact" | "NotOlderThan" if self.resource_version.is_empty() => {
                forbid(field, "resourceVersionMatch is forbidden unless resourceVersion is provided")
            }
            "Exact" | "NotOlderThan" if !self.continue_token.is_empty() => {
                forbid(field, "resourceVersionMatch is forbidden when continue is provided")
            }
            "Exact" if self.resource_version == "0" => {
                forbid(field, "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"")
            }
            "Exact" | "NotOlderThan" => Ok(()),
            other => {
                let supported = r#""Exact", "NotOlderThan", """#;
                Err(ApiError::invalid_options(Cause::unsupported(field, &format!("{other:?}"), supported)))
            }
        }
    }

    /// The start that a watch requests.
    pub(crate) fn start(&self) -> Result<Start, ApiError> {
        let field = "resourceVersionMatch";
        let forbid = |why| Err(ApiError::invalid_options(Cause::forbidden(field, why)));
        match (self.send_initial_events, self.resource_version_match.as_str()) {
            (None, "") | (Some(_), "NotOlderThan") => {}
            (None, _) => {
                return forbid("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
            }
            (Some(_), _) => {
                return forbid("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
            }
        }
        let version = self.version()?;
        let fresh = self.resource_version.is_empty();
        Ok(match (self.send_initial_events, version) {
            (None, None) => Start::State { at_least: None, fresh },
            (Some(true), at_least) => Start::State { at_least, fresh },
            (Some(false), None) => Start::Now,
            (None | Some(false), Some(version)) => Start::After(version),
        })
    }
}

/// As in kube-apiserver, every value except `false` and `0` is true.
fn is_true(value: &str) -> bool {
    !(value == "0" || value.eq_ignore_ascii_case("false"))
}

/// Reads a number above 0; `None` for all others.
fn number(name: &str, value: &str) -> Result<Option<u64>, ApiError> {
    Ok(whole(name, value)?.and_then(|number| u64::try_from(number).ok()).filter(|number| *number > 0))
}

fn whole(name: &str, value: &str) -> Result<Option<i64>, ApiError> {
    let bad = |_| ApiError::BadRequest(format!("{name}: Invalid value: {value:?}: it must be a whole number"));
    if value.is_empty() { Ok(None) } else { value.parse().map(Some).map_err(bad) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(query: &str) -> Result<Moment, u16> {
        Params::read(query).and_then(|params| params.moment()).map_err(|error| error.code())
    }

    #[test]
    fn the_moment_of_a_list_follows_the_table_of_the_documentation() {
        assert_eq!(moment(""), Ok(Moment::Newest));
        assert_eq!(moment("limit=5"), Ok(Moment::Newest));
        assert_eq!(moment("limit=-1&resourceVersion=7"), Ok(Moment::NotOlderThan(7)));
        assert_eq!(moment("resourceVersion=0"), Ok(Moment::Any));
        assert_eq!(moment("resourceVersion=0&limit=5"), Ok(Moment::Any));
        assert_eq!(moment("resourceVersion=7"), Ok(Moment::NotOlderThan(7)));
        assert_eq!(moment("resourceVersion=7&limit=5"), Ok(Moment::Exactly(7)));
        assert_eq!(moment("resourceVersion=7&resourceVersionMatch=Exact"), Ok(Moment::Exactly(7)));
        assert_eq!(moment("resourceVersion=7&resourceVersionMatch=NotOlderThan&limit=5"), Ok(Moment::NotOlderThan(7)));
        assert_eq!(moment("resourceVersion=0&resourceVersionMatch=NotOlderThan"), Ok(Moment::Any));
    }

    #[test]
    fn a_list_whose_parameters_contradict_each_other_is_refused() {
        let token = Token::new(Some(3), &crate::objects::Key::new("a", "b"), 1);

        assert_eq!(moment(&format!("continue={}", token.encode())), Ok(Moment::Continue(token.clone())));
        assert_eq!(
            moment(&format!("continue={}&resourceVersion=0", token.encode())),
            Ok(Moment::Continue(token.clone()))
        );
        assert_eq!(moment(&format!("continue={}&resourceVersion=7", token.encode())), Err(400));
        assert_eq!(moment("continue=nonsense"), Err(400));
        assert_eq!(moment("resourceVersion=abc"), Err(400));
        assert_eq!(moment("limit=many"), Err(400));
        for query in ["resourceVersionMatch=Exact", "resourceVersionMatch=NotOlderThan"] {
            assert_eq!(moment(query), Err(422), "{query}");
        }
        assert_eq!(moment("resourceVersion=0&resourceVersionMatch=Exact"), Err(422));
        assert_eq!(moment("resourceVersion=7&resourceVersionMatch=Newest"), Err(422));
        assert_eq!(moment("sendInitialEvents=true"), Err(422));
    }

    #[test]
    fn the_start_of_a_watch_follows_its_version_and_initial_events() {
        let start = |query: &str| Params::read(query).and_then(|params| params.start()).map_err(|error| error.code());
        let state = |at_least, fresh| Ok(Start::State { at_least, fresh });

        assert_eq!(start(""), state(None, true));
        assert_eq!(start("resourceVersion=0"), state(None, false));
        assert_eq!(start("resourceVersion=7"), Ok(Start::After(7)));
        let with = |rest: &str| format!("resourceVersionMatch=NotOlderThan&{rest}");
        assert_eq!(start(&with("sendInitialEvents=true")), state(None, true));
        assert_eq!(start(&with("sendInitialEvents=1&resourceVersion=7")), state(Some(7), false));
        assert_eq!(start(&with("sendInitialEvents=false")), Ok(Start::Now));
        assert_eq!(start(&with("sendInitialEvents=false&resourceVersion=7")), Ok(Start::After(7)));
        assert_eq!(start("sendInitialEvents=true"), Err(422));
        assert_eq!(start("sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=7"), Err(422));
        assert_eq!(start("resourceVersion=7&resourceVersionMatch=NotOlderThan"), Err(422));
    }
}

//! A label selector: requirements that the labels of an object must meet.
//!
//! - **In:** text in the selector syntax of Kubernetes, or a selector of `kube` or of the Kubernetes API.
//! - **Out:** whether labels match.
//! - **Knows nothing of:** objects, the cache.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1;
use kube::core::{Expression, Selector, SelectorExt};

use crate::error::ParseError;

/// Selects objects by their labels.
///
/// It is parsed from the syntax that `kubectl --selector` takes, and made from `kube`'s [`Selector`] and [`Expression`] with `into()`. The
/// `selector` of a Deployment or another object of the API is converted with `LabelSelector::try_from(&selector)`.
///
/// | requirement | matches an object |
/// | --- | --- |
/// | `app=web`, `app==web` | whose label `app` is `web` |
/// | `app!=web` | whose label `app` is not `web`, or that has no label `app` |
/// | `app in (web, api)` | whose label `app` is one of these |
/// | `app notin (web, api)` | whose label `app` is none of these, or that has no label `app` |
/// | `app in ()` | whose label `app` is empty, as on a server |
/// | `app` | that has a label `app` |
/// | `!app` | that has no label `app` |
///
/// Commas join requirements, and an object must match all of them. An empty text matches every object. The operators `<` and `>`, which a
/// server also accepts, are not supported.
///
/// ```
/// use informant::LabelSelector;
/// use kube::core::Expression;
///
/// let selector: LabelSelector = "app in (web, api), !canary".parse()?;
/// assert_eq!(selector.to_string(), "app in (api,web),!canary");
/// assert!(selector.matches(&[("app".to_owned(), "web".to_owned())].into()));
///
/// let same = LabelSelector::from(Expression::Equal("app".into(), "web".into()));
/// assert_eq!(same, "app=web".parse()?);
/// # Ok::<(), informant::error::ParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelSelector(Selector);

// What is wrong at one place of a label selector.
const INVALID_KEY: &str = "expected a label key, such as `app` or `example.com/team`";
const INVALID_VALUE: &str =
    "expected a label value: at most 63 letters, digits, `-`, `_` or `.`, with a letter or digit at both ends";
const EXPECTED_OPERATOR: &str = "expected `=`, `==`, `!=`, `in (…)`, `notin (…)`, a comma or the end";
const UNSUPPORTED_COMPARISON: &str = "the operators `<` and `>` are not supported; use `in (…)` with the values";
const EXPECTED_OPENING_PARENTHESIS: &str = "expected `(` and a list of values";
const EXPECTED_CLOSING_PARENTHESIS: &str = "expected a comma or `)`";
const EXPECTED_COMMA: &str = "expected a comma or the end";

impl LabelSelector {
    /// Whether these labels meet all requirements.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.matches(labels)
    }

    /// Checks the text of a selector for a server, which also compares numbers: nothing is checked from the first `<` or `>` on.
    pub(crate) fn check(text: &str) -> Result<(), ParseError> {
        match text.parse::<Self>() {
            Err(ParseError::LabelSelector { problem: UNSUPPORTED_COMPARISON, .. }) => Ok(()),
            parsed => parsed.map(drop),
        }
    }

    /// Whether there are no requirements, so that every object matches.
    pub(crate) fn matches_everything(&self) -> bool {
        self.0.selects_all()
    }

    /// Whether a requirement allows no value at all, so that no object matches.
    pub(crate) fn matches_nothing(&self) -> bool {
        let mut requirements = self.0.clone().into_iter();
        requirements.any(|requirement| matches!(requirement, Expression::In(_, values) if values.is_empty()))
    }
}

impl FromStr for LabelSelector {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut parser = Parser { text, at: 0 };
        match parser.requirements() {
            Ok(requirements) => Ok(Self(requirements)),
            Err(problem) => Err(ParseError::LabelSelector { text: text.to_owned(), offset: parser.at, problem }),
        }
    }
}

impl From<Selector> for LabelSelector {
    fn from(selector: Selector) -> Self {
        Self(selector)
    }
}

impl From<Expression> for LabelSelector {
    fn from(requirement: Expression) -> Self {
        Self(requirement.into())
    }
}

/// Converts the `selector` of an object such as a Deployment. An empty one matches every object, as in Kubernetes.
impl TryFrom<&v1::LabelSelector> for LabelSelector {
    type Error = ParseError;

    fn try_from(selector: &v1::LabelSelector) -> Result<Self, ParseError> {
        let equal = selector.match_labels.iter().flatten();
        let equal = equal.map(|(key, value)| Ok(Expression::Equal(key.clone(), value.clone())));
        equal.chain(selector.match_expressions.iter().flatten().map(requirement)).collect::<Result<_, _>>().map(Self)
    }
}

/// Unlike the conversion of `kube`, refuses an empty list of values, as the server does, and names the label.
fn requirement(requirement: &v1::LabelSelectorRequirement) -> Result<Expression, ParseError> {
    let v1::LabelSelectorRequirement { key, operator, values } = requirement;
    let invalid = |problem| ParseError::Requirement { key: key.clone(), problem };
    let values = || match values.as_deref().unwrap_or_default() {
        [] => Err(invalid(format!("operator {operator} but no values; add at least one"))),
        values => Ok(values.iter().cloned().collect()),
    };
    match operator.as_str() {
        "In" => Ok(Expression::In(key.clone(), values()?)),
        "NotIn" => Ok(Expression::NotIn(key.clone(), values()?)),
        "Exists" => Ok(Expression::Exists(key.clone())),
        "DoesNotExist" => Ok(Expression::DoesNotExist(key.clone())),
        _ => Err(invalid(format!("unknown operator {operator:?}; use In, NotIn, Exists or DoesNotExist"))),
    }
}

/// Writes the selector in the syntax that `parse` accepts.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The characters that Kubernetes skips between the parts of a selector.
const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

/// A place in a text. After an error, `at` is where the problem is.
struct Parser<'a> {
    text: &'a str,
    at: usize,
}

type Parsed<T> = Result<T, &'static str>;

impl<'a> Parser<'a> {
    fn requirements(&mut self) -> Parsed<Selector> {
        let mut requirements = Selector::default();
        if self.is_at_end() {
            return Ok(requirements);
        }
        loop {
            requirements.extend(self.requirement()?);
            if self.is_at_end() {
                return Ok(requirements);
            }
            self.expect(",", EXPECTED_COMMA)?;
        }
    }

    fn requirement(&mut self) -> Parsed<Expression> {
        if self.take("!") {
            return self.key().map(Expression::DoesNotExist);
        }
        let key = self.key()?;
        if self.take("!=") {
            return Ok(Expression::NotEqual(key, self.value()?));
        }
        if self.take("==") || self.take("=") {
            return Ok(Expression::Equal(key, self.value()?));
        }
        let start = self.at;
        match self.word() {
            "in" => Ok(Expression::In(key, self.values()?)),
            "notin" => Ok(Expression::NotIn(key, self.values()?)),
            "" if self.rest().is_empty() || self.rest().starts_with(',') => Ok(Expression::Exists(key)),
            "" if self.rest().starts_with(['<', '>']) => Err(UNSUPPORTED_COMPARISON),
            _ => {
                self.at = start;
                Err(EXPECTED_OPERATOR)
            }
        }
    }

    /// Parses a list in parentheses. As in Kubernetes, nothing between two commas means the empty value.
    fn values(&mut self) -> Parsed<BTreeSet<String>> {
        self.expect("(", EXPECTED_OPENING_PARENTHESIS)?;
        let mut values = BTreeSet::new();
        loop {
            values.insert(self.value()?);
            if self.take(")") {
                return Ok(values);
            }
            self.expect(",", EXPECTED_CLOSING_PARENTHESIS)?;
        }
    }

    fn key(&mut self) -> Parsed<String> {
        self.valid_word(is_key, INVALID_KEY)
    }

    fn value(&mut self) -> Parsed<String> {
        self.valid_word(is_value, INVALID_VALUE)
    }

    fn valid_word(&mut self, is_valid: impl FnOnce(&str) -> bool, problem: &'static str) -> Parsed<String> {
        self.skip_space();
        let start = self.at;
        let word = self.word();
        if is_valid(word) {
            return Ok(word.to_owned());
        }
        self.at = start;
        Err(problem)
    }

    /// Reads everything up to white space or a character that has a meaning of its own.
    fn word(&mut self) -> &'a str {
        let rest = self.rest();
        let ends = |character: char| SPACE.contains(&character) || "=!<>(),".contains(character);
        let word = &rest[..rest.find(ends).unwrap_or(rest.len())];
        self.at += word.len();
        word
    }

    fn expect(&mut self, token: &str, problem: &'static str) -> Parsed<()> {
        if self.take(token) { Ok(()) } else { Err(problem) }
    }

    /// Skips white space, and the token if it is next.
    fn take(&mut self, token: &str) -> bool {
        self.skip_space();
        let is_next = self.rest().starts_with(token);
        if is_next {
            self.at += token.len();
        }
        is_next
    }

    fn is_at_end(&mut self) -> bool {
        self.skip_space();
        self.rest().is_empty()
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start_matches(SPACE).len();
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }
}

/// Returns true for a valid key: a name, optionally after a DNS name and a slash (`example.com/team`).
fn is_key(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let is_dns_label = |label: &str| {
        let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty() && label.bytes().all(is_allowed) && !label.starts_with('-') && !label.ends_with('-')
    };
    let is_prefix = |prefix: &str| prefix.len() <= 253 && prefix.split('.').all(is_dns_label);
    !name.is_empty() && is_value(name) && prefix.is_none_or(is_prefix)
}

fn is_value(value: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let has_good_end = |byte: Option<u8>| byte.is_none_or(|byte| byte.is_ascii_alphanumeric());
    value.len() <= 63
        && value.bytes().all(is_allowed)
        && has_good_end(value.bytes().next())
        && has_good_end(value.bytes().last())
}

#[cfg(test)]
mod tests {
    use proptest::{
        prelude::{Just, Strategy},
        prop_oneof,
    };

    use super::*;
    use crate::random;

    fn parse(text: &str) -> LabelSelector {
        text.parse().unwrap()
    }

    fn equal(key: &str, value: &str) -> Expression {
        Expression::Equal(key.into(), value.into())
    }

    fn set<const N: usize>(values: [&str; N]) -> BTreeSet<String> {
        values.map(str::to_owned).into()
    }

    #[test]
    fn a_selector_is_parsed_from_every_form_of_requirement() {
        let table = [
            ("app=web", equal("app", "web")),
            ("app == web", equal("app", "web")),
            (" app= ", equal("app", "")),
            ("app!=web", Expression::NotEqual("app".into(), "web".into())),
            ("app in (web, api)", Expression::In("app".into(), set(["api", "web"]))),
            ("app in(web)", Expression::In("app".into(), set(["web"]))),
            ("app in ()", Expression::In("app".into(), set([""]))),
            ("app in (a,)", Expression::In("app".into(), set(["", "a"]))),
            ("app notin (in,notin)", Expression::NotIn("app".into(), set(["in", "notin"]))),
            ("example.com/team", Expression::Exists("example.com/team".into())),
            ("! app", Expression::DoesNotExist("app".into())),
        ];
        for (text, expected) in table {
            assert_eq!(parse(text), expected.into(), "{text:?}");
        }
        assert_eq!(parse("a=1, b ,!c").0.into_iter().count(), 3);
        assert!(parse("").matches_everything() && parse("  ").matches_everything());
    }

    #[test]
    fn an_invalid_selector_is_an_error_with_the_position_and_what_was_expected() {
        let table = [
            (",app", 0, INVALID_KEY),
            ("app=web,", 8, INVALID_KEY),
            ("app=web,,x", 8, INVALID_KEY),
            ("=web", 0, INVALID_KEY),
            ("a/b/c", 0, INVALID_KEY),
            ("UPPER.com/x", 0, INVALID_KEY),
            ("-app", 0, INVALID_KEY),
            // Kubernetes skips spaces, tabs and line breaks, and no other white space.
            ("app=web\u{a0}", 4, INVALID_VALUE),
            ("\u{3000}", 0, INVALID_KEY),
            ("app=we/b", 4, INVALID_VALUE),
            ("app=web.", 4, INVALID_VALUE),
            ("app in (web,-x)", 12, INVALID_VALUE),
            ("app web", 4, EXPECTED_OPERATOR),
            ("app(web)", 3, EXPECTED_OPERATOR),
            ("cpu > 3", 4, UNSUPPORTED_COMPARISON),
            ("app in web", 7, EXPECTED_OPENING_PARENTHESIS),
            ("app notin", 9, EXPECTED_OPENING_PARENTHESIS),
            ("app in (web", 11, EXPECTED_CLOSING_PARENTHESIS),
            ("app in (web=", 11, EXPECTED_CLOSING_PARENTHESIS),
            ("app=web tier=x", 8, EXPECTED_COMMA),
            ("!app=web", 4, EXPECTED_COMMA),
        ];
        for (text, offset, problem) in table {
            let expected = ParseError::LabelSelector { text: text.into(), offset, problem };
            assert_eq!(text.parse::<LabelSelector>(), Err(expected), "{text:?}");
        }
        assert_eq!(
            "app=web,".parse::<LabelSelector>().unwrap_err().to_string(),
            "label selector \"app=web,\" is invalid at byte 8: expected a label key, such as `app` or `example.com/team`"
        );
        let long = "x".repeat(64);
        assert!(long.parse::<LabelSelector>().is_err() && format!("a={long}").parse::<LabelSelector>().is_err());
    }

    #[test]
    fn a_selector_of_the_api_is_converted_and_its_errors_name_the_label() {
        let requirement = |key: &str, operator: &str, values: &[&str]| v1::LabelSelectorRequirement {
            key: key.into(),
            operator: operator.into(),
            values: Some(values.iter().map(ToString::to_string).collect()),
        };
        let selector = |requirements: Vec<v1::LabelSelectorRequirement>| v1::LabelSelector {
            match_labels: Some([("app".to_owned(), "web".to_owned())].into()),
            match_expressions: Some(requirements),
        };
        let all = [
            requirement("a", "In", &["1", "2"]),
            requirement("b", "NotIn", &["3"]),
            requirement("c", "Exists", &[]),
            requirement("d", "DoesNotExist", &[]),
        ];
        let converted = LabelSelector::try_from(&selector(all.into())).unwrap();
        assert_eq!(converted.to_string(), "app=web,a in (1,2),b notin (3),c,!d");
        assert!(LabelSelector::try_from(&v1::LabelSelector::default()).unwrap().matches_everything());

        let error = |requirement| LabelSelector::try_from(&selector(vec![requirement])).unwrap_err().to_string();
        assert_eq!(
            error(requirement("a", "Gt", &["1"])),
            "the requirement on label \"a\" has the unknown operator \"Gt\"; use In, NotIn, Exists or DoesNotExist"
        );
        assert_eq!(
            error(requirement("a", "In", &[])),
            "the requirement on label \"a\" has the operator In but no values; add at least one"
        );
    }

    fn expressions() -> impl Strategy<Value = Expression> {
        let key = || proptest::sample::select(vec!["a", "b", "x.io/c"]).prop_map(str::to_owned);
        let value = || proptest::sample::select(vec!["", "1", "2", "in"]).prop_map(str::to_owned);
        let values = || proptest::collection::btree_set(value(), 1..3);
        prop_oneof![
            (key(), value()).prop_map(|(key, value)| Expression::Equal(key, value)),
            (key(), value()).prop_map(|(key, value)| Expression::NotEqual(key, value)),
            (key(), values()).prop_map(|(key, values)| Expression::In(key, values)),
            (key(), values()).prop_map(|(key, values)| Expression::NotIn(key, values)),
            key().prop_map(Expression::Exists),
            key().prop_map(Expression::DoesNotExist),
        ]
    }

    #[test]
    fn a_selector_that_is_written_and_parsed_again_is_the_same_and_matches_the_same_labels() {
        let selectors = proptest::collection::vec(expressions(), 0..4);
        let labels = proptest::collection::btree_map(
            proptest::sample::select(vec!["a", "b", "x.io/c"]).prop_map(str::to_owned),
            prop_oneof![Just("1".to_owned()), Just(String::new())],
            0..3,
        );
        random::check(2000, (selectors, labels), |(requirements, labels)| {
            let of_kube: Selector = requirements.iter().cloned().collect();
            let selector = LabelSelector::from(of_kube.clone());

            assert_eq!(selector.to_string().parse(), Ok(selector.clone()));
            assert_eq!(selector.matches(&labels), of_kube.matches(&labels));
            assert_eq!(selector.0, of_kube);
        });
    }
}

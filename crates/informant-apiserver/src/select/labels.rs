//! Label selectors with all operators: `a=b`, `a==b`, `a!=b`, `a in (x,y)`, `a notin (x,y)`, `a`, `!a`, `a>1`, `a<1`.

use std::{borrow::Cow, collections::HashMap};

use serde::Deserialize;

use crate::objects::validate::{is_label, is_label_value};

/// The labels of one object.
pub(crate) type Labels<'a> = HashMap<Cow<'a, str>, Cow<'a, str>>;

/// A label, and the test that it must pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LabelRequirement {
    label: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    In(Vec<String>),
    /// Also passes if the label is absent.
    NotIn(Vec<String>),
    Above(i64),
    Below(i64),
}

impl LabelRequirement {
    pub(crate) fn matches(&self, labels: &Labels<'_>) -> bool {
        let value = labels.get(self.label.as_str());
        let one_of = |values: &[String]| value.is_some_and(|value| values.iter().any(|one| one == value));
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.test {
            Test::Exists => value.is_some(),
            Test::Absent => value.is_none(),
            Test::In(values) => one_of(values),
            Test::NotIn(values) => !one_of(values),
            Test::Above(bound) => number().is_some_and(|number| number > *bound),
            Test::Below(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

/// The labels in the metadata of an object.
pub(crate) fn of(metadata: &[u8]) -> Labels<'_> {
    #[derive(Deserialize)]
    struct Labelled<'a> {
        #[serde(borrow, default)]
        labels: Option<HashMap<Borrowed<'a>, Borrowed<'a>>>,
    }
    /// A string that is borrowed from the JSON unless it has escapes.
    #[derive(Deserialize, PartialEq, Eq, Hash)]
    struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);

    let labelled = serde_json::from_slice::<Labelled<'_>>(metadata).ok();
    let labels = labelled.and_then(|labelled| labelled.labels).unwrap_or_default();
    labels.into_iter().map(|(label, value)| (label.0, value.0)).collect()
}

pub(crate) fn parse(text: &str) -> Result<Vec<LabelRequirement>, String> {
    let mut reader = Reader { text, rest: text.trim_start() };
    let mut requirements = Vec::new();
    if reader.rest.is_empty() {
        return Ok(requirements);
    }
    loop {
        requirements.push(reader.requirement()?);
        if reader.rest.is_empty() {
            return Ok(requirements);
        }
        reader.expect(",")?;
    }
}

/// The unread rest of a selector, without leading white space.
struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn requirement(&mut self) -> Result<LabelRequirement, String> {
        if self.take("!") {
            return Ok(LabelRequirement { label: self.label()?, test: Test::Absent });
        }
        let label = self.label()?;
        let test = if self.take("!=") {
            Test::NotIn(vec![self.value()?])
        } else if self.take("==") || self.take("=") {
            Test::In(vec![self.value()?])
        } else if self.take(">") {
            Test::Above(self.number()?)
        } else if self.take("<") {
            Test::Below(self.number()?)
        } else if self.take_word("in") {
            Test::In(self.values()?)
        } else if self.take_word("notin") {
            Test::NotIn(self.values()?)
        } else {
            Test::Exists
        };
        Ok(LabelRequirement { label, test })
    }

    fn label(&mut self) -> Result<String, String> {
        let word = self.word();
        if is_label(word) { Ok(word.into()) } else { Err(self.complain("a label")) }
    }

    fn value(&mut self) -> Result<String, String> {
        let word = self.word();
        if is_label_value(word) { Ok(word.into()) } else { Err(self.complain("a value of a label")) }
    }

    fn number(&mut self) -> Result<i64, String> {
        self.word().parse().map_err(|_| self.complain("a whole number"))
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        self.expect("(")?;
        let mut values = vec![self.value()?];
        while self.take(",") {
            values.push(self.value()?);
        }
        self.expect(")")?;
        Ok(values)
    }

    /// Takes the text up to white space or a character of the syntax.
    fn word(&mut self) -> &'a str {
        let stops = |letter: char| letter.is_whitespace() || ",()=!<>".contains(letter);
        let (word, rest) = self.rest.split_at(self.rest.find(stops).unwrap_or(self.rest.len()));
        self.rest = rest.trim_start();
        word
    }

    fn take(&mut self, sign: &str) -> bool {
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest).trim_start();
        rest.is_some()
    }

    fn take_word(&mut self, word: &str) -> bool {
        let before = self.rest;
        let taken = self.word() == word;
        if !taken {
            self.rest = before;
        }
        taken
    }

    fn expect(&mut self, sign: &str) -> Result<(), String> {
        if self.take(sign) { Ok(()) } else { Err(self.complain(&format!("'{sign}'"))) }
    }

    fn complain(&self, wanted: &str) -> String {
        format!("unable to parse requirement: found '{}', expected {wanted} in selector '{}'", self.rest, self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn select(selector: &str) -> bool {
        let labels = of(br#"{"labels":{"app":"web","tier":"front","example.com/weight":"5","empty":""},"name":"x"}"#);
        parse(selector).unwrap().iter().all(|requirement| requirement.matches(&labels))
    }

    #[test]
    fn every_operator_works() {
        let yes = [
            "",
            " app = web ",
            "app==web,tier=front",
            "app!=db",
            "gone!=x",
            "app in (db, web)",
            "app notin (db,cache)",
            "gone notin (x)",
            "app",
            "!gone",
            "example.com/weight>4,example.com/weight<6",
            "empty=",
            "empty in (,a)",
            "in!=x,notin!=y",
        ];
        for selector in yes {
            assert!(select(selector), "{selector}");
        }
        let no = [
            "app=db",
            "app!=web",
            "app in (db)",
            "app notin (web)",
            "gone",
            "!app",
            "example.com/weight>5",
            "app<5",
            "gone in (x)",
            "app=",
        ];
        for selector in no {
            assert!(!select(selector), "{selector}");
        }
    }

    #[test]
    fn a_selector_that_makes_no_sense_is_an_error() {
        let bad =
            ["=", "a=b=c", "a in", "a in (", "a in x", ",", "a,", "a b", "a>x", "-a", "a=-b", "a/b/c", "!", "a in (b"];
        for selector in bad {
            assert!(parse(selector).is_err(), "{selector}");
        }
    }

    #[test]
    fn labels_that_are_no_map_of_texts_count_as_none() {
        assert_eq!(of(br#"{"labels":7}"#), Labels::new());
        assert_eq!(of(br#"{"labels":null}"#), Labels::new());
    }
}

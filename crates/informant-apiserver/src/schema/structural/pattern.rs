//! Regular expressions of schemas.
//!
//! - **In:** a pattern in the syntax of Go (RE2).
//! - **Out:** whether it is valid, and whether a text matches it.
//!
//! `regex` has nearly the same syntax. It differs in classes, where it knows nested ones and operators, and in `\d`, `\s`, `\w` and `\b`,
//! which are ASCII in Go.

use std::sync::OnceLock;

use regex::Regex;
use serde::Deserialize;

/// A pattern, compiled at its first use.
#[derive(Debug, Deserialize)]
#[serde(from = "String")]
pub(crate) struct Pattern {
    text: String,
    compiled: OnceLock<Result<Regex, String>>,
}

impl From<String> for Pattern {
    fn from(text: String) -> Self {
        Self { text, compiled: OnceLock::new() }
    }
}

impl Pattern {
    /// The pattern as it was written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The reason why the pattern is invalid.
    pub(crate) fn error(&self) -> Option<&str> {
        self.compiled().as_ref().err().map(String::as_str)
    }

    pub(crate) fn matches(&self, text: &str) -> bool {
        self.compiled().as_ref().is_ok_and(|regex| regex.is_match(text))
    }

    fn compiled(&self) -> &Result<Regex, String> {
        self.compiled.get_or_init(|| {
            Regex::new(&in_own_syntax(&self.text)).map_err(|error| {
                let text = error.to_string();
                let last = text.lines().last().unwrap_or_default();
                let reason = match last.trim_start_matches("error: ") {
                    "unclosed group" => "missing closing )",
                    "unclosed character class" => "missing closing ]",
                    "unopened group" => "unexpected )",
                    "repetition operator missing expression" => "missing argument to repetition operator",
                    other => other,
                };
                format!("error parsing regexp: {reason}: `{}`", self.text)
            })
        })
    }
}

/// A pattern of Go in the syntax of `regex`.
fn in_own_syntax(pattern: &str) -> String {
    let mut own = String::with_capacity(pattern.len());
    let mut rest = pattern.chars().peekable();
    let mut is_in_class = false;
    let mut before = ' ';
    while let Some(letter) = rest.next() {
        match letter {
            '\\' => match rest.next() {
                Some('Q') if !is_in_class => {
                    let mut literal = String::new();
                    while let Some(letter) = rest.next() {
                        if letter == '\\' && rest.next_if_eq(&'E').is_some() {
                            break;
                        }
                        literal.push(letter);
                    }
                    own.push_str(&regex::escape(&literal));
                    before = ' ';
                    continue;
                }
                Some(letter) => push_escape(&mut own, letter, is_in_class),
                None => own.push('\\'),
            },
            '[' if is_in_class && rest.peek() == Some(&':') => {
                own.push('[');
                for letter in rest.by_ref() {
                    own.push(letter);
                    if letter == ']' {
                        break;
                    }
                }
            }
            '[' if is_in_class => own.push_str(r"\["),
            '[' => {
                is_in_class = true;
                own.push('[');
                own.extend(rest.next_if_eq(&'^'));
                if rest.next_if_eq(&']').is_some() {
                    own.push_str(r"\]");
                }
            }
            ']' => {
                is_in_class = false;
                own.push(']');
            }
            '&' | '~' if is_in_class => own.extend(['\\', letter]),
            '-' if is_in_class && before == '-' => own.push_str(r"\-"),
            _ => own.push(letter),
        }
        before = letter;
    }
    own
}

/// Appends an escape such as `\d` with its meaning in Go.
fn push_escape(own: &mut String, letter: char, is_in_class: bool) {
    let (members, is_negated) = match letter {
        'd' | 'D' => ("0-9", letter == 'D'),
        'w' | 'W' => ("0-9A-Za-z_", letter == 'W'),
        's' | 'S' => (r"\t\n\x0C\r ", letter == 'S'),
        'b' if !is_in_class => return own.push_str(r"(?-u:\b)"),
        _ => return own.extend(['\\', letter]),
    };
    match (is_negated, is_in_class) {
        (true, _) => own.extend(["[^", members, "]"]),
        (false, true) => own.push_str(members),
        (false, false) => own.extend(["[", members, "]"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        let pattern = Pattern::from(pattern.to_owned());
        assert_eq!(pattern.error(), None);
        pattern.matches(text)
    }

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        assert!(matches(r"^\d+$", "12") && !matches(r"^\d+$", "١٢"));
        assert!(matches(r"^[\w.-]+$", "a_b.c-d") && !matches(r"^\w+$", "é"));
        assert!(matches(r"^[[]$", "["));
        assert!(matches(r"^[a&&b]+$", "a&b"));
        assert!(matches(r"^[]a]+$", "a]"));
        assert!(matches(r"^[[:alpha:]\D]+$", "ab."));
        assert!(matches(r"^\Qa.b\E\.c$", "a.b.c") && !matches(r"^\Qa.b\E$", "axb"));
        assert!(matches(r"^\p{L}+$", "é") && matches(r"\bb\b", "a b c"));
        assert!(matches(r"b", "abc"), "a pattern need not match the whole text");
    }

    #[test]
    fn an_invalid_pattern_has_an_error() {
        for pattern in ["(", "[a", "*a", "a)", "a{2000000}", r"\y"] {
            assert!(Pattern::from(pattern.to_owned()).error().is_some(), "{pattern}");
        }
        let group = Pattern::from("(a".to_owned());
        assert_eq!(group.error(), Some("error parsing regexp: missing closing ): `(a`"));
        assert!(!group.matches("a"));
    }
}

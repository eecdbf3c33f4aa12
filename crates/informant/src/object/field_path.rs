//! [`FieldPath`], the path of a field, and a tree of the fields that a scan cuts or notes in every object.
//!
//! - **In:** paths as text.
//! - **Out:** for each member of an object, how much of it is cut, and which values in it are noted.
//! - **Knows nothing of:** JSON, kinds.

use std::{fmt, str::FromStr};

use crate::error::ParseError;

const EMPTY_NAME: &str = "has an empty name; write a path as in `metadata.annotations`";
const BAD_ESCAPE: &str = "has a backslash before neither a dot nor a backslash; write a dot within a name as `\\.`";
const IDENTITY: &str = "is part of the identity of an object and cannot be cut";

/// The path of a field of an object, such as `status.images`. An array on the way stands for each of its items, as in
/// `spec.containers.env`.
///
/// Names are separated by dots. A dot within a name is written `\.`, a backslash `\\`.
///
/// A path that is parsed from text names a field that can be cut, so the fields of the identity are refused;
/// [`index::field`](crate::index::field) accepts them too.
///
/// ```
/// use informant::FieldPath;
///
/// let last_applied: FieldPath = r"metadata.annotations.kubectl\.kubernetes\.io/last-applied-configuration".parse()?;
/// assert_eq!(last_applied.names().last(), Some("kubectl.kubernetes.io/last-applied-configuration"));
/// assert!("metadata.name".parse::<FieldPath>().is_err(), "the name is part of the identity");
/// # Ok::<(), informant::error::ParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldPath {
    /// The names on the way to the field. Not empty.
    pub(super) names: Vec<String>,
}

impl FieldPath {
    /// Parses a path to any field, including the fields of the identity.
    pub(crate) fn parse(path: &str) -> Result<Self, ParseError> {
        let mut names = vec![String::new()];
        let mut characters = path.chars();
        while let Some(character) = characters.next() {
            let literal = match character {
                '.' => {
                    names.push(String::new());
                    continue;
                }
                '\\' => match characters.next() {
                    Some(escaped @ ('.' | '\\')) => escaped,
                    Some(_) | None => return Err(ParseError::FieldPath { path: path.to_owned(), problem: BAD_ESCAPE }),
                },
                other => other,
            };
            // `names` is never empty.
            names.last_mut().into_iter().for_each(|name| name.push(literal));
        }
        match names.iter().any(String::is_empty) {
            true => Err(ParseError::FieldPath { path: path.to_owned(), problem: EMPTY_NAME }),
            false => Ok(Self { names }),
        }
    }

    /// The path of a label.
    pub(crate) fn of_label(key: &str) -> Self {
        Self { names: ["metadata", "labels", key].map(str::to_owned).into() }
    }

    /// Returns the names on the way to the field, the outermost first.
    pub fn names(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Returns true if the field is part of the object's identity.
    fn is_identity(&self) -> bool {
        let names: Vec<_> = self.names().collect();
        match names[..] {
            ["apiVersion" | "kind", ..] | ["metadata"] => true,
            ["metadata", name, ..] => ["name", "namespace", "uid", "resourceVersion"].contains(&name),
            _ => false,
        }
    }
}

impl FromStr for FieldPath {
    type Err = ParseError;

    fn from_str(path: &str) -> Result<Self, ParseError> {
        let parsed = Self::parse(path)?;
        match parsed.is_identity() {
            true => Err(ParseError::FieldPath { path: path.to_owned(), problem: IDENTITY }),
            false => Ok(parsed),
        }
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, name) in self.names.iter().enumerate() {
            if position > 0 {
                f.write_str(".")?;
            }
            f.write_str(&name.replace('\\', r"\\").replace('.', r"\."))?;
        }
        Ok(())
    }
}

/// The fields that are cut of one value, or noted, as a tree of names.
#[derive(Clone, Debug, Default)]
pub(super) struct FieldTree {
    below: Vec<(String, FieldTree)>,
    /// Whether the whole value is cut, not only fields within it.
    pub(super) is_cut: bool,
    /// The number under which the value is noted.
    pub(super) noted_as: Option<u8>,
}

impl FieldTree {
    pub(super) fn cut(&mut self, path: &FieldPath) {
        self.at(path).is_cut = true;
    }

    pub(super) fn note(&mut self, path: &FieldPath, number: u8) {
        self.at(path).noted_as = Some(number);
    }

    fn at(&mut self, path: &FieldPath) -> &mut Self {
        let mut tree = self;
        for name in &path.names {
            let position = tree.below.iter().position(|(other, _)| other == name).unwrap_or_else(|| {
                tree.below.push((name.clone(), Self::default()));
                tree.below.len() - 1
            });
            tree = &mut tree.below[position].1;
        }
        tree
    }

    /// Returns what is cut or noted of the member with this name; `None` if it is kept as it is.
    #[inline]
    pub(super) fn below(&self, name: &[u8]) -> Option<&Self> {
        self.below.iter().find(|(other, _)| other.as_bytes() == name).map(|(_, tree)| tree)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_path_is_printed_as_it_was_parsed() {
        for path in ["status", "spec.containers.env", r"metadata.annotations.a\.b/c\\d"] {
            assert_eq!(path.parse::<FieldPath>().unwrap().to_string(), path);
        }
    }

    #[test]
    fn a_field_path_that_cannot_be_cut_is_refused_with_the_reason() {
        let error = |path: &str| path.parse::<FieldPath>().unwrap_err();
        for path in ["", ".", "status.", ".status", "a..b"] {
            assert_eq!(error(path), ParseError::FieldPath { path: path.into(), problem: EMPTY_NAME });
        }
        for path in [r"a\b", r"a\"] {
            assert_eq!(error(path), ParseError::FieldPath { path: path.into(), problem: BAD_ESCAPE });
        }
        for path in ["metadata", "metadata.name", "metadata.uid", "kind", "apiVersion", "metadata.namespace.x"] {
            assert_eq!(error(path), ParseError::FieldPath { path: path.into(), problem: IDENTITY });
        }
        assert!("spec.kind".parse::<FieldPath>().is_ok());
    }
}

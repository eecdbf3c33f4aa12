//! Fields that are left out of every object, before anything of them is decoded.

use std::fmt;
use std::str::FromStr;

/// A field of an object, such as `status.images`; an array on the way stands for each of its items, as in
/// `spec.containers.env`.
///
/// Names are separated by dots. A dot within a name is written `\.`, a backslash `\\`.
///
/// ```
/// use informant::object::FieldPath;
///
/// let last_applied: FieldPath = r"metadata.annotations.kubectl\.kubernetes\.io/last-applied-configuration".parse()?;
/// assert_eq!(last_applied.names().last(), Some("kubectl.kubernetes.io/last-applied-configuration"));
/// assert!("metadata.name".parse::<FieldPath>().is_err(), "that says who the object is");
/// # Ok::<(), informant::object::FieldPathError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldPath {
    /// Not empty.
    names: Vec<String>,
}

/// Why something is no field that can be left out.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldPathError {
    /// A name is missing: before, after or between dots, or altogether.
    #[error("{path:?} has an empty name; write fields as in `metadata.annotations`")]
    EmptyName {
        /// What was given.
        path: String,
    },
    /// A backslash before something else than a dot or a backslash.
    #[error("{path:?} has a backslash that stands before neither a dot nor a backslash")]
    BadEscape {
        /// What was given.
        path: String,
    },
    /// Without it nobody knows who the object is.
    #[error("{path:?} says who an object is, and cannot be left out")]
    Identity {
        /// What was given.
        path: String,
    },
}

impl FieldPath {
    /// The names on the way to the field, the outermost first.
    pub fn names(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Whether an object without it would not be known any more.
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
    type Err = FieldPathError;

    fn from_str(path: &str) -> Result<Self, FieldPathError> {
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
                    Some(_) | None => return Err(FieldPathError::BadEscape { path: path.to_owned() }),
                },
                other => other,
            };
            // There is always a last one.
            names.last_mut().into_iter().for_each(|name| name.push(literal));
        }
        if names.iter().any(String::is_empty) {
            return Err(FieldPathError::EmptyName { path: path.to_owned() });
        }
        let parsed = Self { names };
        match parsed.is_identity() {
            true => Err(FieldPathError::Identity { path: path.to_owned() }),
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

/// What is cut below one place of an object: the tree of the paths.
#[derive(Clone, Debug, Default)]
pub(super) struct Cuts {
    below: Vec<(String, Cuts)>,
    is_end: bool,
}

/// What is cut of a member.
#[derive(Clone, Copy)]
pub(super) enum Cut<'a> {
    Nothing,
    /// Something within it.
    Parts(&'a Cuts),
    All,
}

impl Cuts {
    pub(super) fn add(&mut self, path: &FieldPath) {
        let mut place = self;
        for name in &path.names {
            let position = place.below.iter().position(|(other, _)| other == name).unwrap_or_else(|| {
                place.below.push((name.clone(), Self::default()));
                place.below.len() - 1
            });
            place = &mut place.below[position].1;
        }
        place.is_end = true;
    }

    /// What is cut of the member of a name.
    #[inline]
    pub(super) fn of(&self, name: &str) -> Cut<'_> {
        match self.below.is_empty() {
            true => Cut::Nothing,
            false => self.find(name),
        }
    }

    fn find(&self, name: &str) -> Cut<'_> {
        match self.below.iter().find(|(other, _)| other == name) {
            None => Cut::Nothing,
            Some((_, cuts)) if cuts.is_end => Cut::All,
            Some((_, cuts)) => Cut::Parts(cuts),
        }
    }
}

impl<'a> Cut<'a> {
    /// What is cut of a member of what this is of.
    #[inline]
    pub(super) fn of(self, name: &str) -> Cut<'a> {
        match self {
            Self::Nothing => Cut::Nothing,
            Self::Parts(cuts) => cuts.of(name),
            Self::All => Cut::All,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_written_as_it_is_read() {
        for path in ["status", "spec.containers.env", r"metadata.annotations.a\.b/c\\d"] {
            assert_eq!(path.parse::<FieldPath>().unwrap().to_string(), path);
        }
    }

    #[test]
    fn what_is_no_field_to_cut_says_why() {
        let error = |path: &str| path.parse::<FieldPath>().unwrap_err();
        for path in ["", ".", "status.", ".status", "a..b"] {
            assert_eq!(error(path), FieldPathError::EmptyName { path: path.into() });
        }
        for path in [r"a\b", r"a\"] {
            assert_eq!(error(path), FieldPathError::BadEscape { path: path.into() });
        }
        for path in ["metadata", "metadata.name", "metadata.uid", "kind", "apiVersion", "metadata.namespace.x"] {
            assert_eq!(error(path), FieldPathError::Identity { path: path.into() });
        }
        assert!("spec.kind".parse::<FieldPath>().is_ok());
    }
}

//! Paths to values in objects and to schemas in definitions, as kube-apiserver writes them.

use std::fmt;

/// A path: a list of steps that is linked from its end, so that a step costs no allocation.
#[derive(Clone, Copy)]
pub(crate) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    /// The begin of the path; may be empty.
    Root(&'a str),
    /// `.name`
    Field(&'a str),
    /// `[key]`
    Key(&'a str),
    /// `[0]`
    Index(usize),
}

impl<'a> Path<'a> {
    pub(crate) fn root(text: &'a str) -> Self {
        Self { parent: None, step: Step::Root(text) }
    }

    pub(crate) fn field(&'a self, name: &'a str) -> Self {
        Self { parent: Some(self), step: Step::Field(name) }
    }

    pub(crate) fn key(&'a self, key: &'a str) -> Self {
        Self { parent: Some(self), step: Step::Key(key) }
    }

    pub(crate) fn index(&'a self, index: usize) -> Self {
        Self { parent: Some(self), step: Step::Index(index) }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_first = self.parent.is_none_or(|parent| matches!(parent.step, Step::Root("")));
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Root(text) => f.write_str(text),
            Step::Field(name) if is_first => f.write_str(name),
            Step::Field(name) => write!(f, ".{name}"),
            Step::Key(key) => write!(f, "[{key}]"),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}

//! What stands in for CEL rules without the feature `cel`: rules are stored and not run.

use serde_json::Value;

use crate::schema::structural::{Schema, Violation, path::Path};

pub(super) const ARE_RUN: bool = false;

#[derive(Debug, Default)]
pub(crate) struct Compilation;

#[expect(dead_code, reason = "read by the rules of the feature `cel`")]
#[derive(Clone, Copy)]
pub(crate) struct RulePlace<'a> {
    pub(crate) count: u64,
    pub(crate) unmatched: Option<&'a Path<'a>>,
    pub(crate) is_resource: bool,
}

#[derive(Default)]
pub(crate) struct RuleChecks {}

impl RuleChecks {
    #[expect(clippy::unused_self, reason = "the rules of the feature `cel` need it")]
    pub(crate) fn check(&mut self, _schema: &Schema, _place: RulePlace<'_>, _path: &Path<'_>) {}

    pub(crate) fn finish(self, _path: &Path<'_>, _found: &mut Vec<Violation>) {}
}

pub(crate) fn most_items(_schema: &Schema) -> u64 {
    1
}

pub(super) fn run(_: &Schema, _: &Value, _: Option<&Value>, _: &Path<'_>, _: &mut Vec<Violation>) {}

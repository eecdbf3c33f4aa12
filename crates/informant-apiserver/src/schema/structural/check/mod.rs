//! The checks of a schema when its definition is created or changed.
//!
//! - **In:** the schema of a version, and its path in the definition.
//! - **Out:** the errors of kube-apiserver.
//!
//! `structure` checks that the schema is structural, `keywords` everything else.

pub(super) mod field_path;
mod keywords;
mod structure;

use crate::schema::structural::{Schema, Violation, defaults, path::Path};

/// The violations of a schema; `path` is its place in the definition.
pub(crate) fn check(schema: &Schema, path: &str, has_status: bool) -> Vec<Violation> {
    let path = Path::root(path);
    let mut found = Vec::new();
    if has_status {
        keywords::check_root_with_status(schema, &path, &mut found);
    }
    if schema.nullable {
        found.push(Violation::forbidden(&path.field("nullable"), "nullable cannot be true at the root"));
    }
    let before = found.len();
    found.extend(structure::check(schema, &path));
    if found.len() == before {
        defaults::check(schema, &path, &mut found);
    }
    let is_structural = found.len() == before;
    keywords::check(schema, &path, is_structural, &mut found);
    if found.is_empty() && schema.any(&|schema| schema.dialect.is_some()) {
        found.push(Violation::invalid(&path, "\"\"", "OpenAPIV3Schema 'schema' is not supported"));
    }
    found
}

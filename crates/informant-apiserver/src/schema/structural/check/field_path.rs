//! The `fieldPath` of a CEL rule: `.spec.size`, `.labels['a.b']`.

use crate::schema::structural::Schema;

/// The path as errors show it; `None` if it names no field of the schema.
pub(in crate::schema::structural) fn normalize(path: &str, schema: &Schema) -> Option<String> {
    let mut shown = String::new();
    let (mut rest, mut schema) = (path, schema);
    while !rest.is_empty() {
        let (name, after) = if let Some(after) = rest.strip_prefix("['") {
            let (name, after) = after.split_once("']")?;
            (name.replace(r"\'", "'"), after)
        } else {
            let after = rest.strip_prefix('.')?;
            let end = after.find(['.', '[']).unwrap_or(after.len());
            (after[..end].to_owned(), &after[end..])
        };
        schema = match schema.properties.get(&name) {
            Some(property) => {
                let separator = if shown.is_empty() { "" } else { "." };
                shown += &format!("{separator}{name}");
                property
            }
            None if schema.properties.is_empty() => {
                shown += &format!("[{name}]");
                schema.additional()?
            }
            None => return None,
        };
        rest = after;
    }
    Some(shown)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_names_a_field_of_the_schema() {
        let text = json!({"type": "string"});
        let schema = json!({"properties": {"spec": {"properties": {"size": text, "a.b": text, "labels": {"additionalProperties": text}}}}});
        let schema = Schema::deserialize(&schema).unwrap();
        let of = |path: &str| normalize(path, &schema);

        assert_eq!(of(".spec.size").as_deref(), Some("spec.size"));
        assert_eq!(of(".spec['a.b']").as_deref(), Some("spec.a.b"));
        assert_eq!(of(".spec.labels['x']").as_deref(), Some("spec.labels[x]"));
        for wrong in [".spec.weight", "spec", ".spec.size.x", ".spec['size", "."] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}

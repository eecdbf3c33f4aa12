//! The text of objects as YAML.
//!
//! - **In:** a text with documents; objects.
//! - **Out:** the objects in an order in which they can be created; a text that is easy to read.
//! - **Knows nothing of:** files, the server.

use serde_json::Value;

/// An object of a document.
#[derive(Debug)]
pub(super) struct Manifest {
    /// The number of the document, from 1.
    pub(super) document: usize,
    pub(super) object: Value,
}

/// A document that is not an object or a list of objects.
#[derive(Debug)]
pub(super) struct NoManifest {
    pub(super) document: usize,
    pub(super) why: String,
}

impl Manifest {
    /// A string field of the object; empty if it is absent.
    pub(super) fn field(&self, name: &str) -> &str {
        self.object[name].as_str().unwrap_or_default()
    }

    /// The kind and the name, for messages.
    pub(super) fn title(&self) -> String {
        let metadata = &self.object["metadata"];
        let text = |field: &str| metadata[field].as_str().filter(|text| !text.is_empty());
        let name = text("name").or(text("generateName")).unwrap_or("without a name");
        let place = text("namespace").map(|namespace| format!("{namespace}/")).unwrap_or_default();
        format!("{} {place}{name}", self.field("kind"))
    }

    /// What has to exist before other objects comes first.
    fn rank(&self) -> u8 {
        match self.field("kind") {
            "CustomResourceDefinition" => 0,
            "Namespace" => 1,
            _ => 2,
        }
    }
}

/// Reads all objects of a text, in an order in which they can be created.
pub(super) fn read(text: &str) -> Result<Vec<Manifest>, NoManifest> {
    // Deeper nesting could end the thread: its stack is small.
    let budget = serde_saphyr::budget! { max_depth: 64 };
    let options = serde_saphyr::options! { budget: budget, with_snippet: false, legacy_octal_numbers: true };
    let mut bytes = text.as_bytes();
    let documents = serde_saphyr::read_with_options::<_, Value>(&mut bytes, options);
    let mut manifests = Vec::new();
    for (document, value) in documents.enumerate().map(|(position, value)| (position + 1, value)) {
        let no_manifest = |why: String| NoManifest { document, why };
        let value = value.map_err(|error| no_manifest(error.to_string()))?;
        add(value, document, &mut manifests).map_err(no_manifest)?;
    }
    manifests.sort_by_key(Manifest::rank);
    Ok(manifests)
}

/// Adds the object of a document, or the items of a list.
fn add(object: Value, document: usize, manifests: &mut Vec<Manifest>) -> Result<(), String> {
    for field in ["kind", "apiVersion"] {
        if object[field].as_str().is_none_or(str::is_empty) {
            return Err(format!("it has no {field}"));
        }
    }
    let is_list = object["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match object["items"].as_array() {
        Some(items) if is_list => items.iter().try_for_each(|item| add(item.clone(), document, manifests)),
        Some(_) | None => {
            manifests.push(Manifest { document, object });
            Ok(())
        }
    }
}

/// Fields of metadata that differ between runs, or say little.
const NOISE: [&str; 4] = ["creationTimestamp", "managedFields", "resourceVersion", "uid"];

/// Writes objects as documents, without [`NOISE`].
pub(super) fn write(objects: impl Iterator<Item = Value>) -> String {
    let documents = objects.map(|mut object| {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|field, _| !NOISE.contains(&field.as_str()));
        }
        object.sort_all_objects();
        let options = serde_saphyr::ser_options! { prefer_block_scalars: true };
        // JSON can be written as YAML.
        serde_saphyr::to_string_with_options(&object, options).unwrap_or_else(|_| format!("{object}\n"))
    });
    documents.collect::<Vec<_>>().join("---\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn titles(text: &str) -> Vec<String> {
        read(text).unwrap().iter().map(Manifest::title).collect()
    }

    #[test]
    fn definitions_and_namespaces_come_first() {
        let text = "
# A comment alone is no document.
---
{apiVersion: v1, kind: ConfigMap, metadata: {namespace: shop, name: b}}
---
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
- {apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: fleets.example.com}}
---
{apiVersion: v1, kind: ConfigMapList, items: [{apiVersion: v1, kind: ConfigMap, metadata: {generateName: c-}}]}
";

        assert_eq!(
            titles(text),
            [
                "CustomResourceDefinition fleets.example.com",
                "Namespace shop",
                "ConfigMap shop/b",
                "ConfigMap a",
                "ConfigMap c-"
            ]
        );
    }

    #[test]
    fn a_document_that_is_no_object_is_refused_with_its_number() {
        let problem = |text: &str| {
            let NoManifest { document, why } = read(text).unwrap_err();
            format!("{document}: {why}")
        };
        let good = "{apiVersion: v1, kind: ConfigMap}\n---\n";

        assert_eq!(problem(&format!("{good}kind: ConfigMap")), "2: it has no apiVersion");
        assert_eq!(problem(&format!("{good}{good}just a text")), "3: it has no kind");
        assert_eq!(
            problem(&format!("{good}{{apiVersion: v1, kind: List, items: [{{kind: A}}]}}")),
            "2: it has no apiVersion"
        );
        assert!(problem(&format!("{good}a: [")).contains("line 3"), "{}", problem(&format!("{good}a: [")));
        assert!(problem(&format!("{good}a: 1\na: 2")).starts_with("2: "));
    }

    #[test]
    fn values_have_the_types_that_kubectl_reads() {
        let text = "
apiVersion: v1
kind: ConfigMap
a: [1, 1.5, true, null, ~, 'yes', \"1\", 2026-11-01, 0x10, 1_000]
b: |
  two
  lines
c: >-
  one
  line
";
        let read = &read(text).unwrap()[0].object;

        assert_eq!(
            read["a"].as_array().unwrap()[..8],
            json!([1, 1.5, true, null, null, "yes", "1", "2026-11-01"]).as_array().unwrap()[..]
        );
        assert_eq!((&read["b"], &read["c"]), (&json!("two\nlines\n"), &json!("one line")));
    }

    #[test]
    fn what_is_written_can_be_read() {
        let objects = [
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "\ttab\nline", "b": "yes", "c": "1", "d": "", "e": "a: b #c\n"}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b", "labels": {"x": "null"}}, "n": null, "l": [], "m": {}}),
        ];

        let text = write(objects.iter().cloned());

        let again: Vec<_> = read(&text).unwrap().into_iter().map(|manifest| manifest.object).collect();
        assert_eq!(again, objects, "{text}");
    }
}

//! OpenAPI documents, which clients read before they write, and for `kubectl explain`.
//!
//! - **In:** the kinds of the registry.
//! - **Out:** documents with the operations of each kind, their parameters and schemas. The older document is empty.
//! - **Knows nothing of:** objects, HTTP.

use serde_json::{Map, Value, json};

use crate::{
    objects::patch,
    registry::{
        Registry, discovery,
        kind::{Kind, Scope},
    },
    schema::openapi::Components,
};

/// `/openapi/v2`, which clients read if version 3 is not enough: an empty document.
pub(crate) fn old_document() -> Value {
    json!({"swagger": "2.0", "info": {"title": "informant", "version": "0"}, "paths": {}, "definitions": {}})
}

/// The same document for `kubectl`: a protobuf message with the fields swagger (1), info (2: title 1, version 2) and paths (8).
pub(crate) const OLD_DOCUMENT: &[u8] = b"\n\x032.0\x12\x0e\n\tinformant\x12\x010\x42\x00";

/// The media type of [`OLD_DOCUMENT`].
pub(crate) const OLD_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// `/openapi/v3`: the index of the documents.
pub(crate) fn index(registry: &Registry) -> Value {
    let entry = |kind: &Kind| (root(kind), json!({"serverRelativeURL": format!("/openapi/v3/{}", root(kind))}));
    json!({"paths": registry.kinds().map(entry).collect::<Map<_, _>>()})
}

/// `/openapi/v3/api/v1` and `/openapi/v3/apis/GROUP/VERSION`.
pub(crate) fn document(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let kinds = registry.kinds().filter(|kind| kind.group == group && kind.version == version);
    let mut components = Components::default();
    let paths = kinds.flat_map(|kind| paths(kind, &components.add(kind))).collect::<Map<_, _>>();
    let document = json!({
        "openapi": "3.0.0",
        "info": {"title": "informant", "version": discovery::version()["gitVersion"]},
        "paths": paths,
        "components": {"schemas": components.into_schemas()},
    });
    (!paths.is_empty()).then_some(document)
}

fn root(kind: &Kind) -> String {
    if kind.group.is_empty() { format!("api/{}", kind.version) } else { format!("apis/{}", kind.api_version()) }
}

/// The paths of the collection of a kind and of an object, with their operations; a review is only created. `schema` is a reference to that of the kind.
fn paths(kind: &Kind, schema: &Value) -> Vec<(String, Value)> {
    let (namespace, in_namespace) = match kind.scope {
        Scope::Namespaced => ("/namespaces/{namespace}", vec![parameter("path", "namespace")]),
        Scope::Cluster => ("", vec![]),
    };
    let collection = format!("/{}{namespace}/{}", root(kind), kind.plural);
    let one = format!("{collection}/{{name}}");
    let operation = |action: &str, parameters: &[&str]| {
        json!({
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
            "parameters": parameters.iter().map(|name| parameter("query", name)).collect::<Vec<_>>(),
            "responses": {"200": {"description": "OK"}},
        })
    };
    let written = &["dryRun", "fieldManager", "fieldValidation"][..];
    let selected = &["continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "watch"][..];
    let of_name = [&in_namespace[..], &[parameter("path", "name")]].concat();
    let answered = |mut operation: Value| {
        operation["responses"]["200"]["content"] = content(&["application/json"], schema);
        operation
    };
    let sent = |mut operation: Value, media_types: &[&str], schema: &Value| {
        operation["requestBody"] = json!({"content": content(media_types, schema), "required": true});
        answered(operation)
    };
    // `kubectl apply` sends strategic merge patches to the kinds that accept them here.
    let patches = patch::media_types(kind).split(", ").collect::<Vec<_>>();
    let post = sent(operation("post", written), &["*/*"], schema);
    if kind.is_review {
        return vec![(collection, json!({"parameters": in_namespace, "post": post}))];
    }
    let of_collection = json!({
        "parameters": in_namespace,
        "get": operation("list", selected),
        "post": post,
        "delete": operation("deletecollection", selected),
    });
    let of_one = json!({
        "parameters": of_name,
        "get": answered(operation("get", &["resourceVersion"])),
        "put": sent(operation("put", written), &["*/*"], schema),
        "patch": sent(operation("patch", written), &patches, &json!({"type": "object"})),
        "delete": operation("delete", &["dryRun"]),
    });
    vec![(collection, of_collection), (one, of_one)]
}

fn content(media_types: &[&str], schema: &Value) -> Value {
    let of_type = |media_type: &&str| ((*media_type).to_owned(), json!({ "schema": schema }));
    media_types.iter().map(of_type).collect::<Map<_, _>>().into()
}

fn parameter(place: &str, name: &str) -> Value {
    json!({"name": name, "in": place, "required": place == "path", "schema": {"type": "string"}})
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fields of a message whose fields all have a length: their numbers and contents.
    fn fields(mut message: &[u8]) -> Vec<(u8, &[u8])> {
        let mut fields = Vec::new();
        while let [tag, length, rest @ ..] = message {
            assert_eq!(tag & 7, 2, "a field with a length");
            let (content, after) = rest.split_at(usize::from(*length));
            fields.push((tag >> 3, content));
            message = after;
        }
        assert!(message.is_empty());
        fields
    }

    #[test]
    fn both_forms_of_the_old_document_say_the_same() {
        let (protobuf, json) = (fields(OLD_DOCUMENT), old_document());
        let text = |value: &Value| value.as_str().unwrap().to_owned().into_bytes();

        assert_eq!(protobuf.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 2, 8]);
        assert_eq!(protobuf[0].1, text(&json["swagger"]));
        let info = [(1, &*text(&json["info"]["title"])), (2, &*text(&json["info"]["version"]))];
        assert_eq!(fields(protobuf[1].1), info);
        assert!(protobuf[2].1.is_empty() && json["paths"].as_object().unwrap().is_empty());
    }
}

//! The schemas of kinds in OpenAPI documents.
//!
//! - **In:** the types of a built-in kind; the schema in the definition of a custom kind.
//! - **Out:** the components of a document, which refer to each other by their names.
//! - **Knows nothing of:** paths, requests.

use serde_json::{Map, Value, json};

use super::{Field, ListKind, Scalar, Shape, Type, facts};
use crate::registry::kind::{Kind, Origin};

/// Schemas by their names.
#[derive(Default)]
pub(crate) struct Components(Map<String, Value>);

impl Components {
    /// Adds the schema of a kind, and all that it refers to. Returns a reference to it.
    pub(crate) fn add(&mut self, kind: &Kind) -> Value {
        let name = match kind.origin {
            Origin::BuiltIn => self.add_built_in(kind),
            Origin::Custom => self.add_custom(kind),
        };
        if let Some(Value::Object(schema)) = self.0.get_mut(&name) {
            let gvk = json!([{"group": kind.group, "version": kind.version, "kind": kind.kind}]);
            schema.insert("x-kubernetes-group-version-kind".into(), gvk);
        }
        reference(&name)
    }

    pub(crate) fn into_schemas(self) -> Map<String, Value> {
        self.0
    }

    fn add_built_in(&mut self, kind: &Kind) -> String {
        let found = facts::built_in(&kind.api_version(), &kind.kind);
        let name = match found.map(|of| of.shape) {
            Some(Shape::Map { name, .. }) => name.to_string(),
            Some(Shape::Scalar(_) | Shape::List { .. } | Shape::Any | Shape::Whole | Shape::Metadata) | None => {
                kind.kind.to_string()
            }
        };
        self.add_named(&name);
        name
    }

    /// The schema as it is in the definition, with the fields that all objects have.
    fn add_custom(&mut self, kind: &Kind) -> String {
        let mut schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        if let Some(of_version) = &kind.schema {
            schema = of_version.source().clone();
            if let Some(properties) = schema["properties"].as_object_mut() {
                properties.retain(|name, _| !["apiVersion", "kind", "metadata"].contains(&&**name));
            }
            schema["properties"]["apiVersion"] = json!({"type": "string"});
            schema["properties"]["kind"] = json!({"type": "string"});
            schema["properties"]["metadata"] = self.schema(facts::metadata());
        }
        let group = kind.group.rsplit('.').collect::<Vec<_>>().join(".");
        let name = format!("{group}.{}.{}", kind.version, kind.kind);
        self.0.insert(name.clone(), schema);
        name
    }

    /// Adds a type of the built-in kinds.
    fn add_named(&mut self, name: &str) {
        if self.0.contains_key(name) {
            return;
        }
        // Ends the recursion of types that contain themselves.
        self.0.insert(name.to_owned(), Value::Null);
        let mut schema = json!({"type": "object"});
        if let Some(of @ Type { shape: Shape::Map { fields, is_atomic, .. }, .. }) = facts::named(name) {
            let properties = fields.iter().map(|field| (field.name.to_string(), self.property(of, field)));
            schema["properties"] = properties.collect::<Map<_, _>>().into();
            if *is_atomic {
                schema["x-kubernetes-map-type"] = json!("atomic");
            }
        }
        self.0.insert(name.to_owned(), schema);
    }

    fn property(&mut self, of: Type<'static>, field: &Field) -> Value {
        let schema = self.schema(of.types.at(field.place));
        let Some(strategy) = field.strategy else { return schema };
        let mut schema = with_siblings(schema);
        schema["x-kubernetes-patch-strategy"] = json!(strategy.names.replace('+', ","));
        if let Some(key) = strategy.merge_key {
            schema["x-kubernetes-patch-merge-key"] = json!(key);
        }
        schema
    }

    fn schema(&mut self, of: Type<'static>) -> Value {
        match of.shape {
            Shape::Scalar(scalar) => self.scalar(*scalar),
            Shape::Map { name, is_atomic, .. } if !name.is_empty() => {
                self.add_named(name);
                let schema = reference(name);
                match (facts::named(name).map(|of| of.shape), is_atomic) {
                    (Some(Shape::Map { is_atomic: true, .. }), false) => with("granular", schema),
                    (Some(Shape::Map { is_atomic: false, .. }), true) => with("atomic", schema),
                    (_, true | false) => schema,
                }
            }
            Shape::Map { values, is_atomic, .. } => {
                let values = values.map_or_else(anything, |place| self.schema(of.types.at(place)));
                let schema = json!({"type": "object", "additionalProperties": values});
                if *is_atomic { with("atomic", schema) } else { schema }
            }
            Shape::List { items, kind } => {
                let mut schema = json!({"type": "array", "items": self.schema(of.types.at(*items))});
                schema["x-kubernetes-list-type"] = json!(match kind {
                    ListKind::Atomic => "atomic",
                    ListKind::Set => "set",
                    ListKind::Map(_) => "map",
                });
                if let ListKind::Map(keys) = kind {
                    schema["x-kubernetes-list-map-keys"] = keys.iter().map(|key| &*key.name).collect();
                }
                schema
            }
            Shape::Any | Shape::Whole => anything(),
            Shape::Metadata => self.schema(facts::metadata()),
        }
    }

    fn scalar(&mut self, scalar: Scalar) -> Value {
        match scalar {
            Scalar::String => json!({"type": "string"}),
            Scalar::Bytes => json!({"type": "string", "format": "byte"}),
            Scalar::Int => json!({"type": "integer", "format": "int32"}),
            Scalar::Long => json!({"type": "integer", "format": "int64"}),
            Scalar::Number => json!({"type": "number", "format": "double"}),
            Scalar::Bool => json!({"type": "boolean"}),
            Scalar::Time => json!({"type": "string", "format": "date-time"}),
            Scalar::Quantity => {
                self.0.insert("Quantity".into(), json!({"oneOf": [{"type": "string"}, {"type": "number"}]}));
                reference("Quantity")
            }
            Scalar::IntOrString => {
                let schema = json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]});
                self.0.insert("IntOrString".into(), schema);
                reference("IntOrString")
            }
            Scalar::Any => anything(),
        }
    }
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// A schema that may get further keywords: a reference has none.
fn with_siblings(schema: Value) -> Value {
    if schema.get("$ref").is_some() { json!({ "allOf": [schema] }) } else { schema }
}

fn with(map_type: &str, schema: Value) -> Value {
    let mut schema = with_siblings(schema);
    schema["x-kubernetes-map-type"] = json!(map_type);
    schema
}

/// `kubectl explain` fails if it finds an empty schema.
fn anything() -> Value {
    json!({"x-kubernetes-preserve-unknown-fields": true})
}

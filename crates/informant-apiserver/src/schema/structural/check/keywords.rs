//! Checks the keywords of a schema: which of them Kubernetes supports, and which fit together.

use serde_json::json;

use crate::schema::structural::{
    Rule, Schema, SchemaOr, Violation, check::field_path, path::Path, rules, rules::RuleChecks,
};

/// What the surroundings of a schema forbid.
#[derive(Clone, Copy, Default)]
struct Surroundings<'a> {
    /// The reason why defaults are forbidden.
    no_defaults: Option<&'a str>,
    is_inside_meta: bool,
    /// The part of the schema in which old values cannot be matched with new ones.
    unmatched: Option<&'a Path<'a>>,
    /// How many values of one object the schema applies to at most; 0 counts as 1.
    count: u64,
}

impl Surroundings<'_> {
    /// Multiplies the count by the number of items of a list or map.
    fn repeated(mut self, list: &Schema) -> Self {
        self.count = self.count.max(1).saturating_mul(rules::most_items(list));
        self
    }
}

/// Adds the violations of a schema. CEL rules are compiled if the whole schema is structural.
pub(super) fn check(schema: &Schema, path: &Path<'_>, compiles_rules: bool, found: &mut Vec<Violation>) {
    let mut checks = Checks { compiles_rules, found, rules: RuleChecks::default() };
    checks.node(schema, path, Position::Root, Surroundings::default());
    let Checks { rules, found, .. } = checks;
    rules.finish(path, found);
}

/// Checks a root whose kind has the status subresource: the status is validated alone, so nothing at the root may combine it with the
/// rest.
pub(super) fn check_root_with_status(schema: &Schema, path: &Path<'_>, found: &mut Vec<Violation>) {
    if !["", "object"].contains(&&*schema.type_name) {
        let why =
            r#"only "object" is allowed as the type at the root of the schema if the status subresource is enabled"#;
        found.push(Violation::invalid(&path.field("type"), &format!("{:?}", schema.type_name), why));
        return;
    }
    let is_combined = [&schema.all_of, &schema.any_of, &schema.one_of].into_iter().any(|list| !list.is_empty());
    let has_others = schema.not.is_some()
        || !schema.enumeration.is_empty()
        || schema.additional_properties.is_some()
        || schema.max_properties.is_some()
        || schema.min_properties.is_some()
        || schema.default.is_some()
        || schema.nullable;
    if is_combined || has_others {
        let why = "only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength \
                   Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example \
                   XPreserveUnknownFields XValidations] fields are allowed at the root of the schema if the status subresource is \
                   enabled";
        found.push(Violation::invalid(path, "{…}", why));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Root,
    /// A property, an item, or a value of a map.
    Inner,
    /// A part of `allOf`, `anyOf`, `oneOf` or `not`.
    Combined,
}

struct Checks<'a> {
    compiles_rules: bool,
    found: &'a mut Vec<Violation>,
    rules: RuleChecks,
}

impl Checks<'_> {
    fn node(&mut self, schema: &Schema, path: &Path<'_>, position: Position, around: Surroundings<'_>) {
        let before = self.found.len();
        self.support(schema, path, around);
        self.properties(schema, path, position, around);
        for (name, list) in [("allOf", &schema.all_of), ("oneOf", &schema.one_of), ("anyOf", &schema.any_of)] {
            for (index, part) in list.iter().enumerate() {
                self.node(part, &path.field(name).index(index), Position::Combined, around);
            }
        }
        if let Some(not) = &schema.not {
            self.node(not, &path.field("not"), Position::Combined, around);
        }
        if let Some(of_items) = schema.item() {
            let is_map = schema.list_type.as_deref() == Some("map");
            let unmatched = around.unmatched.or((!is_map).then_some(path));
            let position = if position == Position::Combined { position } else { Position::Inner };
            self.node(of_items, &path.field("items"), position, Surroundings { unmatched, ..around }.repeated(schema));
        }
        self.extensions(schema, path);
        self.list_keys(schema, path);
        for (index, rule) in schema.rules.iter().enumerate() {
            self.rule(schema, rule, &path.field("x-kubernetes-validations").index(index));
        }
        let compiles = self.compiles_rules && self.found.len() == before && position != Position::Combined;
        if compiles && !schema.rules.is_empty() {
            let is_resource = position == Position::Root || schema.is_embedded_resource;
            let place = rules::RulePlace { count: around.count.max(1), unmatched: around.unmatched, is_resource };
            self.rules.check(schema, place, path);
        }
    }

    fn forbid(&mut self, is_set: bool, path: &Path<'_>, name: &str, why: &str) {
        if is_set {
            self.found.push(Violation::forbidden(&path.field(name), why));
        }
    }

    /// The keywords that Kubernetes does not support.
    fn support(&mut self, schema: &Schema, path: &Path<'_>, around: Surroundings<'_>) {
        const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
        if !schema.type_name.is_empty() && !TYPES.contains(&&*schema.type_name) {
            let value = format!("{:?}", schema.type_name);
            self.found.push(Violation::unsupported(&path.field("type"), &value, TYPES.map(str::to_owned)));
        }
        if let (Some(why), true) = (around.no_defaults, schema.default.is_some()) {
            self.forbid(true, path, "default", &format!("must not be set {why}"));
        }
        self.forbid(schema.id.is_some(), path, "id", "id is not supported");
        self.forbid(schema.additional_items.is_some(), path, "additionalItems", "additionalItems is not supported");
        self.forbid(
            schema.pattern_properties.is_some(),
            path,
            "patternProperties",
            "patternProperties is not supported",
        );
        self.forbid(schema.definitions.is_some(), path, "definitions", "definitions is not supported");
        self.forbid(schema.dependencies.is_some(), path, "dependencies", "dependencies is not supported");
        self.forbid(schema.reference.is_some(), path, "$ref", "$ref is not supported");
        let is_null = schema.type_name == "null";
        self.forbid(is_null, path, "type", "type cannot be set to null, use nullable as an alternative");
        let is_list = matches!(schema.items, Some(SchemaOr::List));
        self.forbid(is_list, path, "items", "items must be a schema object and not an array");
        let is_inside = around.is_inside_meta && schema.is_embedded_resource;
        self.forbid(is_inside, path, "x-kubernetes-embedded-resource", "must not be used inside of resource meta");
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        self.forbid(schema.unique_items, path, "uniqueItems", why);
    }

    fn properties(&mut self, schema: &Schema, path: &Path<'_>, position: Position, around: Surroundings<'_>) {
        if let Some(additional) = &schema.additional_properties {
            let is_restricted = !matches!(additional, SchemaOr::Bool(true));
            let why = "additionalProperties and properties are mutual exclusive";
            self.forbid(is_restricted && !schema.properties.is_empty(), path, "additionalProperties", why);
        }
        let inner = if position == Position::Combined { position } else { Position::Inner };
        if let Some(additional) = schema.additional() {
            let of_meta = around.is_inside_meta.then_some("inside additionalProperties applying to object metadata");
            let no_defaults = of_meta.or(around.no_defaults);
            let around = Surroundings { no_defaults, ..around }.repeated(schema);
            self.node(additional, &path.field("additionalProperties"), inner, around);
        }
        for (name, property) in &schema.properties {
            let is_meta = ["metadata", "kind", "apiVersion"].contains(&&**name);
            let is_resource = position == Position::Root || schema.is_embedded_resource;
            let of_root = format!("in top-level {name}");
            let mut around = around;
            around.is_inside_meta |= is_resource && is_meta;
            if position == Position::Root && is_meta {
                around.no_defaults = Some(&of_root);
            }
            self.node(property, &path.field("properties").key(name), inner, around);
        }
    }

    fn extensions(&mut self, schema: &Schema, path: &Path<'_>) {
        if schema.preserve_unknown_fields == Some(false) {
            let place = path.field("x-kubernetes-preserve-unknown-fields");
            self.found.push(Violation::invalid(&place, "false", "must be true or undefined"));
        }
        let types = [
            ("x-kubernetes-map-type", schema.map_type.as_deref(), "object", &["atomic", "granular"][..]),
            ("x-kubernetes-list-type", schema.list_type.as_deref(), "array", &["atomic", "set", "map"]),
        ];
        for (name, given, expected, supported) in types {
            let Some(given) = given else { continue };
            if schema.type_name != expected {
                let why = format!("must be {expected} if {name} is specified");
                let place = path.field("type");
                self.found.push(match schema.type_name.is_empty() {
                    true => Violation::required(&place, &why),
                    false => Violation::invalid(&place, &format!("{:?}", schema.type_name), &why),
                });
            }
            if !supported.contains(&given) {
                let supported = supported.iter().map(|name| (*name).to_owned());
                self.found.push(Violation::unsupported(&path.field(name), &format!("{given:?}"), supported));
            }
        }
        if let (Some("set"), "array", Some(item)) = (schema.list_type.as_deref(), &*schema.type_name, schema.item()) {
            let wrong = match &*item.type_name {
                "array" if !matches!(item.list_type.as_deref(), None | Some("atomic")) => {
                    Some("x-kubernetes-list-type")
                }
                "object" if item.map_type.as_deref() != Some("atomic") => Some("x-kubernetes-map-type"),
                _ => None,
            };
            if let Some(name) = wrong {
                let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
                let value = json!(item.list_type).to_string();
                self.found.push(Violation::invalid(&path.field("items").field(name), &value, why));
            }
        }
    }

    /// The keys of lists that are maps; the items of maps and sets.
    fn list_keys(&mut self, schema: &Schema, path: &Path<'_>) {
        let list_type = schema.list_type.as_deref();
        let place = path.field("x-kubernetes-list-type");
        if !schema.list_map_keys.is_empty() && list_type != Some("map") {
            let why = "must be map if x-kubernetes-list-map-keys is non-empty";
            self.found.push(match list_type {
                None => Violation::required(&place, why),
                Some(given) => Violation::invalid(&place, &format!("{given:?}"), why),
            });
        }
        let items = path.field("items");
        if let (Some(name @ ("set" | "map")), Some(item)) = (list_type, schema.item()) {
            self.forbid(
                item.nullable,
                &items,
                "nullable",
                &format!("cannot be nullable when x-kubernetes-list-type is {name}"),
            );
        }
        if list_type != Some("map") {
            return;
        }
        let keys = path.field("x-kubernetes-list-map-keys");
        if schema.list_map_keys.is_empty() {
            self.found.push(Violation::required(&keys, "must not be empty if x-kubernetes-list-type is map"));
        }
        let Some(item) = schema.item() else {
            self.found.push(Violation::required(&items, "must have a schema if x-kubernetes-list-type is map"));
            return;
        };
        if item.type_name != "object" {
            let why = "must be object if parent array's x-kubernetes-list-type is map";
            self.found.push(Violation::invalid(&items.field("type"), &format!("{:?}", item.type_name), why));
            return;
        }
        let given = json!(schema.list_map_keys).to_string();
        for (position, key) in schema.list_map_keys.iter().enumerate() {
            let properties = items.field("properties");
            let place = properties.key(key);
            match item.properties.get(key) {
                None => {
                    self.found.push(Violation::invalid(&keys, &given, "entries must all be names of item properties"));
                }
                Some(property) => {
                    if ["array", "object"].contains(&&*property.type_name) {
                        let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                        self.found.push(Violation::invalid(&place.field("type"), "\"object\"", why));
                    }
                    if !item.required.contains(key) && property.default.is_none() {
                        let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                        self.found.push(Violation::required(&place.field("default"), why));
                    }
                    let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                    self.forbid(property.nullable, &place, "nullable", why);
                }
            }
            if schema.list_map_keys[..position].contains(key) {
                self.found.push(Violation::invalid(&keys, &given, "must not contain duplicate entries"));
            }
        }
    }

    /// The parts of a CEL rule, without compiling it.
    fn rule(&mut self, schema: &Schema, rule: &Rule, path: &Path<'_>) {
        const REASONS: [&str; 4] =
            ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
        let has_break = |text: &str| text.contains(['\n', '\r']);
        let is_blank = |text: &str| !text.is_empty() && text.trim().is_empty();
        let quoted = |text: &str| json!(text).to_string();
        if rule.rule.trim().is_empty() {
            self.found.push(Violation::required(&path.field("rule"), "rule is not specified"));
        } else if is_blank(&rule.message) {
            let why = "must be non-empty if specified";
            self.found.push(Violation::invalid(&path.field("message"), &quoted(&rule.message), why));
        } else if has_break(rule.message.trim()) {
            let why = "must not contain line breaks";
            self.found.push(Violation::invalid(&path.field("message"), &quoted(&rule.message), why));
        } else if has_break(rule.rule.trim()) && rule.message.is_empty() {
            let why = "message must be specified if rule contains line breaks";
            self.found.push(Violation::required(&path.field("message"), why));
        }
        if is_blank(&rule.message_expression) {
            let why = "messageExpression must be non-empty if specified";
            self.found.push(Violation::required(&path.field("messageExpression"), why));
        }
        if let Some(reason) = rule.reason.as_ref().filter(|reason| !REASONS.contains(&&***reason)) {
            let supported = REASONS.map(str::to_owned);
            self.found.push(Violation::unsupported(&path.field("reason"), &quoted(reason), supported));
        }
        let place = path.field("fieldPath");
        if is_blank(&rule.field_path) {
            let why = "must be non-empty if specified";
            self.found.push(Violation::invalid(&place, &quoted(&rule.field_path), why));
        }
        if has_break(&rule.field_path) {
            self.found.push(Violation::invalid(&place, &quoted(&rule.field_path), "must not contain line breaks"));
        }
        if !rule.field_path.is_empty() && field_path::normalize(&rule.field_path, schema).is_none() {
            self.found.push(Violation::invalid(&place, &quoted(&rule.field_path), "must be a valid path"));
        }
    }
}

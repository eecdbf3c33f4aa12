//! Checks that a schema is structural: each field has one type outside of `allOf`, `anyOf`, `oneOf` and `not`, which only restrict
//! values.

use crate::schema::structural::{Schema, SchemaOr, Violation, path::Path};

/// The violations of the rules for structural schemas, sorted.
pub(super) fn check(schema: &Schema, path: &Path<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    check_node(schema, Level::Root, path, &mut found);
    check_completeness(schema, Some(schema), path, path, &mut found);
    found.sort_by_cached_key(Violation::as_text);
    found
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

fn check_node(schema: &Schema, level: Level, path: &Path<'_>, found: &mut Vec<Violation>) {
    if schema.type_name == "array" && schema.items.is_none() {
        found.push(Violation::required(&path.field("items"), "must be specified"));
    }
    if let Some(of_items) = schema.item() {
        check_node(of_items, Level::Item, &path.field("items"), found);
    }
    for (name, property) in &schema.properties {
        check_node(property, Level::Field, &path.field("properties").key(name), found);
    }
    if schema.additional_properties.is_some() && level == Level::Root {
        found.push(Violation::forbidden(&path.field("additionalProperties"), "must not be used at the root"));
    }
    if let Some(additional) = schema.additional() {
        check_node(additional, Level::Field, &path.field("additionalProperties"), found);
    }
    check_extensions(schema, path, found);
    let values = ValueChecks {
        skip_any_of: is_int_or_string(&schema.any_of),
        skip_first_all_of: has_int_or_string_first(schema),
    };
    check_values(schema, values, path, found);
    check_type(schema, level, path, found);
    check_meta_fields(schema, level, path, found);
}

fn check_extensions(schema: &Schema, path: &Path<'_>, found: &mut Vec<Violation>) {
    let contradictions = [
        ("x-kubernetes-preserve-unknown-fields", schema.preserves_unknown_fields()),
        ("x-kubernetes-embedded-resource", schema.is_embedded_resource),
    ];
    for (name, is_set) in contradictions {
        if schema.is_int_or_string && is_set {
            let why = "must be false if x-kubernetes-int-or-string is true";
            found.push(Violation::invalid(&path.field(name), "true", why));
        }
    }
}

fn check_type(schema: &Schema, level: Level, path: &Path<'_>, found: &mut Vec<Violation>) {
    let place = path.field("type");
    let quoted = format!("{:?}", schema.type_name);
    let needs_type = !schema.is_int_or_string && !schema.preserves_unknown_fields();
    if schema.is_embedded_resource && schema.type_name != "object" {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        found.push(match schema.type_name.is_empty() {
            true => Violation::required(&place, why),
            false => Violation::invalid(&place, &quoted, why),
        });
    } else if schema.type_name.is_empty() && needs_type {
        let why = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        found.push(Violation::required(&place, why));
    }
    if level == Level::Root && !["", "object"].contains(&&*schema.type_name) {
        found.push(Violation::invalid(&place, &quoted, "must be object at the root"));
    }
}

/// Checks the properties `kind`, `apiVersion` and `metadata`, and that an embedded resource has properties.
fn check_meta_fields(schema: &Schema, level: Level, path: &Path<'_>, found: &mut Vec<Violation>) {
    let is_resource = level == Level::Root || schema.is_embedded_resource;
    if schema.is_embedded_resource && schema.additional_properties.is_some() {
        let why = "must not be used if x-kubernetes-embedded-resource is set";
        found.push(Violation::forbidden(&path.field("additionalProperties"), why));
    }
    let properties = path.field("properties");
    for (name, expected) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        let wrong = schema.properties.get(name).filter(|property| is_resource && property.type_name != expected);
        if let Some(property) = wrong {
            let value = format!("{:?}", property.type_name);
            let why = format!("must be {expected}");
            found.push(Violation::invalid(&properties.key(name).field("type"), &value, &why));
        }
    }
    if let (Level::Root, Some(metadata)) = (level, schema.properties.get("metadata")) {
        let is_restricted = metadata.properties.keys().all(|name| ["name", "generateName"].contains(&&**name));
        if !is_restricted || !has_only_type(metadata) {
            let why =
                "must not specify anything other than name and generateName, but metadata is implicitly specified";
            found.push(Violation::forbidden(&properties.key("metadata"), why));
        }
    }
    if schema.is_embedded_resource && !schema.preserves_unknown_fields() && schema.properties.is_empty() {
        let why =
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        found.push(Violation::required(&properties, why));
    }
}

/// The parts of a schema that may have types, although they only restrict values: those that say "integer or string".
#[derive(Clone, Copy, Default)]
struct ValueChecks {
    skip_any_of: bool,
    skip_first_all_of: bool,
}

fn check_values(schema: &Schema, checks: ValueChecks, path: &Path<'_>, found: &mut Vec<Violation>) {
    let lists = [("anyOf", &schema.any_of), ("allOf", &schema.all_of), ("oneOf", &schema.one_of)];
    for (name, list) in lists {
        if name == "anyOf" && checks.skip_any_of {
            continue;
        }
        for (index, part) in list.iter().enumerate() {
            let checks = ValueChecks {
                skip_any_of: name == "allOf" && index == 0 && checks.skip_first_all_of,
                skip_first_all_of: false,
            };
            check_nested(part, checks, &path.field(name).index(index), found);
        }
    }
    if let Some(not) = &schema.not {
        check_nested(not, ValueChecks::default(), &path.field("not"), found);
    }
    if let Some((pattern, error)) = schema.pattern.as_ref().and_then(|pattern| Some((pattern, pattern.error()?))) {
        let why = format!("must be a valid regular expression, but isn't: {error}");
        found.push(Violation::invalid(&path.field("pattern"), &format!("{:?}", pattern.text()), &why));
    }
}

/// Checks a schema in `allOf`, `anyOf`, `oneOf` or `not`, which may only restrict values.
fn check_nested(schema: &Schema, checks: ValueChecks, path: &Path<'_>, found: &mut Vec<Violation>) {
    check_values(schema, checks, path, found);
    if let Some(of_items) = schema.item() {
        check_nested(of_items, ValueChecks::default(), &path.field("items"), found);
    }
    for (name, property) in &schema.properties {
        check_nested(property, ValueChecks::default(), &path.field("properties").key(name), found);
    }
    let forbidden = [
        ("type", !schema.type_name.is_empty(), "must be empty to be structural"),
        (
            "additionalProperties",
            !matches!(schema.additional_properties, None | Some(SchemaOr::Bool(false))),
            "must be undefined to be structural",
        ),
        ("default", schema.default.is_some(), "must be undefined to be structural"),
        ("title", !schema.title.is_empty(), "must be empty to be structural"),
        ("description", !schema.description.is_empty(), "must be empty to be structural"),
        ("nullable", schema.nullable, "must be false to be structural"),
        ("x-kubernetes-preserve-unknown-fields", schema.preserves_unknown_fields(), "must be false to be structural"),
        ("x-kubernetes-embedded-resource", schema.is_embedded_resource, "must be false to be structural"),
        ("x-kubernetes-int-or-string", schema.is_int_or_string, "must be false to be structural"),
        ("x-kubernetes-list-map-keys", !schema.list_map_keys.is_empty(), "must be empty to be structural"),
        ("x-kubernetes-list-type", schema.list_type.is_some(), "must be undefined to be structural"),
        ("x-kubernetes-map-type", schema.map_type.is_some(), "must be undefined to be structural"),
        ("x-kubernetes-validations", !schema.rules.is_empty(), "must be empty to be structural"),
    ];
    for (name, _, why) in forbidden.iter().filter(|(_, is_set, _)| *is_set) {
        found.push(Violation::forbidden(&path.field(name), why));
    }
    if schema.properties.contains_key("metadata") {
        let why = "must not be specified in a nested context";
        found.push(Violation::forbidden(&path.field("properties").key("metadata"), why));
    }
}

/// Checks that each field in `allOf`, `anyOf`, `oneOf` and `not` is also specified outside of them.
fn check_completeness(
    values: &Schema,
    outside: Option<&Schema>,
    place: &Path<'_>,
    path: &Path<'_>,
    found: &mut Vec<Violation>,
) {
    for (name, list) in [("allOf", &values.all_of), ("anyOf", &values.any_of), ("oneOf", &values.one_of)] {
        for (index, part) in list.iter().enumerate() {
            check_nested_completeness(part, outside, place, &path.field(name).index(index), found);
        }
    }
    if let Some(not) = &values.not {
        check_nested_completeness(not, outside, place, &path.field("not"), found);
    }
}

fn check_nested_completeness(
    values: &Schema,
    outside: Option<&Schema>,
    place: &Path<'_>,
    path: &Path<'_>,
    found: &mut Vec<Violation>,
) {
    let Some(outside) = outside else {
        found.push(Violation::required(place, &format!("because it is defined in {path}")));
        return;
    };
    check_completeness(values, Some(outside), place, path, found);
    if let Some(of_items) = values.item() {
        check_nested_completeness(of_items, outside.item(), &place.field("items"), &path.field("items"), found);
    }
    for (name, property) in &values.properties {
        let (place, path) = (place.field("properties"), path.field("properties"));
        let outside = outside.properties.get(name);
        check_nested_completeness(property, outside, &place.key(name), &path.key(name), found);
    }
}

fn has_int_or_string_first(schema: &Schema) -> bool {
    schema.all_of.first().is_some_and(|first| is_int_or_string(&first.any_of))
}

/// Returns true for `[{"type": "integer"}, {"type": "string"}]`.
fn is_int_or_string(any_of: &[Schema]) -> bool {
    let types: Vec<_> = any_of.iter().map(|schema| &*schema.type_name).collect();
    types == ["integer", "string"] && any_of.iter().all(|part| has_only_type(part) && part.properties.is_empty())
}

/// Returns true for a schema that has nothing but a type, a default and properties.
fn has_only_type(schema: &Schema) -> bool {
    let Schema {
        type_name: _,
        default: _,
        properties: _,
        format,
        nullable,
        additional_properties,
        items,
        preserve_unknown_fields,
        is_embedded_resource,
        is_int_or_string,
        list_type,
        list_map_keys,
        map_type,
        rules,
        enumeration,
        required,
        pattern,
        max_length,
        min_length,
        max_items,
        min_items,
        max_properties,
        min_properties,
        maximum,
        exclusive_maximum,
        minimum,
        exclusive_minimum,
        multiple_of,
        all_of,
        any_of,
        one_of,
        not,
        title,
        description,
        unique_items,
        reference: _,
        dialect: _,
        id: _,
        definitions: _,
        dependencies: _,
        pattern_properties: _,
        additional_items: _,
        has_rules: _,
    } = schema;
    let flags = [nullable, is_embedded_resource, is_int_or_string, exclusive_maximum, exclusive_minimum, unique_items];
    let limits = [max_length, min_length, max_items, min_items, max_properties, min_properties];
    let texts = [format, title, description];
    !flags.into_iter().any(|flag| *flag)
        && limits.into_iter().all(Option::is_none)
        && texts.into_iter().all(String::is_empty)
        && [maximum, minimum, multiple_of].into_iter().all(Option::is_none)
        && [all_of, any_of, one_of].into_iter().all(Vec::is_empty)
        && additional_properties.is_none()
        && items.is_none()
        && preserve_unknown_fields.is_none()
        && list_type.is_none()
        && map_type.is_none()
        && pattern.is_none()
        && not.is_none()
        && list_map_keys.is_empty()
        && rules.is_empty()
        && enumeration.is_empty()
        && required.is_empty()
}

//! Schemas that a definition may not have.

use super::*;

both_ways! {
    a_definition_without_a_schema_is_refused
    a_field_without_a_type_is_refused
    a_schema_that_is_not_structural_is_refused
    a_restriction_of_a_field_that_is_not_specified_is_refused
    unsupported_keywords_are_refused
    an_unknown_type_is_refused
    a_pattern_that_is_no_regular_expression_is_refused
    a_default_that_its_schema_does_not_allow_is_refused
    a_default_with_unknown_fields_is_refused
    metadata_can_only_be_restricted_by_name
    keys_of_a_map_must_be_required_scalars
    extensions_must_fit_the_type
    an_embedded_resource_is_an_object_with_properties
    properties_and_additional_properties_exclude_each_other
    a_root_with_status_has_no_combinations
    an_update_to_an_invalid_schema_is_refused
    a_changed_schema_takes_effect
    a_new_default_is_shown_for_old_objects
    a_deep_schema_is_served_or_refused
    a_huge_schema_is_served
    a_scale_needs_paths_below_spec_and_status
}

/// The causes of the refusal of a definition whose root schema this is, with `S` for the path of the root schema.
async fn refused(api: &Api, schema: Value) -> Vec<String> {
    let answer = api.post(DEFINITIONS, &of_schema(api, schema).definition).await;
    causes(&answer).into_iter().map(|cause| cause.replace("spec.validation.openAPIV3Schema", "S")).collect()
}

/// As [`refused`], for the schema of the field `x`, with `X` for its path.
async fn refused_field(api: &Api, field: Value) -> Vec<String> {
    let causes = refused(api, json!({"type": "object", "properties": {"x": field}})).await;
    causes.into_iter().map(|cause| cause.replace("S.properties[x]", "X")).collect()
}

async fn a_definition_without_a_schema_is_refused(api: Api) {
    let mut widgets = Widgets::new(&api);
    widgets.definition["spec"]["versions"][0].as_object_mut().unwrap().remove("schema");

    let answer = api.post(DEFINITIONS, &widgets.definition).await;

    assert_eq!(causes(&answer), ["Required spec.versions[0].schema.openAPIV3Schema: Required value"]);
    widgets.definition["spec"]["versions"][0]["schema"] = json!({});
    let empty = api.post(DEFINITIONS, &widgets.definition).await;
    assert_eq!(causes(&empty).len(), 1, "{empty:?}");
}

async fn a_field_without_a_type_is_refused(api: Api) {
    assert_eq!(refused(&api, json!({})).await, ["Required S.type: Required value: must not be empty at the root"]);
    assert_eq!(
        refused_field(&api, json!({})).await,
        ["Required X.type: Required value: must not be empty for specified object fields"]
    );
    assert_eq!(
        refused_field(&api, json!({"type": "array", "items": {}})).await,
        ["Required X.items.type: Required value: must not be empty for specified array items"]
    );
    assert_eq!(
        refused_field(&api, json!({"type": "array"})).await,
        ["Required X.items: Required value: must be specified"]
    );
    let root = refused(&api, json!({"type": "string"})).await;
    assert!(
        root.contains(&r#"Invalid S.type: Invalid value: "string": must be object at the root"#.to_owned()),
        "{root:?}"
    );
}

async fn a_schema_that_is_not_structural_is_refused(api: Api) {
    let of = |part: Value| json!({"type": "object", "properties": {"a": {"type": "string"}}, "allOf": [part]});

    for (part, expected) in [
        (json!({"type": "object"}), "Forbidden X.allOf[0].type: Forbidden: must be empty to be structural"),
        (
            json!({"properties": {"a": {"default": "b"}}}),
            "Forbidden X.allOf[0].properties[a].default: Forbidden: must be undefined to be structural",
        ),
        (json!({"nullable": true}), "Forbidden X.allOf[0].nullable: Forbidden: must be false to be structural"),
        (json!({"description": "d"}), "Forbidden X.allOf[0].description: Forbidden: must be empty to be structural"),
        (json!({"title": "t"}), "Forbidden X.allOf[0].title: Forbidden: must be empty to be structural"),
        (
            json!({"additionalProperties": true}),
            "Forbidden X.allOf[0].additionalProperties: Forbidden: must be undefined to be structural",
        ),
        (
            json!({"x-kubernetes-preserve-unknown-fields": true}),
            "Forbidden X.allOf[0].x-kubernetes-preserve-unknown-fields: Forbidden: must be false to be structural",
        ),
    ] {
        assert_eq!(refused_field(&api, of(part)).await, [expected]);
    }
}

async fn a_restriction_of_a_field_that_is_not_specified_is_refused(api: Api) {
    let refused = async |restriction: Value| {
        let mut schema = restriction;
        schema["type"] = json!("object");
        let mut widgets = of_schema(&api, schema);
        widgets.definition["spec"]["versions"][0]["subresources"] = json!(null);
        let causes = causes(&api.post(DEFINITIONS, &widgets.definition).await);
        causes.into_iter().map(|cause| cause.replace("spec.validation.openAPIV3Schema", "S")).collect::<Vec<_>>()
    };

    assert_eq!(
        refused(json!({"anyOf": [{"properties": {"a": {"minLength": 1}}}]})).await,
        ["Required S.properties[a]: Required value: because it is defined in S.anyOf[0].properties[a]"]
    );
    assert_eq!(
        refused(json!({"not": {"items": {"minLength": 1}}})).await,
        ["Required S.items: Required value: because it is defined in S.not.items"]
    );
}

async fn unsupported_keywords_are_refused(api: Api) {
    for (name, value) in [
        ("$ref", json!("#/definitions/a")),
        ("definitions", json!({"a": {"type": "string"}})),
        ("dependencies", json!({"a": ["b"]})),
        ("patternProperties", json!({"a": {"type": "string"}})),
        ("id", json!("a")),
    ] {
        let causes = refused_field(&api, json!({"type": "object", name: value})).await;
        let expected = format!("Forbidden X.{name}: Forbidden: {name} is not supported");
        assert!(causes.contains(&expected), "{causes:?}");
    }
    assert_eq!(
        refused_field(&api, json!({"type": "object", "$schema": "a"})).await,
        [r#"Invalid S: Invalid value: "": OpenAPIV3Schema 'schema' is not supported"#]
    );
    let unique = refused_field(&api, json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true})).await;
    assert_eq!(
        unique,
        [
            "Forbidden X.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        ]
    );
    let list = refused_field(&api, json!({"type": "array", "items": [{"type": "string"}]})).await;
    assert!(
        list.contains(&"Forbidden X.items: Forbidden: items must be a schema object and not an array".to_owned()),
        "{list:?}"
    );
}

async fn an_unknown_type_is_refused(api: Api) {
    let types = r#"supported values: "array", "boolean", "integer", "number", "object", "string""#;

    assert_eq!(
        refused_field(&api, json!({"type": "colour"})).await,
        [format!(r#"NotSupported X.type: Unsupported value: "colour": {types}"#)]
    );
    let null = refused_field(&api, json!({"type": "null"})).await;
    let forbidden =
        "Forbidden X.type: Forbidden: type cannot be set to null, use nullable as an alternative".to_owned();
    assert!(null.contains(&forbidden), "{null:?}");
    let number = api.post(DEFINITIONS, &of_schema(&api, json!({"type": 5})).definition).await;
    assert_eq!(number.failure(), (400, "BadRequest"));
}

async fn a_pattern_that_is_no_regular_expression_is_refused(api: Api) {
    assert_eq!(
        refused_field(&api, json!({"type": "string", "pattern": "(a"})).await,
        [
            r#"Invalid X.pattern: Invalid value: "(a": must be a valid regular expression, but isn't: error parsing regexp: missing closing ): `(a`"#
        ]
    );
    for pattern in ["[a", "*a", "a{2,1}", r"a\y", "a(?=b)"] {
        let causes = refused_field(&api, json!({"type": "string", "pattern": pattern})).await;
        assert!(causes[0].contains("must be a valid regular expression"), "{causes:?}");
    }
}

async fn a_default_that_its_schema_does_not_allow_is_refused(api: Api) {
    assert_eq!(
        refused_field(&api, json!({"type": "integer", "default": "a"})).await,
        [r#"TypeInvalid X.default: Invalid value: "string":  in body must be of type integer: "string""#]
    );
    let deep = json!({"type": "object", "default": {"a": 5}, "properties": {"a": {"type": "integer", "maximum": 3}}});
    assert_eq!(
        refused_field(&api, deep).await,
        ["Invalid X.default.a: Invalid value: 5: a in body should be less than or equal to 3"]
    );
    let enumeration = json!({"type": "string", "enum": ["a"], "default": "b"});
    assert_eq!(
        refused_field(&api, enumeration).await,
        [r#"NotSupported X.default: Unsupported value: "b": supported values: "a""#]
    );
}

async fn a_default_with_unknown_fields_is_refused(api: Api) {
    let field = json!({"type": "object", "default": {"b": 1}, "properties": {"a": {"type": "integer"}}});

    assert_eq!(
        refused_field(&api, field).await,
        [r#"Invalid X.default: Invalid value: {"b":1}: must not have unknown fields"#]
    );
}

async fn metadata_can_only_be_restricted_by_name(api: Api) {
    let labels = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let metadata = json!({"type": "object", "properties": {"labels": labels}});

    assert_eq!(
        refused(&api, json!({"type": "object", "properties": {"metadata": metadata}})).await,
        [
            "Forbidden S.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified"
        ]
    );
    assert_eq!(
        refused(&api, json!({"type": "object", "properties": {"kind": {"type": "integer"}}})).await,
        [r#"Invalid S.properties[kind].type: Invalid value: "integer": must be string"#]
    );
}

async fn keys_of_a_map_must_be_required_scalars(api: Api) {
    let of = |items: Value, keys: Value| json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys, "items": items});
    let item = |required: Value| json!({"type": "object", "required": required, "properties": {"name": {"type": "string"}, "list": {"type": "object"}}});

    assert_eq!(
        refused_field(&api, of(item(json!([])), json!(["name"]))).await,
        [
            "Required X.items.properties[name].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
        ]
    );
    assert_eq!(
        refused_field(&api, of(item(json!(["list"])), json!(["list"]))).await,
        [
            r#"Invalid X.items.properties[list].type: Invalid value: "object": must be a scalar type if parent array's x-kubernetes-list-type is map"#
        ]
    );
    assert_eq!(
        refused_field(&api, of(item(json!([])), json!(["other"]))).await,
        [
            r#"Invalid X.x-kubernetes-list-map-keys: Invalid value: ["other"]: entries must all be names of item properties"#
        ]
    );
    assert_eq!(
        refused_field(&api, of(json!({"type": "string"}), json!(["name"]))).await,
        [
            r#"Invalid X.items.type: Invalid value: "string": must be object if parent array's x-kubernetes-list-type is map"#
        ]
    );
    assert_eq!(
        refused_field(&api, of(item(json!([])), json!([]))).await,
        ["Required X.x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map"]
    );
}

async fn extensions_must_fit_the_type(api: Api) {
    for (field, expected) in [
        (
            json!({"type": "string", "x-kubernetes-list-type": "set"}),
            r#"Invalid X.type: Invalid value: "string": must be array if x-kubernetes-list-type is specified"#,
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "bag"}),
            r#"NotSupported X.x-kubernetes-list-type: Unsupported value: "bag": supported values: "atomic", "set", "map""#,
        ),
        (
            json!({"type": "string", "x-kubernetes-map-type": "atomic"}),
            r#"Invalid X.type: Invalid value: "string": must be object if x-kubernetes-map-type is specified"#,
        ),
        (
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false}),
            "Invalid X.x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined",
        ),
        (
            json!({"x-kubernetes-int-or-string": true, "x-kubernetes-preserve-unknown-fields": true}),
            "Invalid X.x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if x-kubernetes-int-or-string is true",
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string", "nullable": true}}),
            "Forbidden X.items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is set",
        ),
    ] {
        assert_eq!(refused_field(&api, field).await, [expected]);
    }
}

async fn an_embedded_resource_is_an_object_with_properties(api: Api) {
    assert_eq!(
        refused_field(&api, json!({"type": "object", "x-kubernetes-embedded-resource": true})).await,
        [
            "Required X.properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        ]
    );
    let text =
        json!({"type": "string", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
    assert_eq!(
        refused_field(&api, text).await,
        [r#"Invalid X.type: Invalid value: "string": must be object if x-kubernetes-embedded-resource is true"#]
    );
}

async fn properties_and_additional_properties_exclude_each_other(api: Api) {
    let text = json!({"type": "string"});

    assert_eq!(
        refused_field(&api, json!({"type": "object", "properties": {"a": text}, "additionalProperties": text})).await,
        ["Forbidden X.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"]
    );
    let root = refused(&api, json!({"type": "object", "additionalProperties": text})).await;
    let expected = "Forbidden S.additionalProperties: Forbidden: must not be used at the root";
    assert_eq!((root.len(), &*root[0]), (2, expected), "{root:?}");
}

async fn a_root_with_status_has_no_combinations(api: Api) {
    let causes = refused(&api, json!({"type": "object", "anyOf": [{"required": ["spec"]}]})).await;

    assert_eq!(causes.len(), 1, "{causes:?}");
    assert!(
        causes[0].ends_with("fields are allowed at the root of the schema if the status subresource is enabled"),
        "{causes:?}"
    );
}

async fn an_update_to_an_invalid_schema_is_refused(api: Api) {
    let widgets = with_properties(&api, json!({})).await;

    let schema = json!({"type": "object", "properties": {"x": {}}});
    let place = widgets.place();
    let changed = api.change(&place, |definition| {
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema;
    });

    assert_eq!(causes(&changed.await).len(), 1);
    widgets.forget(&api).await;
}

/// Replaces the schema of the spec.
async fn replace(api: &Api, widgets: &Widgets, properties: Value) {
    let spec = json!({"type": "object", "properties": properties});
    let place = widgets.place();
    let changed = api.change(&place, |definition| {
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec;
    });
    assert_eq!(changed.await.code, 200);
}

async fn a_changed_schema_takes_effect(api: Api) {
    let widgets = with_properties(&api, json!({"a": {"type": "string"}, "b": {"type": "string"}})).await;
    widgets.stored(&api, "a", json!({"a": "1", "b": "2"})).await;
    let before = api.get(&format!("{}/a", widgets.path)).await;

    replace(&api, &widgets, json!({"a": {"type": "string"}, "c": {"type": "integer"}})).await;

    let path = format!("{}/a", widgets.path);
    until(async || api.get(&path).await.body["spec"] == json!({"a": "1"})).await;
    assert_eq!(api.get(&path).await.version(), before.version());
    assert_eq!(widgets.refused(&api, json!({"c": "x"})).await.len(), 1);
    widgets.forget(&api).await;
}

async fn a_new_default_is_shown_for_old_objects(api: Api) {
    let widgets = with_properties(&api, json!({"a": {"type": "string"}})).await;
    widgets.stored(&api, "a", json!({})).await;

    replace(&api, &widgets, json!({"a": {"type": "string", "default": "x"}})).await;

    let path = format!("{}/a", widgets.path);
    until(async || api.get(&path).await.body["spec"] == json!({"a": "x"})).await;
    widgets.forget(&api).await;
}

async fn a_deep_schema_is_served_or_refused(api: Api) {
    let deep = |levels: usize| {
        let (open, close) = (r#"{"type":"object","properties":{"a":"#, "}}");
        format!(r#"{}{{"type":"string"}}{}"#, open.repeat(levels), close.repeat(levels))
    };
    let widgets = with_schema(&api, serde_json::from_str(&deep(20)).unwrap()).await;
    assert_eq!(api.post(&widgets.path, &widgets.widget("a")).await.code, 201);
    widgets.forget(&api).await;

    let marked = of_schema(&api, json!("SCHEMA")).definition.to_string();
    let too_deep = marked.replace("\"SCHEMA\"", &deep(3000)).replace("widgets", "deep").replace("Widget", "Deep");
    let answer = api.send_text(Method::POST, DEFINITIONS, too_deep, &[]).await;
    assert!([201, 400, 413, 422].contains(&answer.code), "{answer:?}");
    api.delete(&widgets.place().replace("widgets", "deep")).await;
    assert_eq!(api.get("/version").await.code, 200);
}

async fn a_huge_schema_is_served(api: Api) {
    let property = |number: usize| {
        let field = json!({"type": "string", "description": "d".repeat(50), "pattern": "^[a-z]+$", "default": "x"});
        (format!("field{number}"), field)
    };
    let properties: serde_json::Map<_, _> = (0..3000).map(property).collect();
    let widgets = with_properties(&api, properties.into()).await;

    let spec = widgets.stored(&api, "a", json!({"field7": "seven"})).await;

    assert_eq!((spec.as_object().map(serde_json::Map::len), &spec["field7"]), (Some(3000), &json!("seven")));
    assert_eq!(widgets.refused(&api, json!({"field7": "7"})).await.len(), 1);
    widgets.forget(&api).await;
}

async fn a_scale_needs_paths_below_spec_and_status(api: Api) {
    let refused = async |scale: Value| {
        let mut widgets = of_schema(&api, json!({"type": "object"}));
        widgets.definition["spec"]["versions"][0]["subresources"] = json!({ "scale": scale });
        causes(&api.post(DEFINITIONS, &widgets.definition).await)
    };

    assert_eq!(
        refused(json!({"specReplicasPath": ".status.size", "statusReplicasPath": ".status.size"})).await,
        [
            r#"Invalid spec.subresources.scale.specReplicasPath: Invalid value: ".status.size": should be a json path under .spec"#
        ]
    );
    assert_eq!(
        refused(json!({"specReplicasPath": ".spec.size", "statusReplicasPath": "size"})).await,
        [
            r#"Invalid spec.subresources.scale.statusReplicasPath: Invalid value: "size": must be a simple json path starting with ."#
        ]
    );
}

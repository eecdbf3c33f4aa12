//! Objects of kinds with a schema.

use super::*;

both_ways! {
    unknown_fields_are_dropped
    unknown_fields_are_kept_where_the_schema_preserves_them
    unknown_fields_are_warned_of_unless_the_client_ignores_them
    a_strict_client_is_refused_for_unknown_fields
    a_strict_patch_with_an_unknown_field_is_refused
    unknown_fields_of_metadata_count_as_unknown
    absent_fields_take_their_defaults
    a_null_becomes_the_default_or_goes
    a_null_stays_where_it_is_allowed
    defaults_are_filled_in_inside_of_lists_maps_and_defaults
    a_default_of_the_status_is_there_from_the_start
    a_value_of_another_type_is_refused
    every_type_accepts_its_own_values
    a_whole_float_is_an_integer
    an_int_or_string_is_either
    a_required_field_must_be_there
    a_value_must_be_one_of_its_enumeration
    a_pattern_must_match
    strings_have_limits_of_length
    numbers_have_limits
    a_number_must_fit_its_format
    lists_and_maps_have_limits_of_size
    formats_of_strings_are_checked
    unknown_formats_are_ignored
    a_set_has_no_item_twice
    a_map_has_no_key_twice
    several_causes_are_told_at_once
    one_of_must_be_exactly_one
    any_of_must_be_at_least_one
    all_of_must_be_all
    not_must_not_be
    a_map_checks_all_its_values
    a_forbidden_property_is_refused
    an_embedded_resource_needs_a_type
    the_metadata_of_an_embedded_resource_is_pruned
    the_name_can_be_restricted
    the_root_can_require_a_field
    an_update_is_checked
    a_patch_is_checked
    what_was_invalid_before_may_stay
    a_write_of_the_status_checks_only_the_status
    a_write_of_the_status_drops_unknown_fields
    a_write_of_the_spec_does_not_touch_the_status
    only_the_spec_raises_the_generation
    a_dry_run_is_checked_and_filled_in_too
    a_large_object_is_checked
}

fn text() -> Value {
    json!({"type": "string"})
}

async fn unknown_fields_are_dropped(api: Api) {
    let inner = json!({"type": "array", "items": {"type": "object", "properties": {"name": text()}}});
    let widgets = with_properties(&api, json!({"colour": text(), "parts": inner})).await;
    let mut widget = widgets.with_spec("a", json!({"colour": "red", "weight": 3, "parts": [{"name": "x", "size": 1}]}));
    widget["other"] = json!(true);

    let created = api.post(&widgets.path, &widget).await;

    assert_eq!(created.code, 201, "{created:?}");
    assert_eq!(created.body["spec"], json!({"colour": "red", "parts": [{"name": "x"}]}));
    assert_eq!(created.body.get("other"), None);
    let read = api.get(&format!("{}/a", widgets.path)).await;
    assert_eq!(read.body, created.body);
    let changed = api.change(&format!("{}/a", widgets.path), |widget| widget["spec"]["weight"] = json!(4)).await;
    assert_eq!((changed.code, changed.version()), (200, created.version()), "nothing has changed");
    widgets.forget(&api).await;
}

async fn unknown_fields_are_kept_where_the_schema_preserves_them(api: Api) {
    let known = json!({"type": "object", "properties": {"a": text()}});
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"known": known}});
    let any = json!({"x-kubernetes-preserve-unknown-fields": true});
    let widgets = with_properties(&api, json!({"free": free, "any": any})).await;

    let spec = widgets.stored(
        &api,
        "a",
        json!({"free": {"x": {"y": [1]}, "known": {"a": "b", "c": "d"}}, "any": [1, {"z": null}], "other": 1}),
    );

    assert_eq!(spec.await, json!({"free": {"x": {"y": [1]}, "known": {"a": "b"}}, "any": [1, {"z": null}]}));
    widgets.forget(&api).await;
}

async fn unknown_fields_are_warned_of_unless_the_client_ignores_them(api: Api) {
    let widgets = with_properties(&api, json!({"colour": text()})).await;
    let widget = |name| widgets.with_spec(name, json!({"colour": "red", "weight": 3, "x": {"y": 1}}));

    let warned = api.post(&widgets.path, &widget("a")).await;
    let also = api.post(&format!("{}?fieldValidation=Warn", widgets.path), &widget("b")).await;
    let ignored = api.post(&format!("{}?fieldValidation=Ignore", widgets.path), &widget("c")).await;

    let expected = [r#"299 - "unknown field \"spec.weight\"""#, r#"299 - "unknown field \"spec.x\"""#];
    assert_eq!((warned.code, warnings(&warned)), (201, expected.to_vec()));
    assert_eq!((also.code, warnings(&also)), (201, expected.to_vec()));
    assert_eq!((ignored.code, warnings(&ignored)), (201, vec![]));
    let patch = json!({"spec": {"weight": 4}});
    let patched = api.patch(&format!("{}/a", widgets.path), MERGE, &patch).await;
    assert_eq!((patched.code, warnings(&patched)), (200, expected[..1].to_vec()), "{patched:?}");
    widgets.forget(&api).await;
}

const MERGE: &str = "application/merge-patch+json";

async fn a_strict_client_is_refused_for_unknown_fields(api: Api) {
    let widgets = with_properties(&api, json!({"colour": text()})).await;
    let strict = format!("{}?fieldValidation=Strict", widgets.path);

    let refused = api.post(&strict, &widgets.with_spec("a", json!({"weight": 3, "parts": [1]}))).await;

    assert_eq!(refused.failure(), (400, "BadRequest"));
    assert_eq!(
        refused.text("/message"),
        r#"Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "spec.parts", unknown field "spec.weight""#
    );
    let accepted = api.post(&strict, &widgets.with_spec("a", json!({"colour": "red"}))).await;
    assert_eq!(accepted.code, 201, "{accepted:?}");
    let mut widget = accepted.body;
    widget["spec"]["weight"] = json!(3);
    let updated = api.put(&format!("{}/a?fieldValidation=Strict", widgets.path), &widget).await;
    assert_eq!(updated.failure(), (400, "BadRequest"));
    widgets.forget(&api).await;
}

async fn a_strict_patch_with_an_unknown_field_is_refused(api: Api) {
    let widgets = with_properties(&api, json!({"colour": text()})).await;
    widgets.stored(&api, "a", json!({})).await;

    let patch = json!({"spec": {"weight": 3}});
    let refused = api.patch(&format!("{}/a?fieldValidation=Strict", widgets.path), MERGE, &patch).await;

    assert_eq!(refused.failure(), (422, "Invalid"));
    assert!(refused.text("/message").contains(r#"strict decoding error: unknown field "spec.weight""#), "{refused:?}");
    widgets.forget(&api).await;
}

async fn unknown_fields_of_metadata_count_as_unknown(api: Api) {
    let widgets = with_properties(&api, json!({})).await;
    let mut widget = widgets.with_spec("a", json!({}));
    widget["metadata"]["colour"] = json!("red");

    let refused = api.post(&format!("{}?fieldValidation=Strict", widgets.path), &widget).await;
    assert_eq!(refused.failure(), (400, "BadRequest"));
    assert!(refused.text("/message").ends_with(r#"unknown field "metadata.colour""#), "{refused:?}");
    let warned = api.post(&widgets.path, &widget).await;
    assert_eq!(warnings(&warned), [r#"299 - "unknown field \"metadata.colour\"""#]);
    assert_eq!(warned.body["metadata"].get("colour"), None);
    widgets.forget(&api).await;
}

async fn absent_fields_take_their_defaults(api: Api) {
    let replicas = json!({"type": "integer", "default": 3});
    let colour = json!({"type": "string", "default": "red"});
    let widgets =
        with_properties(&api, json!({"replicas": replicas, "colour": colour, "on": {"type": "boolean"}})).await;

    assert_eq!(widgets.stored(&api, "a", json!({"colour": "blue"})).await, json!({"colour": "blue", "replicas": 3}));
    let path = format!("{}/a", widgets.path);
    let cleared = api.patch(&path, MERGE, &json!({"spec": {"colour": null, "replicas": 1}})).await;
    assert_eq!(cleared.body["spec"], json!({"colour": "red", "replicas": 1}), "{cleared:?}");
    let without = api
        .post(
            &widgets.path,
            &json!({"apiVersion": cleared.body["apiVersion"], "kind": "Widget", "metadata": {"name": "b"}}),
        )
        .await;
    assert_eq!((without.code, without.body.get("spec")), (201, None), "{without:?}");
    widgets.forget(&api).await;
}

async fn a_null_becomes_the_default_or_goes(api: Api) {
    let widgets = with_properties(&api, json!({"size": {"type": "integer", "default": 1}, "colour": text()})).await;

    assert_eq!(widgets.stored(&api, "a", json!({"size": null, "colour": null})).await, json!({"size": 1}));
    widgets.forget(&api).await;
}

async fn a_null_stays_where_it_is_allowed(api: Api) {
    let nullable = json!({"type": "string", "nullable": true, "default": "red"});
    let plain = json!({"type": "string", "nullable": true});
    let widgets = with_properties(&api, json!({"colour": nullable, "plain": plain})).await;

    assert_eq!(
        widgets.stored(&api, "a", json!({"colour": null, "plain": null})).await,
        json!({"colour": null, "plain": null})
    );
    widgets.forget(&api).await;
}

async fn defaults_are_filled_in_inside_of_lists_maps_and_defaults(api: Api) {
    let port = json!({"type": "object", "properties": {"protocol": {"type": "string", "default": "TCP"}, "port": {"type": "integer"}}});
    let outer = json!({"type": "object", "default": {}, "properties": {"inner": {"type": "integer", "default": 5}}});
    let properties = json!({
        "ports": {"type": "array", "items": port},
        "named": {"type": "object", "additionalProperties": port},
        "outer": outer,
    });
    let widgets = with_properties(&api, properties).await;

    let spec = widgets.stored(&api, "a", json!({"ports": [{"port": 1}, {"protocol": "UDP"}], "named": {"x": {}}}));

    let tcp = json!({"protocol": "TCP"});
    let expected = json!({"ports": [{"port": 1, "protocol": "TCP"}, {"protocol": "UDP"}], "named": {"x": tcp}, "outer": {"inner": 5}});
    assert_eq!(spec.await, expected);
    widgets.forget(&api).await;
}

async fn a_default_of_the_status_is_there_from_the_start(api: Api) {
    let status = json!({"type": "object", "default": {"phase": "New"}, "properties": {"phase": text(), "count": {"type": "integer", "default": 0}}});
    let widgets = with_schema(&api, json!({"type": "object", "properties": {"status": status}})).await;
    let mut widget = widgets.widget("a");
    widget["status"] = json!({"phase": "Sent"});

    let created = api.post(&widgets.path, &widget).await;

    assert_eq!((created.code, &created.body["status"]), (201, &json!({"phase": "New", "count": 0})), "{created:?}");
    widgets.forget(&api).await;
}

async fn a_value_of_another_type_is_refused(api: Api) {
    let properties = json!({
        "text": text(),
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "on": {"type": "boolean"},
        "list": {"type": "array", "items": text()},
        "map": {"type": "object"},
        "time": {"type": "string", "format": "date-time"},
    });
    let widgets = with_properties(&api, properties).await;

    for (field, value, expected, found) in [
        ("text", json!(5), "string", "integer"),
        ("text", json!(5.5), "string", "number"),
        ("text", json!(true), "string", "boolean"),
        ("text", json!({}), "string", "object"),
        ("count", json!("5"), "integer", "string"),
        ("count", json!([]), "integer", "array"),
        ("ratio", json!("1.5"), "number", "string"),
        ("on", json!("true"), "boolean", "string"),
        ("list", json!("a"), "array", "string"),
        ("list", json!({}), "array", "object"),
        ("map", json!([]), "object", "array"),
        ("time", json!(5), "date-time", "int64"),
        ("time", json!(true), "date-time", ""),
    ] {
        let expected = format!(
            "TypeInvalid spec.{field}: Invalid value: {found:?}: spec.{field} in body must be of type {expected}: {found:?}"
        );
        assert_eq!(widgets.refused(&api, json!({ field: value })).await, [expected]);
    }
    let fraction = widgets.refused(&api, json!({"count": 5.5})).await;
    let expected = [
        r#"Invalid <nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.count"#,
        r#"TypeInvalid spec.count: Invalid value: "number": spec.count in body must be of type integer: "number""#,
    ];
    assert_eq!(fraction, expected);
    let item = widgets.refused(&api, json!({"list": ["a", 5]})).await;
    assert_eq!(
        item,
        [
            r#"TypeInvalid spec.list[1]: Invalid value: "integer": spec.list[1] in body must be of type string: "integer""#
        ]
    );
    let null = widgets.refused(&api, json!({"list": [null]})).await;
    assert_eq!(
        null,
        [r#"TypeInvalid spec.list[0]: Invalid value: "null": spec.list[0] in body must be of type string: "null""#]
    );
    let spec = widgets.refused(&api, json!("none")).await;
    assert_eq!(spec, [r#"TypeInvalid spec: Invalid value: "string": spec in body must be of type object: "string""#]);
    widgets.forget(&api).await;
}

async fn every_type_accepts_its_own_values(api: Api) {
    let properties = json!({
        "text": text(),
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "on": {"type": "boolean"},
        "list": {"type": "array", "items": {"type": "number"}},
        "map": {"type": "object", "additionalProperties": text()},
    });
    let widgets = with_properties(&api, properties).await;

    let spec = json!({"text": "", "count": -5, "ratio": 1, "on": false, "list": [1, 1.5], "map": {"a": "b"}});

    assert_eq!(widgets.stored(&api, "a", spec.clone()).await, spec);
    widgets.forget(&api).await;
}

async fn a_whole_float_is_an_integer(api: Api) {
    let widgets = with_properties(&api, json!({"count": {"type": "integer"}})).await;

    assert_eq!(widgets.create(&api, "a", json!({"count": 5.0})).await.code, 201);
    widgets.forget(&api).await;
}

async fn an_int_or_string_is_either(api: Api) {
    let port = json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]});
    let widgets = with_properties(&api, json!({"port": port, "bare": {"x-kubernetes-int-or-string": true}})).await;

    for (name, spec) in [("a", json!({"port": 80, "bare": "http"})), ("b", json!({"port": "http", "bare": 1}))] {
        assert_eq!(widgets.stored(&api, name, spec.clone()).await, spec);
    }
    assert_eq!(
        widgets.refused(&api, json!({"bare": true})).await,
        [
            r#"TypeInvalid spec.bare: Invalid value: "boolean": spec.bare in body must be of type integer,string: "boolean""#
        ]
    );
    let port = widgets.refused(&api, json!({"port": true})).await.join("\n");
    assert!(
        port.contains(r#"Invalid <nil>: Invalid value: "": "spec.port" must validate at least one schema (anyOf)"#),
        "{port}"
    );
    widgets.forget(&api).await;
}

async fn a_required_field_must_be_there(api: Api) {
    let inner = json!({"type": "object", "required": ["name"], "properties": {"name": text()}});
    let spec = json!({"type": "object", "required": ["size"], "properties": {"size": text(), "inner": inner, "list": {"type": "array", "items": inner}}});
    let widgets = with_schema(&api, json!({"type": "object", "properties": {"spec": spec}})).await;

    assert_eq!(widgets.refused(&api, json!({})).await, ["Required spec.size: Required value"]);
    assert_eq!(
        widgets.refused(&api, json!({"inner": {}, "size": "", "list": [{"name": ""}, {}]})).await,
        ["Required spec.inner.name: Required value", "Required spec.list[1].name: Required value"]
    );
    assert_eq!(widgets.refused(&api, json!({"size": null})).await, ["Required spec.size: Required value"]);
    widgets.forget(&api).await;
}

async fn a_value_must_be_one_of_its_enumeration(api: Api) {
    let properties = json!({
        "colour": {"type": "string", "enum": ["red", "blue"]},
        "level": {"type": "integer", "enum": [1, 2]},
    });
    let widgets = with_properties(&api, properties).await;

    assert_eq!(
        widgets.refused(&api, json!({"colour": "green"})).await,
        [r#"NotSupported spec.colour: Unsupported value: "green": supported values: "red", "blue""#]
    );
    assert_eq!(
        widgets.refused(&api, json!({"level": 3})).await,
        [r#"NotSupported spec.level: Unsupported value: 3: supported values: "1", "2""#]
    );
    assert_eq!(widgets.create(&api, "a", json!({"colour": "red", "level": 2})).await.code, 201);
    widgets.forget(&api).await;
}

async fn a_pattern_must_match(api: Api) {
    let widgets = with_properties(&api, json!({"name": {"type": "string", "pattern": r"^[a-z]\d+$"}})).await;

    assert_eq!(
        widgets.refused(&api, json!({"name": "A1"})).await,
        [r#"Invalid spec.name: Invalid value: "A1": spec.name in body should match '^[a-z]\d+$'"#]
    );
    assert_eq!(widgets.create(&api, "a", json!({"name": "a12"})).await.code, 201);
    assert_eq!(widgets.refused(&api, json!({"name": "a١"})).await.len(), 1, "digits are ASCII");
    widgets.forget(&api).await;
}

async fn strings_have_limits_of_length(api: Api) {
    let widgets = with_properties(&api, json!({"name": {"type": "string", "minLength": 2, "maxLength": 3}})).await;

    assert_eq!(
        widgets.refused(&api, json!({"name": "a"})).await,
        [r#"Invalid spec.name: Invalid value: "a": spec.name in body should be at least 2 chars long"#]
    );
    assert_eq!(
        widgets.refused(&api, json!({"name": "abcd"})).await,
        ["TooLong spec.name: Too long: may not be more than 3 bytes"]
    );
    assert_eq!(widgets.create(&api, "a", json!({"name": "äöü"})).await.code, 201);
    widgets.forget(&api).await;
}

async fn numbers_have_limits(api: Api) {
    let properties = json!({
        "count": {"type": "integer", "minimum": 1, "maximum": 10, "multipleOf": 5},
        "ratio": {"type": "number", "minimum": 0, "exclusiveMinimum": true, "maximum": 1.5, "exclusiveMaximum": true},
    });
    let widgets = with_properties(&api, properties).await;

    for (spec, why) in [
        (json!({"count": 15}), "15: spec.count in body should be less than or equal to 10"),
        (json!({"count": 0}), "0: spec.count in body should be greater than or equal to 1"),
        (json!({"count": 7}), "7: spec.count in body should be a multiple of 5"),
        (json!({"ratio": 1.5}), "1.5: spec.ratio in body should be less than 1.5"),
        (json!({"ratio": 0}), "0: spec.ratio in body should be greater than 0"),
        (json!({"ratio": 2}), "2: spec.ratio in body should be less than 1"),
    ] {
        let field = why.split(' ').nth(1).unwrap();
        assert_eq!(widgets.refused(&api, spec).await, [format!("Invalid {field}: Invalid value: {why}")]);
    }
    assert_eq!(widgets.create(&api, "a", json!({"count": 5, "ratio": 0.5})).await.code, 201);
    widgets.forget(&api).await;
}

async fn a_number_must_fit_its_format(api: Api) {
    let widgets = with_properties(&api, json!({"count": {"type": "integer", "format": "int32"}})).await;

    assert_eq!(
        widgets.refused(&api, json!({"count": 3_000_000_000_u64})).await,
        [r#"Invalid <nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.count"#]
    );
    assert_eq!(widgets.create(&api, "a", json!({"count": 2_000_000_000})).await.code, 201);
    widgets.forget(&api).await;
}

async fn lists_and_maps_have_limits_of_size(api: Api) {
    let properties = json!({
        "list": {"type": "array", "minItems": 1, "maxItems": 2, "items": text()},
        "map": {"type": "object", "minProperties": 1, "maxProperties": 2, "additionalProperties": text()},
    });
    let widgets = with_properties(&api, properties).await;

    for (spec, expected) in [
        (json!({"list": []}), "Invalid spec.list: Invalid value: 0: spec.list in body should have at least 1 items"),
        (json!({"list": ["a", "b", "c"]}), "TooMany spec.list: Too many: 3: must have at most 2 items"),
        (json!({"map": {}}), "Invalid spec.map: Invalid value: 0: spec.map in body should have at least 1 properties"),
        (json!({"map": {"a": "", "b": "", "c": ""}}), "TooMany spec.map: Too many: 3: must have at most 2 items"),
    ] {
        assert_eq!(widgets.refused(&api, spec).await, [expected]);
    }
    widgets.forget(&api).await;
}

const FORMATS: [(&str, &[&str], &[&str]); 22] = [
    (
        "date-time",
        &["2026-01-02T03:04:05Z", "2026-01-02t03:04:05.5+01:00"],
        &["2026-01-02", "yesterday", "2026-01-02T25:00:00Z"],
    ),
    ("date", &["2024-02-29"], &["2023-02-29", "2024-2-9"]),
    ("duration", &["1h30m", "-1.5s", "3 weeks", "0"], &["soon", "1"]),
    ("ipv4", &["10.0.0.1", "010.0.0.1"], &["::1", "1.2.3", "1.2.3.256"]),
    ("ipv6", &["::1", "fd00::1"], &["1.2.3.4", "::g"]),
    ("cidr", &["10.0.0.0/8", "fd00::/64"], &["10.0.0.0", "10.0.0.0/33"]),
    ("mac", &["01:23:45:67:89:ab", "01-23-45-67-89-ab", "0123.4567.89ab"], &["01:23", "xx:23:45:67:89:ab"]),
    ("uuid", &["6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6BA7B8109DAD11D180B400C04FD430C8"], &["6ba7b810"]),
    ("uuid3", &["6ba7b810-9dad-31d1-80b4-00c04fd430c8"], &["6ba7b810-9dad-11d1-80b4-00c04fd430c8"]),
    ("uuid4", &["16fd2706-8baf-433b-82eb-8c7fada847da"], &["16fd2706-8baf-433b-12eb-8c7fada847da"]),
    ("uuid5", &["886313e1-3b8a-5372-9b90-0c9aee199e5d"], &["886313e1-3b8a-4372-9b90-0c9aee199e5d"]),
    ("byte", &["YWJj", "YQ=="], &["no base64!", "YQ"]),
    ("uri", &["https://example.com/a?b=c", "/path", "mailto:a@b"], &["no uri", "http://a b/", "/%zz"]),
    ("email", &["ann@example.com", "Ann <ann@example.com>"], &["ann", "ann@", "a b@c"]),
    ("hostname", &["example.com", "a"], &["-a-", "a..b"]),
    ("isbn", &["0321751043", "978-0321751041"], &["0321751044"]),
    ("creditcard", &["4111 1111 1111 1111"], &["4111 1111 1111 1112"]),
    ("ssn", &["111-11-1111"], &["111111111"]),
    ("hexcolor", &["#FFFFFF", "abc"], &["#12"]),
    ("rgbcolor", &["rgb(0, 100, 255)"], &["rgb(0, 100, 256)"]),
    ("bsonobjectid", &["5f6d0f4b2f8fb814b56fa181"], &["5f6d"]),
    ("k8s-short-name", &["a-b"], &["A", "a.b"]),
];

async fn formats_of_strings_are_checked(api: Api) {
    let field = |format: &str| format.replace('-', "");
    let schema = |format: &str| json!({"type": "string", "format": format});
    let properties: serde_json::Map<_, _> =
        FORMATS.iter().map(|(format, _, _)| (field(format), schema(format))).collect();
    let widgets = with_properties(&api, properties.into()).await;

    for (format, good, bad) in FORMATS {
        for value in good {
            let created = widgets.create(&api, "good", json!({field(format): value})).await;
            assert_eq!(created.code, 201, "{format}: {value}: {created:?}");
            api.delete(&format!("{}/good", widgets.path)).await;
        }
        for value in bad {
            let name = field(format);
            let expected = format!(
                "TypeInvalid spec.{name}: Invalid value: {value:?}: spec.{name} in body must be of type {format}: {value:?}"
            );
            assert_eq!(widgets.refused(&api, json!({ name: value })).await, [expected]);
        }
    }
    widgets.forget(&api).await;
}

async fn unknown_formats_are_ignored(api: Api) {
    let widgets = with_properties(&api, json!({"x": {"type": "string", "format": "colour"}})).await;

    assert_eq!(widgets.create(&api, "a", json!({"x": "any"})).await.code, 201);
    widgets.forget(&api).await;
}

async fn a_set_has_no_item_twice(api: Api) {
    let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": text()});
    let widgets = with_properties(&api, json!({"tags": set})).await;

    assert_eq!(
        widgets.refused(&api, json!({"tags": ["a", "b", "a", "a"]})).await,
        [r#"Duplicate spec.tags[2]: Duplicate value: "a""#]
    );
    assert_eq!(widgets.create(&api, "a", json!({"tags": ["a", "b"]})).await.code, 201);
    widgets.forget(&api).await;
}

fn ports() -> Value {
    json!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port", "protocol"],
        "items": {
            "type": "object",
            "required": ["port"],
            "properties": {
                "port": {"type": "integer"},
                "protocol": {"type": "string", "default": "TCP"},
                "name": {"type": "string", "maxLength": 3},
            },
        },
    })
}

async fn a_map_has_no_key_twice(api: Api) {
    let widgets = with_properties(&api, json!({"ports": ports()})).await;

    assert_eq!(
        widgets
            .refused(&api, json!({"ports": [{"port": 1}, {"port": 1, "protocol": "UDP"}, {"port": 1, "name": "x"}]}))
            .await,
        [r#"Duplicate spec.ports[2]: Duplicate value: {"port":1,"protocol":"TCP"}"#]
    );
    widgets.forget(&api).await;
}

async fn several_causes_are_told_at_once(api: Api) {
    let widgets = with_properties(&api, json!({"a": text(), "b": {"type": "integer", "maximum": 1}})).await;

    let refused = widgets.create(&api, "a", json!({"a": 1, "b": 2})).await;

    assert_eq!(causes(&refused).len(), 2, "{refused:?}");
    let group = widgets.definition["spec"]["group"].as_str().unwrap();
    let message = refused.text("/message");
    assert!(message.starts_with(&format!("Widget.{group} \"a\" is invalid: [spec.")), "{message}");
    assert_eq!((refused.text("/details/kind"), refused.text("/details/name")), ("Widget", "a"));
    widgets.forget(&api).await;
}

/// A spec with `a` and `b`, of which `combination` says which must be there.
async fn with_combination(api: &Api, name: &str) -> Widgets {
    let needs = |field: &str| json!({"required": [field]});
    let list = json!([needs("a"), needs("b")]);
    let combination = if name == "not" { needs("a") } else { list };
    let spec = json!({"type": "object", "properties": {"a": text(), "b": text()}, name: combination});
    with_schema(api, json!({"type": "object", "properties": {"spec": spec}})).await
}

async fn one_of_must_be_exactly_one(api: Api) {
    let widgets = with_combination(&api, "oneOf").await;

    let none =
        r#"Invalid <nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found none valid"#;
    assert_eq!(widgets.refused(&api, json!({})).await, [none, "Required spec.a: Required value"]);
    let two = r#"Invalid <nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found 2 valid alternatives"#;
    assert_eq!(widgets.refused(&api, json!({"a": "", "b": ""})).await, [two]);
    assert_eq!(widgets.create(&api, "a", json!({"b": ""})).await.code, 201);
    widgets.forget(&api).await;
}

async fn any_of_must_be_at_least_one(api: Api) {
    let widgets = with_combination(&api, "anyOf").await;

    let none = r#"Invalid <nil>: Invalid value: "": "spec" must validate at least one schema (anyOf)"#;
    assert_eq!(widgets.refused(&api, json!({})).await, [none, "Required spec.a: Required value"]);
    assert_eq!(widgets.create(&api, "a", json!({"a": "", "b": ""})).await.code, 201);
    widgets.forget(&api).await;
}

async fn all_of_must_be_all(api: Api) {
    let widgets = with_combination(&api, "allOf").await;

    let some = r#"Invalid <nil>: Invalid value: "": "spec" must validate all the schemas (allOf)"#;
    assert_eq!(widgets.refused(&api, json!({"a": ""})).await, [some, "Required spec.b: Required value"]);
    let none = format!("{some}. None validated");
    assert_eq!(
        widgets.refused(&api, json!({})).await,
        [&*none, "Required spec.a: Required value", "Required spec.b: Required value"]
    );
    widgets.forget(&api).await;
}

async fn not_must_not_be(api: Api) {
    let widgets = with_combination(&api, "not").await;

    let wrong = r#"Invalid <nil>: Invalid value: "": "spec" must not validate the schema (not)"#;
    assert_eq!(widgets.refused(&api, json!({"a": ""})).await, [wrong]);
    assert_eq!(widgets.create(&api, "a", json!({"b": ""})).await.code, 201);
    widgets.forget(&api).await;
}

async fn a_map_checks_all_its_values(api: Api) {
    let map = json!({"type": "object", "additionalProperties": {"type": "integer", "minimum": 1}});
    let widgets = with_properties(&api, json!({"map": map})).await;

    assert_eq!(
        widgets.refused(&api, json!({"map": {"x": 0, "y": 1}})).await,
        ["Invalid spec.map.x: Invalid value: 0: spec.map.x in body should be greater than or equal to 1"]
    );
    widgets.forget(&api).await;
}

async fn a_forbidden_property_is_refused(api: Api) {
    let widgets = with_properties(&api, json!({"none": {"type": "object", "additionalProperties": false}})).await;

    assert_eq!(
        widgets.refused(&api, json!({"none": {"x": 1}})).await,
        [r#"Invalid spec.none: Invalid value: "x": spec.none.x in body is a forbidden property"#]
    );
    widgets.forget(&api).await;
}

fn embedded() -> Value {
    json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true})
}

async fn an_embedded_resource_needs_a_type(api: Api) {
    let widgets = with_properties(&api, json!({"object": embedded()})).await;

    assert_eq!(
        widgets.refused(&api, json!({"object": {"data": 1}})).await,
        ["Required spec.object.apiVersion: Required value", "Required spec.object.kind: Required value"]
    );
    assert_eq!(
        widgets.refused(&api, json!({"object": {"apiVersion": "", "kind": "Pod"}})).await,
        [r#"Invalid spec.object.apiVersion: Invalid value: "": must not be empty"#]
    );
    assert_eq!(widgets.refused(&api, json!({"object": {"apiVersion": "v1", "kind": "no kind"}})).await.len(), 1);
    let wrong = widgets.create(&api, "a", json!({"object": {"apiVersion": 1, "kind": "Pod"}})).await;
    assert_eq!(wrong.failure(), (400, "BadRequest"), "{wrong:?}");
    let bad_label = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a b": "c"}}});
    let refused = widgets.refused(&api, json!({"object": bad_label})).await;
    assert!(refused[0].starts_with("Invalid spec.object.metadata.labels"), "{refused:?}");
    widgets.forget(&api).await;
}

async fn the_metadata_of_an_embedded_resource_is_pruned(api: Api) {
    let widgets = with_properties(&api, json!({"object": embedded()})).await;

    let metadata = json!({"name": "x", "colour": "red", "labels": {"a": "b"}});
    let spec = widgets.stored(
        &api,
        "a",
        json!({"object": {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "free": {"x": 1}}}),
    );

    let metadata = json!({"name": "x", "labels": {"a": "b"}});
    assert_eq!(
        spec.await,
        json!({"object": {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "free": {"x": 1}}})
    );
    widgets.forget(&api).await;
}

async fn the_name_can_be_restricted(api: Api) {
    let name = json!({"type": "string", "pattern": "^w-", "maxLength": 5});
    let schema =
        json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": name}}}});
    let widgets = with_schema(&api, schema).await;

    let refused = api.post(&widgets.path, &widgets.widget("a")).await;

    assert_eq!(
        causes(&refused),
        [r#"Invalid metadata.name: Invalid value: "a": metadata.name in body should match '^w-'"#]
    );
    assert_eq!(api.post(&widgets.path, &widgets.widget("w-1")).await.code, 201);
    widgets.forget(&api).await;
}

async fn the_root_can_require_a_field(api: Api) {
    let schema = json!({"type": "object", "required": ["spec"], "properties": {"spec": {"type": "object"}}});
    let widgets = with_schema(&api, schema).await;
    let mut widget = widgets.widget("a");
    widget.as_object_mut().unwrap().remove("spec");

    let refused = api.post(&widgets.path, &widget).await;

    assert_eq!(causes(&refused), ["Required spec: Required value"]);
    widgets.forget(&api).await;
}

async fn an_update_is_checked(api: Api) {
    let widgets = with_properties(&api, json!({"size": {"type": "integer", "maximum": 5}})).await;
    widgets.stored(&api, "a", json!({"size": 1})).await;
    let path = format!("{}/a", widgets.path);

    let refused = api.change(&path, |widget| widget["spec"]["size"] = json!(6)).await;

    assert_eq!(
        causes(&refused),
        ["Invalid spec.size: Invalid value: 6: spec.size in body should be less than or equal to 5"]
    );
    assert_eq!(api.get(&path).await.body["spec"], json!({"size": 1}));
    widgets.forget(&api).await;
}

async fn a_patch_is_checked(api: Api) {
    let widgets = with_properties(&api, json!({"size": {"type": "integer", "maximum": 5}})).await;
    widgets.stored(&api, "a", json!({"size": 1})).await;
    let path = format!("{}/a", widgets.path);

    let merged = api.patch(&path, MERGE, &json!({"spec": {"size": "big"}})).await;
    let operated = api
        .patch(&path, "application/json-patch+json", &json!([{"op": "replace", "path": "/spec/size", "value": 6}]))
        .await;

    assert_eq!(
        causes(&merged),
        [r#"TypeInvalid spec.size: Invalid value: "string": spec.size in body must be of type integer: "string""#]
    );
    assert_eq!(causes(&operated).len(), 1);
    widgets.forget(&api).await;
}

async fn what_was_invalid_before_may_stay(api: Api) {
    let properties = |longest: u32| {
        let mut ports = ports();
        ports["items"]["properties"]["name"]["maxLength"] = json!(longest);
        json!({"colour": {"type": "string", "maxLength": longest}, "other": text(), "ports": ports, "list": {"type": "array", "items": {"type": "string", "maxLength": longest}}})
    };
    let widgets = with_properties(&api, properties(9)).await;
    let spec = json!({"colour": "yellow", "ports": [{"port": 1, "name": "first"}], "list": ["first"]});
    widgets.stored(&api, "a", spec).await;
    let path = format!("{}/a", widgets.path);
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties(3)}}});
    let place = widgets.place();
    let stricter = api.change(&place, |definition| {
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema;
    });
    assert_eq!(stricter.await.code, 200);
    until(async || widgets.create(&api, "b", json!({"colour": "yellow"})).await.code == 422).await;

    let kept = api.patch(&path, MERGE, &json!({"spec": {"other": "new"}})).await;
    assert_eq!(kept.code, 200, "{kept:?}");
    let added = json!({"spec": {"ports": [{"port": 2}, {"port": 1, "name": "first"}]}});
    let added = api.patch(&path, MERGE, &added).await;
    assert_eq!(added.code, 200, "an item of a map is found by its key: {added:?}");
    let changed = api.patch(&path, MERGE, &json!({"spec": {"colour": "orange"}})).await;
    assert_eq!(causes(&changed), ["TooLong spec.colour: Too long: may not be more than 3 bytes"]);
    let list = api.patch(&path, MERGE, &json!({"spec": {"list": ["first", "a"]}})).await;
    assert_eq!(causes(&list), ["TooLong spec.list[0]: Too long: may not be more than 3 bytes"]);
    widgets.forget(&api).await;
}

/// Widgets whose spec and status have a `phase` of at most three letters.
async fn with_status(api: &Api) -> Widgets {
    let part = json!({"type": "object", "properties": {"phase": {"type": "string", "maxLength": 3}, "old": text()}});
    with_schema(api, json!({"type": "object", "properties": {"spec": part, "status": part}})).await
}

async fn a_write_of_the_status_checks_only_the_status(api: Api) {
    let widgets = with_status(&api).await;
    widgets.stored(&api, "a", json!({"phase": "New"})).await;
    let path = format!("{}/a/status", widgets.path);

    let wrong_type = api.patch(&path, MERGE, &json!({"status": {"phase": 5}})).await;
    assert_eq!(
        causes(&wrong_type),
        [r#"TypeInvalid status.phase: Invalid value: "integer": phase in body must be of type string: "integer""#]
    );
    let too_long = api.patch(&path, MERGE, &json!({"status": {"phase": "Running"}})).await;
    assert_eq!(causes(&too_long), ["TooLong status.phase: Too long: may not be more than 3 bytes"]);
    let other = api.patch(&path, MERGE, &json!({"spec": {"phase": "Running"}, "status": {"phase": "Run"}})).await;
    assert_eq!(
        (other.code, &other.body["status"]["phase"]),
        (200, &json!("Run")),
        "the spec of a status write is ignored"
    );
    assert_eq!(other.body["spec"], json!({"phase": "New"}));
    widgets.forget(&api).await;
}

async fn a_write_of_the_status_drops_unknown_fields(api: Api) {
    let widgets = with_status(&api).await;
    widgets.stored(&api, "a", json!({})).await;
    let path = format!("{}/a/status", widgets.path);

    let patched = api.patch(&path, MERGE, &json!({"status": {"phase": "Run", "other": 1}})).await;

    assert_eq!((patched.code, &patched.body["status"]), (200, &json!({"phase": "Run"})));
    assert_eq!(warnings(&patched), [r#"299 - "unknown field \"status.other\"""#]);
    widgets.forget(&api).await;
}

async fn a_write_of_the_spec_does_not_touch_the_status(api: Api) {
    let widgets = with_status(&api).await;
    widgets.stored(&api, "a", json!({})).await;
    let path = format!("{}/a", widgets.path);
    api.patch(&format!("{path}/status"), MERGE, &json!({"status": {"phase": "Run"}})).await;

    let changed = api.change(&path, |widget| {
        widget["spec"] = json!({"phase": "a"});
        widget["status"] = json!({"phase": "far too long"});
    });

    let changed = changed.await;
    assert_eq!((changed.code, &changed.body["status"]), (200, &json!({"phase": "Run"})), "{changed:?}");
    assert_eq!(changed.body["spec"], json!({"phase": "a"}));
    widgets.forget(&api).await;
}

async fn only_the_spec_raises_the_generation(api: Api) {
    let widgets = with_status(&api).await;
    widgets.stored(&api, "a", json!({"phase": "a"})).await;
    let path = format!("{}/a", widgets.path);
    let generation = async |path: &str, change: Value| {
        let patched = api.patch(path, MERGE, &change).await;
        assert_eq!(patched.code, 200, "{patched:?}");
        patched.body["metadata"]["generation"].as_u64().unwrap()
    };

    assert_eq!(generation(&path, json!({"metadata": {"labels": {"a": "b"}}})).await, 1);
    assert_eq!(generation(&format!("{path}/status"), json!({"status": {"phase": "Run"}})).await, 1);
    assert_eq!(generation(&path, json!({"spec": {"unknown": 1}})).await, 1);
    assert_eq!(generation(&path, json!({"spec": {"phase": "b"}})).await, 2);
    widgets.forget(&api).await;
}

async fn a_dry_run_is_checked_and_filled_in_too(api: Api) {
    let widgets = with_properties(&api, json!({"size": {"type": "integer", "default": 1}})).await;
    let dry = format!("{}?dryRun=All", widgets.path);

    assert_eq!(causes(&api.post(&dry, &widgets.with_spec("a", json!({"size": "big"}))).await).len(), 1);
    let created = api.post(&dry, &widgets.with_spec("a", json!({"colour": "red"}))).await;
    assert_eq!((created.code, &created.body["spec"]), (201, &json!({"size": 1})));
    assert_eq!(api.get(&format!("{}/a", widgets.path)).await.code, 404);
    widgets.forget(&api).await;
}

async fn a_large_object_is_checked(api: Api) {
    let item = json!({"type": "object", "properties": {"name": {"type": "string", "pattern": "^[a-z0-9-]+$"}}});
    let list = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": {"type": "object", "required": ["name"], "properties": item["properties"]}});
    let widgets = with_properties(&api, json!({"list": list})).await;
    let items: Vec<_> =
        (0..20_000).map(|number| json!({"name": format!("item-{number}"), "unknown": number})).collect();

    let created = api
        .post(&format!("{}?fieldValidation=Ignore", widgets.path), &widgets.with_spec("a", json!({"list": items})))
        .await;
    assert_eq!((created.code, created.body["spec"]["list"].as_array().map(Vec::len)), (201, Some(20_000)));
    let known = |number: usize| json!({"name": format!("item-{number}")});
    let twice: Vec<_> = (0..20_000).chain([0]).map(known).collect();
    assert_eq!(
        widgets.refused(&api, json!({"list": twice})).await,
        [r#"Duplicate spec.list[20000]: Duplicate value: {"name":"item-0"}"#]
    );
    let too_large = widgets.with_spec("b", json!({"list": [{"name": "a".repeat(3 * 1024 * 1024)}]}));
    assert_eq!(api.post(&widgets.path, &too_large).await.code, 413);
    widgets.forget(&api).await;
}

//! CEL rules of custom kinds.

use super::*;

both_ways! {
    an_object_that_breaks_a_rule_is_refused
    a_message_expression_makes_the_message
    reason_and_field_path_are_those_of_the_rule
    rules_hold_for_items_values_and_fields_inside
    a_transition_rule_is_checked_at_updates_only
    an_optional_old_value_is_checked_at_creates_too
    items_of_a_map_are_compared_with_those_of_the_same_key
    what_broke_a_rule_before_may_stay
    rules_know_the_functions_of_kubernetes
    strings_with_formats_are_times_durations_and_bytes
    an_int_or_string_has_the_type_of_its_value
    unusual_names_of_fields_are_escaped
    a_rule_of_the_root_reads_the_name
    rules_wait_until_the_structure_is_right
    a_rule_that_fails_while_it_runs_refuses
    a_write_of_the_status_runs_the_rules_of_the_whole_object
    defaults_are_there_before_rules_run
    a_rule_that_cannot_be_compiled_is_refused
    a_rule_with_unknown_fields_or_variables_is_refused
    a_rule_that_is_no_boolean_is_refused
    a_rule_that_is_too_expensive_is_refused
    an_old_value_that_cannot_be_matched_is_refused
    the_parts_of_a_rule_must_fit
    a_default_that_breaks_a_rule_is_refused
    an_expensive_object_is_refused_and_the_server_stays
    a_deeply_nested_rule_is_run_or_refused
    an_overflow_of_integers_is_refused
}

const MERGE: &str = "application/merge-patch+json";

fn text() -> Value {
    json!({"type": "string"})
}

fn integer() -> Value {
    json!({"type": "integer"})
}

/// A schema with these properties and rules.
fn ruled(properties: Value, rules: Value) -> Value {
    let mut schema = json!({"type": "object"});
    schema["properties"] = properties;
    schema["x-kubernetes-validations"] = rules;
    schema
}

/// Widgets whose spec has these properties and rules.
async fn with_rules(api: &Api, properties: Value, rules: Value) -> Widgets {
    with_schema(api, json!({"type": "object", "properties": {"spec": ruled(properties, rules)}})).await
}

/// The causes of the refusal of a definition with this spec, with `X` for its path.
async fn refused_spec(api: &Api, spec: Value) -> Vec<String> {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let answer = api.post(DEFINITIONS, &of_schema(api, schema).definition).await;
    let path = "spec.validation.openAPIV3Schema.properties[spec]";
    causes(&answer).into_iter().map(|cause| cause.replace(path, "X")).collect()
}

async fn an_object_that_breaks_a_rule_is_refused(api: Api) {
    let small = json!([{"rule": "self < 5", "message": "must be small"}, {"rule": "self != 3"}]);
    let properties =
        json!({"min": integer(), "max": integer(), "size": {"type": "integer", "x-kubernetes-validations": small}});
    let widgets = with_rules(&api, properties, json!([{"rule": "self.min <= self.max"}])).await;

    assert_eq!(
        widgets.refused(&api, json!({"min": 2, "max": 1})).await,
        ["Invalid spec: Invalid value: failed rule: self.min <= self.max"]
    );
    assert_eq!(
        widgets.refused(&api, json!({"min": 1, "max": 2, "size": 7})).await,
        ["Invalid spec.size: Invalid value: 7: must be small"]
    );
    assert_eq!(
        widgets.refused(&api, json!({"min": 1, "max": 2, "size": 3})).await,
        ["Invalid spec.size: Invalid value: 3: failed rule: self != 3"]
    );
    assert_eq!(widgets.create(&api, "a", json!({"min": 1, "max": 2, "size": 4})).await.code, 201);
    widgets.forget(&api).await;
}

async fn a_message_expression_makes_the_message(api: Api) {
    let rule = json!({
        "rule": "self.size <= 3",
        "message": "too large",
        "messageExpression": "self.unit == '' ? '' : 'at most 3 ' + self.unit",
    });
    let unit = json!({"type": "string", "maxLength": 10});
    let widgets = with_rules(&api, json!({"size": integer(), "unit": unit}), json!([rule])).await;

    assert_eq!(
        widgets.refused(&api, json!({"size": 5, "unit": "kg"})).await,
        ["Invalid spec: Invalid value: at most 3 kg"]
    );
    for spec in [json!({"size": 5, "unit": ""}), json!({"size": 5})] {
        let causes = widgets.refused(&api, spec).await;
        assert_eq!(causes, ["Invalid spec: Invalid value: too large"], "an empty message, or none, is replaced");
    }
    widgets.forget(&api).await;
}

async fn reason_and_field_path_are_those_of_the_rule(api: Api) {
    let rule = |size: u32, reason: &str, path: &str| json!({"rule": format!("self.size != {size}"), "message": "no", "reason": reason, "fieldPath": path});
    let labels = json!({"type": "object", "additionalProperties": text()});
    let rules = json!([
        rule(1, "FieldValueForbidden", ".size"),
        rule(2, "FieldValueRequired", ".labels['a.b']"),
        rule(3, "FieldValueDuplicate", ".size"),
        rule(4, "FieldValueInvalid", ".size"),
    ]);
    let widgets = with_rules(&api, json!({"size": integer(), "labels": labels}), rules).await;

    for (size, expected) in [
        (1, "Forbidden spec.size: Forbidden: no"),
        (2, "Required spec.labels[a.b]: Required value: no"),
        (3, "Duplicate spec.size: Duplicate value"),
        (4, "Invalid spec.size: Invalid value: no"),
    ] {
        assert_eq!(widgets.refused(&api, json!({ "size": size })).await, [expected]);
    }
    widgets.forget(&api).await;
}

async fn rules_hold_for_items_values_and_fields_inside(api: Api) {
    let positive =
        json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0", "message": "must be positive"}]});
    let item = ruled(
        json!({"name": text(), "count": positive}),
        json!([{"rule": "self.name != ''", "message": "needs a name"}]),
    );
    let properties = json!({
        "list": {"type": "array", "maxItems": 10, "items": item},
        "map": {"type": "object", "maxProperties": 10, "additionalProperties": positive},
    });
    let widgets =
        with_rules(&api, properties, json!([{"rule": "self.list.all(item, item.count < 100)", "message": "too many"}]))
            .await;

    let refused = widgets.refused(&api, json!({"list": [{"name": "", "count": 1}, {"name": "b", "count": 0}, {"name": "c", "count": 100}], "map": {"x": -1}}));
    assert_eq!(
        refused.await,
        [
            "Invalid spec.list[0]: Invalid value: needs a name",
            "Invalid spec.list[1].count: Invalid value: 0: must be positive",
            "Invalid spec.map[x]: Invalid value: -1: must be positive",
            "Invalid spec: Invalid value: too many",
        ]
    );
    widgets.forget(&api).await;
}

async fn a_transition_rule_is_checked_at_updates_only(api: Api) {
    let fixed =
        json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}]});
    let rule = json!({"rule": "self.size >= oldSelf.size", "message": "must not shrink"});
    let widgets = with_rules(&api, json!({"fixed": fixed, "size": integer()}), json!([rule])).await;
    widgets.stored(&api, "a", json!({"fixed": "x", "size": 3})).await;
    let path = format!("{}/a", widgets.path);

    let changed = api.patch(&path, MERGE, &json!({"spec": {"fixed": "y", "size": 2}})).await;
    assert_eq!(
        causes(&changed),
        ["Invalid spec.fixed: Invalid value: \"y\": is immutable", "Invalid spec: Invalid value: must not shrink"]
    );
    assert_eq!(api.patch(&path, MERGE, &json!({"spec": {"size": 4}})).await.code, 200);
    assert_eq!(
        api.patch(&path, MERGE, &json!({"spec": {"fixed": null}})).await.code,
        200,
        "without a value there is nothing to compare"
    );
    assert_eq!(api.patch(&path, MERGE, &json!({"spec": {"fixed": "z"}})).await.code, 200, "without an old value, too");
    widgets.forget(&api).await;
}

async fn an_optional_old_value_is_checked_at_creates_too(api: Api) {
    let rule = json!({
        "rule": "oldSelf.hasValue() ? self >= oldSelf.value() : self == 1",
        "optionalOldSelf": true,
        "message": "must begin with 1 and grow",
    });
    let size = json!({"type": "integer", "x-kubernetes-validations": [rule]});
    let widgets = with_rules(&api, json!({"size": size}), json!([])).await;

    assert_eq!(
        widgets.refused(&api, json!({"size": 2})).await,
        ["Invalid spec.size: Invalid value: 2: must begin with 1 and grow"]
    );
    widgets.stored(&api, "a", json!({"size": 1})).await;
    let path = format!("{}/a", widgets.path);
    assert_eq!(api.patch(&path, MERGE, &json!({"spec": {"size": 5}})).await.code, 200);
    let shrunk = api.patch(&path, MERGE, &json!({"spec": {"size": 4}})).await;
    assert_eq!(causes(&shrunk).len(), 1);
    widgets.forget(&api).await;
}

async fn items_of_a_map_are_compared_with_those_of_the_same_key(api: Api) {
    let item = json!({
        "type": "object",
        "required": ["name"],
        "properties": {"name": text(), "size": integer()},
        "x-kubernetes-validations": [{"rule": "self.size >= oldSelf.size", "message": "must not shrink"}],
    });
    let list = json!({"type": "array", "maxItems": 10, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": item});
    let widgets = with_rules(&api, json!({"list": list}), json!([])).await;
    widgets.stored(&api, "a", json!({"list": [{"name": "a", "size": 1}, {"name": "b", "size": 5}]})).await;
    let path = format!("{}/a", widgets.path);

    let turned =
        json!({"spec": {"list": [{"name": "b", "size": 5}, {"name": "c", "size": 0}, {"name": "a", "size": 1}]}});
    assert_eq!(api.patch(&path, MERGE, &turned).await.code, 200);
    let shrunk = json!({"spec": {"list": [{"name": "a", "size": 1}, {"name": "b", "size": 4}]}});
    assert_eq!(
        causes(&api.patch(&path, MERGE, &shrunk).await),
        ["Invalid spec.list[1]: Invalid value: must not shrink"]
    );
    widgets.forget(&api).await;
}

async fn what_broke_a_rule_before_may_stay(api: Api) {
    let properties =
        |rules: Value| json!({"size": {"type": "integer", "x-kubernetes-validations": rules}, "other": text()});
    let widgets = with_rules(&api, properties(json!([])), json!([])).await;
    widgets.stored(&api, "a", json!({"size": 9})).await;
    let (path, place) = (format!("{}/a", widgets.path), widgets.place());
    let rules = properties(json!([{"rule": "self < 5", "message": "must be small"}]));
    let stricter = api.change(&place, |definition| {
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] = rules;
    });
    assert_eq!(stricter.await.code, 200);
    until(async || widgets.create(&api, "b", json!({"size": 9})).await.code == 422).await;

    assert_eq!(api.patch(&path, MERGE, &json!({"spec": {"other": "x"}})).await.code, 200);
    let changed = api.patch(&path, MERGE, &json!({"spec": {"size": 8}})).await;
    assert_eq!(causes(&changed), ["Invalid spec.size: Invalid value: 8: must be small"]);
    widgets.forget(&api).await;
}

async fn rules_know_the_functions_of_kubernetes(api: Api) {
    let short = json!({"type": "string", "maxLength": 50});
    let properties = json!({"memory": short, "address": short, "name": short, "list": {"type": "array", "maxItems": 5, "items": integer()}});
    let rules = [
        "!has(self.memory) || quantity(self.memory).isLessThan(quantity('1Gi'))",
        "!has(self.address) || isIP(self.address)",
        "!has(self.name) || self.name.matches('^[a-z]+$') && self.name.size() < 6 && self.name.lowerAscii() == self.name",
        "!has(self.list) || self.list.isSorted() && self.list.sum() < 10 && self.list.exists(x, x == 1)",
    ];
    let rules: Vec<_> =
        rules.iter().enumerate().map(|(index, rule)| json!({"rule": rule, "message": index.to_string()})).collect();
    let widgets = with_rules(&api, properties, json!(rules)).await;

    for (spec, broken) in [
        (json!({"memory": "2Gi"}), "0"),
        (json!({"address": "1.2.3"}), "1"),
        (json!({"name": "toolong"}), "2"),
        (json!({"name": "A"}), "2"),
        (json!({"list": [2, 1]}), "3"),
        (json!({"list": [2, 3]}), "3"),
    ] {
        assert_eq!(widgets.refused(&api, spec).await, [format!("Invalid spec: Invalid value: {broken}")]);
    }
    let good = json!({"memory": "512Mi", "address": "::1", "name": "abc", "list": [1, 2]});
    assert_eq!(widgets.create(&api, "a", good).await.code, 201);
    widgets.forget(&api).await;
}

async fn strings_with_formats_are_times_durations_and_bytes(api: Api) {
    let of = |format: &str| json!({"type": "string", "format": format});
    let properties = json!({"time": of("date-time"), "date": of("date"), "wait": of("duration"), "data": of("byte")});
    let rules = json!([
        {"rule": "!has(self.time) || self.time < timestamp('2026-01-01T00:00:00Z')", "message": "time"},
        {"rule": "!has(self.date) || self.date.getFullYear() == 2026", "message": "date"},
        {"rule": "!has(self.wait) || self.wait <= duration('1h')", "message": "wait"},
        {"rule": "!has(self.data) || size(self.data) == 3", "message": "data"},
    ]);
    let widgets = with_rules(&api, properties, rules).await;

    for (good, bad) in [
        (json!({"time": "2025-12-31T23:59:59Z"}), json!({"time": "2026-01-01T00:00:00Z"})),
        (json!({"date": "2026-05-01"}), json!({"date": "2025-05-01"})),
        (json!({"wait": "59m59s"}), json!({"wait": "1h1s"})),
        (json!({"data": "YWJj"}), json!({"data": "YWI="})),
    ] {
        let created = widgets.create(&api, "good", good).await;
        assert_eq!(created.code, 201, "{created:?}");
        api.delete(&format!("{}/good", widgets.path)).await;
        assert_eq!(widgets.refused(&api, bad.clone()).await.len(), 1, "{bad}");
    }
    widgets.forget(&api).await;
}

async fn an_int_or_string_has_the_type_of_its_value(api: Api) {
    let port = json!({"x-kubernetes-int-or-string": true});
    let rule = json!({"rule": "type(self.port) == int ? self.port < 100 : self.port == 'http'", "message": "no port"});
    let widgets = with_rules(&api, json!({"port": port}), json!([rule])).await;

    for (name, port) in [("a", json!(80)), ("b", json!("http"))] {
        assert_eq!(widgets.create(&api, name, json!({ "port": port })).await.code, 201);
    }
    for port in [json!(8080), json!("ftp")] {
        assert_eq!(widgets.refused(&api, json!({ "port": port })).await, ["Invalid spec: Invalid value: no port"]);
    }
    widgets.forget(&api).await;
}

async fn unusual_names_of_fields_are_escaped(api: Api) {
    let properties =
        json!({"namespace": integer(), "a-b": integer(), "c.d/e": integer(), "f__g": integer(), "h_i": integer()});
    let rule =
        "self.__namespace__ + self.a__dash__b + self.c__dot__d__slash__e + self.f__underscores__g + self.h_i == 5";
    let widgets = with_rules(&api, properties, json!([{"rule": rule, "message": "sum"}])).await;

    let spec = |first: u32| json!({"namespace": first, "a-b": 1, "c.d/e": 1, "f__g": 1, "h_i": 1});
    assert_eq!(widgets.create(&api, "a", spec(1)).await.code, 201);
    assert_eq!(widgets.refused(&api, spec(2)).await, ["Invalid spec: Invalid value: sum"]);
    widgets.forget(&api).await;
}

async fn a_rule_of_the_root_reads_the_name(api: Api) {
    let spec = json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 50}}});
    let rules =
        json!([{"rule": "self.metadata.name == self.spec.name && self.kind == 'Widget'", "message": "other name"}]);
    let widgets = with_schema(&api, ruled(json!({"spec": spec}), rules)).await;

    assert_eq!(widgets.create(&api, "a", json!({"name": "a"})).await.code, 201);
    let refused = widgets.create(&api, "b", json!({"name": "a"})).await;
    assert_eq!(causes(&refused), ["Invalid <nil>: Invalid value: other name"]);
    widgets.forget(&api).await;
}

async fn rules_wait_until_the_structure_is_right(api: Api) {
    let widgets = with_rules(
        &api,
        json!({"size": integer(), "limit": {"type": "integer", "maximum": 3}}),
        json!([{"rule": "self.size > 5"}]),
    )
    .await;

    assert_eq!(
        widgets.refused(&api, json!({"size": "x"})).await,
        [
            "Invalid <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
            r#"TypeInvalid spec.size: Invalid value: "string": spec.size in body must be of type integer: "string""#,
        ]
    );
    assert_eq!(
        widgets.refused(&api, json!({"size": 1, "limit": 4})).await,
        [
            "Invalid spec.limit: Invalid value: 4: spec.limit in body should be less than or equal to 3",
            "Invalid spec: Invalid value: failed rule: self.size > 5",
        ]
    );
    widgets.forget(&api).await;
}

async fn a_rule_that_fails_while_it_runs_refuses(api: Api) {
    let rules = json!([{"rule": "self.size > 5"}, {"rule": "10 / self.part > 0"}]);
    let widgets = with_rules(&api, json!({"size": integer(), "part": integer()}), rules).await;

    assert_eq!(
        widgets.refused(&api, json!({"part": 0})).await,
        [
            r#"Invalid spec: Invalid value: "object": division by zero evaluating rule: 10 / self.part > 0"#,
            r#"Invalid spec: Invalid value: "object": no such key: size evaluating rule: self.size > 5"#,
        ]
    );
    widgets.forget(&api).await;
}

async fn a_write_of_the_status_runs_the_rules_of_the_whole_object(api: Api) {
    let part = json!({"type": "object", "properties": {"size": integer()}});
    let rules = json!([{"rule": "!has(self.status) || self.status.size <= self.spec.size", "message": "too much"}]);
    let widgets = with_schema(&api, ruled(json!({"spec": part, "status": part}), rules)).await;
    widgets.stored(&api, "a", json!({"size": 3})).await;
    let path = format!("{}/a/status", widgets.path);

    assert_eq!(api.patch(&path, MERGE, &json!({"status": {"size": 3}})).await.code, 200);
    let refused = api.patch(&path, MERGE, &json!({"status": {"size": 4}})).await;
    assert_eq!(causes(&refused), ["Invalid <nil>: Invalid value: too much"]);
    widgets.forget(&api).await;
}

async fn defaults_are_there_before_rules_run(api: Api) {
    let size = json!({"type": "integer", "default": 3});
    let widgets = with_rules(&api, json!({"size": size}), json!([{"rule": "self.size == 3"}])).await;

    assert_eq!(widgets.create(&api, "a", json!({})).await.code, 201);
    widgets.forget(&api).await;
}

async fn a_rule_that_cannot_be_compiled_is_refused(api: Api) {
    for rule in ["self.size >", "self.size == (1", "'a", "self.size ==== 1"] {
        let causes = refused_spec(&api, ruled(json!({"size": integer()}), json!([{ "rule": rule }]))).await;
        assert_eq!(causes.len(), 1, "{causes:?}");
        assert!(causes[0].starts_with("Invalid X.x-kubernetes-validations[0].rule: Invalid value: {"), "{causes:?}");
        assert!(causes[0].contains("compilation failed: ERROR"), "{causes:?}");
    }
    let message = json!([{"rule": "true", "messageExpression": "'a' +"}]);
    let causes = refused_spec(&api, ruled(json!({}), message)).await;
    assert!(
        causes[0].starts_with("Invalid X.x-kubernetes-validations[0].messageExpression: Invalid value: {"),
        "{causes:?}"
    );
}

async fn a_rule_with_unknown_fields_or_variables_is_refused(api: Api) {
    let inner = json!({"type": "object", "properties": {"a": integer()}});
    let list = json!({"type": "array", "maxItems": 5, "items": inner});
    for (rule, why) in [
        ("self.weight > 1", "undefined field 'weight'"),
        ("self.inner.b > 1", "undefined field 'b'"),
        ("self.list.all(x, x.c > 1)", "undefined field 'c'"),
        ("has(self.weight)", "undefined field 'weight'"),
        ("other.size > 1", "undeclared reference to 'other'"),
    ] {
        let causes = refused_spec(
            &api,
            ruled(json!({"size": integer(), "inner": inner, "list": list}), json!([{ "rule": rule }])),
        )
        .await;
        assert_eq!(causes.len(), 1, "{causes:?}");
        assert!(causes[0].contains(why), "{causes:?}");
    }
}

async fn a_rule_that_is_no_boolean_is_refused(api: Api) {
    for rule in ["1", "'a'", "self.size + 1", "[true]"] {
        let causes = refused_spec(&api, ruled(json!({"size": integer()}), json!([{ "rule": rule }]))).await;
        assert_eq!(causes.len(), 1, "{causes:?}");
        assert!(causes[0].ends_with("must evaluate to a bool"), "{causes:?}");
    }
}

async fn a_rule_that_is_too_expensive_is_refused(api: Api) {
    let list =
        |most: Option<u32>| json!({"type": "array", "maxItems": most, "items": {"type": "string", "maxLength": most}});
    let nested = json!([{"rule": "self.list.all(x, self.list.all(y, x == y || x != y))"}]);

    let causes = refused_spec(&api, ruled(json!({"list": list(None)}), nested.clone())).await;
    let expected = "Forbidden X.x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)";
    assert!(causes.iter().any(|cause| cause == expected), "{causes:?}");
    assert_eq!(causes.len(), 3, "the sum of all rules is too expensive, too: {causes:?}");
    let bounded = with_rules(&api, json!({"list": list(Some(20))}), nested).await;
    assert_eq!(bounded.create(&api, "a", json!({"list": ["x", "y"]})).await.code, 201);
    bounded.forget(&api).await;
}

async fn an_old_value_that_cannot_be_matched_is_refused(api: Api) {
    let item = json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]});

    assert_eq!(
        refused_spec(
            &api,
            json!({"type": "object", "properties": {"list": {"type": "array", "maxItems": 5, "items": item}}})
        )
        .await,
        [
            r#"Invalid X.properties[list].items.x-kubernetes-validations[0].rule: Invalid value: "self >= oldSelf": oldSelf cannot be used on the uncorrelatable portion of the schema within X.properties[list]"#
        ]
    );
}

async fn the_parts_of_a_rule_must_fit(api: Api) {
    for (rule, expected) in [
        (json!({"rule": ""}), "Required X.x-kubernetes-validations[0].rule: Required value: rule is not specified"),
        (
            json!({"rule": "true", "message": "a\nb"}),
            r#"Invalid X.x-kubernetes-validations[0].message: Invalid value: "a\nb": must not contain line breaks"#,
        ),
        (
            json!({"rule": "true\n|| false"}),
            "Required X.x-kubernetes-validations[0].message: Required value: message must be specified if rule contains line breaks",
        ),
        (
            json!({"rule": "true", "reason": "Because"}),
            r#"NotSupported X.x-kubernetes-validations[0].reason: Unsupported value: "Because": supported values: "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired""#,
        ),
        (
            json!({"rule": "true", "fieldPath": ".other"}),
            r#"Invalid X.x-kubernetes-validations[0].fieldPath: Invalid value: ".other": must be a valid path"#,
        ),
        (
            json!({"rule": "true", "optionalOldSelf": true}),
            "Invalid X.x-kubernetes-validations[0].optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule",
        ),
    ] {
        assert_eq!(refused_spec(&api, ruled(json!({"size": integer()}), json!([rule]))).await, [expected]);
    }
}

async fn a_default_that_breaks_a_rule_is_refused(api: Api) {
    let size = json!({"type": "integer", "default": 9, "x-kubernetes-validations": [{"rule": "self < 5", "message": "must be small"}]});

    assert_eq!(
        refused_spec(&api, json!({"type": "object", "properties": {"size": size}})).await,
        ["Invalid X.properties[size].default: Invalid value: 9: must be small"]
    );
}

async fn an_expensive_object_is_refused_and_the_server_stays(api: Api) {
    let list = json!({"type": "array", "maxItems": 700, "items": integer()});
    let widgets = with_rules(
        &api,
        json!({"list": list}),
        json!([{"rule": "self.list.all(x, self.list.all(y, x == y && x > 0))"}]),
    )
    .await;

    let refused = widgets.refused(&api, json!({ "list": vec![5; 700] })).await;

    assert_eq!(
        refused,
        [
            r#"Invalid spec: Invalid value: "object": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: self.list.all(x, self.list.all(y, x == y && x > 0))"#
        ]
    );
    assert_eq!(widgets.create(&api, "a", json!({"list": [5, 5]})).await.code, 201);
    widgets.forget(&api).await;
}

async fn a_deeply_nested_rule_is_run_or_refused(api: Api) {
    let nested = |levels: usize| format!("{}true{}", "(".repeat(levels), ")".repeat(levels));
    let rules = json!([{"rule": nested(30)}, {"rule": vec!["self.a"; 100].join(" + ") + " < 1000"}]);
    let widgets = with_rules(&api, json!({"a": integer()}), rules).await;

    let refused = widgets.refused(&api, json!({"a": 10})).await;
    assert_eq!(refused.len(), 1, "{refused:?}");
    let spec = ruled(json!({"b": integer()}), json!([{"rule": nested(300)}]));
    let refused = refused_spec(&api, spec).await;
    assert!(refused[0].contains("compilation failed"), "{refused:?}");
}

async fn an_overflow_of_integers_is_refused(api: Api) {
    let widgets = with_rules(&api, json!({"a": integer()}), json!([{"rule": "-self.a < 5"}])).await;

    let refused = widgets.refused(&api, json!({"a": i64::MIN})).await;

    assert_eq!(refused.len(), 1, "{refused:?}");
}

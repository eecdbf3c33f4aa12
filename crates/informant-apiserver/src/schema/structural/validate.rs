//! Validation of a value against a schema: types, limits, formats, and combinations of schemas.
//!
//! - **In:** a value as JSON, its schema, and the value that it replaces.
//! - **Out:** violations in the words and in the number of kube-apiserver.
//!
//! What is already wrong in the old value and does not change is allowed, where the two values can be matched: by the names of fields,
//! and by the keys of lists that are maps.

use serde_json::{Map, Value};

use crate::schema::structural::{
    Schema, SchemaOr, Violation, formats::check_of, lists::OlderItems, number::Number, path::Path, violation::shown,
};

/// The violations of a schema by a value.
pub(super) fn validate(schema: &Schema, value: &Value, old: Option<&Value>, path: &Path<'_>) -> Vec<Violation> {
    Validation::of_changed(schema, value, old, path).violations
}

#[derive(Default)]
struct Validation {
    violations: Vec<Violation>,
    /// The number of checks that were made and passed. It decides which of several schemas (`anyOf`) was probably meant.
    passed: usize,
}

impl Validation {
    /// Validates a value that may replace another one.
    fn of_changed(schema: &Schema, value: &Value, old: Option<&Value>, path: &Path<'_>) -> Self {
        let mut validation = Self::of(schema, value, old, path);
        if !validation.violations.is_empty() && old == Some(value) {
            validation.violations.clear();
        }
        validation
    }

    fn of(schema: &Schema, value: &Value, old: Option<&Value>, path: &Path<'_>) -> Self {
        let mut validation = Self::default();
        validation.type_of(schema, value, path);
        match value {
            Value::Null => {
                validation.enumeration(schema, value, path);
                return validation;
            }
            Value::Bool(_) => validation.combinations(schema, value, old, path),
            Value::String(text) => {
                validation.combinations(schema, value, old, path);
                validation.text(schema, text, path);
            }
            Value::Number(number) => {
                validation.combinations(schema, value, old, path);
                validation.number(schema, Number::read(number), path);
            }
            Value::Array(items) => {
                validation.combinations(schema, value, old, path);
                validation.list(schema, items, old, path);
            }
            Value::Object(fields) => {
                validation.combinations(schema, value, old, path);
                validation.object(schema, fields, old.and_then(Value::as_object), path);
            }
        }
        validation.enumeration(schema, value, path);
        validation.passed += 1;
        validation
    }

    fn add(&mut self, violation: Violation) {
        if !self.violations.contains(&violation) {
            self.violations.push(violation);
        }
    }

    fn merge(&mut self, other: Self) {
        self.passed += other.passed;
        other.violations.into_iter().for_each(|violation| self.add(violation));
    }

    fn type_of(&mut self, schema: &Schema, value: &Value, path: &Path<'_>) {
        let format = schema.known_format();
        let (found, found_format) = match value {
            Value::Null => ("null", ""),
            Value::Bool(_) => ("boolean", ""),
            Value::Number(number) => match Number::read(number) {
                Number::Int(_) => ("integer", "int64"),
                Number::Float(_) => ("number", "float64"),
            },
            Value::String(_) => ("string", ""),
            Value::Array(_) => ("array", ""),
            Value::Object(_) => ("object", ""),
        };
        let expects = |name: &str| match schema.is_int_or_string {
            true => ["integer", "string"].contains(&name),
            false => schema.type_name == name,
        };
        let expected = if schema.is_int_or_string { "integer,string" } else { &schema.type_name };
        if expected.is_empty() && format.is_empty() {
            return;
        }
        if value.is_null() {
            match schema.nullable || expected.is_empty() {
                true => self.passed += 1,
                false => self.add(Violation::wrong_type(path, expected, found)),
            }
            return;
        }
        let is_number_of_kind = match value {
            Value::Number(number) => expects("number") || expects("integer") && Number::read(number).is_integer(),
            Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => false,
        };
        let fits = expects(found) || is_number_of_kind;
        // As kube-apiserver, which takes values of some formats from strings and lists.
        let is_text = value.is_string() || value.is_array();
        if !is_text && !format.is_empty() && !fits && found_format != format {
            return self.add(Violation::wrong_type(path, format, found_format));
        }
        if is_text && !format.is_empty() && !expects("number") && !expects("integer") {
            self.passed += 1;
            return;
        }
        match fits {
            true => self.passed += 2,
            false => self.add(Violation::wrong_type(path, expected, found)),
        }
    }

    fn text(&mut self, schema: &Schema, text: &str, path: &Path<'_>) {
        let quoted = || Value::from(text).to_string();
        let length = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        match (schema.max_length, schema.min_length, &schema.pattern) {
            (Some(longest), _, _) if length() > longest => self.add(Violation::too_long(path, longest)),
            (_, Some(shortest), _) if length() < shortest => {
                let limit = format!("should be at least {shortest} chars long");
                self.add(Violation::broken_limit(path, &quoted(), &limit));
            }
            (_, _, Some(pattern)) if !pattern.matches(text) => {
                let limit = format!("should match '{}'", pattern.text());
                self.add(Violation::broken_limit(path, &quoted(), &limit));
            }
            (_, _, _) => self.passed += 1,
        }
        let format = schema.known_format();
        match check_of(format) {
            Some(has_format) if !has_format(text) => self.add(Violation::wrong_type(path, format, text)),
            Some(_) => self.passed += 1,
            None => {}
        }
    }

    fn number(&mut self, schema: &Schema, number: Number, path: &Path<'_>) {
        let before = self.violations.len();
        let is_in_range = match (&*schema.type_name, schema.known_format(), number) {
            ("integer", "int32", Number::Int(int)) => i32::try_from(int).is_ok(),
            ("integer", _, Number::Float(_)) => number.is_integer(),
            ("number", "float", _) => number.as_float().abs() <= f64::from(f32::MAX),
            (_, _, _) => true,
        };
        if !is_in_range {
            let name = &schema.type_name;
            let format = match schema.known_format() {
                "" => "(default format)".to_owned(),
                format => format!("with format {format}"),
            };
            let why = format!("Checked value must be of type {name} {format} in {path}");
            self.add(Violation::without_field(&why));
        }
        let mut check = |limit: f64, is_kept: fn(Number, Number) -> bool, words: &str| {
            let limit = number.limit(limit);
            if !is_kept(number, limit) {
                let limit = format!("should be {words} {limit}");
                self.add(Violation::broken_limit(path, &number.to_string(), &limit));
            }
        };
        if let Some(factor) = schema.multiple_of.filter(|factor| !number.is_multiple_of(*factor)) {
            check(factor, |_, _| false, "a multiple of");
        }
        match schema.maximum {
            Some(most) if schema.exclusive_maximum => check(most, |number, most| number < most, "less than"),
            Some(most) => check(most, |number, most| number <= most, "less than or equal to"),
            None => {}
        }
        match schema.minimum {
            Some(least) if schema.exclusive_minimum => check(least, |number, least| number > least, "greater than"),
            Some(least) => check(least, |number, least| number >= least, "greater than or equal to"),
            None => {}
        }
        if self.violations.len() == before {
            self.passed += 2;
        }
    }

    fn list(&mut self, schema: &Schema, items: &[Value], old: Option<&Value>, path: &Path<'_>) {
        if let Some(of_items) = schema.item() {
            let older = OlderItems::new(schema, old);
            for (index, item) in items.iter().enumerate() {
                let old = older.get(schema, item);
                self.merge(Self::of_changed(of_items, item, old, &path.index(index)));
            }
        }
        let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
        if let Some(least) = schema.min_items.filter(|least| count < *least) {
            let limit = format!("should have at least {least} items");
            self.add(Violation::broken_limit(path, &count.to_string(), &limit));
        }
        if let Some(most) = schema.max_items.filter(|most| count > *most) {
            self.add(Violation::too_many(path, items.len(), most));
        }
        self.passed += 2;
    }

    fn object(
        &mut self,
        schema: &Schema,
        fields: &Map<String, Value>,
        old: Option<&Map<String, Value>>,
        path: &Path<'_>,
    ) {
        let count = i64::try_from(fields.len()).unwrap_or(i64::MAX);
        if let Some(least) = schema.min_properties.filter(|least| count < *least) {
            let limit = format!("should have at least {least} properties");
            self.add(Violation::broken_limit(path, &count.to_string(), &limit));
        }
        if let Some(most) = schema.max_properties.filter(|most| count > *most) {
            self.add(Violation::too_many(path, fields.len(), most));
        }
        let older = |name: &str| old.and_then(|old| old.get(name));
        for (name, value) in fields {
            match (schema.properties.get(name), &schema.additional_properties) {
                (Some(property), _) => self.merge(Self::of_changed(property, value, older(name), &path.field(name))),
                (None, Some(SchemaOr::Schema(additional))) => {
                    self.merge(Self::of_changed(additional, value, older(name), &path.field(name)));
                }
                (None, Some(SchemaOr::Bool(false))) => {
                    let why = format!("{} in body is a forbidden property", path.field(name));
                    self.add(Violation::invalid(path, &format!("{name:?}"), &why));
                }
                (None, Some(SchemaOr::Bool(true) | SchemaOr::List) | None) => {}
            }
        }
        for name in schema.required.iter().filter(|name| !fields.contains_key(*name)) {
            self.add(Violation::required(&path.field(name), ""));
        }
        self.passed += 1;
    }

    fn enumeration(&mut self, schema: &Schema, value: &Value, path: &Path<'_>) {
        if schema.enumeration.is_empty() || schema.enumeration.iter().any(|allowed| is_equal(allowed, value)) {
            self.passed += 1;
            return;
        }
        let name = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        self.add(Violation::unsupported(path, &shown(value), schema.enumeration.iter().map(name)));
    }

    /// Checks `anyOf`, `oneOf`, `allOf` and `not`.
    fn combinations(&mut self, schema: &Schema, value: &Value, old: Option<&Value>, path: &Path<'_>) {
        let of = |schema: &Schema| Self::of(schema, value, old, path);
        if !schema.any_of.is_empty() {
            let mut best: Option<Self> = None;
            for next in schema.any_of.iter().map(of) {
                let is_valid = next.violations.is_empty();
                if is_valid || best.as_ref().is_none_or(|best| next.passed > best.passed) {
                    best = Some(next);
                }
                if is_valid {
                    break;
                }
            }
            let best = best.unwrap_or_default();
            if !best.violations.is_empty() {
                self.combination(path, "must validate at least one schema (anyOf)");
            }
            self.merge(best);
        }
        if !schema.one_of.is_empty() {
            let (valid, invalid): (Vec<_>, Vec<_>) =
                schema.one_of.iter().map(of).partition(|validation| validation.violations.is_empty());
            match valid.len() {
                1 => valid.into_iter().for_each(|valid| self.merge(valid)),
                0 => {
                    self.combination(path, "must validate one and only one schema (oneOf). Found none valid");
                    let best =
                        invalid.into_iter().reduce(|best, next| if next.passed > best.passed { next } else { best });
                    self.merge(best.unwrap_or_default());
                }
                count => {
                    let why =
                        format!("must validate one and only one schema (oneOf). Found {count} valid alternatives");
                    self.combination(path, &why);
                }
            }
        }
        if !schema.all_of.is_empty() {
            let all: Vec<_> = schema.all_of.iter().map(of).collect();
            let valid = all.iter().filter(|validation| validation.violations.is_empty()).count();
            let is_complete = valid == all.len();
            all.into_iter().for_each(|validation| self.merge(validation));
            match (is_complete, valid) {
                (true, _) => {}
                (false, 0) => self.combination(path, "must validate all the schemas (allOf). None validated"),
                (false, _) => self.combination(path, "must validate all the schemas (allOf)"),
            }
        }
        if schema.not.as_ref().is_some_and(|not| of(not).violations.is_empty()) {
            self.combination(path, "must not validate the schema (not)");
        }
        self.passed += 2;
    }

    fn combination(&mut self, path: &Path<'_>, why: &str) {
        self.add(Violation::without_field(&format!("{:?} {why}", path.to_string())));
    }
}

impl Schema {
    /// The format, if kube-apiserver knows it for values of this type; otherwise empty.
    fn known_format(&self) -> &str {
        let is_known = match &*self.type_name {
            "" | "string" => !self.format.is_empty() && !self.is_int_or_string && check_of(&self.format).is_some(),
            "integer" => ["int32", "int64"].contains(&&*self.format),
            "number" => ["float", "double"].contains(&&*self.format),
            _ => false,
        };
        if is_known { &self.format } else { "" }
    }
}

/// Returns true if two values are equal. Numbers are equal in every notation.
fn is_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            Number::read(one).partial_cmp(&Number::read(other)).is_some_and(std::cmp::Ordering::is_eq)
        }
        (_, _) => one == other,
    }
}

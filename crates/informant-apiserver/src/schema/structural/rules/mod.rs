//! CEL rules (`x-kubernetes-validations`).
//!
//! - **In:** the rules of a schema; a value, and the value that it replaces.
//! - **Out:** violations in the words of kube-apiserver.
//!
//! `apart` runs all of it in a thread of its own, `compile` reads a rule, `cost` checks its fields and estimates what it costs, `value` converts JSON for the interpreter. The
//! interpreter and the functions of Kubernetes are those of the crate `kube-cel`.

mod apart;
mod compile;
mod cost;
mod value;

use kube_cel::{
    KubeCelExt,
    cel::{Context, ExecutionError, Value as Cel, objects::OptionalValue, parser::Expression},
};
use serde_json::Value;
use std::sync::{Arc, LazyLock};

use crate::schema::structural::{
    Rule, Schema, Violation,
    check::field_path,
    lists::OlderItems,
    path::Path,
    rules::{apart::apart, value::Resource},
    violation::shown,
};

pub(super) use crate::schema::structural::rules::{
    compile::{Compilation, CompiledRule},
    cost::{RuleChecks, RulePlace, most_items},
};

/// The functions that rules can call. Registering them takes longer than most rules.
static FUNCTIONS: LazyLock<Context<'static>> = LazyLock::new(functions);

/// The functions of the interpreter and of Kubernetes; `type`, `dyn` and `bool`, which the interpreter lacks.
fn functions() -> Context<'static> {
    // A type is its name.
    const TYPES: [(&str, &str); 9] = [
        ("bool", "bool"),
        ("bytes", "bytes"),
        ("double", "float"),
        ("int", "int"),
        ("list", "list"),
        ("map", "map"),
        ("null_type", "null"),
        ("string", "string"),
        ("uint", "uint"),
    ];
    let mut functions = Context::default().with_all();
    for (name, shown) in TYPES {
        functions.add_variable_from_value(name, shown);
    }
    functions.add_function("type", |value: Cel| value.type_of().to_string());
    functions.add_function("dyn", |value: Cel| Ok(value));
    functions.add_function("bool", |value: Cel| {
        let text = if let Cel::String(text) = &value { text.as_str() } else { "" };
        match (text, &value) {
            ("true" | "True" | "TRUE" | "t" | "1", _) | (_, Cel::Bool(true)) => Ok(true),
            ("false" | "False" | "FALSE" | "f" | "0", _) | (_, Cel::Bool(false)) => Ok(false),
            (_, _) => Err(ExecutionError::function_error("bool", format!("{value:?} is no boolean"))),
        }
    });
    functions
}

/// Whether this build runs rules.
pub(super) const ARE_RUN: bool = true;

/// Adds the violations of the rules in a schema by an object.
pub(super) fn run(schema: &Schema, object: &Value, old: Option<&Value>, path: &Path<'_>, found: &mut Vec<Violation>) {
    if !schema.has_rules {
        return;
    }
    let violations = apart(|| {
        let mut found = Vec::new();
        let mut run = Run { functions: &FUNCTIONS, found: &mut found, is_over: false };
        run.node(schema, object, old, path, Place { resource: Resource::Root, is_unchanged: false });
        found
    });
    let failed = || vec![Violation::invalid(path, "null", "a rule cannot be evaluated for this object")];
    found.extend(violations.unwrap_or_else(failed));
}

struct Run<'a> {
    functions: &'a Context<'static>,
    found: &'a mut Vec<Violation>,
    /// A rule was too expensive, so no others are run.
    is_over: bool,
}

/// What a value is part of.
#[derive(Clone, Copy)]
struct Place {
    resource: Resource,
    /// The nearest value around it that can be matched with an old one is equal to that.
    is_unchanged: bool,
}

impl Run<'_> {
    fn node(&mut self, schema: &Schema, value: &Value, old: Option<&Value>, path: &Path<'_>, place: Place) {
        if value.is_null() || !schema.has_rules || self.is_over {
            return;
        }
        let is_unchanged = old.map_or(place.is_unchanged, |old| old == value);
        if !schema.rules.is_empty() {
            self.rules(schema, value, old, path, Place { is_unchanged, ..place });
        }
        let inner = |schema: &Schema| {
            let resource = if schema.is_embedded_resource { Resource::Root } else { Resource::None };
            Place { resource, is_unchanged }
        };
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let old = old.and_then(|old| old.get(name));
                    if let Some(property) = schema.properties.get(name) {
                        self.node(property, value, old, &path.field(name), inner(property));
                    } else if let Some(additional) = schema.additional() {
                        self.node(additional, value, old, &path.key(name), inner(additional));
                    }
                }
            }
            Value::Array(items) => {
                let Some(of_items) = schema.item() else { return };
                let older = OlderItems::new(schema, old);
                for (index, item) in items.iter().enumerate() {
                    self.node(of_items, item, older.get(schema, item), &path.index(index), inner(of_items));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Runs the rules of one value.
    fn rules(&mut self, schema: &Schema, value: &Value, old: Option<&Value>, path: &Path<'_>, place: Place) {
        let mut scope = self.functions.new_inner_scope();
        let mut longest = 0;
        scope.add_variable_from_value("self", value::convert(value, Some(schema), place.resource, &mut longest));
        let old = old.filter(|old| !old.is_null());
        let old = old.map(|old| value::convert(old, Some(schema), place.resource, &mut longest));
        for rule in &schema.rules {
            let Ok(compiled) = rule.compiled() else { continue };
            let is_optional = rule.optional_old_self == Some(true);
            let is_skipped = match compiled.uses_old {
                true => old.is_none() && !is_optional,
                // Errors of values that do not change are only warnings.
                false => place.is_unchanged,
            };
            if is_skipped {
                continue;
            }
            let type_name = format!("{:?}", schema.type_name);
            if compiled.steps(longest) > MOST_STEPS {
                let why = format!(
                    "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost \
                     exceeds limit for rule: {}",
                    rule.shown()
                );
                self.found.push(Violation::invalid(path, &type_name, &why));
                self.is_over = true;
                return;
            }
            if compiled.uses_old {
                let old_self = match (is_optional, old.clone()) {
                    (false, old) => old.unwrap_or(Cel::Null),
                    (true, Some(old)) => Cel::Opaque(Arc::new(OptionalValue::of(old))),
                    (true, None) => Cel::Opaque(Arc::new(OptionalValue::none())),
                };
                scope.add_variable_from_value("oldSelf", old_self);
            }
            match Cel::resolve(&compiled.rule, &scope) {
                Ok(Cel::Bool(true)) => {}
                Ok(_) => self.found.push(violation(rule, compiled, schema, value, path, &scope)),
                Err(error) => {
                    self.found.push(Violation::invalid(path, &type_name, &explained(&error, rule)));
                }
            }
        }
    }
}

/// The number of steps that one rule may take at most: as many as the limit of kube-apiserver allows for cheap steps.
const MOST_STEPS: u64 = 1_000_000;

/// The longest message of a `messageExpression`, in bytes.
const LONGEST_MESSAGE: usize = 5 * 1024;

fn violation(
    rule: &Rule,
    compiled: &CompiledRule,
    schema: &Schema,
    value: &Value,
    path: &Path<'_>,
    scope: &Context<'_>,
) -> Violation {
    let message = compiled.message.as_ref().and_then(|message| evaluated(message, scope));
    let message = message.unwrap_or_else(|| rule.default_message());
    let is_shown = !["object", "array"].contains(&&*schema.type_name);
    let value = if is_shown { format!(": {}", shown(value)) } else { String::new() };
    let text = match rule.reason.as_deref() {
        Some("FieldValueForbidden") => format!("Forbidden: {message}"),
        Some("FieldValueRequired") => format!("Required value: {message}"),
        Some("FieldValueDuplicate") => format!("Duplicate value{value}"),
        Some(_) | None => format!("Invalid value{value}: {message}"),
    };
    let reason = match rule.reason.as_deref() {
        Some("FieldValueForbidden") => "FieldValueForbidden",
        Some("FieldValueRequired") => "FieldValueRequired",
        Some("FieldValueDuplicate") => "FieldValueDuplicate",
        Some(_) | None => "FieldValueInvalid",
    };
    match field_path::normalize(&rule.field_path, schema).filter(|inner| !inner.is_empty()) {
        Some(inner) => Violation::new(reason, &path.field(&inner), text),
        None => Violation::new(reason, path, text),
    }
}

/// The text of a `messageExpression`, if it is one that kube-apiserver would show.
fn evaluated(message: &Expression, scope: &Context<'_>) -> Option<String> {
    let Ok(Cel::String(text)) = Cel::resolve(message, scope) else { return None };
    let text = text.trim();
    (!text.is_empty() && text.len() <= LONGEST_MESSAGE && !text.contains('\n')).then(|| text.to_owned())
}

/// An error of the interpreter in the words of kube-apiserver, if they are known.
#[expect(clippy::wildcard_enum_match_arm, reason = "the errors of another crate, to which others may be added")]
fn explained(error: &ExecutionError, rule: &Rule) -> String {
    let said = match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::IndexOutOfBounds(Cel::Int(index)) => format!("index out of bounds: {index}"),
        ExecutionError::NoSuchOverload
        | ExecutionError::ValuesNotComparable(..)
        | ExecutionError::UnsupportedUnaryOperator(..)
        | ExecutionError::UnsupportedBinaryOperator(..)
        | ExecutionError::UnexpectedType { .. }
        | ExecutionError::UnsupportedTargetType { .. } => {
            let why = "call arguments did not match a supported operator, function or macro signature for rule";
            return format!("'no such overload': {why}: {}", rule.shown());
        }
        other => other.to_string(),
    };
    format!("{said} evaluating rule: {}", rule.shown())
}

impl Rule {
    /// The rule in error messages.
    fn shown(&self) -> &str {
        if self.message.is_empty() { self.rule.trim() } else { self.message.trim() }
    }

    fn default_message(&self) -> String {
        match self.message.is_empty() {
            true => format!("failed rule: {}", self.rule.trim()),
            false => self.message.trim().to_owned(),
        }
    }
}

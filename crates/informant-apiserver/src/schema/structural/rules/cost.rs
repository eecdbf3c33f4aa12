//! The checks of rules when their definition is created: their syntax, their fields, and what they may cost.
//!
//! - **In:** the rules of a schema, and how often they may run for one object.
//! - **Out:** violations in the words of kube-apiserver.
//!
//! The estimate is coarser than that of kube-apiserver, which knows the types of all parts. Lists, maps and strings without a limit count
//! with the number of items that fit into a request.

use kube_cel::cel::{
    common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue, operators},
    parser::Expression,
};
use serde_json::json;

use crate::schema::structural::{
    Schema, Violation,
    path::Path,
    rules::{
        apart::apart,
        compile::{CompileError, parts},
        value::unescaped,
    },
};

/// The largest cost of one rule.
const MOST_PER_RULE: u64 = 10_000_000;

/// The largest cost of all rules of a version.
const MOST_PER_VERSION: u64 = 100_000_000;

/// The largest body of a request, which limits lists and strings.
const LARGEST_REQUEST: u64 = 3 * 1024 * 1024;

/// Where the rules of a schema stand.
#[derive(Clone, Copy)]
pub(crate) struct RulePlace<'a> {
    /// How many values of one object the rules may be run for.
    pub(crate) count: u64,
    /// The part of the schema in which old values cannot be matched with new ones.
    pub(crate) unmatched: Option<&'a Path<'a>>,
    /// The schema is that of a whole object, so that its rules can read type and name.
    pub(crate) is_resource: bool,
}

/// The checks of all rules of a definition's version.
#[derive(Default)]
pub(crate) struct RuleChecks {
    found: Vec<Violation>,
    /// The place and the cost of each rule.
    costs: Vec<(String, u64)>,
}

impl RuleChecks {
    /// Checks the rules of one schema.
    pub(crate) fn check(&mut self, schema: &Schema, place: RulePlace<'_>, path: &Path<'_>) {
        for (index, cost) in check(schema, place, path, &mut self.found) {
            let rules = path.field("x-kubernetes-validations");
            self.costs.push((rules.index(index).field("rule").to_string(), cost));
        }
    }

    /// Adds all violations, also those of the sum of all costs. `path` is the place of the root.
    pub(crate) fn finish(mut self, path: &Path<'_>, found: &mut Vec<Violation>) {
        found.append(&mut self.found);
        let total = self.costs.iter().fold(0, |total: u64, (_, cost)| total.saturating_add(*cost));
        if total > MOST_PER_VERSION {
            self.costs.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            for (place, _) in self.costs.iter().take(4) {
                let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
                found.push(Violation::forbidden(&Path::root(place), why));
            }
            let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
            found.push(Violation::forbidden(path, &excess(name, total, MOST_PER_VERSION)));
        }
    }
}

/// Adds the violations of the rules of one schema, and returns the costs of those that can be run.
fn check(schema: &Schema, place: RulePlace<'_>, path: &Path<'_>, found: &mut Vec<Violation>) -> Vec<(usize, u64)> {
    if schema.rules.is_empty() {
        return Vec::new();
    }
    let checked = apart(|| {
        let mut found = Vec::new();
        let costs = check_all(schema, place, path, &mut found);
        (costs, found)
    });
    let (costs, violations) = checked.unwrap_or_else(|| {
        let at = path.field("x-kubernetes-validations");
        (Vec::new(), vec![Violation::invalid(&at, "null", "compilation failed: a rule cannot be read")])
    });
    found.extend(violations);
    costs
}

fn check_all(schema: &Schema, place: RulePlace<'_>, path: &Path<'_>, found: &mut Vec<Violation>) -> Vec<(usize, u64)> {
    let mut costs = Vec::new();
    for (index, rule) in schema.rules.iter().enumerate() {
        let list = path.field("x-kubernetes-validations");
        let at = list.index(index);
        let source = json!({"Rule": rule.rule, "Message": rule.message, "MessageExpression": rule.message_expression})
            .to_string();
        let compiled = match rule.compiled() {
            Ok(compiled) => compiled,
            Err(CompileError::Rule(why)) => {
                found.push(Violation::invalid(&at.field("rule"), &source, why));
                continue;
            }
            Err(CompileError::Message(why)) => {
                found.push(Violation::invalid(
                    &at.field("messageExpression"),
                    &source,
                    &format!("messageExpression {why}"),
                ));
                continue;
            }
        };
        let mut estimate = Estimate::new(schema, place.is_resource);
        let cost = estimate.cost(&compiled.rule).cost.saturating_mul(place.count);
        if let Some(wrong) = estimate.wrong {
            found.push(Violation::invalid(&at.field("rule"), &source, &format!("compilation failed: {wrong}")));
        } else if is_other_than_bool(&compiled.rule) {
            found.push(Violation::invalid(&at.field("rule"), &source, "must evaluate to a bool"));
        } else if cost > MOST_PER_RULE {
            found.push(Violation::forbidden(&at.field("rule"), &excess("estimated rule cost", cost, MOST_PER_RULE)));
        }
        costs.push((index, cost));
        match (compiled.uses_old, place.unmatched) {
            (true, Some(unmatched)) => {
                let why =
                    format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {unmatched}");
                found.push(Violation::invalid(&at.field("rule"), &json!(rule.rule).to_string(), &why));
            }
            (false, _) => {
                if let Some(given) = rule.optional_old_self {
                    let why = "may not be set if oldSelf is not used in rule";
                    found.push(Violation::invalid(&at.field("optionalOldSelf"), &given.to_string(), why));
                }
            }
            (true, None) => {}
        }
    }
    costs
}

/// The most items that a list or map of this schema has.
pub(crate) fn most_items(schema: &Schema) -> u64 {
    let limit = schema.max_items.or(schema.max_properties);
    let limit = limit.and_then(|limit| u64::try_from(limit).ok());
    let inner = schema.item().or_else(|| schema.additional());
    let key = if schema.additional().is_some() { 3 } else { 0 };
    limit.unwrap_or_else(|| LARGEST_REQUEST / (1 + key + inner.map_or(2, smallest)))
}

/// The number of bytes that a value of this schema has at least.
fn smallest(schema: &Schema) -> u64 {
    match &*schema.type_name {
        "boolean" => 4,
        "integer" | "number" => 1,
        "object" => {
            let required = schema.required.iter().filter_map(|name| Some((name, schema.properties.get(name)?)));
            2 + required
                .map(|(name, property)| 4 + u64::try_from(name.len()).unwrap_or(0) + smallest(property))
                .sum::<u64>()
        }
        _ => 2,
    }
}

fn longest_text(schema: Option<&Schema>) -> u64 {
    let limit = schema.and_then(|schema| schema.max_length).and_then(|limit| u64::try_from(limit).ok());
    let of_enumeration = schema.and_then(|schema| schema.enumeration.iter().map(|value| value.to_string().len()).max());
    limit.or(of_enumeration.and_then(|length| u64::try_from(length).ok())).unwrap_or(LARGEST_REQUEST)
}

fn excess(name: &str, cost: u64, most: u64) -> String {
    let tenths = cost.saturating_mul(10) / most;
    let factor = match tenths {
        1001.. => "more than 100x".to_owned(),
        tenths => format!("{}.{}x", tenths / 10, tenths % 10),
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}

/// Returns true for an expression that is certainly no boolean.
fn is_other_than_bool(expression: &Expression) -> bool {
    use operators::{ADD, DIVIDE, MODULO, MULTIPLY, NEGATE, SUBSTRACT};
    match &expression.expr {
        Expr::Literal(literal) => !matches!(literal, LiteralValue::Boolean(_)),
        Expr::List(_) | Expr::Map(_) | Expr::Struct(_) => true,
        Expr::Call(call) => [ADD, SUBSTRACT, MULTIPLY, DIVIDE, MODULO, NEGATE, "size"].contains(&&*call.func_name),
        Expr::Unspecified | Expr::Ident(_) | Expr::Select(_) | Expr::Comprehension(_) => false,
    }
}

/// What is known about a part of a rule.
#[derive(Clone, Copy, Default)]
struct Part<'a> {
    cost: u64,
    /// The schema of its value.
    schema: Option<&'a Schema>,
    /// The value is a whole object, which also has a type and a name.
    is_resource: bool,
}

struct Estimate<'a> {
    /// The variables, innermost last.
    scope: Vec<(&'a str, Part<'a>)>,
    /// The first mistake in the rule.
    wrong: Option<String>,
}

impl<'a> Estimate<'a> {
    fn new(schema: &'a Schema, is_resource: bool) -> Self {
        let own = Part { cost: 0, schema: Some(schema), is_resource };
        Self { scope: vec![("self", own), ("oldSelf", own)], wrong: None }
    }

    fn complain(&mut self, why: String) {
        self.wrong.get_or_insert(why);
    }

    fn cost(&mut self, expression: &'a IdedExpr) -> Part<'a> {
        match &expression.expr {
            Expr::Unspecified | Expr::Literal(_) => Part::default(),
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => {
                let operand = self.cost(&select.operand);
                let inner = self.field(operand, &select.field);
                Part { cost: operand.cost + 1, schema: inner, is_resource: false }
            }
            Expr::Call(call) => self.call(call, expression),
            Expr::Comprehension(one) => self.comprehension(one),
            Expr::List(_) | Expr::Map(_) | Expr::Struct(_) => {
                let inner: u64 = parts(expression).into_iter().map(|(part, _)| self.cost(part).cost).sum();
                Part { cost: inner + 10, ..Part::default() }
            }
        }
    }

    fn variable(&mut self, name: &'a str) -> Part<'a> {
        let found = self.scope.iter().rev().find(|(known, _)| *known == name).map(|(_, part)| *part);
        // Namespaces of functions, such as `math`, and types stand where variables stand.
        const OTHERS: &str = "math strings sets format base64 lists optional ip cidr semver jsonpatch google \
                              bool bytes double int list map null_type string uint";
        if found.is_none() && OTHERS.split(' ').all(|other| other != name) && !name.starts_with('@') {
            self.complain(format!("ERROR: <input>:1:1: undeclared reference to '{name}' (in container '')"));
        }
        Part { cost: 1, ..found.unwrap_or_default() }
    }

    /// The schema of a field.
    fn field(&mut self, of: Part<'a>, name: &str) -> Option<&'a Schema> {
        let schema = of.schema?;
        let plain = unescaped(name);
        let found = schema.field(&plain);
        let is_meta = of.is_resource && ["apiVersion", "kind", "metadata"].contains(&name);
        let is_known =
            is_meta || found.is_some() || schema.type_name != "object" || schema.additional_properties.is_some();
        if !is_known {
            self.complain(format!("ERROR: <input>:1:1: undefined field '{name}'"));
        }
        found.filter(|_| !(of.is_resource && name == "metadata"))
    }

    fn call(&mut self, call: &'a CallExpr, expression: &'a IdedExpr) -> Part<'a> {
        let inner: Vec<_> = parts(expression).into_iter().map(|(part, _)| self.cost(part)).collect();
        let before: u64 = inner.iter().map(|part| part.cost).sum();
        let first = inner.first().copied().unwrap_or_default();
        let schema = match &*call.func_name {
            operators::INDEX | operators::OPT_INDEX => {
                first.schema.and_then(|schema| schema.item().or_else(|| schema.additional()))
            }
            operators::OPT_SELECT | "value" | "orValue" | "optMap" => first.schema,
            _ => None,
        };
        let own = match &*call.func_name {
            "contains" | "startsWith" | "endsWith" | "matches" | "find" | "findAll" | "replace" | "split"
            | "lowerAscii" | "upperAscii" | "trim" | "indexOf" | "lastIndexOf" => longest_text(first.schema) / 10,
            operators::IN => inner.get(1).and_then(|list| list.schema).map_or(1, most_items),
            operators::EQUALS | operators::NOT_EQUALS => {
                let lengths = inner.iter().filter_map(|part| part.schema).map(|schema| match &*schema.type_name {
                    "string" => longest_text(Some(schema)) / 10,
                    "array" | "object" if schema.additional().is_some() || schema.item().is_some() => {
                        most_items(schema)
                    }
                    _ => 1,
                });
                if inner.iter().all(|part| part.schema.is_some()) { lengths.min().unwrap_or(1) } else { 1 }
            }
            "isSorted" | "sum" | "min" | "max" | "sort" | "distinct" | "flatten" => first.schema.map_or(1, most_items),
            _ => 1,
        };
        Part { cost: before + own.max(1), schema, is_resource: false }
    }

    fn comprehension(&mut self, one: &'a ComprehensionExpr) -> Part<'a> {
        let range = self.cost(&one.iter_range);
        let start = self.cost(&one.accu_init);
        let count = if let Expr::List(list) = &one.iter_range.expr {
            u64::try_from(list.elements.len()).unwrap_or(u64::MAX)
        } else {
            range.schema.map_or(1, most_items)
        };
        let item = range.schema.and_then(Schema::item);
        let depth = self.scope.len();
        self.scope.push((&one.iter_var, Part { schema: item, ..Part::default() }));
        if let Some(second) = &one.iter_var2 {
            let inner = range.schema.and_then(|schema| schema.item().or_else(|| schema.additional()));
            self.scope.push((second, Part { schema: inner, ..Part::default() }));
        }
        // `map` and `filter` build a list of what is in the range.
        self.scope.push((&one.accu_var, Part { schema: range.schema.filter(|_| is_filter(one)), ..Part::default() }));
        let step = self.cost(&one.loop_cond).cost + self.cost(&one.loop_step).cost;
        let result = self.cost(&one.result);
        self.scope.truncate(depth);
        let cost = range.cost + start.cost + count.saturating_mul(step) + result.cost;
        Part { cost, schema: result.schema, is_resource: false }
    }
}

/// Returns true for a loop that keeps items of its range.
fn is_filter(one: &ComprehensionExpr) -> bool {
    matches!(one.accu_init.expr, Expr::List(_))
        && matches!(&one.loop_step.expr, Expr::Call(call) if call.func_name == operators::CONDITIONAL)
}

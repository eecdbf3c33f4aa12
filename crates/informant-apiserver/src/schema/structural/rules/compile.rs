//! Compiled rules.

use std::sync::OnceLock;

use kube_cel::cel::{
    common::ast::{EntryExpr, Expr, IdedExpr},
    parser::{Expression, Parser},
};

use crate::schema::structural::Rule;

/// A rule that can be run.
#[derive(Debug)]
pub(crate) struct CompiledRule {
    pub(super) rule: Expression,
    pub(super) message: Option<Expression>,
    /// The rule compares a value with its old value.
    pub(super) uses_old: bool,
    /// How deeply its loops (`all`, `exists`, `map` …) are nested.
    loops: u32,
    size: u64,
}

/// A rule, compiled at its first use, or the reason why it cannot be compiled.
#[derive(Debug, Default)]
pub(crate) struct Compilation(OnceLock<Result<CompiledRule, CompileError>>);

#[derive(Debug)]
pub(crate) enum CompileError {
    Rule(String),
    Message(String),
}

impl Rule {
    pub(super) fn compiled(&self) -> Result<&CompiledRule, &CompileError> {
        self.compilation.0.get_or_init(|| compile(self)).as_ref()
    }
}

fn compile(rule: &Rule) -> Result<CompiledRule, CompileError> {
    let parsed = parse(&rule.rule).map_err(CompileError::Rule)?;
    let message = match rule.message_expression.trim() {
        "" => None,
        text => Some(parse(text).map_err(CompileError::Message)?),
    };
    let uses_old = parsed.references().has_variable("oldSelf");
    let (loops, size) = extent(&parsed);
    Ok(CompiledRule { uses_old, loops, size, rule: parsed, message })
}

/// The most levels of brackets in a rule.
pub(super) const DEEPEST: usize = 100;

fn parse(text: &str) -> Result<Expression, String> {
    if depth(text) > DEEPEST {
        return Err(format!("compilation failed: brackets are nested more than {DEEPEST} levels deep"));
    }
    let parsed = Parser::default().enable_optional_syntax(true).parse(text);
    parsed.map_err(|errors| format!("compilation failed: {errors}"))
}

/// The number of nested levels of brackets in a text, those in strings included.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

impl CompiledRule {
    /// The number of steps that the rule takes at most for a value whose longest list or map has this length.
    pub(super) fn steps(&self, longest: usize) -> u64 {
        let longest = u64::try_from(longest).unwrap_or(u64::MAX);
        match self.loops {
            0 => 0,
            loops => longest.saturating_pow(loops).saturating_mul(self.size.div_ceil(8)),
        }
    }
}

/// The depth of the loops in an expression, and the number of its parts.
fn extent(expression: &IdedExpr) -> (u32, u64) {
    let is_loop = matches!(expression.expr, Expr::Comprehension(_));
    let (mut loops, mut size) = (0, 1);
    for (part, is_repeated) in parts(expression) {
        let (inner, parts) = extent(part);
        loops = loops.max(inner + u32::from(is_loop && is_repeated));
        size += parts;
    }
    (loops, size)
}

/// The parts of an expression, and whether a loop repeats them.
pub(super) fn parts(expression: &IdedExpr) -> Vec<(&IdedExpr, bool)> {
    let once = |part| (part, false);
    match &expression.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).map(once).collect(),
        Expr::Comprehension(one) => {
            let outside = [&one.iter_range, &one.accu_init, &one.result].map(once);
            outside.into_iter().chain([&one.loop_cond, &one.loop_step].map(|part| (part, true))).collect()
        }
        Expr::List(list) => list.elements.iter().map(once).collect(),
        Expr::Select(select) => vec![once(&*select.operand)],
        Expr::Map(map) => map.entries.iter().flat_map(|entry| entries(&entry.expr)).map(once).collect(),
        Expr::Struct(one) => one.entries.iter().flat_map(|entry| entries(&entry.expr)).map(once).collect(),
    }
}

fn entries(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}

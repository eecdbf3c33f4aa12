//! Paths into objects: the subset of JSONPath that printer columns use.
//!
//! - **In:** a path such as `.status.conditions[?(@.type=="Ready")].status`; an object.
//! - **Out:** the first value of the object at the path.
//! - **Knows nothing of:** columns.
//!
//! Supported are names (`.spec.x`), quoted names (`['x']`), indexes and slices (`[0]`, `[-1]`, `[1:3]`), wildcards (`.*`, `[*]`) and
//! filters that compare two sides or test whether a field exists. As in `kubectl`, a dot within a name is written `\.`, also in
//! quotes. Recursive descent (`..`) and unions (`[0,1]`) are not supported.

use std::cmp::Ordering;

use serde_json::Value;

/// A path into an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Path {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    /// All values of a map or an array.
    All,
    /// Items of an array, from the first index up to the second; negative ones count from the end.
    Items(Option<i64>, Option<i64>),
    Index(i64),
    Filter(Filter),
}

/// Selects items of an array.
#[derive(Clone, Debug, PartialEq)]
enum Filter {
    Exists(Path),
    Comparison(Side, Operator, Side),
}

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq)]
enum Side {
    /// The value at a path in the item.
    At(Path),
    Literal(Value),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Longer operators first: `<=` begins with `<`.
const OPERATORS: [(&str, Operator); 6] = [
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    ("<=", Operator::LessOrEqual),
    (">=", Operator::GreaterOrEqual),
    ("<", Operator::Less),
    (">", Operator::Greater),
];

/// The largest number of nested brackets. Parsing and evaluation recurse into filters.
const DEEPEST: usize = 16;

/// The largest number of brackets that are open at once; brackets in quotes count, too.
fn nesting(text: &str) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    for byte in text.bytes() {
        match byte {
            b'[' => open += 1,
            b']' => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open);
    }
    most
}

impl Path {
    /// Parses a path; `None` if it is not supported.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if nesting(text) > DEEPEST {
            return None;
        }
        let mut steps = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            rest = match rest.strip_prefix('[') {
                Some(bracketed) => {
                    let (content, after) = split_at_unquoted(bracketed, ']')?;
                    steps.extend(parse_brackets(content)?);
                    after
                }
                None => {
                    let named = rest.strip_prefix('.')?;
                    // A single dot is the object itself.
                    if named.is_empty() || named.starts_with('[') {
                        rest = named;
                        continue;
                    }
                    let (name, after) = name(named)?;
                    steps.push(if name == "*" { Step::All } else { Step::Field(name) });
                    after
                }
            };
        }
        Some(Self { steps })
    }

    /// The first value at the path; `None` if the path does not fit the object, such as an index into a map.
    pub(super) fn find<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        self.values(object)?.first().copied()
    }

    /// All values at the path; `None` if the path does not fit the object.
    fn values<'a>(&self, object: &'a Value) -> Option<Vec<&'a Value>> {
        self.steps.iter().try_fold(vec![object], |values, step| {
            let next: Option<Vec<_>> = values.into_iter().map(|value| step.values(value)).collect();
            Some(next?.into_iter().flatten().collect())
        })
    }
}

impl Step {
    fn values<'a>(&self, value: &'a Value) -> Option<Vec<&'a Value>> {
        match self {
            Self::Field(name) => Some(value.get(name).into_iter().collect()),
            Self::All => Some(match value {
                Value::Array(items) => items.iter().collect(),
                Value::Object(fields) => fields.values().collect(),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => vec![],
            }),
            Self::Index(index) => {
                let items = value.as_array()?;
                Some(vec![items.get(place(*index, items.len())?)?])
            }
            Self::Items(from, to) => {
                let items = value.as_array()?;
                let from = from.map_or(Some(0), |from| place(from, items.len()))?;
                let to = to.map_or(Some(items.len()), |to| place(to, items.len()))?;
                Some(items.get(from..to)?.iter().collect())
            }
            Self::Filter(filter) => {
                let mut passed = Vec::new();
                for item in value.as_array()? {
                    if filter.passes(item)? {
                        passed.push(item);
                    }
                }
                Some(passed)
            }
        }
    }
}

impl Filter {
    /// Returns true if the item passes; `None` if the two sides cannot be compared.
    fn passes(&self, item: &Value) -> Option<bool> {
        match self {
            Self::Exists(path) => Some(path.find(item).is_some()),
            Self::Comparison(left, operator, right) => operator.compare(left.value(item)?, right.value(item)?),
        }
    }
}

impl Side {
    fn parse(text: &str) -> Option<Self> {
        if let Some(path) = text.strip_prefix('@') {
            return Path::parse(path).map(Self::At);
        }
        let literal = unquoted(text).map(|text| Value::String(text.to_owned()));
        literal.or_else(|| serde_json::from_str(text).ok()).map(Self::Literal)
    }

    fn value<'a>(&'a self, item: &'a Value) -> Option<&'a Value> {
        match self {
            Self::At(path) => match path.values(item)?[..] {
                [one] => Some(one),
                [..] => None,
            },
            Self::Literal(value) => Some(value),
        }
    }
}

impl Operator {
    fn compare(self, left: &Value, right: &Value) -> Option<bool> {
        let order = match (left, right) {
            (Value::String(left), Value::String(right)) => left.cmp(right),
            (Value::Number(left), Value::Number(right)) => left.as_f64()?.partial_cmp(&right.as_f64()?)?,
            (Value::Bool(left), Value::Bool(right)) if matches!(self, Self::Equal | Self::NotEqual) => left.cmp(right),
            (_, _) => return None,
        };
        Some(match self {
            Self::Equal => order == Ordering::Equal,
            Self::NotEqual => order != Ordering::Equal,
            Self::Less => order == Ordering::Less,
            Self::LessOrEqual => order != Ordering::Greater,
            Self::Greater => order == Ordering::Greater,
            Self::GreaterOrEqual => order != Ordering::Less,
        })
    }
}

/// The position for an index; negative indexes count from the end.
fn place(index: i64, len: usize) -> Option<usize> {
    let from_end = if index < 0 { i64::try_from(len).ok()? } else { 0 };
    usize::try_from(index + from_end).ok()
}

/// Parses the text between brackets.
fn parse_brackets(content: &str) -> Option<Vec<Step>> {
    let content = content.trim();
    if content == "*" {
        return Some(vec![Step::All]);
    }
    if let Some(quoted) = unquoted(content) {
        return Path::parse(&format!(".{quoted}")).map(|path| path.steps);
    }
    if let Some(filter) = content.strip_prefix("?(").and_then(|filter| filter.strip_suffix(')')) {
        return parse_filter(filter.trim()).map(|filter| vec![Step::Filter(filter)]);
    }
    let number = |text: &str| text.trim().parse::<i64>().ok();
    let bound = |text: &str| if text.trim().is_empty() { Some(None) } else { number(text).map(Some) };
    match content.split_once(':') {
        Some((from, to)) => Some(vec![Step::Items(bound(from)?, bound(to)?)]),
        None => number(content).map(|index| vec![Step::Index(index)]),
    }
}

fn parse_filter(text: &str) -> Option<Filter> {
    let mut quote = None;
    for (place, character) in text.char_indices() {
        match (quote, character) {
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => {}
            (None, _) => {
                let found = OPERATORS.iter().find(|(sign, _)| text[place..].starts_with(sign));
                if let Some((sign, operator)) = found {
                    let (left, right) = (text[..place].trim(), text[place + sign.len()..].trim());
                    return Some(Filter::Comparison(Side::parse(left)?, *operator, Side::parse(right)?));
                }
            }
        }
    }
    match Side::parse(text)? {
        Side::At(path) => Some(Filter::Exists(path)),
        Side::Literal(_) => None,
    }
}

/// The name up to the next dot or bracket, and the text after it. A backslash escapes the next character.
fn name(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((place, character)) = characters.next() {
        match character {
            '.' | '[' => return (!name.is_empty()).then(|| (name, &text[place..])),
            '\\' => name.push(characters.next()?.1),
            ']' | ',' | '{' | '}' | '@' | '$' => return None,
            other => name.push(other),
        }
    }
    (!name.is_empty()).then_some((name, ""))
}

fn unquoted(text: &str) -> Option<&str> {
    ['\'', '"'].into_iter().find_map(|quote| {
        let inside = text.strip_prefix(quote)?.strip_suffix(quote)?;
        (!inside.contains(quote)).then_some(inside)
    })
}

/// The text before the first such character outside of quotes and inner brackets, and the text after it.
fn split_at_unquoted(text: &str, end: char) -> Option<(&str, &str)> {
    let (mut quote, mut depth) = (None, 0_usize);
    for (place, character) in text.char_indices() {
        match (quote, character) {
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => {}
            (None, '[') => depth += 1,
            (None, _) if character == end && depth == 0 => {
                return Some((&text[..place], &text[place + character.len_utf8()..]));
            }
            (None, ']') => depth = depth.saturating_sub(1),
            (None, _) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(path: &str) -> Option<Value> {
        let object = json!({
            "metadata": {"annotations": {"example.com/size": "large"}},
            "spec": {"size": 3, "parts": [{"name": "a", "weight": 1.5}, {"name": "b", "weight": 7}], "none": null},
            "status": {"conditions": [
                {"type": "Synced", "status": "False"},
                {"type": "Ready", "status": "True", "reason": "a]b"},
            ]},
        });
        Path::parse(path).unwrap_or_else(|| panic!("{path} is understood")).find(&object).cloned()
    }

    #[test]
    fn a_path_leads_through_names_indexes_and_filters_to_the_first_value() {
        for (path, value) in [
            (".spec.size", json!(3)),
            (".spec['size']", json!(3)),
            (".spec[\"size\"]", json!(3)),
            ("['spec.size']", json!(3)),
            (r".metadata.annotations.example\.com/size", json!("large")),
            (r".metadata.annotations['example\.com/size']", json!("large")),
            (".spec.parts[0].name", json!("a")),
            (".spec.parts[-1].name", json!("b")),
            (".spec.parts[1:].name", json!("b")),
            (".spec.parts[*].name", json!("a")),
            (".spec.parts[?(@.weight>2)].name", json!("b")),
            (r#".status.conditions[?(@.type=="Ready")].status"#, json!("True")),
            (".status.conditions[?(@.type == 'Ready')].status", json!("True")),
            (".status.conditions[?(@.type != 'Synced')].reason", json!("a]b")),
            (".status.conditions[?(@.reason)].type", json!("Ready")),
            (".status.conditions[?(@['type']=='Ready')].status", json!("True")),
            (".spec.none", json!(null)),
        ] {
            assert_eq!(found(path), Some(value), "{path}");
        }
    }

    #[test]
    fn a_path_that_does_not_fit_the_object_finds_no_value() {
        for path in [
            ".spec.colour",
            ".spec.size.unit",
            ".spec.none.more",
            ".spec[0]",
            ".spec.parts[2].name",
            ".spec.parts[-3].name",
            ".spec.parts[5:].name",
            ".status.conditions[?(@.type=='Gone')].status",
            ".status.conditions[?(@.reason=='a]b')].status",
            ".status.conditions[?(@.type==1)].status",
            ".spec[?(@.a=='b')]",
        ] {
            assert_eq!(found(path), None, "{path}");
        }
    }

    #[test]
    fn recursive_descent_unions_and_malformed_paths_are_rejected() {
        for path in
            ["spec", "..name", ".a[0,1]", ".a[", ".a[]", ".a[?(1)]", ".a[?(@.b==c)]", ".a]", ".a\\", ".a..b", ".a[x]"]
        {
            assert_eq!(Path::parse(path), None, "{path}");
        }
    }
}

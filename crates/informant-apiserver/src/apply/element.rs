//! One step of a path to a field, as managed fields name it.
//!
//! | step | as JSON | in messages |
//! | --- | --- | --- |
//! | the field of a map | `f:name` | `.name` |
//! | the item of a list with these fields | `k:{"name":"a"}` | `[name="a"]` |
//! | the value in a set | `v:"a"` | `[="a"]` |
//! | the item at a place | `i:0` | `[0]` |

use std::{cmp::Ordering, fmt};

use serde_json::{Map, Value};

use crate::schema::{ListKind, MapKey};

/// A field that identifies an item, and its value.
type KeyField = (Box<str>, Value);

/// One step of a path. Ordered as Kubernetes orders it.
#[derive(Clone, Debug)]
pub(crate) enum Element {
    Field(Box<str>),
    /// The fields that identify an item, ordered by name.
    Key(Vec<KeyField>),
    Value(Value),
    Index(i64),
}

impl Element {
    pub(crate) fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    /// The step to an item of a list; an error if the item cannot be told from others.
    pub(crate) fn of_item(kind: &ListKind, place: usize, item: &Value) -> Result<Self, String> {
        match kind {
            ListKind::Atomic => Ok(Self::Index(i64::try_from(place).unwrap_or(i64::MAX))),
            ListKind::Set => match item {
                Value::Object(_) => Err("associative list without keys has an element that's a map type".into()),
                Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
                Value::Null => Err("associative list without keys has an element that's an explicit null".into()),
                Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(Self::Value(item.clone())),
            },
            ListKind::Map(keys) => match item {
                Value::Object(item) => Self::of_fields(keys, item),
                Value::Null => Err("associative list with keys may not have a null element".into()),
                Value::Array(_) | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                    Err("associative list with keys may not have non-map elements".into())
                }
            },
        }
    }

    fn of_fields(keys: &[MapKey], item: &Map<String, Value>) -> Result<Self, String> {
        let value = |key: &MapKey| Some((key.name.clone(), item.get(&*key.name).or(key.default.as_ref())?.clone()));
        let mut fields = keys.iter().filter_map(value).collect::<Vec<_>>();
        if fields.is_empty() {
            let names = keys.iter().map(|key| format!("{:?}", key.name)).collect::<Vec<_>>().join(" ");
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{names}] (and doesn't have default values for any key fields)"
            ));
        }
        fields.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(Self::Key(fields))
    }

    /// Reads the form in JSON. `Ok(None)` for a form of a later version of Kubernetes.
    pub(crate) fn read(text: &str) -> Result<Option<Self>, ()> {
        let (kind, rest) = text.split_once(':').filter(|(kind, _)| kind.len() == 1).ok_or(())?;
        Ok(Some(match kind {
            "f" => Self::field(rest),
            "v" => Self::Value(serde_json::from_str(rest).map_err(|_| ())?),
            "i" => Self::Index(rest.parse().map_err(|_| ())?),
            "k" => {
                let fields: Map<String, Value> = serde_json::from_str(rest).map_err(|_| ())?;
                let mut fields = fields.into_iter().map(|(name, value)| (name.into(), value)).collect::<Vec<_>>();
                fields.sort_by(|(one, _): &KeyField, (other, _)| one.cmp(other));
                Self::Key(fields)
            }
            _ => return Ok(None),
        }))
    }

    /// The form in JSON, not yet quoted.
    pub(crate) fn write(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(fields) => {
                let fields = fields.iter().map(|(name, value)| format!("{}:{}", json(&(**name).into()), json(value)));
                format!("k:{{{}}}", fields.collect::<Vec<_>>().join(","))
            }
            Self::Value(value) => format!("v:{}", json(value)),
            Self::Index(place) => format!("i:{place}"),
        }
    }
}

impl Element {
    /// Writes the form in JSON.
    pub(super) fn write_quoted(&self, json: &mut String) {
        match self {
            Self::Field(name) if !name.contains(['"', '\\']) && !name.contains(char::is_control) => {
                json.extend(["\"f:", name, "\""]);
            }
            Self::Field(_) | Self::Key(_) | Self::Value(_) | Self::Index(_) => {
                json.push_str(&Value::String(self.write()).to_string());
            }
        }
    }
}

/// JSON as Go writes it by default, with the characters escaped that mean something in HTML.
fn json(value: &Value) -> String {
    let text = value.to_string();
    if !text.contains(['<', '>', '&']) {
        return text;
    }
    text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                let fields = fields.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
                write!(f, "[{}]", fields.join(","))
            }
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(place) => write!(f, "[{place}]"),
        }
    }
}

impl Ord for Element {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(one), Self::Field(other)) => one.cmp(other),
            (Self::Key(one), Self::Key(other)) => compare_fields(one, other),
            (Self::Value(one), Self::Value(other)) => compare(one, other),
            (Self::Index(one), Self::Index(other)) => one.cmp(other),
            (Self::Field(_) | Self::Key(_) | Self::Value(_) | Self::Index(_), _) => self.rank().cmp(&other.rank()),
        }
    }
}

impl Element {
    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

fn compare_fields(one: &[KeyField], other: &[KeyField]) -> Ordering {
    let differs = |(one, other): (&KeyField, &KeyField)| {
        let order = one.0.cmp(&other.0).then_with(|| compare(&one.1, &other.1));
        order.is_ne().then_some(order)
    };
    let first = one.iter().zip(other).find_map(differs);
    first.unwrap_or_else(|| one.len().cmp(&other.len()))
}

/// A total order of values: numbers, strings, booleans, lists, maps, null.
fn compare(one: &Value, other: &Value) -> Ordering {
    fn rank(value: &Value) -> u8 {
        match value {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        }
    }
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => match (one.as_i64(), other.as_i64()) {
            (Some(one), Some(other)) => one.cmp(&other),
            (_, _) => one.as_f64().unwrap_or_default().total_cmp(&other.as_f64().unwrap_or_default()),
        },
        (Value::String(one), Value::String(other)) => one.cmp(other),
        (Value::Bool(one), Value::Bool(other)) => one.cmp(other),
        // Lists and maps are no keys of lists.
        (one, other) => rank(one).cmp(&rank(other)).then_with(|| one.to_string().cmp(&other.to_string())),
    }
}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Element {}

//! The printer columns of custom resource definitions (`additionalPrinterColumns`).

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Number, Value};

use super::{Cell, Column, NAME, UNKNOWN, ages::time_since, path::Path};

/// A column as a version of a custom resource definition describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PrinterColumn {
    /// The header of the column.
    pub name: String,
    /// `integer`, `number`, `string`, `boolean` or `date`.
    pub r#type: String,
    /// A format of OpenAPI, such as `int32`; may be empty.
    pub format: String,
    /// An explanation for users.
    pub description: String,
    /// 0 for columns that are always shown; `kubectl get -o wide` shows the others too.
    pub priority: i32,
    /// The JSONPath of the value in objects.
    pub json_path: String,
}

/// Returns the columns of a custom resource: its name and the columns of its definition, or its name and age if the definition has
/// none.
///
/// A cell is null if the object has no value of the column's type at the column's path, or if the path is not supported: `..` and
/// `[0,1]` are not.
pub fn of_definition(columns: &[PrinterColumn]) -> Vec<Column> {
    let age = PrinterColumn {
        name: "Age".to_owned(),
        r#type: "date".to_owned(),
        json_path: ".metadata.creationTimestamp".to_owned(),
        ..PrinterColumn::default()
    };
    let shown = if columns.is_empty() { std::slice::from_ref(&age) } else { columns };
    [NAME].into_iter().chain(shown.iter().map(column)).collect()
}

fn column(column: &PrinterColumn) -> Column {
    let generic = || format!("Custom resource definition column (in JSONPath format): {}", column.json_path);
    let description = if column.description.is_empty() { generic() } else { column.description.clone() };
    Column {
        name: column.name.clone().into(),
        content: column.r#type.clone().into(),
        format: column.format.clone().into(),
        description: description.into(),
        priority: column.priority,
        cell: Cell::Found(Path::parse(&column.json_path)),
    }
}

/// The cell for a value in a column of this type.
pub(super) fn shown(content: &str, value: &Value, now: Timestamp) -> Value {
    match (content, value) {
        ("string", value) => text(value).map_or(Value::Null, Value::String),
        ("integer", Value::Number(number)) => integer(number).map_or(Value::Null, Value::from),
        ("number", number @ Value::Number(_)) => number.clone(),
        ("boolean", truth @ Value::Bool(_)) => truth.clone(),
        ("date", Value::String(time)) if time.is_empty() => UNKNOWN.into(),
        ("date", Value::String(time)) => {
            time.parse().map_or_else(|_| "<invalid>".into(), |then| time_since(then, now).into())
        }
        (_, _) => Value::Null,
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        // Go prints no fraction if it is zero.
        Value::Number(number) if number.is_f64() => number.as_f64().map(|number| number.to_string()),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => Some(value.to_string()),
    }
}

fn integer(number: &Number) -> Option<i64> {
    number.as_i64().or_else(|| number.as_f64().map(|number| number as i64))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cell_has_the_type_of_its_column_or_is_null() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        for (content, value, cell) in [
            ("string", json!("a"), json!("a")),
            ("string", json!(3), json!("3")),
            ("string", json!(3.0), json!("3")),
            ("string", json!(true), json!("true")),
            ("string", json!(["a", 1]), json!("[\"a\",1]")),
            ("string", json!(null), json!(null)),
            ("integer", json!(3), json!(3)),
            ("integer", json!(3.7), json!(3)),
            ("integer", json!("3"), json!(null)),
            ("number", json!(3.7), json!(3.7)),
            ("boolean", json!(false), json!(false)),
            ("boolean", json!("false"), json!(null)),
            ("date", json!("2026-01-01T00:00:00Z"), json!("60s")),
            ("date", json!("yesterday"), json!("<invalid>")),
            ("date", json!(""), json!("<unknown>")),
            ("date", json!(1), json!(null)),
            ("colour", json!("red"), json!(null)),
        ] {
            assert_eq!(shown(content, &value, now), cell, "{content} {value}");
        }
    }

    #[test]
    fn a_definition_without_columns_shows_name_and_age() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let object = json!({"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}});

        let columns = of_definition(&[]);

        let shown: Vec<_> = columns.iter().map(|column| (column.name(), column.cell(&object, now))).collect();
        assert_eq!(shown, [("Name", json!("a")), ("Age", json!("60s"))]);
        assert_eq!(columns[1].cell(&json!({}), now), Value::Null);
    }
}

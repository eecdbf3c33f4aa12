//! The index of `--index`: by a label, a field or the namespace.

use std::{fmt, str::FromStr};

use informant::{Cached, SharedInformer, error::IndexError};

use crate::objects::{PrintableObject, Reader, field::Field};

/// The value of `--index`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexBy {
    Label(String),
    Field(Field),
    Namespace,
}

impl FromStr for IndexBy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            None if text == "namespace" => Ok(Self::Namespace),
            Some(("label", key)) if !key.is_empty() => Ok(Self::Label(key.to_owned())),
            Some(("field", path)) => Ok(Self::Field(path.parse()?)),
            None | Some(_) => Err("expected label=KEY, field=PATH or namespace".to_owned()),
        }
    }
}

impl fmt::Display for IndexBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Label(key) => write!(f, "label={key}"),
            Self::Field(path) => write!(f, "field={path}"),
            Self::Namespace => write!(f, "namespace"),
        }
    }
}

impl IndexBy {
    /// The table header above the index values.
    pub fn header(&self) -> String {
        let name = match self {
            Self::Label(key) => key.clone(),
            Self::Field(path) => path.to_string(),
            Self::Namespace => "namespace".to_owned(),
        };
        name.to_uppercase()
    }

    /// Adds the index to the informer. Every informer already has an index by namespace.
    pub fn add_to<O: PrintableObject>(&self, informer: &SharedInformer<O>, reader: Reader) -> Result<(), IndexError> {
        let name = self.to_string();
        match self.clone() {
            Self::Namespace => {}
            Self::Label(key) => {
                let value = move |object: &Cached<O>| object.label_map().get(&key).cloned();
                informer.add_index(&name, value)?;
            }
            // Uses `reader`, so that hidden values of Secrets cannot be looked up either.
            Self::Field(path) => {
                let values =
                    move |object: &Cached<O>| reader.value(object).map_or_else(|_| vec![], |value| path.values(&value));
                informer.add_index(&name, values)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_displayed_as_it_was_parsed() {
        for text in ["namespace", "label=app.kubernetes.io/name", "field=spec.nodeName", r"field=metadata.labels.a\.b"]
        {
            assert_eq!(text.parse::<IndexBy>().unwrap().to_string(), text);
        }
        for bad in ["", "label", "label=", "field=", "name", "node=n1", "namespace=shop"] {
            assert!(bad.parse::<IndexBy>().is_err(), "{bad}");
        }
    }
}

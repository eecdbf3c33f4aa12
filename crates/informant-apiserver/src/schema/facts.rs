//! The types of the built-in kinds, from `facts.txt`, which `facts/generate` writes.
//!
//! A line without indentation begins a type: its name; `= group/version/Kind` for a kind; `atomic` if it is replaced as a whole; `any`
//! if its fields are unknown. The lines below are its fields: name and type, and the strategy of strategic merge patches, if there is
//! one. An exclamation mark after the name says that kube-apiserver always has the field, if only as an empty map or list.
//!
//! | type | meaning |
//! | --- | --- |
//! | `string`, `int`, `long`, `number`, `bool`, `bytes` (base64), `time`, `microTime`, `quantity`, `intOrString` | a scalar |
//! | `any` | any value |
//! | `raw` | any value, replaced as a whole |
//! | `map:string` | a map whose values are strings |
//! | `atomic:map:string` | a map that is replaced as a whole |
//! | `granular:ObjectReference` | an `ObjectReference`, which is atomic elsewhere, but not here |
//! | `list:string` | a list that is replaced as a whole |
//! | `set:string` | a list of distinct values |
//! | `list[port,protocol="TCP"]:ServicePort` | a list whose items differ in these fields; `"TCP"` stands for an absent one |
//! | anything else | the name of a type |

use std::{collections::HashMap, sync::LazyLock};

use super::{Field, ListKind, MapKey, PatchStrategy, Place, Scalar, Shape, Type, Types};

const TEXT: &str = include_str!("facts.txt");

static FACTS: LazyLock<Facts> = LazyLock::new(|| Facts::read(TEXT));

/// The type of a built-in kind, by its `apiVersion` and kind. `None` for a kind without facts.
pub(super) fn built_in(api_version: &str, kind: &str) -> Option<Type<'static>> {
    let place = FACTS.kinds.get(&(api_version, kind))?;
    Some(FACTS.types.at(*place))
}

/// The type with this name.
pub(super) fn named(name: &str) -> Option<Type<'static>> {
    FACTS.names.get(name).map(|place| FACTS.types.at(*place))
}

/// The type of the metadata of every object.
pub(super) fn metadata() -> Type<'static> {
    named("ObjectMeta").unwrap_or(Type::any())
}

#[derive(Default)]
struct Facts {
    types: Types,
    kinds: HashMap<(&'static str, &'static str), Place>,
    names: HashMap<&'static str, Place>,
    /// The types of fields that have been read, so that equal ones are one type.
    read: HashMap<&'static str, Place>,
}

impl Facts {
    fn read(text: &'static str) -> Self {
        let mut facts = Self::default();
        let heads = text.lines().filter(|line| !line.starts_with(' '));
        for name in heads.filter_map(|line| line.split(' ').next()) {
            // Its shape follows below.
            let place = facts.types.add(Shape::Any);
            facts.names.insert(name, place);
        }
        let mut lines = text.lines().peekable();
        while let Some(head) = lines.next() {
            let mut words = head.split(' ');
            let place = facts.names[words.next().unwrap_or_default()];
            let (mut is_atomic, mut is_any) = (false, false);
            while let Some(word) = words.next() {
                match word {
                    "=" => {
                        let kind = words.next().and_then(|kind| kind.rsplit_once('/'));
                        facts.kinds.extend(kind.map(|kind| (kind, place)));
                    }
                    "atomic" => is_atomic = true,
                    _ => is_any = true,
                }
            }
            let mut fields = Vec::new();
            while let Some(line) = lines.next_if(|line| line.starts_with(' ')) {
                fields.push(facts.field(line));
            }
            if !is_any {
                let name = head.split(' ').next().unwrap_or_default().into();
                facts.types.0[place as usize] = Shape::Map { name, fields, values: None, is_atomic };
            }
        }
        facts
    }

    fn field(&mut self, line: &'static str) -> Field {
        let mut words = line.trim_start().splitn(3, ' ');
        let name = words.next().unwrap_or_default();
        let place = self.place(words.next().unwrap_or_default());
        let strategy = words.next().map(|word| match word.trim_end_matches(')').split_once('(') {
            Some((names, key)) => PatchStrategy { names, merge_key: Some(key) },
            None => PatchStrategy { names: word, merge_key: None },
        });
        Field { name: name.trim_end_matches('!').into(), place, is_always_there: name.ends_with('!'), strategy }
    }

    fn place(&mut self, word: &'static str) -> Place {
        if let Some(place) = self.names.get(word).or_else(|| self.read.get(word)) {
            return *place;
        }
        let shape = self.shape(word);
        let place = self.types.add(shape);
        self.read.insert(word, place);
        place
    }

    fn shape(&mut self, word: &'static str) -> Shape {
        let map = |values, is_atomic| {
            let (name, fields) = (Box::default(), Vec::new());
            Shape::Map { name, fields, values: Some(values), is_atomic }
        };
        if let Some((prefix, rest)) = word.split_once(':') {
            return match prefix {
                "map" => map(self.place(rest), false),
                "list" => Shape::List { items: self.place(rest), kind: ListKind::Atomic },
                "set" => Shape::List { items: self.place(rest), kind: ListKind::Set },
                "atomic" | "granular" => self.with_ownership(rest, prefix == "atomic"),
                keys => Shape::List { kind: ListKind::Map(read_keys(keys)), items: self.place(rest) },
            };
        }
        match word {
            "string" => Shape::Scalar(Scalar::String),
            "bytes" => Shape::Scalar(Scalar::Bytes),
            "int" => Shape::Scalar(Scalar::Int),
            "long" => Shape::Scalar(Scalar::Long),
            "number" => Shape::Scalar(Scalar::Number),
            "time" | "microTime" => Shape::Scalar(Scalar::Time),
            "quantity" => Shape::Scalar(Scalar::Quantity),
            "intOrString" => Shape::Scalar(Scalar::IntOrString),
            "bool" => Shape::Scalar(Scalar::Bool),
            "raw" => Shape::Whole,
            "any" => Shape::Any,
            _ => Shape::Scalar(Scalar::Any),
        }
    }

    /// A map, replaced as a whole or not.
    fn with_ownership(&mut self, word: &'static str, is_atomic: bool) -> Shape {
        let place = self.place(word);
        match self.types.0[place as usize].clone() {
            Shape::Map { name, fields, values, .. } => Shape::Map { name, fields, values, is_atomic },
            // A type that is read later; only maps have this prefix.
            other @ (Shape::Scalar(_) | Shape::List { .. } | Shape::Any | Shape::Whole | Shape::Metadata) => other,
        }
    }
}

/// `list[port,protocol="TCP"]`.
fn read_keys(text: &str) -> Vec<MapKey> {
    let keys = text.trim_start_matches("list[").trim_end_matches(']').split(',');
    let key = |key: &str| {
        let (name, default) = key.split_once('=').map_or((key, None), |(name, default)| (name, Some(default)));
        MapKey { name: name.into(), default: default.and_then(|default| serde_json::from_str(default).ok()) }
    };
    keys.map(key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    fn at<'a>(mut place: Type<'a>, path: &str) -> Type<'a> {
        for step in path.split('.') {
            place = if step == "[]" { place.items() } else { place.field(step).unwrap().0 };
        }
        place
    }

    #[test]
    fn every_built_in_kind_has_facts() {
        for kind in Registry::builtin_kinds() {
            assert!(built_in(&kind.api_version(), &kind.kind).is_some(), "{}", kind.resource());
        }
        assert!(TEXT.len() < 80_000, "{}", TEXT.len());
    }

    #[test]
    fn types_are_read_with_their_lists_and_maps() {
        let deployment = built_in("apps/v1", "Deployment").unwrap();
        let service = built_in("v1", "Service").unwrap();
        let volume = built_in("v1", "PersistentVolume").unwrap();

        let container = at(deployment, "spec.template.spec.containers.[]");
        assert_eq!(at(container, "image").shape, &Shape::Scalar(Scalar::String));
        assert_eq!(at(container, "resources.limits.cpu").shape, &Shape::Scalar(Scalar::Quantity));
        assert!(matches!(at(container, "args").shape, Shape::List { kind: ListKind::Atomic, .. }));
        assert!(matches!(at(deployment, "spec.selector").shape, Shape::Map { is_atomic: true, .. }));
        assert!(matches!(at(service, "spec.selector").shape, Shape::Map { is_atomic: true, .. }));
        assert!(
            matches!(at(volume, "spec.claimRef").shape, Shape::Map { is_atomic: false, fields, .. } if !fields.is_empty())
        );
        assert!(matches!(at(service, "metadata.finalizers").shape, Shape::List { kind: ListKind::Set, .. }));
        let Shape::List { kind: ListKind::Map(keys), .. } = at(service, "spec.ports").shape else { panic!("a list") };
        assert_eq!(keys[1], MapKey { name: "protocol".into(), default: Some("TCP".into()) });
        assert!(service.field("unknown").is_none());
    }
}

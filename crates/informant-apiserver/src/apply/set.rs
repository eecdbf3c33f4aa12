//! Sets of fields.
//!
//! - **In:** paths, or the JSON of `fieldsV1`.
//! - **Out:** unions, intersections, differences; JSON.
//! - **Knows nothing of:** managers, objects.

use std::collections::{BTreeMap, btree_map::Entry};

use serde_json::Value;

use super::element::Element;
use crate::registry::kind::{Kind, Origin};

/// A set of fields, and of the fields in them. A field and a field in it are members independently of each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSet {
    pub(super) is_member: bool,
    /// None of them is empty.
    children: BTreeMap<Element, FieldSet>,
}

impl FieldSet {
    /// A field without the fields in it.
    pub(super) fn leaf() -> Self {
        Self { is_member: true, children: BTreeMap::new() }
    }

    /// A set with one path.
    pub(crate) fn of_path(path: &[&str]) -> Self {
        let mut set = Self::leaf();
        for name in path.iter().rev() {
            let mut outer = Self::default();
            outer.insert(Element::field(name), set);
            set = outer;
        }
        set
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.is_member && self.children.is_empty()
    }

    /// Adds a set of fields below a step.
    pub(super) fn insert(&mut self, step: Element, set: Self) {
        if set.is_empty() {
            return;
        }
        match self.children.entry(step) {
            Entry::Vacant(vacant) => drop(vacant.insert(set)),
            Entry::Occupied(mut found) => found.get_mut().extend(set),
        }
    }

    pub(super) fn child(&self, step: &Element) -> Option<&Self> {
        self.children.get(step)
    }

    pub(super) fn children(&self) -> impl Iterator<Item = (&Element, &Self)> {
        self.children.iter()
    }

    /// Returns true if the set has the field.
    pub(crate) fn has(&self, path: &[&str]) -> bool {
        match path.split_first() {
            None => self.is_member,
            Some((name, rest)) => self.child(&Element::field(name)).is_some_and(|child| child.has(rest)),
        }
    }

    /// Adds all fields of another set.
    pub(crate) fn extend(&mut self, other: Self) {
        self.is_member |= other.is_member;
        for (step, set) in other.children {
            self.insert(step, set);
        }
    }

    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let both = self.children.iter().filter_map(|(step, set)| {
            let set = set.intersection(other.child(step)?);
            (!set.is_empty()).then(|| (step.clone(), set))
        });
        Self { is_member: self.is_member && other.is_member, children: both.collect() }
    }

    /// The fields that are not in the other set.
    pub(crate) fn difference(mut self, other: &Self) -> Self {
        self.remove(other, false);
        self
    }

    /// The fields that are not in the other set, nor in a field of it.
    pub(crate) fn recursive_difference(mut self, other: &Self) -> Self {
        self.remove(other, true);
        self
    }

    fn remove(&mut self, other: &Self, with_inner: bool) {
        self.is_member &= !other.is_member;
        for (step, other) in &other.children {
            let Some(set) = self.children.get_mut(step) else { continue };
            if !(with_inner && other.is_member) {
                set.remove(other, with_inner);
                if !set.is_empty() {
                    continue;
                }
            }
            self.children.remove(step);
        }
    }

    /// All members as text. Those of a level come before those below it.
    pub(crate) fn paths(&self) -> Vec<String> {
        fn add(set: &FieldSet, path: &str, all: &mut Vec<String>) {
            let members = set.children.iter().filter(|(_, set)| set.is_member);
            all.extend(members.map(|(step, _)| format!("{path}{step}")));
            for (step, set) in &set.children {
                add(set, &format!("{path}{step}"), all);
            }
        }
        let mut all = Vec::new();
        add(self, "", &mut all);
        all
    }

    /// Reads `fieldsV1`. Fails if a step is malformed.
    pub(crate) fn read(fields: &Value) -> Result<Self, ()> {
        let fields = fields.as_object().ok_or(())?;
        let mut set = Self::default();
        for (step, inner) in fields {
            if step == "." {
                set.is_member = true;
            } else if let Some(step) = Element::read(step)? {
                let mut inner = Self::read(inner)?;
                inner.is_member |= inner.children.is_empty();
                set.insert(step, inner);
            }
        }
        Ok(set)
    }

    /// Writes `fieldsV1`.
    pub(crate) fn write(&self, json: &mut String, order: Order) {
        json.push('{');
        if self.is_member && !self.children.is_empty() {
            json.push_str("\".\":{},");
        }
        match order {
            Order::ByValue => write_all(self.children(), json, order),
            Order::ByText => {
                let mut children = self.children().collect::<Vec<_>>();
                children.sort_by_cached_key(|(step, _)| step.write());
                write_all(children.into_iter(), json, order);
            }
        }
        json.push('}');
    }
}

fn write_all<'a>(children: impl Iterator<Item = (&'a Element, &'a FieldSet)>, json: &mut String, order: Order) {
    for (position, (step, set)) in children.enumerate() {
        if position > 0 {
            json.push(',');
        }
        step.write_quoted(json);
        json.push(':');
        set.write(json, order);
    }
}

/// The order in which steps are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The item with the key 9 comes before the one with the key 10.
    ByValue,
    /// `10` comes before `9`, as in all JSON that kube-apiserver has held in a map.
    ByText,
}

impl Order {
    /// The order in objects of a kind.
    pub(super) fn of(kind: &Kind) -> Self {
        match kind.origin {
            Origin::BuiltIn => Self::ByValue,
            Origin::Custom => Self::ByText,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(fields: &Value) -> FieldSet {
        FieldSet::read(fields).unwrap()
    }

    fn text(set: &FieldSet) -> String {
        let mut text = String::new();
        set.write(&mut text, Order::ByValue);
        text
    }

    #[test]
    fn a_set_is_written_as_it_was_read_in_the_order_of_kubernetes() {
        let fields =
            json!({"f:b": {".": {}, "k:{\"port\":80}": {}, "k:{\"port\":9}": {}, "v:\"x\"": {}}, "f:a": {"f:c": {}}});

        let text = text(&set(&fields));

        assert_eq!(text, r#"{"f:a":{"f:c":{}},"f:b":{".":{},"k:{\"port\":9}":{},"k:{\"port\":80}":{},"v:\"x\"":{}}}"#);
        assert_eq!(set(&fields).paths(), [".b", ".a.c", ".b[port=9]", ".b[port=80]", ".b[=\"x\"]"]);
        assert!(FieldSet::read(&json!({"nonsense": {}})).is_err());
        assert!(set(&json!({"z:later": {}})).is_empty());
    }

    #[test]
    fn a_difference_keeps_what_is_in_a_field_unless_it_is_recursive() {
        let all = set(&json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}}));
        let a = FieldSet::of_path(&["a"]);

        assert_eq!(text(&all.clone().difference(&a)), r#"{"f:a":{"f:b":{}},"f:c":{}}"#);
        assert_eq!(text(&all.clone().recursive_difference(&a)), r#"{"f:c":{}}"#);
        assert_eq!(text(&all.intersection(&a)), r#"{"f:a":{}}"#);
    }
}

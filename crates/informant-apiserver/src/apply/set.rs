//! Sets of fields.
//!
//! - **In:** paths, or the JSON of `fieldsV1`.
//! - **Out:** unions, intersections, differences; JSON.
//! - **Knows nothing of:** managers, objects.

use std::collections::{BTreeMap, btree_map::Entry};

use serde_json::Value;

use super::element::Element;

/// A set of fields, and of the fields in them. A field and a field in it are members independently of each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSet {
    pub(super) is_member: bool,
    /// INV: none of them is empty.
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
    pub(crate) fn difference(&self, other: &Self) -> Self {
        self.without(other, false)
    }

    /// The fields that are not in the other set, nor in a field of it.
    pub(crate) fn recursive_difference(&self, other: &Self) -> Self {
        self.without(other, true)
    }

    fn without(&self, other: &Self, with_inner: bool) -> Self {
        let kept = self.children.iter().filter_map(|(step, set)| {
            let set = match other.child(step) {
                None => set.clone(),
                Some(other) if with_inner && other.is_member => return None,
                Some(other) => set.without(other, with_inner),
            };
            (!set.is_empty()).then(|| (step.clone(), set))
        });
        Self { is_member: self.is_member && !other.is_member, children: kept.collect() }
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
    pub(crate) fn write(&self, json: &mut String) {
        json.push('{');
        for (position, (step, set)) in self.children.iter().enumerate() {
            if position > 0 {
                json.push(',');
            }
            json.push_str(&Value::String(step.write()).to_string());
            json.push(':');
            if set.is_member && !set.children.is_empty() {
                let begin = json.len();
                set.write(json);
                json.insert_str(begin + 1, "\".\":{},");
            } else {
                set.write(json);
            }
        }
        json.push('}');
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
        set.write(&mut text);
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

        assert_eq!(text(&all.difference(&a)), r#"{"f:a":{"f:b":{}},"f:c":{}}"#);
        assert_eq!(text(&all.recursive_difference(&a)), r#"{"f:c":{}}"#);
        assert_eq!(text(&all.intersection(&a)), r#"{"f:a":{}}"#);
    }
}

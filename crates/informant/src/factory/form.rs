//! The form of an object, as it is told to people.

use std::any::TypeId;
use std::any::type_name;

/// How objects are held: their type, and whether all of it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Form {
    type_id: TypeId,
    type_name: &'static str,
    is_metadata_only: bool,
}

impl Form {
    pub(super) fn of<O: 'static>(is_metadata_only: bool) -> Self {
        Self { type_id: TypeId::of::<O>(), type_name: type_name::<O>(), is_metadata_only }
    }

    /// The name of its type, without paths: `Lazy<Pod>`.
    pub(super) fn name(&self) -> String {
        let is_part = |character: char| character.is_alphanumeric() || character == '_' || character == ':';
        let mut name = String::new();
        let mut rest = self.type_name;
        while !rest.is_empty() {
            let (path, after) = rest.split_at(rest.find(|character| !is_part(character)).unwrap_or(rest.len()));
            name.push_str(path.rsplit("::").next().unwrap_or_default());
            let (other, next) = after.split_at(after.find(is_part).unwrap_or(after.len()));
            name.push_str(other);
            rest = next;
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Lazy;

    #[test]
    fn the_name_of_a_form_has_no_paths() {
        assert_eq!(Form::of::<Lazy<String>>(false).name(), "Lazy<String>");
        assert_eq!(Form::of::<BTreeMap<u8, (Form, &'static str)>>(false).name(), "BTreeMap<u8, (Form, &str)>");
    }
}

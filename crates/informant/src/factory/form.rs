//! The type in which objects are held: a part of what makes two requests the same; and what it is called.

use std::any::TypeId;
use std::any::type_name;

use kube::core::DynamicObject;
use kube::core::PartialObjectMeta;

use crate::Lazy;

/// In which type objects are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Form {
    type_id: TypeId,
    type_name: &'static str,
}

impl Form {
    pub(super) fn of<O: 'static>() -> Self {
        Self { type_id: TypeId::of::<O>(), type_name: type_name::<O>() }
    }

    pub(super) fn type_id(&self) -> TypeId {
        self.type_id
    }

    /// Whether it has nothing but metadata, of kinds that are known at run time: then nothing else is asked for.
    pub(super) fn is_of_metadata(&self) -> bool {
        let metadata = TypeId::of::<PartialObjectMeta<DynamicObject>>();
        [metadata, TypeId::of::<Lazy<PartialObjectMeta<DynamicObject>>>()].contains(&self.type_id)
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

    #[test]
    fn the_name_of_a_form_has_no_paths() {
        assert_eq!(Form::of::<Lazy<String>>().name(), "Lazy<String>");
        assert_eq!(Form::of::<BTreeMap<u8, (Form, &'static str)>>().name(), "BTreeMap<u8, (Form, &str)>");
    }
}

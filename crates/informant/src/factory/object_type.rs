//! The Rust type that objects are held in, as a part of an informer's key, and its name.

use std::any::{TypeId, type_name};

use kube::core::{DynamicObject, PartialObjectMeta};

use crate::Lazy;

/// Identifies the Rust type that objects are held in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ObjectType {
    pub(super) type_id: TypeId,
    type_name: &'static str,
}

impl ObjectType {
    pub(super) fn of<O: 'static>() -> Self {
        Self { type_id: TypeId::of::<O>(), type_name: type_name::<O>() }
    }

    /// Whether it is metadata of a kind that is known at run time; then only metadata is requested from the server.
    pub(super) fn is_of_metadata(&self) -> bool {
        let metadata = TypeId::of::<PartialObjectMeta<DynamicObject>>();
        [metadata, TypeId::of::<Lazy<PartialObjectMeta<DynamicObject>>>()].contains(&self.type_id)
    }

    /// The name of the type without module paths: `Lazy<Pod>`.
    pub(super) fn name(&self) -> String {
        let is_part = |character: char| character.is_alphanumeric() || character == '_' || character == ':';
        // Each piece is a path and the character after it.
        let pieces = self.type_name.split_inclusive(|character| !is_part(character));
        pieces.filter_map(|piece| piece.rsplit("::").next()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_name_of_an_object_type_has_no_module_paths() {
        assert_eq!(ObjectType::of::<Lazy<String>>().name(), "Lazy<String>");
        assert_eq!(
            ObjectType::of::<BTreeMap<u8, (ObjectType, &'static str)>>().name(),
            "BTreeMap<u8, (ObjectType, &str)>"
        );
    }
}

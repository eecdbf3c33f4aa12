//! What the server knows about the fields of a kind: their types, and which values belong together when several clients write them.
//!
//! - **In:** the table of the built-in kinds (`facts`), the schema of a custom kind (`custom`, `structural`).
//! - **Out:** a [`Type`] that other modules walk by, together with an object; objects without unknown fields (`decode`); schemas for
//!   OpenAPI documents (`openapi`).
//! - **Knows nothing of:** requests.

mod custom;
mod decode;
mod facts;
pub(crate) mod openapi;
pub(crate) mod structural;

use serde_json::Value;

pub(crate) use decode::decode;

use crate::registry::kind::{Kind, Origin};

/// The type of the objects of a kind. For a kind without a schema, only the metadata is known.
pub(crate) fn of(kind: &Kind) -> Type<'_> {
    match (&kind.schema, kind.origin) {
        (Some(schema), Origin::Custom) => schema.types.root(),
        (None, Origin::Custom) => custom::UNKNOWN.root(),
        (_, Origin::BuiltIn) => facts::built_in(&kind.api_version(), &kind.kind).unwrap_or(custom::UNKNOWN.root()),
    }
}

/// Types that refer to each other by their place in this list.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Types(Vec<Shape>);

/// The place of a type in [`Types`].
pub(crate) type Place = u32;

/// What is known about the values of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Scalar(Scalar),
    Map {
        /// The name of the type of a built-in kind; empty for a map whose keys are data.
        name: Box<str>,
        fields: Vec<Field>,
        /// The type of the values whose keys are not in `fields`; `None` if there are none.
        values: Option<Place>,
        /// Its fields have one owner, and are replaced together.
        is_atomic: bool,
    },
    List {
        items: Place,
        kind: ListKind,
    },
    /// Any value. Its maps are granular, its lists atomic.
    Any,
    /// Any value, which is replaced as a whole.
    Whole,
    /// The metadata of an object, as in the built-in kinds.
    Metadata,
}

/// The values that a scalar type allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    String,
    /// A string in base64.
    Bytes,
    /// An integer of 32 bits.
    Int,
    /// An integer of 64 bits.
    Long,
    Number,
    Bool,
    /// A time in the format of RFC 3339.
    Time,
    /// An amount with a unit, such as `250m`.
    Quantity,
    IntOrString,
    Any,
}

/// A field of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: Box<str>,
    pub(crate) place: Place,
    /// kube-apiserver has the field in each object, if only as an empty map or list.
    pub(crate) is_always_there: bool,
    pub(crate) strategy: Option<PatchStrategy>,
}

/// How a strategic merge patch changes a field of a built-in kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PatchStrategy {
    /// `merge`, `replace`, `retainKeys` or `merge+retainKeys`.
    pub(crate) names: &'static str,
    /// The field that identifies the items of a list of maps.
    pub(crate) merge_key: Option<&'static str>,
}

/// How the items of a list are told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// They are not: the list is replaced as a whole.
    Atomic,
    /// By their values.
    Set,
    /// By the values of these fields.
    Map(Vec<MapKey>),
}

/// A field that identifies the items of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MapKey {
    pub(crate) name: Box<str>,
    /// The value for an item that does not have the field.
    pub(crate) default: Option<Value>,
}

impl Types {
    pub(crate) fn at(&self, place: Place) -> Type<'_> {
        let shape = &self.0[place as usize];
        if *shape == Shape::Metadata { facts::metadata() } else { Type { types: self, shape } }
    }

    /// The type that was added last, which refers to all others.
    pub(crate) fn root(&self) -> Type<'_> {
        self.0
            .len()
            .checked_sub(1)
            .and_then(|last| Place::try_from(last).ok())
            .map_or(Type::any(), |last| self.at(last))
    }

    fn add(&mut self, shape: Shape) -> Place {
        self.0.push(shape);
        Place::try_from(self.0.len() - 1).unwrap_or(Place::MAX)
    }
}

/// A type, and all that it refers to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Type<'a> {
    types: &'a Types,
    pub(crate) shape: &'a Shape,
}

impl<'a> Type<'a> {
    /// The type of values about which nothing is known.
    pub(crate) fn any() -> Type<'static> {
        static NONE: Types = Types(Vec::new());
        Type { types: &NONE, shape: &Shape::Any }
    }

    /// The type of the values at a key of a map, and the field; `None` if the map cannot have the key.
    pub(crate) fn field(self, name: &str) -> Option<(Self, Option<&'a Field>)> {
        match self.shape {
            Shape::Map { fields, values, .. } => match fields.binary_search_by(|field| (*field.name).cmp(name)) {
                Ok(place) => Some((self.types.at(fields[place].place), Some(&fields[place]))),
                Err(_) => values.map(|place| (self.types.at(place), None)),
            },
            Shape::Any | Shape::Whole => Some((self, None)),
            Shape::Scalar(_) | Shape::List { .. } | Shape::Metadata => None,
        }
    }

    /// The type of the items of a list.
    pub(crate) fn items(self) -> Self {
        match self.shape {
            Shape::List { items, .. } => self.types.at(*items),
            // The lists of such values are atomic, and so are their items.
            Shape::Any | Shape::Whole | Shape::Scalar(_) | Shape::Map { .. } | Shape::Metadata => {
                Self { types: self.types, shape: &Shape::Whole }
            }
        }
    }
}

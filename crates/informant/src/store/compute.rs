//! Computes the index values of objects by running the users' index functions, outside of any lock that readers need.
//!
//! - **In:** objects, and the index functions of a cache.
//! - **Out:** the values of each object in each index, as text, and the panics of index functions.
//! - **Knows nothing of:** the tables that the values are stored in.

use std::{
    any::{Any, TypeId},
    borrow::Cow,
    marker::PhantomData,
    ops::Range,
    sync::Arc,
};

use crate::{Cached, Key, Uid, error::IndexError, object::Erased, panics};

/// A named function from an object to the values under which an index finds it.
pub struct IndexFunction<O> {
    function: AnyIndexFunction,
    object_type: PhantomData<fn(O) -> O>,
}

/// A named index function whose object type is erased. Cheap to clone.
#[derive(Clone)]
pub(crate) struct AnyIndexFunction {
    pub(crate) name: Arc<str>,
    pub(super) values: Arc<ComputeValues>,
    /// The type of the user's function, if it captures nothing: then all functions of the type are the same function.
    function_type: Option<TypeId>,
}

/// Calls the callback with each value of an object.
pub(super) type ComputeValues = dyn Fn(&Cached<Erased>, &mut dyn FnMut(&str)) + Send + Sync;

/// A value that an index finds objects by.
///
/// The index compares values by their text, so equal values must have equal texts.
pub trait IndexValue {
    /// Returns the value as text.
    fn text(&self) -> Cow<'_, str>;
}

/// The values that an index function returns for one object: an `Option`, an array, a `Vec`, or any other collection or iterator of
/// [`IndexValue`]s.
///
/// It is implemented for all of them; a function that returns a bare value does not compile, and the compiler's message explains it:
///
/// ```compile_fail,E0277
/// use informant::pipeline::Indexer;
/// use k8s_openapi::api::core::v1::Pod;
///
/// Indexer::<Pod>::new().add_index("name", |pod| pod.key().name().to_owned()).unwrap();
/// ```
#[diagnostic::on_unimplemented(
    message = "an index function returns any number of values, and `{Self}` is not a collection of index values",
    label = "the index function returns `{Self}`",
    note = "return `Some(value)`, `None` or a `Vec` of values; values are strings, numbers, uids, keys and other `IndexValue`s",
    note = "wrap a function that returns strings borrowed from the object in `index::text` or `index::texts`"
)]
pub trait IndexValues: IntoIterator<Item = <Self as IndexValues>::Value> {
    /// The type of one value.
    type Value: IndexValue;
}

#[diagnostic::do_not_recommend]
impl<I: IntoIterator<Item: IndexValue>> IndexValues for I {
    type Value = I::Item;
}

/// A value that can be looked up in an index whose function returns values of type `V`.
///
/// Any type can be looked up in an index of the same type. Beyond that, an index of strings (`String`, `&'static str`, `Cow<str>`,
/// `Arc<str>`, `Box<str>`), of [`Uid`] or of [`Key`] is asked with any string, and an index of strings is asked with a `Uid` or `Key`:
///
/// ```
/// use informant::{Cached, Identity, Key, Uid, pipeline::Indexer};
///
/// let objects = Indexer::new();
/// let by_uid = objects.add_index("uid", |object: &Cached<()>| [object.uid().clone()])?;
/// objects.upsert(Cached::new(Identity::new("shop/web", "u1", 15), ()));
///
/// assert_eq!(by_uid.count(&Uid::new("u1")), 1);
/// assert_eq!(by_uid.count("u1"), 1);
/// assert_eq!(by_uid.count(&"u1".to_owned()), 1);
/// # Ok::<(), informant::error::IndexError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "a `{Self}` cannot be looked up in an index of `{V}` values",
    label = "the index function returns `{V}` values",
    note = "look up the same type, or a string if the values are strings, uids or keys"
)]
pub trait LookupValue<V>: IndexValue {}

impl<V: IndexValue> LookupValue<V> for V {}

/// The values of many objects in many indexes, in three buffers that are reused.
#[derive(Default)]
pub(super) struct ComputedValues {
    /// The texts of all values, one after the other.
    texts: String,
    /// The range of each value in `texts`.
    values: Vec<Range<usize>>,
    /// The range in `values` of each object and index, row by row.
    cells: Vec<Range<usize>>,
    columns: usize,
    pub(super) panics: Vec<IndexError>,
}

impl<O> IndexFunction<O> {
    /// Creates an index function with a name. `values` returns the values of an object: an `Option`, an array, a `Vec`, or any other iterator.
    ///
    /// Values are owned; a function that returns strings borrowed from the object is wrapped in [`index::text`](crate::index::text) or
    /// [`index::texts`](crate::index::texts). The result must depend on the object only. A function that writes to the cache that it
    /// indexes panics, and the panic is reported like any other panic of an index function.
    pub fn new<V: IndexValue, I: IndexValues<Value = V>>(
        name: impl Into<Arc<str>>,
        values: impl Fn(&Cached<O>) -> I + Send + Sync + 'static,
    ) -> Self {
        let function_type = (size_of_val(&values) == 0).then(|| values.type_id());
        let values = move |object: &Cached<Erased>, push: &mut dyn FnMut(&str)| {
            for value in values(object.typed_ref()) {
                push(&value.text());
            }
        };
        let function = AnyIndexFunction { name: name.into(), values: Arc::new(values), function_type };
        Self { function, object_type: PhantomData }
    }

    /// Returns the index's name.
    pub fn name(&self) -> &str {
        &self.function.name
    }

    /// Erases the object type.
    pub(crate) fn into_any(self) -> AnyIndexFunction {
        self.function
    }
}

impl AnyIndexFunction {
    /// Returns true if both certainly are the same function. It then also returns values of the same type.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.function_type.is_some() && self.function_type == other.function_type
    }

    /// Returns the function of the index by namespace. It does not allocate.
    pub(super) fn by_namespace() -> Self {
        let values = |object: &Cached<Erased>, push: &mut dyn FnMut(&str)| {
            push(object.key().namespace().unwrap_or_default());
        };
        Self { name: super::NAMESPACE_INDEX.into(), values: Arc::new(values), function_type: None }
    }
}

impl ComputedValues {
    /// Computes the values of each object (a row) in each index (a column), which replace the content of `self`. Returns the number of objects.
    pub(super) fn fill<'a>(
        &mut self,
        objects: impl Iterator<Item = &'a Cached<Erased>>,
        functions: &[AnyIndexFunction],
    ) -> usize {
        self.clear();
        self.columns = functions.len();
        let mut rows = 0;
        for object in objects {
            rows += 1;
            for function in functions {
                self.add_cell(object, function);
            }
        }
        rows
    }

    /// Removes the values, and frees the memory if it is large.
    pub(super) fn clear(&mut self) {
        const SMALL: usize = 64 * 1024;
        let cells = self.cells.capacity() * size_of::<Range<usize>>();
        if self.texts.capacity().max(cells) > SMALL {
            // The buffers of a large batch are not reused.
            *self = Self::default();
        }
        self.texts.clear();
        self.values.clear();
        self.cells.clear();
        self.panics.clear();
    }

    /// Returns the number of values of all objects in all indexes.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns the values of one object in one index.
    pub(super) fn values(&self, row: usize, column: usize) -> impl Iterator<Item = &str> + Clone {
        let cell = self.cells[row * self.columns + column].clone();
        self.values[cell].iter().map(|range| &self.texts[range.clone()])
    }

    fn add_cell(&mut self, object: &Cached<Erased>, function: &AnyIndexFunction) {
        let (first, texts) = (self.values.len(), self.texts.len());
        let run = panics::catch(|| {
            (function.values)(object, &mut |text| {
                let start = self.texts.len();
                self.texts.push_str(text);
                self.values.push(start..self.texts.len());
            });
        });
        if let Err(message) = run {
            self.values.truncate(first);
            self.texts.truncate(texts);
            let (index, key) = (Arc::clone(&function.name), object.key().clone());
            tracing::error!(
                index = &*index,
                key = key.as_str(),
                error = &*message,
                "index function panicked; this index does not find the object"
            );
            self.panics.push(IndexError::Panicked { index, key, message });
        }
        self.cells.push(first..self.values.len());
    }
}

impl<T: IndexValue + ?Sized> IndexValue for &T {
    fn text(&self) -> Cow<'_, str> {
        (**self).text()
    }
}

macro_rules! index_values {
    ($value:ident => $text:expr, for $($type:ty),*) => {$(
        impl IndexValue for $type {
            fn text(&self) -> Cow<'_, str> {
                let $value = self;
                $text
            }
        }
    )*};
}

index_values!(value => Cow::Borrowed(value), for str, String, Cow<'_, str>, Arc<str>, Box<str>);
index_values!(value => Cow::Borrowed(value.as_str()), for Key);
index_values!(value => Cow::Owned(value.to_string()), for Uid);
index_values!(value => Cow::Owned(value.to_string()), for bool, char, std::net::IpAddr);
index_values!(value => Cow::Owned(value.to_string()), for u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);

macro_rules! lookup_values {
    ($($looked_up:ty => $($value:ty),*;)*) => {$($(
        impl LookupValue<$value> for $looked_up {}
    )*)*};
}

// Each type that can be looked up, and the types of the values that it finds besides its own.
lookup_values! {
    str => String, &str, Cow<'_, str>, Arc<str>, Box<str>, Uid, Key;
    String => &str, Cow<'_, str>, Arc<str>, Box<str>, Uid, Key;
    Cow<'_, str> => String, &str, Arc<str>, Box<str>, Uid, Key;
    Arc<str> => String, &str, Cow<'_, str>, Box<str>, Uid, Key;
    Box<str> => String, &str, Cow<'_, str>, Arc<str>, Uid, Key;
    &str => String, Cow<'_, str>, Arc<str>, Box<str>, Uid, Key;
    Uid => String, &str, Cow<'_, str>, Arc<str>, Box<str>;
    Key => String, &str, Cow<'_, str>, Arc<str>, Box<str>;
}

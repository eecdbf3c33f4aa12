//! [`HeldJson`], the JSON of a lazy object, plain or packed, and [`LazyJson`], the JSON as it is read.
//!
//! - **In:** compact JSON, with the noted values behind it, and the position of the labels in it.
//! - **Out:** the JSON.
//! - **Knows nothing of:** the type that the JSON is decoded into, and when it is packed.

#[cfg(feature = "packing")]
use std::sync::atomic::{AtomicBool, Ordering};
use std::{
    fmt,
    ops::{Deref, Range},
    sync::Arc,
};

use parking_lot::Mutex;
use serde::Deserialize;

use super::{DecodeError, fields::values_in_json, noted, raw::decode_fields};
#[cfg(feature = "packing")]
use super::{memory::ObjectMemory, packing::Packed};
use crate::Key;

/// The JSON of a lazy object.
pub struct HeldJson {
    key: Key,
    /// The range of the value of `metadata.labels` in the JSON; empty if there are no labels.
    labels: Range<u32>,
    /// The number of bytes of the JSON.
    length: u32,
    /// Whether the JSON was read since the last call of [`pack_unless_read`](Self::pack_unless_read).
    #[cfg(feature = "packing")]
    was_read: AtomicBool,
    text: Mutex<HeldText>,
}

/// The JSON, and the [noted values](noted) behind it.
enum HeldText {
    Plain(Arc<str>),
    #[cfg(feature = "packing")]
    Packed(Packed),
}

/// The JSON of a [`Lazy`](crate::Lazy) object, from [`Lazy::json`](crate::Lazy::json). It dereferences to text.
#[derive(Clone)]
pub struct LazyJson {
    key: Key,
    /// The JSON, and perhaps the [noted values](noted) behind it.
    text: Arc<str>,
    length: u32,
}

impl HeldJson {
    /// `text` begins with the JSON of this length. Fails if the length does not fit into 32 bits.
    pub(super) fn new(key: &Key, text: &str, length: usize, labels: &Range<usize>) -> Result<Self, DecodeError> {
        let too_large = |_| DecodeError::TooLarge { key: Some(key.clone()), limit: u32::MAX as usize };
        let narrow = |offset| u32::try_from(offset).map_err(too_large);
        Ok(Self {
            key: key.clone(),
            labels: narrow(labels.start)?..narrow(labels.end)?,
            length: narrow(length)?,
            #[cfg(feature = "packing")]
            was_read: AtomicBool::new(false),
            text: Mutex::new(HeldText::Plain(text.into())),
        })
    }

    pub(super) fn key(&self) -> &Key {
        &self.key
    }

    /// The number of bytes of the JSON.
    pub(super) fn length(&self) -> u32 {
        self.length
    }

    pub(super) fn read(&self) -> Result<LazyJson, DecodeError> {
        #[cfg(feature = "packing")]
        self.was_read.store(true, Ordering::Relaxed);
        let text = match &*self.text.lock() {
            HeldText::Plain(text) => Arc::clone(text),
            #[cfg(feature = "packing")]
            HeldText::Packed(packed) => {
                packed.unpack(self.length as usize).ok_or_else(|| DecodeError::Damaged { key: self.key.clone() })?
            }
        };
        Ok(LazyJson { key: self.key.clone(), text, length: self.length })
    }

    /// The JSON of the labels, which is a part of this object's JSON.
    pub(super) fn labels_in<'a>(&self, json: &'a str) -> &'a str {
        &json[self.labels.start as usize..self.labels.end as usize]
    }

    /// The noted values of the field at a path, without unpacking; `None` if the field was not noted.
    pub(super) fn noted(&self, path: &[impl AsRef<str>]) -> Option<Vec<String>> {
        let number = noted::number_of(path)?;
        let values =
            |noted: &str| Some(noted::values(noted, number)?.flat_map(|json| values_in_json(json, &[])).collect());
        match &*self.text.lock() {
            HeldText::Plain(text) => values(&text[self.length as usize..]),
            #[cfg(feature = "packing")]
            HeldText::Packed(packed) => values(packed.noted(self.length as usize)?),
        }
    }

    /// The number of bytes that the JSON takes, without a base.
    pub(super) fn bytes(&self) -> usize {
        match &*self.text.lock() {
            // The text has two counts of references.
            HeldText::Plain(text) => text.len() + 2 * size_of::<usize>(),
            #[cfg(feature = "packing")]
            HeldText::Packed(packed) => packed.bytes(),
        }
    }

    /// As [`pack`](Self::pack), but does nothing if the JSON was read since the last call of this method.
    #[cfg(feature = "packing")]
    pub(super) fn pack_unless_read(&self, memory: &Arc<ObjectMemory>) -> bool {
        !self.was_read.swap(false, Ordering::Relaxed) && self.pack(memory)
    }

    /// Packs the JSON. Does nothing if it is packed, if packing does not make it smaller, or if another thread is using it. Returns whether it was
    /// packed.
    #[cfg(feature = "packing")]
    pub(super) fn pack(&self, memory: &Arc<ObjectMemory>) -> bool {
        let Some(mut text) = self.text.try_lock() else { return false };
        let HeldText::Plain(plain) = &*text else { return false };
        let packing = memory.packing();
        let packed = packing.and_then(|packing| packing.pack(memory, &self.key, plain, self.length as usize));
        let Some(packed) = packed else { return false };
        *text = HeldText::Packed(packed);
        true
    }
}

impl LazyJson {
    /// Decodes only the fields that `T` names. Strings may be borrowed from the JSON; use `Cow<str>` with `#[serde(borrow)]`, because a string with
    /// escapes cannot be borrowed.
    ///
    /// ```
    /// use std::borrow::Cow;
    /// use informant::{Lazy, pipeline::Scanner};
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Node<'a> { #[serde(borrow)] spec: Spec<'a> }
    /// #[derive(serde::Deserialize)]
    /// #[serde(rename_all = "camelCase")]
    /// struct Spec<'a> { #[serde(borrow)] node_name: Cow<'a, str> }
    ///
    /// let json = br#"{"metadata":{"name":"web"},"spec":{"nodeName":"node-1","containers":[]}}"#;
    /// let pod = Scanner::of_kind::<Pod>().scan(json)?.decode::<Lazy<Pod>>()?;
    /// assert_eq!(pod.json()?.peek::<Node<'_>>()?.spec.node_name, "node-1");
    /// # Ok::<(), informant::error::DecodeError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When a field does not have the type that `T` expects; the error names the object and the field.
    pub fn peek<'a, T: Deserialize<'a>>(&'a self) -> Result<T, DecodeError> {
        decode_fields(&self.key, self)
    }
}

impl PartialEq for LazyJson {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for LazyJson {}

impl Deref for LazyJson {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text[..self.length as usize]
    }
}

impl fmt::Display for LazyJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl fmt::Debug for LazyJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(all(test, feature = "packing"))]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_damaged_json_names_the_object() {
        let key = Key::namespaced("shop", "web");
        let held = HeldJson::new(&key, "{}", 2, &(0..0)).unwrap();
        *held.text.lock() = HeldText::Packed(Packed::damaged());

        let error = held.read().map(drop).unwrap_err();

        assert_eq!((error.key(), &*error.to_string()), (Some(&key), "shop/web: its packed JSON is damaged"));
    }
}

//! Packs the JSON of objects against that of a similar object, their *base* (the cargo feature `packing`).
//!
//! - **In:** the compact JSON of one object, and its key.
//! - **Out:** packed JSON; the same JSON again when it is read.
//! - **Knows nothing of:** object types, how the cache holds objects.
//!
//! Pods of one owner differ in their names, addresses and times, and zstd writes little more than these when it compresses one pod with another
//! one as its dictionary. So a base is an object like any other, which stays plain.

mod bases; // the bases of one informer, found by key
mod budget; // whether and against which base an object is packed
mod compression; // zstd

use std::sync::Arc;

pub(crate) use budget::{MemoryBudget, Packing};
use compression::{compress, decompress, frame_length};

use super::memory::ObjectMemory;

/// The plain JSON of an object, with the [noted values](super::noted) behind it, against which other objects are packed.
pub(crate) struct Base {
    text: Arc<str>,
    /// Counts the text until the last object that refers to it is dropped.
    memory: Arc<ObjectMemory>,
}

/// An object's JSON, packed against a base, with its noted values.
pub(super) struct Packed {
    base: Arc<Base>,
    /// A zstd frame and the noted values. Empty if the object is the base itself.
    content: Box<[u8]>,
}

impl Base {
    pub(super) fn new(text: &Arc<str>, memory: &Arc<ObjectMemory>) -> Arc<Self> {
        let base = Self { text: Arc::clone(text), memory: Arc::clone(memory) };
        base.count(0, base.bytes());
        Arc::new(base)
    }

    /// The bytes of the text and of this struct, each with its counts of references.
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.text.len() + 4 * size_of::<usize>()
    }

    fn count(&self, before: usize, now: usize) {
        self.memory.change(before, now);
        self.memory.packing().into_iter().for_each(|packing| packing.change_bases(before, now));
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        self.count(self.bytes(), 0);
    }
}

impl Packed {
    /// Packs the JSON that `text` begins with. Returns `None` if zstd fails.
    pub(super) fn new(text: &str, length: usize, base: Arc<Base>) -> Option<Self> {
        let (json, noted) = text.split_at(length);
        let content = compress(json.as_bytes(), base.text.as_bytes(), noted.as_bytes())?;
        Some(Self { base, content })
    }

    /// The object that is the base itself.
    pub(super) fn base(base: Arc<Base>) -> Self {
        Self { base, content: Box::default() }
    }

    /// Bytes that are no frame.
    #[cfg(test)]
    pub(super) fn damaged() -> Self {
        let memory = Arc::new(ObjectMemory::new(|_, _| super::HeldMemory::Estimate(0)));
        Self { base: Base::new(&"".into(), &memory), content: [7; 20].into() }
    }

    /// The number of bytes that the object takes, without the base.
    pub(super) fn bytes(&self) -> usize {
        self.content.len()
    }

    /// Returns a text that begins with the JSON; `None` if the packed bytes are damaged.
    pub(super) fn unpack(&self, length: usize) -> Option<Arc<str>> {
        if self.content.is_empty() {
            return Some(Arc::clone(&self.base.text));
        }
        let json = decompress(self.parts()?.0, self.base.text.as_bytes(), length)?;
        String::from_utf8(json).ok().map(Arc::from)
    }

    /// The noted values of the object whose JSON has this length.
    pub(super) fn noted(&self, length: usize) -> Option<&str> {
        match self.content.is_empty() {
            true => Some(&self.base.text[length..]),
            false => std::str::from_utf8(self.parts()?.1).ok(),
        }
    }

    /// The frame, and the noted values.
    fn parts(&self) -> Option<(&[u8], &[u8])> {
        self.content.split_at_checked(frame_length(&self.content)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::HeldMemory;

    fn packed(json: &str, noted: &str, base: &str) -> Packed {
        let memory = Arc::new(ObjectMemory::new(|_, _| HeldMemory::Estimate(0)));
        Packed::new(&[json, noted].concat(), json.len(), Base::new(&base.into(), &memory)).unwrap()
    }

    #[test]
    fn damaged_bytes_are_not_unpacked_to_another_length_and_nothing_panics() {
        let json: String = (0..200).map(|number| format!("\"name-{number}\":{number},")).collect();
        let good = packed(&json, "10x\n", &json.replace("name-7", "other"));
        assert_eq!(good.unpack(json.len()).as_deref(), Some(&*json));
        assert_eq!(good.noted(json.len()), Some("10x\n"));
        assert!(good.bytes() * 10 < json.len(), "{} bytes", good.bytes());

        assert_eq!(good.unpack(json.len() - 1), None, "another length than the stored one");
        let with = |content: Vec<u8>| Packed { base: Arc::clone(&good.base), content: content.into() };
        let mut refused = 0;
        for position in 0..good.content.len() {
            let mut flipped = good.content.to_vec();
            flipped[position] ^= 0x55;
            for damaged in [with(flipped), with(good.content[..position.max(1)].to_vec())] {
                let text = damaged.unpack(json.len());
                assert!(text.as_ref().is_none_or(|text| text.len() == json.len()));
                refused += usize::from(text.is_none());
                damaged.noted(json.len());
            }
        }
        assert!(refused > good.content.len(), "{refused} were refused");
    }
}

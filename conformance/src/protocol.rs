//! What the tests and the client process say to each other: one line of JSON for each question and each answer.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use serde::{Deserialize, Serialize};

/// A question of the tests.
#[derive(Debug, Serialize, Deserialize)]
pub enum Question {
    /// Answered with a [`Report`].
    Report,
    /// The contents of one informer's cache and of its handlers; answered with a list of [`Contents`].
    Contents(String),
}

/// The state of the client.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    pub informers: BTreeMap<String, InformerReport>,
    /// Events that break the promises of `EventHandler`.
    pub violations: Vec<String>,
    /// What `problems()` of the factory returns.
    pub problems: Vec<String>,
}

/// The digests of what an informer holds.
#[derive(Debug, Serialize, Deserialize)]
pub struct InformerReport {
    pub objects: usize,
    pub cache: u64,
    /// What the events of each handler add up to.
    pub handlers: Vec<u64>,
}

/// The state of each object by its key, `namespace/name`.
pub type Contents = BTreeMap<String, State>;

/// One state of an object. The stamp tells apart two states with the same version in two histories.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct State {
    pub uid: String,
    pub version: String,
    pub stamp: String,
}

/// A number that stands for the contents.
pub fn digest(contents: &Contents) -> u64 {
    let mut hasher = DefaultHasher::new();
    contents.hash(&mut hasher);
    hasher.finish()
}

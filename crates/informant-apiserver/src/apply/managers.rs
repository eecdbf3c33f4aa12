//! Who owns which fields: `metadata.managedFields`.
//!
//! - **In:** the entries of an object; the fields that a write changed.
//! - **Out:** the entries after the write.
//! - **Knows nothing of:** objects, types.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::set::{FieldSet, Order};

/// How a manager came to own its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Tells entries apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ManagerId {
    pub(crate) name: String,
    pub(crate) operation: Operation,
    /// `group/version` of the fields. An applier has one entry, whatever version it applied last.
    pub(crate) api_version: String,
    /// Empty for the object itself.
    pub(crate) subresource: String,
}

impl ManagerId {
    fn is(&self, other: &Self) -> bool {
        let is_same_version = self.operation == Operation::Apply || self.api_version == other.api_version;
        is_same_version
            && (&self.name, self.operation, &self.subresource) == (&other.name, other.operation, &other.subresource)
    }

    /// How conflicts name it.
    pub(super) fn describe(&self) -> String {
        let mut text = format!("{:?}", self.name);
        if !self.subresource.is_empty() {
            text += &format!(" with subresource {:?}", self.subresource);
        }
        match self.operation {
            Operation::Apply => text,
            Operation::Update => format!("{text} using {}", self.api_version),
        }
    }
}

/// The fields of one manager.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) id: ManagerId,
    pub(crate) fields: FieldSet,
    pub(crate) time: Option<String>,
}

impl Entry {
    fn seconds(&self) -> i64 {
        let time = self.time.as_deref().and_then(|time| time.parse::<Timestamp>().ok());
        time.map_or(0, Timestamp::as_second)
    }
}

/// The most entries of updates. Beyond that, the oldest ones become one entry.
const MOST_UPDATERS: usize = 10;

/// The name of the entry that the oldest updates become.
const ANCIENT: &str = "ancient-changes";

/// The entries of an object, each with another id.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Managers(pub(super) Vec<Entry>);

impl Managers {
    /// Reads `managedFields`. Fails if an entry is invalid.
    pub(crate) fn read(json: &[u8]) -> Result<Self, ()> {
        let mut managers = Self::default();
        if json.is_empty() {
            return Ok(managers);
        }
        for entry in serde_json::from_slice::<Vec<Value>>(json).map_err(|_| ())? {
            let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
            let operation = match &*text("operation") {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return Err(()),
            };
            let (api_version, subresource) = (text("apiVersion"), text("subresource"));
            if api_version.is_empty() || text("fieldsType") != "FieldsV1" {
                return Err(());
            }
            let fields = Some(&entry["fieldsV1"]).filter(|fields| !fields.is_null());
            let fields = fields.map(FieldSet::read).transpose()?.unwrap_or_default();
            let time = entry["time"].as_str().map(str::to_owned);
            let id = ManagerId { name: text("manager"), operation, api_version, subresource };
            managers.put(Entry { id, fields, time });
        }
        Ok(managers)
    }

    /// Writes `managedFields`, in the order of kube-apiserver; empty if there are no entries.
    pub(crate) fn write(&self, order: Order) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let mut entries = self.0.iter().map(|entry| (entry.seconds(), entry)).collect::<Vec<_>>();
        entries.sort_by(|(one_time, one), (other_time, other)| {
            let key =
                |entry: &'_ Entry| (entry.id.name.clone(), entry.id.api_version.clone(), entry.id.subresource.clone());
            let by_time = one.id.operation.cmp(&other.id.operation).then(one_time.cmp(other_time));
            by_time.then_with(|| key(one).cmp(&key(other)))
        });
        let mut json = String::from("[");
        for (position, (_, entry)) in entries.into_iter().enumerate() {
            if position > 0 {
                json.push(',');
            }
            entry.write(&mut json, order);
        }
        json.push(']');
        json
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn of(&self, id: &ManagerId) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.id.is(id))
    }

    /// Adds an entry, or replaces the one with its id.
    pub(super) fn put(&mut self, entry: Entry) {
        match self.0.iter_mut().find(|known| known.id.is(&entry.id)) {
            Some(known) => *known = entry,
            None => self.0.push(entry),
        }
    }

    /// Takes fields from all entries but one.
    pub(super) fn take_from_others(&mut self, id: Option<&ManagerId>, fields: &FieldSet) {
        for entry in self.0.iter_mut().filter(|entry| id.is_none_or(|id| !entry.id.is(id))) {
            entry.fields = std::mem::take(&mut entry.fields).difference(fields);
        }
        self.drop_empty();
    }

    pub(super) fn drop_empty(&mut self) {
        self.0.retain(|entry| !entry.fields.is_empty());
    }

    /// Adds fields to an entry, now.
    pub(super) fn add(&mut self, id: ManagerId, mut fields: FieldSet, now: &str) {
        if fields.is_empty() {
            return;
        }
        if let Some(before) = self.of(&id) {
            fields.extend(before.fields.clone());
        }
        self.put(Entry { id, fields, time: Some(now.to_owned()) });
    }

    /// Unites the oldest entries of updates, if there are too many.
    pub(super) fn limit_updaters(&mut self) {
        let is_update = |entry: &Entry| entry.id.operation == Operation::Update;
        let mut count = self.0.iter().filter(|entry| is_update(entry)).count();
        if count <= MOST_UPDATERS {
            return;
        }
        let (mut updates, mut others): (Vec<_>, Vec<_>) = self.0.drain(..).partition(is_update);
        updates.sort_by_key(|entry| (entry.seconds(), entry.id.name.clone()));
        // The entries that are kept so far; the first one of a version becomes the common one.
        let mut kept: Vec<Entry> = Vec::new();
        for entry in updates {
            let first = kept.iter_mut().find(|first| first.id.api_version == entry.id.api_version);
            match first.filter(|_| count > MOST_UPDATERS) {
                Some(first) => {
                    let api_version = entry.id.api_version;
                    let (operation, subresource) = (Operation::Update, String::new());
                    first.id = ManagerId { name: ANCIENT.to_owned(), operation, api_version, subresource };
                    first.fields.extend(entry.fields);
                    first.time = entry.time;
                    count -= 1;
                }
                None => kept.push(entry),
            }
        }
        others.extend(kept);
        self.0 = others;
    }

    /// Returns true if only times differ.
    pub(crate) fn equals_but_for_times(&self, other: &Self) -> bool {
        let known = |entry: &Entry| {
            other.of(&entry.id).is_some_and(|other| (&entry.id, &entry.fields) == (&other.id, &other.fields))
        };
        self.0.len() == other.0.len() && self.0.iter().all(known)
    }
}

impl Entry {
    fn write(&self, json: &mut String, order: Order) {
        let ManagerId { name, operation, api_version, subresource } = &self.id;
        *json += &format!("{{\"apiVersion\":{},\"fieldsType\":\"FieldsV1\",\"fieldsV1\":", json!(api_version));
        self.fields.write(json, order);
        *json += &format!(",\"manager\":{},\"operation\":\"{}\"", json!(name), operation.name());
        if !subresource.is_empty() {
            *json += &format!(",\"subresource\":{}", json!(subresource));
        }
        if let Some(time) = &self.time {
            *json += &format!(",\"time\":{}", json!(time));
        }
        json.push('}');
    }
}

//! [`Fold`]: the state that the events of a handler add up to, and the events among them that break the promises of `EventHandler`.

use std::{cmp::Ordering, collections::BTreeMap};

use informant::{Cached, Deleted, Event, Key, Origin, ResourceVersion};

/// Receives all events of one handler, in order.
pub(crate) struct Fold<O> {
    /// The last delivered state of each object that was added and not deleted.
    known: BTreeMap<Key, Cached<O>>,
    /// The newest delivered version of each deleted object.
    deleted: BTreeMap<Key, ResourceVersion>,
    is_synced: bool,
    /// The source's history may change, so that versions go backwards.
    history_may_change: bool,
    violations: Vec<String>,
}

impl<O> Fold<O> {
    pub(crate) fn new(history_may_change: bool) -> Self {
        Self {
            known: BTreeMap::new(),
            deleted: BTreeMap::new(),
            is_synced: false,
            history_may_change,
            violations: Vec::new(),
        }
    }

    pub(crate) fn receive(&mut self, event: &Event<O>) {
        match event {
            Event::Added { object, origin } => self.add(object, *origin),
            Event::Updated { old, new } => self.update(old, new),
            Event::Resynced(object) => self.resync(object),
            Event::Deleted(deleted) => self.delete(deleted),
            Event::Synced => self.synced(),
        }
    }

    /// The objects that the events add up to.
    pub(crate) fn known(&self) -> impl Iterator<Item = &Cached<O>> {
        self.known.values()
    }

    /// A sentence for each event that breaks P2 or P4.
    pub(crate) fn violations(&self) -> &[String] {
        &self.violations
    }

    fn add(&mut self, object: &Cached<O>, origin: Origin) {
        let known = self.known.insert(object.key().clone(), object.clone());
        if let Some(known) = known {
            self.violate(format!("the handler knows {known:?}, and {object:?} is added"));
        }
        if let Some(deleted) = self.deleted.remove(object.key())
            && self.is_older(object.version(), &deleted)
        {
            self.violate(format!("{object:?} is added after its deletion at version {deleted}"));
        }
        if self.is_synced && origin == Origin::InitialList {
            self.violate(format!("{object:?} is added as part of the initial list after the end of that list"));
        }
    }

    fn update(&mut self, old: &Cached<O>, new: &Cached<O>) {
        match self.known.insert(new.key().clone(), new.clone()) {
            None => self.violate(format!("the handler knows no {}, and it is updated to {new:?}", new.key())),
            Some(known) if !Cached::ptr_eq(&known, old) => {
                self.violate(format!(
                    "{new:?} is an update of {old:?}, which is not the last delivered state, {known:?}"
                ));
            }
            Some(_) => {}
        }
        if Cached::ptr_eq(old, new) {
            self.violate(format!("an update of {new:?} has no new state"));
        }
        if self.is_older(new.version(), old.version()) {
            self.violate(format!("an update goes back from {old:?} to {new:?}"));
        }
    }

    fn delete(&mut self, deleted: &Deleted<O>) {
        let object = deleted.object();
        match self.known.remove(deleted.key()) {
            None => self.violate(format!("the handler knows no {}, and {deleted:?} is delivered", deleted.key())),
            Some(known) if known.uid() != object.uid() => {
                self.violate(format!("{deleted:?} is of another incarnation than the known state, {known:?}"));
            }
            Some(known) if self.is_older(object.version(), known.version()) => {
                self.violate(format!("{deleted:?} is older than the last delivered state, {known:?}"));
            }
            Some(_) => {}
        }
        self.deleted.insert(deleted.key().clone(), object.version().clone());
    }

    fn resync(&mut self, object: &Cached<O>) {
        match self.known.get(object.key()) {
            None => self.violate(format!("the handler knows no {}, and {object:?} is resynced", object.key())),
            Some(known) if !Cached::ptr_eq(known, object) => {
                let known = known.clone();
                self.violate(format!("{object:?} is resynced, which is not the last delivered state, {known:?}"));
            }
            Some(_) => {}
        }
    }

    fn synced(&mut self) {
        if std::mem::replace(&mut self.is_synced, true) {
            self.violate("the end of the initial list is delivered a second time".into());
        }
    }

    fn violate(&mut self, violation: String) {
        self.violations.push(violation);
    }

    /// Returns true if a version that the handler received is older than an earlier one, which the source's history does not explain.
    fn is_older(&self, version: &ResourceVersion, earlier: &ResourceVersion) -> bool {
        !self.history_may_change && version.compare(earlier) == Some(Ordering::Less)
    }
}

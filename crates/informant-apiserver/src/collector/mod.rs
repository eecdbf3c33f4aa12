//! The garbage collector: decides which objects are deleted because their owners are gone.
//!
//! - **In:** each change of an object, as a [`Node`]; kinds, by the names in owner references.
//! - **Out:** one [`Step`] at a time: a delete, or an update of owner references or finalizers.
//! - **Knows nothing of:** storage, versions, locks, clocks.
//!
//! The rules are those of kube-controller-manager. A change puts the objects that it concerns into a queue: the dependents of a deleted
//! object in the order of their creation, then the owners that wait for it. [`Collector::next`] takes one object after the other, so that
//! the same changes always give the same steps in the same order. `node` reads what the collector needs from the metadata of an object.

mod node;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
};

use crate::{
    collector::node::Reference,
    objects::{
        Key,
        propagation::{FOREGROUND, ORPHAN, Propagation},
    },
    registry::kind::{Kind, Scope},
};

pub(crate) use crate::collector::node::{Node, Uid};

/// What is done to one object.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) kind: Arc<Kind>,
    pub(crate) key: Key,
    pub(crate) action: Action,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Delete(Propagation),
    /// Removes the references to these owners.
    Disown(Vec<Uid>),
    /// Sets `blockOwnerDeletion` to false in all references.
    Unblock,
    RemoveFinalizer(&'static str),
}

/// Who owns whom, and which objects need a decision.
#[derive(Default)]
pub(crate) struct Collector {
    /// All objects, in the order of their creation.
    nodes: BTreeMap<NodeId, Node>,
    /// Holds exactly the uids of `nodes`.
    ids: HashMap<Uid, NodeId>,
    /// Holds exactly the uids that references of `nodes` name.
    owners: HashMap<Uid, Owner>,
    queue: VecDeque<NodeId>,
    /// Objects that stay because the kind of an owner is not served. They are looked at again when another kind is served.
    unresolved: BTreeSet<NodeId>,
    next_id: u64,
}

/// Numbers objects in the order of their creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NodeId(u64);

/// What is known of a uid that references name.
#[derive(Default)]
struct Owner {
    dependents: BTreeSet<NodeId>,
    /// The namespace of the deleted owner; empty for one of a cluster-scoped kind.
    deleted_from: Option<Box<str>>,
}

/// The owners of an object, by their state; `None` if one of them cannot be looked up.
#[derive(Default)]
struct Classified {
    /// At least one owner exists, and does not wait for its dependents.
    has_solid: bool,
    absent: Vec<Uid>,
    /// These owners are deleted when their dependents are.
    waiting: Vec<Uid>,
}

impl Collector {
    /// Records that an object was created or changed.
    pub(crate) fn applied(&mut self, node: Node) {
        let id = match self.ids.get(&node.uid) {
            Some(id) => *id,
            None => {
                let id = NodeId(self.next_id);
                self.next_id += 1;
                self.ids.insert(node.uid.clone(), id);
                id
            }
        };
        let references = node.references.clone();
        let before = self.nodes.insert(id, node);
        let old_references = before.as_ref().map_or(&[][..], |before| &before.references);
        for reference in &references {
            self.owners.entry(reference.uid.clone()).or_default().dependents.insert(id);
        }
        for old in old_references {
            let new = references.iter().find(|new| new.uid == old.uid);
            if new.is_none() {
                self.remove_dependent(&old.uid, id);
            }
            if old.blocks && !new.is_some_and(|new| new.blocks) {
                self.visit_uid(&old.uid);
            }
        }
        if references != old_references {
            self.visit(id);
        }
        let begins = |is: fn(&Node) -> bool| self.nodes.get(&id).is_some_and(is) && !before.as_ref().is_some_and(is);
        let (orphans, waits) = (begins(Node::is_orphaning), begins(Node::is_waiting_for_dependents));
        if waits {
            self.visit_dependents(id);
        }
        if orphans || waits {
            self.visit(id);
        }
    }

    /// Records that an object was deleted.
    pub(crate) fn deleted(&mut self, uid: &Uid) {
        let Some(id) = self.ids.remove(uid) else { return };
        let Some(node) = self.nodes.remove(&id) else { return };
        self.unresolved.remove(&id);
        if let Some(owner) = self.owners.get_mut(uid) {
            owner.deleted_from = Some(node.key.namespace().into());
            self.queue.extend(&owner.dependents);
        }
        for reference in &node.references {
            self.remove_dependent(&reference.uid, id);
            self.visit_uid(&reference.uid);
        }
    }

    /// Records that another kind is served, so that references to it can be looked up.
    pub(crate) fn kind_added(&mut self) {
        self.queue.extend(std::mem::take(&mut self.unresolved));
    }

    /// Returns true if some objects need a decision.
    pub(crate) fn has_work(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Takes the next object that needs a decision, and returns what is done to it and to its dependents.
    ///
    /// `kind_of` finds a kind by the `apiVersion` and `kind` in a reference.
    pub(crate) fn next(&mut self, kind_of: impl Fn(&Reference) -> Option<Arc<Kind>>) -> Vec<Step> {
        let Some(id) = self.queue.pop_front() else { return Vec::new() };
        let Some(node) = self.nodes.get(&id) else { return Vec::new() };
        if node.is_orphaning() {
            let disowned =
                self.dependents(node).map(|(_, dependent)| dependent.step(Action::Disown(vec![node.uid.clone()])));
            return disowned.chain([node.step(Action::RemoveFinalizer(ORPHAN))]).collect();
        }
        if node.is_waiting_for_dependents() {
            let blocks = |dependent: &Node| {
                dependent.references.iter().any(|reference| reference.uid == node.uid && reference.blocks)
            };
            let blocking: Vec<_> = self.dependents(node).filter(|(_, dependent)| blocks(dependent)).collect();
            if blocking.is_empty() {
                return vec![node.step(Action::RemoveFinalizer(FOREGROUND))];
            }
            let idle = blocking.iter().filter(|(_, dependent)| !dependent.is_being_deleted).map(|(id, _)| *id);
            let idle: Vec<_> = idle.collect();
            self.queue.extend(idle);
            return Vec::new();
        }
        if node.is_being_deleted || node.references.is_empty() {
            return Vec::new();
        }
        let Some(owners) = self.classify(node, kind_of) else {
            self.unresolved.insert(id);
            return Vec::new();
        };
        self.decide(node, &owners)
    }

    /// Decides about an object that is not being deleted.
    fn decide(&self, node: &Node, owners: &Classified) -> Vec<Step> {
        let lost: Vec<_> = owners.absent.iter().chain(&owners.waiting).cloned().collect();
        let mut dependents = self.dependents(node).peekable();
        if owners.has_solid {
            return if lost.is_empty() { Vec::new() } else { vec![node.step(Action::Disown(lost))] };
        }
        if !owners.waiting.is_empty() && dependents.peek().is_some() {
            // A dependent that waits for its own dependents may, through others, own this object.
            let may_be_cycle = dependents.any(|(_, dependent)| dependent.is_waiting_for_dependents());
            let unblock = may_be_cycle.then(|| node.step(Action::Unblock));
            return unblock.into_iter().chain([node.step(Action::Delete(Propagation::Foreground))]).collect();
        }
        let policy = match (node.orphans, node.is_foreground) {
            (true, _) => Propagation::Orphan,
            (false, true) => Propagation::Foreground,
            (false, false) => Propagation::Background,
        };
        vec![node.step(Action::Delete(policy))]
    }

    /// Looks up the owners of an object. Returns `None` if the kind of one is not served, or cannot own this object: a namespaced object
    /// cannot own a cluster-scoped one. Such objects stay.
    fn classify(&self, node: &Node, kind_of: impl Fn(&Reference) -> Option<Arc<Kind>>) -> Option<Classified> {
        let mut owners = Classified::default();
        let namespace = node.key.namespace();
        for reference in &node.references {
            let uid = &reference.uid;
            let deleted_from = self.owners.get(uid).and_then(|owner| owner.deleted_from.as_deref());
            if deleted_from.is_some_and(|deleted_from| ["", namespace].contains(&deleted_from)) {
                owners.absent.push(uid.clone());
                continue;
            }
            let kind = kind_of(reference)?;
            let key = match (kind.scope, namespace) {
                (Scope::Namespaced, "") => return None,
                (Scope::Namespaced, namespace) => Key::new(namespace, &reference.name),
                (Scope::Cluster, _) => Key::new("", &reference.name),
            };
            let found = self.ids.get(uid).and_then(|id| self.nodes.get(id));
            match found.filter(|owner| owner.key == key && owner.kind.is_at(&kind.group, &kind.plural)) {
                None => owners.absent.push(uid.clone()),
                Some(owner) if owner.is_waiting_for_dependents() => owners.waiting.push(uid.clone()),
                Some(_) => owners.has_solid = true,
            }
        }
        Some(owners)
    }

    /// The objects that name this one as their owner, in the order of their creation.
    fn dependents(&self, node: &Node) -> impl Iterator<Item = (NodeId, &Node)> {
        let ids = self.owners.get(&node.uid).into_iter().flat_map(|owner| &owner.dependents);
        ids.filter_map(|id| Some((*id, self.nodes.get(id)?)))
    }

    fn remove_dependent(&mut self, owner: &Uid, dependent: NodeId) {
        if let Some(found) = self.owners.get_mut(owner) {
            found.dependents.remove(&dependent);
            if found.dependents.is_empty() {
                self.owners.remove(owner);
            }
        }
    }

    fn visit(&mut self, id: NodeId) {
        self.queue.push_back(id);
    }

    /// Queues an owner that waits for its dependents.
    fn visit_uid(&mut self, uid: &Uid) {
        let found = self.ids.get(uid).copied();
        let waits = |id: &NodeId| self.nodes.get(id).is_some_and(Node::is_waiting_for_dependents);
        self.queue.extend(found.filter(waits));
    }

    fn visit_dependents(&mut self, id: NodeId) {
        let owner = self.nodes.get(&id).and_then(|node| self.owners.get(&node.uid));
        self.queue.extend(owner.into_iter().flat_map(|owner| &owner.dependents));
    }
}

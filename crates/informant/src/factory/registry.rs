//! The informers of a factory, and the rules by which requests share them. Plain data: the factory has the lock.

use std::{fmt, sync::Arc};

use hashbrown::{HashMap, HashSet};
use kube::core::ApiResource;

use super::object_type::ObjectType;
use crate::{
    informer::{AnyInformer, AnyInformerBuilder, InformerState, InformerStatus},
    listwatch::scope_text,
};

/// Identifies an informer of a factory. Two requests with the same key get the same informer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct InformerKey {
    pub(super) kind: KindId,
    pub(super) scope: RequestScope,
    pub(super) object_type: ObjectType,
    /// True if only metadata is requested from the server.
    pub(super) is_metadata_only: bool,
}

/// A kind, in a version, as the server calls it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct KindId {
    pub(super) api_version: String,
    pub(super) plural: String,
}

/// The objects of a kind that a request covers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct RequestScope {
    /// `None` means all namespaces.
    pub(super) namespace: Option<String>,
    pub(super) labels: String,
    pub(super) fields: String,
}

/// All informers of a factory.
#[derive(Default)]
pub(super) struct Registry {
    /// INV-F1: the objects of an informer are of the type that its key names.
    informers: HashMap<InformerKey, AnyInformer>,
    /// Informers that are stopping and whose key has a new informer, until they have stopped.
    leaving: Vec<AnyInformer>,
    /// Kinds for which the warning about two object types was logged.
    warned: HashSet<KindId>,
    /// The last status of each informer that has ended since the factory was stopped, by its name.
    ended: HashMap<Arc<str>, InformerStatus>,
    pub(super) is_stopped: bool,
}

impl KindId {
    pub(super) fn of(resource: &ApiResource) -> Self {
        Self { api_version: resource.api_version.clone(), plural: resource.plural.clone() }
    }
}

impl InformerKey {
    /// Returns true if both informers may cache the same object, in different object types.
    fn overlaps(&self, other: &Self) -> bool {
        let is_everywhere = |key: &Self| key.scope.namespace.is_none();
        let shares_namespaces =
            self.scope.namespace == other.scope.namespace || is_everywhere(self) || is_everywhere(other);
        self.kind == other.kind && self.object_type != other.object_type && shares_namespaces
    }
}

/// Prints the scope as the suffix of an informer's name.
impl fmt::Display for RequestScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&scope_text(self.namespace.as_deref(), &self.labels, &self.fields))
    }
}

/// Returns true if the user stopped the informer; false for a crash.
fn is_stopped_by_user(informer: &AnyInformer) -> bool {
    match informer.state() {
        InformerState::New | InformerState::Running => false,
        InformerState::Stopping | InformerState::Stopped => !informer.has_crashed(),
    }
}

impl Registry {
    /// Returns the informers to start, wait for and report: all that the user has not stopped.
    pub(super) fn informers(&self) -> Vec<AnyInformer> {
        self.informers.values().filter(|informer| !is_stopped_by_user(informer)).cloned().collect()
    }

    /// Returns the informers to report, and the last status of those that are gone. Of a stopped factory these are all informers.
    pub(super) fn reported(&self) -> (Vec<AnyInformer>, Vec<InformerStatus>) {
        match self.is_stopped {
            true => (
                self.informers.values().chain(&self.leaving).cloned().collect(),
                self.ended.values().cloned().collect(),
            ),
            false => (self.informers(), Vec::new()),
        }
    }

    /// Closes the registry and returns all informers that have to be stopped.
    pub(super) fn stop(&mut self) -> Vec<AnyInformer> {
        self.is_stopped = true;
        self.informers.values().chain(&self.leaving).cloned().collect()
    }

    /// Returns the informers that have stopped and are to be removed. A crashed informer stays until its key is requested again, so that
    /// `status` and `problems` show it.
    pub(super) fn stopped(&self) -> Vec<AnyInformer> {
        let has_stopped = |informer: &&AnyInformer| informer.state() == InformerState::Stopped;
        let is_over = |informer: &&AnyInformer| is_stopped_by_user(informer) || self.is_stopped;
        self.informers.values().filter(is_over).chain(&self.leaving).filter(has_stopped).cloned().collect()
    }

    /// Removes informers that have stopped, and keeps their last status if the factory was stopped. Returns them, because their caches must not
    /// be dropped under a lock.
    #[must_use]
    pub(super) fn remove(&mut self, stopped: &[AnyInformer], last: Vec<InformerStatus>) -> Vec<AnyInformer> {
        let is_over = |informer: &AnyInformer| stopped.iter().any(|other| other.is_same(informer));
        let mut removed: Vec<_> =
            self.informers.extract_if(|_, informer| is_over(informer)).map(|(_, one)| one).collect();
        removed.extend(self.leaving.extract_if(.., |informer| is_over(informer)));
        self.ended.extend(last.into_iter().map(|status| (Arc::clone(&status.name), status)));
        removed
    }

    /// Returns the informer of a key, unless it is stopping or has stopped.
    pub(super) fn find(&self, key: &InformerKey) -> Option<AnyInformer> {
        let informer = self.informers.get(key)?;
        match informer.state() {
            InformerState::New | InformerState::Running => Some(informer.clone()),
            InformerState::Stopping | InformerState::Stopped => None,
        }
    }

    /// Builds the informer of a key for which `find` returns none, and keeps it unless the factory was stopped. Also returns another object
    /// type in which the same objects are cached, if a warning is due.
    pub(super) fn insert(
        &mut self,
        key: &InformerKey,
        mut builder: AnyInformerBuilder,
    ) -> (AnyInformer, Option<String>) {
        builder.name = Some(self.name(builder.name.as_deref(), builder.reflector.source.name(), key).into());
        let informer = builder.build();
        if self.is_stopped {
            return (informer, None);
        }
        let mut others = self.informers.iter().filter(|(_, informer)| !is_stopped_by_user(informer));
        let overlap = others.find(|(other, _)| key.overlaps(other)).map(|(other, _)| other.object_type.name());
        let overlap = overlap.filter(|_| self.warned.insert(key.kind.clone()));
        let before = self.informers.insert(key.clone(), informer.clone());
        self.leaving.extend(before);
        (informer, overlap)
    }

    /// Returns a name that no other informer has: `given`, or the name of the source; with a suffix if another informer has that name already.
    fn name(&self, given: Option<&str>, source: String, key: &InformerKey) -> String {
        let holder = |name: &str| {
            let mut others = self.informers.iter().filter(|(other, _)| *other != key);
            others.find(|(_, informer)| **informer.name() == *name).map(|(other, _)| other)
        };
        let mut name = given.map_or(source, str::to_owned);
        if let Some(other) = holder(&name) {
            name = match (given, other) {
                (Some(given), other) if other.scope != key.scope => format!("{given}{}", key.scope),
                (_, other) if other.kind != key.kind => format!("{name} of {}", key.kind.api_version),
                (_, _) => format!("{name} as {}", key.object_type.name()),
            };
        }
        if holder(&name).is_none() {
            return name;
        }
        let mut numbered = (2..).map(|number| format!("{name} ({number})"));
        numbered.find(|name| holder(name).is_none()).unwrap_or(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Key, SharedInformer,
        listwatch::{ListRequest, ListStream, ListWatch, SourceError, WatchRequest, WatchStream},
    };

    /// A source that panics.
    struct Bomb;

    impl ListWatch<()> for Bomb {
        async fn list(&self, _: ListRequest) -> Result<ListStream<()>, SourceError> {
            std::panic::resume_unwind(Box::new("boom"))
        }

        async fn watch(&self, _: WatchRequest) -> Result<WatchStream<()>, SourceError> {
            std::panic::resume_unwind(Box::new("boom"))
        }
    }

    fn key(plural: &str) -> InformerKey {
        let kind = KindId { api_version: "v1".into(), plural: plural.into() };
        InformerKey {
            kind,
            scope: RequestScope::default(),
            object_type: ObjectType::of::<Key>(),
            is_metadata_only: false,
        }
    }

    fn add(registry: &mut Registry, plural: &str) -> SharedInformer<()> {
        let informer = SharedInformer::of_decoded_objects(Bomb).name(plural).build();
        registry.informers.insert(key(plural), informer.informer.clone());
        informer
    }

    fn remove_stopped(registry: &mut Registry) -> usize {
        let stopped = registry.stopped();
        registry.remove(&stopped, Vec::new()).len()
    }

    #[tokio::test]
    async fn a_crashed_informer_is_listed_and_a_stopped_one_is_not() {
        let mut registry = Registry::default();
        let (crashed, stopped) = (add(&mut registry, "crashed"), add(&mut registry, "stopped"));
        let _unstarted = add(&mut registry, "unstarted");
        crashed.start();
        crashed.synced().await.unwrap_err();
        crashed.stop().await.unwrap();
        stopped.stop().await.unwrap();

        let shown = |registry: &Registry| {
            let mut names: Vec<_> = registry.informers().iter().map(|informer| informer.name().to_string()).collect();
            names.sort();
            names
        };
        assert_eq!(shown(&registry), ["crashed", "unstarted"]);
        assert_eq!(remove_stopped(&mut registry), 1, "the stopped informer is removed");
        assert_eq!(shown(&registry), ["crashed", "unstarted"]);
        let problem = registry
            .informers()
            .iter()
            .find_map(|informer| informer.status().problem().filter(|_| informer.has_crashed()));
        assert_eq!(problem.unwrap().to_string(), "informer crashed has stopped: panicked: boom");

        assert_eq!(registry.stop().len(), 2);
        assert_eq!(remove_stopped(&mut registry), 1, "after the end, all stopped informers are removed");
    }
}

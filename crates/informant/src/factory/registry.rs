//! The informers of a factory, and the rules of sharing them. Plain data: whoever uses it holds the lock.

use std::fmt;
use std::sync::Arc;

use hashbrown::HashMap;
use hashbrown::HashSet;

use super::form::Form;
use crate::Object;
use crate::SharedInformer;
use crate::informer::AnyInformer;
use crate::informer::InformerBuilder;
use crate::informer::InformerState;
use crate::listwatch::KubeSource;
use crate::listwatch::StreamingSupport;

/// What makes two requests the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct InformerKey {
    pub(super) kind: KindId,
    pub(super) scope: Scope,
    pub(super) form: Form,
}

/// A kind, in a version, as the server calls it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct KindId {
    pub(super) api_version: String,
    pub(super) plural: String,
}

/// Which objects of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Scope {
    /// `None` is all of them.
    pub(super) namespace: Option<String>,
    pub(super) labels: String,
    pub(super) fields: String,
}

/// All informers of a factory.
#[derive(Default)]
pub(super) struct Registry {
    informers: HashMap<InformerKey, Arc<dyn AnyInformer>>,
    /// Those whose place was given to another one, until they have stopped.
    leaving: Vec<Arc<dyn AnyInformer>>,
    /// What is known of the server's ability to stream lists.
    streaming: HashMap<KindId, StreamingSupport>,
    /// The kinds of which it was said that they are cached twice.
    warned: HashSet<KindId>,
    is_shut_down: bool,
}

/// What came of a request. What is not used is given back, to be dropped without the lock.
pub(super) enum Asked<O: Send + Sync + 'static> {
    /// Somebody else was faster.
    Found { informer: SharedInformer<O>, unused: Box<InformerBuilder<O, KubeSource>> },
    Made {
        informer: SharedInformer<O>,
        /// Another form in which the same objects are cached, if that is to be told.
        overlap: Option<String>,
    },
    /// The factory was shut down.
    TooLate { informer: SharedInformer<O> },
}

impl InformerKey {
    pub(super) fn form(&self) -> String {
        self.form.name()
    }

    /// Whether some object may be of both, in different forms.
    fn overlaps(&self, other: &Self) -> bool {
        let is_everywhere = |key: &Self| key.scope.namespace.is_none();
        let shares_namespaces =
            self.scope.namespace == other.scope.namespace || is_everywhere(self) || is_everywhere(other);
        self.kind == other.kind && self.form != other.form && shares_namespaces
    }
}

impl Registry {
    pub(super) fn is_shut_down(&self) -> bool {
        self.is_shut_down
    }

    /// All that are to be started, waited for and looked at.
    pub(super) fn informers(&self) -> Vec<Arc<dyn AnyInformer>> {
        self.informers.values().cloned().collect()
    }

    /// No more are made; gives all that are to be stopped.
    pub(super) fn shut_down(&mut self) -> Vec<Arc<dyn AnyInformer>> {
        self.is_shut_down = true;
        self.informers.values().chain(&self.leaving).cloned().collect()
    }

    /// Forgets those that have stopped; gives them, because dropping their caches is not to be done under a lock.
    #[must_use]
    pub(super) fn sweep(&mut self) -> Vec<Arc<dyn AnyInformer>> {
        let has_stopped = |informer: &Arc<dyn AnyInformer>| informer.state() == InformerState::Stopped;
        let mut ended: Vec<_> =
            self.informers.extract_if(|_, informer| has_stopped(informer)).map(|(_, one)| one).collect();
        ended.extend(self.leaving.extract_if(.., |informer| has_stopped(informer)));
        ended
    }

    /// What all informers of a kind know of the server's ability to stream its list.
    pub(super) fn streaming(&mut self, key: &InformerKey) -> StreamingSupport {
        self.streaming.entry(key.kind.clone()).or_default().clone()
    }

    /// The informer of a key, unless it is stopping.
    pub(super) fn find<O: Object>(&self, key: &InformerKey) -> Option<SharedInformer<O>> {
        let informer = self.informers.get(key)?;
        match informer.state() {
            // INV-F1: an informer's form is that of its key.
            InformerState::New | InformerState::Running => {
                Some(informer.as_any().downcast_ref::<SharedInformer<O>>().expect("INV-F1").clone())
            }
            InformerState::Stopping | InformerState::Stopped => None,
        }
    }

    pub(super) fn find_or_insert<O: Object>(
        &mut self,
        key: &InformerKey,
        builder: InformerBuilder<O, KubeSource>,
    ) -> Asked<O> {
        if let Some(informer) = self.find(key) {
            return Asked::Found { informer, unused: Box::new(builder) };
        }
        let informer = builder.name_if_unnamed(|name| self.unique(name, key)).build();
        if self.is_shut_down {
            return Asked::TooLate { informer };
        }
        let overlap = self.informers.keys().find(|other| key.overlaps(other)).map(InformerKey::form);
        let overlap = overlap.filter(|_| self.warned.insert(key.kind.clone()));
        let before = self.informers.insert(key.clone(), Arc::new(informer.clone()));
        self.leaving.extend(before);
        Asked::Made { informer, overlap }
    }

    /// A name that no other informer has: with the form, or a number, if need be.
    fn unique(&self, name: String, key: &InformerKey) -> String {
        let is_taken = |name: &str| {
            let mut others = self.informers.iter().filter(|(other, _)| *other != key);
            others.any(|(_, informer)| **informer.name() == *name)
        };
        if !is_taken(&name) {
            return name;
        }
        let with_form = format!("{name} as {}", key.form());
        if !is_taken(&with_form) {
            return with_form;
        }
        let mut numbered = (2..).map(|number| format!("{with_form} ({number})"));
        numbered.find(|name| !is_taken(name)).unwrap_or(with_form)
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.informers.keys()).finish()
    }
}

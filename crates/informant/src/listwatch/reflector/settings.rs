//! The settings of a reflector, whose object type is erased.
//!
//! - **In:** a source, and the settings of the [builder](super::ReflectorBuilder).
//! - **Out:** the parts of a [`Reflector`].
//! - **Knows nothing of:** what the parts do.

use std::{sync::Arc, time::Duration};

use kube::core::TypeMeta;
use tokio::sync::mpsc;

use super::{
    Callback, Reflector, Shared, history::HistoryCheck, intake::Intake, report::Reporter, requests::Requests,
    retry::Retry, watch::WatchContext,
};
use crate::{
    known::KnownObjects,
    listwatch::{
        Backoff, Destination, Inventory, ListWatchError, Quarantined, ServerHealth, SourceError,
        any_source::{AnySource, DynSource, KubeSelection},
        decoder::{Decode, Decoder, Transform},
        frames::DEFAULT_LIMIT,
        rules::{resume::Resume, state::StateMachine},
    },
    object::{Erased, FieldPath, MemoryOf, ObjectMemory, Scanner},
};

/// Settings of a reflector whose object type is erased.
pub(crate) struct ReflectorSettings {
    pub(crate) source: Arc<dyn DynSource>,
    /// The objects that the source requests from an API server; `None` for a custom source.
    pub(crate) selection: Option<KubeSelection>,
    pub(super) decode: Decode,
    pub(crate) memory_of: MemoryOf,
    /// Counts the bytes of the objects; `None` if they are not counted.
    pub(crate) memory: Option<Arc<ObjectMemory>>,
    /// The apiVersion and kind of the object type; `None` for any.
    pub(super) types: Option<TypeMeta>,
    pub(crate) transform: Option<Transform>,
    pub(super) keeps_managed_fields: bool,
    pub(crate) cut: Vec<FieldPath>,
    pub(crate) known: Option<Arc<dyn KnownObjects<Erased>>>,
    pub(super) page_size: Option<u32>,
    pub(super) begins_with_newest: bool,
    pub(super) size_limit: usize,
    pub(crate) backoff: Backoff,
    pub(crate) never_streams: bool,
    /// The period of resyncs.
    pub(crate) resync_every: Option<Duration>,
    /// Receives why everything must be listed again, from the informer's audits.
    pub(crate) findings: Option<mpsc::Receiver<SourceError>>,
    pub(crate) health: ServerHealth,
    pub(crate) on_error: Option<Callback<ListWatchError>>,
    pub(crate) on_quarantine: Option<Callback<Quarantined>>,
}

impl ReflectorSettings {
    pub(super) fn new(source: AnySource, decode: Decode, memory_of: MemoryOf, types: Option<TypeMeta>) -> Self {
        Self {
            source: source.source,
            selection: source.selection,
            decode,
            memory_of,
            memory: None,
            types,
            transform: None,
            keeps_managed_fields: false,
            cut: Vec::new(),
            known: None,
            page_size: None,
            begins_with_newest: false,
            size_limit: DEFAULT_LIMIT,
            backoff: Backoff::default(),
            never_streams: false,
            resync_every: None,
            findings: None,
            health: ServerHealth::new(),
            on_error: None,
            on_quarantine: None,
        }
    }

    /// Creates an inventory of the source.
    pub(crate) fn inventory(&self) -> Inventory {
        Inventory::new(Arc::clone(&self.source), self.page_size, self.size_limit)
    }

    /// Creates a scanner for items of the kind that the source declares.
    fn scanner(&self, declared: &TypeMeta) -> Scanner {
        let mut scanner = Scanner::new(declared.clone()).cut(&self.cut);
        if let Some(cluster) = self.source.cluster() {
            scanner = scanner.of_cluster(cluster);
        }
        if self.keeps_managed_fields {
            scanner = scanner.keep_managed_fields();
        }
        scanner
    }

    /// Creates the reflector.
    pub(crate) fn build(self, destination: Box<dyn Destination<Erased>>) -> Reflector {
        let (source, declared) = (Arc::clone(&self.source), self.source.types());
        let (mut scanner, history_scanner) = (self.scanner(&declared), self.scanner(&declared));
        if let Some(memory) = self.memory {
            scanner = scanner.counted_in(memory);
        }
        // The scanner checks the kind that the source declares; an object type may differ from it on purpose.
        let types = self.types.filter(|_| declared == TypeMeta::default());
        let (limit, cluster) = (self.size_limit, source.cluster());
        let decoder = Decoder::new(scanner, limit, self.decode, types, self.transform, cluster, self.known);
        let reporter = Arc::new(Reporter::new(source.name().into(), self.on_error, self.on_quarantine));
        let id = self.health.add_reflector(&source, declared.clone());
        let storage = source.storage().map_or_else(Arc::default, |name| self.health.storage(&name));
        let streaming = (!self.never_streams).then(|| self.health.streaming_support(&declared));
        let shared = Shared { source, health: self.health, storage, reporter: Arc::clone(&reporter) };
        Reflector {
            machine: StateMachine::new(),
            requests: Requests::new(shared.clone(), limit),
            intake: Intake::new(decoder, Resume::new(self.page_size, self.begins_with_newest), destination, reporter),
            history: HistoryCheck::new(shared.clone(), history_scanner),
            retry: Retry::new(shared.clone(), id, self.backoff),
            streaming,
            watches: WatchContext::new(self.resync_every, self.findings),
            shared,
        }
    }
}

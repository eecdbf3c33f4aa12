//! Which objects of which cluster, and how they are held: what `watch` and `get` have in common.
//!
//! - **In:** options.
//! - **Out:** [`Selected`]: a kind, and a factory that has an informer for it.

use std::error::Error;
use std::io;
use std::time::Duration;

use clap::Args;
use informant::SharedInformer;
use informant::SharedInformerFactory;
use informant::informer::SyncError;

use crate::cluster::ClusterOptions;
use crate::kinds;
use crate::kinds::Kind;
use crate::kinds::KindName;
use crate::objects::Form;
use crate::objects::Reader;

/// Which objects.
#[derive(Args, Debug)]
pub struct Selection {
    /// A kind as kubectl takes it: pods, po, deployment.apps, widgets.v1.example.com; or pod/NAME
    resource: String,
    /// Only the object of this name
    name: Option<String>,
    /// Only objects of this namespace [default: that of the context]
    #[arg(short, long)]
    namespace: Option<String>,
    /// Objects of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Only objects with such labels: app=web,tier!=cache
    #[arg(short = 'l', long, default_value = "", hide_default_value = true)]
    selector: String,
    /// Only objects with such fields: spec.nodeName=node-1
    #[arg(long, default_value = "", hide_default_value = true)]
    field_selector: String,
    /// Asks the server for nothing but metadata
    #[arg(long)]
    metadata_only: bool,
    /// Holds objects as compact JSON and decodes what is shown of them; --lazy=false holds them decoded, which takes ten times
    /// the memory
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    lazy: bool,
    /// Shows what Secrets have in them
    #[arg(long)]
    show_secrets: bool,
    /// Gives up if the first list is not there after this time, such as 30s [default: waits while it may still come]
    #[arg(long, value_name = "DURATION", value_parser = crate::duration)]
    sync_timeout: Option<Duration>,
    #[command(flatten)]
    cluster: ClusterOptions,
}

/// In which form objects are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    Lazy,
    Decoded,
    LazyMetadata,
    DecodedMetadata,
}

/// What was selected, found in the cluster.
pub struct Selected {
    pub kind: Kind,
    pub factory: SharedInformerFactory,
    pub reader: Reader,
    /// The name, if only one is wanted.
    pub name: Option<String>,
    /// None for all, and where there are none.
    pub namespace: Option<String>,
    selector: String,
    field_selector: String,
    sync_timeout: Option<Duration>,
    url: String,
}

/// The first list did not come.
#[derive(Debug, thiserror::Error)]
#[error("no {resource} from {url}")]
pub struct NotSynced {
    resource: String,
    url: String,
    source: SyncError,
}

impl Selection {
    pub fn held(&self) -> Held {
        match (self.metadata_only, self.lazy) {
            (false, true) => Held::Lazy,
            (false, false) => Held::Decoded,
            (true, true) => Held::LazyMetadata,
            (true, false) => Held::DecodedMetadata,
        }
    }

    /// Finds the cluster and the kind.
    pub async fn find(self, command: &str, resync: Option<Duration>) -> Result<Selected, Box<dyn Error>> {
        let (kind_name, name) = match (self.resource.split_once('/'), self.name) {
            (Some((kind, name)), None) => (kind.to_owned(), Some(name.to_owned())),
            (Some(_), Some(name)) => {
                let resource = self.resource;
                crate::asked_wrongly(
                    command,
                    format!("{resource:?} and {name:?} are two names for one object; say one"),
                );
            }
            (None, name) => (self.resource.clone(), name),
        };
        if kind_name.contains(',') {
            crate::asked_wrongly(command, format!("{kind_name:?} is several kinds; one at a time"));
        }
        let cluster = self.cluster.connect().await?;
        let kind_name: KindName = kind_name.parse()?;
        let kind = kinds::find(&cluster.client, &cluster.url, &kind_name).await?;
        let namespace = match kind.is_namespaced() && !self.all_namespaces {
            true => Some(self.namespace.unwrap_or(cluster.namespace)),
            false => None,
        };
        let mut factory = SharedInformerFactory::builder(cluster.client).fail_fast().on_quarantine(|_, object| {
            eprintln!("informant: an object is left out: {}", crate::in_one_line(&object.error));
        });
        if let Some(period) = resync {
            factory = factory.resync_every(period);
        }
        let one_of_name = name.iter().map(|name| format!("metadata.name={name}"));
        let fields = one_of_name.chain(Some(self.field_selector).filter(|fields| !fields.is_empty()));
        Ok(Selected {
            reader: Reader::new(&kind, self.show_secrets),
            kind,
            factory: factory.build(),
            field_selector: fields.collect::<Vec<_>>().join(","),
            name,
            namespace,
            selector: self.selector,
            sync_timeout: self.sync_timeout,
            url: cluster.url,
        })
    }
}

impl Selected {
    /// The informer of these objects.
    pub fn informer<O: Form>(&self) -> Result<SharedInformer<O>, Box<dyn Error>> {
        let request = self.factory.request_dynamic::<O>(&self.kind.resource).scoped(&self.kind.scope);
        let request = request.with_labels(&self.selector).with_fields(&self.field_selector);
        let request = match &self.namespace {
            Some(namespace) => request.in_namespace(namespace),
            None => request.in_all_namespaces(),
        };
        Ok(request.informer()?)
    }

    /// Waits until the cache has everything; or until it is clear that it will not.
    pub async fn synced(&self) -> Result<(), NotSynced> {
        let synced = match self.sync_timeout {
            Some(within) => self.factory.synced_within(within).await,
            None => self.factory.synced().await,
        };
        // There is one informer, so there is one reason.
        match synced.map_err(|errors| errors.errors.into_iter().next()) {
            Ok(()) | Err(None) => Ok(()),
            Err(Some(source)) => {
                Err(NotSynced { resource: self.kind.resource.plural.clone(), url: self.url.clone(), source })
            }
        }
    }

    /// Stops the informer; nobody's callbacks are waited for.
    pub async fn stop(&self) -> Result<(), Box<dyn Error>> {
        Ok(self.factory.shutdown().await?)
    }

    /// Whether tables need a column for namespaces.
    pub fn spans_namespaces(&self) -> bool {
        self.kind.is_namespaced() && self.namespace.is_none()
    }
}

/// Something that is said while results go to stdout.
pub fn note(text: &str) {
    use io::Write;
    // There is nobody to tell that it failed.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

//! Selects the objects that `watch` and `get` work on.
//!
//! - **In:** options.
//! - **Out:** [`Selected`]: a kind and a factory with an informer for it; [`ObjectType`]: the Rust type that holds the objects.

mod object_type;

use std::{error::Error, str::FromStr, time::Duration};

use clap::{Args, builder::NonEmptyStringValueParser};
use informant::{
    SharedInformer, SharedInformerFactory,
    error::{StopError, SyncError},
};
use informant_apiserver::{columns, columns::Column};
use kube::Client;

pub use self::object_type::{ObjectCommand, ObjectType};
use crate::{
    arguments::{UsageError, duration},
    cluster::ClusterOptions,
    kinds,
    kinds::{Kind, KindName},
    objects::{PrintableObject, Reader},
    output::{in_one_line, print_message},
};

/// The options that select objects.
#[derive(Args, Debug)]
pub struct Selection {
    /// Resource as in kubectl (pods, po, deployment.apps, widgets.v1.example.com), or RESOURCE/NAME
    #[arg(value_name = "RESOURCE")]
    resource: Target,
    /// Select only the object with this name
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    name: Option<String>,
    /// Select objects in this namespace [default: the namespace of the context]
    #[arg(short, long, value_parser = NonEmptyStringValueParser::new())]
    namespace: Option<String>,
    /// Select objects in all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Select objects by their labels, such as app=web,tier!=cache
    #[arg(short = 'l', long, default_value = "", hide_default_value = true)]
    selector: String,
    /// Select objects by fields that the server supports, such as spec.nodeName=node-1
    #[arg(long, default_value = "", hide_default_value = true)]
    field_selector: String,
    /// Request only the metadata of objects from the server
    #[arg(long)]
    metadata_only: bool,
    /// Cache objects as compact JSON and decode them when they are printed; --lazy=false caches decoded objects, which for pods
    /// takes about ten times the memory
    #[arg(
        long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true"
    )]
    lazy: bool,
    /// Print the values in Secrets [default: print only their lengths]
    #[arg(long)]
    show_secrets: bool,
    /// Retry every error, and fail if the first list is not complete after this time, such as 30s; the same limit applies to the
    /// credential plugin and to API discovery [default: fail at once if the server is down, or on errors that retrying cannot
    /// fix, such as 403]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    sync_timeout: Option<Duration>,
    #[command(flatten)]
    cluster: ClusterOptions,
}

/// The argument RESOURCE: `pods`, or `pod/web`.
#[derive(Clone, Debug)]
struct Target {
    kind: KindName,
    name: Option<String>,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, name) = text.split_once('/').map_or((text, None), |(kind, name)| (kind, Some(name)));
        match (kind, name) {
            ("", _) => Err("expected a resource, such as pods".to_owned()),
            (kind, _) if kind == "all" || kind.contains(',') => {
                Err("several kinds at once are not supported; name one resource, such as pods".to_owned())
            }
            (_, Some(name)) if name.is_empty() || name.contains('/') => {
                Err("expected one object, such as pod/web".to_owned())
            }
            (kind, name) => Ok(Self { kind: KindName::new(kind), name: name.map(str::to_owned) }),
        }
    }
}

/// Escapes a value for a field selector.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\=")
}

/// The selected kind and objects, after the cluster and the kind have been found.
pub struct Selected {
    pub client: Client,
    pub kind: Kind,
    pub factory: SharedInformerFactory,
    pub reader: Reader,
    /// The name, if a single object is selected.
    pub name: Option<String>,
    /// `None` for all namespaces, and for kinds without namespaces.
    pub namespace: Option<String>,
    pub selector: String,
    /// As the user wrote it, without the name.
    field_selector: String,
    sync_timeout: Option<Duration>,
    url: String,
}

/// The first list failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot list {resource} from {url}")]
pub struct NotSynced {
    resource: String,
    url: String,
    source: SyncError,
}

/// No object has the given name.
#[derive(Debug, thiserror::Error)]
#[error("{0} not found")]
pub struct NotFound(String);

impl Selection {
    pub fn object_type(&self) -> ObjectType {
        match (self.metadata_only, self.lazy) {
            (false, true) => ObjectType::Lazy,
            (false, false) => ObjectType::Decoded,
            (true, true) => ObjectType::LazyMetadata,
            (true, false) => ObjectType::DecodedMetadata,
        }
    }

    /// Checks for contradictory arguments.
    pub fn check(&self) -> Result<(), UsageError> {
        match (&self.resource.name, &self.name) {
            (Some(one), Some(other)) => {
                Err(UsageError(format!("the object has two names, {one:?} and {other:?}; pass only one")))
            }
            (Some(_), None) | (None, _) => Ok(()),
        }
    }

    /// Connects to the cluster and finds the kind.
    pub async fn find(self, resync: Option<Duration>) -> Result<Selected, Box<dyn Error>> {
        let cluster = self.cluster.connect(self.sync_timeout).await?;
        let kind = kinds::find(&cluster.client, &cluster.url, &self.resource.kind, self.sync_timeout).await?;
        let namespace = match kind.is_namespaced() && !self.all_namespaces {
            true => Some(self.namespace.unwrap_or(cluster.namespace)),
            false => None,
        };
        let mut factory = SharedInformerFactory::builder(cluster.client.clone()).on_quarantine(|_, object| {
            print_message(&format!("skipped an object that cannot be decoded: {}", in_one_line(&object.error)));
        });
        if self.sync_timeout.is_none() {
            factory = factory.fail_fast();
        }
        if let Some(period) = resync {
            factory = factory.resync_every(period);
        }
        Ok(Selected {
            client: cluster.client,
            reader: Reader::new(&kind, self.show_secrets),
            kind,
            factory: factory.build(),
            name: self.resource.name.or(self.name),
            namespace,
            selector: self.selector,
            field_selector: self.field_selector,
            sync_timeout: self.sync_timeout,
            url: cluster.url,
        })
    }
}

impl Selected {
    /// The table columns of these objects; for a custom kind, reads its definition from the server.
    pub async fn columns<O: PrintableObject>(&self) -> Vec<Column> {
        if O::IS_METADATA_ONLY { columns::of_metadata() } else { kinds::columns(&self.client, &self.kind).await }
    }

    /// Returns the informer for these objects.
    pub fn informer<O: PrintableObject>(&self) -> Result<SharedInformer<O>, UsageError> {
        let request = self.factory.request_dynamic::<O>(&self.kind.resource).scoped(&self.kind.scope);
        let request = request.with_labels(&self.selector).with_fields(self.fields());
        let request = match &self.namespace {
            Some(namespace) => request.in_namespace(namespace),
            None => request.in_all_namespaces(),
        };
        request.informer().map_err(|error| UsageError(error.to_string()))
    }

    /// The field selector, with the name.
    pub fn fields(&self) -> String {
        let by_name = self.name.iter().map(|name| format!("metadata.name={}", escaped(name)));
        let fields = by_name.chain(Some(self.field_selector.clone()).filter(|fields| !fields.is_empty()));
        fields.collect::<Vec<_>>().join(",")
    }

    /// Waits until the informer is synced, or has failed.
    pub async fn synced(&self) -> Result<(), NotSynced> {
        let synced = match self.sync_timeout {
            Some(within) => self.factory.synced_within(within).await,
            None => self.factory.synced().await,
        };
        synced.map_err(|error| {
            let (resource, url) = (self.kind.resource.plural.clone(), self.url.clone());
            // There is one informer, so there is one error.
            let source = error.errors().first().cloned().unwrap_or(error);
            NotSynced { resource, url, source }
        })
    }

    /// Stops the informer.
    pub async fn stop(&self) -> Result<(), StopError> {
        self.factory.stop().await
    }

    pub fn not_found(&self) -> NotFound {
        NotFound(self.description())
    }

    /// Returns true if tables need a column for the namespace.
    pub fn spans_namespaces(&self) -> bool {
        self.kind.is_namespaced() && self.namespace.is_none()
    }

    /// Describes the selection in messages: `pods in namespace "shop" that match label selector "tier=hot"`.
    pub fn description(&self) -> String {
        let named = self.name.as_ref().map(|name| format!(" {name:?}")).unwrap_or_default();
        let place = self.namespace.as_ref().map(|namespace| format!(" in namespace {namespace:?}")).unwrap_or_default();
        let selectors = [("label", &self.selector), ("field", &self.field_selector)].into_iter();
        let selectors = selectors.filter(|(_, selector)| !selector.is_empty());
        let selectors: Vec<_> = selectors.map(|(of, selector)| format!("{of} selector {selector:?}")).collect();
        let (kind, matching) = match self.name {
            Some(_) => (self.kind.singular_with_group(), " that matches "),
            None => (self.kind.resource.plural.clone(), " that match "),
        };
        let matching = if selectors.is_empty() { "" } else { matching };
        format!("{kind}{named}{place}{matching}{}", selectors.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_escaped_in_a_field_selector() {
        assert_eq!(escaped(r"a,b=c\d"), r"a\,b\=c\\d");
    }

    #[test]
    fn a_target_is_a_kind_with_an_optional_name() {
        let target: Target = "pod/web".parse().unwrap();
        assert_eq!((target.kind, target.name.as_deref()), (KindName::new("pod"), Some("web")));
        assert_eq!("pods".parse::<Target>().unwrap().name, None);
        for bad in ["", "/", "all", "pods/", "/web", "pods,nodes", "pod/a/b"] {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
    }
}

//! Which objects of which cluster, and how they are held: what `watch` and `get` have in common.
//!
//! - **In:** options.
//! - **Out:** [`Selected`]: a kind, and a factory that has an informer for it; [`Held`]: in which form.

mod held;

use std::error::Error;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use informant::SharedInformer;
use informant::SharedInformerFactory;
use informant::informer::StopErrors;
use informant_apiserver::columns;
use informant_apiserver::columns::Column;
use kube::Client;

pub use self::held::Held;
pub use self::held::OnObjects;
use crate::arguments::AskedWrongly;
use crate::arguments::duration;
use crate::cluster::ClusterOptions;
use crate::kinds;
use crate::kinds::Kind;
use crate::kinds::KindName;
use crate::objects::Form;
use crate::objects::Reader;
use crate::output::in_one_line;
use crate::output::say;

/// Which objects.
#[derive(Args, Debug)]
pub struct Selection {
    /// A kind as kubectl takes it: pods, po, deployment.apps, widgets.v1.example.com; or KIND/NAME
    #[arg(value_name = "RESOURCE")]
    resource: Target,
    /// Only the object of this name
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    name: Option<String>,
    /// Only objects of this namespace [default: that of the context]
    #[arg(short, long, value_parser = NonEmptyStringValueParser::new())]
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
    /// Ask the server for nothing but metadata
    #[arg(long)]
    metadata_only: bool,
    /// Hold objects as compact JSON and decode only what is shown; --lazy=false holds them decoded, which takes about ten times
    /// the memory for pods
    #[arg(
        long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true"
    )]
    lazy: bool,
    /// Show what Secrets have in them [default: how long it is]
    #[arg(long)]
    show_secrets: bool,
    /// Retry every error, and give up if the first list is not complete after this time, such as 30s. Getting credentials and
    /// discovering kinds have the same limit each [default: give up at once if the server is down, or on errors that
    /// retrying does not fix, such as 403]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    sync_timeout: Option<Duration>,
    #[command(flatten)]
    cluster: ClusterOptions,
}

/// `pods`, or `pod/web`.
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
            ("", _) => Err("say which kind, such as pods".to_owned()),
            (kind, _) if kind == "all" || kind.contains(',') => {
                Err("these are several kinds; one at a time".to_owned())
            }
            (_, Some(name)) if name.is_empty() || name.contains('/') => {
                Err("write one object as in pod/web".to_owned())
            }
            (kind, name) => Ok(Self { kind: KindName::new(kind), name: name.map(str::to_owned) }),
        }
    }
}

/// A value as it stands in a field selector.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\=")
}

/// What was selected, found in the cluster.
pub struct Selected {
    client: Client,
    pub kind: Kind,
    pub factory: SharedInformerFactory,
    pub reader: Reader,
    /// The name, if only one is wanted.
    pub name: Option<String>,
    /// None for all, and where there are none.
    pub namespace: Option<String>,
    selector: String,
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
    source: Box<dyn Error>,
}

/// Nobody has that name.
#[derive(Debug, thiserror::Error)]
#[error("{0} not found")]
pub struct NotFound(String);

impl Selection {
    pub fn held(&self) -> Held {
        match (self.metadata_only, self.lazy) {
            (false, true) => Held::Lazy,
            (false, false) => Held::Decoded,
            (true, true) => Held::LazyMetadata,
            (true, false) => Held::DecodedMetadata,
        }
    }

    /// What cannot be meant.
    pub fn check(&self) -> Result<(), AskedWrongly> {
        match (&self.resource.name, &self.name) {
            (Some(one), Some(other)) => {
                Err(AskedWrongly(format!("{one:?} and {other:?} are two names for one object; say one")))
            }
            (Some(_), None) | (None, _) => Ok(()),
        }
    }

    /// Finds the cluster and the kind.
    pub async fn find(self, resync: Option<Duration>) -> Result<Selected, Box<dyn Error>> {
        let cluster = self.cluster.connect(self.sync_timeout).await?;
        let kind = kinds::find(&cluster.client, &cluster.url, &self.resource.kind, self.sync_timeout).await?;
        let namespace = match kind.is_namespaced() && !self.all_namespaces {
            true => Some(self.namespace.unwrap_or(cluster.namespace)),
            false => None,
        };
        let mut factory = SharedInformerFactory::builder(cluster.client.clone()).on_quarantine(|_, object| {
            say(&format!("an object is left out: {}", in_one_line(&object.error)));
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
    /// The columns in which a table shows these objects; for a custom kind, the cluster is asked for its definition.
    pub async fn columns<O: Form>(&self) -> Vec<Column> {
        if O::IS_OF_METADATA { columns::of_metadata() } else { kinds::columns(&self.client, &self.kind).await }
    }

    /// The informer of these objects.
    pub fn informer<O: Form>(&self) -> Result<SharedInformer<O>, AskedWrongly> {
        let request = self.factory.request_dynamic::<O>(&self.kind.resource).scoped(&self.kind.scope);
        let one_of_name = self.name.iter().map(|name| format!("metadata.name={}", escaped(name)));
        let fields = one_of_name.chain(Some(self.field_selector.clone()).filter(|fields| !fields.is_empty()));
        let fields = fields.collect::<Vec<_>>().join(",");
        let request = request.with_labels(&self.selector).with_fields(&fields);
        let request = match &self.namespace {
            Some(namespace) => request.in_namespace(namespace),
            None => request.in_all_namespaces(),
        };
        request.informer().map_err(|error| AskedWrongly(error.to_string()))
    }

    /// Waits until the cache has everything; or until it is clear that it will not.
    pub async fn synced(&self) -> Result<(), NotSynced> {
        let synced = match self.sync_timeout {
            Some(within) => self.factory.synced_within(within).await,
            None => self.factory.synced().await,
        };
        synced.map_err(|mut errors| {
            let (resource, url) = (self.kind.resource.plural.clone(), self.url.clone());
            // Of one informer there is one reason, unless it was shut down.
            let source: Box<dyn Error> = match errors.errors.pop() {
                Some(error) => error.into(),
                None => errors.into(),
            };
            NotSynced { resource, url, source }
        })
    }

    /// Stops the informer.
    pub async fn stop(&self) -> Result<(), StopErrors> {
        self.factory.stop().await
    }

    pub fn not_found(&self) -> NotFound {
        NotFound(self.description())
    }

    /// Whether tables need a column for namespaces.
    pub fn spans_namespaces(&self) -> bool {
        self.kind.is_namespaced() && self.namespace.is_none()
    }

    /// What was selected, for people: `pods in namespace "shop" that match label selector "tier=hot"`.
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
    fn a_name_is_no_selector() {
        assert_eq!(escaped(r"a,b=c\d"), r"a\,b\=c\\d");
    }

    #[test]
    fn a_target_is_a_kind_and_perhaps_a_name() {
        let target: Target = "pod/web".parse().unwrap();
        assert_eq!((target.kind, target.name.as_deref()), (KindName::new("pod"), Some("web")));
        assert_eq!("pods".parse::<Target>().unwrap().name, None);
        for bad in ["", "/", "all", "pods/", "/web", "pods,nodes", "pod/a/b"] {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
    }
}

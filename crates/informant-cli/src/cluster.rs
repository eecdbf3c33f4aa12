//! Which cluster is spoken to, and as whom.
//!
//! - **In:** options, the kubeconfig, what a pod of a cluster finds around it.
//! - **Out:** a [`Cluster`]: a client, and the namespace that is meant when none is named.
//! - **Knows nothing of:** kinds; `kinds` finds those.

use std::io;
use std::path::PathBuf;

use clap::Args;
use clap::ValueHint;
use hyper::Uri;
use kube::Client;
use kube::Config;
use kube::config::KubeConfigOptions;
use kube::config::Kubeconfig;
use kube::config::KubeconfigError;

const HEADING: &str = "Cluster";

/// How to reach a cluster.
#[derive(Args, Debug)]
pub struct ClusterOptions {
    /// Kubeconfig [default: $KUBECONFIG, or ~/.kube/config, or what a pod finds around it]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = HEADING)]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: the current one]
    #[arg(long, help_heading = HEADING)]
    context: Option<String>,
    /// API server that wants no credentials, such as `informant apiserver` or `kubectl proxy`: no kubeconfig is read, and none
    /// are sent
    #[arg(
        long, value_name = "URL", value_hint = ValueHint::Url, value_parser = url, help_heading = HEADING,
        conflicts_with_all = ["kubeconfig", "context"]
    )]
    server: Option<Uri>,
}

/// A cluster that can be asked.
pub struct Cluster {
    pub client: Client,
    /// The namespace that is meant when none is named.
    pub namespace: String,
    /// Where it is.
    pub url: String,
}

/// Why there is no cluster to ask.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error(
        "there is no cluster: no kubeconfig was found, and this is no pod of a cluster; name one with --kubeconfig FILE, \
         ask a server with --server URL, or see `informant demo`, which needs neither"
    )]
    None,
    #[error("the kubeconfig has no context {wanted:?}; it has {}", listed(known))]
    UnknownContext { wanted: String, known: Vec<String> },
    #[error("the kubeconfig says no current context; choose one with --context: it has {}", listed(known))]
    NoContext { known: Vec<String> },
    #[error("the kubeconfig {} cannot be read", file.display())]
    Unreadable { file: PathBuf, source: io::Error },
    #[error("the kubeconfig cannot be used: {0}")]
    Unusable(String),
    #[error("no client can be made for {url}")]
    Client { url: String, source: Box<kube::Error> },
}

impl From<KubeconfigError> for ClusterError {
    fn from(error: KubeconfigError) -> Self {
        if let KubeconfigError::ReadConfig(source, file) = error {
            return Self::Unreadable { file, source };
        }
        // Parsers show what they stumble over; that may be a secret, and is not for one line.
        Self::Unusable(error.to_string().lines().next().unwrap_or_default().to_owned())
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// `localhost:8080` is a URL for people.
fn url(text: &str) -> Result<Uri, String> {
    let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url: Uri = whole.parse().map_err(|error| format!("{error}; write it as http://127.0.0.1:8080"))?;
    match (url.scheme_str(), url.host()) {
        (Some("http" | "https"), Some(_)) => Ok(url),
        (_, _) => Err("write it as http://127.0.0.1:8080".to_owned()),
    }
}

impl ClusterOptions {
    /// Finds the cluster. Nothing is asked of it.
    pub async fn connect(&self) -> Result<Cluster, ClusterError> {
        let mut config = self.config().await?;
        // The informer waits and tries again by itself, and shows that it does.
        config.default_retry = false;
        let (url, namespace) =
            (config.cluster_url.to_string().trim_end_matches('/').to_owned(), config.default_namespace.clone());
        let client = Client::try_from(config);
        let client = client.map_err(|error| ClusterError::Client { url: url.clone(), source: Box::new(error) })?;
        Ok(Cluster { client, namespace, url })
    }

    async fn config(&self) -> Result<Config, ClusterError> {
        if let Some(server) = &self.server {
            return Ok(Config::new(server.clone()));
        }
        let kubeconfig = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let kubeconfig = match kubeconfig {
            Ok(kubeconfig) => kubeconfig,
            Err(error) if self.is_for_any_cluster() && is_missing(&error) => {
                let is_named = std::env::var_os("KUBECONFIG").is_some();
                let none = |_| if is_named { error.into() } else { ClusterError::None };
                return Config::incluster().map_err(none);
            }
            Err(error) => return Err(error.into()),
        };
        let known: Vec<_> = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        match Config::from_custom_kubeconfig(kubeconfig, &options).await {
            Err(KubeconfigError::LoadContext(wanted)) if !wanted.is_empty() => {
                Err(ClusterError::UnknownContext { wanted, known })
            }
            // A kubeconfig that names nothing, as an empty file, is none.
            Err(KubeconfigError::CurrentContextNotSet | KubeconfigError::LoadContext(_)) => {
                if known.is_empty() && self.is_for_any_cluster() {
                    return Config::incluster().map_err(|_| ClusterError::None);
                }
                Err(ClusterError::NoContext { known })
            }
            outcome => Ok(outcome?),
        }
    }

    /// Whether nobody said which.
    fn is_for_any_cluster(&self) -> bool {
        self.kubeconfig.is_none() && self.context.is_none()
    }
}

fn is_missing(error: &KubeconfigError) -> bool {
    if let KubeconfigError::ReadConfig(error, _) = error {
        return error.kind() == io::ErrorKind::NotFound;
    }
    matches!(error, KubeconfigError::FindPath)
}

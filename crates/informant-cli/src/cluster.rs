//! Which cluster is spoken to, and as whom.
//!
//! - **In:** options, the kubeconfig, what a pod of a cluster finds around it.
//! - **Out:** a [`Cluster`]: a client, and the namespace that is meant when none is named.
//! - **Knows nothing of:** kinds; `kinds` finds those.

use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::ValueHint;
use hyper::Uri;
use hyper::header::HeaderValue;
use hyper::http::uri::Authority;
use kube::Client;
use kube::Config;
use kube::client::AuthError;
use kube::config::AuthInfo;
use kube::config::KubeConfigOptions;
use kube::config::Kubeconfig;
use kube::config::KubeconfigError;
use secrecy::ExposeSecret;
use tokio::task::JoinError;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

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
    /// API server that wants no credentials, such as `informant apiserver` or `kubectl proxy`: no kubeconfig is read and
    /// no credentials are sent
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
    #[error("the kubeconfig{} cannot be used: {why}", .file.as_ref().map(|file| format!(" {}", file.display())).unwrap_or_default())]
    Unusable { file: Option<PathBuf>, why: String },
    #[error("there are no credentials{}: {why}", .plugin.as_ref().map(|plugin| format!(" from plugin {plugin:?}")).unwrap_or_default())]
    Credentials { plugin: Option<String>, why: String },
    #[error(
        "plugin {plugin:?} has given no credentials in {within:?} and still runs; see what it waits for by running it yourself"
    )]
    NoAnswer { plugin: String, within: Duration },
    #[error("no client can be made for {url}")]
    Client { url: String, source: Box<kube::Error> },
    #[error("no client can be made for {url}: it failed in a way that it should not")]
    Panicked { url: String, source: JoinError },
}

impl ClusterError {
    fn kubeconfig(file: Option<&Path>, error: KubeconfigError) -> Self {
        // Whoever has no home has none there.
        if let KubeconfigError::FindPath = error {
            return Self::None;
        }
        if let KubeconfigError::ReadConfig(source, file) = error {
            return Self::Unreadable { file, source };
        }
        // Parsers show what they stumble over; that may be a secret, and is not for one line.
        let why = error.to_string().lines().next().unwrap_or_default().to_owned();
        Self::Unusable { file: file.map(Path::to_owned), why }
    }

    fn is_missing(&self) -> bool {
        match self {
            Self::None => true,
            Self::Unreadable { source, .. } => source.kind() == io::ErrorKind::NotFound,
            Self::UnknownContext { .. }
            | Self::NoContext { .. }
            | Self::Unusable { .. }
            | Self::Credentials { .. }
            | Self::NoAnswer { .. }
            | Self::Client { .. }
            | Self::Panicked { .. } => false,
        }
    }
}

/// What a plugin was called with, and what it gave, may be secret; what it complains of is for people.
fn told(error: &AuthError) -> String {
    if let AuthError::AuthExecRun { out, .. } = error {
        let complaint = String::from_utf8_lossy(&out.stderr);
        let first = complaint.lines().find(|line| !line.trim().is_empty()).unwrap_or("it says nothing");
        return format!("it failed with {}: {first}", out.status);
    }
    if let AuthError::AuthExecParse(_) = error {
        return "what it printed is no ExecCredential; see what it prints by running it yourself".to_owned();
    }
    error.to_string()
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// `localhost:8080` is a URL for people.
fn url(text: &str) -> Result<Uri, String> {
    let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url: Uri = whole.parse().map_err(|error| format!("{error}; write it as http://127.0.0.1:8080"))?;
    let authority = url.authority().map(Authority::as_str).unwrap_or_default();
    if authority.contains('@') {
        return Err("credentials in a URL are not sent; leave them out".to_owned());
    }
    // A port that is none is left out by the parser.
    let has_bad_port =
        authority.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']')) && url.port_u16().is_none();
    match (url.scheme_str(), url.host(), url.query()) {
        (Some("http" | "https"), Some(_), None) if !has_bad_port => Ok(url),
        (_, _, _) => Err("write it as http://127.0.0.1:8080".to_owned()),
    }
}

impl ClusterOptions {
    /// Finds the cluster. Nothing is asked of it; a plugin that gives credentials is not waited for longer than this.
    pub async fn connect(&self, patience: Option<Duration>) -> Result<Cluster, ClusterError> {
        let mut config = self.config().await?;
        tidy(&mut config)?;
        // The informer waits and tries again by itself, and shows that it does.
        config.default_retry = false;
        let (url, namespace) =
            (config.cluster_url.to_string().trim_end_matches('/').to_owned(), config.default_namespace.clone());
        let plugin = config.auth_info.exec.as_ref().and_then(|exec| exec.command.clone());
        // It waits for a plugin, and a plugin may wait for somebody to log in.
        let made = spawn_blocking(|| Client::try_from(config));
        let made = match (patience, &plugin) {
            (Some(within), Some(plugin)) => {
                let no_answer = || ClusterError::NoAnswer { plugin: plugin.clone(), within };
                timeout(within, made).await.map_err(|_| no_answer())?
            }
            (_, _) => made.await,
        };
        match made {
            Ok(Ok(client)) => Ok(Cluster { client, namespace, url }),
            Ok(Err(kube::Error::Auth(error))) => Err(ClusterError::Credentials { plugin, why: told(&error) }),
            Ok(Err(error)) => Err(ClusterError::Client { url, source: Box::new(error) }),
            Err(_) if plugin.is_some() => {
                let why =
                    "no client can be made with what it gave; see what it prints by running it yourself".to_owned();
                Err(ClusterError::Credentials { plugin, why })
            }
            Err(source) => Err(ClusterError::Panicked { url, source }),
        }
    }

    async fn config(&self) -> Result<Config, ClusterError> {
        if let Some(server) = &self.server {
            return Ok(Config::new(server.clone()));
        }
        let mut kubeconfig = match (&self.kubeconfig, files_of_environment()) {
            (Some(file), _) => read(file)?,
            (None, files) if !files.is_empty() => merged(&files)?,
            (None, _) => match Kubeconfig::read().map_err(|error| ClusterError::kubeconfig(None, error)) {
                Ok(kubeconfig) => kubeconfig,
                Err(error) if error.is_missing() && self.context.is_none() => {
                    return Config::incluster().map_err(|_| ClusterError::None);
                }
                Err(error) => return Err(error),
            },
        };
        complete(&mut kubeconfig);
        let known: Vec<_> = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        match Config::from_custom_kubeconfig(kubeconfig, &options).await {
            Err(KubeconfigError::LoadContext(wanted)) if !wanted.is_empty() => {
                Err(ClusterError::UnknownContext { wanted, known })
            }
            // A kubeconfig that names nothing, as an empty file, is none.
            Err(KubeconfigError::CurrentContextNotSet | KubeconfigError::LoadContext(_)) => {
                if known.is_empty() && self.kubeconfig.is_none() && self.context.is_none() {
                    return Config::incluster().map_err(|_| ClusterError::None);
                }
                Err(ClusterError::NoContext { known })
            }
            outcome => outcome.map_err(|error| ClusterError::kubeconfig(None, error)),
        }
    }
}

/// Gives a scheme to servers that have none, as `kubectl` takes them: `https`, where a certificate is expected.
fn complete(kubeconfig: &mut Kubeconfig) {
    for cluster in kubeconfig.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        let has_authority = cluster.certificate_authority.is_some() || cluster.certificate_authority_data.is_some();
        let is_secure = has_authority || cluster.insecure_skip_tls_verify == Some(true);
        if let Some(server) = cluster.server.as_mut().filter(|server| !server.contains("://")) {
            *server = format!("{}://{server}", if is_secure { "https" } else { "http" });
        }
    }
}

/// Has no credentials sent in the clear, as `kubectl` does, and leaves out the ends of lines around a token, with which the client
/// could not send it.
fn tidy(config: &mut Config) -> Result<(), ClusterError> {
    if config.cluster_url.scheme_str() == Some("http") {
        config.auth_info = AuthInfo::default();
    }
    let credentials = &mut config.auth_info;
    let written = match (&credentials.token, &credentials.token_file) {
        (Some(token), _) => Some(token.expose_secret().to_owned()),
        // Whoever makes the client says why it cannot be read.
        (None, Some(file)) => std::fs::read_to_string(file).ok(),
        (None, None) => None,
    };
    let Some(written) = written else { return Ok(()) };
    let token = written.trim();
    if HeaderValue::from_str(token).is_err() {
        let why = "the token has signs in it, as ends of lines, that cannot be sent".to_owned();
        return Err(ClusterError::Credentials { plugin: None, why });
    }
    if token != written {
        credentials.token = Some(token.into());
    }
    Ok(())
}

/// The files that `KUBECONFIG` names.
fn files_of_environment() -> Vec<PathBuf> {
    let files = std::env::var_os("KUBECONFIG").unwrap_or_default();
    std::env::split_paths(&files).filter(|file| !file.as_os_str().is_empty()).collect()
}

fn read(file: &Path) -> Result<Kubeconfig, ClusterError> {
    Kubeconfig::read_from(file).map_err(|error| ClusterError::kubeconfig(Some(file), error))
}

/// All of them in one, as `kubectl` does it: some may be missing, but not all.
fn merged(files: &[PathBuf]) -> Result<Kubeconfig, ClusterError> {
    let mut merged = None;
    let mut missing = ClusterError::None;
    for file in files {
        match read(file) {
            Ok(next) => {
                let together = merged.unwrap_or_else(Kubeconfig::default).merge(next);
                merged = Some(together.map_err(|error| ClusterError::kubeconfig(Some(file), error))?);
            }
            Err(error) if error.is_missing() => missing = error,
            Err(error) => return Err(error),
        }
    }
    merged.ok_or(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tidied(url: &str, credentials: AuthInfo) -> Result<AuthInfo, ClusterError> {
        let mut config = Config::new(url.parse().unwrap());
        config.auth_info = credentials;
        tidy(&mut config).map(|()| config.auth_info)
    }

    fn of_token(token: &str) -> AuthInfo {
        AuthInfo { token: Some(token.into()), ..AuthInfo::default() }
    }

    #[test]
    fn a_token_is_sent_without_ends_of_lines_and_never_in_the_clear() {
        let sent = |url: &str, credentials| {
            let token = tidied(url, credentials).unwrap().token;
            token.map(|token| token.expose_secret().to_owned())
        };
        let file = std::env::temp_dir().join(format!("informant-token-{}", std::process::id()));
        std::fs::write(&file, "abc\n").unwrap();
        let of_file = AuthInfo { token_file: Some(file.to_str().unwrap().to_owned()), ..AuthInfo::default() };

        assert_eq!(sent("https://example.com", of_token("abc\r\n")).as_deref(), Some("abc"));
        assert_eq!(sent("https://example.com", of_file).as_deref(), Some("abc"));
        assert_eq!(sent("http://example.com", of_token("abc")), None);
        assert!(tidied("https://example.com", of_token("abc\ndef")).is_err());
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn a_server_without_a_scheme_gets_one() {
        let completed = |cluster: &str| {
            let text = format!("clusters: [{{name: here, cluster: {{{cluster}}}}}]");
            let mut kubeconfig = Kubeconfig::from_yaml(&text).unwrap();
            complete(&mut kubeconfig);
            kubeconfig.clusters[0].cluster.as_ref().unwrap().server.clone().unwrap()
        };

        assert_eq!(completed("server: \"127.0.0.1:8080/\""), "http://127.0.0.1:8080/");
        assert_eq!(completed("server: \"example.com\", certificate-authority: ca.pem"), "https://example.com");
        assert_eq!(completed("server: \"https://example.com\""), "https://example.com");
    }
}

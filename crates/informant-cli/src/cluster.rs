//! Finds the API server and the credentials to use, and creates a client.
//!
//! - **In:** options, the kubeconfig, the in-cluster configuration of a pod.
//! - **Out:** a [`Cluster`]: a client and the default namespace.
//! - **Knows nothing of:** kinds; those are found by `kinds`.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args, ValueHint};
use hyper::{Uri, header::HeaderValue, http::uri::Authority};
use kube::{
    Client, Config,
    client::AuthError,
    config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use secrecy::ExposeSecret;
use tokio::{
    task::{JoinError, spawn_blocking},
    time::timeout,
};

const HEADING: &str = "Cluster";

/// The options that select a cluster.
#[derive(Args, Debug)]
pub struct ClusterOptions {
    /// Path of the kubeconfig [default: $KUBECONFIG, ~/.kube/config or the in-cluster configuration]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = HEADING)]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig to use [default: its current context]
    #[arg(long, help_heading = HEADING)]
    context: Option<String>,
    /// URL of an API server that needs no credentials, such as `informant apiserver` or `kubectl proxy`; no kubeconfig is
    /// read and no credentials are sent
    #[arg(
        long, value_name = "URL", value_hint = ValueHint::Url, value_parser = url, help_heading = HEADING,
        conflicts_with_all = ["kubeconfig", "context"]
    )]
    server: Option<Uri>,
}

/// A client for a cluster.
pub struct Cluster {
    pub client: Client,
    /// The namespace to use if the user names none.
    pub namespace: String,
    /// The URL of the API server.
    pub url: String,
}

/// Why no client could be created.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error(
        "no cluster is configured: no kubeconfig was found, and the program does not run in a pod; pass --kubeconfig FILE or \
         --server URL, or try `informant demo`, which needs no cluster"
    )]
    None,
    #[error("the kubeconfig has no context {wanted:?}; its contexts are: {}", listed(known))]
    UnknownContext { wanted: String, known: Vec<String> },
    #[error("the kubeconfig has no current context; select one with --context; its contexts are: {}", listed(known))]
    NoContext { known: Vec<String> },
    #[error("cannot read the kubeconfig {}", file.display())]
    Unreadable { file: PathBuf, source: io::Error },
    #[error("cannot use the kubeconfig{}: {why}", .file.as_ref().map(|file| format!(" {}", file.display())).unwrap_or_default())]
    Unusable { file: Option<PathBuf>, why: String },
    #[error("cannot get credentials{}: {why}", .plugin.as_ref().map(|plugin| format!(" from credential plugin {plugin:?}")).unwrap_or_default())]
    Credentials { plugin: Option<String>, why: String },
    #[error("credential plugin {plugin:?} is still running after {within:?}; run it yourself to see what it waits for")]
    PluginTimeout { plugin: String, within: Duration },
    #[error("cannot create a client for {url}")]
    Client { url: String, source: Box<kube::Error> },
    #[error("cannot create a client for {url}: internal error, please report it")]
    Panicked { url: String, source: JoinError },
}

impl ClusterError {
    fn kubeconfig(file: Option<&Path>, error: KubeconfigError) -> Self {
        // Without a home directory there is no ~/.kube/config.
        if let KubeconfigError::FindPath = error {
            return Self::None;
        }
        if let KubeconfigError::ReadConfig(source, file) = error {
            return Self::Unreadable { file, source };
        }
        // Only the first line: the parser quotes the text that it fails on, which may be a secret.
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
            | Self::PluginTimeout { .. }
            | Self::Client { .. }
            | Self::Panicked { .. } => false,
        }
    }
}

/// Describes a credential error. The arguments and the stdout of a plugin may be secret, so only its stderr is quoted.
fn describe(error: &AuthError) -> String {
    if let AuthError::AuthExecRun { out, .. } = error {
        let stderr = String::from_utf8_lossy(&out.stderr);
        let first = stderr.lines().find(|line| !line.trim().is_empty()).unwrap_or("(no message on stderr)");
        return format!("the plugin failed with {}: {first}", out.status);
    }
    if let AuthError::AuthExecParse(_) = error {
        return "the plugin printed something other than an ExecCredential; run it yourself to see its output"
            .to_owned();
    }
    error.to_string()
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Parses a URL; without a scheme, as in `localhost:8080`, http is assumed.
fn url(text: &str) -> Result<Uri, String> {
    let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url: Uri = whole.parse().map_err(|error| format!("{error}; expected a URL such as http://127.0.0.1:8080"))?;
    let authority = url.authority().map(Authority::as_str).unwrap_or_default();
    if authority.contains('@') {
        return Err("credentials in the URL would not be sent; remove them".to_owned());
    }
    // The parser drops an invalid port instead of failing.
    let has_bad_port =
        authority.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']')) && url.port_u16().is_none();
    match (url.scheme_str(), url.host(), url.query()) {
        (Some("http" | "https"), Some(_), None) if !has_bad_port => Ok(url),
        (_, _, _) => Err("expected a URL such as http://127.0.0.1:8080".to_owned()),
    }
}

impl ClusterOptions {
    /// Creates a client. Sends no request to the server; waits at most `timeout_after` for a credential plugin.
    pub async fn connect(&self, timeout_after: Option<Duration>) -> Result<Cluster, ClusterError> {
        let mut config = self.config().await?;
        sanitize_credentials(&mut config)?;
        // The informer retries by itself and reports it; the client must not hide failures.
        config.default_retry = false;
        let (url, namespace) =
            (config.cluster_url.to_string().trim_end_matches('/').to_owned(), config.default_namespace.clone());
        let plugin = config.auth_info.exec.as_ref().and_then(|exec| exec.command.clone());
        // Creating the client runs the credential plugin, which may block until the user logs in.
        let made = spawn_blocking(|| Client::try_from(config));
        let made = match (timeout_after, &plugin) {
            (Some(within), Some(plugin)) => {
                let timed_out = || ClusterError::PluginTimeout { plugin: plugin.clone(), within };
                timeout(within, made).await.map_err(|_| timed_out())?
            }
            (_, _) => made.await,
        };
        match made {
            Ok(Ok(client)) => Ok(Cluster { client, namespace, url }),
            Ok(Err(kube::Error::Auth(error))) => Err(ClusterError::Credentials { plugin, why: describe(&error) }),
            Ok(Err(error)) => Err(ClusterError::Client { url, source: Box::new(error) }),
            Err(_) if plugin.is_some() => {
                let why =
                    "its credentials cannot be sent in a request; run the plugin yourself to see its output".to_owned();
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
        add_schemes(&mut kubeconfig);
        let known: Vec<_> = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        match Config::from_custom_kubeconfig(kubeconfig, &options).await {
            Err(KubeconfigError::LoadContext(wanted)) if !wanted.is_empty() => {
                Err(ClusterError::UnknownContext { wanted, known })
            }
            // A kubeconfig without contexts, such as an empty file, counts as missing.
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

/// Adds a scheme to server addresses without one, as `kubectl` does: `https` if the cluster has TLS settings, else `http`.
fn add_schemes(kubeconfig: &mut Kubeconfig) {
    for cluster in kubeconfig.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        let has_authority = cluster.certificate_authority.is_some() || cluster.certificate_authority_data.is_some();
        let is_secure = has_authority || cluster.insecure_skip_tls_verify == Some(true);
        if let Some(server) = cluster.server.as_mut().filter(|server| !server.contains("://")) {
            *server = format!("{}://{server}", if is_secure { "https" } else { "http" });
        }
    }
}

/// Removes credentials for servers without TLS, as `kubectl` does, and the line breaks around a token, which the client could not
/// send.
fn sanitize_credentials(config: &mut Config) -> Result<(), ClusterError> {
    if config.cluster_url.scheme_str() == Some("http") {
        config.auth_info = AuthInfo::default();
    }
    let credentials = &mut config.auth_info;
    let written = match (&credentials.token, &credentials.token_file) {
        (Some(token), _) => Some(token.expose_secret().to_owned()),
        // If the file cannot be read, creating the client fails with the reason.
        (None, Some(file)) => std::fs::read_to_string(file).ok(),
        (None, None) => None,
    };
    let Some(written) = written else { return Ok(()) };
    let token = written.trim();
    if HeaderValue::from_str(token).is_err() {
        let why = "the token contains characters that cannot be sent, such as line breaks".to_owned();
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

/// Merges kubeconfigs as `kubectl` does: some of the files may be missing, but not all.
fn merged(files: &[PathBuf]) -> Result<Kubeconfig, ClusterError> {
    let mut merged = None;
    let mut missing = ClusterError::None;
    for file in files {
        match read(file) {
            Ok(next) => {
                let next = merged.unwrap_or_else(Kubeconfig::default).merge(next);
                merged = Some(next.map_err(|error| ClusterError::kubeconfig(Some(file), error))?);
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

    fn sanitized(url: &str, credentials: AuthInfo) -> Result<AuthInfo, ClusterError> {
        let mut config = Config::new(url.parse().unwrap());
        config.auth_info = credentials;
        sanitize_credentials(&mut config).map(|()| config.auth_info)
    }

    fn with_token(token: &str) -> AuthInfo {
        AuthInfo { token: Some(token.into()), ..AuthInfo::default() }
    }

    #[test]
    fn a_token_is_sent_without_line_breaks_and_only_over_tls() {
        let sent = |url: &str, credentials| {
            let token = sanitized(url, credentials).unwrap().token;
            token.map(|token| token.expose_secret().to_owned())
        };
        let file = std::env::temp_dir().join(format!("informant-token-{}", std::process::id()));
        std::fs::write(&file, "abc\n").unwrap();
        let with_file = AuthInfo { token_file: Some(file.to_str().unwrap().to_owned()), ..AuthInfo::default() };

        assert_eq!(sent("https://example.com", with_token("abc\r\n")).as_deref(), Some("abc"));
        assert_eq!(sent("https://example.com", with_file).as_deref(), Some("abc"));
        assert_eq!(sent("http://example.com", with_token("abc")), None);
        assert!(sanitized("https://example.com", with_token("abc\ndef")).is_err());
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn a_server_without_a_scheme_gets_one() {
        let server_of = |cluster: &str| {
            let text = format!("clusters: [{{name: here, cluster: {{{cluster}}}}}]");
            let mut kubeconfig = Kubeconfig::from_yaml(&text).unwrap();
            add_schemes(&mut kubeconfig);
            kubeconfig.clusters[0].cluster.as_ref().unwrap().server.clone().unwrap()
        };

        assert_eq!(server_of("server: \"127.0.0.1:8080/\""), "http://127.0.0.1:8080/");
        assert_eq!(server_of("server: \"example.com\", certificate-authority: ca.pem"), "https://example.com");
        assert_eq!(server_of("server: \"https://example.com\""), "https://example.com");
    }
}

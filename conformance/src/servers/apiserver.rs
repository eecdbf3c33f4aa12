//! kube-apiserver: started, killed and stopped on one port.

use std::{fs, net::SocketAddr, time::Duration};

use anyhow::{Context, Result};
use http::Request;
use kube::{Client, Config};
use rustix::process::Signal;

use super::{Authority, Etcd, Folders, free_port};
use crate::process::Process;

/// The token of an administrator.
pub const ADMIN_TOKEN: &str = "conformance-admin";

/// A kube-apiserver, and a client of an administrator.
pub struct ApiServer {
    name: &'static str,
    folders: Folders,
    address: SocketAddr,
    etcd: String,
    /// The token of the user `client`.
    client_token: String,
    /// Further flags.
    flags: Vec<String>,
    process: Option<Process>,
    pub admin: Client,
}

impl ApiServer {
    /// Starts a server, and waits until it is ready.
    pub async fn start(
        name: &'static str,
        folders: &Folders,
        authority: &Authority,
        etcd: &Etcd,
        flags: &[&str],
    ) -> Result<Self> {
        let certificate = authority.issue()?;
        fs::write(folders.case.join(format!("{name}.crt")), &certificate.pem)?;
        fs::write(folders.case.join(format!("{name}.key")), &certificate.key_pem)?;
        let mut last_error = None;
        for _ in 0..3 {
            let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
            let mut server = Self {
                name,
                folders: folders.clone(),
                address,
                etcd: etcd.client_url(),
                client_token: "client-0".into(),
                flags: flags.iter().copied().map(str::to_owned).collect(),
                process: None,
                admin: admin_client(&format!("https://{address}"), authority)?,
            };
            match server.restart().await {
                Ok(()) => return Ok(server),
                Err(error) => last_error = Some(error),
            }
        }
        Err(last_error.context("three tries")?)
    }

    /// Starts the process on the server's port, and waits until it is ready.
    pub async fn restart(&mut self) -> Result<()> {
        let file = |extension: &str| self.folders.case.join(format!("{}.{extension}", self.name)).display().to_string();
        let (certificate, key, tokens) = (file("crt"), file("key"), file("tokens"));
        fs::write(&tokens, format!("{ADMIN_TOKEN},admin,admin,system:masters\n{},client,client\n", self.client_token))?;
        let mut flags = vec![
            format!("--etcd-servers={}", self.etcd),
            format!("--secure-port={}", self.address.port()),
            "--bind-address=127.0.0.1".into(),
            format!("--tls-cert-file={certificate}"),
            format!("--tls-private-key-file={key}"),
            "--service-account-issuer=https://conformance.invalid".into(),
            format!("--service-account-key-file={certificate}"),
            format!("--service-account-signing-key-file={key}"),
            format!("--token-auth-file={tokens}"),
            "--authorization-mode=RBAC".into(),
            "--service-cluster-ip-range=10.0.0.0/24".into(),
            "--disable-admission-plugins=ServiceAccount".into(),
        ];
        flags.extend(self.flags.iter().cloned());
        let log = self.folders.case.join(format!("{}.log", self.name));
        self.process = Some(Process::start(&self.folders.programs.join("kube-apiserver"), &flags, &log)?);
        self.ready().await
    }

    /// Waits until `/readyz` succeeds.
    pub async fn ready(&mut self) -> Result<()> {
        let ready = async {
            while self.admin.request_text(Request::get("/readyz").body(Vec::new())?).await.is_err() {
                self.process.as_mut().context("kube-apiserver does not run")?.check()?;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Ok(())
        };
        let ready = tokio::time::timeout(Duration::from_secs(120), ready).await;
        ready.with_context(|| format!("{} was not ready within 120 s", self.name))?
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From the next start on, the user `client` has this token, and no other.
    pub fn set_client_token(&mut self, token: &str) {
        self.client_token = token.to_owned();
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.process.as_ref().context("kube-apiserver does not run")?.signal(signal)
    }

    pub async fn kill(&mut self) -> Result<()> {
        self.process.take().context("kube-apiserver does not run")?.kill().await
    }

    pub async fn terminate(&mut self) -> Result<()> {
        self.process.take().context("kube-apiserver does not run")?.terminate(Duration::from_secs(90)).await
    }
}

fn admin_client(url: &str, authority: &Authority) -> Result<Client> {
    let mut config = Config::new(url.parse()?);
    config.root_cert = Some(vec![crate::tls::der(&authority.pem)?]);
    config.auth_info.token = Some(ADMIN_TOKEN.to_owned().into());
    config.connect_timeout = Some(Duration::from_secs(2));
    config.read_timeout = Some(Duration::from_secs(10));
    config.write_timeout = Some(Duration::from_secs(10));
    Ok(Client::try_from(config)?)
}

//! kube-controller-manager, with only the garbage collector.

use std::fs;

use anyhow::Result;
use serde_json::json;

use super::{ADMIN_TOKEN, ApiServer, Authority, Folders};
use crate::process::Process;

/// A garbage collector that works while this value exists.
pub struct GarbageCollector {
    _process: Process,
}

impl GarbageCollector {
    /// Starts the collector of a server. It works some seconds later.
    pub fn start(folders: &Folders, server: &ApiServer, authority: &Authority) -> Result<Self> {
        let (ca, kubeconfig) = (folders.case.join("controllers-ca.crt"), folders.case.join("controllers.kubeconfig"));
        fs::write(&ca, &authority.pem)?;
        let cluster = json!({"server": format!("https://{}", server.address()), "certificate-authority": ca});
        let content = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "real", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": ADMIN_TOKEN}}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}],
            "current-context": "real",
        });
        fs::write(&kubeconfig, content.to_string())?;
        let flags = [
            format!("--kubeconfig={}", kubeconfig.display()),
            "--controllers=garbage-collector-controller".into(),
            "--leader-elect=false".into(),
            "--bind-address=127.0.0.1".into(),
            // No port: nobody asks for its health.
            "--secure-port=0".into(),
        ];
        let program = folders.programs.join("kube-controller-manager");
        let process = Process::start(&program, &flags, &folders.case.join("kube-controller-manager.log"))?;
        Ok(Self { _process: process })
    }
}

//! How other programs find the server: a kubeconfig. Only a file that is ours is written over.

use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use serde_json::json;

use crate::output;
use crate::output::YamlError;

/// By this we know our own.
const OURS: &str = "# Written by `informant apiserver`.\n";

/// Why it was not written.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    #[error("{} is there already and was not written by this command; remove it, or name another file", .0.display())]
    NotOurs(PathBuf),
    #[error("{} cannot be written", file.display())]
    Write { file: PathBuf, source: io::Error },
    #[error(transparent)]
    Yaml(#[from] YamlError),
}

/// Writes it, whole or not at all.
pub fn write(file: &Path, url: &str) -> Result<(), KubeconfigError> {
    let failed = |source| KubeconfigError::Write { file: file.to_owned(), source };
    match fs::read(file) {
        Ok(before) if !before.starts_with(OURS.as_bytes()) => return Err(KubeconfigError::NotOurs(file.to_owned())),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        Ok(_) | Err(_) => {}
    }
    let mut unfinished = file.as_os_str().to_owned();
    unfinished.push(".unfinished");
    fs::write(&unfinished, kubeconfig(url)?).and_then(|()| fs::rename(&unfinished, file)).map_err(failed)
}

fn kubeconfig(url: &str) -> Result<String, YamlError> {
    let content = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "informant", "cluster": {"server": url}}],
        "users": [{"name": "anybody", "user": {}}],
        "contexts": [{"name": "informant", "context": {"cluster": "informant", "user": "anybody", "namespace": "default"}}],
        "current-context": "informant",
    });
    Ok(format!("{OURS}{}", output::yaml(&content)?))
}

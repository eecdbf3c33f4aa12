//! Writes a kubeconfig for the server. Overwrites only a file that this command has written, or an empty one.

use std::{
    fs,
    fs::File,
    io,
    io::Write,
    path::{Path, PathBuf},
};

use serde_json::json;

use crate::{output, output::YamlError};

/// The first line of every file that this command writes.
const MARKER: &str = "# Written by `informant apiserver`.\n";

/// Why the kubeconfig was not written.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    #[error("{} already exists and was not written by this command; remove it, or choose another file", .0.display())]
    NotOurs(PathBuf),
    #[error("cannot write the kubeconfig {}", file.display())]
    Write { file: PathBuf, source: io::Error },
    #[error(transparent)]
    Yaml(#[from] YamlError),
}

/// Returns the file that would be written: the target, if `file` is a symbolic link.
///
/// # Errors
///
/// If a file exists that this command has not written.
pub fn target(file: &Path) -> Result<PathBuf, KubeconfigError> {
    let failed = |source| KubeconfigError::Write { file: file.to_owned(), source };
    match fs::canonicalize(file) {
        Ok(target) => {
            let is_ours = || fs::read(&target).map(|before| before.is_empty() || before.starts_with(MARKER.as_bytes()));
            if !target.is_file() || !is_ours().map_err(failed)? {
                return Err(KubeconfigError::NotOurs(file.to_owned()));
            }
            Ok(target)
        }
        // The target of a symbolic link may not exist yet.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(match fs::read_link(file) {
            Ok(target) => file.parent().unwrap_or(Path::new("")).join(target),
            Err(_) => file.to_owned(),
        }),
        Err(error) => Err(failed(error)),
    }
}

/// Writes the kubeconfig atomically: writes a temporary file and renames it.
pub fn write(file: &Path, url: &str) -> Result<(), KubeconfigError> {
    let failed = |source| KubeconfigError::Write { file: file.to_owned(), source };
    let content = kubeconfig(url)?;
    let target = target(file)?;
    let mut unfinished = target.as_os_str().to_owned();
    unfinished.push(format!(".{}", std::process::id()));
    let unfinished = PathBuf::from(unfinished);
    // Fails if a file of this name exists, instead of overwriting it.
    let mut out = File::create_new(&unfinished).map_err(failed)?;
    let written = out.write_all(content.as_bytes()).and_then(|()| fs::rename(&unfinished, &target));
    written.map_err(|error| {
        // The first error is reported, not that of the removal.
        let _ = fs::remove_file(&unfinished);
        failed(error)
    })
}

fn kubeconfig(url: &str) -> Result<String, YamlError> {
    let content = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "informant", "cluster": {"server": url}}],
        "users": [{"name": "anonymous", "user": {}}],
        "contexts": [{"name": "informant", "context": {"cluster": "informant", "user": "anonymous", "namespace": "default"}}],
        "current-context": "informant",
    });
    Ok(format!("{MARKER}{}", output::yaml(&content)?))
}

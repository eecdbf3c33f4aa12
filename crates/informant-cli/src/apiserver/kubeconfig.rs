//! How other programs find the server: a kubeconfig. Only a file that is ours is written over.

use std::fs;
use std::fs::File;
use std::io;
use std::io::Write;
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

/// Where it would be written: where a link leads, if it is one.
///
/// # Errors
///
/// If something of others is there.
pub fn place(file: &Path) -> Result<PathBuf, KubeconfigError> {
    let failed = |source| KubeconfigError::Write { file: file.to_owned(), source };
    match fs::canonicalize(file) {
        Ok(place) => {
            let is_ours = || fs::read(&place).map(|before| before.is_empty() || before.starts_with(OURS.as_bytes()));
            if !place.is_file() || !is_ours().map_err(failed)? {
                return Err(KubeconfigError::NotOurs(file.to_owned()));
            }
            Ok(place)
        }
        // A link may lead to what is not there yet.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(match fs::read_link(file) {
            Ok(target) => file.parent().unwrap_or(Path::new("")).join(target),
            Err(_) => file.to_owned(),
        }),
        Err(error) => Err(failed(error)),
    }
}

/// Writes it, whole or not at all.
pub fn write(file: &Path, url: &str) -> Result<(), KubeconfigError> {
    let failed = |source| KubeconfigError::Write { file: file.to_owned(), source };
    let content = kubeconfig(url)?;
    let place = place(file)?;
    let mut unfinished = place.as_os_str().to_owned();
    unfinished.push(format!(".{}", std::process::id()));
    let unfinished = PathBuf::from(unfinished);
    // What others have under this name stays.
    let mut out = File::create_new(&unfinished).map_err(failed)?;
    let written = out.write_all(content.as_bytes()).and_then(|()| fs::rename(&unfinished, &place));
    written.map_err(|error| {
        // What went wrong first is said.
        let _ = fs::remove_file(&unfinished);
        failed(error)
    })
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

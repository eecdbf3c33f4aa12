//! What people call a kind, and what the server calls it.
//!
//! - **In:** a name as `kubectl` takes it: `pods`, `po`, `deployment.apps`, `widgets.v1.example.com`.
//! - **Out:** a [`Kind`]: where its objects are served, and whether they live in namespaces.
//!
//! The usual kinds are known (`built_in`), so that nobody has to be asked for them; others the server is asked for
//! (`discovery`). `name` has the rules by which a name fits a kind.

mod built_in;
mod discovery;
mod name;

use std::time::Duration;

use kube::Client;
use kube::core::ApiResource;
use kube::discovery::Scope;

pub use self::name::KindName;
use crate::output::in_one_line;

/// A kind that can be followed.
#[derive(Clone, Debug)]
pub struct Kind {
    pub resource: ApiResource,
    pub scope: Scope,
    /// What one of them is called: `pod`.
    singular: String,
    short_names: Vec<String>,
    can_be_watched: bool,
}

/// Why a kind was not found.
#[derive(Debug, thiserror::Error)]
pub enum KindError {
    #[error("the server at {url} has no resource {name:?}{}", meant(.similar.as_deref()))]
    Unknown { url: String, name: KindName, similar: Option<String> },
    #[error("{name:?} cannot be watched: the server at {url} does not list and watch such objects")]
    NotWatchable { url: String, name: KindName },
    #[error("{name:?} is no built-in kind, and the server at {url} cannot be asked for others: {why}")]
    Discovery { url: String, name: KindName, why: String },
}

fn meant(similar: Option<&str>) -> String {
    match similar {
        Some(similar) => format!("; did you mean {similar:?}?"),
        None => "; `kubectl api-resources` shows what it has".to_owned(),
    }
}

impl Kind {
    /// One that nobody knows, in namespaces.
    #[cfg(test)]
    pub fn custom(resource: ApiResource) -> Self {
        let singular = resource.kind.to_lowercase();
        Self { resource, scope: Scope::Namespaced, singular, short_names: Vec::new(), can_be_watched: true }
    }

    /// As `kubectl` calls one of them: `pod`, `deployment.apps`.
    pub fn singular_with_group(&self) -> String {
        match &*self.resource.group {
            "" => self.singular.clone(),
            group => format!("{}.{group}", self.singular),
        }
    }

    pub fn is_namespaced(&self) -> bool {
        match self.scope {
            Scope::Namespaced => true,
            Scope::Cluster => false,
        }
    }

    pub fn is_secret(&self) -> bool {
        self.resource.group.is_empty() && self.resource.kind == "Secret"
    }
}

/// What a client's error says to people.
fn told(error: &kube::Error) -> String {
    let kube::Error::Api(status) = error else { return in_one_line(error) };
    let advice = match status.code {
        401 => " (are the client's credentials valid?)",
        403 => " (may the client's user ask for it?)",
        _ => "",
    };
    format!("the server says: {} ({}, {}){advice}", status.message, status.reason, status.code)
}

/// The full name of a kind, `deployments.apps`, if it is one of the usual ones; else the name as it is.
pub fn full_name(name: &str) -> String {
    let kinds = built_in::kinds();
    let found = KindName::new(name).find_in(&kinds).map(|kind| &kind.resource);
    found.map_or_else(
        || name.to_owned(),
        |found| match &*found.group {
            "" => found.plural.clone(),
            group => format!("{}.{group}", found.plural),
        },
    )
}

/// The usual ones.
#[cfg(test)]
pub fn built_in_kinds() -> Vec<Kind> {
    built_in::kinds()
}

/// Finds the kind that is meant; asks the server only if it is none of the usual ones, and does not wait for it forever.
pub async fn find(client: &Client, url: &str, name: &KindName, patience: Duration) -> Result<Kind, KindError> {
    let built_in = built_in::kinds();
    if let Some(kind) = name.find_in(&built_in) {
        return Ok(kind.clone());
    }
    let failed = |why: String| KindError::Discovery { url: url.to_owned(), name: name.clone(), why };
    let served = tokio::time::timeout(patience, discovery::kinds(client, name)).await;
    let served = served.map_err(|_| failed(format!("it does not answer in {patience:?}")))?;
    let served = served.map_err(|error| failed(told(&error)))?;
    match name.find_in(&served) {
        Some(kind) if kind.can_be_watched => Ok(kind.clone()),
        Some(_) => Err(KindError::NotWatchable { url: url.to_owned(), name: name.clone() }),
        None => {
            let similar = name.similar_in(served.iter().chain(&built_in));
            Err(KindError::Unknown { url: url.to_owned(), name: name.clone(), similar })
        }
    }
}

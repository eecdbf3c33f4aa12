//! Finds the kind that a name refers to.
//!
//! - **In:** a name as `kubectl` accepts it: `pods`, `po`, `deployment.apps`, `widgets.v1.example.com`.
//! - **Out:** a [`Kind`]: its API group, version and resource, and whether its objects are namespaced.
//!
//! `built_in` lists the kinds of every cluster, which need no request; `discovery` asks the server for others. `name` has the rules by
//! which a name matches a kind; `definition` reads the table columns of custom kinds.

mod built_in;
mod definition;
mod discovery;
mod name;

use std::time::Duration;

use kube::{Client, core::ApiResource, discovery::Scope};
use tokio::time::{Instant, sleep, timeout};

use self::discovery::Discovered;
pub use self::{definition::columns, name::KindName};
use crate::{
    output::{in_one_line, print_message},
    requests::{is_transient, retry_delay},
};

/// A kind that the server serves.
#[derive(Clone, Debug)]
pub struct Kind {
    pub resource: ApiResource,
    pub scope: Scope,
    /// The singular name: `pod`.
    singular: String,
    short_names: Vec<String>,
    can_be_watched: bool,
    /// Whether the kind comes from `built_in`; such a kind has no definition to read.
    is_built_in: bool,
}

/// Why a kind was not found.
#[derive(Debug, thiserror::Error)]
pub enum KindError {
    #[error("the server at {url} has no resource {name:?}{}", hint(.similar.as_deref()))]
    Unknown { url: String, name: KindName, similar: Option<String> },
    #[error("cannot watch {name:?}: the server at {url} does not support list and watch for it")]
    NotWatchable { url: String, name: KindName },
    #[error("{name:?} is not a built-in kind, and the server at {url} did not list its other kinds: {why}")]
    Discovery { url: String, name: KindName, why: String },
    #[error(
        "the server at {url} has no resource {name:?} in the API groups that it listed; {group} may have it, but could not be listed: {why}"
    )]
    GroupNotListed { url: String, name: KindName, group: String, why: String },
}

/// How long the server may take to list its kinds, unless the user sets another limit.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(30);

/// If discovery still fails after this time, the reason is printed once.
const REPORT_AFTER: Duration = Duration::from_secs(5);

fn hint(similar: Option<&str>) -> String {
    match similar {
        Some(similar) => format!("; did you mean {similar:?}?"),
        None => "; `kubectl api-resources` lists its resources".to_owned(),
    }
}

impl Kind {
    /// The singular name with the API group, as `kubectl` prints it: `pod`, `deployment.apps`.
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

/// Describes a client's error in one line, with advice if there is any.
fn describe(error: &kube::Error) -> String {
    if let kube::Error::Service(_) = error {
        return format!("{} (check that the server is running and that its address is right)", in_one_line(error));
    }
    let kube::Error::Api(status) = error else { return in_one_line(error) };
    let advice = match status.code {
        401 => " (check that the client's credentials are valid)",
        403 => " (the client's user lacks permission for API discovery)",
        _ => "",
    };
    format!("the server answered: {} ({}, {}){advice}", status.message, status.reason, status.code)
}

/// Expands the name of a built-in kind to its plural name and group, such as `deployments.apps`; returns other names unchanged.
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

/// All built-in kinds.
#[cfg(test)]
pub fn built_in_kinds() -> Vec<Kind> {
    built_in::kinds()
}

/// Finds the kind with this name, in the table of built-in kinds or by discovery. Without `limit`, discovery retries errors of an
/// overloaded server for 30 s; with `limit`, it retries every error until then.
pub async fn find(client: &Client, url: &str, name: &KindName, limit: Option<Duration>) -> Result<Kind, KindError> {
    let built_in = built_in::kinds();
    if let Some(kind) = name.find_in(&built_in) {
        return Ok(kind.clone());
    }
    let failed = |why: String| KindError::Discovery { url: url.to_owned(), name: name.clone(), why };
    let Discovered { kinds, failed_group } = discover(client, url, name, limit).await.map_err(failed)?;
    let (url, similar) = (url.to_owned(), name.similar_in(kinds.iter().chain(&built_in)));
    match (name.find_in(&kinds), failed_group) {
        (Some(kind), _) if kind.can_be_watched => Ok(kind.clone()),
        (Some(_), _) => Err(KindError::NotWatchable { url, name: name.clone() }),
        (None, Some((group, error))) => {
            Err(KindError::GroupNotListed { url, name: name.clone(), group, why: describe(&error) })
        }
        (None, None) => Err(KindError::Unknown { url, name: name.clone(), similar }),
    }
}

/// Asks the server for its kinds, with retries, until it answers, the time limit ends, or an error occurs that retrying cannot fix.
async fn discover(client: &Client, url: &str, name: &KindName, limit: Option<Duration>) -> Result<Discovered, String> {
    let (started, within) = (Instant::now(), limit.unwrap_or(DISCOVERY_TIMEOUT));
    let mut last = None;
    let mut is_printed = false;
    let attempts = async {
        loop {
            let error = match discovery::kinds(client, name).await {
                Ok(discovered) => return Ok(discovered),
                Err(error) if limit.is_none() && !is_transient(&error) => return Err(describe(&error)),
                Err(error) => error,
            };
            let why = describe(&error);
            if !is_printed && started.elapsed() >= REPORT_AFTER {
                is_printed = true;
                print_message(&format!("the server at {url} has not listed its kinds yet: {why}; retrying"));
            }
            last = Some(why);
            sleep(retry_delay(&error)).await;
        }
    };
    let outcome = timeout(within, attempts).await;
    outcome.unwrap_or_else(|_| {
        Err(match last {
            Some(why) => format!("the list did not arrive within {within:?}; the last attempt failed: {why}"),
            None => format!("the list did not arrive within {within:?}"),
        })
    })
}

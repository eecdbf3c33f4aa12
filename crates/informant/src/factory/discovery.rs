//! Finding out what a server calls a kind.

use kube::Client;
use kube::core::ApiResource;
use kube::discovery;
use kube::discovery::ApiCapabilities;
use kube::error::DiscoveryError as KubeDiscoveryError;

/// Why a kind was not found.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// The server has no such kind.
    #[error("the server has no kind {kind:?} in group {group:?}; is it installed, and written in this way?")]
    UnknownKind {
        /// The group, empty for that of pods and nodes.
        group: String,
        /// The kind.
        kind: String,
    },
    /// The server could not be asked.
    #[error("the server could not be asked for kind {kind:?} in group {group:?}")]
    Failed {
        /// The group.
        group: String,
        /// The kind.
        kind: String,
        /// What the client says.
        #[source]
        source: Box<kube::Error>,
    },
}

/// Asks the server for a kind, in the version that it prefers among those that have it.
pub(super) async fn find(
    client: &Client,
    group: &str,
    kind: &str,
) -> Result<(ApiResource, ApiCapabilities), DiscoveryError> {
    let unknown = || DiscoveryError::UnknownKind { group: group.to_owned(), kind: kind.to_owned() };
    let found = match discovery::group(client, group).await {
        Ok(found) => found,
        Err(kube::Error::Discovery(KubeDiscoveryError::MissingApiGroup(_))) => return Err(unknown()),
        Err(error) => {
            let (group, kind) = (group.to_owned(), kind.to_owned());
            return Err(DiscoveryError::Failed { group, kind, source: Box::new(error) });
        }
    };
    let in_another_version = || found.resources_by_stability().into_iter().find(|(resource, _)| resource.kind == kind);
    found.recommended_kind(kind).or_else(in_another_version).ok_or_else(unknown)
}

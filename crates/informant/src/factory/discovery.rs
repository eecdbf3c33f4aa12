//! Finds the resource of a kind by discovery: its version, plural name and scope.

use kube::{
    Client, core::ApiResource, discovery, discovery::ApiCapabilities, error::DiscoveryError as KubeDiscoveryError,
};

/// Why discovery did not find a kind.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// The server has no such kind.
    #[error(
        "the server has no kind {kind:?} in group {group:?}; check that it is installed, and its spelling (such as \"Pod\", not \"pods\")"
    )]
    UnknownKind {
        /// The API group; empty for the core group, as of pods and nodes.
        group: String,
        /// The kind.
        kind: String,
    },
    /// A discovery request failed.
    #[error("discovery of kind {kind:?} in group {group:?} failed")]
    Failed {
        /// The API group.
        group: String,
        /// The kind.
        kind: String,
        /// The client's error.
        #[source]
        source: Box<kube::Error>,
    },
}

/// Looks up a kind. If several versions of the API have the kind, uses the version that the server prefers.
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

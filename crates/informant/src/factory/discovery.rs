//! Finds the resource of a kind by discovery: its version, plural name and scope.

use kube::{Client, core::ApiResource, discovery, discovery::ApiCapabilities, error::DiscoveryError};

use crate::error::RequestError;

/// Looks up a kind. If several versions of the API have the kind, uses the version that the server prefers.
pub(super) async fn find(
    client: &Client,
    group: &str,
    kind: &str,
) -> Result<(ApiResource, ApiCapabilities), RequestError> {
    let unknown = || RequestError::UnknownKind { group: group.to_owned(), kind: kind.to_owned() };
    let found = match discovery::group(client, group).await {
        Ok(found) => found,
        Err(kube::Error::Discovery(DiscoveryError::MissingApiGroup(_))) => return Err(unknown()),
        Err(error) => {
            let (group, kind) = (group.to_owned(), kind.to_owned());
            return Err(RequestError::Discovery { group, kind, source: Box::new(error) });
        }
    };
    let in_another_version = || found.resources_by_stability().into_iter().find(|(resource, _)| resource.kind == kind);
    found.recommended_kind(kind).or_else(in_another_version).ok_or_else(unknown)
}

//! Discovery: the kinds that the server serves. Takes two requests if the server supports aggregated discovery; otherwise one
//! request per API group and version.

use futures_util::{StreamExt, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIResource, APIResourceList};
use kube::{
    Client,
    core::{
        ApiResource,
        discovery::v2::{APIGroupDiscoveryList, APIResourceDiscovery},
    },
    discovery::Scope,
};

use super::{Kind, KindName, is_transient};

/// The number of concurrent requests for API groups.
const CONCURRENT_REQUESTS: usize = 8;

/// The kinds that the server lists.
pub(super) struct Discovered {
    /// The version that the server prefers comes first in each group.
    pub(super) kinds: Vec<Kind>,
    /// The first group that could not be listed, and why: its own server may be down, while the others answer.
    pub(super) failed_group: Option<(String, kube::Error)>,
}

/// Returns the kinds of every API group that the name may refer to.
pub(super) async fn kinds(client: &Client, name: &KindName) -> Result<Discovered, kube::Error> {
    // Servers before 1.26 answer with a document of another type, in which no kinds are found here.
    let aggregated = async {
        let core = client.list_core_api_versions_aggregated().await?;
        let others = client.list_api_groups_aggregated().await?;
        Ok::<_, kube::Error>([kinds_of_document(&core), kinds_of_document(&others)].concat())
    };
    match aggregated.await {
        Ok(kinds) if !kinds.is_empty() => Ok(Discovered { kinds, failed_group: None }),
        // An overloaded server must not get more requests.
        Err(error) if is_transient(&error) => Err(error),
        Ok(_) | Err(_) => discover_each_group(client, name).await,
    }
}

fn kinds_of_document(document: &APIGroupDiscoveryList) -> Vec<Kind> {
    let mut kinds = Vec::new();
    for group in &document.items {
        let name = group.metadata.as_ref().and_then(|metadata| metadata.name.clone()).unwrap_or_default();
        for version in &group.versions {
            let version_name = version.version.clone().unwrap_or_default();
            kinds.extend(
                version.resources.iter().filter_map(|resource| kind_of_document(&name, &version_name, resource)),
            );
        }
    }
    kinds
}

fn kind_of_document(group: &str, version: &str, served: &APIResourceDiscovery) -> Option<Kind> {
    let plural = served.resource.clone()?;
    let kind = served.response_kind.as_ref()?.kind.clone()?;
    let singular = served.singular_resource.clone().filter(|name| !name.is_empty());
    Some(Kind {
        singular: singular.unwrap_or_else(|| kind.to_lowercase()),
        resource: resource(group, version, kind, plural),
        scope: if served.scope.as_deref() == Some("Namespaced") { Scope::Namespaced } else { Scope::Cluster },
        short_names: served.short_names.clone(),
        can_be_watched: can_be_watched(&served.verbs),
        is_built_in: false,
    })
}

async fn discover_each_group(client: &Client, name: &KindName) -> Result<Discovered, kube::Error> {
    let groups = client.list_api_groups().await?.groups;
    let wanted = groups.iter().filter(|group| name.may_be_of_group(&group.name));
    let preferred_first = wanted.flat_map(|group| {
        let preferred = group.preferred_version.as_ref().map(|version| &version.group_version);
        let others = group.versions.iter().map(|version| &version.group_version);
        preferred.into_iter().chain(others.filter(move |version| Some(*version) != preferred))
    });
    let versions: Vec<_> = preferred_first.cloned().collect();
    let requests = stream::iter(versions).map(|version| async move {
        let answer = client.list_api_group_resources(&version).await;
        (version, answer)
    });
    let answers: Vec<_> = requests.buffered(CONCURRENT_REQUESTS).collect().await;
    let mut discovered = Discovered { kinds: Vec::new(), failed_group: None };
    if name.may_be_of_group("") {
        discovered.kinds.extend(kinds_of_list(&client.list_core_api_resources("v1").await?));
    }
    for (version, answer) in answers {
        match answer {
            Ok(list) => discovered.kinds.extend(kinds_of_list(&list)),
            Err(kube::Error::Api(status)) if status.code == 429 => return Err(kube::Error::Api(status)),
            Err(error) => discovered.failed_group = discovered.failed_group.or(Some((version, error))),
        }
    }
    Ok(discovered)
}

fn kinds_of_list(list: &APIResourceList) -> Vec<Kind> {
    let (group, version) = list.group_version.rsplit_once('/').unwrap_or(("", &list.group_version));
    let without_subresources = list.resources.iter().filter(|resource| !resource.name.contains('/'));
    without_subresources.map(|served| kind_of_list(group, version, served)).collect()
}

fn kind_of_list(group: &str, version: &str, served: &APIResource) -> Kind {
    let singular = Some(served.singular_name.clone()).filter(|name| !name.is_empty());
    Kind {
        singular: singular.unwrap_or_else(|| served.kind.to_lowercase()),
        resource: resource(group, version, served.kind.clone(), served.name.clone()),
        scope: if served.namespaced { Scope::Namespaced } else { Scope::Cluster },
        short_names: served.short_names.clone().unwrap_or_default(),
        can_be_watched: can_be_watched(&served.verbs),
        is_built_in: false,
    }
}

fn can_be_watched(verbs: &[String]) -> bool {
    ["list", "watch"].iter().all(|needed| verbs.iter().any(|verb| verb == needed))
}

fn resource(group: &str, version: &str, kind: String, plural: String) -> ApiResource {
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    ApiResource { group: group.to_owned(), version: version.to_owned(), api_version, kind, plural }
}

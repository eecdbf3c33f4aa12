//! What the server says it has: in two requests if it can put it all in one document for each, else group by group.

use futures_util::StreamExt;
use futures_util::stream;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::Client;
use kube::core::ApiResource;
use kube::core::discovery::v2::APIGroupDiscoveryList;
use kube::core::discovery::v2::APIResourceDiscovery;
use kube::discovery::Scope;

use super::Kind;
use super::KindName;
use super::is_transient;

/// How many groups are asked for at once.
const AT_ONCE: usize = 8;

/// The kinds that the server lists.
pub(super) struct Discovered {
    /// In the versions that the server prefers first.
    pub(super) kinds: Vec<Kind>,
    /// The first group that could not be listed, and why: its own server may be down, while the others answer.
    pub(super) failed_group: Option<(String, kube::Error)>,
}

/// The kinds of the groups that the name may be of.
pub(super) async fn kinds(client: &Client, name: &KindName) -> Result<Discovered, kube::Error> {
    // Servers before 1.26 answer with another document, in which there is nothing that is looked for here.
    let together = async {
        let core = client.list_core_api_versions_aggregated().await?;
        let others = client.list_api_groups_aggregated().await?;
        Ok::<_, kube::Error>([in_document(&core), in_document(&others)].concat())
    };
    match together.await {
        Ok(kinds) if !kinds.is_empty() => Ok(Discovered { kinds, failed_group: None }),
        // More requests do not help a server that is overloaded.
        Err(error) if is_transient(&error) => Err(error),
        Ok(_) | Err(_) => one_by_one(client, name).await,
    }
}

fn in_document(document: &APIGroupDiscoveryList) -> Vec<Kind> {
    let mut kinds = Vec::new();
    for group in &document.items {
        let name = group.metadata.as_ref().and_then(|metadata| metadata.name.clone()).unwrap_or_default();
        for version in &group.versions {
            let version_name = version.version.clone().unwrap_or_default();
            kinds.extend(version.resources.iter().filter_map(|resource| from_document(&name, &version_name, resource)));
        }
    }
    kinds
}

fn from_document(group: &str, version: &str, served: &APIResourceDiscovery) -> Option<Kind> {
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

async fn one_by_one(client: &Client, name: &KindName) -> Result<Discovered, kube::Error> {
    let groups = client.list_api_groups().await?.groups;
    let wanted = groups.iter().filter(|group| name.may_be_of_group(&group.name));
    let preferred_first = wanted.flat_map(|group| {
        let preferred = group.preferred_version.as_ref().map(|version| &version.group_version);
        let others = group.versions.iter().map(|version| &version.group_version);
        preferred.into_iter().chain(others.filter(move |version| Some(*version) != preferred))
    });
    let versions: Vec<_> = preferred_first.cloned().collect();
    let asked = stream::iter(versions).map(|version| async move {
        let answer = client.list_api_group_resources(&version).await;
        (version, answer)
    });
    let answers: Vec<_> = asked.buffered(AT_ONCE).collect().await;
    let mut discovered = Discovered { kinds: Vec::new(), failed_group: None };
    if name.may_be_of_group("") {
        discovered.kinds.extend(in_list(&client.list_core_api_resources("v1").await?));
    }
    for (version, answer) in answers {
        match answer {
            Ok(list) => discovered.kinds.extend(in_list(&list)),
            Err(kube::Error::Api(status)) if status.code == 429 => return Err(kube::Error::Api(status)),
            Err(error) => discovered.failed_group = discovered.failed_group.or(Some((version, error))),
        }
    }
    Ok(discovered)
}

fn in_list(list: &APIResourceList) -> Vec<Kind> {
    let (group, version) = list.group_version.rsplit_once('/').unwrap_or(("", &list.group_version));
    let whole = list.resources.iter().filter(|resource| !resource.name.contains('/'));
    whole.map(|served| from_list(group, version, served)).collect()
}

fn from_list(group: &str, version: &str, served: &APIResource) -> Kind {
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

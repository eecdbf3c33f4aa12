//! Object types that know their kind: eager, lazy, metadata, and projections of both sorts.

use informant::{Lazy, OfKind, SharedInformerFactory, projection};
use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Resource, core::PartialObjectMeta};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::support::servers::{Leaks, Logs, factory, server, stop_factory};

/// A projection by kube's derive, with metadata.
#[derive(Resource, Serialize, Deserialize, Clone, Debug)]
#[resource(inherit = ConfigMap)]
struct Inherited {
    metadata: ObjectMeta,
    data: Option<BTreeMap<String, String>>,
}

/// A projection without metadata.
#[derive(Deserialize)]
struct Slim {
    data: Option<BTreeMap<String, String>>,
}

projection!(Slim of ConfigMap);

/// Reads a config map's data from an object type.
trait Text: OfKind {
    fn text(&self) -> Option<String>;
}

fn text(data: Option<&BTreeMap<String, String>>) -> Option<String> {
    data?.get("text").cloned()
}

impl Text for ConfigMap {
    fn text(&self) -> Option<String> {
        text(self.data.as_ref())
    }
}

impl Text for Inherited {
    fn text(&self) -> Option<String> {
        text(self.data.as_ref())
    }
}

impl Text for Slim {
    fn text(&self) -> Option<String> {
        text(self.data.as_ref())
    }
}

impl Text for PartialObjectMeta<ConfigMap> {
    fn text(&self) -> Option<String> {
        None
    }
}

impl<O: Text + serde::de::DeserializeOwned> Text for Lazy<O> {
    fn text(&self) -> Option<String> {
        self.get().unwrap().text()
    }
}

async fn text_in<O: Text>(factory: &SharedInformerFactory) -> Option<String> {
    let informer = factory.informer::<O>();
    factory.start();
    informer.synced().await.unwrap();
    informer.lister().require(&"shop/a".parse().unwrap()).unwrap().text()
}

/// Decision 1
#[tokio::test(start_paused = true)]
async fn every_object_type_of_a_kind_is_requested_in_the_same_way() {
    let _logs = Logs::capture();
    let server = server(&["shop/a"]);
    let factory = factory(&server);
    let leaks = Leaks::watch();
    let expected = Some("shop/a".to_owned());

    assert_eq!(text_in::<ConfigMap>(&factory).await, expected);
    assert_eq!(text_in::<Lazy<ConfigMap>>(&factory).await, expected);
    assert_eq!(text_in::<Inherited>(&factory).await, expected);
    assert_eq!(text_in::<Lazy<Inherited>>(&factory).await, expected);
    assert_eq!(text_in::<Slim>(&factory).await, expected);
    assert_eq!(text_in::<Lazy<Slim>>(&factory).await, expected);
    assert_eq!(text_in::<PartialObjectMeta<ConfigMap>>(&factory).await, None);
    let lists = server.requests_for("configmaps").into_iter().filter(|request| request.starts_with("WL")).count();
    assert_eq!(lists, 7, "each object type has an informer of its own");
    stop_factory(&factory, &leaks).await;
}

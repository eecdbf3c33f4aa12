//! The server of a scenario, and the namespaces that belong to the scenario alone.

use std::{collections::BTreeMap, time::Duration};

use informant::{Identity, Key, SharedInformerFactory};
use informant_apiserver::{ApiServer, Listening};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;

use super::pod_types::{PodType, Seen};

/// A time limit that only a hang exceeds.
pub(super) const LONG: Duration = Duration::from_secs(60);

/// A server, and a client of it.
pub(super) struct Cluster {
    pub(super) client: Client,
    /// The embedded server, if the scenario uses it; it stops when it is dropped.
    _listening: Option<Listening>,
}

impl Cluster {
    pub(super) async fn start() -> Self {
        let (url, listening) = match std::env::var("INFORMANT_CONFORMANCE_URL") {
            Ok(url) => (url, None),
            Err(_) => {
                let listening = ApiServer::new().listen(([127, 0, 0, 1], 0)).await.unwrap();
                (listening.url(), Some(listening))
            }
        };
        let mut config = Config::new(url.parse().unwrap());
        // A server for tests has a self-signed certificate.
        config.accept_invalid_certs = true;
        config.auth_info.token = std::env::var("INFORMANT_CONFORMANCE_TOKEN").ok().map(Into::into);
        Self { client: Client::try_from(config).unwrap(), _listening: listening }
    }

    pub(super) fn factory(&self) -> SharedInformerFactory {
        SharedInformerFactory::new(self.client.clone())
    }

    /// A new namespace that only this scenario uses.
    pub(super) async fn namespace(&self, name: &str) -> Pods {
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"generateName": format!("scenario-{name}-")}})).unwrap();
        let created = Api::all(self.client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
        let namespace = created.name_any();
        Pods { api: Api::namespaced(self.client.clone(), &namespace), namespace }
    }
}

/// The pods of a namespace, as a client writes them.
pub(super) struct Pods {
    api: Api<Pod>,
    pub(super) namespace: String,
}

impl Pods {
    pub(super) fn key(&self, name: &str) -> Key {
        Key::namespaced(&self.namespace, name)
    }

    pub(super) async fn create(&self, name: &str, node: &str, app: &str) -> Identity {
        let containers = json!([{"name": "main", "image": "web:1"}]);
        let pod = json!({
            "metadata": {"name": name, "labels": {"app": app}},
            "spec": {"nodeName": node, "containers": containers},
        });
        let created = self.api.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        Identity::of(&created).unwrap()
    }

    pub(super) async fn label(&self, name: &str, app: &str) -> Identity {
        let mut pod = self.api.get(name).await.unwrap();
        pod.labels_mut().insert("app".into(), app.into());
        Identity::of(&self.api.replace(name, &PostParams::default(), &pod).await.unwrap()).unwrap()
    }

    pub(super) async fn delete(&self, name: &str) {
        self.api.delete(name, &DeleteParams::default().grace_period(0)).await.unwrap();
    }

    /// The pods on the server: the version of each, and the fields that scenarios read.
    pub(super) async fn on_server(&self) -> BTreeMap<Key, (String, Seen)> {
        let pods = self.api.list(&ListParams::default()).await.unwrap();
        let shown = |pod: Pod| (self.key(&pod.name_any()), (pod.resource_version().unwrap(), pod.seen()));
        pods.into_iter().map(shown).collect()
    }
}

//! An embedded server with a few objects, and a factory for it.

use std::{sync::Arc, time::Duration};

use informant::{SharedInformer, SharedInformerFactory, View};
use informant_apiserver::{ApiServer, Kind};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

pub(crate) use super::{
    Logs,
    informers::{LONG, Leaks, Probe, cached, wait_until, within_limit},
    reflector::{backoff_without_jitter, wait_until_idle},
};
pub(crate) use crate::reflector::kube_source::client;

/// A config map with this key.
pub(crate) fn config(key: &str) -> Value {
    let (namespace, name) = key.split_once('/').unwrap();
    json!({"metadata": {"namespace": namespace, "name": name, "labels": {"name": name}}, "data": {"text": key}})
}

/// A server with these config maps and a node.
pub(crate) fn server(configs: &[&str]) -> ApiServer {
    let server = ApiServer::new();
    configs.iter().for_each(|key| drop(server.put("configmaps", config(key)).unwrap()));
    server.put("nodes", json!({"metadata": {"name": "n1"}})).unwrap();
    server
}

pub(crate) fn factory(server: &ApiServer) -> SharedInformerFactory {
    SharedInformerFactory::new(client(server))
}

pub(crate) fn widgets() -> Kind {
    Kind::new("example.com", "v1", "Widget", "widgets")
}

pub(crate) fn widget_resource() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("example.com", "v1", "Widget"), "widgets")
}

pub(crate) fn widget(name: &str) -> Value {
    json!({"metadata": {"namespace": "shop", "name": name}, "spec": {"size": 3}})
}

/// Returns true if both handles belong to the same informer.
pub(crate) fn is_same<O: Send + Sync + 'static>(one: &SharedInformer<O>, other: &SharedInformer<O>) -> bool {
    Arc::ptr_eq(one.name(), other.name())
}

/// The keys of all objects of a cache, sorted.
pub(crate) fn keys<O: Send + Sync + 'static>(informer: &SharedInformer<O>) -> Vec<String> {
    let mut keys: Vec<_> = informer.lister().keys().iter().map(ToString::to_string).collect();
    keys.sort();
    keys
}

/// Stops all informers, and checks that no task is left.
pub(crate) async fn stop_factory(factory: &SharedInformerFactory, leaks: &Leaks) {
    factory.stop().await.unwrap();
    leaks.check();
}

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// A synced view of two of the three namespaces of [`three_namespaces`].
pub(crate) async fn two_namespaces(server: &ApiServer) -> (SharedInformerFactory, View<ConfigMap>, Leaks) {
    let factory = factory(server);
    let leaks = Leaks::watch();
    let view = factory.request::<ConfigMap>().in_namespaces(["shop", "bank"]).view().unwrap();
    factory.start();
    view.synced().await.unwrap();
    (factory, view, leaks)
}

pub(crate) fn three_namespaces() -> ApiServer {
    server(&["shop/a", "shop/b", "bank/a", "home/a"])
}

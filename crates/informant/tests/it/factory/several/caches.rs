//! The informers of a run, and what their caches should have.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use informant::{Lazy, Object, SharedInformer, SharedInformerFactory};
use informant_apiserver::ApiServer;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::{Client, ResourceExt, core::DynamicObject};
use serde_json::Value;

use crate::support::servers::widget_resource;

/// Versions and texts by key.
type Contents = BTreeMap<String, String>;

/// The cache of an informer, and which objects of the server it should have.
pub(super) struct Cache {
    name: Arc<str>,
    pub(super) kind: &'static str,
    is_selected: fn(&Value) -> bool,
    contents: Box<dyn Fn() -> Contents>,
}

impl Cache {
    fn of<O: Object>(
        informer: &SharedInformer<O>,
        kind: &'static str,
        is_selected: fn(&Value) -> bool,
        text: fn(&O) -> String,
    ) -> Self {
        let (name, lister) = (Arc::clone(informer.name()), informer.lister());
        let contents = move || {
            let objects = lister.list();
            objects
                .iter()
                .map(|object| (object.key().to_string(), shown(object.version().as_str(), &text(object))))
                .collect()
        };
        Self { name, kind, is_selected, contents: Box::new(contents) }
    }

    pub(super) fn is_wrong(&self, server: &ApiServer) -> bool {
        (self.contents)() != self.expected(server)
    }

    pub(super) fn describe(&self, server: &ApiServer) -> String {
        format!("{} has {:?} in place of {:?}", self.name, (self.contents)(), self.expected(server))
    }

    /// What the cache should have.
    fn expected(&self, server: &ApiServer) -> Contents {
        let mut objects = server.list(self.kind).unwrap();
        objects.retain(self.is_selected);
        let part = |value: &Value| value.as_str().unwrap().to_owned();
        let shown =
            |metadata: &Value| shown(&part(&metadata["resourceVersion"]), &part(&metadata["annotations"]["text"]));
        let key = |metadata: &Value| format!("{}/{}", part(&metadata["namespace"]), part(&metadata["name"]));
        objects.iter().map(|object| &object["metadata"]).map(|metadata| (key(metadata), shown(metadata))).collect()
    }
}

fn shown(version: &str, text: &str) -> String {
    format!("@{version} {text}")
}

fn text(object: &impl ResourceExt) -> String {
    object.annotations()["text"].clone()
}

/// A factory with random settings.
pub(super) fn random_factory(client: Client, random: &mut fastrand::Rng) -> SharedInformerFactory {
    let mut builder = SharedInformerFactory::builder(client).on_error(|_| {});
    if random.bool() {
        builder = builder.without_streaming();
    }
    if random.u32(0..3) == 0 {
        builder = builder.audit_every(Duration::from_secs(random.u64(300..2000)));
    }
    builder.build()
}

/// The caches of one to three informers of config maps, and of at most one of each other kind.
pub(super) fn random_caches(factory: &SharedInformerFactory, random: &mut fastrand::Rng) -> Vec<Cache> {
    let labelled = factory.request::<Lazy<ConfigMap>>().with_labels("tier=x").informer().unwrap();
    let has_label = |object: &Value| object["metadata"]["labels"]["tier"] == "x";
    let mut caches = vec![Cache::of(&labelled, "configmaps", has_label, |object| text(&*object.get().unwrap()))];
    if random.bool() {
        caches.push(Cache::of(&factory.informer::<ConfigMap>(), "configmaps", |_| true, text));
    }
    if random.bool() {
        let shop = factory.request::<ConfigMap>().in_namespace("shop").informer().unwrap();
        caches.push(Cache::of(&shop, "configmaps", |object| object["metadata"]["namespace"] == "shop", text));
    }
    if random.bool() {
        caches.push(Cache::of(&factory.informer::<Secret>(), "secrets", |_| true, text));
    }
    if random.bool() {
        caches.push(Cache::of(&factory.informer::<Service>(), "services", |_| true, text));
    }
    if random.bool() {
        let widgets = factory.request_dynamic::<DynamicObject>(&widget_resource()).informer().unwrap();
        caches.push(Cache::of(&widgets, "widgets.example.com", |_| true, text));
    }
    caches
}

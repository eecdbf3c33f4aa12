//! Maps that are derived from the objects of informers.

mod bad_input;
mod changes;
mod entries;
mod joins;

use informant::{
    Cached, SharedInformer,
    derived::{Change, ChangeStream, Derive, DerivedMap},
    testing::{ScriptedSource, SourceHandle},
};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

type Map = DerivedMap<String, String>;

/// A ConfigMap with the keys, separated by blanks, that it has in the map, and its value.
fn config(name: &str, keys: &str, value: &str) -> Value {
    json!({"metadata": {"namespace": "shop", "name": name}, "data": {"keys": keys, "value": value}})
}

fn field(object: &ConfigMap, name: &str) -> String {
    object.data.as_ref().and_then(|data| data.get(name).cloned()).unwrap_or_default()
}

fn pairs(object: &Cached<ConfigMap>) -> Vec<(String, String)> {
    let value = field(object, "value");
    field(object, "keys").split_whitespace().map(|key| (key.to_owned(), value.clone())).collect()
}

/// An informer of these objects, not started.
fn informer<const N: usize>(objects: [Value; N]) -> (SharedInformer<ConfigMap>, SourceHandle<ConfigMap>) {
    let (source, handle) = ScriptedSource::live();
    for object in objects {
        handle.added(object);
    }
    (SharedInformer::new(source), handle)
}

/// A running informer of these objects, and a synced map of their [`pairs`].
async fn map_of<const N: usize>(objects: [Value; N]) -> (Map, SharedInformer<ConfigMap>, SourceHandle<ConfigMap>) {
    map_with(objects, |derive| derive).await
}

async fn map_with<const N: usize>(
    objects: [Value; N],
    settings: impl FnOnce(Derive<String, String>) -> Derive<String, String>,
) -> (Map, SharedInformer<ConfigMap>, SourceHandle<ConfigMap>) {
    let (informer, handle) = informer(objects);
    let map = settings(informer.derive(pairs).named("texts")).register().unwrap();
    informer.start();
    map.synced().await.unwrap();
    (map, informer, handle)
}

/// All entries, sorted: `a=1 b=2`.
fn shown(map: &Map) -> String {
    let entries = map.snapshot();
    let mut entries: Vec<_> = entries.iter().map(|(key, value)| format!("{key}={value}")).collect();
    entries.sort();
    entries.join(" ")
}

/// A change as a line: `+a=1`, `~a=1→2`, `-a=2`.
fn line(change: Change<String, String>) -> String {
    match change {
        Change::Added { key, value } => format!("+{key}={value}"),
        Change::Changed { key, old, new } => format!("~{key}={old}→{new}"),
        Change::Removed { key, value } => format!("-{key}={value}"),
    }
}

async fn next_line(changes: &mut ChangeStream<String, String>) -> String {
    changes.next().await.map_or_else(|| "end".into(), line)
}

/// Whether the stream has nothing to read now.
async fn is_idle(changes: &mut ChangeStream<String, String>) -> bool {
    tokio::select! {
        biased;
        change = changes.next() => panic!("{change:?}"),
        () = tokio::time::sleep(std::time::Duration::from_secs(1)) => true,
    }
}

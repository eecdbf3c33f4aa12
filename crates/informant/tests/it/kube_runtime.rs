//! kube-runtime's controllers, driven by informers.

use std::{convert::Infallible, pin::pin, sync::Arc};

use futures_util::{FutureExt, StreamExt, TryStreamExt};
use informant::{Cached, Key, Lazy, SharedInformer, SharedInformerFactory, kube_runtime::Shared, pipeline::Scanner};
use informant_apiserver::{ApiServer, Fault, On};
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference, Pod};
use kube::{
    Resource, ResourceExt,
    core::{ApiResource, DynamicObject, PartialObjectMeta, PartialObjectMetaExt},
    runtime::{
        Controller, WatchStreamExt, controller,
        controller::{Action, trigger_owners, trigger_self},
        reflector,
        reflector::{ObjectRef, Store, store::Writer},
        watcher,
    },
};
use serde_json::json;
use tokio::{sync::mpsc, task::JoinHandle};

use crate::support::{
    reflector::full_lists,
    servers::{
        Leaks, config, factory, server, three_namespaces, two_namespaces, wait_until_idle, widget, widget_resource,
        widgets, within_limit,
    },
};

/// A running controller, with a line for each call of its reconciler and for each error.
struct Running {
    lines: mpsc::UnboundedReceiver<String>,
    task: JoinHandle<()>,
}

impl Running {
    /// Runs a controller whose reconciler records the key and the text of a config map.
    fn new(controller: Controller<Shared<ConfigMap>>) -> Self {
        let (sender, lines) = mpsc::unbounded_channel();
        let sender = Arc::new(sender);
        let errors = Arc::clone(&sender);
        let reconcile = |config: Arc<Shared<ConfigMap>>, lines: Arc<mpsc::UnboundedSender<String>>| async move {
            let text = config.data.as_ref().and_then(|data| data.get("text")).cloned().unwrap_or_default();
            lines.send(format!("{}: {text}", Key::of(&*config).unwrap())).unwrap();
            Ok::<_, Infallible>(Action::await_change())
        };
        let results = controller.run(reconcile, |_, error, _| match *error {}, sender);
        let task = tokio::spawn(results.for_each(move |result| {
            if let Err(error) = result {
                errors.send(error.to_string()).unwrap();
            }
            std::future::ready(())
        }));
        Self { lines, task }
    }

    async fn next(&mut self) -> String {
        within_limit(self.lines.recv()).await.expect("the controller runs")
    }

    /// Waits for this many lines and sorts them: controllers do not promise an order.
    async fn sorted(&mut self, count: usize) -> Vec<String> {
        let mut lines = Vec::new();
        while lines.len() < count {
            lines.push(self.next().await);
        }
        lines.sort();
        lines
    }

    /// All lines so far.
    async fn settled(&mut self) -> Vec<String> {
        wait_until_idle().await;
        std::iter::from_fn(|| self.lines.try_recv().ok()).collect()
    }

    /// Waits until the controller has ended, and returns the lines that are left.
    async fn ended(mut self) -> Vec<String> {
        self.task.await.unwrap();
        std::iter::from_fn(|| self.lines.try_recv().ok()).collect()
    }
}

fn changed(key: &str, text: &str) -> serde_json::Value {
    let mut config = config(key);
    config["data"]["text"] = text.into();
    config
}

/// A controller of the config maps of an informer.
fn controller(configs: &SharedInformer<ConfigMap>) -> (Store<Shared<ConfigMap>>, Controller<Shared<ConfigMap>>) {
    let (store, stream) = configs.subscribe().watcher().unwrap().for_controller();
    (store.clone(), Controller::for_stream(stream, store))
}

fn keys<K: Resource + Clone + 'static>(store: &Store<K>) -> Vec<String>
where
    K::DynamicType: Eq + std::hash::Hash + Clone,
{
    let mut keys: Vec<_> = store.state().iter().map(|object| Key::of(&**object).unwrap().to_string()).collect();
    keys.sort();
    keys
}

/// Objects are deleted while the server refuses all requests, and the server forgets its history: a relist follows.
fn delete_during_an_outage(server: &ApiServer, key: &str) {
    let outage = server.inject(On::any(), Fault::Refuse);
    server.cut_all_watches();
    server.delete("configmaps", key).unwrap();
    server.compact();
    server.remove_fault(outage);
}

#[tokio::test(start_paused = true)]
async fn two_controllers_of_kube_runtime_share_one_list_and_one_watch() {
    let server = server(&["shop/a", "shop/b"]);
    let factory = factory(&server);
    let leaks = Leaks::watch();
    let configs = factory.informer::<ConfigMap>();
    let controllers = [controller(&configs).1, controller(&configs).1];

    let [mut one, mut other] = controllers.map(Running::new);
    factory.start();
    for running in [&mut one, &mut other] {
        assert_eq!(running.sorted(2).await, ["shop/a: shop/a", "shop/b: shop/b"]);
    }
    server.put("configmaps", changed("shop/a", "new")).unwrap();
    for running in [&mut one, &mut other] {
        assert_eq!(running.next().await, "shop/a: new");
    }

    assert_eq!(server.requests_for("configmaps"), [r#"WL("")"#], "one streamed list, which is the watch as well");
    factory.stop().await.unwrap();
    assert!(one.ended().await.is_empty());
    assert!(other.ended().await.is_empty());
    leaks.check();
}

#[tokio::test(start_paused = true)]
async fn a_deleted_object_leaves_the_store_and_is_not_reconciled() {
    let server = server(&["shop/a", "shop/b"]);
    let factory = factory(&server);
    let configs = factory.informer::<ConfigMap>();
    let (store, controller) = controller(&configs);
    let mut running = Running::new(controller);
    factory.start();
    running.sorted(2).await;

    server.delete("configmaps", "shop/a").unwrap();
    assert!(running.settled().await.is_empty());
    assert_eq!(keys(&store), ["shop/b"]);

    server.put("configmaps", config("shop/a")).unwrap();
    assert_eq!(running.next().await, "shop/a: shop/a");
    assert_eq!(keys(&store), ["shop/a", "shop/b"]);
    factory.stop().await.unwrap();
    running.ended().await;
}

/// Owners of config maps: pods. The second one owns nothing.
fn server_with_owners() -> ApiServer {
    let server = server(&[]);
    for name in ["owner", "idle"] {
        let containers = json!([{"name": "main", "image": "web:1"}]);
        server
            .put("pods", json!({"metadata": {"namespace": "shop", "name": name}, "spec": {"containers": containers}}))
            .unwrap();
    }
    let uid = server.get("pods", "shop/owner").unwrap()["metadata"]["uid"].clone();
    let mut owned = config("shop/owned");
    owned["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Pod", "name": "owner", "uid": uid}]);
    server.put("configmaps", owned).unwrap();
    server
}

/// Runs a controller of pods, of which each reconciliation is a line.
fn run_pods(controller: Controller<Shared<Pod>>) -> Running {
    let (sender, lines) = mpsc::unbounded_channel();
    let reconcile = |pod: Arc<Shared<Pod>>, lines: Arc<mpsc::UnboundedSender<String>>| async move {
        lines.send(pod.name_any()).unwrap();
        Ok::<_, Infallible>(Action::await_change())
    };
    let results = controller.run(reconcile, |_, error, _| match *error {}, Arc::new(sender));
    Running { lines, task: tokio::spawn(results.for_each(|_| std::future::ready(()))) }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_child_triggers_its_owner_also_if_the_delete_was_missed() {
    let server = server_with_owners();
    let factory = factory(&server);
    let configs = factory.informer::<ConfigMap>();
    let (store, pods) = factory.informer::<Pod>().subscribe().watcher().unwrap().for_controller();
    let children = configs.subscribe().watcher().unwrap();
    let children = children.map_objects(|config| config.metadata.clone().into_response_partial::<ConfigMap>());
    let mut running = run_pods(Controller::for_stream(pods, store).owns_stream(children.touched_objects()));
    factory.start();
    running.settled().await;

    let mut owned = server.get("configmaps", "shop/owned").unwrap();
    server.delete("configmaps", "shop/owned").unwrap();
    assert_eq!(running.next().await, "owner");

    owned["metadata"]
        .as_object_mut()
        .unwrap()
        .retain(|name, _| ["namespace", "name", "ownerReferences"].contains(&&**name));
    server.put("configmaps", owned).unwrap();
    assert_eq!(running.next().await, "owner");
    delete_during_an_outage(&server, "shop/owned");
    assert_eq!(running.next().await, "owner");
    factory.stop().await.unwrap();
    running.ended().await;
}

#[tokio::test(start_paused = true)]
async fn a_missed_delete_leaves_the_store_and_unchanged_objects_of_the_relist_are_not_reconciled() {
    let server = server(&["shop/a", "shop/b"]);
    let factory = factory(&server);
    let configs = factory.informer::<ConfigMap>();
    let (store, controller) = controller(&configs);
    let mut events = configs.subscribe().watcher().unwrap();
    let mut running = Running::new(controller);
    factory.start();
    running.sorted(2).await;
    let initial: Vec<_> = events.by_ref().take(4).map(|event| event.unwrap().to_string()).collect().await;
    assert_eq!(initial, ["Init", "InitApply(a)", "InitApply(b)", "InitDone"]);

    let lists = full_lists(&server, "configmaps") + streamed_lists(&server);
    delete_during_an_outage(&server, "shop/a");
    assert_eq!(within_limit(events.next()).await.unwrap().unwrap().to_string(), "Delete(a)");
    assert!(running.settled().await.is_empty());

    assert!(full_lists(&server, "configmaps") + streamed_lists(&server) > lists, "the informer has listed again");
    assert_eq!(keys(&store), ["shop/b"]);
    factory.stop().await.unwrap();
    assert!(events.next().await.is_none());
    running.ended().await;
}

fn streamed_lists(server: &ApiServer) -> usize {
    server.requests_for("configmaps").iter().filter(|request| request.starts_with("WL")).count()
}

#[tokio::test(start_paused = true)]
async fn a_controller_reconciles_nothing_before_the_initial_list_is_complete() {
    let server = server(&["shop/a", "shop/b"]);
    let outage = server.inject(On::any().of("configmaps"), Fault::status(503));
    let factory = factory(&server);
    let configs = factory.informer::<ConfigMap>();
    let (store, controller) = controller(&configs);
    let mut running = Running::new(controller);
    factory.start();

    assert!(running.settled().await.is_empty());
    assert!(store.is_empty());
    server.remove_fault(outage);

    assert_eq!(running.sorted(2).await, ["shop/a: shop/a", "shop/b: shop/b"]);
    assert_eq!(keys(&store), ["shop/a", "shop/b"]);
    store.wait_until_ready().now_or_never().expect("the controller has waited for it").unwrap();
    factory.stop().await.unwrap();
    running.ended().await;
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_joins_a_synced_informer_receives_all_objects_of_the_cache() {
    let server = server(&["shop/a", "shop/b"]);
    let factory = factory(&server);
    let configs = factory.informer::<ConfigMap>();
    factory.start();
    factory.synced().await.unwrap();

    let (store, controller) = controller(&configs);
    let mut running = Running::new(controller);

    assert_eq!(running.sorted(2).await, ["shop/a: shop/a", "shop/b: shop/b"]);
    assert_eq!(keys(&store), ["shop/a", "shop/b"]);
    factory.stop().await.unwrap();
    running.ended().await;
}

#[tokio::test(start_paused = true)]
async fn a_store_is_never_ready_if_the_informer_stops_before_its_initial_list() {
    let server = server(&["shop/a"]);
    server.inject(On::any().of("configmaps"), Fault::status(503));
    let factory = factory(&server);
    let configs = factory.informer::<ConfigMap>();
    let (store, controller) = controller(&configs);
    let running = Running::new(controller);
    factory.start();
    wait_until_idle().await;

    factory.stop().await.unwrap();

    let error = "readiness gate failed to become ready: writer was dropped before store became ready";
    assert_eq!(running.ended().await, [format!("runner error: {error}")]);
    assert!(store.wait_until_ready().await.is_err());
    assert!(configs.subscribe().watcher().is_err());
}

#[tokio::test(start_paused = true)]
async fn resyncs_reconcile_unless_the_subscription_turns_them_off() {
    let server = server(&["shop/a"]);
    let period = std::time::Duration::from_secs(60);
    let factory = SharedInformerFactory::builder(crate::support::servers::client(&server)).resync_every(period).build();
    let configs = factory.informer::<ConfigMap>();
    let (_, controller) = controller(&configs);
    let (store, stream) =
        configs.subscribe().resync_every(std::time::Duration::ZERO).watcher().unwrap().for_controller();
    let mut with_resyncs = Running::new(controller);
    let mut without = Running::new(Controller::for_stream(stream, store));
    factory.start();
    assert_eq!(with_resyncs.next().await, "shop/a: shop/a");
    assert_eq!(without.next().await, "shop/a: shop/a");

    assert_eq!(with_resyncs.next().await, "shop/a: shop/a");
    assert_eq!(with_resyncs.next().await, "shop/a: shop/a");

    assert!(without.settled().await.is_empty());
    factory.stop().await.unwrap();
    with_resyncs.ended().await;
    without.ended().await;
}

#[tokio::test(start_paused = true)]
async fn a_view_of_namespaces_drives_one_controller() {
    let server = three_namespaces();
    let (factory, view, leaks) = two_namespaces(&server).await;
    let (store, stream) = view.subscribe().watcher().unwrap().for_controller();

    let mut running = Running::new(Controller::for_stream(stream, store));

    assert_eq!(running.sorted(3).await, ["bank/a: bank/a", "shop/a: shop/a", "shop/b: shop/b"]);
    factory.stop().await.unwrap();
    running.ended().await;
    leaks.check();
}

#[tokio::test(start_paused = true)]
async fn dynamic_objects_drive_a_controller() {
    let server = server(&[]);
    server.register(widgets());
    server.put("widgets.example.com", widget("w1")).unwrap();
    let factory = factory(&server);
    let watcher = factory.dynamic(&widget_resource()).subscribe().watcher().unwrap();
    let (store, stream) = watcher.for_controller_with(widget_resource());
    let (sender, mut sizes) = mpsc::unbounded_channel();
    let reconcile = move |widget: Arc<Shared<DynamicObject>>, _: Arc<()>| {
        sender.send(widget.data["spec"]["size"].clone()).unwrap();
        std::future::ready(Ok::<_, Infallible>(Action::await_change()))
    };

    let controller = Controller::for_stream_with(stream, store, widget_resource());
    let results = controller.run(reconcile, |_, error, _| match *error {}, Arc::new(()));
    let task = tokio::spawn(results.try_for_each(|_| std::future::ready(Ok(()))));
    factory.start();

    assert_eq!(sizes.recv().await, Some(json!(3)));
    factory.stop().await.unwrap();
    task.await.unwrap().unwrap();
}

/// Without kube's `unstable-runtime` features there is no `Controller::for_stream`, but `applier`, which it is made of.
#[tokio::test(start_paused = true)]
async fn the_stable_applier_is_driven_by_lazy_pods_and_their_children() {
    let server = server_with_owners();
    let factory = factory(&server);
    let pods = factory.informer::<Lazy<Pod>>();
    let configs = factory.informer::<ConfigMap>();
    let (store, writer) = reflector::store::<PartialObjectMeta<Pod>>();
    let metadata = pods.subscribe().watcher().unwrap().map_objects(|pod| pod.peek::<PartialObjectMeta<Pod>>().unwrap());
    let of_pods = trigger_self(metadata.reflect(writer).applied_objects(), ());
    let of_children = trigger_owners(configs.subscribe().watcher().unwrap().touched_objects(), (), ());
    let (sender, mut names) = mpsc::unbounded_channel();
    let reconcile = move |pod: Arc<PartialObjectMeta<Pod>>, pods: Arc<informant::Lister<Lazy<Pod>>>| {
        let cached = pods.require(&Key::of(&*pod).unwrap()).unwrap();
        sender.send(cached.get().unwrap().name_any()).unwrap();
        std::future::ready(Ok::<_, Infallible>(Action::await_change()))
    };

    let queue = futures_util::stream::select(of_pods, of_children);
    let results = controller::applier(
        reconcile,
        |_, error: &Infallible, _| match *error {},
        Arc::new(pods.lister()),
        store,
        queue,
        controller::Config::default(),
    );
    let task = tokio::spawn(results.for_each(|_| std::future::ready(())));
    factory.start();
    wait_until_idle().await;
    while names.try_recv().is_ok() {}
    server.delete("configmaps", "shop/owned").unwrap();

    assert_eq!(names.recv().await.as_deref(), Some("owner"));
    factory.stop().await.unwrap();
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_store_of_shared_objects_holds_the_objects_of_the_cache() {
    let server = server(&["shop/a"]);
    let factory = factory(&server);
    let configs = factory.informer::<ConfigMap>();
    let (store, stream) = configs.subscribe().watcher().unwrap().for_controller();
    factory.start();
    let mut stream = pin!(stream);
    assert_eq!(stream.next().await.unwrap().unwrap().name_any(), "a");
    assert!(stream.next().now_or_never().is_none());

    let stored = store.get(&ObjectRef::new("a").within("shop")).unwrap();
    let cached = configs.lister().require(&Key::namespaced("shop", "a")).unwrap();

    assert!(Cached::ptr_eq(stored.cached().unwrap(), &cached));
    factory.stop().await.unwrap();
}

/// As much as the documentation of `informant::kube_runtime` states.
#[test]
fn a_store_of_shared_pods_costs_a_few_hundred_bytes_an_object() {
    const PODS: usize = 1000;
    let json = include_str!("../../benches/pod.json");
    let pods: Vec<_> = (0..PODS)
        .map(|number| {
            let mut pod: serde_json::Value = serde_json::from_str(json).unwrap();
            pod["metadata"]["name"] = format!("pod-with-a-usual-name-{number:05}").into();
            Scanner::of_kind::<Pod>().scan(pod.to_string().as_bytes()).unwrap().decode::<Pod>().unwrap()
        })
        .collect();
    let fill = |writer: &mut Writer<Shared<Pod>>| {
        writer.apply_watcher_event(&watcher::Event::Init);
        for pod in &pods {
            writer.apply_watcher_event(&watcher::Event::InitApply(Shared::from(pod.clone())));
        }
        writer.apply_watcher_event(&watcher::Event::InitDone);
    };
    let mut writer = Writer::<Shared<Pod>>::default();

    let bytes = allocation_counter::measure(|| fill(&mut writer)).bytes_current / PODS as i64;

    assert_eq!(writer.as_reader().len(), PODS);
    assert!((200..500).contains(&bytes), "{bytes} bytes an object");
}

#[test]
fn keys_and_object_refs_convert_into_each_other() {
    for (key, object_ref) in [
        (Key::namespaced("shop", "web"), ObjectRef::<Pod>::new("web").within("shop")),
        (Key::cluster_scoped("n1"), ObjectRef::new("n1")),
    ] {
        assert_eq!(ObjectRef::from(&key), object_ref);
        assert_eq!(Key::from(&object_ref), key);
        let resource = ApiResource::erase::<Pod>(&());
        assert_eq!(key.to_object_ref::<DynamicObject>(resource), object_ref.erase());
    }
}

#[test]
fn the_object_ref_of_a_cached_object_has_its_uid_and_version() {
    let json = br#"{"metadata":{"namespace":"shop","name":"web","uid":"u1","resourceVersion":"15"}}"#;
    let pod = Scanner::of_kind::<Pod>().scan(json).unwrap().decode::<Lazy<Pod>>().unwrap();

    let object_ref: ObjectRef<Pod> = ObjectRef::from(&pod);

    assert_eq!(object_ref, ObjectRef::new("web").within("shop"));
    let reference = ObjectReference::from(object_ref);
    assert_eq!((reference.uid.as_deref(), reference.resource_version.as_deref()), (Some("u1"), Some("15")));
    assert_eq!(reference.kind.as_deref(), Some("Pod"));
}

#[test]
fn the_object_ref_of_an_object_without_uid_has_none() {
    let json = br#"{"metadata":{"name":"web"}}"#;
    let pod = Scanner::of_kind::<Pod>().scan(json).unwrap().decode::<Pod>().unwrap();

    let object_ref = pod.to_object_ref::<Pod>(());

    assert_eq!((object_ref.namespace, object_ref.extra.uid, object_ref.extra.resource_version), (None, None, None));
}

#[test]
fn a_shared_object_serializes_and_deserializes_as_the_object() {
    let json = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "y"}});

    let shared: Shared<ConfigMap> = serde_json::from_value(json.clone()).unwrap();

    assert_eq!(serde_json::to_value(&shared).unwrap(), json);
    assert!(shared.cached().is_none());
    assert_eq!(format!("{shared:?}"), "a@");
    assert_eq!(Shared::<ConfigMap>::url_path(&(), Some("shop")), ConfigMap::url_path(&(), Some("shop")));
}

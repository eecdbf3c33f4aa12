//! Behaviour that users of a typed API expect although the engine erases the object type.

use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe};

use informant::{
    Cached, Deleted, Event, EventStream, Identity, Index, InformerBuilder, Key, Lazy, Lister, SharedInformer,
    SharedInformerFactory, View,
    error::SourceError,
    factory::InformerState,
    index::IndexFunction,
    pipeline::{
        Change, Delta, DeltaFifo, Indexer, Item, ListPiece, ListRequest, ListStream, ListWatch, ProcessLoop, Reflector,
        ReflectorBuilder, ReflectorHandle, Relist, SourceEvent, WatchRequest, WatchStream, WriteBatch,
    },
    testing::{ScriptedList, ScriptedSource, ScriptedWatch},
};
use informant_apiserver::ApiServer;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::core::{DynamicObject, PartialObjectMeta, TypeMeta};
use serde_json::json;

use crate::support::informers::{LONG, OnDrop, keep, one_thread, without_deadlock};

fn identity(name: &str, version: u64) -> Identity {
    Identity::new(name, "u", version)
}

/// A callback may use `catch_unwind` around code that uses an object.
#[test]
fn types_that_hold_objects_are_unwind_safe_if_the_objects_are() {
    fn check<T: UnwindSafe + RefUnwindSafe>() {}
    check::<Cached<Pod>>();
    check::<Event<Pod>>();
    check::<Deleted<Pod>>();
    check::<Delta<Pod>>();
    check::<Relist<Pod>>();
    check::<Item<Pod>>();
    check::<SourceEvent<Pod>>();
    check::<ListPiece<Pod>>();
}

#[test]
fn debug_of_types_that_hold_objects_shows_the_identity_and_needs_no_debug_of_the_object() {
    struct Secret;
    let object = || Cached::new(identity("a", 7), Secret);
    let relist = || Relist {
        version: "9".into(),
        objects: vec![object()],
        quarantined: vec![(Key::cluster_scoped("b"), "u".into())],
        history_changed: false,
    };

    assert_eq!(format!("{:?}", Delta::Added(object())), "Added(a@7)");
    let deleted = Delta::Deleted(Deleted::Missed { last_known: object() });
    assert_eq!(format!("{deleted:?}"), "Deleted(Missed { last_known: a@7 })");
    let queue = DeltaFifo::new();
    queue.push(Delta::Sync(object()));
    let deltas = queue.waiting(&Key::cluster_scoped("a")).unwrap();
    assert_eq!(format!("{deltas:?}"), "Deltas { deltas: [(1, Sync(a@7))] }");
    assert_eq!(
        format!("{:?}", relist()),
        r#"Relist { version: "9", objects: [a@7], quarantined: [("b", "u")], history_changed: false }"#
    );
    assert_eq!(format!("{:?}", Change::from(Delta::Updated(object()))), "Delta(Updated(a@7))");
    assert_eq!(format!("{:?}", Change::<Secret>::Resync), "Resync");
    let item = || Item::new(identity("a", 7), Secret);
    assert_eq!(format!("{:?}", item()), "Item(a@7)");
    assert_eq!(format!("{:?}", Item::<Secret>::json(r#"{"password":"x"}"#)), "Item(16 bytes of JSON)");
    assert_eq!(format!("{:?}", SourceEvent::Added(item())), "Added(Item(a@7))");
}

#[test]
fn public_types_are_send_and_sync() {
    fn check<T: Send + Sync>() {}
    check::<Cached<Pod>>();
    check::<Event<Pod>>();
    check::<Item<Pod>>();
    check::<ReflectorBuilder<Pod>>();
    check::<InformerBuilder<Pod>>();
    check::<Reflector>();
    check::<ReflectorHandle>();
    check::<SharedInformer<Pod>>();
    check::<EventStream<Pod>>();
    check::<View<Pod>>();
    check::<Indexer<Pod>>();
    check::<Lister<Pod>>();
    check::<WriteBatch<Pod>>();
    check::<Index<Pod, u32>>();
    check::<IndexFunction<Pod>>();
    check::<DeltaFifo<Pod>>();
    check::<ProcessLoop<Pod, fn()>>();
    check::<SharedInformerFactory>();
}

/// A refused transform is the user's code: the informer drops it while it holds no lock.
#[test]
fn the_destructor_of_a_transform_that_is_set_too_late_may_use_the_informer() {
    without_deadlock(|| {
        let runtime = one_thread();
        runtime.block_on(async {
            let source = ScriptedSource::<u8>::new();
            source.on_list(ScriptedList::at("1"));
            source.on_watch(ScriptedWatch::new().stays_open());
            let informer = SharedInformer::of_decoded_objects(source).build();
            informer.start();
            informer.synced().await.unwrap();
            let held = informer.clone();
            let on_drop = OnDrop::new(move || drop(held.set_on_error(|_| {})));

            let refused = informer.set_transform(move |_: &mut u8| {
                keep(&on_drop);
                Ok::<_, std::io::Error>(())
            });

            assert!(refused.is_err());
            informer.stop().await.unwrap();
        });
    });
}

/// INV-F1: object types of one kind, each with its own transform.
#[tokio::test]
async fn a_factory_has_separate_settings_for_each_object_type_of_a_kind() {
    type Meta = PartialObjectMeta<ConfigMap>;
    type DynMeta = PartialObjectMeta<DynamicObject>;
    let server = ApiServer::new();
    let config = json!({"metadata": {"namespace": "shop", "name": "hours"}, "data": {"open": "9-17"}});
    server.put("configmaps", config).unwrap();
    let resource = kube::core::ApiResource::erase::<ConfigMap>(&());
    let label = |meta: &mut kube::core::ObjectMeta, value: &str| {
        meta.labels.get_or_insert_default().insert("form".into(), value.into());
    };
    let factory = SharedInformerFactory::builder(server.client())
        .configure::<ConfigMap>(move |builder| {
            builder.transform(move |object| {
                label(&mut object.metadata, "whole");
                Ok::<_, std::io::Error>(())
            })
        })
        .configure::<Meta>(move |builder| {
            builder.transform(move |object| {
                label(&mut object.metadata, "meta");
                Ok::<_, std::io::Error>(())
            })
        })
        .configure_dynamic::<DynamicObject>(&resource, move |builder| {
            builder.transform(move |object| {
                label(&mut object.metadata, "dynamic");
                Ok::<_, std::io::Error>(())
            })
        })
        .configure_dynamic::<DynMeta>(&resource, move |builder| {
            builder.transform(move |object| {
                label(&mut object.metadata, "dynamic meta");
                Ok::<_, std::io::Error>(())
            })
        })
        .build();
    let whole = factory.informer::<ConfigMap>();
    let lazy = factory.informer::<Lazy<ConfigMap>>();
    let meta = factory.informer::<Meta>();
    let dynamic = factory.request_dynamic::<DynamicObject>(&resource).informer().unwrap();
    let dynamic_meta = factory.request_dynamic::<DynMeta>(&resource).informer().unwrap();
    let typed_again = factory.request_dynamic::<ConfigMap>(&resource).informer().unwrap();
    let view: View<ConfigMap> = factory.request().in_namespaces(["shop"]).view().unwrap();
    factory.start();
    factory.synced_within(LONG).await.unwrap();

    let key = "shop/hours".parse().unwrap();
    let form = |meta: &kube::core::ObjectMeta| meta.labels.as_ref().unwrap()["form"].clone();
    assert_eq!(form(&whole.lister().get(&key).unwrap().metadata), "whole");
    assert_eq!(form(&typed_again.lister().get(&key).unwrap().metadata), "whole");
    assert_eq!(form(&view.get(&key).unwrap().metadata), "whole");
    assert_eq!(form(&meta.lister().get(&key).unwrap().metadata), "meta");
    assert_eq!(form(&dynamic.lister().get(&key).unwrap().metadata), "dynamic");
    assert_eq!(form(&dynamic_meta.lister().get(&key).unwrap().metadata), "dynamic meta");
    assert_eq!(lazy.lister().get(&key).unwrap().get().unwrap().metadata.labels, None);
    factory.stop().await.unwrap();
}

#[tokio::test]
async fn the_object_type_of_a_queue_is_inferred_from_the_source() {
    let source = ScriptedSource::<u8>::new();
    source.on_list(ScriptedList::at("1").object(Item::new(identity("x", 1), 7)));
    source.on_watch(ScriptedWatch::new().stays_open());
    let queue = DeltaFifo::new();
    let reflector = Reflector::of_decoded_objects(source)
        .transform(|number| {
            *number += 1;
            Ok::<_, std::io::Error>(())
        })
        .build(queue.clone());
    let running = tokio::spawn(reflector.run(std::future::pending()));
    let batch = queue.drain().await.unwrap();
    assert_eq!(**batch.items()[0].deltas().iter().next().unwrap().object(), 8);
    running.abort();
}

/// P9: `stop` does not wait for an informer that could not start.
#[tokio::test]
async fn an_informer_whose_source_panics_at_the_start_is_stopped() {
    struct PanickingSource;
    impl ListWatch<()> for PanickingSource {
        async fn list(&self, _: ListRequest) -> Result<ListStream<()>, SourceError> {
            unreachable!("the informer does not start")
        }

        async fn watch(&self, _: WatchRequest) -> Result<WatchStream<()>, SourceError> {
            unreachable!("the informer does not start")
        }

        fn types(&self) -> TypeMeta {
            std::panic::resume_unwind(Box::new("panic of the source"))
        }
    }
    let informer = SharedInformer::of_decoded_objects(PanickingSource).name("things").build();

    assert!(std::panic::catch_unwind(AssertUnwindSafe(|| informer.start())).is_err());

    informer.stop_within(LONG).await.unwrap();
    assert_eq!(informer.state(), InformerState::Stopped);
    let problem = informer.status().problem().unwrap().to_string();
    assert_eq!(problem, "informer things has stopped: its source panicked");
}

//! Load generation.

use std::time::Duration;

use informant_apiserver::{ApiServer, ChangeMix, Load};
use tokio::time::Instant;

use crate::support::Web;

#[tokio::test(start_paused = true)]
async fn a_load_is_made_and_changed_at_its_rate() {
    let server = ApiServer::new();
    let mut load = Load::of("pods", 100).namespaces(4).nodes(7).fill(&server).await.unwrap();
    assert_eq!((server.list("pods").unwrap().len(), load.objects()), (100, 100));
    let (start, version) = (Instant::now(), server.version());

    load.churn(200.0, 1000).await.unwrap();

    // Recreating an object takes two versions.
    assert!((1000..1200).contains(&(server.version() - version)), "{}", server.version() - version);
    let took = start.elapsed();
    assert!((Duration::from_millis(4900)..Duration::from_millis(5100)).contains(&took), "{took:?}");
    assert_eq!(server.list("pods").unwrap().len(), load.objects());
}

#[tokio::test(start_paused = true)]
async fn slow_rates_are_kept_too() {
    let server = ApiServer::new();
    let mut load = Load::of("nodes", 10).fill(&server).await.unwrap();
    let start = Instant::now();

    load.churn(0.5, 4).await.unwrap();

    assert_eq!(start.elapsed(), Duration::from_secs(6), "the first change is made at once");
}

#[tokio::test]
async fn a_seed_repeats_a_load() {
    let run = async |seed| {
        let server = ApiServer::new();
        let mut load = Load::of("configmaps", 30).seed(seed).fill(&server).await.unwrap();
        for _ in 0..300 {
            load.step().unwrap();
        }
        let mut objects = server.list("configmaps").unwrap();
        for object in &mut objects {
            object["metadata"]["creationTimestamp"].take();
        }
        objects
    };

    assert_eq!(run(1).await, run(1).await);
    assert_ne!(run(1).await, run(2).await);
}

#[tokio::test]
async fn every_kind_of_change_happens() {
    let server = ApiServer::new();
    let web = Web::in_process(&server);
    let mix = ChangeMix { update: 1, create: 1, delete: 1, recreate: 1 };
    let mut load = Load::of("pods", 20).mix(mix).fill(&server).await.unwrap();
    let mut watch = web.watch("/api/v1/pods", &format!("resourceVersion={}", server.version())).await;

    for _ in 0..100 {
        load.step().unwrap();
    }
    let changes = server.version() - 21;
    let mut types = std::collections::BTreeMap::new();
    for _ in 0..changes {
        let event = watch.next().await.unwrap();
        *types.entry(event["type"].as_str().unwrap().to_owned()).or_insert(0) += 1;
    }

    assert!(types["ADDED"] > 20 && types["MODIFIED"] > 10 && types["DELETED"] > 20, "{types:?}");
}

#[tokio::test(start_paused = true)]
async fn watches_keep_up_with_any_rate() {
    let server = ApiServer::builder().history(1000).build();
    let web = Web::in_process(&server);
    let mut watch = web.watch("/api/v1/configmaps", "").await;
    let reader = tokio::spawn(async move {
        let mut seen = 0;
        while let Some(event) = watch.next().await {
            seen += 1;
            if event["object"]["metadata"]["name"] == "last" {
                return Some(seen);
            }
        }
        None
    });

    let mut load = Load::of("configmaps", 3000).fill(&server).await.unwrap();
    load.churn(1e9, 5000).await.unwrap();
    server.put("configmaps", serde_json::json!({"metadata": {"namespace": "shop", "name": "last"}})).unwrap();

    assert_eq!(reader.await.unwrap(), Some(server.version() - 1), "none was missed");
}

#[tokio::test(start_paused = true)]
async fn the_strangest_rates_and_mixes_work() {
    let server = ApiServer::new();
    let mix = ChangeMix { update: u32::MAX, create: u32::MAX, delete: u32::MAX, recreate: u32::MAX };
    let mut load = Load::of("secrets", 10).mix(mix).fill(&server).await.unwrap();

    load.churn(1e-5, 1).await.unwrap();

    let secrets: kube::Api<k8s_openapi::api::core::v1::Secret> =
        kube::Api::all(kube::Client::new(server.service(), "default"));
    assert_eq!(secrets.list(&kube::api::ListParams::default()).await.unwrap().items.len(), load.objects());
}

#[tokio::test]
async fn a_load_of_a_kind_that_is_not_served_is_an_error() {
    let server = ApiServer::new();

    assert_eq!(Load::of("widgets", 1).fill(&server).await.unwrap_err().code(), 404);
}

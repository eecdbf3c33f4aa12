//! Many objects are listed again and again.

use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::{StreamExt, TryStreamExt, stream};
use http::Request;
use serde_json::json;
use tokio::time::sleep;

use super::{Case, run};
use crate::stage::{Failure, NAMESPACES, SCOPES, STAMP, Stage};

const OBJECTS: usize = 20_000;
const RELISTS: u32 = 20;

pub fn cases() -> [Case; 1] {
    [Case::new("relists", "20,000 objects, and twenty relists because of 410", 10, run!(relists))]
}

async fn relists(stage: &mut Stage) -> Result<(), Failure> {
    create_objects(stage).await?;
    stage.be_right_before_the_fault().await?;
    let objects: usize = stage.client.report().await?.informers.values().map(|informer| informer.objects).sum();
    stage.measured.resident_bytes.0 = stage.client.usage()?.resident_bytes;
    let mut cpu = Duration::ZERO;
    for _ in 0..RELISTS {
        let before = stage.client.usage()?.cpu;
        stage.proxy.expire_watches();
        stage.write_behind_the_client(Duration::from_millis(500)).await?;
        stage.proxy.set(|proxy| proxy.holds_new_connections = false);
        let end = Instant::now();
        while stage.proxy.relisted() < SCOPES.len() {
            sleep(Duration::from_millis(50)).await;
        }
        sleep(Duration::from_secs(2)).await; // The lists are read.
        cpu += stage.client.usage()?.cpu - before;
        // Also delivers an event to each informer: without one it would delay its next list.
        stage.recover_without_writes(end).await?;
    }
    let per_object = cpu.as_micros() as f64 / f64::from(RELISTS) / objects as f64;
    stage.measured.note = Some(format!("{per_object:.1} µs per object and relist, {objects} objects"));
    Ok(())
}

async fn create_objects(stage: &Stage) -> Result<()> {
    let path = format!("/api/v1/namespaces/{}/configmaps", NAMESPACES[0]);
    let creations = (0..OBJECTS).map(|number| {
        let metadata = json!({"name": format!("many-{number}"), "annotations": {STAMP: number.to_string()}});
        let object = json!({"metadata": metadata, "data": {"text": "x".repeat(500)}});
        let request = Request::post(&path).header("content-type", "application/json");
        async move {
            stage.server.admin.request_text(request.body(object.to_string().into_bytes())?).await?;
            anyhow::Ok(())
        }
    });
    stream::iter(creations).buffer_unordered(8).try_collect::<Vec<_>>().await?;
    Ok(())
}

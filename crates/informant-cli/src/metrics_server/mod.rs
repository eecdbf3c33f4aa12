//! `--metrics ADDR`: an HTTP server for metrics, health and readiness.
//!
//! - **In:** the metrics that the library records, and whether the informers are synced.
//! - **Out:** the pages `/metrics` (in Prometheus' format), `/healthz` and `/readyz`.
//! - **Knows nothing of:** the command that runs.

mod http;

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use clap::Args;
use informant::SharedInformerFactory;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::{
    net::TcpListener,
    sync::watch,
    task::{JoinError, JoinSet},
};

use crate::{arguments::address, output::print_message};

/// The option that starts the server.
#[derive(Args, Debug)]
pub struct MetricsOptions {
    /// Serve /metrics (Prometheus), /healthz and /readyz on this port or address, such as 9090 (on localhost) or 0.0.0.0:9090
    #[arg(long, value_name = "ADDR", value_parser = address, display_order = 800)]
    metrics: Option<SocketAddr>,
}

/// Why metrics cannot be recorded or served.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    #[error("cannot serve metrics on {address}; check that no other process uses the port")]
    Bind { address: SocketAddr, source: io::Error },
    #[error("cannot record metrics")]
    Record(#[from] BuildError),
    #[error("cannot record metrics: another recorder is installed in this process")]
    RecorderExists,
    #[error("the metrics server failed")]
    Failed(#[source] JoinError),
}

/// The state of the running command.
struct CommandState {
    /// Returns why the command is not ready, or `None` if it is.
    not_ready_reason: Box<dyn Fn() -> Option<String> + Send + Sync>,
    /// Called before `/metrics` is rendered, to update gauges.
    refresh: Box<dyn Fn() + Send + Sync>,
}

/// The data of the pages.
#[derive(Clone)]
struct Pages {
    recorded: PrometheusHandle,
    /// Empty until the command has started.
    command: Arc<OnceLock<CommandState>>,
}

/// The running server; without `--metrics` it does nothing.
pub struct MetricsServer {
    command: Arc<OnceLock<CommandState>>,
    tasks: JoinSet<()>,
    /// The tasks stop when this is dropped.
    running: watch::Sender<()>,
}

/// How often the recorder drains its histograms.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// Histogram buckets: from handlers that only count to handlers that call other services.
const BUCKETS_IN_SECONDS: [f64; 12] = [0.000_01, 0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

impl MetricsOptions {
    /// Starts to record and to serve. Must be called before any informer is created, so that no metric is lost.
    pub async fn serve(&self) -> Result<MetricsServer, MetricsError> {
        let mut server =
            MetricsServer { command: Arc::default(), tasks: JoinSet::new(), running: watch::Sender::default() };
        let Some(address) = self.metrics else { return Ok(server) };
        let bound = async {
            let listener = TcpListener::bind(address).await?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) = bound.await.map_err(|source| MetricsError::Bind { address, source })?;
        let builder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &BUCKETS_IN_SECONDS)?;
        let recorder = builder.build_recorder();
        let recorded = recorder.handle();
        metrics::set_global_recorder(recorder).map_err(|_| MetricsError::RecorderExists)?;
        informant::metrics::describe();
        server.tasks.spawn(upkeep(recorded.clone(), server.running.subscribe()));
        let pages = Pages { recorded, command: Arc::clone(&server.command) };
        server.tasks.spawn(http::serve(listener, pages, server.running.subscribe()));
        print_message(&format!("serving metrics at http://{address}/metrics"));
        Ok(server)
    }
}

impl MetricsServer {
    /// Reports that the command has started. `/readyz` succeeds while `not_ready_reason` returns `None`; `refresh` is called before
    /// `/metrics` is rendered.
    pub fn set_started(
        &self,
        not_ready_reason: impl Fn() -> Option<String> + Send + Sync + 'static,
        refresh: impl Fn() + Send + Sync + 'static,
    ) {
        // A command calls this once.
        let _ =
            self.command.set(CommandState { not_ready_reason: Box::new(not_ready_reason), refresh: Box::new(refresh) });
    }

    /// Reports that the command has started; it is ready when all informers of the factory are synced.
    pub fn set_factory(&self, factory: &SharedInformerFactory) {
        let factory = factory.clone();
        let not_ready_reason = move || {
            let why = || factory.problems().first().map_or_else(|| "not synced".to_owned(), ToString::to_string);
            (!factory.is_synced()).then(why)
        };
        self.set_started(not_ready_reason, || ());
    }

    /// Waits until the server fails; waits forever if it does not.
    pub async fn failed(&mut self) -> MetricsError {
        match self.tasks.join_next().await {
            Some(Err(error)) => MetricsError::Failed(error),
            // Without a panic, the tasks run until `stop`.
            Some(Ok(())) | None => std::future::pending().await,
        }
    }

    pub async fn stop(self) {
        let Self { running, mut tasks, .. } = self;
        drop(running);
        while tasks.join_next().await.is_some() {}
    }
}

async fn upkeep(recorded: PrometheusHandle, mut running: watch::Receiver<()>) {
    let mut ticks = tokio::time::interval(UPKEEP_EVERY);
    loop {
        tokio::select! {
            _ = ticks.tick() => recorded.run_upkeep(),
            _ = running.changed() => return,
        }
    }
}

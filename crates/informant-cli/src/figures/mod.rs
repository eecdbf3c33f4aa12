//! `--metrics ADDR`: figures for Prometheus, and whether the command is well, over HTTP.
//!
//! - **In:** what the library records, and whether the informers are synced.
//! - **Out:** `/metrics`, `/healthz`, `/readyz`.
//! - **Knows nothing of:** what the command does.

mod server;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;

use clap::Args;
use informant::SharedInformerFactory;
use metrics_exporter_prometheus::BuildError;
use metrics_exporter_prometheus::Matcher;
use metrics_exporter_prometheus::PrometheusBuilder;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio::task::JoinSet;

use crate::arguments::address;
use crate::output::say;

/// Where figures are served.
#[derive(Args, Debug)]
pub struct FiguresOptions {
    /// Serve /metrics for Prometheus, /healthz and /readyz: 9090, or 0.0.0.0:9090; localhost unless an address is given
    #[arg(long, value_name = "ADDR", value_parser = address, display_order = 800)]
    metrics: Option<SocketAddr>,
}

/// Why figures are not served.
#[derive(Debug, thiserror::Error)]
pub enum FiguresError {
    #[error("metrics cannot be served at {address}; is something else there?")]
    Bind { address: SocketAddr, source: io::Error },
    #[error("metrics cannot be recorded")]
    Record(#[from] BuildError),
    #[error("metrics are recorded already")]
    Recorded,
    #[error("metrics are not served any more")]
    Broken(#[source] JoinError),
}

/// What is told of.
struct Subject {
    /// What keeps it from being ready, if something does.
    trouble: Box<dyn Fn() -> Option<String> + Send + Sync>,
    /// Brings figures up to date that nobody else records.
    refresh: Box<dyn Fn() + Send + Sync>,
}

/// What requests are answered from.
#[derive(Clone)]
struct Answers {
    recorded: PrometheusHandle,
    /// Not there while it starts.
    subject: Arc<OnceLock<Subject>>,
}

/// A server of figures, if one was asked for.
pub struct Figures {
    subject: Arc<OnceLock<Subject>>,
    tasks: JoinSet<()>,
    /// The tasks end with it.
    running: watch::Sender<()>,
}

/// How often histograms are tidied up.
const UPKEEP: Duration = Duration::from_secs(5);

/// From handlers that take no time to those that wait for others.
const SECONDS: [f64; 12] = [0.000_01, 0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

impl FiguresOptions {
    /// Begins to record and to serve; before any informer is made.
    pub async fn serve(&self) -> Result<Figures, FiguresError> {
        let mut figures = Figures { subject: Arc::default(), tasks: JoinSet::new(), running: watch::Sender::default() };
        let Some(address) = self.metrics else { return Ok(figures) };
        let bound = async {
            let listener = TcpListener::bind(address).await?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) = bound.await.map_err(|source| FiguresError::Bind { address, source })?;
        let builder =
            PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)?;
        let recorder = builder.build_recorder();
        let recorded = recorder.handle();
        metrics::set_global_recorder(recorder).map_err(|_| FiguresError::Recorded)?;
        informant::metrics::describe();
        figures.tasks.spawn(upkeep(recorded.clone(), figures.running.subscribe()));
        let answers = Answers { recorded, subject: Arc::clone(&figures.subject) };
        figures.tasks.spawn(server::serve(listener, answers, figures.running.subscribe()));
        say(&format!("metrics at http://{address}/metrics"));
        Ok(figures)
    }
}

impl Figures {
    /// It has started: ready as soon as this says of no trouble; the other is called before figures are told.
    pub fn tell_of(
        &self,
        trouble: impl Fn() -> Option<String> + Send + Sync + 'static,
        refresh: impl Fn() + Send + Sync + 'static,
    ) {
        // It is said once.
        let _ = self.subject.set(Subject { trouble: Box::new(trouble), refresh: Box::new(refresh) });
    }

    /// It has started: ready when all informers of a factory are synced.
    pub fn tell_of_factory(&self, factory: &SharedInformerFactory) {
        let factory = factory.clone();
        let trouble = move || {
            let why = || factory.problems().first().map_or_else(|| "not synced".to_owned(), ToString::to_string);
            (!factory.is_synced()).then(why)
        };
        self.tell_of(trouble, || ());
    }

    /// Waits until it cannot serve any more, which should not be.
    pub async fn broken(&mut self) -> FiguresError {
        match self.tasks.join_next().await {
            Some(Err(error)) => FiguresError::Broken(error),
            // They go on until it stops.
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
    let mut ticks = tokio::time::interval(UPKEEP);
    loop {
        tokio::select! {
            _ = ticks.tick() => recorded.run_upkeep(),
            _ = running.changed() => return,
        }
    }
}

//! `--metrics ADDR`: figures for Prometheus, and whether the command is well, over HTTP.
//!
//! - **In:** what the library records, and whether the informers are synced.
//! - **Out:** `/metrics`, `/healthz`, `/readyz`.
//! - **Knows nothing of:** what the command does.

mod server;

use std::io;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use informant::SharedInformerFactory;
use metrics_exporter_prometheus::BuildError;
use metrics_exporter_prometheus::Matcher;
use metrics_exporter_prometheus::PrometheusBuilder;
use metrics_exporter_prometheus::PrometheusHandle;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Where figures are served.
#[derive(Args, Debug)]
pub struct MetricsOptions {
    /// Serves /metrics for Prometheus, /healthz and /readyz: 9090, or 127.0.0.1:9090; of other machines only if it is said, as in
    /// 0.0.0.0:9090
    #[arg(long, value_name = "ADDR", value_parser = address)]
    metrics: Option<SocketAddr>,
}

/// `9090` and `:9090` are of this machine alone.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let here = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    if let Ok(port) = text.strip_prefix(':').unwrap_or(text).parse() {
        return Ok(here(port));
    }
    let named = text.strip_prefix("localhost:").and_then(|port| port.parse().ok()).map(here);
    named.or_else(|| text.parse().ok()).ok_or_else(|| "write a port, or an address as in 127.0.0.1:9090".to_owned())
}

/// Why figures are not served.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    #[error("figures cannot be served at {address}; is something else there?")]
    Bind { address: SocketAddr, source: io::Error },
    #[error("figures cannot be recorded")]
    Record(#[from] BuildError),
    #[error("figures are recorded already")]
    Recorded,
    #[error("figures are not served any more")]
    Broken(#[source] io::Error),
}

/// What is asked whether all is well: nothing, or what is not.
type Trouble = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// What requests are answered from.
#[derive(Clone)]
struct Answers {
    figures: PrometheusHandle,
    trouble: Arc<Mutex<Trouble>>,
    /// Brings figures up to date that nobody else records.
    refresh: Arc<Mutex<Arc<dyn Fn() + Send + Sync>>>,
}

/// A server of figures, if one was asked for.
pub struct Metrics {
    serving: Option<Answers>,
    tasks: JoinSet<io::Result<()>>,
}

/// How often histograms are tidied up.
const UPKEEP: Duration = Duration::from_secs(5);

/// From handlers that take no time to those that wait for others.
const SECONDS: [f64; 12] = [0.000_01, 0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

impl MetricsOptions {
    /// Begins to record and to serve; before any informer is made.
    pub async fn serve(&self) -> Result<Metrics, MetricsError> {
        let mut tasks = JoinSet::new();
        let Some(address) = self.metrics else { return Ok(Metrics { serving: None, tasks }) };
        let bound = async {
            let listener = TcpListener::bind(address).await?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) = bound.await.map_err(|source| MetricsError::Bind { address, source })?;
        let builder =
            PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)?;
        let recorder = builder.build_recorder();
        let figures = recorder.handle();
        metrics::set_global_recorder(recorder).map_err(|_| MetricsError::Recorded)?;
        informant::metrics::describe();
        let starting: Trouble = Arc::new(|| Some("it starts".to_owned()));
        let refresh: Arc<dyn Fn() + Send + Sync> = Arc::new(|| ());
        let answers =
            Answers { figures, trouble: Arc::new(Mutex::new(starting)), refresh: Arc::new(Mutex::new(refresh)) };
        tasks.spawn(upkeep(answers.figures.clone()));
        tasks.spawn(server::serve(listener, answers.clone()));
        eprintln!("informant: figures at http://{address}/metrics");
        Ok(Metrics { serving: Some(answers), tasks })
    }
}

impl Metrics {
    /// From now on, it is ready when this says of no trouble.
    pub fn ready_when(&self, trouble: impl Fn() -> Option<String> + Send + Sync + 'static) {
        if let Some(answers) = &self.serving {
            *answers.trouble.lock() = Arc::new(trouble);
        }
    }

    /// From now on, it is ready when all informers of a factory are synced that were started.
    pub fn ready_when_synced(&self, factory: &SharedInformerFactory) {
        let factory = factory.clone();
        self.ready_when(move || {
            let why = || factory.problems().first().map_or_else(|| "not synced".to_owned(), ToString::to_string);
            (!factory.is_synced()).then(why)
        });
    }

    /// From now on, this is called before figures are told.
    pub fn refresh_with(&self, refresh: impl Fn() + Send + Sync + 'static) {
        if let Some(answers) = &self.serving {
            *answers.refresh.lock() = Arc::new(refresh);
        }
    }

    /// Waits until it cannot serve any more, which should not be.
    pub async fn broken(&mut self) -> MetricsError {
        match self.tasks.join_next().await {
            Some(Ok(Err(error))) => MetricsError::Broken(error),
            Some(Err(error)) => MetricsError::Broken(io::Error::other(error)),
            // They go on until they are stopped.
            Some(Ok(Ok(()))) | None => std::future::pending().await,
        }
    }

    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

async fn upkeep(figures: PrometheusHandle) -> io::Result<()> {
    let mut ticks = tokio::time::interval(UPKEEP);
    loop {
        ticks.tick().await;
        figures.run_upkeep();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_of_this_machine_unless_another_is_said() {
        for text in ["9090", ":9090", "localhost:9090", "127.0.0.1:9090"] {
            assert_eq!(address(text).unwrap().to_string(), "127.0.0.1:9090", "{text}");
        }
        assert_eq!(address("0.0.0.0:0").unwrap().to_string(), "0.0.0.0:0");
        assert_eq!(address("[::1]:80").unwrap().to_string(), "[::1]:80");
        for text in ["", "here", "70000", "127.0.0.1", "example.com:80"] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}

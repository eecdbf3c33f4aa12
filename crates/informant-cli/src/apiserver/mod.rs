//! `informant apiserver`: the embedded API server by itself, for other programs.
//!
//! `load` is what is in it and how it changes, `faults` what goes wrong, `kubeconfig` how others find it.

mod faults;
mod kubeconfig;
mod load;

use std::error::Error;
use std::io;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use clap::ValueHint;
use informant_apiserver::ApiServer;
use tokio::task::JoinSet;

use self::faults::Rules;
use self::load::LoadPlan;
use crate::interrupt::interrupted;
use crate::metrics::MetricsOptions;
use crate::metrics::address;
use crate::output::Stdout;
use crate::selection::note;

/// What can be chosen.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  informant apiserver
  informant apiserver --listen 8080 --load pods=1000,nodes=20,rate=50
  informant apiserver --kubeconfig-out /tmp/kubeconfig & kubectl --kubeconfig /tmp/kubeconfig get namespaces
  informant apiserver --load pods=100 --faults 'watch=cut:100,pods/list=503@0.1,any=delay:200ms'

Its URL is written to stdout. It has the usual kinds and everybody may do everything, so it listens on loopback addresses
alone. No controllers run in it, and it forgets everything at its end, which is Ctrl-C. With -vv it tells of each request.

A load is a number of objects for each kind, and with rate=N so many changes a second. namespaces=N is over how many
namespaces they are spread.

Faults are none, some, storm, or rules: [RESOURCE/]VERB=FAULT[@CHANCE][xTIMES][+SKIPPED], separated by commas:
by chance, so often, and not to the first requests.
  VERB    any, read, write, list, watch, get, create, update, patch, delete
  FAULT   an HTTP code such as 403, 410, 429 or 503; refuse, drop, hang, garbage, truncate, wrong-kind, expire-token,
          no-bookmarks, no-streaming; delay:TIME, cut:EVENTS, freeze:EVENTS, stale:VERSIONS, bad-item:FIELD")]
pub struct Options {
    /// Where it listens: 8080, or 127.0.0.1:8080; port 0 is any that is free
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = address)]
    listen: SocketAddr,
    /// Writes a kubeconfig for it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    kubeconfig_out: Option<PathBuf>,
    /// What is in it, and how often that changes: pods=1000,rate=50
    #[arg(long, value_name = "LOAD", default_value = "", hide_default_value = true)]
    load: LoadPlan,
    /// What goes wrong
    #[arg(long, value_name = "FAULTS", default_value = "none")]
    faults: Rules,
    /// What load and faults follow from; the same seed makes the same changes
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    metrics: MetricsOptions,
}

pub async fn run(options: Options) -> Result<bool, Box<dyn Error>> {
    let mut metrics = options.metrics.serve().await?;
    let server = ApiServer::builder().seed(options.seed).remember_requests(1).build();
    let mut changing = JoinSet::new();
    for maker in options.load.fill(&server, options.seed).await? {
        changing.spawn(maker.churn());
    }
    options.faults.inject(&server);
    let listening = server.listen(options.listen).await?;
    let url = listening.url();
    if let Some(file) = &options.kubeconfig_out {
        kubeconfig::write(file, &url)?;
    }
    let figures = server.clone();
    metrics.refresh_with(move || figures_of(&figures));
    metrics.ready_when(|| None);
    if io::stderr().is_terminal() {
        note(&format!(
            "It serves, until Ctrl-C. Try\n  informant watch pods -A --server {url}\n  kubectl --server {url} get pods -A"
        ));
    }
    // A reader who has gone knows the URL.
    let _ = Stdout::new().write(format!("{url}\n").as_bytes()).await?;
    let outcome = tokio::select! {
        outcome = interrupted() => outcome.map_err(Into::into),
        Some(changed) = changing.join_next() => match changed {
            Ok(error) => Err(error.into()),
            Err(error) => Err(error.into()),
        },
        error = metrics.broken() => Err(error.into()),
    };
    changing.shutdown().await;
    listening.stop().await;
    metrics.stop().await;
    outcome.map(|()| true)
}

/// What is in the server now, and who follows it.
fn figures_of(server: &ApiServer) {
    metrics::gauge!("informant_apiserver_version").set(server.version() as f64);
    for kind in server.kinds() {
        let resource = kind.resource();
        // It is one of those that it serves.
        let objects = server.count(&resource).unwrap_or_default();
        let watches = server.open_watches(&resource);
        metrics::gauge!("informant_apiserver_objects", "resource" => resource.clone()).set(objects as f64);
        metrics::gauge!("informant_apiserver_watches", "resource" => resource).set(watches as f64);
    }
}

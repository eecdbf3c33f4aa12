//! `informant apiserver`: runs the embedded API server for other programs.
//!
//! `load` creates and changes objects, `faults` injects faults, `kubeconfig` writes a kubeconfig for clients.

mod faults;
mod kubeconfig;
mod load;

use std::{error::Error, io, io::IsTerminal, net::SocketAddr, path::PathBuf, process::ExitCode};

use clap::{Args, ValueHint};
use informant_apiserver::ApiServer;
use tokio::task::JoinSet;

use self::{faults::FaultRules, load::LoadPlan};
use crate::{
    Outcome,
    arguments::loopback_address,
    interrupt,
    interrupt::Interrupt,
    metrics_server::{MetricsOptions, MetricsServer},
    output::{Stdout, print_message},
};

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  informant apiserver
  informant apiserver --listen 8080 --load pods=1000,nodes=20,rate=50
  informant apiserver --load pods=100 --faults 'watch=cut:150,list=503@0.1'
  informant apiserver --kubeconfig-out /tmp/kubeconfig &
  kubectl --kubeconfig /tmp/kubeconfig apply -f manifest.yaml

The server prints its URL to stdout and runs until Ctrl-C. All objects are kept
in memory and are lost when the server stops. It starts with the objects of a
new cluster: the namespaces default and kube-*, the Service kubernetes and a
few more. It deletes objects with their owners, and has no other controllers.
It has no access control, so it listens on loopback addresses only. -vv logs
every request.

Supported kubectl commands: get, describe, explain, apply, apply --server-side,
create -f, edit, set, label, scale, patch, diff, wait, delete and drain, also for
custom resources. Objects can be created only in existing namespaces. Not
supported: logs, exec, and `create KIND`, which sends protobuf; instead, use
  kubectl create ns shop --dry-run=client -o yaml | kubectl create -f -

--load is a list of RESOURCE=COUNT and settings, separated by commas:
  rate=N         changes per second, over all kinds [default: 0]
  namespaces=N   number of namespaces for the objects [default: 5]

--faults is a level:
  none           no faults [default]
  some           half of the watches are cut after some events; 10 % of watches
                 get 410 (Expired); 10 % of reads get 429 (Too Many Requests)
  storm          every watch is cut after some events; 10 % of watches get 410;
                 of all requests, 10 % get 429, 10 % get 503, 10 % are dropped
                 and 20 % are delayed; 10 % of reads are truncated
or a list of rules, separated by commas:
  [RESOURCE/]VERB=FAULT[@PROBABILITY][xTIMES][+SKIP]
  VERB           any, read, write, list, watch, get, create, update, patch or
                 delete; watch includes streamed lists, which informers use for
                 their first list if the server supports them
  PROBABILITY    probability of the fault, such as @0.5 [default: 1]
  TIMES          maximum number of times, such as x2 [default: unlimited]
  SKIP           number of requests to serve before the first fault, such as +1
  FAULT          one of:
    400 to 599        answer with this status; 429 has Retry-After: 1
    drop, refuse      close the connection without an answer
    lose-answer       execute the request, then close the connection without an
                      answer
    hang              keep the connection open without an answer
    delay:TIME        delay the answer, such as delay:200ms
    truncate          cut the answer off in the middle
    garbage           answer with HTML
    wrong-kind        answer with objects of another kind
    bad-item:FIELD    make this field of the first object invalid; write xTIMES
                      after @PROBABILITY or +SKIP, such as bad-item:spec@1x2
    stale:VERSIONS    answer from a state this many changes ago
    expire-token      answer 410 to requests for the next page of a list
    cut:EVENTS        end a watch after this many events
    freeze:EVENTS     send nothing on a watch after this many events
    no-bookmarks      send no bookmarks on a watch
    no-streaming      refuse streamed lists")]
pub struct Options {
    /// Port or loopback address to listen on; port 0 picks a free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = loopback_address)]
    listen: SocketAddr,
    /// Write a kubeconfig for this server to a file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    kubeconfig_out: Option<PathBuf>,
    /// Objects to create, and how often they change, such as pods=1000,rate=50
    #[arg(long, value_name = "LOAD", default_value = "", hide_default_value = true, value_hint = ValueHint::Other)]
    load: LoadPlan,
    /// Faults to inject: none, some, storm, or rules
    #[arg(long, value_name = "FAULTS", default_value = "none", value_hint = ValueHint::Other)]
    faults: FaultRules,
    /// Seed of the random load and faults
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    metrics: MetricsOptions,
}

pub async fn run(options: Options, interrupt: Interrupt) -> Outcome {
    // The log of requests is not read, so it need not be kept.
    let server =
        ApiServer::builder().seed(options.seed).bootstrapped().garbage_collection().remember_requests(1).build();
    // A client that watched an earlier server at this address gets 410 for its version, and relists.
    server.skip_to_version(unused_version());
    server.compact();
    options.load.check(&server)?;
    options.faults.inject(&server)?;
    // Check the file and the address before the load is created, which may take long.
    if let Some(file) = &options.kubeconfig_out {
        kubeconfig::target(file)?;
    }
    server.listen(options.listen).await?.stop().await;
    let mut metrics = options.metrics.serve().await?;
    let outcome = fill_and_serve(&options, &server, &mut metrics, interrupt).await;
    metrics.stop().await;
    outcome
}

/// A version that no earlier server has reached: no server makes one change per microsecond.
fn unused_version() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_microsecond()).unwrap_or_default()
}

async fn fill_and_serve(
    options: &Options,
    server: &ApiServer,
    metrics: &mut MetricsServer,
    mut interrupt: Interrupt,
) -> Outcome {
    let makers = tokio::select! {
        makers = options.load.fill(server, options.seed) => makers?,
        () = interrupt.received() => return Ok(ExitCode::from(interrupt::CODE)),
    };
    options.faults.cut_watches(server);
    let listening = server.listen(options.listen).await?;
    let mut changing = JoinSet::new();
    for (load, rate) in makers {
        changing.spawn(load.churn_forever(rate));
    }
    let url = listening.url();
    let outcome = tokio::select! {
        outcome = announce(options, server, &url, metrics) => outcome,
        () = interrupt.received() => Ok(()),
        Some(changed) = changing.join_next() => match changed {
            Ok(error) => Err(error.into()),
            Err(error) => Err(error.into()),
        },
    };
    changing.shutdown().await;
    listening.stop().await;
    outcome.map(|()| ExitCode::SUCCESS)
}

/// Publishes the URL of the server; then waits, and returns only if the metrics server fails.
async fn announce(
    options: &Options,
    server: &ApiServer,
    url: &str,
    metrics: &mut MetricsServer,
) -> Result<(), Box<dyn Error>> {
    if let Some(file) = &options.kubeconfig_out {
        kubeconfig::write(file, url)?;
    }
    describe();
    let counted = server.clone();
    metrics.set_started(|| None, move || record(&counted));
    if io::stderr().is_terminal() {
        print_message(&format!("serving until Ctrl-C; try `informant watch pods -A --server {url}`"));
    }
    // A closed pipe is not an error: the reader knows the URL.
    let _ = Stdout::new().write(format!("{url}\n").as_bytes()).await?;
    Err(metrics.failed().await.into())
}

fn describe() {
    informant_apiserver::describe_metrics();
    metrics::describe_gauge!("informant_apiserver_version", "Resource version of the last change.");
    metrics::describe_gauge!("informant_apiserver_objects", "Stored objects per resource.");
    metrics::describe_gauge!("informant_apiserver_watches", "Open watches per resource.");
}

/// Updates the gauges of the server.
fn record(server: &ApiServer) {
    metrics::gauge!("informant_apiserver_version").set(server.version() as f64);
    for kind in server.kinds() {
        let resource = kind.resource();
        // Cannot fail: the server serves this kind.
        let objects = server.count(&resource).unwrap_or_default();
        let watches = server.open_watches(&resource);
        metrics::gauge!("informant_apiserver_objects", "resource" => resource.clone()).set(objects as f64);
        metrics::gauge!("informant_apiserver_watches", "resource" => resource).set(watches as f64);
    }
}

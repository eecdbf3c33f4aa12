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
use std::process::ExitCode;

use clap::Args;
use clap::ValueHint;
use informant_apiserver::ApiServer;
use tokio::task::JoinSet;

use self::faults::Rules;
use self::load::LoadPlan;
use crate::Outcome;
use crate::arguments::loopback_address;
use crate::figures::Figures;
use crate::figures::FiguresOptions;
use crate::interrupt::Interrupt;
use crate::output::Stdout;
use crate::output::say;

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  informant apiserver
  informant apiserver --listen 8080 --load pods=1000,nodes=20,rate=50
  informant apiserver --load pods=100 --faults 'watch=cut:150,list=503@0.1'
  informant apiserver --kubeconfig-out /tmp/kubeconfig &
  kubectl --kubeconfig /tmp/kubeconfig apply -f manifest.yaml

Its URL is written to stdout. It has the usual kinds, and everybody may do
everything, so it listens on loopback addresses alone. No controllers run in
it, and it forgets everything at its end, which is Ctrl-C. With -vv it tells of
each request.

--load is a number of objects for each kind, and settings:
  rate=N         changes in a second, over all kinds [default: 0]
  namespaces=N   over how many namespaces they are spread [default: 5]

--faults is one of
  none           [default]
  some           half of the watches break after some events, one in ten has
                 expired, one in ten reads is answered with 429
  storm          everything, all the time
or rules, separated by commas: [RESOURCE/]VERB=FAULT[@CHANCE][xTIMES][+SKIPPED]
  VERB           any, read, write, list, watch, get, create, update, patch,
                 delete; the list of an informer is a watch, mostly
  FAULT          an HTTP code such as 403, 410, 429 or 503; refuse, drop, hang,
                 garbage, truncate, wrong-kind, expire-token, no-bookmarks,
                 no-streaming; delay:TIME, cut:EVENTS, freeze:EVENTS,
                 stale:VERSIONS, bad-item:FIELD
  SKIPPED        how many requests are left alone before it strikes")]
pub struct Options {
    /// Address or port; port 0 is any that is free
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = loopback_address)]
    listen: SocketAddr,
    /// Write a kubeconfig for it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    kubeconfig_out: Option<PathBuf>,
    /// Objects, and how often they change: pods=1000,rate=50
    #[arg(long, value_name = "LOAD", default_value = "", hide_default_value = true)]
    load: LoadPlan,
    /// What goes wrong: none, some, storm, or rules
    #[arg(long, value_name = "FAULTS", default_value = "none")]
    faults: Rules,
    /// Seed of load and faults
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    figures: FiguresOptions,
}

pub async fn run(options: Options, interrupt: Interrupt) -> Outcome {
    // Nobody asks it what was requested, so it need not remember.
    let server = ApiServer::builder().seed(options.seed).remember_requests(1).build();
    options.load.check(&server)?;
    options.faults.inject(&server)?;
    // What is taken already is known before a load is made.
    if let Some(file) = &options.kubeconfig_out {
        kubeconfig::place(file)?;
    }
    server.listen(options.listen).await?.stop().await;
    let mut figures = options.figures.serve().await?;
    let outcome = fill_and_serve(&options, &server, &mut figures, interrupt).await;
    figures.stop().await;
    outcome
}

async fn fill_and_serve(
    options: &Options,
    server: &ApiServer,
    figures: &mut Figures,
    mut interrupt: Interrupt,
) -> Outcome {
    let makers = tokio::select! {
        makers = options.load.fill(server, options.seed) => makers?,
        () = interrupt.happened() => return Ok(ExitCode::SUCCESS),
    };
    options.faults.break_watches(server);
    let listening = server.listen(options.listen).await?;
    let mut changing = JoinSet::new();
    makers.into_iter().for_each(|maker| drop(changing.spawn(maker.churn())));
    let url = listening.url();
    let outcome = tokio::select! {
        outcome = tell(options, server, &url, figures) => outcome,
        () = interrupt.happened() => Ok(()),
        Some(changed) = changing.join_next() => match changed {
            Ok(error) => Err(error.into()),
            Err(error) => Err(error.into()),
        },
    };
    changing.shutdown().await;
    listening.stop().await;
    outcome.map(|()| ExitCode::SUCCESS)
}

/// Tells others where it is; ends when its figures cannot be told any more.
async fn tell(options: &Options, server: &ApiServer, url: &str, figures: &mut Figures) -> Result<(), Box<dyn Error>> {
    if let Some(file) = &options.kubeconfig_out {
        kubeconfig::write(file, url)?;
    }
    describe();
    let counted = server.clone();
    figures.tell_of(|| None, move || record(&counted));
    if io::stderr().is_terminal() {
        say(&format!("it serves, until Ctrl-C; try `informant watch pods -A --server {url}`"));
    }
    // A reader who has gone knows the URL.
    let _ = Stdout::new().write(format!("{url}\n").as_bytes()).await?;
    Err(figures.broken().await.into())
}

fn describe() {
    metrics::describe_counter!("informant_apiserver_requests_total", "Requests.");
    metrics::describe_gauge!("informant_apiserver_version", "The version of the last change.");
    metrics::describe_gauge!("informant_apiserver_objects", "Objects of a kind.");
    metrics::describe_gauge!("informant_apiserver_watches", "Open watches of a kind.");
}

/// What is in the server now, and who follows it.
fn record(server: &ApiServer) {
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

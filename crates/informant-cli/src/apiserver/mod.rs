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
use crate::interrupt;
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

The URL is written to stdout. The server starts with the objects of a new
cluster: the namespaces default and kube-*, the Service kubernetes and a few
more. It has no access control, so it listens on loopback addresses only, and
no controllers. Ctrl-C stops it; nothing is saved. -vv logs each request.

These kubectl commands work: get, describe, apply, create -f, edit, set, label,
scale, patch, diff, wait, delete, drain; for custom resources too. Objects can
be created only in existing namespaces. Not supported: server-side apply,
explain, logs, exec, and create KIND, which sends protobuf. Instead, write
  kubectl create ns shop --dry-run=client -o yaml | kubectl create -f -

--load is a number of objects for each kind, and settings:
  rate=N         changes in a second, over all kinds [default: 0]
  namespaces=N   over how many namespaces they are spread [default: 5]

--faults is one of
  none           [default]
  some           half of the watches break after some events, one in ten has
                 expired, one in ten reads is answered with 429
  storm          every watch breaks after some events, one in ten has expired;
                 one request in ten is answered with 429, one with 503, one not
                 at all, one read only in part; one in five comes late
or rules, separated by commas: [RESOURCE/]VERB=FAULT[@CHANCE][xTIMES][+SKIPPED]
  VERB           any, read, write, list, watch, get, create, update, patch,
                 delete; the list of an informer is a watch, mostly
  CHANCE         how likely it strikes, as in @0.5 [default: always]
  TIMES          how often at most, as in x2 [default: without end]
  SKIPPED        how many requests are left alone before, as in +1
  FAULT          what happens instead of an answer, or to it:
    403, 503     any error code from 400 to 599; 429 with Retry-After: 1
    drop         the connection is closed without an answer (also refuse)
    lose-answer  the request is carried out, then the connection is closed
                 without an answer
    hang         the connection stays open without an answer
    delay:TIME   the answer comes later, as in delay:200ms
    truncate     it ends in the middle
    garbage      it is HTML
    wrong-kind   it has objects of another kind
    bad-item:FIELD    its first object has nonsense in this field; TIMES comes
                      after a CHANCE then, as in bad-item:spec@1x2
    stale:VERSIONS    it is as old as so many changes
    expire-token      a list cannot be continued: 410
    cut:EVENTS        a watch ends after so many events
    freeze:EVENTS     a watch says nothing more after so many events
    no-bookmarks      a watch has no bookmarks
    no-streaming      a list cannot be had as a watch")]
pub struct Options {
    /// Address or port; port 0 is any that is free
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = loopback_address)]
    listen: SocketAddr,
    /// Write a kubeconfig for it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    kubeconfig_out: Option<PathBuf>,
    /// Objects, and how often they change: pods=1000,rate=50
    #[arg(long, value_name = "LOAD", default_value = "", hide_default_value = true, value_hint = ValueHint::Other)]
    load: LoadPlan,
    /// What goes wrong: none, some, storm, or rules
    #[arg(long, value_name = "FAULTS", default_value = "none", value_hint = ValueHint::Other)]
    faults: Rules,
    /// Seed of load and faults
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    figures: FiguresOptions,
}

pub async fn run(options: Options, interrupt: Interrupt) -> Outcome {
    // Nobody asks it what was requested, so it need not remember.
    let server = ApiServer::builder().seed(options.seed).bootstrapped().remember_requests(1).build();
    // Whoever followed another one at this address finds that its version has expired, and lists.
    server.skip_to_version(never_before());
    server.compact();
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

/// A version that no server before has come to: none makes a change in a microsecond.
fn never_before() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_microsecond()).unwrap_or_default()
}

async fn fill_and_serve(
    options: &Options,
    server: &ApiServer,
    figures: &mut Figures,
    mut interrupt: Interrupt,
) -> Outcome {
    let makers = tokio::select! {
        makers = options.load.fill(server, options.seed) => makers?,
        () = interrupt.happened() => return Ok(ExitCode::from(interrupt::CODE)),
    };
    options.faults.break_watches(server);
    let listening = server.listen(options.listen).await?;
    let mut changing = JoinSet::new();
    for (load, rate) in makers {
        changing.spawn(load.churn_forever(rate));
    }
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
    informant_apiserver::describe_metrics();
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

//! Serves nodes and changing pods on a loopback address, for `curl`, `kubectl` and other clients.
//!
//! `cargo run -p informant-apiserver --example serve -- [--port PORT] [--seconds SECONDS]`
//!
//! Without `--port` the server uses a free port; without `--seconds` it runs until Ctrl-C.

use std::{error::Error, time::Duration};

use informant_apiserver::{ApiServer, Load};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::read(std::env::args().skip(1))?;
    let server = ApiServer::builder().bookmarks_every(Duration::from_secs(10)).build();
    Load::of("nodes", 10).fill(&server).await?;
    let mut pods = Load::of("pods", 100).nodes(10).fill(&server).await?;

    let listening = server.listen(([127, 0, 0, 1], options.port)).await?;
    let url = listening.url();
    print(&format!(
        "serving 100 pods on 10 nodes, with two changes per second; try\n  \
         curl '{url}/api/v1/namespaces/team-0/pods?limit=2'\n  \
         curl -N '{url}/api/v1/pods?watch=true&fieldSelector=spec.nodeName%3Dnode-1'\n  \
         curl -N '{url}/api/v1/pods?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true'"
    ));

    tokio::select! {
        churned = pods.churn(2.0, u64::MAX) => churned?,
        stopped = tokio::signal::ctrl_c() => stopped?,
        () = tokio::time::sleep(options.time) => {}
    }
    listening.stop().await;
    print(&format!("{} requests received", server.requests().len()));
    Ok(())
}

struct Options {
    port: u16,
    time: Duration,
}

impl Options {
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self { port: 0, time: Duration::MAX };
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
            let bad = |error| format!("{name} {value}: {error}");
            match name.as_str() {
                "--port" => options.port = value.parse().map_err(bad)?,
                "--seconds" => options.time = Duration::from_secs(value.parse().map_err(bad)?),
                other => return Err(format!("unknown option {other}; the options are --port and --seconds")),
            }
        }
        Ok(options)
    }
}

#[expect(clippy::print_stdout, reason = "the example prints its address")]
fn print(text: &str) {
    println!("{text}");
}

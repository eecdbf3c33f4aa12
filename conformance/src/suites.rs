//! The test suites that can use any server, against a real one: the conformance suite of the embedded server, and the scenarios of the
//! library.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};

use crate::{
    process::Process,
    servers::{ADMIN_TOKEN, ApiServer, Authority, Etcd, Folders, GarbageCollector},
};

/// Runs the suites, and returns how many tests passed.
pub async fn run(programs: &Path, case: &Path, streams_lists: bool) -> Result<String> {
    let folders = Folders::create(programs, case)?;
    let etcd = Etcd::start(&folders).await?;
    let flags: &[&str] = if streams_lists { &[] } else { &["--feature-gates=WatchList=false"] };
    let authority = Authority::new("conformance")?;
    let server = ApiServer::start("kube-apiserver", &folders, &authority, &etcd, flags).await?;
    let _collector = GarbageCollector::start(&folders, &server, &authority)?;

    let url = format!("INFORMANT_CONFORMANCE_URL=https://{}", server.address());
    let token = format!("INFORMANT_CONFORMANCE_TOKEN={ADMIN_TOKEN}");
    let before = etcd.revision().await?;
    // The whole workspace, so that nothing is compiled again with other features after `cargo test --workspace`.
    let tests = [
        "cargo",
        "test",
        "--workspace",
        "--no-fail-fast",
        "--test",
        "it",
        "--",
        "conformance::",
        "scenarios::",
        "--skip",
        "in_process",
    ];
    let collects = "INFORMANT_CONFORMANCE_COLLECTS=yes";
    let arguments: Vec<_> = [&*url, &*token, collects].into_iter().chain(tests).map(str::to_owned).collect();
    let log = case.join("suites.log");
    let outcome = Process::start(Path::new("env"), &arguments, &log)?.succeed().await;

    let text = fs::read_to_string(&log)?;
    let failed: Vec<_> = text.lines().filter(|line| line.ends_with("... FAILED")).collect();
    outcome.with_context(|| failed.join("\n"))?;
    let results = text.lines().filter_map(|line| line.strip_prefix("test result: ok. "));
    let passed: u32 = results.filter_map(|line| line.split(' ').next()?.parse::<u32>().ok()).sum();
    if passed == 0 || etcd.revision().await? < before + u64::from(passed) {
        bail!("the tests did not use the server; see {}", log.display());
    }
    Ok(format!("{passed} tests"))
}

//! The test suites that can use any server, against a real one: the conformance suite of the embedded server, and the scenarios of the
//! library.

use std::{fs, path::Path, process::Stdio};

use anyhow::{Context, Result, bail};
use tokio::process::Command;

use crate::{
    process::tail,
    servers::{ADMIN_TOKEN, ApiServer, Authority, Etcd, Folders},
};

/// Runs the suites, and returns how many tests passed.
pub async fn run(programs: &Path, case: &Path, streams_lists: bool) -> Result<String> {
    let _ = fs::remove_dir_all(case);
    fs::create_dir_all(case)?;
    let folders = Folders { programs: programs.to_owned(), case: case.to_owned() };
    let etcd = Etcd::start(&folders).await?;
    let flags: &[&str] = if streams_lists { &[] } else { &["--feature-gates=WatchList=false"] };
    let server = ApiServer::start("kube-apiserver", &folders, &Authority::new("conformance")?, &etcd, flags).await?;

    let log = case.join("suites.log");
    let output = fs::File::create(&log)?;
    let mut command = Command::new("cargo");
    // The whole workspace, so that nothing is compiled again with other features after `cargo test --workspace`.
    command.args(["test", "--workspace", "--test", "it", "--", "conformance::", "scenarios::"]);
    command.env("INFORMANT_CONFORMANCE_URL", format!("https://{}", server.address()));
    command.env("INFORMANT_CONFORMANCE_TOKEN", ADMIN_TOKEN);
    command.env("PATH", with_programs(programs)?);
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).kill_on_drop(true);
    let status = command.status().await.context("starting cargo")?;
    let text = fs::read_to_string(&log)?;
    if !status.success() {
        let failed: Vec<_> = text.lines().filter(|line| line.ends_with("... FAILED")).collect();
        bail!("{}\n{}", failed.join("\n"), tail(&log, 30));
    }
    let results = text.lines().filter_map(|line| line.strip_prefix("test result: ok. "));
    let passed: u32 = results.filter_map(|line| line.split(' ').next()?.parse::<u32>().ok()).sum();
    if passed == 0 {
        bail!("no test ran; see {}", log.display());
    }
    Ok(format!("{passed} tests"))
}

/// The search path with the built programs first: a test runs kubectl.
fn with_programs(programs: &Path) -> Result<std::ffi::OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(programs.to_owned()).chain(std::env::split_paths(&path));
    Ok(std::env::join_paths(folders)?)
}

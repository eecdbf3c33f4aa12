//! The command behind `conformance/run`; see the library of this crate.

#[cfg(target_os = "linux")]
#[tokio::main]
async fn main() -> std::process::ExitCode {
    informant_conformance::run().await
}

#[cfg(not(target_os = "linux"))]
fn main() {
    panic!("conformance/run needs Linux: it stops, kills and measures processes");
}

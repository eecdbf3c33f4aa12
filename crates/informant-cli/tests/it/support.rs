//! Runs the binary, and an API server for it, and reads their output.

use std::{
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::{
        mpsc,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use informant_apiserver::{ApiServer, CannedResponse, Fault, Listening, On};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};

/// The limit for anything that a test waits for; a test that reaches it fails.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Environment variables that would change the result of a test.
pub const CLEARED_VARIABLES: [&str; 5] =
    ["KUBECONFIG", "KUBERNETES_SERVICE_HOST", "NO_COLOR", "CLICOLOR_FORCE", "CLICOLOR"];

/// The command, without a configured cluster.
pub fn informant() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_informant"));
    for name in CLEARED_VARIABLES {
        command.env_remove(name);
    }
    command.env("HOME", missing_folder());
    command
}

/// A folder that does not exist.
pub fn missing_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("nowhere")
}

/// The path of a file for one test, which does not exist yet.
pub fn fresh_file(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs a command until it ends.
pub fn run(arguments: &[&str]) -> Output {
    Running::start(arguments).output()
}

/// Runs a command that succeeds without messages on stderr; returns its stdout.
pub fn stdout_of(arguments: &[&str]) -> String {
    let output = run(arguments);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    // On a slow machine, progress messages are printed.
    let slow = [" is syncing: ", "not synced", "has not listed its kinds yet"];
    let mut messages = stderr.lines().filter(|line| !slow.iter().any(|text| line.contains(text)));
    assert!(output.status.success() && messages.next().is_none(), "{arguments:?}: {stdout}{stderr}");
    stdout
}

/// An object with a number that is out of range.
pub const UNPRINTABLE: &str = r#"{"metadata":{"namespace":"default","name":"a"},"data":{"n":1e400}}"#;

/// A server whose every list has these objects, given as JSON.
pub async fn lists(objects: &str) -> Listening {
    let server = ApiServer::new();
    let list =
        format!(r#"{{"kind":"List","apiVersion":"v1","metadata":{{"resourceVersion":"1"}},"items":[{objects}]}}"#);
    server.inject(On::watch_list(), Fault::WatchListRefused);
    server.inject(On::list(), Fault::Response(CannedResponse::new(200, list)));
    server.listen(([127, 0, 0, 1], 0)).await.unwrap()
}

/// A running command, read line by line. Dropping this ends the process.
pub struct Running {
    child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

impl Running {
    pub fn start(arguments: &[&str]) -> Self {
        Self::spawn(informant().args(arguments))
    }

    pub fn spawn(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        Self { child, stdout: lines(stdout), stderr: lines(stderr) }
    }

    /// The next line of stdout.
    pub fn line(&self) -> String {
        self.stdout.recv_timeout(TIMEOUT).expect("one more line")
    }

    /// The next line of stdout, parsed as JSON.
    pub fn event(&self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    /// The next line of stderr.
    pub fn stderr_line(&self) -> String {
        self.stderr.recv_timeout(TIMEOUT).expect("one more line")
    }

    /// Reads lines of stderr until one contains the text.
    pub fn wait_for_message(&self, text: &str) {
        while !self.stderr_line().contains(text) {}
    }

    /// The remaining lines of stdout.
    pub fn rest(&self) -> Vec<String> {
        rest(&self.stdout)
    }

    /// Waits for the process to end; returns the remaining output.
    pub fn output(mut self) -> Output {
        let bytes = |lines: Vec<String>| lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect();
        let (stdout, stderr) = (bytes(rest(&self.stdout)), bytes(rest(&self.stderr)));
        Output { status: self.wait(), stdout, stderr }
    }

    #[cfg(unix)]
    pub fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([format!("-{signal}"), id]).status().unwrap().success());
    }

    /// Waits for the process to end.
    pub fn wait(&mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(started.elapsed() < TIMEOUT, "the process has not ended");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends the process with SIGKILL, as if the machine had failed.
    pub fn kill(&mut self) {
        // The process may have ended before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

fn rest(lines: &Receiver<String>) -> Vec<String> {
    let next = || match lines.recv_timeout(TIMEOUT) {
        Ok(line) => Some(line),
        Err(RecvTimeoutError::Disconnected) => None,
        Err(RecvTimeoutError::Timeout) => panic!("the process has not ended"),
    };
    std::iter::from_fn(next).collect()
}

/// Reads lines in a thread, which ends at the end of the stream.
fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

/// A running `informant apiserver`, and a client that changes its objects.
pub struct Server {
    pub running: Running,
    pub url: String,
    client: Client,
}

impl Server {
    /// Starts the server. Must be called within a tokio runtime.
    pub fn start(arguments: &[&str]) -> Self {
        let running = Running::start(&[&["apiserver"], arguments].concat());
        let url = running.line();
        let client = Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap();
        Self { running, url, client }
    }

    pub fn configs(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), "shop")
    }

    pub fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), "shop")
    }

    /// Creates or replaces a config map in the namespace `shop`.
    pub async fn put(&self, name: &str, data: Value) {
        self.put_labelled(name, json!({}), data).await;
    }

    pub async fn put_labelled(&self, name: &str, labels: Value, data: Value) {
        let config = json!({"metadata": {"name": name, "labels": labels}, "data": data});
        let config: ConfigMap = serde_json::from_value(config).unwrap();
        match self.configs().get_opt(name).await.unwrap() {
            Some(_) => self.configs().replace(name, &PostParams::default(), &config).await.unwrap(),
            None => {
                self.create_shop().await;
                self.configs().create(&PostParams::default(), &config).await.unwrap()
            }
        };
    }

    /// Creates the namespace `shop`, if it does not exist.
    pub async fn create_shop(&self) {
        let namespaces: Api<Namespace> = Api::all(self.configs().into_client());
        if namespaces.get_opt("shop").await.unwrap().is_none() {
            let shop = serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap();
            namespaces.create(&PostParams::default(), &shop).await.unwrap();
        }
    }

    pub async fn delete(&self, name: &str) {
        self.configs().delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Starts `informant watch`.
    pub fn watch(&self, arguments: &[&str]) -> Running {
        Running::start(&[&["watch", "--server", &self.url], arguments].concat())
    }

    /// Runs a command that succeeds; returns its stdout.
    pub fn stdout_of(&self, arguments: &[&str]) -> String {
        stdout_of(&[arguments, &["--server", &self.url]].concat())
    }
}

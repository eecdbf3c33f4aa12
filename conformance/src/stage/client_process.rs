//! The client process as the tests see it: questions, signals, and the resources that it uses.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use rustix::process::Signal;
use serde::de::DeserializeOwned;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{ChildStdin, ChildStdout},
};

use crate::{
    process::{Process, Usage, tail},
    protocol::{Contents, Question, Report},
    servers::Folders,
};

/// A running client.
pub struct ClientProcess {
    process: Process,
    questions: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    log: PathBuf,
}

impl ClientProcess {
    pub fn start(folders: &Folders, kubeconfig: &Path, history_may_change: bool) -> Result<Self> {
        let log = folders.case.join("client.log");
        let mut arguments = vec![kubeconfig.display().to_string()];
        if history_may_change {
            arguments.push("--history-may-change".into());
        }
        let mut process = Process::start_part("client", &arguments, &log)?;
        let (questions, answers) = process.take_pipes()?;
        Ok(Self { process, questions, answers: BufReader::new(answers).lines(), log })
    }

    pub async fn report(&mut self) -> Result<Report> {
        self.ask(&Question::Report).await
    }

    /// The contents of an informer's cache, then of each of its handlers.
    pub async fn contents(&mut self, informer: &str) -> Result<Vec<Contents>> {
        self.ask(&Question::Contents(informer.to_owned())).await
    }

    async fn ask<T: DeserializeOwned>(&mut self, question: &Question) -> Result<T> {
        let line = format!("{}\n", serde_json::to_string(question)?);
        let answer = tokio::time::timeout(Duration::from_secs(30), async {
            self.questions.write_all(line.as_bytes()).await?;
            self.answers.next_line().await
        });
        let ended = || format!("the client ended; its log ends with:\n{}", tail(&self.log, 15));
        let answer = answer.await.context("the client did not answer within 30 s")?;
        let answer = answer.with_context(ended)?.with_context(ended)?;
        Ok(serde_json::from_str(&answer)?)
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.process.signal(signal)
    }

    pub fn usage(&self) -> Result<Usage> {
        self.process.usage()
    }

    /// The client's log so far.
    pub fn log(&self) -> Result<String> {
        Ok(std::fs::read_to_string(&self.log)?)
    }

    /// Stops the client's informers, waits until the process has ended, and returns its log.
    pub async fn stop(self) -> Result<String> {
        drop(self.questions);
        let stopped = tokio::time::timeout(Duration::from_secs(30), self.process.succeed()).await;
        stopped.context("the client did not stop within 30 s")??;
        Ok(std::fs::read_to_string(&self.log)?)
    }
}

//! The real servers: etcd, kube-apiserver and the garbage collector, as processes on loopback.

mod apiserver;
mod certificates;
mod controllers;
mod etcd;

use std::{
    fs,
    io::ErrorKind,
    net::TcpListener,
    path::{Path, PathBuf},
};

use anyhow::Result;

pub use self::{
    apiserver::{ADMIN_TOKEN, ApiServer},
    certificates::{Authority, Certificate},
    controllers::GarbageCollector,
    etcd::Etcd,
};

/// Where the programs are, and where the servers of one case keep their data and logs.
#[derive(Clone, Debug)]
pub struct Folders {
    pub programs: PathBuf,
    pub case: PathBuf,
}

impl Folders {
    /// Creates an empty folder for a case.
    pub fn create(programs: &Path, case: &Path) -> Result<Self> {
        match fs::remove_dir_all(case) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
        fs::create_dir_all(case)?;
        Ok(Self { programs: programs.to_owned(), case: case.to_owned() })
    }
}

/// A loopback port that is free at this moment. Another process may take it before it is used: callers try again.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

//! The listener: HTTP/1.1 on a loopback address.
//!
//! - **In:** a loopback address; TCP connections.
//! - **Out:** requests to the [`ApiService`]. One task accepts connections, and owns one task per connection.
//! - **Knows nothing of:** the content of requests.

use std::{io, net::SocketAddr, time::Duration};

use hyper::server::conn::http1;
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::{JoinHandle, JoinSet},
};
use tracing::{debug, info, warn};

use crate::http::service::{ApiService, Connection};

/// The error of [`ApiServer::listen`](crate::ApiServer::listen).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The address is not a loopback address. The server has no access control, so other machines must not reach it.
    #[error(
        "cannot listen on {0}, which is not a loopback address: this server has no access control; use 127.0.0.1 or ::1"
    )]
    NotLoopback(SocketAddr),

    /// The operating system cannot bind the address.
    #[error("cannot listen on {address}; stop the program that uses the port, or choose port 0 for a free one")]
    Bind {
        /// The requested address.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// A listening server. Created by [`ApiServer::listen`](crate::ApiServer::listen).
///
/// Dropping it closes the socket and all connections without waiting; [`stop`](Self::stop) also waits until they are closed.
#[derive(Debug)]
pub struct Listening {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Listening {
    /// Returns the address, with the port that the server uses.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of the server, such as `http://127.0.0.1:41234`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Closes the socket and all connections, and waits until they are closed. The server keeps its objects and can listen
    /// again.
    pub async fn stop(self) {
        // Both fail only if the task has already ended.
        let _ = self.stop.send(());
        let _ = self.task.await;
    }
}

pub(crate) async fn listen(service: ApiService, address: SocketAddr) -> Result<Listening, ListenError> {
    if !address.ip().is_loopback() {
        return Err(ListenError::NotLoopback(address));
    }
    let bind = async {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    let (listener, address) = bind.await.map_err(|source| ListenError::Bind { address, source })?;
    info!(%address, "listening");
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(accept(listener, service, stopped));
    Ok(Listening { address, stop, task })
}

/// Accepts connections until the handle is stopped or dropped, then ends all connections.
async fn accept(listener: TcpListener, service: ApiService, mut stopped: oneshot::Receiver<()>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((connection, _)) => {
                    connections.spawn(serve(connection, service.clone()));
                }
                Err(error) => {
                    // Usually too many open files: wait for other connections to end.
                    warn!(error = &error as &dyn std::error::Error, "accepting a connection failed; retrying");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
        }
    }
    connections.shutdown().await;
}

async fn serve(connection: TcpStream, service: ApiService) {
    // Without this, TCP delays small events.
    let _ = connection.set_nodelay(true);
    let state = Connection::default();
    let served = http1::Builder::new()
        // Connections may be idle for any time, also when a paused tokio clock advances.
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(connection), TowerToHyperService::new(service.on(state.clone())));
    tokio::select! {
        served = served => if let Err(error) = served {
            debug!(error = &error as &dyn std::error::Error, "connection failed");
        },
        () = stuck(&state) => debug!("connection closed: its watch has ended, but the client does not read"),
    }
}

/// Waits until the connection's watch should end but was not read for a second. Its client does not read, so the stream
/// cannot end by itself.
async fn stuck(connection: &Connection) {
    let mut before = None;
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = connection.overdue_reads();
        if now.is_some() && now == before {
            return;
        }
        before = now;
    }
}

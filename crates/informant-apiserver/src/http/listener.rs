//! The socket: HTTP/1.1 on a loopback address.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::task::JoinSet;
use tracing::debug;
use tracing::info;
use tracing::warn;

use crate::http::service::ApiService;
use crate::http::service::Connection;

/// Why the server does not listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Other machines could reach it, and it lets everybody do everything.
    #[error("{0} is not a loopback address; this server has no access control, so listen on 127.0.0.1 or ::1")]
    NotLoopback(SocketAddr),

    /// The address cannot be had.
    #[error("cannot listen on {address}; is something else there?")]
    Bind {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

/// A server that listens, until this is stopped or dropped.
#[derive(Debug)]
pub struct Listening {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Listening {
    /// The address, with the port that was chosen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://` and the address.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Closes the socket and all connections, and waits until that is done. The objects stay, and the server can listen
    /// again.
    pub async fn stop(self) {
        // A task that is gone needs no telling, and its end is what we wait for.
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

/// Accepts until it is told to stop or its handle is dropped; the connections end with it.
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
                    // Out of file descriptors, mostly: others may end meanwhile.
                    warn!(error = &error as &dyn std::error::Error, "connection not accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
        }
    }
    connections.shutdown().await;
}

async fn serve(connection: TcpStream, service: ApiService) {
    // Events are small and must not wait for company.
    let _ = connection.set_nodelay(true);
    let state = Connection::default();
    let served = http1::Builder::new()
        // A connection may idle as long as its client likes, also while tokio's clock runs ahead.
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(connection), TowerToHyperService::new(service.on(state.clone())));
    tokio::select! {
        served = served => if let Err(error) = served {
            debug!(error = &error as &dyn std::error::Error, "connection ended");
        },
        () = stuck(&state) => debug!("a client that does not read was cut off"),
    }
}

/// Waits until the connection's watch has a reason to end but was not read for a while: its client does not read, so the
/// stream cannot end by itself.
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

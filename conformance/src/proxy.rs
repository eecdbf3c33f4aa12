//! The proxy between the client and the servers: a load balancer with faults.
//!
//! - **In:** TLS connections of the client on a loopback port.
//! - **Out:** one connection to the current server for each of them, or a fault.
//! - **Knows nothing of:** informers; kinds of objects.
//!
//! Each connection of the client has its own connection to a server, and ends with it.

use std::{
    collections::HashSet,
    convert::Infallible,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use futures_util::{future, stream};
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Bytes, Frame, Incoming},
    client::conn::http1::SendRequest,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Mutex, watch},
    task::JoinSet,
};
use tokio_rustls::{TlsAcceptor, TlsConnector, rustls::pki_types::ServerName};

/// A running proxy. It stops when it is dropped.
pub struct Proxy {
    address: SocketAddr,
    settings: watch::Sender<Settings>,
    shared: Shared,
    _task: JoinSet<()>,
}

/// How the proxy treats connections and requests.
#[derive(Clone)]
pub struct Settings {
    /// The server that new connections go to.
    pub server: SocketAddr,
    /// New connections are accepted and wait.
    pub holds_new_connections: bool,
    /// When a server ends a connection, the client's part stays open.
    pub keeps_broken_connections: bool,
    /// Watches lose all events but bookmarks.
    pub loses_events: bool,
    /// What requests get instead of the server's answer.
    pub answer: Option<Answer>,
    /// The proxy's certificate.
    pub acceptor: TlsAcceptor,
    /// How often all connections were cut.
    cuts: u64,
}

/// A fault in the answer to a request.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// An error of the API, with `Retry-After: 1` if it is 429.
    Status(u16),
    /// None at all, even after the fault has ended.
    Hang,
    /// The server's answer, after a delay.
    Delay(Duration),
}

/// What all connections share.
#[derive(Clone)]
struct Shared {
    settings: watch::Receiver<Settings>,
    connector: TlsConnector,
    requests: Arc<AtomicU64>,
    relists: Arc<parking_lot::Mutex<Option<Relists>>>,
}

/// Which informers had to list again, by the path and the selectors of their requests.
#[derive(Default)]
struct Relists {
    expired: HashSet<String>,
    relisted: HashSet<String>,
}

type Body = UnsyncBoxBody<Bytes, hyper::Error>;

impl Proxy {
    pub async fn start(server: SocketAddr, acceptor: TlsAcceptor, connector: TlsConnector) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let settings = Settings {
            server,
            holds_new_connections: false,
            keeps_broken_connections: false,
            loses_events: false,
            answer: None,
            acceptor,
            cuts: 0,
        };
        let (settings, receiver) = watch::channel(settings);
        let shared = Shared { settings: receiver, connector, requests: Arc::default(), relists: Arc::default() };
        let mut task = JoinSet::new();
        task.spawn(accept(listener, shared.clone()));
        Ok(Self { address, settings, shared, _task: task })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of requests that the client has sent.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::Relaxed)
    }

    /// Changes the settings. Open connections and requests that wait for an answer go on.
    pub fn set(&self, change: impl FnOnce(&mut Settings)) {
        self.settings.send_modify(change);
    }

    /// Answers the next resumed watch of each informer with 410, so that it lists.
    pub fn expire_watches(&self) {
        *self.shared.relists.lock() = Some(Relists::default());
    }

    /// The number of informers that have listed since their watch expired.
    pub fn relisted(&self) -> usize {
        self.shared.relists.lock().as_ref().map_or(0, |relists| relists.relisted.len())
    }

    /// Cuts all connections, also those that are held.
    pub fn cut(&self) {
        self.set(|settings| settings.cuts += 1);
    }
}

impl Relists {
    fn must_expire(&mut self, request: &Request<Incoming>) -> bool {
        let query = request.uri().query().unwrap_or_default();
        let selectors = query.split('&').filter(|pair| pair.contains("Selector="));
        let informer = std::iter::once(request.uri().path()).chain(selectors).collect();
        let resumes = query.contains("watch=true") && !query.contains("sendInitialEvents=true");
        if resumes {
            return self.expired.insert(informer);
        }
        if self.expired.contains(&informer) {
            self.relisted.insert(informer);
        }
        false
    }
}

async fn accept(listener: TcpListener, shared: Shared) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((client, _)) = accepted {
                let shared = shared.clone();
                connections.spawn(async move {
                    let mut settings = shared.settings.clone();
                    let cuts = settings.borrow().cuts;
                    tokio::select! {
                        // An error ends the connection, which is all that the client notices of it.
                        _ = serve(client, shared) => {}
                        _ = settings.wait_for(|settings| settings.cuts != cuts) => {}
                    }
                });
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(client: TcpStream, shared: Shared) -> Result<()> {
    let mut settings = shared.settings.clone();
    let current = settings.wait_for(|settings| !settings.holds_new_connections).await?.clone();
    let (server, server_connection) = match connect(&shared.connector, current.server).await {
        Err(_) if current.keeps_broken_connections => future::pending().await,
        connected => connected?,
    };
    let server = Mutex::new(server);
    let client = TokioIo::new(current.acceptor.accept(client).await?);
    let service = service_fn(|request| answer(request, &server, &shared));
    let mut connection = pin!(hyper::server::conn::http1::Builder::new().serve_connection(client, service));
    tokio::select! {
        served = connection.as_mut() => return Ok(served?),
        _ = server_connection => {}
    }
    if !settings.borrow().keeps_broken_connections {
        connection.as_mut().graceful_shutdown();
    }
    Ok(connection.await?)
}

/// Opens a connection to a server: where requests are sent, and the future that transfers them.
async fn connect(
    connector: &TlsConnector,
    server: SocketAddr,
) -> Result<(SendRequest<Incoming>, impl Future<Output = Result<(), hyper::Error>>)> {
    let stream = TcpStream::connect(server).await?;
    let stream = connector.connect(ServerName::try_from("127.0.0.1")?, stream).await?;
    Ok(hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?)
}

/// Answers one request of the client; an error closes its connection.
async fn answer(
    request: Request<Incoming>,
    server: &Mutex<SendRequest<Incoming>>,
    shared: &Shared,
) -> Result<Response<Body>> {
    shared.requests.fetch_add(1, Ordering::Relaxed);
    let fault = shared.settings.borrow().answer;
    match fault {
        Some(Answer::Status(code)) => return Ok(refusal(code)?),
        Some(Answer::Hang) => future::pending().await,
        Some(Answer::Delay(delay)) => tokio::time::sleep(delay).await,
        None => {}
    }
    if shared.relists.lock().as_mut().is_some_and(|relists| relists.must_expire(&request)) {
        return Ok(refusal(410)?);
    }
    let mut server = server.lock().await;
    let answered = async {
        server.ready().await?;
        server.send_request(request).await
    };
    let keeps = || shared.settings.borrow().keeps_broken_connections;
    let response = match answered.await {
        Ok(response) => response,
        Err(_) if keeps() => future::pending().await,
        Err(error) => return Err(error.into()),
    };
    let (head, body) = response.into_parts();
    Ok(Response::from_parts(head, forward(body, shared.clone())))
}

/// The server's body, without the events that are lost; if the server breaks it off while connections are kept, it never ends.
fn forward(body: Incoming, shared: Shared) -> Body {
    let frames = stream::unfold(body, move |mut body| {
        let settings = shared.settings.clone();
        async move {
            loop {
                let frame = body.frame().await?;
                if frame.is_err() && settings.borrow().keeps_broken_connections {
                    future::pending::<Infallible>().await;
                }
                let is_lost = settings.borrow().loses_events && frame.as_ref().is_ok_and(is_event);
                if !is_lost {
                    return Some((frame, body));
                }
            }
        }
    });
    BodyExt::boxed_unsync(StreamBody::new(Box::pin(frames)))
}

/// Returns true for a watch event that is not a bookmark. The server sends each event as one frame.
fn is_event(frame: &Frame<Bytes>) -> bool {
    frame.data_ref().is_some_and(|data| {
        data.starts_with(br#"{"type":"#) && data.ends_with(b"\n") && !data.starts_with(br#"{"type":"BOOKMARK"#)
    })
}

/// The API's answer for an error.
fn refusal(code: u16) -> Result<Response<Body>, http::Error> {
    let status = serde_json::json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "the proxy of the test refuses this request",
        "reason": reason(code),
        "code": code,
    });
    let mut response =
        Response::builder().status(StatusCode::from_u16(code)?).header(header::CONTENT_TYPE, "application/json");
    if code == 429 {
        response = response.header(header::RETRY_AFTER, "1");
    }
    response.body(Full::from(status.to_string()).map_err(|never: Infallible| match never {}).boxed_unsync())
}

fn reason(code: u16) -> &'static str {
    match code {
        401 => "Unauthorized",
        403 => "Forbidden",
        410 => "Expired",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "Unknown",
    }
}

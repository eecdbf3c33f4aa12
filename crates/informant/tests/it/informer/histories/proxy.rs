//! A load balancer between the client and its servers.

use std::io;

use futures_util::{
    StreamExt,
    future::{Either, select},
    stream,
};
use http::Request;
use http_body_util::{BodyStream, StreamBody};
use informant_apiserver::ApiServer;
use kube::client::{Body, Client};
use tokio::sync::watch;
use tower::{Service, service_fn};

/// Passes requests on to a server.
pub(crate) struct Proxy {
    state: watch::Sender<ProxyState>,
}

pub(crate) struct ProxyState {
    /// The server of new requests.
    pub(crate) server: ApiServer,
    /// True while new requests wait.
    pub(crate) holds: bool,
    /// True while connections that the server broke stay open, and silent, for the client.
    pub(crate) keeps: bool,
    /// How often all connections were cut.
    cuts: u64,
}

impl Proxy {
    pub(crate) fn new(server: ApiServer) -> Self {
        Self { state: watch::Sender::new(ProxyState { server, holds: false, keeps: false, cuts: 0 }) }
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut ProxyState)) {
        self.state.send_modify(change);
    }

    /// Breaks all connections, also those that the server broke before.
    pub(crate) fn cut(&self) {
        self.set(|state| state.cuts += 1);
    }

    pub(crate) fn client(&self) -> Client {
        let state = self.state.subscribe();
        let service = service_fn(move |request: Request<Body>| {
            let mut state = state.clone();
            async move {
                let _ = state.wait_for(|state| !state.holds).await;
                let (mut server, cuts) = {
                    let state = state.borrow();
                    (state.server.service(), state.cuts)
                };
                let response = match select(server.call(request), Box::pin(cut_after(&mut state, cuts))).await {
                    Either::Left((response, _)) => response?,
                    Either::Right(_) => return Err(reset()),
                };
                Ok::<_, io::Error>(response.map(|body| {
                    let connection = (BodyStream::new(body), state);
                    StreamBody::new(stream::unfold(connection, move |(mut body, mut state)| async move {
                        let next = match select(body.next(), Box::pin(cut_after(&mut state, cuts))).await {
                            Either::Left((next, _)) => next?,
                            Either::Right(_) => Err(reset()),
                        };
                        if next.is_err() {
                            let _ = state.wait_for(|state| !state.keeps || state.cuts > cuts).await;
                        }
                        Some((next, (body, state)))
                    }))
                }))
            }
        });
        Client::new(service, "default")
    }
}

/// Waits for the next cut after this number of cuts.
async fn cut_after(state: &mut watch::Receiver<ProxyState>, cuts: u64) {
    let _ = state.wait_for(|state| state.cuts > cuts).await;
}

fn reset() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}

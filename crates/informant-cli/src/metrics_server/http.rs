//! Answers HTTP requests for `/metrics`, `/healthz` and `/readyz`.

use std::{convert::Infallible, time::Duration};

use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{ALLOW, CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpListener, sync::watch, task::JoinSet};

use super::Pages;

/// How long a client may take to send the head of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves requests until the sender of `running` is dropped; then closes all connections.
pub(super) async fn serve(listener: TcpListener, pages: Pages, mut running: watch::Receiver<()>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((connection, _)) => {
                    let pages = pages.clone();
                    let service = service_fn(move |request| {
                        let answer = answer(&request, &pages);
                        async move { Ok::<_, Infallible>(answer) }
                    });
                    let mut served = http1::Builder::new();
                    served.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
                    connections.spawn(served.serve_connection(TokioIo::new(connection), service));
                }
                // Usually too many open files; a connection may close in the meantime.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            // A connection that ends with an error needs no action.
            Some(_) = connections.join_next() => {}
            _ = running.changed() => break,
        }
    }
    connections.shutdown().await;
}

fn answer(request: &Request<Incoming>, pages: &Pages) -> Response<Full<Bytes>> {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut refused = page(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET and HEAD are supported\n".to_owned());
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    match request.uri().path() {
        "/metrics" => {
            if let Some(command) = pages.command.get() {
                (command.refresh)();
            }
            page(StatusCode::OK, PROMETHEUS, pages.recorded.render())
        }
        "/healthz" => page(StatusCode::OK, PLAIN, "ok\n".to_owned()),
        "/readyz" => {
            let starting = || Some("the command is starting".to_owned());
            let reason = pages.command.get().map_or_else(starting, |command| (command.not_ready_reason)());
            match reason {
                None => page(StatusCode::OK, PLAIN, "ok\n".to_owned()),
                Some(reason) => page(StatusCode::SERVICE_UNAVAILABLE, PLAIN, format!("{reason}\n")),
            }
        }
        _ => page(StatusCode::NOT_FOUND, PLAIN, "not found; the pages are /metrics, /healthz and /readyz\n".to_owned()),
    }
}

const PLAIN: &str = "text/plain; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

fn page(status: StatusCode, content_type: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use metrics_exporter_prometheus::PrometheusBuilder;
    use tokio::{io::AsyncReadExt, net::TcpStream, time::Instant};

    use super::*;

    /// Time is paused: it advances when all tasks are idle.
    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_request_is_closed_after_a_timeout() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let recorded = PrometheusBuilder::new().build_recorder().handle();
        let running = watch::Sender::default();
        let pages = Pages { recorded, command: Arc::default() };
        let serving = tokio::spawn(serve(listener, pages, running.subscribe()));
        let connected = Instant::now();

        let mut connection = TcpStream::connect(address).await.unwrap();
        // The connection may end with or without an error.
        let _ = connection.read_to_end(&mut Vec::new()).await;

        assert!((HEADER_TIMEOUT..2 * HEADER_TIMEOUT).contains(&connected.elapsed()), "{:?}", connected.elapsed());
        drop(running);
        serving.await.unwrap();
    }
}

//! The HTTP server: three pages.

use std::convert::Infallible;
use std::time::Duration;

use http_body_util::Full;
use hyper::Method;
use hyper::Request;
use hyper::Response;
use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::body::Incoming;
use hyper::header::ALLOW;
use hyper::header::CONTENT_TYPE;
use hyper::header::HeaderValue;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::rt::TokioTimer;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Answers;

/// How long a client may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(10);

/// Answers as long as it is to run; the connections end with it.
pub(super) async fn serve(listener: TcpListener, answers: Answers, mut running: watch::Receiver<()>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((connection, _)) => {
                    let answers = answers.clone();
                    let service = service_fn(move |request| {
                        let answer = answer(&request, &answers);
                        async move { Ok::<_, Infallible>(answer) }
                    });
                    let mut served = http1::Builder::new();
                    served.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
                    connections.spawn(served.serve_connection(TokioIo::new(connection), service));
                }
                // Out of file descriptors, mostly: others may end meanwhile.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            // How a connection ended is nobody's business.
            Some(_) = connections.join_next() => {}
            _ = running.changed() => break,
        }
    }
    connections.shutdown().await;
}

fn answer(request: &Request<Incoming>, answers: &Answers) -> Response<Full<Bytes>> {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut refused = page(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET and HEAD\n".to_owned());
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    match request.uri().path() {
        "/metrics" => {
            if let Some(subject) = answers.subject.get() {
                (subject.refresh)();
            }
            page(StatusCode::OK, PROMETHEUS, answers.recorded.render())
        }
        "/healthz" => page(StatusCode::OK, PLAIN, "ok\n".to_owned()),
        "/readyz" => {
            let trouble =
                answers.subject.get().map_or_else(|| Some("it starts".to_owned()), |subject| (subject.trouble)());
            match trouble {
                None => page(StatusCode::OK, PLAIN, "ok\n".to_owned()),
                Some(trouble) => page(StatusCode::SERVICE_UNAVAILABLE, PLAIN, format!("{trouble}\n")),
            }
        }
        _ => page(StatusCode::NOT_FOUND, PLAIN, "there are /metrics, /healthz and /readyz\n".to_owned()),
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
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpStream;
    use tokio::time::Instant;

    use super::*;

    /// Time is paused: it passes when nobody has anything to do.
    #[tokio::test(start_paused = true)]
    async fn whoever_connects_and_says_nothing_is_let_go() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let recorded = PrometheusBuilder::new().build_recorder().handle();
        let running = watch::Sender::default();
        let answers = Answers { recorded, subject: Arc::default() };
        let serving = tokio::spawn(serve(listener, answers, running.subscribe()));
        let connected = Instant::now();

        let mut connection = TcpStream::connect(address).await.unwrap();
        // However it ends, it ends.
        let _ = connection.read_to_end(&mut Vec::new()).await;

        assert!((PATIENCE..2 * PATIENCE).contains(&connected.elapsed()), "{:?}", connected.elapsed());
        drop(running);
        serving.await.unwrap();
    }
}

//! [`ApiService`], the `tower` service that in-process clients and the listener call.
//!
//! - **In:** HTTP requests.
//! - **Out:** HTTP responses, after injected faults were applied; entries in the request log and the metrics.
//! - **Knows nothing of:** sockets, the rules of objects.

use std::{
    convert::Infallible,
    future::Future,
    io,
    ops::ControlFlow,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll},
};

use bytes::{Buf, Bytes};
use futures_util::StreamExt;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use metrics::counter;
use parking_lot::Mutex;
use tower_service::Service;
use tracing::debug;

use crate::{
    error::ApiError,
    faults::{
        Fault, GzipMode,
        body::FaultyBody,
        intercept,
        intercept::Interceptor,
        orders::Orders,
        plan::Hits,
        wire::{Shape, Wire},
    },
    http::{ResponseBody, answer::Answer, handle::Call, request::ApiRequest},
    log::LoggedRequest,
    shared::Shared,
    watch::stream::WatchPlace,
};

/// The server as a `tower` service. Created by [`ApiServer::service`](crate::ApiServer::service).
///
/// It uses no socket, thread or task, so it also works while tokio's clock is paused.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use informant_apiserver::ApiServer;
/// use kube::Client;
///
/// let client = Client::new(ApiServer::new().service(), "shop"); // default namespace: shop
/// assert_eq!(client.apiserver_version().await?.major, "1");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ApiService {
    shared: Arc<Shared>,
    /// The TCP connection of the requests; `None` in-process.
    connection: Option<Connection>,
}

/// The watch that a TCP connection serves, if any.
#[derive(Clone, Default)]
pub(crate) struct Connection {
    watch: Arc<Mutex<Weak<WatchPlace>>>,
}

impl Connection {
    pub(crate) fn serves(&self, watch: &Arc<WatchPlace>) {
        *self.watch.lock() = Arc::downgrade(watch);
    }

    /// The number of reads of the watch so far, if the watch should end.
    pub(crate) fn overdue_reads(&self) -> Option<u64> {
        let watch = self.watch.lock().upgrade();
        watch.and_then(|watch| watch.overdue_reads())
    }
}

/// The largest body of a request, as in kube-apiserver.
const LARGEST_BODY: usize = 3 * 1024 * 1024;

/// Describes the server's metrics to the installed recorder of the `metrics` facade. Call it after installing the recorder.
pub fn describe_metrics() {
    metrics::describe_counter!(
        "informant_apiserver_requests_total",
        "Requests that the API server received, by verb and resource."
    );
}

impl ApiService {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, connection: None }
    }

    /// The service for one TCP connection.
    pub(crate) fn on(&self, connection: Connection) -> Self {
        Self { shared: self.shared.clone(), connection: Some(connection) }
    }

    async fn answer<B>(self, request: Request<B>) -> io::Result<Response<ResponseBody>>
    where
        B: http_body::Body<Data: Buf, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        let (parts, body) = request.into_parts();
        let read = ApiRequest::read(&parts.method, &parts.uri);
        let accept = text(&parts.headers, &header::ACCEPT);
        let accept_encoding = text(&parts.headers, &header::ACCEPT_ENCODING);
        let logged = LoggedRequest::new(self.shared.age(), &parts, read.as_ref().ok());
        debug!(request = %logged, kind = logged.resource, "request");
        // Unknown kinds share one label value, so that clients cannot create any number of time series.
        let is_known = read.as_ref().is_ok_and(|request| self.shared.serves(request));
        let resource = if is_known { logged.resource.clone() } else { String::new() };
        counter!("informant_apiserver_requests_total", "verb" => logged.verb.name(), "resource" => resource)
            .increment(1);
        let accepts = |fault: &Fault| *fault != Fault::Gzip(GzipMode::IfAccepted) || accept_encoding.contains("gzip");
        let Hits { faults, interceptors } = self.shared.strike(logged);
        let faults = faults.into_iter().filter(accepts).collect::<Vec<_>>();

        // First the faults that prevent a response.
        let mut orders = Orders::new(&faults);
        if !orders.delay.is_zero() {
            tokio::time::sleep(orders.delay).await;
        }
        if orders.hang {
            match std::future::pending::<Infallible>().await {}
        }
        if let Some(end) = orders.end {
            return Err(io::Error::from(end));
        }
        let mut answer = match (orders.instead.take(), read) {
            (Some(instead), _) => instead.into(),
            (None, Err(error)) => error.into(),
            (None, Ok(read)) => {
                let done = self.carry_out(&read, &parts.headers, accept, body, &orders, &interceptors).await;
                done.unwrap_or_else(Answer::from)
            }
        };

        if orders.lose_answer {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }

        // Then the faults that change the bytes of the response.
        let shape = answer.shape();
        let wire = Wire::new(&faults, shape);
        if !wire.is_empty() {
            answer = answer.map_stream(|stream| FaultyBody::new(stream, wire).boxed());
        }
        if faults.iter().any(|fault| matches!(fault, Fault::Gzip(_))) {
            answer.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        if shape == Shape::Document && faults.contains(&Fault::Garbage) {
            answer.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html"));
        }
        Ok(answer.into_response())
    }

    async fn carry_out<B>(
        &self,
        request: &ApiRequest,
        headers: &HeaderMap,
        accept: &str,
        body: B,
        orders: &Orders,
        interceptors: &[Interceptor],
    ) -> Result<Answer, ApiError>
    where
        B: http_body::Body<Data: Buf, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        let body = read_body(body).await?;
        let body = match intercept::run(interceptors, request, text(headers, &header::USER_AGENT), body) {
            ControlFlow::Continue(body) => body,
            ControlFlow::Break(instead) => return Ok(instead.into()),
        };
        let connection = self.connection.as_ref();
        let content_type = text(headers, &header::CONTENT_TYPE).split(';').next().unwrap_or_default().trim();
        let authorization = text(headers, &header::AUTHORIZATION);
        let user_agent = text(headers, &header::USER_AGENT);
        let shared = &self.shared;
        Call { shared, connection, request, accept, authorization, user_agent, content_type, body, orders }.answer()
    }
}

async fn read_body<B>(body: B) -> Result<Bytes, ApiError>
where
    B: http_body::Body<Data: Buf, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
{
    let read = Limited::new(std::pin::pin!(body), LARGEST_BODY).collect().await;
    read.map(http_body_util::Collected::to_bytes).map_err(|error| {
        if error.is::<LengthLimitError>() {
            ApiError::TooLarge { limit: LARGEST_BODY }
        } else {
            ApiError::BadRequest(format!("the body of the request could not be read: {error}"))
        }
    })
}

fn text<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

impl<B> Service<Request<B>> for ApiService
where
    B: http_body::Body<Data: Buf + Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
{
    type Response = Response<ResponseBody>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Response<ResponseBody>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        Box::pin(self.clone().answer(request))
    }
}

impl std::fmt::Debug for ApiService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiService").finish_non_exhaustive()
    }
}

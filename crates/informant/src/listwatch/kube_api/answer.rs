//! Checks status and headers of a response before its body is read, and classifies the client's errors.
//!
//! - **In:** an HTTP response, or the client's error.
//! - **Out:** the body, or a [`SourceError`].
//! - **Knows nothing of:** the content of a body that is not an error.

use std::{error::Error, io, time::Duration};

use bytes::Bytes;
use futures_util::StreamExt;
use http::{
    Response,
    header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName, LOCATION, RETRY_AFTER},
};
use http_body_util::BodyExt;
use hyper_util::client::legacy::Error as ClientError;
use kube::{client::Body, core::Status};
use tokio::time::error::Elapsed;

use super::super::SourceError;
use crate::error::causes;

/// Upper bound on the bytes that are read of an error's body.
const LONGEST_ERROR: usize = 64 << 10;
/// Upper bound on the bytes that an error quotes of a body that is not a `Status`.
const QUOTED: usize = 200;

/// Returns the body if status and headers show a successful, uncompressed JSON response.
pub(super) async fn check(response: Response<Body>) -> Result<Body, SourceError> {
    let code = response.status();
    if code.is_redirection() {
        return Err(SourceError::Redirected { code: code.as_u16(), location: header(&response, LOCATION) });
    }
    if !code.is_success() {
        let retry_after = header(&response, RETRY_AFTER).parse().ok().map(Duration::from_secs);
        let body = first_bytes(response.into_body(), LONGEST_ERROR).await;
        return Err(SourceError::Status { status: Box::new(status(code.as_u16(), &body)), retry_after });
    }
    let encoding = header(&response, CONTENT_ENCODING);
    if !matches!(encoding.as_str(), "" | "identity") {
        let found = format!(
            "compressed ({encoding}), which the request did not allow; check for a proxy between client and server"
        );
        return Err(SourceError::Unexpected { found });
    }
    let found = header(&response, CONTENT_TYPE);
    let media_type = found.split(';').next().unwrap_or_default().trim();
    if !media_type.is_empty() && !media_type.eq_ignore_ascii_case("application/json") {
        let beginning = quote(&first_bytes(response.into_body(), QUOTED).await);
        let found =
            format!("{found:?}, not JSON; it begins with {beginning:?}; check for a proxy between client and server");
        return Err(SourceError::Unexpected { found });
    }
    Ok(response.into_body())
}

/// Classifies the client's error for a request without a response, or a response that broke off.
pub(super) fn failed(error: kube::Error) -> SourceError {
    let is_refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    let is_timeout = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut;
    let any = |is_so: &dyn Fn(&(dyn Error + 'static)) -> bool| causes(&error).any(is_so);
    let was_refused = any(&|cause| cause.downcast_ref().is_some_and(is_refused));
    let has_timed_out = any(&|cause| cause.is::<Elapsed>() || cause.downcast_ref().is_some_and(is_timeout));
    // The connection failed before the request was sent: unknown host, no route, untrusted certificate.
    let is_connecting = any(&|cause| cause.downcast_ref().is_some_and(ClientError::is_connect));
    match (was_refused, is_connecting, has_timed_out) {
        (true, ..) => SourceError::Refused { source: without_wrappers(error) },
        // The client's own text, "deadline has elapsed", does not name the operation.
        (false, true, true) => SourceError::Unreachable { source: "connecting to the server took too long".into() },
        (false, true, false) => SourceError::Unreachable { source: without_wrappers(error) },
        (false, false, true) => {
            SourceError::Connection { source: "waiting for the server's answer took too long".into() }
        }
        (false, false, false) => SourceError::Connection { source: without_wrappers(error) },
    }
}

/// Removes the outer errors that only name a layer of the client: `ServiceError`, `client error (Connect)`.
fn without_wrappers(error: kube::Error) -> Box<dyn Error + Send + Sync> {
    let kube::Error::Service(_) = error else { return Box::new(error) };
    let is_wrapper = |cause: &&(dyn Error + 'static)| cause.is::<kube::Error>() || cause.is::<ClientError>();
    let mut text = String::new();
    for cause in causes(&error).skip_while(is_wrapper).map(ToString::to_string) {
        match text.is_empty() {
            true => text = cause,
            // Errors of other crates often repeat their cause in their own text.
            false if text.ends_with(&cause) => {}
            false => text = format!("{text}: {cause}"),
        }
    }
    if text.is_empty() { Box::new(error) } else { text.into() }
}

/// Parses the `Status` of an error response. If the body is not a `Status`, creates one that quotes the body.
fn status(code: u16, body: &[u8]) -> Status {
    match serde_json::from_slice::<Status>(body) {
        Ok(status) if status.is_failure() => Status { code, ..status },
        Ok(_) | Err(_) => Status::failure(&quote(body), "").with_code(code),
    }
}

fn header(response: &Response<Body>, name: HeaderName) -> String {
    let value = response.headers().get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    value.unwrap_or_default()
}

/// Reads the first bytes of a body, up to `length` or until it fails.
async fn first_bytes(body: Body, length: usize) -> Vec<u8> {
    let mut read = Vec::new();
    let mut chunks = body.into_data_stream();
    while read.len() < length
        && let Some(Ok(chunk)) = chunks.next().await
    {
        let chunk: Bytes = chunk;
        read.extend_from_slice(&chunk[..chunk.len().min(length - read.len())]);
    }
    read
}

fn quote(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(QUOTED)]).trim().to_owned()
}

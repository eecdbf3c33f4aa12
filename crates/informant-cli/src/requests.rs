//! Single requests to the API server, besides those of informers.
//!
//! - **In:** a request.
//! - **Out:** its answer, after retries while the server is overloaded; which errors may be retried, and when.

use std::time::Duration;

use hyper::Request;
use kube::Client;
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};

/// The pause between two attempts, unless the server asks for another one.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// How long to wait for an answer without which the command can go on.
const OPTIONAL_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns true if the server is overloaded or failing (429 or 5xx), so that a retry may help.
pub fn is_transient(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 429 || status.code >= 500)
}

/// How long to wait before the next attempt: as long as the server asks for, otherwise a second.
pub fn retry_delay(error: &kube::Error) -> Duration {
    let kube::Error::Api(status) = error else { return RETRY_PAUSE };
    let asked = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    if asked > 0 { Duration::from_secs(asked.into()) } else { RETRY_PAUSE }
}

/// Returns the answer to a request without which the command can go on; `None` if there is none of this type within five seconds.
pub async fn optional<T: DeserializeOwned>(client: &Client, request: &Request<Vec<u8>>) -> Option<T> {
    let attempts = async {
        loop {
            match client.request(request.clone()).await {
                Ok(answer) => return Some(answer),
                Err(error) if is_transient(&error) => sleep(retry_delay(&error)).await,
                Err(_) => return None,
            }
        }
    };
    timeout(OPTIONAL_TIMEOUT, attempts).await.ok().flatten()
}

//! Interceptors: functions of a test that see requests before the server carries them out.
//!
//! - **In:** a request and its body.
//! - **Out:** the body with which the request goes on, or the response in its place.
//! - **Knows nothing of:** objects, and which requests a function sees ([`plan`](super::plan)).

use std::{ops::ControlFlow, sync::Arc};

use bytes::Bytes;
use serde_json::Value;

use crate::{
    error::ApiError,
    faults::{CannedResponse, orders::Instead},
    http::request::{ApiRequest, Verb},
    registry::subresource::Subresource,
};

/// A request that an interceptor sees; see [`ApiServer::intercept`](crate::ApiServer::intercept).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InterceptedRequest {
    /// The verb.
    pub verb: Verb,
    /// The kind: `pods`, `deployments.apps`; empty for discovery.
    pub resource: String,
    /// The namespace; empty for requests across namespaces and for cluster-scoped kinds.
    pub namespace: String,
    /// The name in the path; empty for requests about a collection. The name of a new object is in the body.
    pub name: String,
    /// The subresource, if the path has one.
    pub subresource: Option<Subresource>,
    /// The `User-Agent` header.
    pub user_agent: String,
    /// The body: an object, a patch, or the options of a delete. [`Value::Null`] if there is none, or if it is not JSON.
    ///
    /// The server carries out the request with the body that the interceptor leaves here.
    pub body: Value,
}

/// What happens to a request after an interceptor has seen it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Interception {
    /// The next interceptor sees the request; after the last one, the server carries it out.
    Pass,
    /// The server does not carry out the request. The response is this error, as from an admission webhook.
    Refuse(ApiError),
    /// The server does not carry out the request. This is the response.
    Answer(CannedResponse),
}

/// A function of a test that sees requests.
pub(crate) type Interceptor = Arc<dyn Fn(&mut InterceptedRequest) -> Interception + Send + Sync>;

/// Shows a request to all interceptors, until one does not let it pass. Returns the body with which the request goes on.
pub(crate) fn run(
    interceptors: &[Interceptor],
    request: &ApiRequest,
    user_agent: &str,
    sent: Bytes,
) -> ControlFlow<Instead, Bytes> {
    if interceptors.is_empty() {
        return ControlFlow::Continue(sent);
    }
    let body: Value = serde_json::from_slice(&sent).unwrap_or_default();
    let place = request.place().cloned().unwrap_or_default();
    let mut request = InterceptedRequest {
        verb: request.verb,
        resource: place.resource(),
        namespace: place.namespace,
        name: place.name,
        subresource: place.subresource,
        user_agent: user_agent.to_owned(),
        body: body.clone(),
    };
    for intercept in interceptors {
        match intercept(&mut request) {
            Interception::Pass => {}
            Interception::Refuse(error) => return ControlFlow::Break(Instead::Error(error)),
            Interception::Answer(canned) => return ControlFlow::Break(Instead::Canned(canned)),
        }
    }
    ControlFlow::Continue(if request.body == body { sent } else { request.body.to_string().into() })
}

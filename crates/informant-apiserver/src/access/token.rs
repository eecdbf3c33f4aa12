//! Tokens of service accounts: unsigned JSON web tokens that only this server accepts.
//!
//! - **In:** a TokenRequest and its service account; or a token that a client sent.
//! - **Out:** the TokenRequest with a token in its status; or the claims of a token that has not expired.
//! - **Knows nothing of:** HTTP.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    error::{ApiError, Cause},
    objects::Object,
    registry::{
        kind::{Kind, Origin},
        subresource::Subresource,
    },
};

/// The claims of a token, under the names that Kubernetes uses.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Claims {
    iss: String,
    sub: String,
    aud: Vec<String>,
    iat: i64,
    exp: i64,
    #[serde(rename = "kubernetes.io")]
    account: Account,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Account {
    namespace: String,
    serviceaccount: ServiceAccountId,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct ServiceAccountId {
    name: String,
    uid: String,
}

const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// Lifetimes of tokens in seconds, as kube-apiserver limits them.
const MIN_LIFETIME: i64 = 600;
const MAX_LIFETIME: i64 = 1 << 32;
const DEFAULT_LIFETIME: i64 = 3600;

impl Claims {
    pub(super) fn subject(&self) -> &str {
        &self.sub
    }

    pub(super) fn namespace(&self) -> &str {
        &self.account.namespace
    }

    pub(super) fn uid(&self) -> &str {
        &self.account.serviceaccount.uid
    }

    pub(super) fn audiences(&self) -> &[String] {
        &self.aud
    }

    /// The claims of a token of this server that has not expired.
    pub(super) fn read(token: &str, now: Timestamp) -> Option<Self> {
        let mut parts = token.split('.');
        let (header, claims) = (parts.next()?, parts.next()?);
        let claims: Self = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
        (header == encoded(&jwt_header()) && claims.iss == ISSUER && claims.exp > now.as_second()).then_some(claims)
    }

    fn token(&self) -> String {
        // A token has three parts; the signature of an unsigned one is empty.
        format!("{}.{}.", encoded(&jwt_header()), encoded(&json!(self)))
    }
}

fn jwt_header() -> Value {
    json!({"alg": "none", "typ": "JWT"})
}

fn encoded(json: &Value) -> String {
    URL_SAFE_NO_PAD.encode(json.to_string())
}

/// The kind of requests for a token.
pub(crate) fn kind() -> Kind {
    let (group, version, kind) = Subresource::Token.own_type().unwrap_or_default();
    Kind { origin: Origin::BuiltIn, ..Kind::new(group, version, kind, "tokenrequests") }
}

/// The request with a token for the service account in its status.
pub(crate) fn issue(request: &Object, account: &Object, now: Timestamp) -> Result<Value, ApiError> {
    let mut spec = request.field("spec");
    let seconds = spec["expirationSeconds"].as_i64().unwrap_or(DEFAULT_LIFETIME);
    let field = "spec.expirationSeconds";
    if seconds < MIN_LIFETIME {
        let cause = Cause::invalid(field, &seconds.to_string(), "may not specify a duration less than 10 minutes");
        return Err(ApiError::invalid(&kind(), account.text("name"), cause));
    }
    if seconds > MAX_LIFETIME {
        let cause = Cause::invalid(field, &seconds.to_string(), "may not specify a duration larger than 2^32 seconds");
        return Err(ApiError::invalid(&kind(), account.text("name"), cause));
    }
    let audiences: Vec<String> = serde_json::from_value(spec["audiences"].take()).unwrap_or_default();
    let audiences = if audiences.is_empty() { vec![ISSUER.to_owned()] } else { audiences };
    let [namespace, name, uid] = ["namespace", "name", "uid"].map(|field| account.text(field).to_owned());
    let claims = Claims {
        iss: ISSUER.to_owned(),
        sub: format!("system:serviceaccount:{namespace}:{name}"),
        aud: audiences.clone(),
        iat: now.as_second(),
        exp: now.as_second() + seconds,
        account: Account { namespace, serviceaccount: ServiceAccountId { name, uid } },
    };
    let expires = Timestamp::from_second(claims.exp).unwrap_or(now);
    Ok(json!({
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": account.text("name"), "namespace": account.text("namespace")},
        "spec": {
            "audiences": audiences,
            "expirationSeconds": seconds,
            "boundObjectRef": spec["boundObjectRef"],
        },
        "status": {"token": claims.token(), "expirationTimestamp": expires.to_string()},
    }))
}

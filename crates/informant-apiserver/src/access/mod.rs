//! The users of requests, tokens and reviews. There is no access control: every request is allowed.
//!
//! - **In:** the `Authorization` header of a request; reviews, which ask whether an access would be allowed.
//! - **Out:** the user of the request; tokens for service accounts; reviews with their status.
//! - **Knows nothing of:** the objects that are stored.

pub(crate) mod review;
pub(crate) mod token;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::access::token::Claims;

/// A user, as reviews name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    name: String,
    uid: String,
    groups: Vec<String>,
}

impl User {
    /// The user of a request: the service account of a valid token, otherwise `system:unsecured`.
    pub(crate) fn of_request(authorization: &str, now: Timestamp) -> Self {
        let token = authorization.strip_prefix("Bearer ").unwrap_or_default();
        Claims::read(token, now).map_or_else(Self::unsecured, |claims| Self::service_account(&claims))
    }

    /// The user that Kubernetes assigns to requests on a port without access control.
    fn unsecured() -> Self {
        let groups = ["system:masters", "system:authenticated"].map(str::to_owned).to_vec();
        Self { name: "system:unsecured".to_owned(), uid: String::new(), groups }
    }

    fn service_account(claims: &Claims) -> Self {
        let group = format!("system:serviceaccounts:{}", claims.namespace());
        let groups = vec!["system:serviceaccounts".to_owned(), group, "system:authenticated".to_owned()];
        Self { name: claims.subject().to_owned(), uid: claims.uid().to_owned(), groups }
    }

    fn as_json(&self) -> Value {
        let mut user = json!({"username": self.name, "groups": self.groups});
        if !self.uid.is_empty() {
            user["uid"] = json!(self.uid);
        }
        user
    }
}

//! Continue tokens: the key after which the next page of a list starts, and the version of the list.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};

use crate::objects::Key;

/// A continue token. Clients see it base64-encoded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Token {
    /// Identifies tokens of this server.
    v: TokenFormat,
    /// The version of the list; `None` to continue at the newest version.
    #[serde(rename = "rv")]
    pub(crate) version: Option<u64>,
    /// The last key of the previous page.
    behind: String,
    /// The number of tokens that the server had issued, including this one. The request log prints it as `C1`, `C2` and so on.
    #[serde(rename = "n")]
    pub(crate) number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum TokenFormat {
    #[serde(rename = "informant/1")]
    One,
}

impl Token {
    pub(crate) fn new(version: Option<u64>, behind: &Key, number: u64) -> Self {
        Self { v: TokenFormat::One, version, behind: behind.as_str().into(), number }
    }

    pub(crate) fn behind(&self) -> Key {
        Key::from_text(&self.behind)
    }

    pub(crate) fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    pub(crate) fn decode(text: &str) -> Option<Self> {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()
    }
}

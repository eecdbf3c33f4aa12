//! The continue token: where the next page of a list begins, and at which version.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::Serialize;

use crate::objects::Key;

/// Where a list goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Token {
    /// Whose token this is.
    v: TokenFormat,
    /// The version of the list; none to go on with whatever is there.
    #[serde(rename = "rv")]
    pub(crate) version: Option<u64>,
    /// The last key of the page before.
    behind: String,
    /// How many tokens the server had given out, this one included: the request log calls it `C1`, `C2` and so on.
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

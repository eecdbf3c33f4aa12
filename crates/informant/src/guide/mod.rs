//! Pages for those who come from elsewhere: the same things there and here, side by side.
//!
//! Every Rust example on them runs as a test.

#[doc = include_str!("coming_from_client_go.md")]
pub mod coming_from_client_go {}

#[doc = include_str!("coming_from_kube_runtime.md")]
pub mod coming_from_kube_runtime {}

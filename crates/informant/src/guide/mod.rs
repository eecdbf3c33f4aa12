//! Guides: longer pages about one subject each.
//!
//! | guide | for readers who |
//! | --- | --- |
//! | [`coming_from_client_go`] | know informers from Go |
//! | [`coming_from_kube_runtime`] | use kube-runtime's reflectors or `Controller` |
//! | [`derived_maps`] | keep a cache of their own, such as endpoints by address |
//! | [`object_types`] | want to save memory and CPU time |
//! | [`testing`] | want to test a program that uses informers |
//!
//! Every Rust example in the guides runs as a test.

#[doc = include_str!("coming_from_client_go.md")]
pub mod coming_from_client_go {}

#[doc = include_str!("coming_from_kube_runtime.md")]
pub mod coming_from_kube_runtime {}

#[doc = include_str!("derived_maps.md")]
pub mod derived_maps {}

#[doc = include_str!("object_types.md")]
pub mod object_types {}

#[doc = include_str!("testing.md")]
pub mod testing {}

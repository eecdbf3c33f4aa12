//! Shared informers: one cache, many handlers.

mod histories;
mod support;

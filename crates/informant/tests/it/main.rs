//! Tests through the public interface, one file for each subject. They are one program: linking is the slow part.

#[cfg(any())] mod concurrency;
#[cfg(any())] mod decoding;
mod delta_fifo;
mod in_order_fifo;
#[cfg(any())] mod indexer;
#[cfg(any())] mod lazy;
#[cfg(any())] mod lister;
mod past_bugs;
#[cfg(any())] mod scanner;
mod support;
#[cfg(any())] mod tidy;

//! Tests through the public interface, one file for each subject. They are one program: linking is the slow part.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod compile_errors;
mod concurrency;
mod decode_errors;
mod decoding;
mod derived;
mod edge_cases;
mod erased;
mod errors;
mod factory;
mod frames;
mod index_functions;
mod indexer;
mod informer;
mod kube_runtime;
mod lazy;
mod lister;
mod memory;
mod past_bugs;
mod process_loop;
mod queue;
mod quick_start;
mod random;
mod reflector;
mod scanner;
mod scenarios;
mod support;
mod tidy;

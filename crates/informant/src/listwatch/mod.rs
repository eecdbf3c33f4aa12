//! Stage 1: lists and watches one kind.
//!
//! - **In:** the bytes that a server sends.
//! - **Out:** what they say, piece by piece, for the queue.
//! - **Knows nothing of:** the queue, the store, handlers.
//!
//! What is here today is the first step, [`frames`]: a body of any size is cut into list items and watch events as it
//! arrives. The reflector that asks for such bodies comes next.

pub mod frames;

//! A response body that applies wire faults to its bytes.
//!
//! - **In:** the stream of a response, and the [`Wire`] with its faults.
//! - **Out:** the changed stream.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures_util::{FutureExt, Stream, future::BoxFuture, stream::BoxStream};
use tokio::task::yield_now;

use crate::faults::{
    CutEnding,
    wire::{Piece, Wire},
};

/// A stream that a [`Wire`] cuts, splits, packs and so on.
pub(crate) struct FaultyBody {
    /// Kept while the stream is silent, so that its watch counts as open.
    source: BoxStream<'static, io::Result<Bytes>>,
    wire: Wire,
    ready: VecDeque<Piece>,
    state: State,
}

enum State {
    /// The source may have more.
    Open,
    /// Yields so that the client receives the sent data, then continues with the second value.
    Flushing(BoxFuture<'static, ()>, Then),
    /// The source has ended; only `ready` is left.
    Ending,
    Over,
    Silent,
}

#[derive(Clone, Copy)]
enum Then {
    GoOn,
    End,
    Break,
}

impl FaultyBody {
    pub(crate) fn new(source: BoxStream<'static, io::Result<Bytes>>, mut wire: Wire) -> Self {
        let ready = wire.start().into();
        Self { source, wire, ready, state: State::Open }
    }

    /// Yields to other tasks once, so that the connection sends its data before the stream continues.
    fn flush(&mut self, then: Then) {
        self.state = State::Flushing(yield_now().boxed(), then);
    }
}

impl Stream for FaultyBody {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            let is_ending = match &mut this.state {
                State::Open => false,
                State::Ending => true,
                State::Over => return Poll::Ready(None),
                State::Silent => return Poll::Pending,
                State::Flushing(flush, then) => {
                    let then = *then;
                    ready!(flush.as_mut().poll(context));
                    match then {
                        Then::GoOn => this.state = State::Open,
                        Then::End => this.state = State::Ending,
                        Then::Break => {
                            this.state = State::Over;
                            return Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::ConnectionReset))));
                        }
                    }
                    continue;
                }
            };
            match this.ready.pop_front() {
                Some(Piece::Data(data)) if data.is_empty() => {}
                Some(Piece::Data(data)) => return Poll::Ready(Some(Ok(data))),
                Some(Piece::Flush) => this.flush(if is_ending { Then::End } else { Then::GoOn }),
                Some(Piece::Stop(CutEnding::Close)) => this.state = State::Over,
                Some(Piece::Stop(CutEnding::Silence)) => this.state = State::Silent,
                Some(Piece::Stop(CutEnding::Reset)) => this.flush(Then::Break),
                None if is_ending => this.state = State::Over,
                None => match this.source.as_mut().poll_next(context) {
                    Poll::Ready(Some(Ok(data))) => this.ready.extend(this.wire.feed(data)),
                    Poll::Ready(Some(Err(error))) => {
                        this.state = State::Over;
                        return Poll::Ready(Some(Err(error)));
                    }
                    Poll::Ready(None) => {
                        this.ready.extend(this.wire.finish());
                        this.state = State::Ending;
                    }
                    Poll::Pending => {
                        this.ready.extend(this.wire.idle());
                        if this.ready.is_empty() {
                            return Poll::Pending;
                        }
                    }
                },
            }
        }
    }
}

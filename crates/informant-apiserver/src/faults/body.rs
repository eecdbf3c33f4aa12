//! A body whose bytes go through the faults.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::Context;
use std::task::Poll;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::BoxStream;

use crate::faults::wire::Piece;
use crate::faults::wire::Stop;
use crate::faults::wire::Wire;

/// A stream that is cut, split, packed and so on.
pub(crate) struct FaultyBody {
    /// None once the stream is over, whatever its state is then.
    source: Option<BoxStream<'static, io::Result<Bytes>>>,
    wire: Wire,
    ready: VecDeque<Piece>,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    NotYet,
    Broken,
    Closed,
    Silent,
}

impl FaultyBody {
    pub(crate) fn new(source: BoxStream<'static, io::Result<Bytes>>, mut wire: Wire) -> Self {
        let ready = wire.start().into();
        Self { source: Some(source), wire, ready, end: End::NotYet }
    }
}

impl Stream for FaultyBody {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            match this.end {
                End::NotYet => {}
                End::Closed => return Poll::Ready(None),
                End::Broken => {
                    this.end = End::Closed;
                    return Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::ConnectionReset))));
                }
                End::Silent => return Poll::Pending,
            }
            match this.ready.pop_front() {
                Some(Piece::Data(data)) if data.is_empty() => continue,
                Some(Piece::Data(data)) => return Poll::Ready(Some(Ok(data))),
                // Whoever polls sends what it has before it polls again.
                Some(Piece::Flush) => {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Some(Piece::Stop(stop)) => {
                    this.source = None;
                    match stop {
                        Stop::Close => this.end = End::Closed,
                        Stop::Silence => this.end = End::Silent,
                        // What was said before is sent before the connection breaks.
                        Stop::Reset => {
                            this.end = End::Broken;
                            context.waker().wake_by_ref();
                            return Poll::Pending;
                        }
                    }
                    continue;
                }
                None => {}
            }
            let Some(source) = &mut this.source else {
                this.end = End::Closed;
                continue;
            };
            match source.as_mut().poll_next(context) {
                Poll::Ready(Some(Ok(data))) => this.ready.extend(this.wire.feed(data)),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => {
                    this.source = None;
                    this.ready.extend(this.wire.finish());
                }
                Poll::Pending => {
                    this.ready.extend(this.wire.idle());
                    if this.ready.is_empty() {
                        return Poll::Pending;
                    }
                }
            }
        }
    }
}

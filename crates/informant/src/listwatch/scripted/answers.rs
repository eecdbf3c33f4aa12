//! The scripted answers to a list and to a watch.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;

use super::super::{Item, ListPiece, SourceError, SourceEvent, WatchPiece, frames::ListMetadata};
use crate::ResourceVersion;

/// The scripted answer to a list request: the items of one page, or an error.
pub struct ScriptedList<O> {
    pub(super) delay: Duration,
    pub(super) answer: Result<Vec<Result<ListPiece<O>, SourceError>>, SourceError>,
    pub(super) end: ListMetadata,
}

/// The scripted answer to a watch request: its events, and how it ends.
///
/// A watch ends cleanly after its last event, unless its script ends with [`stays_open`](Self::stays_open) or
/// [`breaks`](Self::breaks).
pub struct ScriptedWatch<O> {
    pub(super) delay: Duration,
    pub(super) refusal: Option<SourceError>,
    pub(super) steps: VecDeque<Step<O>>,
}

pub(super) enum Step<O> {
    Piece(WatchPiece<O>),
    Fail(SourceError),
    Wait(Duration),
    Forever,
}

impl<O> ScriptedList<O> {
    /// Creates an empty list at this version, in one page.
    pub fn at(version: impl Into<ResourceVersion>) -> Self {
        let end = ListMetadata { resource_version: version.into(), ..ListMetadata::default() };
        Self { delay: Duration::ZERO, answer: Ok(Vec::new()), end }
    }

    /// Creates an answer that refuses the request with an error.
    pub fn fails(error: SourceError) -> Self {
        Self { delay: Duration::ZERO, answer: Err(error), end: ListMetadata::default() }
    }

    /// Adds an item: an [`Item`], or a [`serde_json::Value`].
    #[must_use]
    pub fn object(self, item: impl Into<Item<O>>) -> Self {
        self.piece(Ok(ListPiece::Item(item.into())))
    }

    /// Adds an object as JSON text, which need not be valid.
    #[must_use]
    pub fn json(self, json: impl Into<Bytes>) -> Self {
        self.piece(Ok(ListPiece::Item(Item::json(json))))
    }

    /// Ends the page with an error after the items that were added so far.
    #[must_use]
    pub fn breaks(self, error: SourceError) -> Self {
        self.piece(Err(error))
    }

    /// Announces another page, which the reflector requests with this token.
    #[must_use]
    pub fn more(mut self, continue_token: &str) -> Self {
        self.end.continue_token = continue_token.into();
        self
    }

    /// Delays the answer by this time. Default: none.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    fn piece(mut self, piece: Result<ListPiece<O>, SourceError>) -> Self {
        if let Ok(pieces) = &mut self.answer {
            pieces.push(piece);
        }
        self
    }
}

impl<O> ScriptedWatch<O> {
    /// Creates a watch without events that ends at once.
    pub fn new() -> Self {
        Self { delay: Duration::ZERO, refusal: None, steps: VecDeque::new() }
    }

    /// Creates an answer that refuses the request with an error.
    pub fn fails(error: SourceError) -> Self {
        Self { refusal: Some(error), ..Self::new() }
    }

    /// Delays the answer to the request by this time. Default: none.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Sends an `ADDED` event of an [`Item`] or a [`serde_json::Value`].
    #[must_use]
    pub fn added(self, item: impl Into<Item<O>>) -> Self {
        self.event(SourceEvent::Added(item.into()))
    }

    /// Sends a `MODIFIED` event of an [`Item`] or a [`serde_json::Value`].
    #[must_use]
    pub fn modified(self, item: impl Into<Item<O>>) -> Self {
        self.event(SourceEvent::Modified(item.into()))
    }

    /// Sends a `DELETED` event with the final state of an object: an [`Item`] or a [`serde_json::Value`].
    #[must_use]
    pub fn deleted(self, item: impl Into<Item<O>>) -> Self {
        self.event(SourceEvent::Deleted(item.into()))
    }

    /// Sends a bookmark: all events up to this version have been sent.
    #[must_use]
    pub fn bookmark(self, version: impl Into<ResourceVersion>) -> Self {
        self.event(SourceEvent::Bookmark { version: version.into(), ends_initial_events: false })
    }

    /// Sends the bookmark that ends a streamed list.
    #[must_use]
    pub fn list_ends(self, version: impl Into<ResourceVersion>) -> Self {
        self.event(SourceEvent::Bookmark { version: version.into(), ends_initial_events: true })
    }

    /// Sends an event.
    #[must_use]
    pub fn event(self, event: SourceEvent<O>) -> Self {
        self.step(Step::Piece(WatchPiece::Event(event)))
    }

    /// Sends bytes of a watch as an API server writes them: lines of JSON, which need not be valid.
    #[must_use]
    pub fn bytes(self, bytes: impl Into<Bytes>) -> Self {
        self.step(Step::Piece(WatchPiece::Body(bytes.into())))
    }

    /// Sends nothing for this time.
    #[must_use]
    pub fn wait(self, time: Duration) -> Self {
        self.step(Step::Wait(time))
    }

    /// Keeps the watch open without further events.
    #[must_use]
    pub fn stays_open(self) -> Self {
        self.step(Step::Forever)
    }

    /// Ends the watch with an error.
    #[must_use]
    pub fn breaks(self, error: SourceError) -> Self {
        self.step(Step::Fail(error))
    }

    fn step(mut self, step: Step<O>) -> Self {
        self.steps.push_back(step);
        self
    }
}

impl<O> Default for ScriptedWatch<O> {
    fn default() -> Self {
        Self::new()
    }
}

//! The scripted answers to a list and to a watch.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use derive_where::derive_where;

use super::super::{Item, ListPiece, SourceError, SourceEvent, WatchPiece, frames::ListMetadata};
use crate::ResourceVersion;

/// The scripted answer to a list request: the items of one page, or an error.
pub type ScriptedList<O> = ScriptedAnswer<ListPiece<O>>;

/// The scripted answer to a watch request: its events, and how it ends.
///
/// A watch ends cleanly after its last event, unless its script ends with [`stays_open`](ScriptedAnswer::stays_open) or
/// [`breaks`](ScriptedAnswer::breaks).
pub type ScriptedWatch<O> = ScriptedAnswer<WatchPiece<O>>;

/// A scripted answer: that of a [list](ScriptedList) or of a [watch](ScriptedWatch).
#[derive_where(Default)]
pub struct ScriptedAnswer<P> {
    pub(super) delay: Duration,
    pub(super) refusal: Option<SourceError>,
    pub(super) steps: VecDeque<Step<P>>,
    /// The piece that ends a page.
    pub(super) end: Option<P>,
}

pub(super) enum Step<P> {
    Piece(P),
    Fail(SourceError),
    Wait(Duration),
    Forever,
}

impl<P> ScriptedAnswer<P> {
    /// Creates an answer that refuses the request with an error.
    pub fn fails(error: SourceError) -> Self {
        Self { refusal: Some(error), ..Self::default() }
    }

    /// Delays the answer to the request by this time. Default: none.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
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

    /// Ends the watch, or the page of a list, with an error after what was added so far.
    #[must_use]
    pub fn breaks(self, error: SourceError) -> Self {
        self.step(Step::Fail(error))
    }

    fn step(mut self, step: Step<P>) -> Self {
        self.steps.push_back(step);
        self
    }
}

impl<O> ScriptedList<O> {
    /// Creates an empty list at this version, in one page.
    pub fn at(version: impl Into<ResourceVersion>) -> Self {
        let end = ListMetadata { resource_version: version.into(), ..ListMetadata::default() };
        Self { end: Some(ListPiece::End(end)), ..Self::default() }
    }

    /// Adds an item: an [`Item`], or a [`serde_json::Value`].
    #[must_use]
    pub fn object(self, item: impl Into<Item<O>>) -> Self {
        self.step(Step::Piece(ListPiece::Item(item.into())))
    }

    /// Adds an object as JSON text, which need not be valid.
    #[must_use]
    pub fn json(self, json: impl Into<Bytes>) -> Self {
        self.object(Item::json(json))
    }

    /// Announces another page, which the reflector requests with this token.
    #[must_use]
    pub fn more(mut self, token: &str) -> Self {
        if let Some(ListPiece::End(end)) = &mut self.end {
            end.continue_token = token.into();
        }
        self
    }
}

impl<O> ScriptedWatch<O> {
    /// Creates a watch without events that ends at once.
    pub fn new() -> Self {
        Self::default()
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
}

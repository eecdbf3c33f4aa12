//! Requests a list page by page.
//!
//! - **In:** the pages of a list.
//! - **Out:** a complete list.
//! - **Knows nothing of:** what follows the list.

use futures_util::StreamExt;
use hashbrown::HashSet;
use tokio::{
    task::coop::consume_budget,
    time::{Instant, timeout},
};

use super::{received::ReceivedList, requests::Requests, retry::Retry, status::Activity};
use crate::{
    ResourceVersion,
    listwatch::{
        ListPiece, ListRequest, SourceError,
        decoder::{DecodeResult, Decoder},
        frames::{ListCutter, ListHead, ListMetadata, ListPart},
        source::IDLE_TIMEOUT,
    },
    object::DecodeError,
};

impl Requests {
    /// Requests all pages of a list. The list has the version of the first one.
    pub(super) async fn read_list(
        &mut self,
        request: &ListRequest,
        decoder: &mut Decoder,
        received: &mut ReceivedList,
        retry: &mut Retry,
    ) -> Result<(), SourceError> {
        let mut tokens = HashSet::new();
        let mut page = request.clone();
        loop {
            let metadata = self.read_page(&page, decoder, received, retry).await?;
            if received.pages == 0 {
                received.version = metadata.resource_version;
            }
            received.pages += 1;
            if metadata.continue_token.is_empty() {
                return Ok(());
            }
            if !tokens.insert(metadata.continue_token.clone()) {
                return Err(SourceError::other("the server sent the same continue token twice"));
            }
            page = ListRequest {
                version: ResourceVersion::default(),
                continue_token: Some(metadata.continue_token),
                ..request.clone()
            };
        }
    }

    async fn read_page(
        &mut self,
        request: &ListRequest,
        decoder: &mut Decoder,
        received: &mut ReceivedList,
        retry: &mut Retry,
    ) -> Result<ListMetadata, SourceError> {
        let silent = |_| SourceError::Silent { after: IDLE_TIMEOUT };
        let mut pieces = self.list(request).await?;
        retry.note_begun_list();
        let reporter = &self.shared.reporter;
        let mut cutter = ListCutter::with_limit(self.size_limit);
        let (mut end, mut has_body) = (None, false);
        while let Some(piece) = timeout(IDLE_TIMEOUT, pieces.next()).await.map_err(silent)? {
            let begun = Instant::now();
            match piece? {
                ListPiece::Body(chunk) => {
                    has_body = true;
                    cutter.push(chunk);
                    while let Some(part) = cutter.next_unless(|bytes| {
                        let (decoded, length) = decoder.decode_first(bytes, |_| true)?;
                        received.push(decoded);
                        Some(length)
                    })? {
                        match part {
                            ListPart::Item(json) => {
                                received.push(of_our_kind(decoder.decode_json(&json))?);
                            }
                            ListPart::ItemOutline(outline) => {
                                received.push(of_our_kind(Err(decoder.refuse_large(&outline)))?);
                            }
                            ListPart::End(head) => end = Some(self.check_head(head)?),
                        }
                    }
                }
                ListPiece::Item(item) => received.push(of_our_kind(decoder.decode_item(item))?),
                ListPiece::End(metadata) => end = Some(metadata),
            }
            decoder.end_group(begun);
            // A source that is always ready must not keep other tasks from running.
            consume_budget().await;
            let objects = received.objects.len();
            reporter.update_silently(|status| status.activity = Activity::Listing { objects });
        }
        if has_body {
            cutter.finish()?;
        }
        end.ok_or(SourceError::EndedEarly)
    }

    /// Refuses a list of another kind. Accepts a list without a kind.
    fn check_head(&self, head: ListHead) -> Result<ListMetadata, SourceError> {
        let expected = self.shared.source.types();
        let ListHead { api_version, kind, metadata } = head;
        // Some servers call every list `v1, List`.
        if expected.api_version.is_empty() || kind == "List" {
            return Ok(metadata);
        }
        let list_kind = format!("{}List", expected.kind);
        // Custom kinds, whose groups have dots, can define the kind of their lists.
        let is_custom = expected.api_version.contains('.');
        let is_of_version = api_version.is_empty() || api_version == expected.api_version;
        let is_of_kind = is_custom || kind.is_empty() || kind == list_kind;
        if is_of_version && is_of_kind {
            return Ok(metadata);
        }
        let found = format!("a list of {api_version}, {kind}, not of {}, {list_kind}", expected.api_version);
        Err(SourceError::Unexpected { found })
    }
}

/// Refuses the whole list if an item is of another kind than the source declares. Such an item has no key.
fn of_our_kind(decoded: DecodeResult) -> Result<DecodeResult, SourceError> {
    if let Err(bad) = &decoded
        && bad.key.is_none()
        && let DecodeError::WrongType { expected, found, .. } = &*bad.error
    {
        return Err(SourceError::Unexpected { found: format!("a list of {found}, not of {expected}") });
    }
    Ok(decoded)
}

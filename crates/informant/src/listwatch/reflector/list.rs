//! Requests a list page by page, and passes a complete list to the destination.
//!
//! - **In:** the pages of a list; complete streamed lists.
//! - **Out:** a relist, to the destination.
//! - **Knows nothing of:** what follows the list.

use std::sync::Arc;

use futures_util::StreamExt;
use hashbrown::HashSet;
use tokio::{
    task::coop::consume_budget,
    time::{Instant, timeout},
};
use tracing::{debug, warn};

use super::{
    super::{
        ListPiece, ListRequest, Operation, SourceError,
        decoder::DecodeResult,
        frames::{ListCutter, ListHead, ListMetadata, ListPart},
        rules::{error_class::ErrorClass, resume::ListVerdict, state::Input},
    },
    Reflector,
    main_loop::{Failure, cached_objects},
    received::ReceivedList,
    response::LIST_WITHIN,
    status::Activity,
};
use crate::{ResourceVersion, object::DecodeError};

/// Upper bound on pages per list; guards against a server that ignores `limit` and never ends its list.
const MOST_PAGES: usize = 100_000;

impl Reflector {
    /// Receives a list and passes it to the destination.
    pub(super) async fn list(&mut self) -> Result<Input, Failure> {
        let request = self.resume.list_request();
        self.status.set(Activity::Listing { objects: 0 });
        self.decoder.reset_reused();
        let health = self.settings.health.clone();
        let permit = health.list_permit(self.is_server_starting()).await;
        let listed = self.list_pages(&request).await;
        drop(permit);
        let accepted =
            listed.and_then(|(listed, version, is_paged)| self.accept(&request.version, listed, version, is_paged));
        accepted.map(|()| Input::Done).map_err(|error| Failure::refused(Operation::List, error))
    }

    /// Passes a complete list to the destination.
    ///
    /// # Errors
    ///
    /// If the list is older than the reached version, has no version, or has a damaged item that may be any object.
    pub(super) fn accept(
        &mut self,
        asked: &ResourceVersion,
        mut listed: ReceivedList,
        version: ResourceVersion,
        is_paged: bool,
    ) -> Result<(), SourceError> {
        if let Some(damage) = listed.damage()
            && self.resume.refuses_damage()
        {
            return Err(SourceError::Damaged { source: Arc::clone(damage) });
        }
        match self.resume.judge(asked, &version) {
            ListVerdict::Unversioned => return Err(SourceError::NoVersion),
            ListVerdict::Stale => return Err(SourceError::OlderVersion { from: self.resume.newest(), to: version }),
            ListVerdict::HistoryChanged => {
                let error = self.begin_new_history();
                // Objects that were reused from the cache may differ from the server's, although uid and version are the same.
                if self.decoder.reused() > 0 {
                    return Err(error);
                }
                listed.for_each_mut(|object| self.decoder.move_to_new_history(object));
            }
            ListVerdict::Accepted => {}
        }
        let history_changed = self.resume.has_history_changed();
        if history_changed {
            let reached = self.resume.newest();
            warn!(informer = %self.resource, rv = %version, %reached, "the server's history changed; everything was listed again");
            self.status.update_silently(|status| status.history_changes += 1);
        }
        // What an audit found before this list, the list repairs.
        if let Some(findings) = &mut self.settings.findings {
            while findings.try_recv().is_ok() {}
        }
        self.anchors = listed.anchors(&version);
        self.offer_witness();
        self.resume.note_accepted_list(asked, &version, is_paged);
        self.unclear_events.note_accepted_list();
        debug!(informer = %self.resource, rv = %version, count = listed.len(), "listed");
        let (relist, quarantined) = listed.into_relist(version.clone(), history_changed);
        for object in self.quarantine.replace(quarantined, &version) {
            self.report_quarantined(&object);
        }
        self.destination.push(relist.into());
        let now = self.note_success();
        self.contact.end_outage(now);
        self.has_probed = false;
        self.resync_at = self.next_resync();
        self.status.update(|status| {
            status.version = Some(version);
            status.last_event = Some(now);
            status.confirmed = Some(now);
            status.lists += 1;
            // While watches fail, a list that succeeds does not end the failure.
            if !status.is_watch_failing {
                status.failing_since = None;
            }
            status.is_gone = false;
        });
        Ok(())
    }

    /// Requests all pages. Returns the items, the version of the first page, and whether there was more than one page.
    pub(super) async fn list_pages(
        &mut self,
        request: &ListRequest,
    ) -> Result<(ReceivedList, ResourceVersion, bool), SourceError> {
        let mut received = ReceivedList::default();
        let mut page = request.clone();
        let mut version = None;
        let mut tokens = HashSet::new();
        loop {
            let metadata = match self.list_page(page.clone(), &mut received).await {
                Ok(metadata) => metadata,
                Err(error)
                    if error.class() == ErrorClass::Expired
                        && page.continue_token.is_some()
                        && self.machine.page_expired() =>
                {
                    // The server no longer has the other pages, but may have the list without pages.
                    self.note_failure(Operation::List, error);
                    (page, received, version) = (request.unpaged(), ReceivedList::default(), None);
                    tokens.clear();
                    continue;
                }
                Err(error) => return Err(error),
            };
            let is_first = version.is_none();
            let version = version.get_or_insert(metadata.resource_version);
            if metadata.continue_token.is_empty() {
                return Ok((received, version.clone(), !is_first));
            }
            if !tokens.insert(metadata.continue_token.clone()) {
                return Err(SourceError::other("the server sent the same continue token twice"));
            }
            if tokens.len() == MOST_PAGES {
                return Err(SourceError::other(
                    "the list has more than 100,000 pages; check that the server supports the `limit` parameter",
                ));
            }
            page = request.next_page(metadata.continue_token);
        }
    }

    async fn list_page(
        &mut self,
        request: ListRequest,
        received: &mut ReceivedList,
    ) -> Result<ListMetadata, SourceError> {
        let idle_timeout = self.settings.idle_timeout;
        let silent = |_| SourceError::Silent { after: idle_timeout };
        let source = Arc::clone(&self.settings.source);
        let mut pieces = self.response(Operation::List, LIST_WITHIN, || source.list(request.clone())).await?;
        let known = cached_objects(&self.settings, self.resume.may_reuse());
        let mut cutter = ListCutter::with_limit(self.settings.size_limit);
        let (mut end, mut has_body) = (None, false);
        while let Some(piece) = timeout(idle_timeout, pieces.next()).await.map_err(silent)? {
            let begun = Instant::now();
            match piece? {
                ListPiece::Body(chunk) => {
                    has_body = true;
                    cutter.push(chunk);
                    while let Some(part) = cutter.next_unless(|bytes| {
                        let (decoded, length) = self.decoder.decode_first(bytes, &known)?;
                        received.push(decoded);
                        Some(length)
                    })? {
                        match part {
                            ListPart::Item(json) => {
                                received.push(of_our_kind(self.decoder.decode_json(&json, &known))?);
                            }
                            ListPart::ItemOutline(outline) => {
                                received.push(of_our_kind(Err(self.decoder.refuse_large(&outline)))?);
                            }
                            ListPart::End(head) => end = Some(self.check_head(head)?),
                        }
                    }
                }
                ListPiece::Item(item) => received.push(of_our_kind(self.decoder.decode_item(item, &known))?),
                ListPiece::End(metadata) => end = Some(metadata),
            }
            self.decoder.end_group(begun, &self.resource);
            // A source that is always ready must not keep other tasks from running.
            consume_budget().await;
            let objects = received.len();
            self.status.update_silently(|status| status.activity = Activity::Listing { objects });
        }
        if has_body {
            cutter.finish()?;
        }
        end.ok_or(SourceError::EndedEarly)
    }

    /// Refuses a list of another kind. Accepts a list without a kind.
    fn check_head(&self, head: ListHead) -> Result<ListMetadata, SourceError> {
        let expected = self.settings.source.types();
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
        let expected = format!("{}, {list_kind}", expected.api_version);
        Err(SourceError::WrongList { expected, found: format!("{api_version}, {kind}") })
    }
}

/// Refuses the whole list if an item is of another kind than the source declares. Such an item has no key.
fn of_our_kind(decoded: DecodeResult) -> Result<DecodeResult, SourceError> {
    if let Err(bad) = &decoded
        && bad.key.is_none()
        && let DecodeError::WrongType { expected, found, .. } = &*bad.error
    {
        return Err(SourceError::WrongList { expected: expected.clone(), found: found.clone() });
    }
    Ok(decoded)
}

//! Reads which objects a source has, in which state, without their content.
//!
//! - **In:** a source.
//! - **Out:** the identities of its objects, page by page; the identity of one object.
//! - **Knows nothing of:** the cache that they are compared with, and when.

use std::sync::Arc;

use futures_util::StreamExt;
use kube::core::TypeMeta;
use tokio::{task::coop::consume_budget, time::timeout};

use super::{
    Item, ListPiece, ListRequest, LookupRequest, SourceError,
    any_source::DynSource,
    decoder::identify,
    frames::{ListCutter, ListPart},
    source::IDLE_TIMEOUT,
    witness::look_up,
};
use crate::{
    Key, ResourceVersion,
    object::{Erased, Identity, Scanner},
};

/// The objects of a source, without their content.
pub(crate) struct Inventory {
    source: Arc<dyn DynSource>,
    scanner: Scanner,
    page_size: u32,
    size_limit: usize,
}

/// One page of an inventory.
pub(crate) struct InventoryPage {
    /// The version of the whole inventory.
    pub(crate) version: ResourceVersion,
    pub(crate) objects: Vec<Identity>,
    /// The token of the next page; `None` if this is the last one.
    pub(crate) continue_token: Option<String>,
}

/// The page size, if none is configured.
const PAGE: u32 = 500;

impl Inventory {
    pub(super) fn new(source: Arc<dyn DynSource>, page_size: Option<u32>, size_limit: usize) -> Self {
        // A list of metadata declares another kind than the source.
        let scanner = Scanner::new(TypeMeta::default());
        Self { source, scanner, page_size: page_size.unwrap_or(PAGE), size_limit }
    }

    /// Requests a page of the newest state.
    ///
    /// # Errors
    ///
    /// If the request fails. An item without a readable key, uid and version is left out.
    pub(crate) async fn page(&mut self, continue_token: Option<String>) -> Result<InventoryPage, SourceError> {
        let silent = |_| SourceError::Silent { after: IDLE_TIMEOUT };
        let limit = Some(self.page_size);
        let request = ListRequest { limit, continue_token, needs_only_metadata: true, ..ListRequest::default() };
        let mut pieces = timeout(IDLE_TIMEOUT, self.source.list(request)).await.map_err(silent)??;
        let mut cutter = ListCutter::with_limit(self.size_limit);
        let (mut objects, mut end) = (Vec::new(), None);
        while let Some(piece) = timeout(IDLE_TIMEOUT, pieces.next()).await.map_err(silent)? {
            match piece? {
                ListPiece::Body(chunk) => {
                    cutter.push(chunk);
                    while let Some(part) = cutter.next()? {
                        match part {
                            ListPart::Item(json) | ListPart::ItemOutline(json) => {
                                objects.extend(self.identify(&Item::json(json)));
                            }
                            ListPart::End(head) => end = Some(head.metadata),
                        }
                    }
                }
                ListPiece::Item(item) => objects.extend(self.identify(&item)),
                ListPiece::End(metadata) => end = Some(metadata),
            }
            consume_budget().await;
        }
        let end = end.ok_or(SourceError::EndedEarly)?;
        let continue_token = Some(end.continue_token).filter(|token| !token.is_empty());
        Ok(InventoryPage { version: end.resource_version, objects, continue_token })
    }

    /// Returns whether the source supports lookups.
    pub(crate) async fn can_look_up(&self) -> Result<bool, SourceError> {
        Ok(look_up(&*self.source, LookupRequest::default()).await?.is_some())
    }

    /// Looks up the newest state of an object; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// If the request fails, or its answer has no version: then it proves nothing.
    pub(crate) async fn look_up(&mut self, key: &Key) -> Result<Option<Identity>, SourceError> {
        let request = LookupRequest { key: Some(key.clone()), ..LookupRequest::default() };
        let answer = look_up(&*self.source, request).await?.filter(|answer| !answer.version.is_empty());
        let found = answer.ok_or(SourceError::NoVersion)?.object;
        let unreadable = || SourceError::other("the object has no readable key, uid and version");
        let found = found.map(|item| self.identify(&item).ok_or_else(unreadable)).transpose()?;
        Ok(found.filter(|found| found.key == *key))
    }

    fn identify(&mut self, item: &Item<Erased>) -> Option<Identity> {
        Some(identify(&mut self.scanner, item)?.0)
    }
}

//! Lists: selects the objects of one page at one version.
//!
//! - **In:** the requested version, a selector, a limit.
//! - **Out:** a page with the token of the next one, or the error that kube-apiserver sends.
//! - **Knows nothing of:** HTTP, encoding.

use std::sync::Arc;

use crate::{
    error::ApiError,
    objects::encoded::Encoded,
    select::Selector,
    storage::{CollectionId, Storage, token::Token},
};

/// The version that a list requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The newest version.
    Newest,
    /// Any version (`resourceVersion=0`).
    Any,
    /// This version or a newer one.
    NotOlderThan(u64),
    /// Exactly this version.
    Exactly(u64),
    /// The version of an earlier page, with the next page of it.
    Continue(Token),
}

/// The parameters of a list.
pub(crate) struct ListQuery {
    pub(crate) moment: Moment,
    pub(crate) selector: Selector,
    /// 0 for no limit.
    pub(crate) limit: u64,
    /// The number of versions that the list is behind, unless it requests the newest version.
    pub(crate) lag: u64,
}

/// One page of a list.
pub(crate) struct Page {
    pub(crate) version: u64,
    pub(crate) objects: Vec<Arc<Encoded>>,
    pub(crate) next: Option<Token>,
    /// The number of objects on later pages, if it is known.
    pub(crate) remaining: Option<usize>,
}

impl ListQuery {
    pub(crate) fn run(&self, storage: &Storage, id: CollectionId) -> Result<Page, ApiError> {
        let collection = storage.collection(id).ok_or(ApiError::UnknownPath)?;
        let newest = storage.version();
        let oldest = storage.oldest(collection);
        let at_hand = newest.saturating_sub(self.lag).max(oldest.min(newest));
        let too_large = |asked| ApiError::VersionTooLarge { asked, current: at_hand };

        let (version, behind) = match &self.moment {
            Moment::Newest => (newest, None),
            Moment::Any => (at_hand, None),
            Moment::NotOlderThan(asked) if *asked > at_hand => return Err(too_large(*asked)),
            Moment::NotOlderThan(_) => (at_hand, None),
            Moment::Exactly(asked) if *asked > at_hand => return Err(too_large(*asked)),
            Moment::Exactly(asked) => (*asked, None),
            Moment::Continue(token) => (token.version.unwrap_or(newest), Some(token.behind())),
        };
        if version < oldest {
            return Err(self.expired(version, oldest));
        }
        // The token is from before a restore of a backup.
        if version > newest {
            return Err(self.expired(version, newest));
        }

        let objects = collection.objects_at(version, behind.as_ref()).map_err(|_| self.expired(version, oldest))?;
        let mut in_scope = objects.filter(|(key, _)| key.is_in(&self.selector.namespace)).peekable();
        let limit = if self.limit == 0 { usize::MAX } else { usize::try_from(self.limit).unwrap_or(usize::MAX) };
        let mut page = Page { version, objects: Vec::new(), next: None, remaining: None };
        let mut last = None;
        while page.objects.len() < limit
            && let Some((key, object)) = in_scope.next()
        {
            last = Some(key);
            if self.selector.matches(key, object) {
                page.objects.push(object.clone());
            }
        }
        // The rest may contain no matching object: as in kube-apiserver, the last page can be empty.
        if let (Some(last), Some(_)) = (last, in_scope.peek()) {
            page.next = Some(Token::new(Some(version), last, 0));
            page.remaining = (!self.selector.looks_inside()).then(|| in_scope.count());
        }
        Ok(page)
    }

    fn expired(&self, version: u64, oldest: u64) -> ApiError {
        match &self.moment {
            Moment::Continue(token) => expired_token(token),
            Moment::Newest | Moment::Any | Moment::NotOlderThan(_) | Moment::Exactly(_) => ApiError::Expired {
                why: format!("The resourceVersion for the provided list is too old: {version} ({oldest})"),
                continue_anyway: None,
            },
        }
    }
}

/// The error for an expired token, with a token that continues at the newest version.
pub(crate) fn expired_token(token: &Token) -> ApiError {
    ApiError::Expired {
        why:
            "The provided continue parameter is too old to display a consistent list result. You can start a new list \
              without the continue parameter, or use the continue token in this response to retrieve the remainder of \
              the results. Continuing with the provided token results in an inconsistent list - objects that were \
              created, modified, or deleted between the time the first chunk was returned and now may show up in the \
              list."
                .into(),
        continue_anyway: Some(Token::new(None, &token.behind(), token.number).encode()),
    }
}

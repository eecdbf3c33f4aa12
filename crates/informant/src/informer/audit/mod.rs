//! Compares the cache with the source from time to time, and lists again if the cache is wrong.
//!
//! - **In:** the inventory of the source, and the cache.
//! - **Out:** findings, for the reflector: why everything must be listed again; the number of audits and of wrong objects.
//! - **Knows nothing of:** handlers, and how the cache is written.
//!
//! An audit finds what no other check can find: a server that lost an event, or a restored backup that no request noticed. It requests the metadata of
//! all objects in pages, with pauses, and compares uid and version ([`comparison`]). It cannot find an object whose content differs although uid and
//! version are the same.

mod comparison;
mod schedule;

use std::{
    collections::HashSet,
    convert::Infallible,
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::future::{Either, select};
use tokio::{
    sync::mpsc,
    task::yield_now,
    time::{Instant, sleep, sleep_until, timeout},
};
use tracing::{debug, warn};

pub(crate) use self::schedule::{LONGEST_PERIOD, SHORTEST_PERIOD};
use self::{
    comparison::{Comparison, Suspect, is_within},
    schedule::Schedule,
};
use super::pipeline::Core;
use crate::{
    Cached, Key, ResourceVersion,
    error::Chain,
    listwatch::{Activity, Delays, Inventory, InventoryPage, ReflectorHandle, ServerHealth, SourceError},
    object::Identity,
};

/// Audits one informer.
pub(crate) struct Auditor {
    pub(crate) core: Arc<Core>,
    pub(crate) reflector: ReflectorHandle,
    pub(crate) inventory: Inventory,
    pub(crate) health: ServerHealth,
    pub(crate) delays: Delays,
    /// The period of audits; `None` for audits after history changes only.
    pub(crate) period: Option<Duration>,
    /// Where findings are sent.
    pub(crate) findings: mpsc::Sender<SourceError>,
}

/// How an audit ended.
enum Outcome {
    /// The audit was completed; with the reason why everything must be listed again, unless the cache is right: some objects are wrong, or the
    /// source has an older version than the cache had before the audit, so its history changed.
    Completed(Option<SourceError>),
    /// The source cannot be audited.
    Unsupported(&'static str),
}

const NO_VERSIONS: &str = "its source has no versions that can be compared";
const NO_LOOKUPS: &str = "its source does not support lookups";
const NOT_REACHED: &str =
    "the cache did not reach the version of the list in five minutes; check that the server sends bookmarks";
const ALL_CHANGED: &str = "all objects that were looked up had changed since the list";

/// The pause after each page, so that an audit uses little of the server and of the informer's task.
const PAUSE: Duration = Duration::from_millis(100);

/// After this number of expired continue tokens, the audit is given up.
const MOST_RESTARTS: usize = 3;

/// The number of cached objects that are noted without a pause.
const NOTED_AT_ONCE: usize = 1000;

/// The time limit for all pages. Other informers of the client wait meanwhile.
const LISTED_WITHIN: Duration = Duration::from_secs(1800);

/// How long an audit waits until the cache reaches the version of the list. Bookmarks come about once a minute.
const REACHED_WITHIN: Duration = Duration::from_secs(300);

/// Upper bound on lookups of suspects.
const MOST_LOOKUPS: usize = 10;

impl Auditor {
    /// Audits the informer when it is due, until the future is dropped.
    pub(crate) async fn run(mut self) -> Infallible {
        let mut history_changes = self.health.history_changes();
        let (now, chance) = (Instant::now(), self.chance());
        let mut schedule = Schedule::new(self.period, now, chance);
        if self.health.is_suspicious(now) {
            schedule.note_history_change(now, chance);
        }
        loop {
            let audited = {
                let changed = pin!(self.health.clone().history_change_after(history_changes));
                let audited = pin!(self.audit_when_due(&mut schedule));
                match select(changed, audited).await {
                    Either::Left(_) => None,
                    Either::Right((audited, _)) => Some(audited),
                }
            };
            let (now, chance) = (Instant::now(), self.chance());
            match audited {
                None => {
                    history_changes = self.health.history_changes();
                    schedule.note_history_change(now, chance);
                }
                Some(Ok(Outcome::Unsupported(reason))) => {
                    // An audit after a history change was not asked for.
                    if self.period.is_some() {
                        warn!(error = reason, "the informer cannot be audited");
                    }
                    return std::future::pending().await;
                }
                Some(Ok(Outcome::Completed(finding))) => {
                    schedule.note_end(finding.is_some(), now, chance);
                    self.note_end(finding);
                }
                Some(Err(error)) => {
                    let retry_in = schedule.note_failure(now);
                    // The failure of a server that also breaks watches is reported already.
                    if self.is_watching() {
                        warn!(error = %Chain(&error), ?retry_in, "an audit failed");
                    }
                }
            }
        }
    }

    fn chance(&mut self) -> f64 {
        self.delays.between(Duration::ZERO, Duration::from_secs(1)).as_secs_f64()
    }

    fn is_watching(&self) -> bool {
        self.reflector.with_status(|status| matches!(status.activity, Activity::Watching))
    }

    /// Counts an audit that ended, and passes on what it found.
    fn note_end(&self, finding: Option<SourceError>) {
        let wrong_objects = if let Some(SourceError::CacheDiffers { objects }) = &finding { objects.len() } else { 0 };
        debug!(count = wrong_objects, is_right = finding.is_none(), "audited the cache");
        self.core.audits.fetch_add(1, Ordering::Relaxed);
        self.core.wrong_objects.fetch_add(wrong_objects as u64, Ordering::Relaxed);
        self.core.metrics.audits.increment(1);
        self.core.metrics.wrong_objects.increment(wrong_objects as u64);
        // If a finding waits already, everything is about to be listed.
        finding.into_iter().for_each(|finding| drop(self.findings.try_send(finding)));
    }

    /// Waits until an audit is due and the informer watches, and audits it.
    async fn audit_when_due(&mut self, schedule: &mut Schedule) -> Result<Outcome, SourceError> {
        match schedule.next() {
            Some(next) => sleep_until(next).await,
            None => std::future::pending().await,
        }
        let health = self.health.clone();
        let permit = loop {
            // Waits without the permit: other informers may be watching.
            while !self.is_watching() {
                self.reflector.changed().await;
            }
            let permit = health.audit_permit().await;
            if self.is_watching() {
                break permit;
            }
        };
        schedule.note_begin(Instant::now());
        let Some(reached) = self.core.version().filter(is_comparable) else {
            return Ok(Outcome::Unsupported(NO_VERSIONS));
        };
        if !self.inventory.can_look_up().await? {
            return Ok(Outcome::Unsupported(NO_LOOKUPS));
        }
        let silent = |_| SourceError::Silent { after: LISTED_WITHIN };
        let (version, suspects) = timeout(LISTED_WITHIN, self.compare()).await.map_err(silent)??;
        drop(permit);
        if !is_within(&reached, &version) {
            return Ok(Outcome::Completed(Some(SourceError::HistoryChanged { reached })));
        }
        if suspects.is_empty() {
            return Ok(Outcome::Completed(None));
        }
        debug!(rv = %version, count = suspects.len(), "an audit has suspects");
        let core = Arc::clone(&self.core);
        let has_reached = || core.version().filter(|reached| is_within(&version, reached)).map(|_| ());
        match timeout(REACHED_WITHIN, core.wait_for_cache(has_reached)).await {
            Ok(Some(())) => self.confirm(&version, suspects).await,
            Ok(None) | Err(_) => Err(SourceError::other(NOT_REACHED)),
        }
    }

    /// Lists the source in pages, and compares it with the cache. Returns the version of the list, and the suspects.
    async fn compare(&mut self) -> Result<(ResourceVersion, Vec<Suspect>), SourceError> {
        let mut restarts = 0;
        'list: loop {
            let (mut comparison, mut tokens) = (Comparison::default(), HashSet::new());
            for objects in self.core.lister.list().chunks(NOTED_AT_ONCE) {
                objects.iter().for_each(|object| comparison.note_cached(object.identity()));
                yield_now().await;
            }
            let InventoryPage { version, mut objects, continue_token: mut next } = self.inventory.page(None).await?;
            if !is_comparable(&version) {
                return Err(SourceError::NoVersion);
            }
            loop {
                objects.into_iter().for_each(|object| comparison.note_listed(object));
                let Some(token) = next else { return Ok((version, comparison.into_suspects())) };
                if !tokens.insert(token.clone()) {
                    return Err(SourceError::other("the server sent the same continue token twice"));
                }
                sleep(PAUSE).await;
                (objects, next) = match self.inventory.page(Some(token)).await {
                    Ok(page) => (page.objects, page.continue_token),
                    Err(error) if error.code() == Some(410) && restarts < MOST_RESTARTS => {
                        restarts += 1;
                        continue 'list;
                    }
                    Err(error) => return Err(error),
                };
            }
        }
    }

    /// Looks up suspects, now that the cache has reached the version of the list.
    async fn confirm(&mut self, version: &ResourceVersion, suspects: Vec<Suspect>) -> Result<Outcome, SourceError> {
        let (mut wrong, mut lookups, mut failure) = (Vec::new(), 0, None);
        for suspect in suspects {
            // Read before the object and the quarantine, which are then at least as new.
            let Some(reached) = self.core.version() else { break };
            let cached = self.core.lister.get(&suspect.key);
            let cached = cached.as_ref().map(Cached::identity);
            if !suspect.is_suspicious(cached, version) || self.may_be_quarantined(&suspect.key, cached) {
                continue;
            }
            if lookups == MOST_LOOKUPS {
                failure = failure.or_else(|| Some(SourceError::other(ALL_CHANGED)));
                break;
            }
            lookups += 1;
            match self.inventory.look_up(&suspect.key).await {
                Ok(found) if suspect.is_wrong(cached, &reached, found.as_ref()) => wrong.push(suspect.key),
                Ok(_) => {}
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            _ if !wrong.is_empty() => Ok(Outcome::Completed(Some(SourceError::CacheDiffers { objects: wrong }))),
            Some(failure) => Err(failure),
            None => Ok(Outcome::Completed(None)),
        }
    }

    /// Returns true if the object is quarantined, or may be: an item whose key could not be read may be any object that the cache lacks.
    fn may_be_quarantined(&self, key: &Key, cached: Option<&Identity>) -> bool {
        self.reflector.quarantine.get(key).is_some()
            || (cached.is_none() && self.reflector.quarantined().iter().any(|object| object.key.is_none()))
    }
}

/// Returns true if the version is a number.
fn is_comparable(version: &ResourceVersion) -> bool {
    version.compare(version).is_some()
}

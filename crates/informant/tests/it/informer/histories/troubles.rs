//! What goes wrong in a run: faults of the server, and restored backups.

use std::{sync::atomic, time::Duration};

use informant_apiserver::{Fault, FaultId, LoggedRequest, On, Verb};

use super::world::{World, put};
use crate::{
    reflector::{soak, soak::Texted},
    support::reflector::sleep_seconds,
};

/// The weight of each kind of restored backup.
const RESTORES: u32 = 1;

/// The troubles of a run. A new fault needs a variant, its weight and an arm in [`World::strike`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trouble {
    /// Some requests fail, or their answers are damaged.
    Requests,
    /// The server cannot be reached for a while: open watches break, and connections are refused.
    Outage,
    /// For a while, the server refuses all requests, or only watches, and open watches break.
    Refusals,
    /// For a while, no request is answered, and open watches break.
    Hang,
    /// For a while, watches stay open and deliver nothing, and lists may never be answered.
    Silence,
    /// A backup is restored, and nothing is written any more.
    QuietRestore,
    /// A backup is restored; the informer connects again, and then writes pass the version that the server had before.
    BusyRestore,
    /// A backup is restored, and writes pass the version that the server had before until the informer can connect again.
    OvertakenRestore,
}

impl Trouble {
    pub(super) const ALL: [Self; 8] = [
        Self::Requests,
        Self::Outage,
        Self::Refusals,
        Self::Hang,
        Self::Silence,
        Self::QuietRestore,
        Self::BusyRestore,
        Self::OvertakenRestore,
    ];

    /// The probability of this trouble in relation to the others.
    pub(super) const fn weight(self) -> u32 {
        match self {
            Self::Requests => 16,
            Self::Outage | Self::Refusals | Self::Hang | Self::Silence => 2,
            Self::QuietRestore | Self::BusyRestore | Self::OvertakenRestore => RESTORES,
        }
    }

    pub(super) fn any(random: &mut fastrand::Rng) -> Self {
        let all = Self::ALL.into_iter().flat_map(|trouble| std::iter::repeat_n(trouble, trouble.weight() as usize));
        random.choice(all.collect::<Vec<_>>()).unwrap()
    }
}

impl<O: Texted> World<O> {
    pub(super) async fn strike(&mut self, trouble: Trouble, random: &mut fastrand::Rng) {
        match trouble {
            Trouble::Requests => {
                let (on, times, fault) = soak::random_fault::<O>(random);
                self.server.inject(on.times(times), fault);
            }
            Trouble::Outage => {
                let refusal = self.begin_outage();
                self.change(random);
                sleep_seconds(random.f64() * [1.0, 20.0, 200.0][random.usize(0..3)]).await;
                self.server.remove_fault(refusal);
            }
            Trouble::Refusals | Trouble::Hang => {
                let refusal = Fault::status([401, 403, 429, 500, 503][random.usize(0..5)]);
                let fault = if trouble == Trouble::Hang { Fault::Hang } else { refusal };
                let on = if random.bool() { On::any() } else { On::watch() };
                let fault = self.server.inject(on, fault);
                self.server.cut_all_watches();
                self.change(random);
                sleep_seconds(random.f64() * [1.0, 20.0, 200.0][random.usize(0..3)]).await;
                self.server.remove_fault(fault);
            }
            Trouble::Silence => {
                let watches = Fault::freeze_after_events(random.usize(0..3));
                let mut faults = vec![self.server.inject(On::watch(), watches)];
                if random.bool() {
                    faults.push(self.server.inject(On::list(), Fault::Hang));
                }
                self.server.cut_all_watches();
                self.change(random);
                sleep_seconds(random.f64() * [20.0, 200.0, 2000.0][random.usize(0..3)]).await;
                faults.into_iter().for_each(|fault| self.server.remove_fault(fault));
            }
            Trouble::QuietRestore => {
                self.restore(None, random).await;
                self.is_quiet = true;
            }
            Trouble::BusyRestore => {
                let before = self.server.version();
                self.restore(None, random).await;
                while self.server.version() <= before {
                    self.change(random);
                    sleep_seconds(random.f64()).await;
                }
            }
            Trouble::OvertakenRestore => self.restore(Some(self.server.version()), random).await,
        }
    }

    /// Breaks all watches, and refuses connections until the fault is removed.
    fn begin_outage(&self) -> FaultId {
        let refusal = self.server.inject(On::any(), Fault::Refuse);
        self.server.cut_all_watches();
        refusal
    }

    /// Restores the backup in an outage, and waits until the informer watches again. In the outage, writes pass the given version.
    ///
    /// Other faults end first, because an informer cannot find out that the history changed while its requests are refused. The
    /// outage lasts longer than 10 s, as that of every restored server does.
    async fn restore(&mut self, passed: Option<u64>, random: &mut fastrand::Rng) {
        self.server.clear_faults();
        let refusal = self.begin_outage();
        // Requests that the old server accepted before the outage end: the restored one cannot answer them.
        sleep_seconds(60.0).await;
        self.server.restore(&self.backup);
        self.restores.fetch_add(1, atomic::Ordering::Relaxed);
        // No deletes: if the restored server deleted the same object at the same version again, both histories would look the same.
        while passed.is_some_and(|passed| self.server.version() <= passed) {
            let name = format!("c{}", random.u32(0..8));
            put(&self.server, &self.states, &name, random);
        }
        sleep_seconds(11.0 + random.f64() * 60.0).await;
        self.server.remove_fault(refusal);
        let now = self.started.elapsed();
        let is_watch = |request: &LoggedRequest| {
            request.at >= now && request.faults.is_empty() && matches!(request.verb, Verb::Watch | Verb::WatchList)
        };
        // If the informer does not watch, the check of the cache at the end of the run fails.
        let _ = tokio::time::timeout(Duration::from_secs(4000), self.server.wait_for_request(is_watch)).await;
    }
}

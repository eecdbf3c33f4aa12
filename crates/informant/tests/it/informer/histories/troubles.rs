//! What goes wrong in a run: faults of the server, restored backups, a proxy that hides a restore, a client that is stopped meanwhile.

use std::{sync::atomic, time::Duration};

use informant_apiserver::{ApiServer, Fault, FaultId, LoggedRequest, On, Verb};

use tokio::time::Instant;

use super::world::{World, cache, put};
use crate::{
    reflector::{
        soak,
        soak::{Texted, contents},
    },
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
    /// A backup is restored while the client is stopped (SIGSTOP), so none of its requests fails.
    StoppedClient,
    /// A backup is restored while a proxy keeps the connections to the client, which it then cuts.
    KeptConnections,
    /// As `KeptConnections`; then the proxy holds new requests for a while.
    HeldRequests,
    /// One of two servers behind a proxy is restored, the other one still has the lost history. The proxy alternates between them.
    RollingRestore,
}

impl Trouble {
    pub(super) const ALL: [Self; 12] = [
        Self::Requests,
        Self::Outage,
        Self::Refusals,
        Self::Hang,
        Self::Silence,
        Self::QuietRestore,
        Self::BusyRestore,
        Self::OvertakenRestore,
        Self::StoppedClient,
        Self::KeptConnections,
        Self::HeldRequests,
        Self::RollingRestore,
    ];

    /// The probability of this trouble in relation to the others.
    pub(super) const fn weight(self) -> u32 {
        match self {
            Self::Requests => 16,
            Self::Outage | Self::Refusals | Self::Hang | Self::Silence => 2,
            Self::QuietRestore
            | Self::BusyRestore
            | Self::OvertakenRestore
            | Self::StoppedClient
            | Self::KeptConnections
            | Self::HeldRequests
            | Self::RollingRestore => RESTORES,
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
            Trouble::StoppedClient => {
                self.deliver_write(random).await;
                self.restore_backup(random.bool().then(|| self.server.version()), random);
                self.proxy.cut();
                // All timers elapse at once: no task has run until now.
                tokio::time::advance(Duration::from_secs(random.u64(3..60))).await;
                self.wait_for_watch().await;
            }
            Trouble::KeptConnections => {
                self.restore_unnoticed(random).await;
                sleep_seconds(10.0).await;
                self.cut_kept_connections();
                self.wait_for_watch().await;
            }
            Trouble::HeldRequests => {
                self.restore_unnoticed(random).await;
                self.proxy.set(|proxy| proxy.holds = true);
                self.cut_kept_connections();
                sleep_seconds(4.0).await;
                self.change(random);
                sleep_seconds(4.0 + random.f64() * 2.0).await;
                self.proxy.set(|proxy| proxy.holds = false);
                self.wait_for_watch().await;
            }
            Trouble::RollingRestore => {
                self.deliver_write(random).await;
                let restored = ApiServer::builder().seed(random.u64(..)).build();
                restored.restore(&self.backup);
                let old = std::mem::replace(&mut self.server, restored);
                self.started = Instant::now();
                for _ in 0..random.usize(1..5) {
                    for server in [self.server.clone(), old.clone()] {
                        self.switch_to(server);
                        // No deletes, as in `restore_backup`.
                        (0..random.usize(0..4)).for_each(|_| self.put(random));
                        sleep_seconds(random.f64() * 10.0).await;
                    }
                }
                self.switch_to(self.server.clone());
                self.wait_for_watch().await;
            }
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
        self.restore_backup(passed, random);
        sleep_seconds(11.0 + random.f64() * 60.0).await;
        self.server.remove_fault(refusal);
        self.wait_for_watch().await;
    }

    /// Restores the backup. Then writes pass the given version.
    fn restore_backup(&mut self, passed: Option<u64>, random: &mut fastrand::Rng) {
        self.server.restore(&self.backup);
        self.restores.fetch_add(1, atomic::Ordering::Relaxed);
        // No deletes: if the restored server deleted the same object at the same version again, both histories would look the same.
        while passed.is_some_and(|passed| self.server.version() <= passed) {
            self.put(random);
        }
    }

    /// Restores the backup while the proxy keeps the client's connections, for 3 to 4 s. They stay open afterwards.
    async fn restore_unnoticed(&mut self, random: &mut fastrand::Rng) {
        self.deliver_write(random).await;
        self.proxy.set(|proxy| proxy.keeps = true);
        let refusal = self.begin_outage();
        self.restore_backup(random.bool().then(|| self.server.version()), random);
        sleep_seconds(3.0 + random.f64()).await;
        self.server.remove_fault(refusal);
    }

    fn cut_kept_connections(&self) {
        self.proxy.set(|proxy| proxy.keeps = false);
        self.proxy.cut();
    }

    /// Cuts all connections; new ones lead to this server, which has another history.
    fn switch_to(&self, server: ApiServer) {
        self.restores.fetch_add(1, atomic::Ordering::Relaxed);
        self.proxy.set(|proxy| proxy.server = server);
        self.proxy.cut();
    }

    fn put(&self, random: &mut fastrand::Rng) {
        let name = format!("c{}", random.u32(0..8));
        put(&self.server, &self.states, &name, random);
    }

    /// Ends all faults, and writes an object until the informer has this write and watches.
    ///
    /// If no request fails in a restore, only the newest write shows that the history changed; deletes before the newest list cannot.
    async fn deliver_write(&self, random: &mut fastrand::Rng) {
        self.server.clear_faults();
        // If the informer never has the write, the check of the cache at the end of the run fails.
        for _ in 0..400 {
            let (key, _) = put(&self.server, &self.states, "c0", random);
            sleep_seconds(10.0).await;
            let is_delivered = cache(&self.informer).get(&key) == contents(&self.server).get(&key);
            if is_delivered && self.server.open_watches("configmaps") > 0 {
                return;
            }
        }
    }

    /// Waits until the informer opens a watch.
    async fn wait_for_watch(&self) {
        let now = self.started.elapsed();
        let is_watch = |request: &LoggedRequest| {
            request.at >= now && request.faults.is_empty() && matches!(request.verb, Verb::Watch | Verb::WatchList)
        };
        // If the informer does not watch, the check of the cache at the end of the run fails.
        let _ = tokio::time::timeout(Duration::from_secs(4000), self.server.wait_for_request(is_watch)).await;
    }
}

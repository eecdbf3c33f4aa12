//! What goes wrong in a run: faults of the server and of single kinds, restored backups, a proxy that hides a restore, a client that is stopped meanwhile.

use std::time::Duration;

use informant_apiserver::{ApiServer, Fault, FaultId, On};

use super::world::{EVENTUALLY, World};
use crate::support::reflector::sleep_seconds;

/// The troubles of a run. A new one needs a variant, its weight, its limits and an arm in [`World::strike`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trouble {
    /// The server cannot be reached for a while: open watches break, and connections are refused.
    Outage,
    /// A backup is restored in an outage.
    Restore,
    /// A backup is restored in an outage, and writes pass the version that the server had before until the client can connect again.
    OvertakenRestore,
    /// For a while, requests of one kind are refused, or not answered.
    KindFails,
    /// As `KindFails`; meanwhile the server cannot be reached for ten seconds.
    KindFailsInOutage,
    /// As `KindFailsInOutage`; a backup is restored in the outage.
    KindFailsInRestore,
    /// For a while, the server refuses all requests, and open watches break.
    Refusals,
    /// The watches of one kind break.
    BrokenWatches,
    /// For a while, no request is answered, and open watches break.
    Silence,
    /// A backup is restored while the client is stopped (SIGSTOP), so none of its requests fails.
    StoppedClient,
    /// A backup is restored while a proxy keeps the connections to the client, which it then cuts.
    KeptConnections,
    /// As `KeptConnections`; then the proxy holds new requests for a while.
    HeldRequests,
    /// One of two servers behind a proxy is restored, the other one still has the lost history. The proxy alternates between them.
    RollingRestore,
}

/// The version of a server after a backup was restored.
#[derive(Clone, Copy, Debug)]
enum RestoredVersion {
    /// That of the backup.
    OfBackup,
    /// Writes pass the version that the server had before the restore: no version goes backwards.
    Overtaken,
}

impl RestoredVersion {
    fn any(random: &mut fastrand::Rng) -> Self {
        random.choice([Self::OfBackup, Self::Overtaken]).unwrap()
    }
}

impl Trouble {
    pub(super) const ALL: [Self; 13] = [
        Self::Outage,
        Self::Restore,
        Self::OvertakenRestore,
        Self::KindFails,
        Self::KindFailsInOutage,
        Self::KindFailsInRestore,
        Self::Refusals,
        Self::BrokenWatches,
        Self::Silence,
        Self::StoppedClient,
        Self::KeptConnections,
        Self::HeldRequests,
        Self::RollingRestore,
    ];

    /// The probability of this trouble in relation to the others.
    const fn weight(self) -> usize {
        match self {
            Self::KindFails => 8,
            Self::Outage
            | Self::Restore
            | Self::OvertakenRestore
            | Self::Refusals
            | Self::BrokenWatches
            | Self::Silence => 4,
            Self::StoppedClient | Self::KeptConnections | Self::HeldRequests | Self::RollingRestore => 3,
            Self::KindFailsInOutage | Self::KindFailsInRestore => 2,
        }
    }

    pub(super) fn any(random: &mut fastrand::Rng) -> Self {
        let all = Self::ALL.into_iter().flat_map(|trouble| std::iter::repeat_n(trouble, trouble.weight()));
        random.choice(all.collect::<Vec<_>>()).unwrap()
    }

    /// The longest time after this trouble until all caches equal the server.
    pub(super) const fn limit(self) -> Duration {
        match self {
            // Decision 21 aims at 5 s after an outage. After a history change, the lists of a client are spread over another 3 s. Half a second is to spare.
            Self::Outage
            | Self::Restore
            | Self::OvertakenRestore
            | Self::Refusals
            | Self::BrokenWatches
            | Self::StoppedClient
            | Self::KeptConnections
            | Self::HeldRequests
            | Self::RollingRestore => Duration::from_millis(8500),
            // A request that was sent in the silence is never answered, and a watch is given up after 20 s. Less than 10 s follow, as above.
            Self::Silence => Duration::from_secs(30),
            // A kind that fails alone has long delays, which the others do not shorten.
            Self::KindFails | Self::KindFailsInOutage | Self::KindFailsInRestore => EVENTUALLY,
        }
    }

    /// The most lists of one informer from the beginning of this trouble until all caches equal the server; `None` if there is no limit.
    pub(super) const fn most_lists(self) -> Option<usize> {
        match self {
            // One list repairs a cache. An audit is another one, and so is the list after a history change that another informer finds later. More of
            // them would be a storm of lists.
            Self::Outage
            | Self::Restore
            | Self::OvertakenRestore
            | Self::KindFails
            | Self::KindFailsInOutage
            | Self::KindFailsInRestore
            | Self::Refusals
            | Self::BrokenWatches
            | Self::Silence
            | Self::StoppedClient
            | Self::KeptConnections
            | Self::HeldRequests => Some(3),
            // Each of up to nine switches may be a history change, and all watches are checked for ten minutes after it.
            Self::RollingRestore => None,
        }
    }
}

/// The length of a trouble, in seconds: often short, at most a minute.
fn length(random: &mut fastrand::Rng) -> f64 {
    random.f64() * random.choice([2.0, 15.0, 60.0]).unwrap()
}

impl World {
    pub(super) async fn strike(&mut self, trouble: Trouble, random: &mut fastrand::Rng) {
        self.note(format!("{trouble:?}"));
        match trouble {
            Trouble::Outage => self.outage(random).await,
            Trouble::Restore => self.restore_in_outage(RestoredVersion::OfBackup, random).await,
            Trouble::OvertakenRestore => self.restore_in_outage(RestoredVersion::Overtaken, random).await,
            Trouble::KindFails => {
                let fault = self.begin_failure_of_kind(random).await;
                self.server.remove_fault(fault);
            }
            Trouble::KindFailsInOutage => {
                let fault = self.begin_failure_of_kind(random).await;
                self.outage_of_ten_seconds(None, random).await;
                self.server.remove_fault(fault);
            }
            Trouble::KindFailsInRestore => {
                let fault = self.begin_failure_of_kind(random).await;
                self.outage_of_ten_seconds(Some(RestoredVersion::any(random)), random).await;
                self.server.remove_fault(fault);
            }
            Trouble::Refusals => {
                let code = random.choice([401, 429, 500, 503]).unwrap();
                self.fail_all(Fault::status(code), random).await;
            }
            Trouble::BrokenWatches => {
                let kind = self.kind(random);
                self.note(format!("the watches of {kind} break"));
                self.server.cut_watches(kind);
                self.write_sometimes(random);
            }
            Trouble::Silence => self.fail_all(Fault::Hang, random).await,
            Trouble::StoppedClient => {
                self.deliver_writes().await;
                self.restore(RestoredVersion::any(random), random);
                self.proxy.cut();
                // All timers elapse at once: no task has run until now.
                tokio::time::advance(Duration::from_secs(random.u64(3..60))).await;
            }
            Trouble::KeptConnections => {
                self.restore_unnoticed(random).await;
                sleep_seconds(10.0).await;
                self.cut_kept_connections();
            }
            Trouble::HeldRequests => {
                self.restore_unnoticed(random).await;
                self.proxy.set(|proxy| proxy.holds = true);
                self.cut_kept_connections();
                sleep_seconds(4.0).await;
                self.put_labelled_at(&self.server.clone(), random);
                sleep_seconds(4.0 + random.f64() * 2.0).await;
                self.proxy.set(|proxy| proxy.holds = false);
            }
            Trouble::RollingRestore => self.rolling_restore(random).await,
        }
    }

    fn write_sometimes(&mut self, random: &mut fastrand::Rng) {
        (0..random.usize(0..3)).for_each(|_| self.write(random));
    }

    /// Breaks all watches, and refuses connections until the fault is removed.
    fn begin_outage(&self) -> FaultId {
        let refusal = self.server.inject(On::any(), Fault::Refuse);
        self.server.cut_all_watches();
        refusal
    }

    async fn outage(&mut self, random: &mut fastrand::Rng) {
        let (outage, half) = (self.begin_outage(), length(random) / 2.0);
        sleep_seconds(half).await;
        self.write_sometimes(random);
        sleep_seconds(half).await;
        self.server.remove_fault(outage);
    }

    async fn restore_in_outage(&mut self, version: RestoredVersion, random: &mut fastrand::Rng) {
        let (outage, half) = (self.begin_outage(), length(random) / 2.0);
        // A restore takes longer than two seconds.
        sleep_seconds(half + 3.0).await;
        self.restore(version, random);
        sleep_seconds(half).await;
        self.server.remove_fault(outage);
    }

    /// An outage while one kind fails, with or without a restored backup; then up to ten seconds in which only the kind fails.
    async fn outage_of_ten_seconds(&mut self, restored: Option<RestoredVersion>, random: &mut fastrand::Rng) {
        self.note("an outage of ten seconds");
        let outage = self.begin_outage();
        sleep_seconds(5.0).await;
        if let Some(version) = restored {
            self.restore(version, random);
        }
        sleep_seconds(5.0).await;
        self.server.remove_fault(outage);
        sleep_seconds(random.f64() * 10.0).await;
    }

    /// Lets requests of one kind fail for a while, and until the fault is removed.
    async fn begin_failure_of_kind(&mut self, random: &mut fastrand::Rng) -> FaultId {
        let statuses = [401, 403, 404, 429, 500, 503].map(Fault::status);
        let fault = random.choice(statuses.into_iter().chain([Fault::Hang, Fault::Drop]).collect::<Vec<_>>()).unwrap();
        let (kind, on) = (self.kind(random), random.choice([On::any(), On::watch(), On::list()]).unwrap());
        self.note(format!("{fault:?} of {on:?} of {kind}"));
        let fault = self.server.inject(on.of(kind), fault);
        if random.bool() {
            self.server.cut_watches(kind);
        }
        self.write_sometimes(random);
        sleep_seconds(length(random)).await;
        fault
    }

    /// Breaks all watches, and lets all requests fail for a while.
    async fn fail_all(&mut self, fault: Fault, random: &mut fastrand::Rng) {
        self.note(format!("{fault:?} of all requests"));
        let fault = self.server.inject(On::any(), fault);
        self.server.cut_all_watches();
        self.write_sometimes(random);
        sleep_seconds(length(random)).await;
        self.write_sometimes(random);
        self.server.remove_fault(fault);
    }

    /// Restores the backup.
    fn restore(&mut self, version: RestoredVersion, random: &mut fastrand::Rng) {
        let before = self.server.version();
        self.server.restore(&self.backup);
        self.is_restored = true;
        match version {
            RestoredVersion::OfBackup => {}
            RestoredVersion::Overtaken => {
                while self.server.version() <= before {
                    self.put_labelled_at(&self.server.clone(), random);
                }
            }
        }
        self.note(format!("a backup is restored: {version:?}, @{before} and then @{}", self.server.version()));
    }

    /// Restores the backup while the proxy keeps the client's connections, for 3 to 4 s. They stay open afterwards.
    async fn restore_unnoticed(&mut self, random: &mut fastrand::Rng) {
        self.deliver_writes().await;
        self.proxy.set(|proxy| proxy.keeps = true);
        let outage = self.begin_outage();
        self.restore(RestoredVersion::any(random), random);
        sleep_seconds(3.0 + random.f64()).await;
        self.server.remove_fault(outage);
    }

    fn cut_kept_connections(&self) {
        self.proxy.set(|proxy| proxy.keeps = false);
        self.proxy.cut();
    }

    async fn rolling_restore(&mut self, random: &mut fastrand::Rng) {
        self.deliver_writes().await;
        self.other.restore(&self.backup);
        self.is_restored = true;
        std::mem::swap(&mut self.server, &mut self.other);
        for _ in 0..random.usize(1..5) {
            for server in [self.server.clone(), self.other.clone()] {
                self.switch_to(&server);
                (0..random.usize(0..4)).for_each(|_| self.put_labelled_at(&server, random));
                sleep_seconds(random.f64() * 10.0).await;
            }
        }
        self.switch_to(&self.server.clone());
        // An informer may follow the other history unnoticed, until the audit that ends the ten minutes after a history change, or a minute later.
        sleep_seconds(1000.0).await;
    }

    /// Cuts all connections; new ones lead to this server, which has another history.
    fn switch_to(&mut self, server: &ApiServer) {
        self.proxy.set(|proxy| proxy.server = server.clone());
        self.proxy.cut();
        self.note(format!("the proxy switches to a server @{}", server.version()));
    }
}

//! A load: many realistic objects of a kind, and changes to them at a rate, repeatable by a seed.
//!
//! - **In:** how many of what, and how they change.
//! - **Out:** objects in a server, and one change after the other.
//! - **Knows nothing of:** HTTP, watchers.

mod changes;
mod templates;

use std::time::Duration;

use tokio::time::MissedTickBehavior;

use crate::ApiServer;
use crate::error::ApiError;
use crate::load::changes::Change;
use crate::load::changes::Changes;
use crate::load::templates::Template;

/// What is to be made.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use informant_apiserver::{ApiServer, Load};
///
/// let server = ApiServer::new();
/// let mut load = Load::of("pods", 200).namespaces(3).nodes(10).seed(7).fill(&server).await?;
/// assert_eq!(server.list("pods")?.len(), 200);
///
/// load.churn(50.0, 500).await?; // 500 changes, 50 of them a second
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Load {
    kind: String,
    objects: usize,
    namespaces: usize,
    nodes: usize,
    seed: u64,
    mix: Mix,
}

/// How often each kind of change happens, as weights.
///
/// Default: of 20 changes 15 are updates, 2 add an object, 2 delete one, and 1 deletes one and creates it again. The number
/// of objects stays within a tenth of what was asked for (at least within one object), whatever the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// A new state of an object.
    pub update: u32,
    /// An object that was never there, or not for a while.
    pub create: u32,
    /// An object goes.
    pub delete: u32,
    /// An object goes and comes back at once, with another uid.
    pub recreate: u32,
}

impl Default for Mix {
    fn default() -> Self {
        Self { update: 15, create: 2, delete: 2, recreate: 1 }
    }
}

impl Load {
    /// So many objects of a kind: realistic ones for `pods` and `nodes`, small ones for `deployments`, `services` and
    /// `configmaps`, metadata alone for all others.
    pub fn of(kind: impl Into<String>, objects: usize) -> Self {
        Self { kind: kind.into(), objects, namespaces: 5, nodes: 100, seed: 0, mix: Mix::default() }
    }

    /// How many namespaces they are spread over. Default: 5.
    #[must_use]
    pub fn namespaces(mut self, namespaces: usize) -> Self {
        self.namespaces = namespaces.max(1);
        self
    }

    /// How many nodes pods are placed on. Default: 100.
    #[must_use]
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.nodes = nodes.max(1);
        self
    }

    /// What the changes follow from. Default: 0.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Which changes happen how often.
    #[must_use]
    pub fn mix(mut self, mix: Mix) -> Self {
        self.mix = mix;
        self
    }

    /// Creates the objects. Lets others run in between, so that open watches keep up.
    ///
    /// # Errors
    ///
    /// If the server does not serve the kind.
    pub async fn fill(&self, server: &ApiServer) -> Result<LoadMaker, ApiError> {
        let kind = server.kind(&self.kind)?;
        let template = Template::new(&kind, self.namespaces, self.nodes);
        let mut maker = LoadMaker {
            server: server.clone(),
            kind: kind.resource(),
            changes: Changes::new(template, self.objects, self.mix, self.seed),
        };
        for number in 0..self.objects {
            maker.server.store(&maker.kind, maker.changes.add(number))?;
            if number as u64 % TURN == TURN - 1 {
                tokio::task::yield_now().await;
            }
        }
        Ok(maker)
    }
}

/// How many changes are made before others get their turn.
const TURN: u64 = 64;

/// Objects that are there, and how they go on.
#[derive(Debug)]
pub struct LoadMaker {
    server: ApiServer,
    /// The full name of the kind.
    kind: String,
    changes: Changes,
}

impl LoadMaker {
    /// How many objects there are.
    pub fn objects(&self) -> usize {
        self.changes.live()
    }

    /// Makes one change. What was to be deleted, somebody else may have deleted already.
    ///
    /// # Errors
    ///
    /// If the kind is gone.
    pub fn step(&mut self) -> Result<(), ApiError> {
        match self.changes.next() {
            Change::Put(object) => self.server.store(&self.kind, object).map(drop),
            Change::Delete(key) => self.delete(&key),
            Change::Replace(key, object) => {
                self.delete(&key)?;
                self.server.store(&self.kind, object).map(drop)
            }
        }
    }

    fn delete(&self, key: &str) -> Result<(), ApiError> {
        match self.server.delete(&self.kind, key) {
            Ok(_) | Err(ApiError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Makes changes, so many a second, until it fails, which it does not while the server serves the kind.
    ///
    /// # Panics
    ///
    /// As [`churn`](Self::churn).
    pub async fn churn_forever(mut self, per_second: f64) -> ApiError {
        loop {
            if let Err(error) = self.churn(per_second, u64::MAX).await {
                return error;
            }
        }
    }

    /// Makes so many changes, so many a second on tokio's clock. Falls behind rather than making up with a burst, and lets
    /// others run in between, so that open watches keep up.
    ///
    /// # Errors
    ///
    /// As [`step`](Self::step).
    ///
    /// # Panics
    ///
    /// If the rate is not above 0.
    pub async fn churn(&mut self, per_second: f64, changes: u64) -> Result<(), ApiError> {
        assert!(per_second > 0.0, "a rate is above 0, {per_second} is not");
        // Ticks are coarse, so that high rates need few wake-ups.
        let tick = Duration::from_secs_f64((1.0 / per_second).clamp(0.01, 3600.0));
        let per_tick = per_second * tick.as_secs_f64();
        let mut ticks = tokio::time::interval(tick);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut made, mut due) = (0, 0.0);
        while made < changes {
            ticks.tick().await;
            due += per_tick;
            while due >= 1.0 - 1e-9 && made < changes {
                self.step()?;
                due -= 1.0;
                made += 1;
                if made % TURN == 0 {
                    tokio::task::yield_now().await;
                }
            }
        }
        Ok(())
    }
}

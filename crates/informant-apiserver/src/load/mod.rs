//! Load generation: many realistic objects of a kind, and random changes to them at a given rate.
//!
//! - **In:** the kind, the number of objects, the mix and rate of changes, a seed.
//! - **Out:** objects in a server, and changes to them. The same seed gives the same changes.
//! - **Knows nothing of:** HTTP, watches.

mod changes;
mod templates;

use std::time::Duration;

use tokio::time::MissedTickBehavior;

use crate::{
    ApiServer,
    error::ApiError,
    load::{
        changes::{Change, Changes},
        templates::Template,
    },
};

/// Describes a load: many realistic objects of one kind, and random changes to them.
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
    mix: ChangeMix,
}

/// The weights of the types of changes in a [`Load`].
///
/// Default: of 20 changes, 15 update an object, 2 create one, 2 delete one, and 1 deletes one and creates it again. The number
/// of objects stays within 10 % of the number given to [`Load::of`] (but at least within one object), whatever the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeMix {
    /// Updates an object.
    pub update: u32,
    /// Creates a new object, or one that was deleted earlier.
    pub create: u32,
    /// Deletes an object.
    pub delete: u32,
    /// Deletes an object and creates it again at once, with another uid.
    pub recreate: u32,
}

impl Default for ChangeMix {
    fn default() -> Self {
        Self { update: 15, create: 2, delete: 2, recreate: 1 }
    }
}

impl Load {
    /// Describes a load of this many objects of a kind.
    ///
    /// Objects of `pods` and `nodes` are as large as in a real cluster, those of `deployments`, `services` and `configmaps` are small, and
    /// those of other kinds have only metadata. Pods name a ReplicaSet that does not exist as their owner, unless the server has
    /// [garbage collection](crate::ApiServerBuilder::garbage_collection), which would delete them.
    pub fn of(kind: impl Into<String>, objects: usize) -> Self {
        Self { kind: kind.into(), objects, namespaces: 5, nodes: 100, seed: 0, mix: ChangeMix::default() }
    }

    /// Sets how many namespaces (`team-0`, `team-1` and so on) the objects are in. Default: 5.
    #[must_use]
    pub fn namespaces(mut self, namespaces: usize) -> Self {
        self.namespaces = namespaces.max(1);
        self
    }

    /// Sets how many nodes (`node-0`, `node-1` and so on) the pods are on. Default: 100.
    #[must_use]
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.nodes = nodes.max(1);
        self
    }

    /// Sets the seed of the random changes. Default: 0.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the weights of the types of changes.
    #[must_use]
    pub fn mix(mut self, mix: ChangeMix) -> Self {
        self.mix = mix;
        self
    }

    /// Creates the objects in a server. Yields to other tasks regularly, so that open watches keep up.
    ///
    /// # Errors
    ///
    /// If the server does not serve the kind.
    pub async fn fill(&self, server: &ApiServer) -> Result<LoadGenerator, ApiError> {
        let kind = server.kind(&self.kind)?;
        let template = Template::new(&kind, self.namespaces, self.nodes);
        let template = if server.collects_garbage() { template.without_owners() } else { template };
        let mut generator = LoadGenerator {
            server: server.clone(),
            kind: kind.resource(),
            changes: Changes::new(template, self.objects, self.mix, self.seed),
        };
        for number in 0..self.objects {
            generator.server.store(&generator.kind, generator.changes.add(number))?;
            if number as u64 % TURN == TURN - 1 {
                tokio::task::yield_now().await;
            }
        }
        Ok(generator)
    }
}

/// The number of changes after which the generator yields to other tasks.
const TURN: u64 = 64;

/// Changes the objects of a [`Load`]. Created by [`Load::fill`].
#[derive(Debug)]
pub struct LoadGenerator {
    server: ApiServer,
    /// The unique name of the kind.
    kind: String,
    changes: Changes,
}

impl LoadGenerator {
    /// Returns the current number of objects.
    pub fn objects(&self) -> usize {
        self.changes.live()
    }

    /// Makes one change. Deleting an object that a client has already deleted is not an error.
    ///
    /// # Errors
    ///
    /// If the server no longer serves the kind.
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

    /// Makes changes at this rate until one fails, and returns its error. Does not end while the server serves the kind.
    ///
    /// # Panics
    ///
    /// If the rate is not above 0.
    pub async fn churn_forever(mut self, per_second: f64) -> ApiError {
        loop {
            if let Err(error) = self.churn(per_second, u64::MAX).await {
                return error;
            }
        }
    }

    /// Makes a number of changes at this rate, on tokio's clock.
    ///
    /// A generator that is too slow does not catch up with a burst. It yields to other tasks regularly, so that open watches
    /// keep up.
    ///
    /// # Errors
    ///
    /// If the server no longer serves the kind.
    ///
    /// # Panics
    ///
    /// If the rate is not above 0.
    pub async fn churn(&mut self, per_second: f64, changes: u64) -> Result<(), ApiError> {
        assert!(per_second > 0.0, "LoadGenerator::churn: the rate must be above 0, but is {per_second}");
        // At least 10 ms, so that high rates need few wake-ups.
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

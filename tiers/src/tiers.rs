//! [`Tiers`]: both tiers, and what this process knows of their partitions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use storage_dirty::HotStore;
use storage_model::sabotage::broken;
use storage_model::{Epoch, Ids, Partition, RandomIds};
use storage_sql::ColdStore;

use crate::{Home, load, refusal};

/// Both tiers, and the loads under way between them. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Tiers {
    pub(crate) hot: Arc<dyn HotStore>,
    pub(crate) cold: Arc<dyn ColdStore>,
    pub(crate) loader: load::Loader,
    /// Where loads and preparations run, and all calls of the cold tier.
    pub(crate) home: Home,
    /// Whether nothing is written to either tier.
    pub(crate) read_only: bool,
    /// How long landed marks stay on probation at least; zero if they don't.
    pub(crate) probation: Duration,
    /// By partition. Written by whoever finds one in order; see [`Tiers::generation`].
    pub(crate) noted: Arc<[Noted]>,
    /// Where tokens of take-overs come from.
    pub(crate) ids: Arc<dyn Ids>,
    /// Whether the hot tier ends with this process.
    pub(crate) alone: bool,
    /// Why writes are refused, as this process found it last.
    pub(crate) refusals: Arc<refusal::Refusals>,
}

/// What this process last heard of a partition's record.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    pub(crate) epoch: AtomicU64,
    pub(crate) generation: AtomicU64,
}

impl Tiers {
    /// Both tiers. A load takes whole owners of up to `load_rows_max` rows; of a larger one only
    /// the fields asked for.
    #[must_use]
    pub fn new(hot: Arc<dyn HotStore>, cold: Arc<dyn ColdStore>, load_rows_max: usize) -> Self {
        let loader = load::Loader::new(load_rows_max);
        let noted = (0..hot.partition_count())
            .map(|_| Noted::default())
            .collect();
        Self {
            hot,
            cold,
            loader,
            home: Home::of_caller(),
            read_only: false,
            probation: Duration::ZERO,
            noted,
            ids: Arc::new(RandomIds),
            alone: false,
            refusals: Arc::default(),
        }
    }

    /// Where loads and preparations run, and all calls of the cold tier. Default: with their
    /// callers.
    #[must_use]
    pub fn at(mut self, home: Home) -> Self {
        self.cold = home.cold(self.cold);
        self.home = home;
        self
    }

    /// Where work runs that no single call waits for.
    #[must_use]
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// Has owners read past everything that writes; see [`Tiers::glance`]. Default: they are loaded
    /// into the hot tier.
    #[must_use]
    pub fn for_reading(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Says that the hot tier ends with this process: then writes are refused while the database
    /// takes no rows. Default: it does not.
    #[must_use]
    pub fn alone(mut self, alone: bool) -> Self {
        self.alone = alone;
        self
    }

    /// Whether nothing is written to either tier.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Where the identity of a new database comes from. Default: the thread's random generator.
    #[must_use]
    pub fn with_ids(mut self, ids: Arc<dyn Ids>) -> Self {
        self.ids = ids;
        self
    }

    /// The generation in which this process last found a partition in order; 0 if it never did.
    /// While it stays, the hot tier has forgotten nothing that landed, nor the ids of the writes
    /// that it was (R11, R14).
    #[must_use]
    pub fn generation(&self, partition: Partition) -> Epoch {
        Epoch(
            self.noted(partition)
                .map_or(0, |noted| noted.generation.load(Ordering::Acquire)),
        )
    }

    /// The epoch in which it did, or a later one that this process was answered in; 0 as for the
    /// generation. Asked for before the generation, which is then never an earlier one than the
    /// epoch's.
    #[must_use]
    pub fn epoch(&self, partition: Partition) -> Epoch {
        Epoch(
            self.noted(partition)
                .map_or(0, |noted| noted.epoch.load(Ordering::Acquire)),
        )
    }

    /// Takes note of the epoch and generation that the hot tier says a partition is in.
    pub fn note(&self, partition: Partition, epoch: Epoch, generation: Epoch) {
        if let Some(noted) = self.noted(partition) {
            // ORDER: a copy that is sent in the new epoch must not be taken for one of the
            // generation before.
            noted.generation.store(generation.0, Ordering::Release);
            noted.epoch.store(epoch.0, Ordering::Release);
        }
    }

    pub(crate) fn noted(&self, partition: Partition) -> Option<&Noted> {
        usize::try_from(partition.0)
            .ok()
            .and_then(|at| self.noted.get(at))
    }

    /// How long landed marks stay on probation at least, so that they can be landed again if the
    /// database forgets them. Default: zero, they don't.
    #[must_use]
    pub fn on_probation(mut self, period: Duration) -> Self {
        self.probation = if broken("H33-off") {
            Duration::ZERO
        } else {
            period
        };
        self
    }

    /// How long landed marks stay on probation at least.
    #[must_use]
    pub fn probation(&self) -> Duration {
        self.probation
    }

    /// Whether landed marks stay on probation.
    #[must_use]
    pub fn has_probation(&self) -> bool {
        !self.probation.is_zero()
    }

    /// Warns, once for each call, of a database that may forget what it committed while nothing is
    /// kept to land it again.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn warn_if_forgetful(&self) {
        if let (false, Ok(Some(why))) = (self.has_probation(), self.cold.forgets().await) {
            tracing::warn!(
                why,
                "the database may forget committed rows when it crashes or fails over, and they are not kept: set landing.probation, or let it flush at each commit"
            );
        }
    }

    /// The hot tier.
    #[must_use]
    pub fn hot(&self) -> &Arc<dyn HotStore> {
        &self.hot
    }

    /// The cold tier.
    #[must_use]
    pub fn cold(&self) -> &Arc<dyn ColdStore> {
        &self.cold
    }
}

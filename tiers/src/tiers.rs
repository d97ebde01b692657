//! [`Tiers`]: both tiers, and the state of their partitions as this process knows it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use storage_dirty::HotStore;
use storage_model::{Epoch, Ids, Partition, RandomIds};
use storage_sql::ColdStore;

use crate::{Home, load, refusal};

/// Both tiers, and the loads under way between them. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Tiers {
    pub(crate) hot: Arc<dyn HotStore>,
    pub(crate) cold: Arc<dyn ColdStore>,
    pub(crate) loader: load::Loader,
    /// The runtime for loads, preparations and all calls of the cold tier.
    pub(crate) home: Home,
    /// Whether neither tier is written.
    pub(crate) read_only: bool,
    /// How long landed marks stay on probation at least. Zero turns probation off.
    pub(crate) probation: Duration,
    /// By partition. Written when a partition is found in order. See [`Tiers::generation`].
    pub(crate) noted: Arc<[Noted]>,
    /// The source of tokens for takeovers.
    pub(crate) ids: Arc<dyn Ids>,
    /// Whether the hot tier ends with this process.
    pub(crate) alone: bool,
    /// Why writes fail, as this process found it last.
    pub(crate) refusals: Arc<refusal::Refusals>,
}

/// A partition's epoch and generation, as this process last heard of them.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    pub(crate) epoch: AtomicU64,
    pub(crate) generation: AtomicU64,
}

impl Tiers {
    /// Both tiers. A load takes whole owners of up to `load_rows_max` rows. Of a larger owner it
    /// takes only the requested fields.
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

    /// The runtime for loads, preparations and all calls of the cold tier. Default: the caller's.
    #[must_use]
    pub fn at(mut self, home: Home) -> Self {
        self.cold = home.cold(self.cold);
        self.home = home;
        self
    }

    /// The runtime for work that no single call waits for.
    #[must_use]
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// Reads owners without writing to either tier. See [`Tiers::glance`]. Default: owners are
    /// loaded into the hot tier.
    #[must_use]
    pub fn for_reading(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Tells that the hot tier ends with this process. Then writes fail while the database takes no
    /// rows. Default: false.
    #[must_use]
    pub fn alone(mut self, alone: bool) -> Self {
        self.alone = alone;
        self
    }

    /// Whether neither tier is written.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The source of a new database's identity. Default: the thread's random generator.
    #[must_use]
    pub fn with_ids(mut self, ids: Arc<dyn Ids>) -> Self {
        self.ids = ids;
        self
    }

    /// The generation in which this process last found the partition in order. 0 if it never did.
    /// While the generation stays the same, the hot tier has forgotten neither landed data nor the
    /// ids of the landed writes (R11, R14).
    #[must_use]
    pub fn generation(&self, partition: Partition) -> Epoch {
        Epoch(
            self.noted(partition)
                .map_or(0, |noted| noted.generation.load(Ordering::Acquire)),
        )
    }

    /// The epoch of that generation, or a later epoch in which the hot tier answered this process.
    /// 0 if this process never found the partition in order.
    ///
    /// Ask for the epoch before the generation. Then the generation is never older than the
    /// epoch's.
    #[must_use]
    pub fn epoch(&self, partition: Partition) -> Epoch {
        Epoch(
            self.noted(partition)
                .map_or(0, |noted| noted.epoch.load(Ordering::Acquire)),
        )
    }

    /// Records the epoch and generation of a partition, as the hot tier reported them.
    pub fn note(&self, partition: Partition, epoch: Epoch, generation: Epoch) {
        if let Some(noted) = self.noted(partition) {
            // ORDER: the generation first. A copy that is sent in the new epoch must not count as
            // one of the earlier generation.
            noted.generation.store(generation.0, Ordering::Release);
            noted.epoch.store(epoch.0, Ordering::Release);
        }
    }

    pub(crate) fn noted(&self, partition: Partition) -> Option<&Noted> {
        usize::try_from(partition.0)
            .ok()
            .and_then(|at| self.noted.get(at))
    }

    /// How long landed marks stay on probation at least. Until then they can land again if the
    /// database forgets them. Default: zero, which turns probation off.
    #[must_use]
    pub fn on_probation(mut self, period: Duration) -> Self {
        self.probation = period;
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

    /// Logs a warning if the database can forget committed rows and nothing is kept to land them
    /// again. One warning a call.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn warn_if_forgetful(&self) {
        if let (false, Ok(Some(why))) = (self.has_probation(), self.cold.forgets().await) {
            tracing::warn!(
                why,
                "the database may forget committed rows when it crashes or fails over, and no marks are kept to land them again: set landing.probation, or let the database flush at each commit"
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

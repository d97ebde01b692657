//! [`Tiers`]: both tiers, and the state of their partitions as this process knows it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use storage_coalesce::locked;
use storage_dirty::Hot;
use storage_model::{Epoch, Ids, Partition, RandomIds};
use storage_sql::Cold;
use tokio::time::sleep;

use crate::flush_together::{Flushes, flushes};
use crate::place::Places;
use crate::prepare_together::{Prepares, prepares};
use crate::{Home, load, refusal};

/// Both tiers, and the loads under way between them. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Tiers {
    pub(crate) hot: Hot,
    pub(crate) cold: Cold,
    pub(crate) loader: load::Loader,
    /// The writes that wait for the database.
    pub(crate) flushes: Flushes,
    /// The partitions that callers wait for.
    pub(crate) prepares: Prepares,
    /// The runtime for loads and preparations.
    pub(crate) home: Home,
    /// Whether neither tier is written.
    pub(crate) read_only: bool,
    /// How long landed marks stay on probation at least. Zero turns probation off.
    pub(crate) probation: Duration,
    /// How long an owner, or owners of one transaction, may wait for a rejected field.
    pub(crate) torn_after: Duration,
    /// How long landed events stay in the database.
    events_kept: Duration,
    /// By partition. Written when a partition is found in order, or a write is rejected because of
    /// its epoch. Each mutex is held for a moment, never across an await.
    noted: Arc<[Mutex<Noted>]>,
    /// The source of tokens for takeovers.
    pub(crate) ids: Arc<dyn Ids>,
    /// Whether the hot tier ends with this process.
    pub(crate) alone: bool,
    /// Why writes fail, as this process found it last.
    pub(crate) refusals: Arc<refusal::Refusals>,
    /// The partitions that the hot tier had at the last comparison.
    pub(crate) places: Arc<Places>,
}

/// The epoch in which this process sends writes to a partition, and its generation. Both are 0
/// until the partition is found in order.
///
/// They change together. So a copy that is sent in a new epoch never counts as one of an earlier
/// generation. The guard of the Redis engine keeps another view: the server that was verified for
/// reads, which any doubt withdraws, while a lost write is judged by the epoch that it was sent in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Noted {
    /// The epoch of the generation, or a later epoch in which the hot tier answered.
    pub epoch: Epoch,
    /// While it stays the same, the hot tier has forgotten neither landed data nor the ids of the
    /// landed writes (R11, R14).
    pub generation: Epoch,
}

/// The most bytes of an owner that a load takes, unless another number is set.
const LOAD_BYTES_MAX: usize = 8 << 20;

impl Tiers {
    /// Both tiers. A load takes whole owners of up to `load_rows_max` rows. Of a larger owner it
    /// takes only the requested fields.
    #[must_use]
    pub fn new(hot: Hot, cold: Cold, load_rows_max: usize) -> Self {
        let loader = load::Loader::new(load::LoadBound {
            rows: load_rows_max,
            bytes: LOAD_BYTES_MAX,
        });
        let noted = (0..hot.partitions.partition_count())
            .map(|_| Mutex::default())
            .collect();
        Self {
            hot,
            cold,
            loader,
            flushes: flushes(),
            prepares: prepares(),
            home: Home::of_caller(),
            read_only: false,
            probation: Duration::ZERO,
            torn_after: Duration::from_mins(10),
            events_kept: Duration::from_hours(7 * 24),
            noted,
            ids: Arc::new(RandomIds),
            alone: false,
            refusals: Arc::default(),
            places: Arc::default(),
        }
    }

    /// The most bytes of an owner that a load takes. Default: 8 MiB.
    #[must_use]
    pub fn loading_bytes(mut self, most: u32) -> Self {
        self.loader.bound.bytes = usize::try_from(most).unwrap_or(usize::MAX);
        self
    }

    /// The runtime for loads and preparations. Default: the caller's.
    #[must_use]
    pub fn at(mut self, home: Home) -> Self {
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

    /// The epoch and generation of a partition, as this process last heard of them.
    #[must_use]
    pub fn noted(&self, partition: Partition) -> Noted {
        self.entry(partition)
            .map(|noted| *locked(noted))
            .unwrap_or_default()
    }

    /// The epoch in which writes to the partition are sent.
    #[must_use]
    pub fn epoch(&self, partition: Partition) -> Epoch {
        self.noted(partition).epoch
    }

    /// Records the epoch and generation of a partition, as the hot tier reported them.
    pub fn note(&self, partition: Partition, epoch: Epoch, generation: Epoch) {
        if let Some(noted) = self.entry(partition) {
            *locked(noted) = Noted { epoch, generation };
        }
    }

    fn entry(&self, partition: Partition) -> Option<&Mutex<Noted>> {
        self.noted.get(usize::try_from(partition.0).ok()?)
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

    /// How long an owner, or owners of one transaction, may wait for a rejected field, until the other
    /// fields land without it (R16, G1). Default: 10 minutes.
    #[must_use]
    pub fn tearing_after(mut self, torn_after: Duration) -> Self {
        self.torn_after = torn_after;
        self
    }

    /// How long an owner, or owners of one transaction, may wait for a rejected field.
    #[must_use]
    pub fn torn_after(&self) -> Duration {
        self.torn_after
    }

    /// How long landed events stay in the database. Default: 7 days.
    #[must_use]
    pub fn keeping_events(mut self, keep: Duration) -> Self {
        self.events_kept = keep;
        self
    }

    /// How long landed events stay in the database.
    #[must_use]
    pub fn events_kept(&self) -> Duration {
        self.events_kept
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
        if let (false, Ok(Some(why))) = (self.has_probation(), self.cold.database.forgets().await) {
            tracing::warn!(
                why,
                "the database may forget committed rows when it crashes or fails over, and no marks are kept to land them again: set landing.probation, or let the database flush at each commit"
            );
        }
    }

    /// Whether the hot tier answers about these partitions within about a second. A connection that
    /// just broke is opened again first.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn answers(&self, partitions: &[Partition]) -> bool {
        const LOOKS: u32 = 20;
        for _ in 0..LOOKS {
            let answers = self.hot.partitions.peek(partitions).await;
            if answers.iter().all(Result::is_ok) {
                return true;
            }
            sleep(Duration::from_millis(50)).await;
        }
        false
    }

    /// The hot tier.
    #[must_use]
    pub fn hot(&self) -> &Hot {
        &self.hot
    }

    /// The cold tier.
    #[must_use]
    pub fn cold(&self) -> &Cold {
        &self.cold
    }
}

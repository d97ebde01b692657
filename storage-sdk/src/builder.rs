//! Putting a storage together.

use std::sync::Arc;

use futures::FutureExt as _;
use storage_config::{HotUrl, Settings, Unverified};
use storage_dirty::HotStore;
use storage_landing::{LandingOptions, LandingWorker, Tiers};
use storage_model::{Clock, Durability, Ids, Limits, SystemClock};
use storage_sql::{ColdOptions, ColdStore};

use crate::background::Background;
use crate::core::Core;
use crate::storage::{Storage, random_ids};
use crate::{Error, Kind, Result};

/// A storage that is not open yet: settings, and parts that tests replace.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use storage_sdk::{Durability, Safety, SeededIds, Settings, Storage};
///
/// let storage = Storage::builder(Settings::embedded(folder.path().join("game.db")))
///     .ids(Arc::new(SeededIds::new(7)))
///     .durability("purse", Durability::Landed { timeout: Duration::from_secs(10) })
///     .open()
///     .await?;
/// let purse = storage.scope("mygame", "eu-1")?.bytes().owner("purse", 42_u64)?;
/// assert_eq!(purse.incr("gold", 5).await?.ack().durability(), Safety::Landed);
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until it is opened"]
pub struct StorageBuilder {
    settings: Settings,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    hot: Option<Arc<dyn HotStore>>,
    cold: Option<Arc<dyn ColdStore>>,
    lands: Option<bool>,
}

impl StorageBuilder {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings, clock: Arc::new(SystemClock), ids: random_ids(), hot: None, cold: None, lands: None }
    }

    /// Where the memory engine takes its time from. Default: the machine's clock.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Where operation ids come from. Default: random ones.
    pub fn ids(mut self, ids: Arc<dyn Ids>) -> Self {
        self.ids = ids;
        self
    }

    /// A hot tier that is open already, in place of the one that the settings name.
    pub fn hot(mut self, hot: Arc<dyn HotStore>) -> Self {
        self.hot = Some(hot);
        self
    }

    /// A cold tier that is open already, in place of the one that the settings name.
    pub fn cold(mut self, cold: Arc<dyn ColdStore>) -> Self {
        self.cold = Some(cold);
        self
    }

    /// Whether this process lands too. Default: only in embedded mode, whose hot tier no other process can reach.
    pub fn landing(mut self, lands: bool) -> Self {
        self.lands = Some(lands);
        self
    }

    /// What the writes of a logic type wait for, unless they say otherwise; in place of what the settings say of it.
    pub fn durability(mut self, logic_type: &str, durability: Durability) -> Self {
        self.settings.durability.logic_types.insert(logic_type.to_owned(), durability);
        self
    }

    /// Opens the storage; see [`Storage::open`].
    ///
    /// # Errors
    /// As [`Storage::open`].
    ///
    /// # Cancel safety
    /// Dropped, nothing is open.
    pub async fn open(self) -> Result<Storage> {
        crate::unheard::warn_once();
        let Self { settings, clock, ids, hot, cold, lands } = self;
        settings.validate().map_err(|error| Error::new(Kind::Invalid, error.to_string()))?;
        // Boxed, so that callers' compilers need not look into the drivers' futures.
        let hot = match hot {
            Some(hot) => hot,
            None => storage_dirty::open(&settings, clock).boxed().await?,
        };
        let cold = match cold {
            Some(cold) => cold,
            None => storage_sql::open(&ColdOptions::from(&settings.sql)).boxed().await?,
        };
        hot.check().await?;
        hot.fix_partition_count().await?;
        cold.fix_partition_count(hot.partition_count()).await?;

        let tiers = Tiers::new(hot, cold, usize::try_from(settings.hot.load_rows_max).unwrap_or(usize::MAX))
            .serve_unverified(settings.redis.unverified == Unverified::Serve)
            .on_probation(settings.landing.probation);
        tiers.warn_if_forgetful().await;
        let limits: Limits = settings.limits;
        let fitting = Limits { value_bytes_max: limits.value_bytes_max.min(tiers.cold().value_bytes_max()), ..limits };
        let worker = lands.unwrap_or(settings.redis.url == HotUrl::Memory).then(|| {
            let options = LandingOptions::from(&settings.landing);
            LandingWorker::new(tiers.clone(), options, ids.as_ref())
        });
        let core = Arc::new(Core::new(tiers, fitting, ids, &settings).await?);
        let background = Arc::new(Background::start(&core, settings.hot.policy_check_interval, worker));
        Ok(Storage { core, background })
    }
}

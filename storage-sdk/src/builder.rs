//! Putting a storage together.

use std::sync::Arc;

use futures::FutureExt as _;
use storage_config::{HotUrl, Settings};
use storage_dirty::HotStore;
use storage_landing::{LandingOptions, LandingWorker};
use storage_model::{Clock, Durability, Ids, Limits, SystemClock};
use storage_sql::{ColdOptions, ColdStore};
use storage_tiers::{Home, Tiers};

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
    read_only: bool,
    own_runtime: bool,
}

impl StorageBuilder {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            clock: Arc::new(SystemClock),
            ids: random_ids(),
            hot: None,
            cold: None,
            lands: None,
            read_only: false,
            own_runtime: true,
        }
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

    /// Whether this process lands too. Default: only in embedded mode, whose hot tier no other
    /// process can reach.
    pub fn landing(mut self, lands: bool) -> Self {
        self.lands = Some(lands);
        self
    }

    /// Whether the storage has a runtime of its own, on a thread of its own, for its background
    /// tasks and for all calls of the cold tier. Default: it has. Without one they run on the
    /// runtime of whoever opens it and calls, which a simulation needs whose time and schedule are
    /// its own; once the runtime that opened the storage has ended, writes are refused as `Closed`.
    pub fn own_runtime(mut self, own: bool) -> Self {
        self.own_runtime = own;
        self
    }

    /// Opens the storage for reading only: nothing is written to either tier, no table is made, and
    /// writes are refused. Cold owners are read past the hot tier and stay cold. A read-only login
    /// to the database, or a replica of it, is enough; so is a hot tier that must not be written,
    /// whose hashes are then compared with their rows.
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// What the writes of a logic type wait for, unless they say otherwise; in place of what the
    /// settings say of it.
    pub fn durability(mut self, logic_type: &str, durability: Durability) -> Self {
        self.settings
            .durability
            .logic_types
            .insert(logic_type.to_owned(), durability);
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
        let Self {
            settings,
            clock,
            ids,
            hot,
            cold,
            lands,
            read_only,
            own_runtime,
        } = self;
        settings
            .validate()
            .map_err(|error| Error::new(Kind::Invalid, error.to_string()))?;
        let home = if own_runtime {
            Home::own().map_err(threadless)?
        } else {
            Home::of_caller()
        };
        // Boxed, so that callers' compilers need not look into the drivers' futures.
        let hot = match hot {
            Some(hot) => hot,
            None if read_only => {
                storage_dirty::open_for_reading(&settings, clock)
                    .boxed()
                    .await?
            }
            None => storage_dirty::open(&settings, clock).boxed().await?,
        };
        let cold = match cold {
            Some(cold) => cold,
            None => {
                // Tables are made when the tiers are paired, so that nothing is written into a
                // wrong database.
                let options = ColdOptions {
                    creates: false,
                    read_only,
                    ..ColdOptions::from(&settings.sql)
                };
                let opened = home
                    .run(async move { storage_sql::open(&options).await })
                    .boxed()
                    .await;
                opened.map_err(|ended| Error::new(Kind::Closed, ended.to_string()))??
            }
        };
        let tiers = Tiers::new(
            hot,
            cold,
            usize::try_from(settings.hot.load_rows_max).unwrap_or(usize::MAX),
        )
        .at(home)
        .on_probation(settings.landing.probation)
        .with_ids(Arc::clone(&ids))
        .alone(settings.redis.url == HotUrl::Memory);
        let tiers = if read_only {
            tiers.for_reading()
        } else {
            tiers
        };
        compare(&tiers).await?;
        let limits: Limits = settings.limits;
        let fitting = Limits {
            value_bytes_max: limits.value_bytes_max.min(tiers.cold().value_bytes_max()),
            ..limits
        };
        let lands = !read_only && lands.unwrap_or(settings.redis.url == HotUrl::Memory);
        let worker = lands.then(|| {
            let options = LandingOptions::from(&settings);
            LandingWorker::new(tiers.clone(), options, ids.as_ref())
        });
        Ok(Storage {
            core: Arc::new(Core::new(tiers, fitting, ids, &settings, worker).await?),
        })
    }
}

fn threadless(error: std::io::Error) -> Error {
    Error::new(
        Kind::Denied,
        format!("the system allows no thread for the storage's background tasks: {error}"),
    )
}

/// Looks whether the tiers may be used, together. A full disk keeps nobody from reading: writes are
/// refused until it has room.
async fn compare(tiers: &Tiers) -> Result<()> {
    if tiers.is_read_only() {
        return Ok(tiers.compare_pairing().await?);
    }
    tiers.hot().check().await?;
    match tiers.belong().await {
        Err(error)
            if error.database_takes_no_writes()
                && tiers
                    .cold()
                    .pairing()
                    .await
                    .is_ok_and(|pairing| pairing.hot.is_some()) => {}
        belong => belong?,
    }
    tiers.warn_if_forgetful().await;
    Ok(())
}

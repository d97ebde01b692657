//! The builder of a storage.

use std::sync::Arc;

use futures::FutureExt as _;
use storage_config::{HotUrl, Settings};
use storage_dirty::Hot;
use storage_landing::{LandingWorker, Sink};
use storage_model::{Clock, Durability, Ids, Limits, SinkName, SystemClock};
use storage_sql::Cold;
use storage_tiers::{Home, Tiers};

use crate::core::{Core, Handles};
use crate::storage::{Storage, random_ids};
use crate::{Error, Kind, Result};

/// A storage that is not open yet, with its settings and with parts that tests replace.
///
/// ```
/// # storage_doc::in_folder(async || {
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use storage_sdk::{Durability, Safety, SeededIds, Settings, Storage};
///
/// let storage = Storage::builder(Settings::embedded("game.db"))
///     .ids(Arc::new(SeededIds::new(7)))
///     .durability("purse", Durability::Landed { timeout: Duration::from_secs(10) })
///     .open()
///     .await?;
/// let purse = storage.world("mygame", "eu-1")?.bytes().owner("purse", 42_u64)?;
/// assert_eq!(purse.incr("gold", 5).await?.ack().durability(), Safety::Landed);
/// # Ok(()) });
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until it is opened"]
pub struct StorageBuilder {
    settings: Settings,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    hot: Option<Hot>,
    cold: Option<Cold>,
    lands: Option<bool>,
    sinks: Vec<(String, Arc<dyn Sink>)>,
    read_only: bool,
    takes_over: bool,
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
            sinks: Vec::new(),
            read_only: false,
            takes_over: false,
            own_runtime: true,
        }
    }

    /// The clock of the memory engine. Default: the clock of the machine.
    ///
    /// ```
    /// # storage_doc::run(async || {
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use storage_sdk::{ManualClock, Settings, Storage, Timestamp};
    ///
    /// let clock = Arc::new(ManualClock::new(Timestamp(1_800_000_000_000)));
    /// let storage = Storage::builder(Settings::in_memory()).clock(clock.clone()).open().await?;
    /// let ann = storage.world("mygame", "eu-1")?.bytes().owner("player", 42_u64)?;
    /// let before = ann.incr("gold", 5).await?.version();
    /// clock.advance(Duration::from_secs(3_600)); // versions follow the clock
    /// assert!(ann.incr("gold", 5).await?.version() > before);
    /// # Ok(()) });
    /// ```
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The source of operation ids. Default: random ids.
    ///
    /// ```
    /// # storage_doc::run(async || {
    /// use std::sync::Arc;
    /// use storage_sdk::{SeededIds, Settings, Storage};
    ///
    /// let replay = || Storage::builder(Settings::in_memory()).ids(Arc::new(SeededIds::new(7))).open();
    /// let (one, other) = (replay().await?, replay().await?);
    /// assert_eq!(one.next_id(), other.next_id());
    /// # Ok(()) });
    /// ```
    pub fn ids(mut self, ids: Arc<dyn Ids>) -> Self {
        self.ids = ids;
        self
    }

    /// A hot tier that is already open. It replaces the hot tier of the settings.
    #[cfg(feature = "engines")]
    pub fn hot(mut self, hot: Hot) -> Self {
        self.hot = Some(hot);
        self
    }

    /// A cold tier that is already open. It replaces the cold tier of the settings. Its connections stay
    /// where they were opened.
    #[cfg(feature = "engines")]
    pub fn cold(mut self, cold: Cold) -> Self {
        self.cold = Some(cold);
        self
    }

    /// Whether this process lands, too. Default: only in embedded mode, because no other process
    /// can reach its hot tier.
    ///
    /// ```
    /// # storage_doc::run(async || {
    /// use storage_sdk::{Settings, Storage};
    ///
    /// // A test that looks at a backlog: nothing lands by itself.
    /// let storage = Storage::builder(Settings::in_memory()).landing(false).open().await?;
    /// storage.world("mygame", "eu-1")?.bytes().owner("player", 42_u64)?.incr("gold", 5).await?;
    /// assert_eq!(storage.stats().await?.marks, 1);
    /// # Ok(()) });
    /// ```
    pub fn landing(mut self, lands: bool) -> Self {
        self.lands = Some(lands);
        self
    }

    /// A receiver of all landed events of the feed, under a name of 1 to 32 of a to z, 0 to 9 and
    /// single `_`. Only a process that lands serves sinks: by default the embedded mode. With other
    /// storages, the program `landing-worker` serves the sinks of the settings.
    ///
    /// The database keeps how far the sink has got under this name. A new name begins at the oldest
    /// event that is kept.
    ///
    /// ```
    /// # storage_doc::in_folder(async || {
    /// use storage_sdk::feed::{Event, Partition, Sink, SinkError, async_trait};
    /// use storage_sdk::{Settings, Storage};
    ///
    /// #[derive(Debug)]
    /// struct Sender(tokio::sync::mpsc::UnboundedSender<Event>);
    ///
    /// #[async_trait]
    /// impl Sink for Sender {
    ///     async fn send(&self, _: Partition, events: &[Event]) -> Result<(), SinkError> {
    ///         for event in events {
    ///             let sent = self.0.send(event.clone());
    ///             sent.map_err(|_| SinkError::unavailable("nobody receives"))?;
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let (sender, mut received) = tokio::sync::mpsc::unbounded_channel();
    /// let storage = Storage::builder(Settings::embedded("game.db"))
    ///     .sink("others", Sender(sender))
    ///     .open()
    ///     .await?;
    /// let ann = storage.world("mygame", "eu-1")?.bytes().owner("player", 42_u64)?;
    /// let place = ann.incr("gold", 5).note("won a duel").await?.ack().position();
    /// assert_eq!(received.recv().await.map(|event| event.position), place);
    /// # Ok(()) });
    /// ```
    pub fn sink(mut self, name: &str, sink: impl Sink + 'static) -> Self {
        self.sinks.push((name.to_owned(), Arc::new(sink)));
        self
    }

    /// Whether the storage has a runtime and a thread of its own, for its background tasks and for
    /// the connections of the cold tier. Default: `true`.
    ///
    /// With `false`, this work runs on the runtime of its opener and its callers. A simulation with
    /// its own time and schedule needs that. Once the runtime that opened the storage has ended,
    /// writes fail as `Closed`.
    #[cfg(feature = "engines")]
    pub fn own_runtime(mut self, own: bool) -> Self {
        self.own_runtime = own;
        self
    }

    /// Opens the storage for reading only. The SDK writes to neither tier and creates no table, and
    /// writes fail. A cold owner is read past the hot tier and stays cold.
    ///
    /// A read-only login to the database is enough, and so is a replica of the database. The hot
    /// tier may also forbid writes. The SDK then compares its hashes with their rows.
    ///
    /// ```
    /// # storage_doc::in_folder(async || {
    /// use std::time::Duration;
    /// use storage_sdk::{Settings, Storage};
    ///
    /// let game = Storage::embedded("game.db").await?;
    /// game.world("mygame", "eu-1")?.bytes().owner("player", 42_u64)?.incr("gold", 5).await?;
    /// game.close(Duration::from_secs(10)).await;
    ///
    /// let support = Storage::builder(Settings::embedded("game.db")).read_only().open().await?;
    /// let ann = support.world("mygame", "eu-1")?.bytes().owner("player", 42_u64)?;
    /// assert_eq!(ann.get(["gold"]).await?.int("gold")?, Some(5));
    /// assert!(ann.incr("gold", 5).await.is_err());
    /// # Ok(()) });
    /// ```
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Opens the file of the embedded mode although another program has it open, for example one that
    /// hangs. Default: the second program is refused, as `Denied`.
    ///
    /// The writes of the other program fail as `Unpaired` from then on, and its unlanded changes are
    /// lost.
    ///
    /// ```
    /// # storage_doc::in_folder(async || {
    /// use storage_sdk::{Kind, Settings, Storage};
    ///
    /// let hangs = Storage::embedded("game.db").await?;
    /// let refused = Storage::embedded("game.db").await.unwrap_err();
    /// assert_eq!(refused.kind(), Kind::Denied);
    /// let storage = Storage::builder(Settings::embedded("game.db")).take_over().open().await?;
    /// # Ok(()) });
    /// ```
    pub fn take_over(mut self) -> Self {
        self.takes_over = true;
        self
    }

    /// The durability of the writes of a logic type, unless a write sets its own. It replaces the
    /// durability of the settings.
    ///
    /// ```
    /// # storage_doc::run(async || {
    /// use std::time::Duration;
    /// use storage_sdk::{Durability, Safety, Settings, Storage};
    ///
    /// let landed = Durability::Landed { timeout: Duration::from_secs(10) };
    /// let storage = Storage::builder(Settings::in_memory()).durability("purse", landed).open().await?;
    /// let purse = storage.world("mygame", "eu-1")?.bytes().owner("purse", 42_u64)?;
    /// assert_eq!(purse.incr("gems", 500).await?.ack().durability(), Safety::Landed);
    /// # Ok(()) });
    /// ```
    pub fn durability(mut self, logic_type: &str, durability: Durability) -> Self {
        self.settings
            .durability
            .logic_types
            .insert(logic_type.to_owned(), durability);
        self
    }

    /// Opens the storage. See [`Storage::open`].
    ///
    /// ```
    /// # storage_doc::run(async || {
    /// use storage_sdk::{Kind, Settings, Storage};
    ///
    /// let mut settings = Settings::in_memory();
    /// settings.limits.fields_max = 0; // no call could name a field
    /// let error = Storage::builder(settings).open().await.unwrap_err();
    /// assert_eq!(error.kind(), Kind::Invalid);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// As [`Storage::open`].
    ///
    /// # Cancel safety
    /// A dropped call leaves nothing open.
    pub async fn open(mut self) -> Result<Storage> {
        self.settings
            .validate()
            .map_err(|error| Error::new(Kind::Invalid, error.to_string()))?;
        let lands = !self.read_only && self.lands.unwrap_or(self.is_embedded());
        let sinks = served(&self.settings, lands, std::mem::take(&mut self.sinks))?;
        let tiers = self.open_tiers().await?;
        let Self { settings, ids, .. } = self;
        let limits = fitting(settings.limits, tiers.cold());
        let worker = lands.then(|| {
            let (landing, sessions) = (&settings.landing, &settings.sessions);
            let worker = LandingWorker::new(tiers.clone(), landing, sessions, ids.as_ref());
            sinks
                .into_iter()
                .fold(worker, |worker, (name, sink)| worker.with_sink(name, sink))
        });
        Ok(Storage {
            core: Handles::new(Core::new(tiers, limits, ids, &settings, worker).await?),
        })
    }

    /// Whether the hot tier of the settings is this process' memory.
    fn is_embedded(&self) -> bool {
        self.settings.redis.url == HotUrl::Memory
    }

    /// Opens both tiers, and compares them.
    async fn open_tiers(&mut self) -> Result<Tiers> {
        let home = if self.own_runtime {
            Home::own().map_err(threadless)?
        } else {
            Home::of_caller()
        };
        let access = self.access();
        let hot = self.open_hot().await?;
        let given = self.cold.take();
        let is_given = given.is_some();
        let cold = match given {
            Some(cold) => cold,
            // Boxed, so that the compilers of callers need not look into the futures of the drivers.
            None => open_cold(&self.settings, &home, access).boxed().await?,
        };
        let tiers = self.tiers_of(hot, cold, home);
        if let Err(error) = compare(&tiers).await {
            if !is_given {
                // A file that it holds is free again at once.
                tiers.cold().database.close().await;
            }
            return Err(error);
        }
        Ok(tiers)
    }

    fn access(&self) -> Access {
        // Only this process uses its memory. A hot tier that was given may be shared.
        let is_alone = self.hot.is_none() && self.is_embedded();
        match (self.read_only, is_alone) {
            (true, _) => Access::Reads,
            (false, true) => Access::Alone {
                takes_over: self.takes_over,
            },
            (false, false) => Access::Shared,
        }
    }

    /// The hot tier that was given, or else that of the settings.
    async fn open_hot(&mut self) -> Result<Hot> {
        let clock = Arc::clone(&self.clock);
        let hot = match self.hot.take() {
            Some(hot) => hot,
            None if self.read_only => {
                storage_dirty::open_for_reading(&self.settings, clock)
                    .boxed()
                    .await?
            }
            None => storage_dirty::open(&self.settings, clock).boxed().await?,
        };
        Ok(hot)
    }

    fn tiers_of(&self, hot: Hot, cold: Cold, home: Home) -> Tiers {
        let settings = &self.settings;
        let rows_max = usize::try_from(settings.hot.load_rows_max).unwrap_or(usize::MAX);
        let tiers = Tiers::new(hot, cold, rows_max)
            .loading_bytes(settings.hot.load_bytes_max)
            .at(home)
            .on_probation(settings.landing.probation)
            .tearing_after(settings.landing.torn_after)
            .keeping_events(settings.feed.keep)
            .with_ids(Arc::clone(&self.ids))
            .alone(self.is_embedded());
        if self.read_only {
            tiers.for_reading()
        } else {
            tiers
        }
    }
}

/// The limits of the settings, and no larger values than the database takes.
fn fitting(mut limits: Limits, cold: &Cold) -> Limits {
    let largest = cold.landing.value_bytes_max();
    limits.value_bytes_max = limits.value_bytes_max.min(largest);
    limits
}

/// What a process does with its database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Reads,
    Shared,
    /// The file of the embedded mode.
    Alone {
        takes_over: bool,
    },
}

/// The database of the settings. Its tables are created when the tiers are paired, so that nothing is
/// written into a wrong database.
async fn open_cold(settings: &Settings, home: &Home, access: Access) -> Result<Cold> {
    let sql = settings.sql.clone();
    let embedded = settings.redis.url == HotUrl::Memory;
    let opening = storage_sql::Opening::new(&sql).for_pairing();
    let opening = match home.is_own() {
        true => opening.at(home.handle()),
        false => opening,
    };
    let open = async move {
        match access {
            Access::Reads => {
                if embedded && storage_sql::is_in_use(&sql) {
                    tracing::warn!(place = %sql.url, "a game has the file open: its changes that have not landed are in its memory, and not visible here");
                }
                opening.for_reading().open().await
            }
            Access::Shared => opening.open().await,
            Access::Alone { takes_over } => {
                let alone = opening.open_alone(takes_over).await?;
                if alone.lacks_log {
                    tracing::warn!(place = %sql.url, "the file was in use at its last change, and its log (-wal) is not beside it: if it was copied while a game ran, its last changes are missing; a copy that has all of them comes from Storage::backup or `landing-worker backup`");
                    crate::unheard::warn_once();
                }
                Ok(alone.store)
            }
        }
    };
    let opened = home.run(open).await;
    Ok(opened.map_err(|ended| Error::new(Kind::Closed, ended.to_string()))??)
}

/// The sinks of a process. No sink is left without anybody who serves it.
fn served(
    settings: &Settings,
    lands: bool,
    sinks: Vec<(String, Arc<dyn Sink>)>,
) -> Result<Vec<(SinkName, Arc<dyn Sink>)>> {
    let invalid = |message: String| Error::new(Kind::Invalid, message);
    let mut named: Vec<(SinkName, Arc<dyn Sink>)> = Vec::new();
    for (name, sink) in sinks {
        let name: SinkName = name.parse().map_err(|error| invalid(format!("{error}")))?;
        if !lands {
            let message = "this storage does not land, so nobody serves it; landing workers serve the sinks of the settings";
            return Err(invalid(format!("sink {name}: {message}")));
        }
        named.push((name, sink));
    }
    let is_given = |name: &SinkName| named.iter().any(|(given, _)| given == name);
    match settings.sinks.keys().find(|name| lands && !is_given(name)) {
        Some(name) => Err(invalid(format!(
            "sinks.{name}: a storage that lands by itself takes its sinks from the program, not from the settings: StorageBuilder::sink"
        ))),
        None => Ok(named),
    }
}

pub(crate) fn threadless(error: std::io::Error) -> Error {
    Error::new(
        Kind::Denied,
        format!("the system allows no thread for the storage's background tasks: {error}"),
    )
}

/// Checks whether the tiers may be used together. A database with a full disk can still be read,
/// and writes fail until it has room.
async fn compare(tiers: &Tiers) -> Result<()> {
    if tiers.is_read_only() {
        return tiers.compare_pairing().await.map_err(Error::of_tiers);
    }
    tiers.hot().tier.check().await?;
    match tiers.compare_patiently().await {
        Err(error)
            if error.database_takes_no_writes()
                && tiers
                    .cold()
                    .database
                    .pairing()
                    .await
                    .is_ok_and(|pairing| pairing.hot.is_some()) => {}
        belong => belong.map_err(Error::of_tiers)?,
    }
    tiers.warn_if_forgetful().await;
    Ok(())
}

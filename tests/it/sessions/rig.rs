//! Servers that share a world, on either engine of the hot tier.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use storage_dirty::Hot;
use storage_dirty::memory::MemoryStore;
use storage_model::SystemClock;
use storage_sdk::{
    Autosave, ObjStorage, OnConflict, SaveObject, SessionOptions, Sessions, Settings, Storage,
};
use storage_servers::{RedisOptions, RedisServer};
use storage_tests::{World, stack};
use tempfile::TempDir;

/// The shortest lease.
pub(super) const LEASE: Duration = Duration::from_secs(1);
/// Far longer than any step here takes.
pub(super) const LONG: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, SaveObject)]
#[save_object(logic_type = "hero")]
pub(super) struct Hero {
    #[save_object(owner_id)]
    pub(super) id: u64,
    pub(super) level: u64,
    pub(super) bag: String,
}

pub(super) fn hero(id: u64) -> Hero {
    Hero {
        id,
        level: 0,
        bag: String::new(),
    }
}

/// A hot tier and a cold tier, which servers open.
pub(super) enum Rig {
    Redis {
        settings: Settings,
        server: Arc<RedisServer>,
        database: String,
    },
    Memory {
        settings: Settings,
        hot: Arc<MemoryStore>,
        _folder: TempDir,
    },
}

impl Rig {
    pub(super) async fn redis() -> Result<Self> {
        Self::on(RedisServer::start(RedisOptions::default()).await?).await
    }

    /// A rig on this server.
    pub(super) async fn on(server: RedisServer) -> Result<Self> {
        let world = World::on(&server.url(), stack::mariadb().await?).await?;
        let mut settings = world.settings;
        settings.sessions.lease = LEASE;
        Ok(Self::Redis {
            settings,
            server: Arc::new(server),
            database: world.database,
        })
    }

    pub(super) async fn memory() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut settings = Settings::embedded(folder.path().join("game.db"));
        settings.sessions.lease = LEASE;
        settings.landing.interval = Duration::from_millis(20);
        let hot = MemoryStore::new(&settings.redis, &settings.hot, Arc::new(SystemClock));
        Ok(Self::Memory {
            settings,
            hot: Arc::new(hot),
            _folder: folder,
        })
    }

    pub(super) fn settings(&self) -> Settings {
        match self {
            Self::Redis { settings, .. } | Self::Memory { settings, .. } => settings.clone(),
        }
    }

    pub(super) fn with_short_lease(self) -> Self {
        self
    }

    /// The same rig with a lease so long that no load of the machine outlasts it.
    pub(super) fn with_long_lease(mut self) -> Self {
        match &mut self {
            Self::Redis { settings, .. } | Self::Memory { settings, .. } => {
                settings.sessions.lease = LEASE * 4
            }
        }
        self
    }

    /// One more server.
    pub(super) async fn server(&self, name: &str) -> Result<Storage> {
        let mut settings = self.settings();
        settings.sessions.name = Some(name.to_owned());
        self.open(settings).await
    }

    pub(super) async fn open(&self, settings: Settings) -> Result<Storage> {
        Ok(match self {
            Self::Redis { .. } => Storage::open(settings).await?,
            Self::Memory { hot, .. } => {
                let hot = Hot::of(hot);
                Storage::builder(settings)
                    .hot(hot)
                    .landing(false)
                    .open()
                    .await?
            }
        })
    }

    /// Makes the hot tier lose all its data.
    pub(super) async fn wipe(&self) -> Result<()> {
        match self {
            Self::Redis { server, .. } => drop(server.call(&["FLUSHALL"]).await?),
            Self::Memory { hot, .. } => hot.wipe(),
        }
        Ok(())
    }
}

/// The options of sessions that report their fate at once.
pub(super) const STRICT: SessionOptions = SessionOptions::new()
    .on_conflict(OnConflict::Fail)
    .autosave(Autosave::Off)
    .within(LONG);

pub(super) fn heroes(storage: &Storage, options: SessionOptions) -> Sessions<Hero> {
    storage.world("game", "eu").unwrap().sessions(options)
}

pub(super) fn plain(storage: &Storage) -> ObjStorage<Hero> {
    storage.world("game", "eu").unwrap().objects()
}

/// The stored level of a hero.
pub(super) async fn stored(storage: &Storage, id: u64) -> Result<Option<u64>> {
    Ok(plain(storage).load(id).await?.map(|hero| hero.level))
}

/// Makes a named test of each case on each engine.
macro_rules! on_both {
    ($($case:ident),* $(,)?) => {
        on_both!($($case),*; with_short_lease);
    };
    ($($case:ident),*; $lease:ident) => {
        mod on_redis {
            use super::super::rig::Rig;
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() -> anyhow::Result<()> {
                super::$case(&Rig::redis().await?.$lease()).await
            })*
        }
        mod on_memory {
            use super::super::rig::Rig;
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() -> anyhow::Result<()> {
                super::$case(&Rig::memory().await?.$lease()).await
            })*
        }
    };
}
pub(super) use on_both;

//! All sections together.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use storage_model::{Durability, Limits, SinkName};

use crate::check::{self, ensure};
use crate::cold_url::ColdUrl;
use crate::error::ConfigError;
use crate::hot_url::HotUrl;
use crate::keys::{SINKS, VARIABLES};
use crate::sources::Sources;
use crate::{
    BackpressureSettings, DurabilitySettings, FeedSettings, HotSettings, LandingSettings,
    RedisSettings, SessionSettings, SinkSettings, SqlSettings,
};

/// All settings. Game servers and workers read the same file and take the parts that concern them.
///
/// The fields are public: set them, then call [`Settings::validate`]. `Debug` hides passwords.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Settings {
    /// How to reach the hot tier.
    pub redis: RedisSettings,
    /// How to reach the cold tier.
    pub sql: SqlSettings,
    /// How the hot tier is used as a cache.
    pub hot: HotSettings,
    /// How changes become durable.
    pub landing: LandingSettings,
    /// How writes slow down when landing can't keep up.
    pub backpressure: BackpressureSettings,
    /// How safe writes are when they are acknowledged.
    pub durability: DurabilitySettings,
    /// Which changes the feed has, and how long it keeps them.
    pub feed: FeedSettings,
    /// How one server at a time writes an owner.
    pub sessions: SessionSettings,
    /// The largest values and calls.
    pub limits: Limits,
    /// Receivers of the feed's landed events, by name. Landing workers serve them.
    pub sinks: BTreeMap<SinkName, SinkSettings>,
}

impl Settings {
    /// The defaults with these two tiers.
    #[must_use]
    pub fn new(hot: HotUrl, cold: ColdUrl) -> Self {
        Self {
            redis: RedisSettings::new(hot),
            sql: SqlSettings::new(cold),
            ..Self::default()
        }
    }

    /// The defaults of the embedded mode: the hot tier in this process's memory, the cold tier in
    /// one SQLite file.
    #[must_use]
    pub fn embedded(path: impl AsRef<Path>) -> Self {
        let file = path.as_ref().to_owned();
        Self::new(HotUrl::Memory, ColdUrl::SqliteFile(file))
    }

    /// The defaults of the embedded mode without a file: both tiers are in this process's memory.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::default()
    }

    /// Reads settings from TOML. Messages call the text by `name`. Reads neither files nor the
    /// environment.
    ///
    /// # Errors
    /// The text is not TOML, has an unknown key or a bad value, or lacks a URL.
    pub fn from_toml(text: &str, name: &str) -> Result<Self, ConfigError> {
        Self::from_sources(text, name, [("", ""); 0])
    }

    /// Reads settings from TOML, then from those variables that begin with `STORAGE__`. A variable
    /// `STORAGE__SECTION__KEY`, such as `STORAGE__REDIS__PREFIX`, overrides a key. Reads nothing else.
    ///
    /// # Errors
    /// As [`Settings::from_toml`]. Or a variable names no setting or holds a bad value.
    pub fn from_sources<K: AsRef<str>, V: AsRef<str>>(
        text: &str,
        name: &str,
        variables: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, ConfigError> {
        let mut sources = Sources::default();
        sources.file(text, name)?;
        for (name, value) in variables {
            let name = name.as_ref();
            if name.starts_with(VARIABLES) {
                sources.variable(name, value.as_ref(), name)?;
            }
        }
        sources.settings()
    }

    /// Checks each value alone, then the values that depend on each other. All functions that read
    /// settings call it.
    ///
    /// # Errors
    /// Names the first value that is not allowed, and the allowed values.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.redis.validate()?;
        self.sql.validate()?;
        check::section("hot", &self.hot)?;
        check::section("landing", &self.landing)?;
        self.backpressure.validate()?;
        check::section("durability", &self.durability)?;
        check::section("feed", &self.feed)?;
        check::section("sessions", &self.sessions)?;
        check::section("limits", &self.limits)?;
        for (name, sink) in &self.sinks {
            check::section(&format!("{SINKS}.{name}"), sink)?;
        }
        let Self { hot, limits, .. } = self;
        let half = hot.clean_ttl / 2;
        let shown = humantime::format_duration(half);
        let expected = format!("at most half of hot.clean_ttl, \"{shown}\"");
        let fits = hot.refresh_interval <= half;
        ensure(fits, hot, "hot.refresh_interval", &expected)?;
        let most = limits.call_bytes_max;
        let expected = format!("at most limits.call_bytes_max, {most}");
        let fits = limits.value_bytes_max <= most;
        ensure(fits, limits, "limits.value_bytes_max", &expected)?;
        self.validate_durability()
    }

    fn validate_durability(&self) -> Result<(), ConfigError> {
        if self.redis.url != HotUrl::Memory {
            return Ok(());
        }
        let expected =
            "cached or landed, since redis.url is memory:, which has neither replicas nor a disk";
        // Those that must change.
        let mut beyond = self.durability.clone();
        beyond.logic_types.retain(|_, asked| needs_server(asked));
        let fits = !needs_server(&beyond.default);
        ensure(fits, &beyond, "durability.default", expected)?;
        let fits = beyond.logic_types.is_empty();
        ensure(fits, &beyond, "durability.logic_types", expected)
    }
}

fn needs_server(asked: &Durability) -> bool {
    !matches!(asked, Durability::Cached | Durability::Landed { .. })
}

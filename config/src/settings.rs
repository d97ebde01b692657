//! All sections together.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

use storage_model::{Durability, Limits, SinkName};

use crate::backpressure::BackpressureSettings;
use crate::cold_url::ColdUrl;
use crate::draft::Draft;
use crate::durability::DurabilitySettings;
use crate::entry::{Entry, Section, check, ensure};
use crate::error::ConfigError;
use crate::feed::FeedSettings;
use crate::hot::HotSettings;
use crate::hot_url::HotUrl;
use crate::landing::LandingSettings;
use crate::redis::RedisSettings;
use crate::sessions::SessionSettings;
use crate::sinks::SinkSettings;
use crate::sql::SqlSettings;
use crate::value::Value;

/// The section that has a section for each sink.
pub(crate) const SINKS: &str = "sinks";

/// All settings. Game servers and workers read the same file and take the parts that concern them.
///
/// The fields are public: set them, then call [`Settings::validate`]. `Debug` hides passwords.
#[derive(Debug, Clone, PartialEq, Eq)]
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
            hot: HotSettings::default(),
            landing: LandingSettings::default(),
            backpressure: BackpressureSettings::default(),
            durability: DurabilitySettings::default(),
            feed: FeedSettings::default(),
            sessions: SessionSettings::default(),
            limits: Limits::default(),
            sinks: BTreeMap::new(),
        }
    }

    /// The defaults of the embedded mode: the hot tier in this process's memory, the cold tier in
    /// one SQLite file.
    #[must_use]
    pub fn embedded(path: impl AsRef<Path>) -> Self {
        Self::new(
            HotUrl::Memory,
            ColdUrl::SqliteFile(path.as_ref().to_owned()),
        )
    }

    /// The defaults of the embedded mode without a file: both tiers are in this process's memory.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::new(HotUrl::Memory, ColdUrl::SqliteMemory)
    }

    /// Reads settings from TOML. Messages call the text by `name`. Reads neither files nor the
    /// environment.
    ///
    /// # Errors
    /// The text is not TOML, has an unknown key or a bad value, or lacks a URL.
    pub fn from_toml(text: &str, name: &str) -> Result<Self, ConfigError> {
        let mut draft = Draft::default();
        draft.toml(text, name)?;
        draft.finish()
    }

    /// Overrides settings by variables `STORAGE__SECTION__KEY`, such as `STORAGE__REDIS__PREFIX`.
    /// Other variables are ignored. Reads nothing but `variables`. Nothing changes when it fails.
    ///
    /// # Errors
    /// A variable `STORAGE__…` names no setting or holds a bad value, or the result is not valid.
    pub fn apply_env<K, V>(
        &mut self,
        variables: impl IntoIterator<Item = (K, V)>,
    ) -> Result<(), ConfigError>
    where
        K: AsRef<str>,
        V: AsRef<str>,
    {
        let mut draft = Draft::from(self.clone());
        draft.variables(variables)?;
        *self = draft.finish()?;
        Ok(())
    }

    /// Checks each value alone, then the values that depend on each other. All functions that read
    /// settings call it.
    ///
    /// # Errors
    /// Names the first value that is not allowed, and the allowed values.
    pub fn validate(&self) -> Result<(), ConfigError> {
        for (section, entries) in self.clone().sections() {
            check(&section, entries)?;
        }
        self.validate_pairs()?;
        self.validate_durability()?;
        for (name, sink) in &self.sinks {
            sink.target(name)?;
        }
        self.redis.validate_pairs()?;
        self.sql.validate_pairs()
    }

    /// All sections with their keys.
    pub(crate) fn sections(&mut self) -> Vec<(Cow<'static, str>, Vec<Entry<'_>>)> {
        let mut sections: Vec<(Cow<'static, str>, _)> = vec![
            ("redis".into(), self.redis.entries()),
            ("sql".into(), self.sql.entries()),
            ("hot".into(), self.hot.entries()),
            ("landing".into(), self.landing.entries()),
            ("backpressure".into(), self.backpressure.entries()),
            ("durability".into(), self.durability.entries()),
            ("feed".into(), self.feed.entries()),
            ("sessions".into(), self.sessions.entries()),
            ("limits".into(), self.limits.entries()),
        ];
        for (name, sink) in &mut self.sinks {
            sections.push((format!("{SINKS}.{name}").into(), sink.entries()));
        }
        sections
    }

    fn validate_pairs(&self) -> Result<(), ConfigError> {
        let Self {
            hot,
            landing,
            limits,
            ..
        } = self;
        let half = hot.clean_ttl / 2;
        ensure(
            hot.refresh_interval <= half,
            "hot.refresh_interval",
            &hot.refresh_interval.show(),
            || format!("at most half of hot.clean_ttl, {}", half.show()),
        )?;
        ensure(
            landing.backoff_min <= landing.backoff_max,
            "landing.backoff_min",
            &landing.backoff_min.show(),
            || {
                format!(
                    "at most landing.backoff_max, {}",
                    landing.backoff_max.show()
                )
            },
        )?;
        ensure(
            landing.error_retry_min <= landing.error_retry_max,
            "landing.error_retry_min",
            &landing.error_retry_min.show(),
            || {
                format!(
                    "at most landing.error_retry_max, {}",
                    landing.error_retry_max.show()
                )
            },
        )?;
        self.validate_watermarks()?;
        ensure(
            limits.value_bytes_max <= limits.call_bytes_max,
            "limits.value_bytes_max",
            &limits.value_bytes_max,
            || format!("at most limits.call_bytes_max, {}", limits.call_bytes_max),
        )
    }

    /// A hard watermark of 0 is off, so it lies above any soft one.
    fn validate_watermarks(&self) -> Result<(), ConfigError> {
        let BackpressureSettings {
            soft_marks,
            hard_marks,
            soft_age,
            hard_age,
            soft_memory,
            hard_memory,
            ..
        } = &self.backpressure;
        let below = |name: &str, soft: &dyn Display, holds: bool, hard: &dyn Display| {
            ensure(holds, &format!("backpressure.soft_{name}"), &soft, || {
                format!("at most backpressure.hard_{name}, {hard}")
            })
        };
        below(
            "marks",
            soft_marks,
            *hard_marks == 0 || soft_marks <= hard_marks,
            hard_marks,
        )?;
        below(
            "age",
            &soft_age.show(),
            hard_age.is_zero() || soft_age <= hard_age,
            &hard_age.show(),
        )?;
        below(
            "memory",
            soft_memory,
            *hard_memory == 0 || soft_memory <= hard_memory,
            hard_memory,
        )
    }

    fn validate_durability(&self) -> Result<(), ConfigError> {
        let DurabilitySettings {
            default,
            logic_types,
        } = &self.durability;
        let needs_server = |asked: &Durability| {
            matches!(
                asked,
                Durability::Replicated { .. } | Durability::Fsynced { .. }
            )
        };
        let beyond = |asked: &Durability| self.redis.url == HotUrl::Memory && needs_server(asked);
        let expected = || {
            "cached or landed, since redis.url is memory:, which has neither replicas nor a disk"
                .to_owned()
        };
        ensure(
            !beyond(default),
            "durability.default",
            &default.show(),
            expected,
        )?;
        // Shows only the logic types that must change.
        let refused = logic_types.iter().filter(|(_, asked)| beyond(asked));
        let refused: BTreeMap<_, _> = refused
            .map(|(name, asked)| (name.clone(), *asked))
            .collect();
        ensure(
            refused.is_empty(),
            "durability.logic_types",
            &refused.show(),
            expected,
        )
    }
}

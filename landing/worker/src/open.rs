//! From settings to open tiers.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use storage_config::Settings;
use storage_dirty::{Hot, HotError, HotKind};
use storage_landing::LandingWorker;
use storage_model::{Ids as _, RandomIds, SystemClock, Token};
use storage_sdk::{Kind, Storage};
use storage_sql::{Cold, ColdKind, DatabaseStore, Hook};
use storage_tiers::{TierError, Tiers};
use tokio::time::Instant;

use crate::config_args::ConfigArgs;
use crate::exit::{self, Exit};
use crate::sinks;

/// The settings: from file and environment, or from the environment alone.
///
/// # Errors
/// The file can't be read, or a key or variable is wrong. The message names it.
pub fn settings(args: &ConfigArgs) -> anyhow::Result<Settings> {
    Ok(match &args.config {
        Some(path) => Settings::load(path)?,
        None => Settings::from_env()?,
    })
}

/// The hot tier, open and checked.
///
/// # Errors
/// It can't be reached, or must not be used.
pub async fn hot(settings: &Settings) -> anyhow::Result<Hot> {
    refuse_memory(settings)?;
    let hot = storage_dirty::open(settings, Arc::new(SystemClock))
        .await
        .context("the hot tier")?;
    warn_of_policy(hot.tier.check().await)?;
    Ok(hot)
}

/// A hot tier that may evict unlanded data is landed all the same, the sooner the better. Game
/// servers reject writes to it.
fn warn_of_policy(checked: Result<(), HotError>) -> anyhow::Result<()> {
    match checked {
        Err(error) if error.kind == HotKind::Policy => {
            tracing::warn!(%error, "unlanded data is in danger, and game servers reject writes: landing goes on");
            Ok(())
        }
        checked => checked.context("the hot tier"),
    }
}

/// The hot tier, open for reading, even if some of its servers do not answer. Nothing is written to
/// it.
///
/// # Errors
/// No server of it can be reached, or it must not be used.
pub async fn hot_for_reading(settings: &Settings) -> anyhow::Result<Hot> {
    refuse_memory(settings)?;
    let hot = storage_dirty::open_for_reading(settings, Arc::new(SystemClock))
        .await
        .context("the hot tier")?;
    if let Err(error) = hot.tier.check().await {
        tracing::warn!(%error, "game servers reject writes: reading goes on");
    }
    Ok(hot)
}

/// Both tiers, open for reading. They belong together. Nothing is written to either tier.
///
/// # Errors
/// A tier is away, or they do not belong together.
pub async fn tiers_for_reading(settings: &Settings) -> anyhow::Result<Tiers> {
    let hot = hot_for_reading(settings).await?;
    let cold = storage_sql::Opening::new(&settings.sql)
        .for_reading()
        .open()
        .await
        .context("the cold tier")?;
    let tiers = Tiers::new(hot, cold, usize::try_from(settings.hot.load_rows_max)?).for_reading();
    tiers.compare_only().await.map_err(named)?;
    Ok(tiers)
}

/// Checks that a hot tier that is only read belongs to the database of the settings.
///
/// # Errors
/// They do not belong together, the tables do not fit, or the database does not answer.
pub async fn compared(settings: &Settings, hot: &Hot) -> anyhow::Result<()> {
    let cold = storage_sql::Opening::new(&settings.sql)
        .for_reading()
        .open()
        .await
        .context("the cold tier")?;
    let tiers = Tiers::new(hot.clone(), cold, 1).for_reading();
    tiers.compare_only().await.map_err(named)
}

/// The hooks that the database needs. None if it does not answer.
pub async fn hooks(settings: &Settings) -> Vec<Hook> {
    let read = async {
        let cold = storage_sql::Opening::new(&settings.sql)
            .for_reading()
            .open()
            .await?;
        cold.hooks.hooks().await
    };
    let hooks = read.await.inspect_err(|error| {
        tracing::debug!(%error, "the hooks of the database could not be read");
    });
    let mut hooks = hooks.unwrap_or_default();
    hooks.retain(|hook| hook.is_needed);
    hooks
}

/// Both tiers, without a check that they belong together.
///
/// # Errors
/// A tier is away.
pub async fn tiers_apart(settings: &Settings) -> anyhow::Result<Tiers> {
    let hot = hot(settings).await?;
    let cold = cold(settings).await?;
    Ok(
        Tiers::new(hot, cold, usize::try_from(settings.hot.load_rows_max)?)
            .on_probation(settings.landing.probation)
            .tearing_after(settings.landing.torn_after)
            .keeping_events(settings.feed.keep),
    )
}

/// The memory engine lives in one process, so no other process can land or read it.
fn refuse_memory(settings: &Settings) -> anyhow::Result<()> {
    if settings.redis.url != storage_config::HotUrl::Memory {
        return Ok(());
    }
    let message = "redis.url is memory:, which lives inside one game server, and that server lands by itself: set redis.url to a Redis server";
    Err(exit::error(Exit::Settings, message))
}

/// The shortest and the longest wait for a tier that is away at the start.
const WAIT_MIN: Duration = Duration::from_millis(200);
const WAIT_MAX: Duration = Duration::from_secs(5);

/// The context of the error of a tier that was away until a deadline.
pub const LATE: &str = "waited until the deadline (--deadline)";

/// Both tiers. Waits, with warnings, while one of them is away. Returns errors that waiting does
/// not help.
///
/// # Errors
/// A wrong URL, password, partition count, policy or schema.
pub async fn tiers_waiting(settings: &Settings) -> anyhow::Result<Tiers> {
    tiers(settings, None).await
}

/// Both tiers, if neither is away.
///
/// # Errors
/// As [`tiers_waiting`], or a tier is away.
pub async fn tiers_at_once(settings: &Settings) -> anyhow::Result<Tiers> {
    let hot = hot(settings).await?;
    let cold = cold(settings).await?;
    together(settings, hot, cold).await
}

/// As [`tiers_waiting`], until a deadline.
///
/// # Errors
/// As [`tiers_waiting`], or a tier was away until the deadline. The error tells why.
pub async fn tiers_by(settings: &Settings, deadline: Instant) -> anyhow::Result<Tiers> {
    tiers(settings, Some(deadline)).await
}

/// A storage on both tiers. Waits as [`tiers_by`]. In embedded mode it opens at once or fails.
///
/// # Errors
/// As [`tiers_by`].
pub async fn storage_by(settings: Settings, deadline: Instant) -> anyhow::Result<Storage> {
    if settings.redis.url == storage_config::HotUrl::Memory {
        return Ok(Storage::open(settings).await?);
    }
    let (hot, cold) = both(&settings, Some(deadline)).await?;
    // An open database may still be away: it is asked first when the tiers are compared.
    let open = async || {
        let builder = Storage::builder(settings.clone());
        Ok(builder.hot(hot.clone()).cold(cold.clone()).open().await?)
    };
    waiting("hot or cold", Some(deadline), is_storage_away, open).await
}

fn is_storage_away(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<storage_sdk::Error>()
        .is_some_and(|error| {
            matches!(
                error.kind(),
                Kind::HotUnavailable | Kind::ColdUnavailable | Kind::Timeout
            )
        })
}

/// Opens a tier. Waits, with warnings, while it is away, until the deadline if there is one.
async fn waiting<T>(
    tier: &str,
    deadline: Option<Instant>,
    is_away: fn(&anyhow::Error) -> bool,
    open: impl AsyncFn() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut away = None;
    let opened = async {
        let mut wait = WAIT_MIN;
        loop {
            match open().await {
                Err(error) if is_away(&error) => {
                    let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
                    tracing::warn!(tier, wait_ms, "away at the start, waiting: {error:#}");
                    away = Some(error);
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(WAIT_MAX);
                }
                opened => return opened,
            }
        }
    };
    let Some(deadline) = deadline else {
        return opened.await;
    };
    match tokio::time::timeout_at(deadline, opened).await {
        Ok(opened) => opened,
        Err(_) => {
            Err(away
                .unwrap_or_else(|| exit::error(Exit::Late, format!("the {tier} tier: no answer"))))
            .context(LATE)
        }
    }
}

async fn tiers(settings: &Settings, deadline: Option<Instant>) -> anyhow::Result<Tiers> {
    let (hot, cold) = both(settings, deadline).await?;
    // One of them can go away between the two calls.
    let pair = async || together(settings, hot.clone(), cold.clone()).await;
    waiting("hot or cold", deadline, is_away, pair).await
}

async fn both(settings: &Settings, deadline: Option<Instant>) -> anyhow::Result<(Hot, Cold)> {
    let hot = waiting("hot", deadline, is_hot_away, async || hot(settings).await).await?;
    let cold = waiting("cold", deadline, is_cold_away, async || {
        cold(settings).await
    })
    .await?;
    Ok((hot, cold))
}

async fn together(settings: &Settings, hot: Hot, cold: Cold) -> anyhow::Result<Tiers> {
    let tiers = Tiers::new(hot, cold, usize::try_from(settings.hot.load_rows_max)?)
        .on_probation(settings.landing.probation)
        .tearing_after(settings.landing.torn_after)
        .keeping_events(settings.feed.keep);
    tiers.compare_patiently().await.map_err(named)?;
    tiers.warn_if_forgetful().await;
    Ok(tiers)
}

async fn cold(settings: &Settings) -> anyhow::Result<Cold> {
    let mut sql = settings.sql.clone();
    // Each transaction holds a connection. As many further batches may look something up at the
    // same time, and so may the worker itself.
    sql.connections = sql.connections.max(2 * settings.landing.connections + 1);
    // The pairing creates the tables, so that nothing is written into a wrong database.
    storage_sql::Opening::new(&sql)
        .for_pairing()
        .at(tokio::runtime::Handle::current())
        .open()
        .await
        .context("the cold tier")
}

fn is_hot_away(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<storage_dirty::HotError>()
        .is_some_and(|e| {
            matches!(
                e.kind,
                HotKind::Unavailable | HotKind::Interrupted | HotKind::NoWrites
            )
        })
}

/// The error, with the failed tier as context.
fn named(error: TierError) -> anyhow::Error {
    let tier = match &error {
        TierError::Hot(_) => Some("the hot tier"),
        TierError::Cold(_) => Some("the cold tier"),
        _ => None,
    };
    match tier {
        Some(tier) => anyhow::Error::from(error).context(tier),
        None => error.into(),
    }
}

fn is_away(error: &anyhow::Error) -> bool {
    match error.downcast_ref::<TierError>() {
        Some(TierError::Hot(error)) => matches!(
            error.kind,
            HotKind::Unavailable | HotKind::Interrupted | HotKind::NoWrites
        ),
        Some(TierError::Cold(error)) => error.kind == ColdKind::Unwell,
        Some(TierError::Contended { .. } | TierError::Behind(_)) => true,
        _ => false,
    }
}

fn is_cold_away(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<storage_sql::ColdError>()
        .is_some_and(|e| e.kind == ColdKind::Unwell)
}

/// A worker on open tiers, under a unique name.
#[must_use]
pub fn worker(settings: &Settings, tiers: Tiers) -> LandingWorker {
    let mut landing = settings.landing.clone();
    landing.worker_name.get_or_insert_with(|| {
        let id: String = RandomIds.next().to_string().chars().take(6).collect();
        format!("{}-{id}", storage_config::process_name())
    });
    LandingWorker::new(tiers, &landing, &settings.sessions, &RandomIds)
}

/// A worker on open tiers, under a unique name, with the sinks of the settings. Waits while the
/// database is away.
///
/// # Errors
/// A sink's settings are not usable.
pub async fn worker_with_sinks(settings: &Settings, tiers: Tiers) -> anyhow::Result<LandingWorker> {
    if settings.sinks.is_empty() {
        return Ok(worker(settings, tiers));
    }
    let identity = async || identity(tiers.cold().database.as_ref()).await;
    let feed = waiting("cold", None, is_cold_away, identity).await?;
    let mut worker = worker(settings, tiers);
    for (name, sink) in sinks::of(settings, feed)? {
        worker = worker.with_sink(name, sink);
    }
    Ok(worker)
}

/// The identity of a database that has a hot tier.
///
/// # Errors
/// The database is away, or has no identity yet.
pub async fn identity(database: &dyn DatabaseStore) -> anyhow::Result<Token> {
    let pairing = database.pairing().await.context("the cold tier")?;
    let none = || {
        exit::error(
            Exit::Refused,
            "the database has no feed yet: run a worker first",
        )
    };
    pairing.identity.ok_or_else(none)
}

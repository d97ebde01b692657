//! Opens the engine that the settings name.

use std::sync::Arc;

#[cfg(feature = "redis")]
use futures::FutureExt as _;
use storage_config::{HotUrl, Settings};
use storage_model::Clock;

#[cfg(not(feature = "redis"))]
use crate::HotKind;
#[cfg(feature = "redis")]
use crate::RedisStore;
use crate::{Hot, HotError, MemoryStore};

/// Opens the engine that `redis.url` names. Only the memory engine uses `clock`. Redis has its own.
///
/// # Errors
/// The server can't be reached, rejects the login, is too old, or is unsafe for unlanded data.
///
/// # Cancel safety
/// If the call is dropped, nothing is open.
pub async fn open(settings: &Settings, clock: Arc<dyn Clock>) -> Result<Hot, HotError> {
    open_as(settings, clock, false).await
}

/// As [`open()`], for reading only. The engine on Redis never writes, and a call that would write
/// fails.
///
/// # Errors
/// As [`open()`].
///
/// # Cancel safety
/// As [`open()`].
pub async fn open_for_reading(settings: &Settings, clock: Arc<dyn Clock>) -> Result<Hot, HotError> {
    open_as(settings, clock, true).await
}

async fn open_as(
    settings: &Settings,
    clock: Arc<dyn Clock>,
    read_only: bool,
) -> Result<Hot, HotError> {
    let Settings { redis, hot, .. } = settings;
    if redis.url == HotUrl::Memory {
        let store = MemoryStore::new(redis, hot, clock);
        store.limit(hot.embedded_bytes_max);
        return Ok(Hot::of(&Arc::new(store)));
    }
    open_redis(settings, read_only).await
}

#[cfg(feature = "redis")]
async fn open_redis(settings: &Settings, read_only: bool) -> Result<Hot, HotError> {
    let Settings { redis, hot, .. } = settings;
    // Boxed, so that the compilers of callers need not look into the driver's futures.
    let store = if read_only {
        RedisStore::open_for_reading(redis, hot).boxed().await?
    } else {
        RedisStore::open(redis, hot).boxed().await?
    };
    Ok(Hot::of(&Arc::new(store)))
}

#[cfg(not(feature = "redis"))]
async fn open_redis(settings: &Settings, _: bool) -> Result<Hot, HotError> {
    let url = &settings.redis.url;
    let message = format!(
        "redis.url is {url}, and this program is built without Redis: turn on the feature `redis` of storage-sdk, or set `memory:`"
    );
    Err(HotError::not_applied(HotKind::Settings, "open", message))
}

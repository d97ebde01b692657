//! Opens the engine that the settings name.

use std::sync::Arc;

use futures::FutureExt as _;
use storage_config::{HotUrl, Login, Node, RedisSettings, Secret, Settings};
use storage_model::Clock;

use crate::redis::{RedisOptions, RedisStore};
use crate::{HotError, HotStore, MemorySettings, MemoryStore};

/// Opens the engine that `redis.url` names. Only the memory engine uses `clock`. Redis has its own.
///
/// # Errors
/// The server can't be reached, rejects the login, is too old, or is unsafe for unlanded data.
///
/// # Cancel safety
/// If the call is dropped, nothing is open.
pub async fn open(
    settings: &Settings,
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn HotStore>, HotError> {
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
pub async fn open_for_reading(
    settings: &Settings,
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn HotStore>, HotError> {
    open_as(settings, clock, true).await
}

async fn open_as(
    settings: &Settings,
    clock: Arc<dyn Clock>,
    read_only: bool,
) -> Result<Arc<dyn HotStore>, HotError> {
    let RedisSettings { partitions, .. } = settings.redis;
    let Some(url) = url(&settings.redis) else {
        let memory = MemorySettings {
            prefix: settings.redis.prefix.clone(),
            partitions,
            hash_ttl: settings.hot.clean_ttl,
            absent_ttl: settings.hot.absent_ttl,
            ..MemorySettings::default()
        };
        return Ok(Arc::new(MemoryStore::new(memory, clock)));
    };
    let redis = &settings.redis;
    let login = redis.login();
    let sentinel_login = match &redis.url {
        HotUrl::Sentinel { sentinel_login, .. } => sentinel_login.clone(),
        _ => Login::default(),
    };
    let exposed = |password: Option<Secret>| password.map(|password| password.expose().to_owned());
    let defaults = RedisOptions::new(&url);
    let options = RedisOptions {
        user: login.user,
        password: exposed(login.password),
        sentinel_user: sentinel_login.user,
        sentinel_password: exposed(sentinel_login.password),
        database: Some(redis.database_number().into()),
        ca_file: redis.tls_ca_file.clone(),
        connections: usize::try_from(redis.connections).unwrap_or(usize::MAX),
        connect_timeout: redis.connect_timeout,
        response_timeout: redis.response_timeout,
        wait_timeout: redis.wait_timeout,
        tcp_nodelay: redis.tcp_nodelay,
        prefix: redis.prefix.clone(),
        partitions,
        clean_ttl: settings.hot.clean_ttl,
        absent_ttl: settings.hot.absent_ttl,
        read_only,
        ..defaults
    };
    // Boxed, so that the compilers of callers need not look into the driver's futures.
    Ok(Arc::new(RedisStore::open(options).boxed().await?))
}

/// The URL as the engine reads it, without a login. `None` for the memory engine.
fn url(settings: &RedisSettings) -> Option<String> {
    Some(match &settings.url {
        HotUrl::Memory => return None,
        HotUrl::Server { node, tls, .. } => {
            format!("{}://{node}", if *tls { "rediss" } else { "redis" })
        }
        HotUrl::Unix { path, .. } => format!("redis+unix://{path}"),
        HotUrl::Cluster { seeds, tls, .. } => {
            format!(
                "{}://{}",
                if *tls {
                    "rediss-cluster"
                } else {
                    "redis-cluster"
                },
                list(seeds)
            )
        }
        HotUrl::Sentinel {
            sentinels,
            master,
            tls,
            ..
        } => {
            format!(
                "{}://{}/{master}",
                if *tls {
                    "rediss-sentinel"
                } else {
                    "redis-sentinel"
                },
                list(sentinels)
            )
        }
    })
}

fn list(nodes: &[Node]) -> String {
    nodes
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(",")
}

//! From the settings to an open engine.

use std::sync::Arc;

use storage_config::{HotUrl, RedisSettings, Settings};
use storage_model::Clock;

use crate::redis::{RedisOptions, RedisStore};
use crate::{HotError, HotKind, HotStore, MemorySettings, MemoryStore};

/// Opens the engine that `redis.url` names. `clock` is the memory engine's; Redis has its own.
///
/// # Errors
/// The server can't be reached, refuses the login, is too old, or must not be trusted with unlanded data.
///
/// # Cancel safety
/// Dropped, nothing is open.
pub async fn open(settings: &Settings, clock: Arc<dyn Clock>) -> Result<Arc<dyn HotStore>, HotError> {
    let RedisSettings { partitions, .. } = settings.redis;
    let Some(url) = url(&settings.redis)? else {
        let memory = MemorySettings {
            partitions,
            hash_ttl: settings.hot.clean_ttl,
            absent_ttl: settings.hot.absent_ttl,
            ..MemorySettings::default()
        };
        return Ok(Arc::new(MemoryStore::new(memory, clock)));
    };
    let redis = &settings.redis;
    let login = redis.login();
    let options = RedisOptions {
        user: login.user,
        password: login.password.map(|password| password.expose().to_owned()),
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
        ..RedisOptions::new(&url)
    };
    Ok(Arc::new(RedisStore::open(options).await?))
}

/// The URL as the engine reads it, without a login; none for the memory engine.
fn url(settings: &RedisSettings) -> Result<Option<String>, HotError> {
    Ok(Some(match &settings.url {
        HotUrl::Memory => return Ok(None),
        HotUrl::Server { node, tls, .. } => format!("{}://{node}", if *tls { "rediss" } else { "redis" }),
        HotUrl::Unix { path, .. } => format!("redis+unix://{path}"),
        HotUrl::Cluster { seeds, tls, .. } => {
            let nodes: Vec<String> = seeds.iter().map(ToString::to_string).collect();
            format!("{}://{}", if *tls { "rediss-cluster" } else { "redis-cluster" }, nodes.join(","))
        }
        HotUrl::Sentinel { .. } => {
            let message = "redis.url: redis-sentinel:// is not supported yet; name the server, or a cluster";
            return Err(HotError::not_applied(HotKind::Settings, "open", message));
        }
    }))
}

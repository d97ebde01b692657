//! The settings of a landing worker.

use std::time::Duration;

use storage_config::Settings;

/// The settings of a landing worker. `Default` gives the values named here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandingOptions {
    /// The worker's name. Concurrent workers must have different names. Empty: the worker makes a
    /// name from `worker` and its lock's token. Default: empty.
    pub name: String,
    /// About how long a write waits while the worker keeps up. With many marks it can be half as
    /// long again. A longer interval lands more writes of a field as one row. Default: 500 ms.
    pub interval: Duration,
    /// About how many marks one transaction lands. It can be half more, and it is less while the
    /// database is slow. Default: 1,000, the knee of the curve on MariaDB.
    pub batch_rows: usize,
    /// About how many bytes of values one transaction lands. Default: 1 MiB.
    pub batch_bytes: usize,
    /// The most concurrent transactions. It is less while the database is slow. Each transaction
    /// holds a connection. Up to twice as many batches are read and settled. Default: 2.
    pub connections: usize,
    /// How long a lock outlives a worker that died. Default: 10 s.
    pub lock_ttl: Duration,
    /// How long an announcement outlives a worker that died. Default: 10 s.
    pub worker_ttl: Duration,
    /// The first wait after a failure of either tier. It doubles, with jitter. Default: 100 ms.
    pub backoff_min: Duration,
    /// The longest wait after a failure. Default: 2 s.
    pub backoff_max: Duration,
    /// The first delay before a rejected row is tried again. It doubles. Default: 10 s.
    pub retry_min: Duration,
    /// The longest delay before a rejected row is tried again. Default: 1 h.
    pub retry_max: Duration,
    /// How long a session holder must be silent until its sessions lapse. Default: 10 s.
    pub lease: Duration,
}

impl Default for LandingOptions {
    fn default() -> Self {
        Self {
            name: String::new(),
            interval: Duration::from_millis(500),
            batch_rows: 1_000,
            batch_bytes: 1 << 20,
            connections: 2,
            lock_ttl: Duration::from_secs(10),
            worker_ttl: Duration::from_secs(10),
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(2),
            retry_min: Duration::from_secs(10),
            retry_max: Duration::from_secs(3_600),
            lease: Duration::from_secs(10),
        }
    }
}

impl From<&Settings> for LandingOptions {
    fn from(settings: &Settings) -> Self {
        let Settings {
            landing: settings,
            sessions,
            ..
        } = settings;
        let size = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
        Self {
            name: settings.worker_name.clone().unwrap_or_default(),
            interval: settings.interval,
            batch_rows: size(settings.batch_rows),
            batch_bytes: settings.batch_bytes,
            connections: size(settings.connections),
            lock_ttl: settings.lock_ttl,
            worker_ttl: settings.worker_ttl,
            backoff_min: settings.backoff_min,
            backoff_max: settings.backoff_max,
            retry_min: settings.error_retry_min,
            retry_max: settings.error_retry_max,
            lease: sessions.lease,
        }
    }
}

//! The section `landing`: how changes become durable.

use std::time::Duration;

use crate::entry::{Entry, Section, between, matching};

/// How a worker lands changes: how often, how much at once, and how it waits after failures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandingSettings {
    /// The name under which the worker announces itself. Up to 64 bytes without control characters.
    /// Default: none (empty in a file), which means host and process id. Two workers of one name
    /// count as one and share badly.
    pub worker_name: Option<String>,
    /// About how long a write waits while the worker keeps up, and up to half as long again among
    /// many others. 10 ms to 1 h. Default: 500 ms. A longer interval lands more writes of a field
    /// as one row. But a crash of Redis loses more.
    ///
    /// A worker gathers for one interval. So the writes of one interval should stay far below the
    /// soft watermark of [back-pressure](crate::BackpressureSettings::soft_marks).
    pub interval: Duration,
    /// About how many marks one batch has, at most half more. 1 to 10,000. Default: 1,000. Batches
    /// are smaller after a failure.
    pub batch_rows: u32,
    /// About how many bytes of values one batch has. 1 KiB to 64 MiB. Default: 1 MiB. One statement
    /// has at most 1 MiB, or half of the database's `max_allowed_packet` if that is less (H37). A
    /// value above 1 MiB gets a statement of its own.
    pub batch_bytes: usize,
    /// The most batches that land side by side, each on a database connection of its own. 1 to 64.
    /// Default: 2.
    pub connections: u32,
    /// How long a partition's lock outlives its worker. 1 s to 10 min. Default: 10 s. With a
    /// shorter time another worker takes over sooner. Locks only avoid double work. They never
    /// protect data (R3).
    pub lock_ttl: Duration,
    /// How long a worker counts after its last announcement. 1 s to 10 min. Default: 10 s. A dead
    /// worker's share stays without a worker for that long.
    pub worker_ttl: Duration,
    /// The first pause after a failure of the database or Redis. 10 ms to 10 min. Default: 100 ms.
    /// The pause doubles, with jitter.
    pub backoff_min: Duration,
    /// The longest such pause. 10 ms to 10 min, at least `backoff_min`. Default: 2 s. A recovery is
    /// noticed this late at most.
    pub backoff_max: Duration,
    /// How long a rejected row waits in the error map before a worker retries it. 100 ms to 7 days.
    /// Default: 10 s. The wait doubles.
    pub error_retry_min: Duration,
    /// The longest such wait. 100 ms to 7 days, at least `error_retry_min`. Default: 1 h. A newer
    /// write of the field is tried at once.
    pub error_retry_max: Duration,
    /// How long an owner, or owners that one transaction wrote, may wait because the database rejects
    /// one of their fields. Then the other fields land without it. 0 to 7 days. Default: 10 min. Until
    /// then all later changes of these owners are in Redis alone. All processes need the same value.
    pub torn_after: Duration,
    /// How long landed marks stay on probation at least, and their owners in Redis. 0 to 1 day.
    /// Default: 0, off. If the database is replaced or restarted in that time, the marks land again
    /// (H33).
    ///
    /// Choose more than the database may forget: its commits between two flushes, or the lag of a
    /// replica. Probation costs memory for all data that lands in twice this time. All processes
    /// need the same value.
    pub probation: Duration,
    /// How long the database keeps the row of a purged field at least. 0, or 1 h to 10 years.
    /// Default: 30 days. 0 keeps it for ever.
    ///
    /// Choose more than the age of any copy of Redis that may come back. Such a copy may hold the
    /// field from before it was purged, and the row tells that the copy is older. Choose also more
    /// than the age of any version that a caller still compares. The version of an owner can fall if
    /// its newest row is deleted.
    pub sweep_after: Duration,
    /// How long `drain` tries to land everything. 1 s to 1 day. Default: 5 min. After that it fails
    /// and reports the rest. Nothing is lost.
    pub drain_deadline: Duration,
}

impl Default for LandingSettings {
    fn default() -> Self {
        Self {
            worker_name: None,
            interval: Duration::from_millis(500),
            batch_rows: 1_000,
            batch_bytes: 1 << 20,
            connections: 2,
            lock_ttl: Duration::from_secs(10),
            worker_ttl: Duration::from_secs(10),
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(2),
            error_retry_min: Duration::from_secs(10),
            error_retry_max: Duration::from_hours(1),
            torn_after: Duration::from_mins(10),
            probation: Duration::ZERO,
            sweep_after: Duration::from_hours(30 * 24),
            drain_deadline: Duration::from_mins(5),
        }
    }
}

impl Section for LandingSettings {
    fn entries(&mut self) -> Vec<Entry<'_>> {
        let (instant, tenth, second) = (
            Duration::from_millis(10),
            Duration::from_millis(100),
            Duration::from_secs(1),
        );
        let (while_, hour, day) = (
            Duration::from_mins(10),
            Duration::from_hours(1),
            Duration::from_hours(24),
        );
        let week = day.saturating_mul(7);
        vec![
            Entry::new(
                "worker_name",
                &mut self.worker_name,
                matching(NAME, is_name),
            ),
            Entry::new("interval", &mut self.interval, between(instant, hour)),
            Entry::new("batch_rows", &mut self.batch_rows, between(1, 10_000)),
            Entry::new(
                "batch_bytes",
                &mut self.batch_bytes,
                between(1 << 10, 64 << 20),
            ),
            Entry::new("connections", &mut self.connections, between(1, 64)),
            Entry::new("lock_ttl", &mut self.lock_ttl, between(second, while_)),
            Entry::new("worker_ttl", &mut self.worker_ttl, between(second, while_)),
            Entry::new(
                "backoff_min",
                &mut self.backoff_min,
                between(instant, while_),
            ),
            Entry::new(
                "backoff_max",
                &mut self.backoff_max,
                between(instant, while_),
            ),
            Entry::new(
                "error_retry_min",
                &mut self.error_retry_min,
                between(tenth, week),
            ),
            Entry::new(
                "error_retry_max",
                &mut self.error_retry_max,
                between(tenth, week),
            ),
            Entry::new(
                "torn_after",
                &mut self.torn_after,
                between(Duration::ZERO, week),
            ),
            Entry::new(
                "probation",
                &mut self.probation,
                between(Duration::ZERO, day),
            ),
            Entry::new(
                "sweep_after",
                &mut self.sweep_after,
                matching(SWEEP_AFTER, is_sweep_after),
            ),
            Entry::new(
                "drain_deadline",
                &mut self.drain_deadline,
                between(second, day),
            ),
        ]
    }
}

const SWEEP_AFTER: &str = "0s, or 1 h to 10 years";

fn is_sweep_after(time: &Duration) -> bool {
    let (hour, years) = (Duration::from_hours(1), Duration::from_hours(10 * 365 * 24));
    time.is_zero() || (hour..=years).contains(time)
}

pub(crate) const NAME: &str =
    "1 to 64 bytes without control characters, or \"\" for host and process id";

pub(crate) fn is_name(name: &Option<String>) -> bool {
    name.as_ref()
        .is_none_or(|name| (1..=64).contains(&name.len()) && !name.chars().any(char::is_control))
}

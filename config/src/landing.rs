//! The section `landing`: how changes become durable.

use crate::section::prelude::*;

section! {
    /// How a worker lands changes: how often, how much at once, and how it waits after failures.
    LandingSettings;

    /// The name under which the worker announces itself. Up to 64 bytes without control characters.
    /// Default: none, which means host and process id. Two workers of one name share badly.
    worker_name: Option<String> = None, PROCESS;
    /// About how long a write waits while the worker keeps up, and up to half as long again among
    /// many others. 10 ms to 1 h. Default: 500 ms. A longer interval lands more writes of a field
    /// as one row. But a crash of Redis loses more.
    ///
    /// A worker gathers for one interval. So the writes of one interval should stay far below the
    /// soft watermark of [back-pressure](crate::BackpressureSettings::soft_marks).
    interval: Duration as "crate::duration" = Duration::from_millis(500), Time("10ms", "1h");
    /// About how many marks a batch has, at most half more, less after failures. 1 to 10,000.
    /// Default: 1,000.
    batch_rows: u32 = 1_000, Number(1, 10_000);
    /// About how many bytes of values one batch has. 1 KiB to 64 MiB. Default: 1 MiB. One statement
    /// has at most 1 MiB, or half of the database's `max_allowed_packet` if that is less (H37). A
    /// value above 1 MiB gets a statement of its own.
    batch_bytes: usize = 1 << 20, Number(1 << 10, 64 << 20);
    /// The most batches that land side by side, each on its own connection. 1 to 64. Default: 2.
    connections: u32 = 2, Number(1, 64);
    /// How long a partition's lock outlives its worker, and how long a worker counts after its last
    /// announcement. 1 s to 10 min. Default: 10 s. With a shorter time another worker takes over
    /// sooner. Locks only avoid double work. They never protect data (R3).
    lock_ttl: Duration as "crate::duration" = Duration::from_secs(10), Time("1s", "10m");
    /// The longest pause after a failure of the database or Redis. 10 ms to 10 min. Default: 2 s. A
    /// recovery is noticed this late at most. The [first pause](Self::backoff_min) is shorter.
    backoff_max: Duration as "crate::duration" = Duration::from_secs(2), Time("10ms", "10m");
    /// The longest wait of a rejected row in the error map before a worker retries it. 100 ms to 7
    /// days. Default: 1 h. The [first wait](Self::error_retry_min) is shorter. A newer write of the
    /// field is tried at once.
    error_retry_max: Duration as "crate::duration" = Duration::from_hours(1), Time("100ms", "7days");
    /// How long an owner, or owners that one transaction wrote, may wait because the database
    /// rejects one of their fields. Then the other fields land without it. 0 to 7 days. Default:
    /// 10 min. Until then all their later changes are in Redis alone. All processes need the same
    /// value.
    torn_after: Duration as "crate::duration" = Duration::from_mins(10), Time("0s", "7days");
    /// How long landed marks stay on probation at least, and their owners in Redis. 0 to 1 day.
    /// Default: 0, off. If the database is replaced or restarted in that time, the marks land again
    /// (H33).
    ///
    /// Choose more than the database may forget: its commits between two flushes, or the lag of a
    /// replica. Probation costs memory for all data that lands in twice this time. All processes
    /// need the same value.
    probation: Duration as "crate::duration" = Duration::ZERO, Time("0s", "1day");
    /// How long the database keeps the row of a purged field at least. 0, which is for ever, or 1 h
    /// to 10 years. Default: 30 days. Choose more than the age of any copy of Redis that may come
    /// back: the row tells that such a copy, which may hold the field, is older. Choose also more
    /// than the age of any version that a caller still compares, since it falls if an owner's
    /// newest row is deleted.
    sweep_after: Duration as "crate::duration" = Duration::from_hours(30 * 24), Text("0s, or 1 h to 10 years", is_sweep_after);
}

impl LandingSettings {
    /// The first pause after a failure of the database or Redis: a fiftieth of `backoff_max`, at least
    /// 10 ms. The pause doubles, with jitter.
    #[must_use]
    pub fn backoff_min(&self) -> Duration {
        let shortest = Duration::from_millis(10).min(self.backoff_max);
        shortest.max(self.backoff_max / 50)
    }

    /// The first wait of a rejected row: 10 s for each hour of `error_retry_max`, but at least
    /// 100 ms. The wait doubles.
    #[must_use]
    pub fn error_retry_min(&self) -> Duration {
        let shortest = Duration::from_millis(100).min(self.error_retry_max);
        shortest.max(self.error_retry_max / 360)
    }
}

fn is_sweep_after(text: &str) -> bool {
    let allowed = Duration::from_hours(1)..=Duration::from_hours(10 * 365 * 24);
    time(text).is_some_and(|time| time.is_zero() || allowed.contains(&time))
}

//! The section `hot`: how the hot tier is used as a cache of the cold one.

use std::time::Duration;

use storage_model::DEADLINE_MAX;

use crate::entry::{Entry, Section, any, between};
use crate::value::Value;

/// How long data stays hot, and how misses, repeats and absence are handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotSettings {
    /// How long landed data stays in Redis after its last use. 1 s to 365 days. Default: 1 h.
    /// Unlanded data never expires (R2). A longer time costs memory, a shorter one costs loads from
    /// the database.
    pub clean_ttl: Duration,
    /// How long "there is no such owner" is remembered. 100 ms to 1 h. Default: 10 s. A write
    /// replaces the entry at once. Only rows that other programs put into the database appear this
    /// much later.
    pub absent_ttl: Duration,
    /// How long Redis remembers the number of an owner's last hash after the hash was made. 1 min to
    /// 365 days. Default: 1 h. Nothing depends on it: a load whose number is gone begins again. A
    /// longer time costs about 107 B for each owner that was hot. With
    /// [`trust_absent`](Self::trust_absent) the numbers stay for ever.
    pub marker_ttl: Duration,
    /// The shortest time between two reads that restart an owner's `clean_ttl`. 0 to 1 day and at
    /// most half of `clean_ttl`. Default: 1 min. It counts in whole seconds, and less than one
    /// counts as one.
    pub refresh_interval: Duration,
    /// How long a write may take, repeats included. 100 ms to 30 s. Default: 5 s. Until then a
    /// repeat is recognised and applied once (R11). Afterwards the server rejects a delayed copy.
    pub operation_deadline: Duration,
    /// The most rows of an owner that a miss loads. 1 to 1,000,000. Default: 4,096. A larger owner
    /// is loaded field by field, as calls name the fields. Each read of such a whole owner asks the
    /// database.
    pub load_rows_max: u32,
    /// The most bytes of an owner's rows that a miss loads. 64 KiB to 512 MiB. Default: 8 MiB. Redis
    /// needs about 9 ms for each MiB, and serves nobody meanwhile. A larger owner is loaded as one
    /// with too many rows. No session can hold it.
    pub load_bytes_max: u32,
    /// Whether an owner without exist marker does not exist (R8). Default: false, which asks the
    /// database. True saves that query for new owners. But after Redis lost its data, existing
    /// owners are served as absent. So use it only for data that Redis alone creates and never
    /// loses.
    pub trust_absent: bool,
    /// About how many bytes the memory of the embedded mode holds. 1 MiB to 1 TiB. Default: 256 MiB.
    /// Landed data above it goes, the least recently used first. If unlanded data alone fills it, writes
    /// wait and then fail. Redis has its own `maxmemory`.
    pub embedded_bytes_max: usize,
    /// How often the server's `maxmemory-policy` is checked. 1 s to 1 h. Default: 1 min. A policy
    /// that evicts unlanded data is reported this late at most.
    pub policy_check_interval: Duration,
}

impl HotSettings {
    /// How long the marker of a hash stays. `None` if it never goes, because its absence tells that
    /// the owner does not exist.
    #[must_use]
    pub fn hash_marker_ttl(&self) -> Option<Duration> {
        (!self.trust_absent).then_some(self.marker_ttl)
    }
}

impl Default for HotSettings {
    fn default() -> Self {
        Self {
            clean_ttl: Duration::from_hours(1),
            absent_ttl: Duration::from_secs(10),
            marker_ttl: Duration::from_hours(1),
            refresh_interval: Duration::from_mins(1),
            operation_deadline: Duration::from_secs(5),
            load_rows_max: 4_096,
            load_bytes_max: 8 << 20,
            trust_absent: false,
            embedded_bytes_max: 256 << 20,
            policy_check_interval: Duration::from_mins(1),
        }
    }
}

impl Section for HotSettings {
    fn entries(&mut self) -> Vec<Entry<'_>> {
        let day = Duration::from_hours(24);
        let tenth = Duration::from_millis(100);
        let (second, hour) = (Duration::from_secs(1), Duration::from_hours(1));
        vec![
            Entry::new(
                "clean_ttl",
                &mut self.clean_ttl,
                between(second, day.saturating_mul(365)),
            ),
            Entry::new("absent_ttl", &mut self.absent_ttl, between(tenth, hour)),
            Entry::new(
                "marker_ttl",
                &mut self.marker_ttl,
                between(Duration::from_mins(1), day.saturating_mul(365)),
            ),
            Entry::new(
                "refresh_interval",
                &mut self.refresh_interval,
                between(Duration::ZERO, day),
            ),
            Entry::new(
                "operation_deadline",
                &mut self.operation_deadline,
                between(tenth, DEADLINE_MAX),
            ),
            Entry::new(
                "load_rows_max",
                &mut self.load_rows_max,
                between(1, 1_000_000),
            ),
            Entry::new(
                "load_bytes_max",
                &mut self.load_bytes_max,
                between(64 << 10, 512 << 20),
            ),
            Entry::new("trust_absent", &mut self.trust_absent, any(bool::KIND)),
            Entry::new(
                "embedded_bytes_max",
                &mut self.embedded_bytes_max,
                between(1 << 20, 1 << 40),
            ),
            Entry::new(
                "policy_check_interval",
                &mut self.policy_check_interval,
                between(second, hour),
            ),
        ]
    }
}

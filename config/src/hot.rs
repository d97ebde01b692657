//! The section `hot`: how the hot tier is used as a cache of the cold one.

use crate::section::prelude::*;

section! {
    /// How long data stays hot, and how misses, repeats and absence are handled.
    HotSettings;

    /// How long landed data stays in Redis after its last use. 1 s to 365 days. Default: 1 h.
    /// Unlanded data never expires (R2). A longer time costs memory, a shorter one costs loads.
    clean_ttl: Duration as "crate::duration" = Duration::from_hours(1), Time("1s", "365days");
    /// How long "there is no such owner" is remembered. 100 ms to 1 h. Default: 10 s. A write
    /// replaces the entry at once. Only rows of other programs appear this much later.
    absent_ttl: Duration as "crate::duration" = Duration::from_secs(10), Time("100ms", "1h");
    /// How long Redis remembers the number of an owner's last hash after the hash was made. 1 min
    /// to 365 days. Default: 1 h. Nothing depends on it: a load whose number is gone begins again.
    /// A longer time costs about 107 B for each owner that was hot. With
    /// [`trust_absent`](Self::trust_absent) the numbers stay for ever.
    marker_ttl: Duration as "crate::duration" = Duration::from_hours(1), Time("1m", "365days");
    /// The shortest time between two reads that restart an owner's `clean_ttl`. 0 to 1 day, and at
    /// most half of `clean_ttl`. Default: 1 min. It counts in whole seconds, and less than one is
    /// one.
    refresh_interval: Duration as "crate::duration" = Duration::from_mins(1), Time("0s", "1day");
    /// How long a write may take, repeats included. 100 ms to 30 s. Default: 5 s. Until then a
    /// repeat is recognised and applied once (R11). Afterwards the server rejects a delayed copy.
    operation_deadline: Duration as "crate::duration" = Duration::from_secs(5), Time("100ms", "30s");
    /// The most rows of an owner that a miss loads. 1 to 1,000,000. Default: 4,096. A larger owner
    /// is loaded field by field, as calls name them. Each read of it as a whole asks the database.
    load_rows_max: u32 = 4_096, Number(1, 1_000_000);
    /// The most bytes of an owner's rows that a miss loads. 64 KiB to 512 MiB. Default: 8 MiB.
    /// Redis needs about 9 ms for each MiB, and serves nobody meanwhile. A larger owner is loaded
    /// as one with too many rows. No session can hold it.
    load_bytes_max: u32 = 8 << 20, Number(64 << 10, 512 << 20);
    /// Whether an owner without exist marker does not exist (R8). Default: false, which asks the
    /// database. True saves that query for new owners. But after Redis lost its data, existing
    /// owners are served as absent. So use it only for data that Redis alone creates and never
    /// loses.
    trust_absent: bool = false, Switch;
    /// About how many bytes the memory of the embedded mode holds. 1 MiB to 1 TiB. Default: 256
    /// MiB. Landed data above it goes, the least recently used first. If unlanded data alone fills
    /// it, writes wait and then fail. Redis has its own `maxmemory`.
    embedded_bytes_max: usize = 256 << 20, Number(1 << 20, 1 << 40);
    /// How often the server's `maxmemory-policy` is checked. 1 s to 1 h. Default: 1 min. A policy
    /// that evicts unlanded data is reported this late at most.
    policy_check_interval: Duration as "crate::duration" = Duration::from_mins(1), Time("1s", "1h");
}

impl HotSettings {
    /// How long the marker of a hash stays. `None` if it never goes, because its absence tells that
    /// the owner does not exist.
    #[must_use]
    pub fn hash_marker_ttl(&self) -> Option<Duration> {
        (!self.trust_absent).then_some(self.marker_ttl)
    }
}

#[cfg(test)]
mod tests {
    use storage_model::DEADLINE_MAX;

    use super::*;

    #[test]
    fn the_longest_deadline_of_the_settings_is_that_of_writes() {
        let mut settings = HotSettings {
            operation_deadline: DEADLINE_MAX,
            ..HotSettings::default()
        };
        assert!(check::section("hot", &settings).is_ok());
        settings.operation_deadline += Duration::from_millis(1);
        assert!(check::section("hot", &settings).is_err());
    }
}

//! The section `hot`: how the hot tier is used as a cache of the cold one.

use std::time::Duration;

use crate::entry::{Entry, Section, any, between};
use crate::value::Value;

/// How long data stays hot, and how misses, repeats and trust are handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotSettings {
    /// How long landed data stays in Redis after its last use. 1 s to 365 days. Default: 1 h.
    /// Unlanded data never expires (R2). Longer costs memory, shorter costs loads from the
    /// database.
    pub clean_ttl: Duration,
    /// How long "there is no such owner" is remembered. 100 ms to 1 h. Default: 10 s. A write
    /// replaces it at once; only rows that something else puts into the database are seen this much
    /// later.
    pub absent_ttl: Duration,
    /// How often at most one owner's `clean_ttl` is begun anew by reads. 0 to 1 day and at most
    /// half of `clean_ttl`. Default: 1 min. In whole seconds; less than one counts as one.
    pub touch_interval: Duration,
    /// How long a write may take, repeats included. 100 ms to 30 s. Default: 5 s. Until then a
    /// repeat is recognised and applied once (R11); from then on the server refuses a delayed copy.
    pub operation_deadline: Duration,
    /// How many rows of an owner a miss loads at most. 1 to 1,000,000. Default: 4,096. An owner
    /// with more is loaded field by field as named, and reading all of it asks the database.
    pub load_rows_max: u32,
    /// Whether an owner without exist marker does not exist (R8). Default: false, the database is
    /// asked. True saves that query for new owners, and serves existing ones as absent after Redis
    /// lost its data: only for data that Redis alone creates and never loses.
    pub trust_absent: bool,
    /// How often the server's `maxmemory-policy` is looked at again. 1 s to 1 h. Default: 1 min. A
    /// policy that evicts unlanded data is reported this late at most.
    pub policy_check_interval: Duration,
}

impl Default for HotSettings {
    fn default() -> Self {
        Self {
            clean_ttl: Duration::from_hours(1),
            absent_ttl: Duration::from_secs(10),
            touch_interval: Duration::from_mins(1),
            operation_deadline: Duration::from_secs(5),
            load_rows_max: 4_096,
            trust_absent: false,
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
                "touch_interval",
                &mut self.touch_interval,
                between(Duration::ZERO, day),
            ),
            Entry::new(
                "operation_deadline",
                &mut self.operation_deadline,
                between(tenth, Duration::from_secs(30)),
            ),
            Entry::new(
                "load_rows_max",
                &mut self.load_rows_max,
                between(1, 1_000_000),
            ),
            Entry::new("trust_absent", &mut self.trust_absent, any(bool::KIND)),
            Entry::new(
                "policy_check_interval",
                &mut self.policy_check_interval,
                between(second, hour),
            ),
        ]
    }
}

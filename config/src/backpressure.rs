//! The section `backpressure`: how writes slow down when landing can't keep up.

use std::time::Duration;

use crate::entry::{Entry, Section, between};

/// When writes are slowed down and when they fail, because too much data waits to be landed. Reads,
/// flushes and landing go on, and nothing is dropped.
///
/// Above a soft watermark each write waits, the longer the nearer the hard watermark is. At a hard
/// watermark writes fail as `Overloaded`. Each game server checks once an
/// [`interval`](Self::interval), so writes can exceed a watermark for that long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackpressureSettings {
    /// The number of owners with unlanded changes from which writes are slowed. Owners of all
    /// processes count, and so do owners with rejected rows. As many notes that have not landed slow
    /// writes, too. Default: 1,000,000. 0: never.
    pub soft_marks: u32,
    /// The number of such owners or notes from which writes fail. Default: 5,000,000, which take some 1 GB
    /// of Redis' memory beside the data. 0: never.
    pub hard_marks: u32,
    /// The age of the oldest unlanded mark from which writes are slowed. 0 to 7 days. Default: 0,
    /// never.
    pub soft_age: Duration,
    /// The age of the oldest unlanded mark from which writes fail. 0 to 7 days. Default: 0, never.
    /// Then game servers survive an outage of the database for as long as memory lasts.
    pub hard_age: Duration,
    /// The percentage of Redis' `maxmemory` from which writes are slowed. 0 to 100. Default: 80. 0:
    /// never. Without a `maxmemory` the setting has no effect. If `maxmemory-policy` is one of
    /// `volatile-*`, it counts only while Redis rejects commands for lack of memory and evicts
    /// nothing.
    pub soft_memory: u32,
    /// The percentage of `maxmemory` from which writes fail. 0 to 100. Default: 95. 0: never. Then
    /// Redis itself rejects writes when it is full.
    pub hard_memory: u32,
    /// How long a write waits just below a hard watermark. It waits at most half of its own
    /// deadline. 0 to 10 s. Default: 100 ms.
    pub delay_max: Duration,
    /// How often each game server checks the watermarks. 10 ms to 1 min. Default: 2 s. A check
    /// costs Redis five small commands a partition.
    pub interval: Duration,
}

impl BackpressureSettings {
    /// Whether any watermark is set.
    #[must_use]
    pub fn is_on(&self) -> bool {
        let numbers = [
            self.soft_marks,
            self.hard_marks,
            self.soft_memory,
            self.hard_memory,
        ];
        numbers.iter().any(|number| *number > 0)
            || !self.soft_age.is_zero()
            || !self.hard_age.is_zero()
    }
}

impl Default for BackpressureSettings {
    fn default() -> Self {
        Self {
            soft_marks: 1_000_000,
            hard_marks: 5_000_000,
            soft_age: Duration::ZERO,
            hard_age: Duration::ZERO,
            soft_memory: 80,
            hard_memory: 95,
            delay_max: Duration::from_millis(100),
            interval: Duration::from_secs(2),
        }
    }
}

impl Section for BackpressureSettings {
    fn entries(&mut self) -> Vec<Entry<'_>> {
        let week = Duration::from_hours(7 * 24);
        vec![
            Entry::new("soft_marks", &mut self.soft_marks, between(0, u32::MAX)),
            Entry::new("hard_marks", &mut self.hard_marks, between(0, u32::MAX)),
            Entry::new(
                "soft_age",
                &mut self.soft_age,
                between(Duration::ZERO, week),
            ),
            Entry::new(
                "hard_age",
                &mut self.hard_age,
                between(Duration::ZERO, week),
            ),
            Entry::new("soft_memory", &mut self.soft_memory, between(0, 100)),
            Entry::new("hard_memory", &mut self.hard_memory, between(0, 100)),
            Entry::new(
                "delay_max",
                &mut self.delay_max,
                between(Duration::ZERO, Duration::from_secs(10)),
            ),
            Entry::new(
                "interval",
                &mut self.interval,
                between(Duration::from_millis(10), Duration::from_mins(1)),
            ),
        ]
    }
}

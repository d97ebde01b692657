//! The section `backpressure`: how writes slow down when landing can't keep up.

use crate::section::prelude::*;

section! {
    /// When writes are slowed down and when they fail, because too much data waits to be landed.
    /// Reads, flushes and landing go on, and nothing is dropped.
    ///
    /// Above a soft watermark each write waits, the longer the nearer the hard watermark is. At a
    /// hard watermark writes fail as `Overloaded`. Each game server checks once an
    /// [`interval`](Self::interval), so writes can exceed a watermark for that long.
    BackpressureSettings;

    /// The number of owners with unlanded changes from which writes are slowed. Owners of all
    /// processes count, and so do owners with rejected rows. As many notes that have not landed
    /// slow writes, too. Default: 1,000,000. 0: never.
    soft_marks: u32 = 1_000_000, Number(0, 0xffff_ffff);
    /// The number of such owners or notes from which writes fail. Default: 5,000,000, which take
    /// some 1 GB of Redis' memory beside the data. 0: never.
    hard_marks: u32 = 5_000_000, Number(0, 0xffff_ffff);
    /// The age of the oldest unlanded mark from which writes are slowed. 0, never, to 7 days.
    /// Default: 0.
    soft_age: Duration as "crate::duration" = Duration::ZERO, Time("0s", "7days");
    /// The age of the oldest unlanded mark from which writes fail. 0 to 7 days. Default: 0, never.
    /// Then game servers survive an outage of the database for as long as memory lasts.
    hard_age: Duration as "crate::duration" = Duration::ZERO, Time("0s", "7days");
    /// The percentage of Redis' `maxmemory` from which writes are slowed. 0, never, to 100.
    /// Default: 80. If `maxmemory-policy` is one of `volatile-*`, it counts only while Redis
    /// rejects commands for lack of memory and evicts nothing.
    soft_memory: u32 = 80, Number(0, 100);
    /// The percentage of `maxmemory` from which writes fail. 0 to 100. Default: 95. 0: never. Then
    /// Redis itself rejects writes when it is full.
    hard_memory: u32 = 95, Number(0, 100);
    /// How long a write waits just below a hard watermark. It waits at most half of its own
    /// deadline. 0 to 10 s. Default: 100 ms.
    delay_max: Duration as "crate::duration" = Duration::from_millis(100), Time("0s", "10s");
    /// How often each game server checks the watermarks. 10 ms to 1 min. Default: 2 s. A check
    /// costs Redis five small commands a partition.
    interval: Duration as "crate::duration" = Duration::from_secs(2), Time("10ms", "1m");
}

impl BackpressureSettings {
    /// Whether any watermark is set.
    #[must_use]
    pub fn is_on(&self) -> bool {
        let Self {
            soft_marks,
            hard_marks,
            soft_memory,
            hard_memory,
            ..
        } = self;
        [soft_marks, hard_marks, soft_memory, hard_memory]
            .iter()
            .any(|mark| **mark > 0)
            || !self.soft_age.is_zero()
            || !self.hard_age.is_zero()
    }

    /// A hard watermark of 0 is off, so it lies above any soft one.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        check::section("backpressure", self)?;
        let Self {
            hard_marks,
            hard_age,
            hard_memory,
            ..
        } = self;
        let fits = *hard_marks == 0 || self.soft_marks <= *hard_marks;
        let expected = format!("at most backpressure.hard_marks, {hard_marks}");
        ensure(fits, self, "backpressure.soft_marks", &expected)?;
        let fits = hard_age.is_zero() || self.soft_age <= *hard_age;
        let shown = humantime::format_duration(*hard_age);
        let expected = format!("at most backpressure.hard_age, \"{shown}\"");
        ensure(fits, self, "backpressure.soft_age", &expected)?;
        let fits = *hard_memory == 0 || self.soft_memory <= *hard_memory;
        let expected = format!("at most backpressure.hard_memory, {hard_memory}");
        ensure(fits, self, "backpressure.soft_memory", &expected)
    }
}

//! The result of a run.

use std::fmt;

use storage_tests::torture::oracle::Flaw;

use super::history::{Asked, End};
use super::torment::Torment;

/// The answers to all changes.
#[derive(Debug, Clone, Copy)]
pub struct Counts {
    acknowledged: usize,
    not_applied: usize,
    unknown: usize,
}

impl Counts {
    /// Those of a history.
    #[must_use]
    pub fn of(asked: &[Asked]) -> Self {
        let ends = |is: fn(&End) -> bool| asked.iter().filter(|asked| is(&asked.end)).count();
        Self {
            acknowledged: ends(|end| matches!(end, End::Acked { .. })),
            not_applied: ends(|end| matches!(end, End::NotApplied)),
            unknown: ends(|end| matches!(end, End::Unknown)),
        }
    }
}

/// The result of a run.
#[derive(Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// The seconds for which faults were injected.
    pub seconds: u64,
    /// The answers to changes.
    pub counts: Counts,
    /// The reads and lists that were compared with what must be there.
    pub reads: u64,
    /// The repeats of an outbox that were compared with the first answers.
    pub repeats: u64,
    /// The events of the landed feed.
    pub events: usize,
    /// The events of the live feed, heard by all followers.
    pub heard: usize,
    /// The times that a follower came back and was told what it had missed, or the next changes.
    pub caught_up: usize,
    /// The calls that found the receiver of the sink away.
    pub sink_away: u64,
    /// The faults.
    pub torment: Torment,
    /// What is wrong.
    pub flaws: Vec<Flaw>,
}

impl Report {
    /// Whether nothing is wrong, each planned fault happened, and something was done.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let is_right = self.flaws.is_empty() && self.torment.missed.is_empty();
        let was_played = self.counts.acknowledged > 0 && self.reads > 0 && self.repeats > 0;
        // A gateway that always tells followers to read again would hide each change that is missing.
        is_right && was_played && self.caught_up > 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.is_good() { "good" } else { "**BAD**" };
        writeln!(f, "seed {}, {} s: {verdict}\n", self.seed, self.seconds)?;
        for (what, count) in [
            ("acknowledged changes", self.counts.acknowledged),
            ("changes that were not made", self.counts.not_applied),
            ("changes of unknown outcome", self.counts.unknown),
            ("events of the landed feed", self.events),
            (
                "events of the live feed, heard by all followers",
                self.heard,
            ),
            ("returns of followers without a reset", self.caught_up),
        ] {
            writeln!(f, "- {what}: {count}")?;
        }
        for (what, count) in [
            ("reads and lists compared", self.reads),
            ("repeats of outboxes compared", self.repeats),
            ("kills of gateways", self.torment.gate_kills),
            ("calls that found the sink's receiver away", self.sink_away),
        ] {
            writeln!(f, "- {what}: {count}")?;
        }
        let faults = self.torment.faults.iter().filter(|fault| fault.times > 0);
        let faults: Vec<String> = faults
            .map(|fault| format!("{} {}", fault.fault, fault.times))
            .collect();
        writeln!(f, "- faults: {}", faults.join(", "))?;
        for missed in &self.torment.missed {
            writeln!(f, "- planned, and never happened: {missed}")?;
        }
        writeln!(f, "- flaws: {}", self.flaws.len())?;
        for flaw in self.flaws.iter().take(20) {
            writeln!(f, "  - {} {}: {}", flaw.check, flaw.name, flaw.detail)?;
        }
        Ok(())
    }
}

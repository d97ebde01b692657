//! The result of a run.

use std::fmt;

use storage_tests::torture::oracle::Flaw;

use super::crowd::Tallies;
use super::honest::Fared;

/// The result of a run.
#[derive(Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// The clients that did harm.
    pub tallies: Tallies,
    /// The honest ones.
    pub honest: Fared,
    /// The changes that followers heard.
    pub heard: u32,
    /// The times that followers were told to read again.
    pub resets: u32,
    /// The greatest memory of the gateway in KiB, and that before the clients came.
    pub memory: (u64, u64),
    /// What is wrong, beside what honest clients found.
    pub flaws: Vec<Flaw>,
}

impl Report {
    /// Whether nothing is wrong, and something was done.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let is_right = self.flaws.is_empty() && self.honest.flaws.is_empty();
        is_right && self.honest.requests > 0 && self.heard > 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.is_good() { "good" } else { "**BAD**" };
        writeln!(f, "edge, seed {}: {verdict}\n", self.seed)?;
        writeln!(
            f,
            "| clients | connections | refused | ended by the gateway |"
        )?;
        writeln!(f, "| --- | --- | --- | --- |")?;
        for (kind, tally) in &self.tallies {
            writeln!(
                f,
                "| {} | {} | {} | {} |",
                kind.name(),
                tally.opened,
                tally.refused,
                tally.ended
            )?;
        }
        let (most, before) = self.memory;
        writeln!(f)?;
        for (what, count) in [
            ("honest requests that were answered", self.honest.requests),
            ("answers that asked for another try", self.honest.busy),
            ("tries that were cut", self.honest.cut),
            ("changes that followers heard", self.heard),
            ("resets of followers", self.resets),
        ] {
            writeln!(f, "- {what}: {count}")?;
        }
        writeln!(f, "- slowest honest answer: {:?}", self.honest.slowest)?;
        writeln!(
            f,
            "- memory of the gateway: {most} KiB at most, {before} KiB before"
        )?;
        let flaws: Vec<&Flaw> = self.flaws.iter().chain(&self.honest.flaws).collect();
        writeln!(f, "- flaws: {}", flaws.len())?;
        for flaw in flaws.iter().take(20) {
            writeln!(f, "  - {} {}: {}", flaw.check, flaw.name, flaw.detail)?;
        }
        Ok(())
    }
}

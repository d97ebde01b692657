//! The result of a run.

use std::fmt;

use storage_tests::torture::oracle::Flaw;

use super::crowd::Tallies;
use super::honest::Fared;
use super::listener::Heard;

/// The result of a run.
#[derive(Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// The clients that did harm.
    pub tallies: Tallies,
    /// The honest ones that write.
    pub honest: Fared,
    /// The changes that each follower heard.
    pub heard: Vec<Heard>,
    /// The greatest memory of the gateway in KiB, and that before the clients came.
    pub memory: (u64, u64),
    /// What is wrong, beside what all these clients found.
    pub flaws: Vec<Flaw>,
}

impl Report {
    /// Whether nothing is wrong, and something was done.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let is_right = self.flaws().is_empty();
        is_right && self.honest.requests > 0 && self.sum(|heard| heard.changes) > 0
    }

    fn sum(&self, of: impl Fn(&Heard) -> u32) -> u32 {
        self.heard.iter().map(of).sum()
    }

    /// All that is wrong.
    fn flaws(&self) -> Vec<Flaw> {
        let mut flaws = self.flaws.clone();
        flaws.extend(self.honest.flaws.iter().cloned());
        flaws.extend(self.heard.iter().flat_map(|heard| heard.flaws.clone()));
        for (kind, tally) in self.tallies.iter().filter(|(_, tally)| tally.kept > 0) {
            let detail = format!("{} outlasted the idle time by far", tally.kept);
            flaws.push(Flaw::new("idle", kind.name(), detail));
        }
        flaws
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
        let cut = self.honest.cut + self.sum(|heard| heard.cut);
        for (what, count) in [
            ("honest requests that were answered", self.honest.requests),
            ("answers that asked for another try", self.honest.busy),
            ("tries that were cut as they may be", cut),
            (
                "changes that followers heard",
                self.sum(|heard| heard.changes),
            ),
            ("resets of followers", self.sum(|heard| heard.resets)),
        ] {
            writeln!(f, "- {what}: {count}")?;
        }
        writeln!(f, "- slowest honest answer: {:?}", self.honest.slowest)?;
        writeln!(
            f,
            "- memory of the gateway: {most} KiB at most, {before} KiB before"
        )?;
        let flaws = self.flaws();
        writeln!(f, "- flaws: {}", flaws.len())?;
        for flaw in flaws.iter().take(20) {
            writeln!(f, "  - {} {}: {}", flaw.check, flaw.name, flaw.detail)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::crowd::Tally;
    use crate::edge::kind::Kind;

    fn good() -> Report {
        let honest = Fared {
            requests: 1,
            ..Fared::default()
        };
        let mut heard = Heard::default();
        heard.changes = 1;
        Report {
            seed: 1,
            tallies: Tallies::new(),
            honest,
            heard: vec![heard],
            memory: (0, 0),
            flaws: Vec::new(),
        }
    }

    fn is_good(breaks: impl FnOnce(&mut Report)) -> bool {
        let mut report = good();
        breaks(&mut report);
        report.is_good()
    }

    #[test]
    fn a_flaw_of_any_client_makes_a_report_bad() {
        assert!(is_good(|_| {}));
        assert!(!is_good(|report| report.honest.requests = 0));
        assert!(!is_good(|report| report.heard.clear()));
        let flaw = Flaw::new("cuts", "", "");
        assert!(!is_good(|report| report.flaws.push(flaw.clone())));
        assert!(!is_good(|report| report.honest.flaws.push(flaw.clone())));
        assert!(!is_good(|report| report.heard[0].flaws.push(flaw.clone())));
        let tally = Tally {
            kept: 1,
            ..Tally::default()
        };
        assert!(!is_good(|report| {
            report.tallies.insert(Kind::Silent, tally);
        }));
    }
}

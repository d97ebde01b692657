//! The results of a run, as a table and as JSON.

use std::fmt;

use serde::Serialize;

use super::case::{Goal, Judged};
use super::commands::Cost;
use super::machine::Machine;
use super::measured::{Judgement, Measured, Summary, Verdict};
use super::scale::Scale;
use super::sweep::Sweep;

/// The results of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The command that made it.
    pub command: String,
    /// The scale of the run.
    pub scale: Scale,
    /// The machine.
    pub machine: Machine,
    /// The cases, in their order.
    pub cases: Vec<Measured>,
    /// The cases and charts that could not be measured.
    pub failed: Vec<Failed>,
    /// Charts, if they were asked for.
    pub sweeps: Vec<Sweep>,
    /// The cost of single commands for Redis, if it was asked for with the charts.
    pub commands: Vec<Cost>,
    /// The time of the run.
    pub seconds: f64,
}

/// A case or a chart that could not be measured.
#[derive(Debug, Clone, Serialize)]
pub struct Failed {
    /// Its name.
    pub name: String,
    /// The reason, with its causes.
    pub why: String,
}

/// A figure with its significant digits.
#[must_use]
pub fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 10_000.0 => format!("{:.0}k", value / 1e3),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.01 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.5}"),
    }
}

/// A ratio with its significant digits.
#[must_use]
pub fn ratio(value: f64) -> String {
    if value.abs() < 0.01 {
        format!("{value:.5}")
    } else {
        format!("{value:.2}")
    }
}

impl Report {
    /// The number of goals that were met, and of all goals. A case that could not be measured missed its goal.
    #[must_use]
    pub fn goals(&self) -> (usize, usize) {
        let verdicts = || self.cases.iter().filter_map(Measured::verdict);
        let met = verdicts().filter(|&verdict| verdict != Verdict::NotMet);
        (met.count(), verdicts().count() + self.failed.len())
    }
}

impl Verdict {
    /// In words.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::NotMet => "not met",
            Self::Met => "met",
            Self::AimMet => "met, aim too",
        }
    }
}

impl Goal {
    /// The value that must be reached and the aim, in words.
    #[must_use]
    pub fn text(&self, unit: &str) -> String {
        let (must, aim) = (ratio(self.must), ratio(self.aim));
        match self.judged {
            Judged::RatioAtLeast => format!("≥ {must}, aim {aim}"),
            Judged::RatioAtMost => format!("≤ {must}, aim {aim}"),
            Judged::OursAtMost => {
                format!("≤ {}, aim {} {unit}", figure(self.must), figure(self.aim))
            }
            Judged::ExcessAtMost => {
                format!("≤ +{}, aim +{} {unit}", figure(self.must), figure(self.aim))
            }
        }
    }
}

impl Summary {
    /// p50 and p99, in microseconds.
    #[must_use]
    pub fn latency(&self) -> String {
        match (self.p50_micros, self.p99_micros) {
            (Some(p50), Some(p99)) => format!("{}/{}", figure(p50), figure(p99)),
            _ => "–".to_owned(),
        }
    }

    /// CPU time of client, gateway if there is one, Redis and database, in microseconds.
    #[must_use]
    pub fn cpu(&self) -> String {
        let cpu = &self.cpu_micros;
        let gateway = Some(cpu.gateway).filter(|&micros| micros > 0.0);
        let parts = [
            Some(cpu.client),
            gateway,
            Some(cpu.redis),
            Some(cpu.mariadb),
        ];
        parts
            .into_iter()
            .flatten()
            .map(figure)
            .collect::<Vec<_>>()
            .join("/")
    }
}

impl Measured {
    /// Whether the goal was reached, if the case has one.
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        self.judgement.map(|judgement| judgement.verdict)
    }

    /// The verdict in words.
    #[must_use]
    pub fn verdict_text(&self) -> &'static str {
        self.verdict().map_or("no goal", Verdict::text)
    }

    /// The goal in words.
    #[must_use]
    pub fn goal_text(&self) -> String {
        match self.judgement {
            Some(Judgement { goal, .. }) => goal.text(self.unit),
            None => "–".to_owned(),
        }
    }

    /// The ratio's median and range.
    #[must_use]
    pub fn ratio_text(&self) -> String {
        format!(
            "{} ({}–{})",
            ratio(self.ratio.median),
            ratio(self.ratio.least),
            ratio(self.ratio.greatest)
        )
    }

    /// A remark about the certainty of the figures.
    #[must_use]
    pub fn remark(&self) -> String {
        let repeated = (self.rounds > 1).then(|| format!("measured {} times", self.rounds));
        let disturbed = self.disturbed().map(|why| format!("disturbed: {why}"));
        repeated
            .into_iter()
            .chain(disturbed)
            .collect::<Vec<_>>()
            .join("; ")
    }
}

/// A case as two lines: first the figures, then their circumstances.
impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            unit,
            ours,
            baseline,
            ..
        } = self;
        let (own, other) = (figure(ours.figure.median), figure(baseline.figure.median));
        let (goal, verdict) = (self.goal_text(), self.verdict_text());
        writeln!(
            f,
            "{name:<22} {own:>8} : {other:>8} {unit:<16} {:<22} {goal:<22} {verdict}",
            self.ratio_text()
        )?;
        writeln!(f, "{:22} ours: {}", "", self.what_ours_does)?;
        writeln!(f, "{:22} baseline: {}", "", self.what_baseline_does)?;
        let (latency, cpu) = (
            [ours.latency(), baseline.latency()],
            [ours.cpu(), baseline.cpu()],
        );
        write!(
            f,
            "{:22} p50/p99 µs {} : {}; CPU µs each, client/[gateway/]redis/database ",
            "", latency[0], latency[1]
        )?;
        write!(f, "{} : {}", cpu[0], cpu[1])?;
        let remark = self.remark();
        if remark.is_empty() {
            Ok(())
        } else {
            write!(f, "\n{:22} {remark}", "")
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.machine)?;
        writeln!(
            f,
            "{:<22} {:>8} : {:>8} {:<16} {:<22} {:<22}",
            "case", "ours", "baseline", "", "ratio (range)", "goal"
        )?;
        for case in &self.cases {
            writeln!(f, "{case}")?;
        }
        for Failed { name, why } in &self.failed {
            writeln!(f, "{name:<22} FAILED: {why}")?;
        }
        let (met, goals) = self.goals();
        let disturbed = self
            .cases
            .iter()
            .filter(|case| case.disturbed().is_some())
            .count();
        let seconds = self.seconds;
        write!(
            f,
            "{met} of {goals} goals met, {disturbed} cases disturbed by other load, {seconds:.0} s"
        )
    }
}

//! What many seeds did together.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use super::chance::Hits;
use super::fault::Fault;
use super::oracle::book::Counts;
use super::run::Report;

/// From seed 0 on, so many plan each fault for certain three times over: with all of them played, a fault that never hit does not work.
pub const SEEDS_FOR_ALL: u64 = 3 * Fault::ALL.len() as u64;

/// What seeds did.
#[derive(Debug, Default)]
pub struct Summary {
    /// How many there were.
    pub seeds: u64,
    events: u64,
    counts: Counts,
    hits: Hits,
    /// What was wrong, by seed.
    pub violations: BTreeMap<u64, String>,
}

impl Summary {
    /// Adds a seed.
    pub fn add(&mut self, report: Report) {
        self.seeds += 1;
        self.events += report.events;
        self.counts.add(&report.counts);
        for (hit, count) in report.hits {
            *self.hits.entry(hit).or_default() += count;
        }
        if let Some(violation) = report.violation {
            self.violations.insert(report.seed, violation);
        }
    }

    /// Adds what other seeds did.
    pub fn join(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.events += other.events;
        self.counts.add(&other.counts);
        for (hit, count) in other.hits {
            *self.hits.entry(hit).or_default() += count;
        }
        self.violations.extend(other.violations);
    }

    /// Faults that never hit, though there were enough seeds for each: a nemesis that does nothing finds nothing.
    #[must_use]
    pub fn unhit(&self) -> Vec<Fault> {
        let hit: BTreeSet<Fault> = self.hits.keys().map(|(fault, _)| *fault).collect();
        let all = Fault::ALL.iter().copied().filter(|fault| !hit.contains(fault));
        if self.seeds < SEEDS_FOR_ALL { Vec::new() } else { all.collect() }
    }

    /// The same as a part of a page in Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let Counts { applied, rows, acknowledged, denied, unknown, reads } = self.counts;
        let mut faults: BTreeMap<Fault, u64> = BTreeMap::new();
        for ((fault, _), count) in &self.hits {
            *faults.entry(*fault).or_default() += count;
        }
        let total: u64 = faults.values().sum();
        let faults: Vec<String> = faults.iter().map(|(fault, count)| format!("{fault} {count}")).collect();
        let mut page = format!(
            "| schedules | violations | mutations applied | acknowledged | denied | unknown | reads checked | rows committed | faults |\n\
             | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n\
             | {} | {} | {applied} | {acknowledged} | {denied} | {unknown} | {reads} | {rows} | {total} |\n\n- Faults: {}.\n",
            self.seeds,
            self.violations.len(),
            faults.join(", "),
        );
        for (seed, violation) in &self.violations {
            page.push_str(&format!("- **Seed {seed}**: {}\n", violation.lines().next().unwrap_or_default()));
        }
        page
    }

    /// How many seeds went by in a second of this time.
    #[must_use]
    pub fn rate(&self, time: Duration) -> String {
        format!("{} seeds in {:.1} s, {:.1} a second", self.seeds, time.as_secs_f64(), {
            #[expect(clippy::cast_precision_loss, reason = "a figure to look at")]
            let seeds = self.seeds as f64;
            seeds / time.as_secs_f64()
        })
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { applied, rows, acknowledged, denied, unknown, reads } = self.counts;
        writeln!(f, "{} events; {applied} mutations applied, {rows} rows committed", self.events)?;
        writeln!(f, "{acknowledged} writes acknowledged, {denied} denied, {unknown} unknown; {reads} reads checked")?;
        let mut table: BTreeMap<Fault, Vec<String>> = BTreeMap::new();
        for ((fault, point), count) in &self.hits {
            table.entry(*fault).or_default().push(format!("{point} {count}"));
        }
        let cells: usize = table.values().map(Vec::len).sum();
        writeln!(f, "{cells} cells of fault × point were hit:")?;
        table.iter().try_for_each(|(fault, points)| writeln!(f, "  {fault}: {}", points.join(", ")))
    }
}

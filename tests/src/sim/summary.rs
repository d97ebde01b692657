//! The result of many seeds together.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use super::chance::Hits;
use super::fault::Fault;
use super::oracle::book::Counts;
use super::run::Report;

/// The number of seeds, from seed 0 on, that plan each fault for certain once. If a fault never hit
/// in all of them, it does not work.
pub const SEEDS_FOR_ALL: u64 = Fault::ALL.len() as u64;

/// The cells of fault × point, and the number of 10,000 schedules that hit each.
/// `simulate --count 10000 --cells FILE` writes it.
const CELLS: &str = include_str!("../../fixtures/cells.txt");
/// The number of schedules behind the file.
const CELLS_OF: u64 = 10_000;
/// If this many schedules should have hit a cell and none did, the cell does not work. By chance
/// that happens in one of 10⁸ runs.
const EXPECTED: u64 = 20;

/// The results of seeds.
#[derive(Debug, Default)]
pub struct Summary {
    /// The number of seeds.
    pub seeds: u64,
    events: u64,
    counts: Counts,
    hits: Hits,
    /// The number of schedules that hit each cell.
    schedules: Hits,
    /// The violations, by seed.
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
            *self.schedules.entry(hit).or_default() += 1;
        }
        if let Some(violation) = report.violation {
            self.violations.insert(report.seed, violation);
        }
    }

    /// Adds the results of other seeds.
    pub fn join(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.events += other.events;
        self.counts.add(&other.counts);
        for (hit, count) in other.hits {
            *self.hits.entry(hit).or_default() += count;
        }
        for (hit, count) in other.schedules {
            *self.schedules.entry(hit).or_default() += count;
        }
        self.violations.extend(other.violations);
    }

    /// Faults that never hit although there were enough seeds for each. A nemesis that does nothing
    /// finds nothing.
    #[must_use]
    pub fn unhit(&self) -> Vec<Fault> {
        let hit: BTreeSet<Fault> = self.hits.keys().map(|(fault, _)| *fault).collect();
        let all = Fault::ALL
            .iter()
            .copied()
            .filter(|fault| !hit.contains(fault));
        if self.seeds < SEEDS_FOR_ALL {
            Vec::new()
        } else {
            all.collect()
        }
    }

    /// Cells of fault × point that were not hit although there were enough schedules for each.
    ///
    /// # Panics
    /// The list of cells can't be read.
    #[must_use]
    pub fn unhit_cells(&self) -> Vec<&'static str> {
        let hit: BTreeSet<String> = self
            .schedules
            .keys()
            .map(|(fault, point)| format!("{fault} {point}"))
            .collect();
        let required = required(CELLS, self.seeds);
        required
            .into_iter()
            .filter(|cell| !hit.contains(*cell))
            .collect()
    }

    /// The list of cells, as [`Summary::unhit_cells`] reads it.
    #[must_use]
    pub fn cells(&self) -> String {
        let line =
            |((fault, point), count): (&(Fault, &str), &u64)| format!("{fault} {point} {count}\n");
        self.schedules.iter().map(line).collect()
    }

    /// The same result as a part of a page in Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let Counts {
            applied,
            rows,
            acknowledged,
            denied,
            unknown,
            reads,
        } = self.counts;
        let mut faults: BTreeMap<Fault, u64> = BTreeMap::new();
        for ((fault, _), count) in &self.hits {
            *faults.entry(*fault).or_default() += count;
        }
        let total: u64 = faults.values().sum();
        let faults: Vec<String> = faults
            .iter()
            .map(|(fault, count)| format!("{fault} {count}"))
            .collect();
        let mut page = format!(
            "| schedules | violations | mutations applied | acknowledged | denied | unknown | reads checked | rows committed | faults |\n\
             | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n\
             | {} | {} | {applied} | {acknowledged} | {denied} | {unknown} | {reads} | {rows} | {total} |\n\n- Faults: {}.\n",
            self.seeds,
            self.violations.len(),
            faults.join(", "),
        );
        for (seed, violation) in &self.violations {
            page.push_str(&format!(
                "- **Seed {seed}**: {}\n",
                violation.lines().next().unwrap_or_default()
            ));
        }
        page
    }

    /// The rate of seeds per second of this time.
    #[must_use]
    pub fn rate(&self, time: Duration) -> String {
        format!(
            "{} seeds in {:.1} s, {:.1} a second",
            self.seeds,
            time.as_secs_f64(),
            {
                #[expect(clippy::cast_precision_loss, reason = "a figure to look at")]
                let seeds = self.seeds as f64;
                seeds / time.as_secs_f64()
            }
        )
    }
}

/// The cells of a list that this number of schedules must have hit.
#[expect(clippy::panic, reason = "a list that can't be read requires nothing")]
fn required(cells: &str, schedules: u64) -> Vec<&str> {
    let cell = |line| match str::rsplit_once(line, ' ')
        .map(|(cell, count)| (cell, count.parse::<u64>()))
    {
        Some((cell, Ok(count))) => (count * schedules / CELLS_OF >= EXPECTED).then_some(cell),
        _ => panic!("no cell: {line:?}"),
    };
    cells.lines().filter_map(cell).collect()
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts {
            applied,
            rows,
            acknowledged,
            denied,
            unknown,
            reads,
        } = self.counts;
        writeln!(
            f,
            "{} events; {applied} mutations applied, {rows} rows committed",
            self.events
        )?;
        writeln!(
            f,
            "{acknowledged} writes acknowledged, {denied} denied, {unknown} unknown; {reads} reads checked"
        )?;
        let mut table: BTreeMap<Fault, Vec<String>> = BTreeMap::new();
        for ((fault, point), count) in &self.hits {
            table
                .entry(*fault)
                .or_default()
                .push(format!("{point} {count}"));
        }
        let (cells, required) = (self.schedules.len(), required(CELLS, self.seeds).len());
        writeln!(
            f,
            "{cells} cells of fault × point were hit; {required} had to be:"
        )?;
        table
            .iter()
            .try_for_each(|(fault, points)| writeln!(f, "  {fault}: {}", points.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_must_be_hit_once_there_are_enough_schedules_for_it() {
        let cells = "ReplyLost update 200\nReplyLost land 20\n";
        assert_eq!(required(cells, 10), Vec::<&str>::new());
        assert_eq!(required(cells, 1_000), ["ReplyLost update"]);
        assert_eq!(
            required(cells, 10_000),
            ["ReplyLost update", "ReplyLost land"]
        );
    }

    #[test]
    fn what_was_never_hit_is_named() {
        let enough = Summary {
            seeds: CELLS_OF,
            ..Summary::default()
        };
        assert_eq!(enough.unhit_cells(), required(CELLS, CELLS_OF));
        assert!(enough.unhit_cells().len() > 500);
        assert!(
            Summary {
                seeds: 1,
                ..Summary::default()
            }
            .unhit_cells()
            .is_empty()
        );
    }
}

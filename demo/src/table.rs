//! The table at the end.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::game::{GAME_SERVERS, Plan, Played};
use crate::verify::Comparison;

/// The number of differences that are listed. The others are only counted.
const LISTED_MAX: usize = 10;

/// The result of a demo. `Display` prints it.
#[derive(Debug)]
pub struct Table {
    lines: Vec<(&'static str, String)>,
    listed: Vec<String>,
    agrees: bool,
}

/// Figures of a run that only the demo itself knows.
#[derive(Debug)]
pub struct Run {
    /// Rows written to the database.
    pub rows_landed: u64,
    /// Owners that were loaded during the play.
    pub loads_in_play: u64,
    /// Lines for one kind of demo only, before the differences.
    pub more: Vec<(&'static str, String)>,
    /// Lines after the differences.
    pub end: Vec<(&'static str, String)>,
}

impl Table {
    /// Builds the table of a run.
    #[must_use]
    pub fn new(plan: Plan, played: &Played, compared: &Comparison, run: Run) -> Self {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let totals = &played.totals;
        let (writes, fields) = (of(&totals.writes), of(&totals.fields));
        let mut lines = vec![
            (
                "players",
                format!(
                    "{} on {GAME_SERVERS} game servers, for {}, seed {}",
                    grouped(plan.players.into()),
                    seconds(played.time),
                    plan.seed
                ),
            ),
            (
                "logins, logouts",
                format!(
                    "{}, {}",
                    grouped(of(&totals.logins)),
                    grouped(of(&totals.logouts))
                ),
            ),
            (
                "writes acknowledged",
                format!("{}, of {} fields", grouped(writes), grouped(fields)),
            ),
            ("rows landed", grouped(run.rows_landed)),
            (
                "coalescing ratio",
                format!(
                    "{} fields written for a row landed",
                    ratio(fields, run.rows_landed)
                ),
            ),
            (
                "oldest unlanded age",
                format!("{} at its worst", seconds(played.oldest_unlanded)),
            ),
            (
                "hot loads",
                format!(
                    "{} after the eviction, {} at logins",
                    grouped(compared.hot_loads),
                    grouped(run.loads_in_play)
                ),
            ),
        ];
        let repeats = of(&totals.repeats);
        if repeats > 0 {
            lines.push((
                "writes repeated",
                format!("{} under the same id", grouped(repeats)),
            ));
        }
        lines.extend(run.more);
        lines.push((
            "compared",
            format!(
                "{} fields: players' log, rows by SQL, hot-loads",
                grouped(count(compared.fields))
            ),
        ));
        lines.push(("differences", grouped(count(compared.differences.len()))));
        lines.extend(run.end);
        Self {
            lines,
            listed: listed(compared),
            agrees: compared.differences.is_empty(),
        }
    }

    /// Whether log, rows and hot-loads agree on every field.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.agrees
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self
            .lines
            .iter()
            .map(|(name, _)| name.chars().count())
            .max()
            .unwrap_or_default();
        for (name, value) in &self.lines {
            writeln!(f, "{name:<width$}  {value}")?;
        }
        self.listed
            .iter()
            .try_for_each(|line| writeln!(f, "{line}"))
    }
}

fn listed(compared: &Comparison) -> Vec<String> {
    let differences = &compared.differences;
    let mut lines: Vec<String> = differences
        .iter()
        .take(LISTED_MAX)
        .map(|difference| format!("  {difference}"))
        .collect();
    if differences.len() > LISTED_MAX {
        lines.push(format!(
            "  and {} more",
            grouped(count(differences.len() - LISTED_MAX))
        ));
    }
    lines
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

/// A number with its thousands apart: 12,345.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A quotient to one decimal, rounded down. It is "-" if the divisor is 0.
fn ratio(above: u64, below: u64) -> String {
    match above.saturating_mul(10).checked_div(below) {
        Some(tenths) => format!("{}.{}", grouped(tenths / 10), tenths % 10),
        None => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_ratios_have_one_decimal() {
        assert_eq!(
            [0, 999, 1_000, 1_234_567].map(grouped),
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [ratio(25, 10), ratio(29_999, 10), ratio(1, 0)],
            ["2.5", "2,999.9", "-"]
        );
    }
}

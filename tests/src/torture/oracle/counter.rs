//! V3: a counter that many writers increment. Each increment counts once, or its writer learned
//! that the outcome is unknown.

use std::collections::HashSet;

use super::{Flaw, Rewind, era_of};
use crate::torture::history::{Call, Effect, End, Operation};
use crate::torture::moment::Micros;

/// More increments of unknown outcome than can be judged.
const UNKNOWN_MAX: usize = 20;

struct Increment {
    by: i64,
    begun: Micros,
    ended: Micros,
    version: u64,
    value: i64,
    /// The era in which it was acknowledged. None if it was not, or if the acknowledging hot tier
    /// is unknown.
    era: Option<usize>,
}

/// The verdict on a counter.
#[derive(Debug)]
pub enum Verdict {
    /// No flaw.
    Fine,
    /// Too many increments of unknown outcome.
    Undecided,
    /// A flaw.
    Flawed(Flaw),
}

fn increments(operations: &[&Operation], field: &str, rewinds: &[Rewind]) -> Vec<Increment> {
    let of = |operation: &&Operation| {
        let Call::Write { changes, .. } = &operation.call else {
            return None;
        };
        let (_, Effect::Incr(by)) = changes.iter().find(|(name, _)| name == field)? else {
            return None;
        };
        let (begun, ended) = (operation.begun, operation.ended);
        let era = era_of(rewinds, begun, ended);
        match &operation.end {
            End::Acked {
                version, counted, ..
            } => {
                let value = counted.iter().find(|(name, _)| name == field)?.1;
                Some(Increment {
                    by: *by,
                    begun,
                    ended,
                    version: *version,
                    value,
                    era,
                })
            }
            End::Unknown(_) | End::Applied(_) => Some(Increment {
                by: *by,
                begun,
                ended,
                version: 0,
                value: 0,
                era: None,
            }),
            _ => None,
        }
    };
    operations.iter().filter_map(of).collect()
}

/// The sums of all subsets of these.
fn sums(unknown: &[(Micros, i64)]) -> HashSet<i64> {
    let mut sums = HashSet::from([0]);
    for (_, by) in unknown {
        let with: Vec<i64> = sums.iter().map(|sum| sum + by).collect();
        sums.extend(with);
    }
    sums
}

/// Takes away the increments that make up this sum. All are positive.
fn take(unknown: &mut Vec<(Micros, i64)>, sum: i64, until: Micros) -> bool {
    fn pick(left: &[(usize, i64)], sum: i64, picked: &mut Vec<usize>) -> bool {
        if sum == 0 {
            return true;
        }
        let Some(((at, by), rest)) = left.split_first() else {
            return false;
        };
        if *by <= sum {
            picked.push(*at);
            if pick(rest, sum - by, picked) {
                return true;
            }
            picked.pop();
        }
        pick(rest, sum, picked)
    }
    let open: Vec<(usize, i64)> = unknown
        .iter()
        .enumerate()
        .filter(|(_, (begun, _))| *begun <= until)
        .map(|(at, (_, by))| (at, *by))
        .collect();
    let mut picked = Vec::new();
    let found = sum >= 0 && pick(&open, sum, &mut picked);
    if found {
        for at in picked.into_iter().rev() {
            unknown.remove(at);
        }
    }
    found
}

/// Checks one counter. `last` is its stored value after the run, 0 if there is none.
#[must_use]
pub fn check(name: &str, operations: &[&Operation], rewinds: &[Rewind], last: i64) -> Verdict {
    let field = name.rsplit('/').next().unwrap_or_default();
    let all = increments(operations, field, rewinds);
    let mut unknown: Vec<(Micros, i64)> = all
        .iter()
        .filter(|one| one.era.is_none())
        .map(|one| (one.begun, one.by))
        .collect();
    if unknown.len() > UNKNOWN_MAX {
        return Verdict::Undecided;
    }
    let mut bases = vec![0];
    for era in 0..=rewinds.len() {
        let mut acked: Vec<&Increment> = all.iter().filter(|one| one.era == Some(era)).collect();
        acked.sort_by_key(|one| one.version);
        let mut value = None;
        for one in &acked {
            let explained = match value {
                None => {
                    // Increments that were under way when the hot tier came back older may count
                    // again.
                    let open: Vec<_> = unknown
                        .iter()
                        .copied()
                        .filter(|(begun, _)| *begun <= one.ended)
                        .collect();
                    let sums = sums(&open);
                    let base = bases
                        .iter()
                        .find(|base| sums.contains(&(one.value - one.by - **base)));
                    base.is_some_and(|base| {
                        era > 0 || take(&mut unknown, one.value - one.by - base, one.ended)
                    })
                }
                Some(value) => take(&mut unknown, one.value - one.by - value, one.ended),
            };
            if !explained {
                let from = value.map_or_else(
                    || format!("one of {bases:?}"),
                    |value: i64| value.to_string(),
                );
                let detail = format!(
                    "an increment by {} from {from} was answered {} at version {}",
                    one.by, one.value, one.version
                );
                return Verdict::Flawed(Flaw::new("V3", name, detail).at(one.ended));
            }
            value = Some(one.value);
        }
        bases = match (rewinds.get(era), value) {
            (Some(rewind), _) => {
                let row = rewind.rows.get(name);
                let landed = row.map_or(0, |row| row.version);
                let number = row
                    .and_then(|row| std::str::from_utf8(&row.value).ok()?.parse().ok())
                    .unwrap_or(0);
                let later = acked
                    .iter()
                    .filter(|one| one.version > landed)
                    .map(|one| one.value);
                // The value at the beginning of the era, unless an acknowledged increment of the
                // era has landed.
                let began = match acked.first() {
                    None => bases,
                    Some(first) if first.version > landed => vec![first.value - first.by],
                    Some(_) => Vec::new(),
                };
                std::iter::once(number).chain(later).chain(began).collect()
            }
            (None, Some(value)) => vec![value],
            (None, None) => bases,
        };
    }
    let sums = sums(&unknown);
    if bases.iter().any(|base| sums.contains(&(last - base))) {
        return Verdict::Fine;
    }
    let detail = format!(
        "{last} is stored; acknowledged were {bases:?}, of unknown outcome are {unknown:?}"
    );
    Verdict::Flawed(Flaw::new("V3", name, detail))
}

/// Checks the reads: a read never finds less than the increments that were acknowledged before it.
#[must_use]
pub fn check_reads(name: &str, operations: &[&Operation], rewinds: &[Rewind]) -> Option<Flaw> {
    let field = name.rsplit('/').next().unwrap_or_default();
    let acked: Vec<Increment> = increments(operations, field, rewinds)
        .into_iter()
        .filter(|one| one.era.is_some())
        .collect();
    operations.iter().find_map(|read| {
        let (found, _) = super::field::read_of(read, field)?;
        let era = era_of(rewinds, read.begun, read.ended)?;
        let number: i64 = found.unwrap_or("0").parse().ok()?;
        let before = acked
            .iter()
            .filter(|one| one.era == Some(era) && one.ended < read.begun)
            .map(|one| one.value)
            .max()?;
        let detail = format!(
            "a read from {} to {} found {number}; {before} was acknowledged before",
            read.begun, read.ended
        );
        (number < before).then(|| Flaw::new("V4", name, detail).at(read.ended))
    })
}

//! V3: a counter that many increment. Each increment counts once, or its writer was told that
//! nobody knows.

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
    /// In which era it was acknowledged; none if it was not, or if nobody knows by which hot tier.
    era: Option<usize>,
}

/// What was found wrong, or that too much is unknown to tell.
#[derive(Debug)]
pub enum Verdict {
    /// All is well.
    Fine,
    /// Too many increments of unknown outcome.
    Undecided,
    /// Something is wrong.
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

/// All sums of some of these.
fn sums(unknown: &[(Micros, i64)]) -> HashSet<i64> {
    let mut sums = HashSet::from([0]);
    for (_, by) in unknown {
        let with: Vec<i64> = sums.iter().map(|sum| sum + by).collect();
        sums.extend(with);
    }
    sums
}

/// Takes the increments away that make up this sum. All are positive.
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

/// Checks one counter. `last` is what is stored in the end, 0 if nothing is.
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
                // What the era began with, unless something that was acknowledged in it has landed.
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

/// Checks what readers found: never less than what had been acknowledged before.
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

//! From marks to rows: what one landing transaction takes. Pure functions.

use std::collections::HashMap;

use storage_dirty::{Collected, Entry, Fault, Header, Mark, Parked, SnapshotId};
use storage_model::sabotage::broken;
use storage_model::{Field, Owner, Partition, Row, Version};

/// Marks of one partition that are landed together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Part {
    /// The partition.
    pub partition: Partition,
    /// The snapshot that the entries were read from; any in a replay.
    pub snapshot: SnapshotId,
    /// Snapshot entries; or, in a replay, one entry for each error mark.
    pub entries: Vec<Entry>,
    /// Whether the entries are error marks that are tried again.
    pub replay: bool,
}

impl Part {
    /// The owners and fields that the entries name, each once, by owner.
    #[must_use]
    pub fn wanted(&self) -> Vec<(Owner, Vec<Field>)> {
        let mut marks: Vec<&Mark> = self
            .entries
            .iter()
            .filter_map(|entry| entry.mark.as_ref())
            .collect();
        marks.sort_by_key(|mark| &mark.owner);
        marks
            .chunk_by(|a, b| a.owner == b.owner)
            .filter_map(of_owner)
            .collect()
    }
}

/// The fields that the marks of one owner name.
fn of_owner(marks: &[&Mark]) -> Option<(Owner, Vec<Field>)> {
    let (first, others) = marks.split_first()?;
    let mut fields = first.fields.clone();
    if !others.is_empty() {
        fields.extend(others.iter().flat_map(|mark| &mark.fields).cloned());
        fields.sort_unstable();
        fields.dedup();
    }
    Some((first.owner.clone(), fields))
}

/// How many rows an entry may become.
fn weight(entry: &Entry) -> usize {
    entry.mark.as_ref().map_or(1, |mark| mark.fields.len())
}

/// Cuts parts into groups of about `rows` rows each, as even as can be: a transaction of the few
/// that are left over costs as much as one of many. Entries of one owner stay together (R16): its
/// own, those that were put aside, its error marks. An entry that the scan brought twice is kept
/// once (H30).
#[must_use]
pub fn cut(mut parts: Vec<Part>, rows: usize) -> Vec<Vec<Part>> {
    for part in &mut parts {
        // By owner, and then the mark too: error marks of one owner share a name.
        part.entries
            .sort_by(|a, b| (&a.mark, &a.raw).cmp(&(&b.mark, &b.raw)));
        part.entries
            .dedup_by(|later, kept| later.raw == kept.raw && later.mark == kept.mark);
    }
    let all: usize = parts
        .iter()
        .flat_map(|part| &part.entries)
        .map(weight)
        .sum();
    let rows = rows.max(1);
    let enough = all.div_ceil((all.saturating_add(rows / 2) / rows).max(1));
    let (mut groups, mut group, mut taken) = (Vec::new(), Vec::<Part>::new(), 0);
    for Part {
        partition,
        snapshot,
        entries,
        replay,
    } in parts
    {
        for entry in entries {
            let open = group.last_mut().filter(|last| last.partition == partition);
            let together = open
                .as_ref()
                .and_then(|open| open.entries.last())
                .is_some_and(|before| belong(before, &entry));
            let weight = weight(&entry);
            match open {
                Some(open) if taken < enough || together => open.entries.push(entry),
                _ => {
                    if taken >= enough {
                        groups.push(std::mem::take(&mut group));
                        taken = 0;
                    }
                    group.push(Part {
                        partition,
                        snapshot,
                        entries: vec![entry],
                        replay,
                    });
                }
            }
            taken += weight;
        }
    }
    groups.extend((!group.is_empty()).then_some(group));
    groups
}

fn owner(entry: &Entry) -> Option<&Owner> {
    entry.mark.as_ref().map(|mark| &mark.owner)
}

/// Whether two entries go into one transaction in any case.
fn belong(one: &Entry, other: &Entry) -> bool {
    owner(one).is_some() && owner(one) == owner(other) && !broken("R16-cut")
}

/// The rows that a part's marked fields became: of each that the hash holds, under the owner's
/// version that was read with it (R3). By owner and field.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Rows {
    /// The rows.
    pub rows: Vec<Row>,
    /// Of each row, when its owner's hash was born; zero if it does not say.
    pub births: Vec<Version>,
}

/// Pairs what was wanted, as [`Part::wanted`] lists it, with what was read.
#[must_use]
pub fn rows(wanted: &[(Owner, Vec<Field>)], collected: &Collected) -> Rows {
    let mut out = Rows::default();
    for ((owner, _), read) in wanted.iter().zip(&collected.reads) {
        let Some(Header { version, born, .. }) = read.header else {
            continue;
        };
        for (field, cell) in &read.cells {
            out.rows.push(Row {
                owner: owner.clone(),
                field: field.clone(),
                cell: cell.clone(),
                version,
            });
            out.births.push(born);
        }
    }
    out
}

impl Rows {
    /// The version of the row of a field, and when its owner's hash was born; `at` is where it is
    /// looked for first, and becomes the place behind it.
    fn find(&self, owner: &Owner, field: &Field, at: &mut usize) -> Option<(Version, Version)> {
        if self
            .rows
            .get(*at)
            .is_none_or(|row| (&row.owner, &row.field) != (owner, field))
        {
            *at = self
                .rows
                .binary_search_by(|row| (&row.owner, &row.field).cmp(&(owner, field)))
                .ok()?;
        }
        *at += 1;
        Some((self.rows.get(*at - 1)?.version, *self.births.get(*at - 1)?))
    }
}

/// What to do with a part's entries after its rows were landed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// Entries to settle.
    pub settle: Vec<Entry>,
    /// Fields whose rows are in the database, with their rows' versions, if that was asked for.
    pub rows: Vec<(Owner, Field, Version)>,
    /// Entries to park.
    pub park: Vec<Parked>,
}

/// Why single fields did not land: the database's number and message, or a reason of our own.
pub type Faults = HashMap<(Owner, Field), (u32, String)>;

/// Judges each entry by its fields: settled if each has landed, else parked with the faults.
///
/// A marked field has landed if its row has, and the hash that it was read from is the one that was
/// marked: the mark was not put aside, and does not lie below the hash's birth nor above its
/// version (R6). What is missing, or was read from another hash, has vanished. Rows are named only
/// where there are error marks that they may clear.
#[must_use]
pub fn judge(part: &Part, rows: &Rows, faults: &Faults, has_errors: bool) -> Verdict {
    let mut verdict = Verdict {
        settle: Vec::with_capacity(part.entries.len()),
        ..Verdict::default()
    };
    // Entries and rows are both in the order of their owners.
    let mut at = 0;
    for entry in &part.entries {
        let source = || (!part.replay).then(|| entry.clone());
        let Some(mark) = &entry.mark else {
            verdict.park.push(Parked {
                source: source(),
                owner: None,
                faults: vec![],
            });
            continue;
        };
        let mut found = Vec::new();
        for field in &mark.fields {
            let row = rows.find(&mark.owner, field, &mut at);
            let refused = if faults.is_empty() {
                None
            } else {
                faults.get(&(mark.owner.clone(), field.clone()))
            };
            match (refused, row) {
                (Some((code, message)), row) if !entry.is_aside() => {
                    let newest = row
                        .map(|(version, _)| version)
                        .filter(|_| !broken("R5-marks-error"));
                    let version =
                        newest.map_or(entry.version, |version| version.max(entry.version));
                    found.push(Fault {
                        field: field.clone(),
                        version,
                        code: *code,
                        message: message.clone(),
                    });
                }
                (None, Some((version, born))) if is_of(entry, born, version) => {
                    if has_errors || part.replay {
                        verdict
                            .rows
                            .push((mark.owner.clone(), field.clone(), version));
                    }
                }
                _ if broken("R6-unproven") => {}
                _ => found.push(Fault {
                    field: field.clone(),
                    version: entry.version,
                    code: 0,
                    message: VANISHED.to_owned(),
                }),
            }
        }
        if !found.is_empty() {
            verdict.park.push(Parked {
                source: source(),
                owner: Some(mark.owner.clone()),
                faults: found,
            });
        } else if !part.replay {
            verdict.settle.push(entry.clone());
        }
    }
    verdict
}

/// Why a mark is parked whose write nobody has any more.
const VANISHED: &str =
    "vanished: marked, but the hot tier lost the hash of this write, perhaps before it landed";

/// Whether a mark is of the hash that was born and has the version then.
fn is_of(mark: &Entry, born: Version, version: Version) -> bool {
    let of_another = mark.is_aside() || mark.version < born;
    (!of_another || broken("R6-reborn")) && (mark.version <= version || broken("R6-older-row"))
}

#[cfg(test)]
mod tests;
